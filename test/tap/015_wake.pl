# A worker that sleeps whenever it finds nothing takes every job of several writers without once waiting in vain,
# whether the library is loaded with the server or by the sessions.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $waiter = "$FindBin::Bin/../../bench/waiter.py";
my $script = PostgreSQL::Test::Utils::tempdir . '/jobs.sql';
append_to_file($script, <<'SQL');
begin;
insert into jobs default values;
savepoint s;
insert into jobs default values;
rollback to s;
commit;
SQL

for my $preloaded (0, 1)
{
	my $way = $preloaded ? 'preloaded' : 'not preloaded';
	my $node = new_cluster("main$preloaded", conf => $preloaded ? "shared_preload_libraries = 'pawl'\n" : '');
	$node->safe_psql('postgres', <<'SQL');
select pawl.define('job', 'stateDiagram-v2
    [*] --> pending
    pending --> running : start
    running --> pending : expire
    running --> done : finish
    done --> [*]
    running:::owned');
create table jobs (id bigint generated always as identity primary key, state text not null default 'pending',
    worker text, lease timestamptz, token bigint);
select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs', 'state'),
    pawl.enable_queue('jobs', 'state', owner => 'worker', lease => 'lease', token => 'token'),
    pawl.set_claiming('jobs', 'state', claim => array['start'], on_expiry => 'expire'),
    pawl.enable_events('jobs', 'state', events => false, wake => true);
SQL
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	my ($in, $out, $err) = ('', '', '');
	my $worker = IPC::Run::start([ 'python3', $waiter, 'jobs', q{select count(*) from pawl.claim(null::jobs,
		processor => 'w', batch => 10)} ], '<pipe', \*WORKER, '>', \$out, '2>', \$err);
	$node->poll_query_until('postgres', "select count(*) = 1 from pg_locks where locktype = 'advisory' and mode = "
		. "'ShareLock' and granted and classid = 'jobs'::regclass")
		or die 'the worker does not sleep';
	# slow enough for the worker to sleep most of the time
	$node->command_ok([ 'pgbench', '-n', '-f', $script, '-c', '4', '-j', '2', '-R', '300', '-T', '4' ],
		"$way: writers");
	# and once more when all is quiet
	$node->poll_query_until('postgres', "select count(*) = 0 from jobs where state = 'pending'") or die 'jobs are left';
	# each comes when the worker has slept and looked for a while, so it is woken unless the machine stands still
	for (1 .. 20)
	{
		$node->poll_query_until('postgres', q{select count(*) = 1 from pg_locks l join pg_stat_activity a using (pid)
			where l.locktype = 'advisory' and l.mode = 'ShareLock' and l.granted and a.state = 'idle'
			and a.query ~ 'pawl.claim' and a.state_change < clock_timestamp() - interval '30 ms'
			and not exists (select from jobs where state = 'pending')}) or die 'the worker does not sleep again';
		$node->safe_psql('postgres', 'insert into jobs default values');
	}
	$node->poll_query_until('postgres', "select count(*) = 0 from jobs where state = 'pending'") or die 'jobs are left';
	my $jobs = one($node, 'select count(*) from jobs');
	close WORKER;
	ok($worker->finish, "$way: the worker") or diag($err);
	my ($looks, $found, $woken, $late) = split ' ', $out;
	cmp_ok($jobs, '>', 200, "$way: $jobs jobs");
	is($found, $jobs, "$way: all were taken");
	cmp_ok($woken, '>', 10, "$way: woken $woken times");
	is($late, 0, "$way: never too late");
	is(one($node, "select count(*) from pg_locks where locktype = 'advisory'"), 0, "$way: no lock is left");
	sound($node, $way);
	no_crash($node);
}
done_testing();
