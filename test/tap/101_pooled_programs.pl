# pawld and workers through pgbouncer. In transaction mode they poll, and leave nothing in a session that others use; what needs a session
# (a role to act as, the HTTP API, jobs tied to a session) is rejected at start, in words. In session mode everything works.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Pooler;
use Test::More;

my $node = api_cluster('pooled', qw(pawl_dag pawl_bulk));
my $size = 3;
$node->safe_psql('postgres', <<'SQL');
create role keeper login in role pawl_worker;
create role hand login in role pawl_worker;
create role watcher login in role pawl_reader;
create function twice(context jsonb, inputs jsonb) returns jsonb language sql as $$ select jsonb_build_object('twice', 2 * (context ->> 'n')::int) $$;
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : lapse
    ready --> late : wait after 10 ms
    late --> [*]
    done --> [*]
    class running owned');
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz, token bigint not null default 0, due timestamptz);
alter table job owner to keeper;
select pawl.enforce('job', 'state', 'job', history => true, owner => 'owner', lease => 'lease', token => 'token', due => 'due', claim => '{start}', lapse => 'lapse');
SQL
define_template($node, '{"name": "pair", "steps": [{"name": "a", "handler": "sleep"}, {"name": "b", "handler": "sql:public.twice", "dependencies": ["a"]}]}');
my $pooler = Pooler->new($node, mode => 'transaction', size => $size, roles => [qw(keeper hand watcher pawl_authenticator)]);

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

sub says { my ($run, $pattern, $what) = @_; return wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ $pattern }, "$what: $run->{err}") }

# Locks of sessions that sleep, and of transactions that wake them.
sub sleepers { return one($node, "select count(*) from pg_locks where locktype = 'advisory' and objsubid = 7101") }

subtest 'once, for cron' => sub {
	$node->safe_psql('postgres', 'insert into job (id) select generate_series(1, 20)');
	$node->poll_query_until('postgres', 'select bool_and(due <= clock_timestamp()) from job') or die;
	my ($status, $words) = said('keeper', $pooler, 'pawld', '--once');
	is($status, 0, 'ends well') or diag($words);
	is(one($node, "select count(*) from job where state = 'late'"), 20, 'and has done what was due');
};

subtest 'duties and workers' => sub {
	my $daemon = begin_as('keeper', $pooler, 'pawld', '--longest-poll-ms', '200');
	says($daemon, qr/no sleeping.*lane=scheduling.*session_pooler/, 'pawld says that it polls');
	says($daemon, qr/no sleeping.*lane="?sql 1/, 'in every lane');
	my @workers = map { begin_as('hand', $pooler, 'example_worker', 'default', 4, 0.001, 2000) } 1 .. 2;
	says($_, qr/a pooler is between/, 'a worker says that it polls') for @workers;
	start_tasks($node, 'pair', 50);
	ok(all_ended($node, 'pair'), 'every task ends');
	is(one($node, "select string_agg(distinct state, ',') from pawl_dag.tasks"), 'complete', 'all complete');
	is(one($node, "select count(*) from (select from pawl_dag.step_transitions where to_state = 'complete' group by task_uuid, step_uuid having count(*) <> 1) x"), 0,
		'no result is counted twice');
	$node->safe_psql('postgres', "delete from job; insert into job (id) select generate_series(101, 120); select count(*) from pawl.claim(null::job, 'start', 'lost', '1 ms', 20)");
	ok($node->poll_query_until('postgres', "select bool_and(state = 'late') from job"), 'leases expire and timers fire');
	is(sleepers(), 0, 'no session of the pool holds the lock of one who sleeps');
	is(one($node, "select count(*) <= 2 * $size from pg_stat_activity where usename in ('keeper', 'hand') and backend_type = 'client backend'"), 't', 'the pool is what works');
	is(end_program($_, 'TERM'), 0, 'a worker drains') for @workers;
	is(end_program($daemon, 'TERM'), 0, 'and pawld');
	my @again = $daemon->{err} =~ /no sleeping/g;
	is(scalar @again, 2, 'it is said once a lane');
};

subtest 'what needs a session' => sub {
	my ($status, $words) = said('keeper', $pooler, 'pawld', '--role', 'pawl_worker');
	is($status, 1, 'a role to act as is rejected');
	like($words, qr/^pawld: the setting role cannot be used through a pooler of transactions$/m, 'in words');
	like($words, qr/^HINT:.*ALTER ROLE.*session_pooler/m, 'with what to do');
	($status, $words) = said('keeper', $pooler, 'pawld', '--once', '--role', 'pawl_worker');
	is($status, 1, 'from cron, too');
	like($words, qr/through a pooler of transactions/, 'in words');
	is($pooler->ask('select current_user', '-U', 'keeper'), 'keeper', 'and no session of the pool has become another role') for 1 .. 2 * $size;
	($status, $words) = said('keeper', $pooler, 'pawld', '--api', '127.0.0.1:0', '--api-database', 'user=pawl_authenticator');
	is($status, 1, 'the HTTP API is rejected');
	like($words, qr/^pawld: the HTTP API cannot be used through a pooler of transactions$/m, 'in words');
	like($words, qr/^HINT:.*api_database.*session_pooler/m, 'with what to do');
};

subtest 'the API beside the pooler' => sub {
	my $token = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
	local $PawlPrograms::as = 'keeper';
	local $PawlPrograms::through = $pooler->through;
	my $api = begin_api($node, '--api-database', 'user=pawl_authenticator host=' . $node->host);
	is(ask('GET', '/api/session', token => $token)->{status}, 200, 'answers over connections of its own, while the duties are pooled');
	is(end_program($api->{run}, 'TERM'), 0, 'pawld ends');
};

subtest 'a pooler that comes later' => sub {
	my $late = Pooler->new($node, mode => 'transaction', size => $size, roles => ['pawl_authenticator']);
	my $way = $late->through;
	$late->end;
	my $daemon = begin_program($node, 'pawld', '--api', '127.0.0.1:0', '--api-database', "user=pawl_authenticator host=$way->[0]");
	says($daemon, qr/serving the API port=\d+/, 'the API begins without its database');
	my ($port) = $daemon->{err} =~ /serving the API port=(\d+)/;
	$late->begin;
	my $body = '';
	ok(wait_until(sub { (my $status, $body) = http_get($port, '/readyz'); $status == 503 && $late->log =~ /login attempt/ }, 'the API meets the pooler'), 'is not ready');
	my (undef, $answer) = http_get($port, '/api/session?token=x');
	unlike($answer, qr/prepared statement/, 'and no request gets as far as another session');
	is(end_program($daemon, 'TERM'), 0, 'pawld ends');
};

subtest 'a pooler of sessions' => sub {
	my $sessions = Pooler->new($node, mode => 'session', size => 20, roles => [qw(keeper pawl_authenticator)]);
	my $token = make_token($node, 'pawl_operator', 'olga', '{read,operate}');
	local $PawlPrograms::as = 'keeper';
	local $PawlPrograms::through = $sessions->through;
	my $api = begin_api($node, '--session-pooler', 'true', '--role', 'pawl_worker');
	is(ask('GET', '/api/session', token => $token)->{status}, 200, 'serves the API');
	ok($node->poll_query_until('postgres', "select count(*) > 0 from pg_locks where locktype = 'advisory' and objsubid = 7101"), 'lets pawld sleep');
	is(end_program($api->{run}, 'TERM'), 0, 'pawld ends');
	unlike($api->{run}{err}, qr/no sleeping/, 'and had nothing to complain of');
};

sound($node, 'through poolers');
no_crash($node);
done_testing();
