# Processes killed in the middle: after recovery rows and logs agree, and nothing is half attached.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', conf => "log_min_messages = log\n");
$node->safe_psql('postgres', <<'SQL');
select pawl.define('m', 'stateDiagram-v2
    [*] --> new
    new --> used : use
    used --> new : renew
    used --> worn : wear
    worn --> [*]');
create table stored (id int primary key, state text not null default 'new');
create table derived (id int primary key, state text not null default 'new');
create table parted (id int, state text not null default 'new', primary key (id, state)) partition by list (state);
create table parted_new partition of parted for values in ('new');
create table parted_old partition of parted default;
create table plain (id int primary key, state text not null default 'new');
select pawl.enforce('stored', 'state', 'm'),
    pawl.enable_log('stored', 'state', most_recent => 'stored', hash_chain => true);
select pawl.enforce('derived', 'state', 'm'), pawl.enable_log('derived', 'state');
select pawl.enforce('parted', 'state', 'm'), pawl.enable_log('parted', 'state', most_recent => 'stored');
insert into stored select g from generate_series(1, 20000) g;
insert into derived select g from generate_series(1, 20000) g;
insert into parted select g from generate_series(1, 20000) g;
insert into plain select g from generate_series(1, 20000) g;
SQL

sub killed
{
	my ($what, $statement, $underway) = @_;
	# waits for a condition of the middle of the statement; if it should come to its end
	# before it is killed, it has still not committed
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query('select pg_backend_pid()');
	$session->query_until(qr/started/, "\\echo started\nbegin; $statement;\n");
	$node->poll_query_until('postgres', $underway =~ s/PID/$pid/r) or die "$what did not get going";
	is(kill('KILL', $pid), 1, "$what: killed in the middle");
	wait_until(sub { slurp_file($node->logfile) =~ /\(PID $pid\) was terminated by signal 9/ },
		'the postmaster to notice');
	$node->poll_query_until('postgres', 'select true');
	wait_until(sub { is_ready($node) }, 'the recovery');
	eval { $session->quit };
	return;
}

my %size = map { $_ => one($node, "select pg_relation_size('$_')") }
	qw(stored_transitions derived_transitions_log parted_transitions);
for my $case (['stored', 'stored_transitions'], ['derived', 'derived_transitions_log'], ['parted', 'parted_old'])
{
	my ($table, $grows) = @$case;
	my $size = $size{$grows} // 0;
	killed("UPDATE of $table", "update $table set state = 'used'",
		"select pg_relation_size('$grows') > $size + 500000");
	is(one($node, "select count(*) from $table where state <> 'new'"), 0, "$table: nothing of it remains");
	is(one($node, "select * from pawl.verify('$table')"), '', "$table: nor of its log");
	accepted($node, "update $table set state = 'used' where id % 10 = 0", "$table: and it goes on");
	is(one($node, "select * from pawl.verify('$table')"), '', "$table: logged without a gap");
}
sound($node, 'after three crashes');

# In the middle of attaching and of upgrading.
my $catalog = q(select (select count(*) from pawl.binding), (select count(*) from pg_trigger where tgname ~ 'pawl'),
    (select count(*) from pg_class where relname ~ 'transitions'), (select sum(version) from pawl.binding));
my $before = one($node, $catalog);
killed('enforce', "select pawl.enforce('plain', 'state', 'm'), pawl.enable_log('plain', 'state', most_recent => "
	. "'stored', hash_chain => true)",
	# it has made the log, which no other session can see yet
	"select count(*) > 0 from pg_locks l where pid = PID and locktype = 'relation' and mode = 'AccessExclusiveLock' "
	. "and not exists (select from pg_class c where c.oid = l.relation)");
is(one($node, $catalog), $before, 'enforce: nothing is half attached');
accepted($node, "update plain set state = 'anything' where id = 1; update plain set state = 'new' where id = 1",
	'enforce: the table is as free as before');
sound($node, 'after a crash in enforce');
accepted($node,
	"select pawl.enforce('plain', 'state', 'm'), pawl.enable_log('plain', 'state', most_recent => 'stored')",
	'enforce: again, and this time to the end');
$node->safe_psql('postgres', "select pawl.define('m', 'stateDiagram-v2
    [*] --> fresh
    fresh --> used : use
    used --> worn : wear
    worn --> [*]')");
$before = one($node, $catalog);
killed('upgrade', q(select pawl.upgrade('plain', remap => '{"new": "fresh"}')),
	"select pg_relation_size('plain_transitions') > "
	. (one($node, "select pg_relation_size('plain_transitions')") + 1000000));
is(one($node, $catalog), $before, 'upgrade: the old version is enforced');
is(one($node, "select count(*) from plain where state <> 'new'"), 0, 'upgrade: no row was remapped');
rejected($node, "update plain set state = 'fresh' where id = 1", 'PW001', 'upgrade: and is validated by it');
sound($node, 'after a crash in upgrade');
is(one($node, q(select pawl.upgrade('plain', remap => '{"new": "fresh"}'))), 2,
	'upgrade: again, and this time to the end');
sound($node, 'after the upgrade');

# Prepared transactions outlive a restart and a crash; their log is in them.
$node->safe_psql('postgres', <<'SQL');
begin; update derived set state = 'used' where id in (1, 2); update derived set state = 'worn' where id = 2;
insert into stored values (200001); prepare transaction 'one';
begin; update derived set state = 'used' where id = 3; delete from stored where id = 7; prepare transaction 'two';
begin; update parted set state = 'used' where id = 5; savepoint a; update parted set state = 'worn' where id = 5;
rollback to a; prepare transaction 'three';
SQL
$node->restart;
$node->safe_psql('postgres', "commit prepared 'one'");
is(one($node, "select string_agg(to_state, ' ' order by subject_id, sort_key) from derived_transitions_log where "
	. "subject_id in (1, 2)"),
	'new used new used worn', 'a prepared transaction commits its log after a restart');
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', "rollback prepared 'two'; commit prepared 'three'");
is(one($node, "select state from derived where id = 3"), 'new', 'one that is rolled back leaves no row');
is(one($node, "select string_agg(to_state, ' ' order by sort_key) from parted_transitions where subject_id = 5"),
	'new used', 'nor a savepoint in a prepared one');
sound($node, 'after prepared transactions');

# The postmaster is killed under load from many sessions.
my $script = PostgreSQL::Test::Utils::tempdir . '/load.sql';
append_to_file($script, <<'SQL');
\set id random(1, 500)
\set other random(1, 500)
begin;
update stored set state = case state when 'new' then 'used' else 'new' end where id = :id and state in ('new', 'used');
update parted set state = case state when 'new' then 'used' else 'new' end where id = :id and state in ('new', 'used');
commit;
update derived set state = case state when 'new' then 'used' else 'new' end
    where id = :other and state in ('new', 'used');
insert into stored_transitions (subject_id, to_state) select id, case state when 'new' then 'used' else 'new' end
    from stored where id = :other and state <> 'worn' for update;
SQL
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
my $complaints = '';
my $load = IPC::Run::start(['pgbench', '-n', '-f', $script, '-c', '6', '-j', '2', '-T', '600', 'postgres'], '>',
	'/dev/null', '2>', \$complaints);
my $done = one($node, 'select max(sort_key) from derived_transitions_log');
$node->poll_query_until('postgres', "select max(sort_key) > $done + 6 from derived_transitions_log")
	or do { IPC::Run::pump_nb($load); die "the load stands still: $complaints" };
kill_server($node);
$load->finish;
$node->start;
is(one($node, 'select max(sort_key) > 6 from derived_transitions_log'), 't', 'the postmaster was killed under load');
sound($node, 'after the postmaster was killed');
is(one($node, "select count(*) from pg_prepared_xacts"), 0, 'nothing is left open');
accepted($node, "update stored set state = 'used' where id = (select id from stored where state = 'new' limit 1)",
	'and work goes on');

# We sent every signal that killed a process ourselves.
my @others = grep { /terminated by signal (?!9:)|PANIC:|TRAP:/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @others), '', 'no process died but those that were killed');
done_testing();
