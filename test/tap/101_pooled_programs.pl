# pawld and workers through pgbouncer. With pooler = transaction they poll, and leave nothing in a session that others
# use; what needs a session (a role to act as, the HTTP API, jobs tied to a session) is rejected at start. With pooler =
# session everything works. A pooler that the settings do not name is noticed: programs poll, and reject the same.
use strict;
use warnings;
use FindBin;
use HTTP::Tiny;
use IPC::Run;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Pooler;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = api_cluster('pooled', qw(pawl_dag pawl_bulk pawl_saga));
my $size = 3;
$node->safe_psql('postgres', <<'SQL');
create role keeper login in role pawl_operator, pawl_worker;
create role laborer login in role pawl_worker;
create function twice(context jsonb, inputs jsonb) returns jsonb language sql
    as $$ select jsonb_build_object('twice', 2 * (context ->> 'n')::int) $$;
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : expire
    ready --> late : wait after 10 ms
    late --> [*]
    done --> [*]
    class running owned');
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz);
alter table job owner to keeper;
set client_min_messages = error;
select pawl.enforce('job', 'state', 'job');
select pawl.enable_log('job');
select pawl.enable_queue('job', owner => 'owner', lease => 'lease', token => 'token');
select pawl.enable_timers('job', due => 'due');
select pawl.set_claiming('job', claim => '{start}', on_expiry => 'expire');
reset client_min_messages;
SQL
define_template($node, '{"name": "pair", "steps": [{"name": "a", "handler": "sleep"},
    {"name": "b", "handler": "sql:public.twice", "dependencies": ["a"]}]}');
my $pooler = Pooler->new($node, mode => 'transaction', size => $size, roles => [qw(keeper laborer pawl_authenticator)]);

sub begin_as
{
	my ($role, $way, @program) = @_;
	local $PawlPrograms::as = $role;
	local $PawlPrograms::through = $way->through;
	return begin_program($node, @program);
}

# What a program says before it ends by itself: its exit status, its words.
sub said
{
	my $run = begin_as(@_);
	my $status = end_program($run);
	return ($status, $run->{err});
}

sub says
{
	my ($run, $pattern, $what) = @_;
	return wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ $pattern }, "$what: $run->{err}");
}

# Sessions that wait for notifications: they hold these locks, in share mode.
my $waiting_locks = "select * from pg_locks where locktype = 'advisory' and objsubid = 7101 and mode = 'ShareLock'";

my @transaction = ('--pooler', 'transaction');
my $polls = qr/a pooler is between this program and the server, and the setting pooler is \W*none/;

# pawld with a role to act as ends, and leaves the role to no session of the pool. The settings do not name the pooler.
sub is_rejected
{
	my ($way, $what, @more) = @_;
	my ($status, $words) = said('keeper', $way, 'pawld', '--role', 'pawl_operator', @more);
	is($status, 1, "$what: a role to act as is rejected");
	like($words, qr/the setting role cannot be used through a pooler that the settings do not name/,
		'the message says why');
	like($words, qr/HINT:.*Set pooler to "session" if the pooler is in session mode/, 'and the hint what to do');
	is($way->ask('select current_user', '-U', 'keeper'), 'keeper', 'no session of the pool has become another role')
		for 1 .. 2 * $size;
	return;
}

subtest 'once, for cron' => sub {
	$node->safe_psql('postgres', 'insert into job (id) select generate_series(1, 20)');
	$node->poll_query_until('postgres', 'select bool_and(due <= clock_timestamp()) from job') or die;
	my ($status, $words) = said('keeper', $pooler, 'pawld', '--once', @transaction);
	is($status, 0, 'the worker ends with 0 behind a pooler') or diag($words);
	is(one($node, "select count(*) from job where state = 'late'"), 20, 'and has done what was due');
};

subtest 'duties and workers' => sub {
	local $ENV{PAWL_POOLER} = 'transaction';
	my $daemon = begin_as('keeper', $pooler, 'pawld', '--longest-poll-ms', '200', @transaction);
	my @workers = map { begin_as('laborer', $pooler, 'example_worker', 'default', 4, 0.001, 20_000) } 1 .. 2;
	start_tasks($node, 'pair', 50);
	ok(all_ended($node, 'pair'), 'every task ends')
		or diag(one($node, "select string_agg(concat_ws(' ', name, state, owner, last_error), '; ')
			from (select * from pawl_dag.steps where state <> 'complete' limit 5) s"));
	is(one($node, "select string_agg(distinct state, ',') from pawl_dag.tasks"), 'complete',
		'every task is complete behind a pooler');
	is(one($node, "select count(*) from (select from pawl_dag.step_transitions where to_state = 'complete'
		group by task_uuid, step_uuid having count(*) <> 1) x"), 0, 'no result is counted twice');
	$node->safe_psql('postgres', "delete from job; insert into job (id) select generate_series(101, 120);
		select count(*) from pawl.claim(null::job, 'start', 'lost', '1 ms', 20)");
	ok($node->poll_query_until('postgres', "select bool_and(state = 'late') from job"),
		'leases expire and timers fire');
	is(one($node, "select count(*) from ($waiting_locks) l"), 0,
		'no session of the pool holds the lock of a waiting session');
	is(one($node, "select count(*) <= 2 * $size from pg_stat_activity
		where usename in ('keeper', 'laborer') and backend_type = 'client backend'"), 't', 'they share the pools');
	is(end_program($_, 'TERM'), 0, 'a worker drains') for @workers;
	is(end_program($daemon, 'TERM'), 0, 'pawld ends with 0 after SIGTERM when its settings name the pooler');
	unlike($_->{err}, qr/pooler/, 'it was told, so it has nothing to say of the pooler') for $daemon, @workers;
};

subtest 'a pooler that the settings do not name' => sub {
	my $daemon = begin_as('keeper', $pooler, 'pawld', '--longest-poll-ms', '200');
	says($daemon, qr/polling only.*lane="?scheduling.*$polls/, 'pawld says that it polls');
	says($daemon, qr/polling only.*lane="?sql 1/, 'in every lane');
	my $worker = begin_as('laborer', $pooler, 'example_worker', 'default', 4, 0.001, 20_000);
	says($worker, $polls, 'a worker says that it polls');
	$node->safe_psql('postgres', q{select pawl_dag.start_tasks('pair',
		array(select jsonb_build_object('n', n) from generate_series(101, 105) n))});
	ok(all_ended($node, 'pair'), 'every task ends');
	is(one($node, "select count(*) from ($waiting_locks) l"), 0,
		'no session of the pool holds the lock of a waiting session');
	is(end_program($worker, 'TERM'), 0, 'the worker drains');
	is(end_program($daemon, 'TERM'), 0, 'pawld ends with 0 after SIGTERM when its settings name no pooler');
	my @again = $daemon->{err} =~ /polling only/g;
	is(scalar @again, 2, 'it is said once a lane');
};

subtest 'what needs a session' => sub {
	is_rejected($pooler, 'an idle pool');
	is_rejected($pooler, 'once', '--once');
	my ($status, $words) = said('keeper', $pooler, 'pawld', @transaction, '--role', 'pawl_operator', '--check');
	is($status, 2, 'with pooler = transaction the settings themselves are wrong');
	like($words, qr/^pawld: role cannot be used with pooler = transaction.*ALTER ROLE/, 'the message says why');
	($status, $words) = said('keeper', $pooler, 'pawld', @transaction, '--api', '127.0.0.1:0', '--check');
	is($status, 2, 'so is the HTTP API on such a connection');
	like($words, qr/^pawld: api cannot be used with pooler = transaction.*api_database/, 'the message says why');
	my @api = ('--api', '127.0.0.1:0', '--api-database', 'user=pawl_authenticator');
	($status, $words) = said('keeper', $pooler, 'pawld', @transaction, @api);
	is($status, 1, 'also on a way of its own that is not as the settings say');
	like($words, qr/^pawld: the HTTP API cannot be used through a pooler that the settings do not name$/m,
		'the message says why');
	like($words, qr/^HINT:.*api_database/m, 'and the hint what to do');
	($status, $words) = said('keeper', $pooler, 'pawld', @api, '--api-pooler', 'transaction');
	is($status, 2, 'a pooler in transaction mode is no value of api_pooler');
	for my $setting ([ 'transaction', 'in transaction mode' ], [ 'none', 'that the settings do not name' ])
	{
		local $ENV{PAWL_POOLER} = $setting->[0];
		($status, $words) = said('laborer', $pooler, 'example_conductor', 0);
		is($status, 1, "pooler = $setting->[0]: a conductor whose jobs are tied to its session is rejected");
		like($words, qr/the setting tied cannot be used through a pooler $setting->[1]/, 'the message says why');
	}
	is(one($node, "select count(*) from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock'"), 0,
		'and no session of the pool holds a lock of it');
};

# The proof must not depend on which session an idle pool gives next.
subtest 'pools of every kind' => sub {
	my $turns = Pooler->new($node, mode => 'transaction', size => $size, roles => ['keeper'],
		settings => 'server_round_robin = 1');
	is_rejected($turns, 'sessions in turn');
	my $file = $pooler->folder . '/busy.sql';
	append_to_file($file, "select pg_sleep(0.002);\n" x 500_000);
	my @psql = ('psql', '-XAtq', '-h', $pooler->folder, '-p', $pooler->port, '-U', 'keeper', '-d', 'postgres');
	my @quiet = ('<', '/dev/null', '>', '/dev/null', '2>', '/dev/null');
	my @busy = map { IPC::Run::start([ @psql, '-f', $file ], @quiet) } 1 .. 2 * $size;
	ok($node->poll_query_until('postgres',
		"select count(*) = $size from pg_stat_activity where usename = 'keeper' and query ~ '^select pg_sleep'"),
		'others use all sessions');
	is_rejected($pooler, "a busy pool, time $_") for 1 .. 3;
	$_->kill_kill for @busy;
};

subtest 'the API beside the pooler' => sub {
	my $token = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
	my @api = ('--api', '127.0.0.1:0', '--api-database', 'user=pawl_authenticator host=' . $node->host);
	my $daemon = begin_as('keeper', $pooler, 'pawld', @transaction, @api);
	says($daemon, qr/serving the API port=\d+/, 'pawld serves the API');
	my ($port) = $daemon->{err} =~ /serving the API port=(\d+)/;
	my %how = (headers => { Authorization => "Bearer $token" });
	my $got = HTTP::Tiny->new->get("http://127.0.0.1:$port/v1/session", \%how);
	is($got->{status}, 200, 'requests are answered over connections of its own') or diag($got->{content});
	is(end_program($daemon, 'TERM'), 0, 'pawld that serves the API beside a pooler ends with 0 after SIGTERM');
};

subtest 'a pooler that comes later' => sub {
	my $late = Pooler->new($node, mode => 'transaction', size => $size, roles => ['pawl_authenticator']);
	my $way = $late->through;
	$late->end;
	my @api = ('--api', '127.0.0.1:0', '--api-database', "user=pawl_authenticator host=$way->[0]");
	my $daemon = begin_program($node, 'pawld', @api);
	says($daemon, qr/serving the API port=\d+/, 'the API begins without its database');
	my ($port) = $daemon->{err} =~ /serving the API port=(\d+)/;
	$late->begin;
	my $token = make_token($node, 'pawl_operator', 'oskar', '{read,operate}');
	my %how = (headers => { Authorization => "Bearer $token" });
	my $got;
	wait_until(sub { ($got = HTTP::Tiny->new->get("http://127.0.0.1:$port/v1/session", \%how))->{content} =~ /0A000/ },
		'the API meets the pooler');
	is($got->{status}, 503, 'requests are answered 503') or diag($got->{content});
	like($got->{content}, qr/a pooler that the settings do not name is between pawld and the database/,
		'with the reason');
	is((http_get($port, '/readyz'))[0], 503, 'and pawld is not ready');
	is($late->ask("select count(*) from pg_prepared_statements", '-U', 'pawl_authenticator'), 0,
		'no session of the pool has statements of the API');
	is(end_program($daemon, 'TERM'), 0, 'pawld behind an unnamed pooler ends with 0 after SIGTERM');
};

subtest 'session mode' => sub {
	my $token = make_token($node, 'pawl_operator', 'olga', '{read,operate}');
	# of two sessions pawld's lanes need both
	for my $sessions (20, 2)
	{
		my @setting = ('--pooler', 'session', '--api-pooler', 'session');
		my $way = Pooler->new($node, mode => 'session', size => $sessions, roles => [qw(keeper pawl_authenticator)]);
		local $PawlPrograms::as = 'keeper';
		local $PawlPrograms::through = $way->through;
		my $api = begin_api($node, '--role', 'pawl_operator', @setting);
		is(ask('GET', '/v1/session', token => $token)->{status}, 200,
			"pool of $sessions: the API is served");
		ok($node->poll_query_until('postgres', "select count(distinct pid) = 2 from ($waiting_locks) l"),
			'both lanes wait for notifications');
		is(end_program($api->{run}, 'TERM'), 0, 'pawld with the HTTP API ends with 0 after SIGTERM');
		unlike($api->{run}{err}, qr/polling only/, 'and had no reason to poll');
	}
	my $unnamed = Pooler->new($node, mode => 'session', size => 5, roles => ['keeper']);
	is_rejected($unnamed, 'session mode without its setting');
};

sound($node, 'through poolers');
no_crash($node);
done_testing();
