# The daemon and workers as real programs: killed, drained, cut off from the database.
# Every task ends, every result counts once.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use IO::Select;
use Socket;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag' ]);

# a -> (b, c, d: SQL) -> e; attempts enough for everything that is done to the workers
my $retry = '"retry": {"max_attempts": 50, "backoff_base_ms": 20, "max_backoff_ms": 100}';
sub step
{
	my ($name, $handler, @parents) = @_;
	my $list = join(', ', map { qq("$_") } @parents);
	return qq({"name": "$name", "handler": "$handler", "handler_options": {"seconds": 20}, "dependencies": )
		. qq([$list], $retry});
}
define_template($node,
	'{"name": "diamond", "steps": [' . join(', ', step('a', 'sleep'), step('b', 'sleep', 'a'), step('c', 'sleep', 'a'),
	step('d', 'sql:public.twice', 'a'), step('e', 'sleep', 'b', 'c', 'd')) . ']}');
$node->safe_psql('postgres', <<'SQL');
create table called (task int);
create function twice(context jsonb, inputs jsonb) returns jsonb language plpgsql as $$
begin
    insert into public.called values ((context ->> 'n')::int);
    return jsonb_build_object('twice', 2 * (context ->> 'n')::int, 'parents',
        (select jsonb_agg(k) from jsonb_object_keys(inputs) k));
end $$;
SQL
my $tasks = 300;  # more than are done before the last accident
start_tasks($node, 'diamond', $tasks);

my $daemon = begin_program($node, 'pawld', '--http', '127.0.0.1:0', '--log-format', 'json', '--longest-poll-ms', '200',
	'--gauges-ms', '100');
my @workers = map { begin_program($node, 'example_worker', 'default', 4, 0.001, 600) } 1 .. 2;
wait_until(sub { $daemon->{harness}->pump_nb; $daemon->{err} =~ /"port":(\d+)/ }, 'the port of pawld');
my ($port) = $daemon->{err} =~ /"port":(\d+)/;
becomes(sub { (http_get($port, '/readyz'))[0] }, 200, '/readyz says ok');

sub results
{
	return one($node, "select count(*) from pawl_dag.step_transitions where to_state = 'enqueued_for_orchestration'")
}
wait_until(sub { results() >= 20 }, 'the first results');
kill_program($workers[0]);
my $at_kill = results();
push @workers, begin_program($node, 'example_worker', 'default', 4, 0.001, 600);
wait_until(sub { results() >= $at_kill + 20 }, 'results after the kill');

$node->stop('immediate');
becomes(sub { (http_get($port, '/readyz'))[0] }, 503, '/readyz says no while the database is down');
is((http_get($port, '/healthz'))[0], 200, 'but it is alive');
$node->start;
ok(all_ended($node, 'diamond'), 'every task ends, with one worker killed and the database gone for a while');
wait_until(sub { (http_get($port, '/readyz'))[0] == 200 }, 'pawld ready again');

is(one($node, "select string_agg(distinct state, ',') from pawl_dag.tasks"), 'complete', 'every task is complete');
is(one($node, "select count(*) from pawl_dag.steps where result is null"), '0', 'every step has a result');
is(one($node, "select count(*) from (select from pawl_dag.step_transitions where to_state = 'complete' group by "
	. "task_uuid, step_uuid having count(*) <> 1) x"),
	'0', 'no result is counted twice');
is(one($node, "select count(*) from called"), $tasks, 'what a SQL step writes is written once');
is(one($node, "select count(*) from pawl_dag.steps where name = 'd' and result <> jsonb_build_object('twice', (result "
	. "-> 'twice'), 'parents', '[\"a\"]'::jsonb)"),
	'0', 'a SQL step reads the results of its parents');
is(one($node, <<'SQL'), '0', 'no step begins before its parents are complete');
select count(*) from pawl_dag.edges e
  join pawl_dag.step_transitions p on p.task_uuid = e.task_uuid and p.step_uuid = e.parent_uuid
      and p.to_state = 'complete'
  join pawl_dag.step_transitions c on c.task_uuid = e.task_uuid and c.step_uuid = e.child_uuid
      and c.to_state = 'in_progress'
 where c.created_at < p.created_at
SQL
my ($status, $metrics) = http_get($port, '/metrics');
is($status, 200, 'GET /metrics answers with status 200');
like($metrics, qr/^pawld_duty_rows_total\{duty="run_sql_steps"\} [1-9]/m, 'and counts what duties did');
like($metrics, qr/^pawld_connects_total\{lane="scheduling"\} [2-9]/m, '/metrics counts the connections of a lane');
like($metrics, qr/^pawld_connected\{lane="scheduling"\} 1$/m, 'and knows of the connection');
is((http_get($port, '/nothing'))[0], 404, 'and has nothing else');

# Not two of them on one port: clients would get the answers of either.
for my $option ('--http', '--api')
{
	my $second = begin_program($node, 'pawld', $option, "127.0.0.1:$port");
	is(end_program($second), 1, "a second pawld does not start on the same port: $option");
	like($second->{err}, qr/cannot listen on 127\.0\.0\.1:$port: Address already in use/, 'and says why');
}

# A database without the extension.
{
	my $once = begin_program($node, 'pawld', '--database', 'dbname=template1', '--once');
	is(end_program($once), 1, 'without the extension --once fails');
	like($once->{err}, qr/the database does not fit.*template1.*the extension pawl is not installed/, 'and says why');
}

# Slow clients, and heads without end.
{
	my @slow = map {
		my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die $!;
		print $socket "GET /healthz HTTP/1.1\r\nX: ";
		$socket
	} 1 .. 30;
	is((http_get($port, '/healthz'))[0], 200, 'slow clients do not hold up /healthz');
	local $SIG{PIPE} = 'IGNORE';
	my $long = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die $!;
	print $long "GET /healthz HTTP/1.1\r\nX: " . 'a' x 20_000;
	like(do { local $/; <$long> } // '', qr{^HTTP/1.1 431}, 'a header that is too long is rejected');
	wait_until(sub { sysread($slow[0], my $said, 1000) }, 'the server to lose its patience');
}
is(end_program($workers[$_], 'TERM'), 0, "worker $_ drains and ends well") for 1, 2;

# Gauges: what is not claimed, what is claimed, what waits for a decision.
define_template($node,
	'{"name": "unserved", "namespace": "unserved", "steps": [{"name": "s"}, {"name": "t", "dependencies": ["s"]}]}');
$node->safe_psql('postgres', q{select pawl_dag.start_tasks('unserved', array(select jsonb_build_object('n', g)
	from generate_series(1, 7) g), 'unserved')});
sub gauge
{
	my ($name) = @_;
	my (undef, $text) = http_get($port, '/metrics');
	my ($value) = $text =~ /^\Q$name\E (\S+)$/m;
	return $value // 'none' }
becomes(sub { gauge('pawl_queue_claimable{relation="pawl_dag.steps",queue="unserved"}') }, 7,
	'/metrics knows how deep a queue is');
cmp_ok(gauge('pawl_queue_oldest_seconds{relation="pawl_dag.steps",queue="unserved"}'), '>', 0, 'and how old');
is(one($node, q{select count(*) from pawl.claim(null::pawl_dag.steps, 'Start', gen_random_uuid()::text, '1 hour', 3,
	'unserved')}), '3', 'three are claimed');
wait_until(sub { gauge('pawl_owned_rows{relation="pawl_dag.steps"}') eq '3' }, 'three owned steps');
is(gauge('pawl_queue_claimable{relation="pawl_dag.steps",queue="unserved"}'), '4',
	'owned rows are no longer claimable');
is(gauge('pawl_owners{relation="pawl_dag.steps"}'), '1', '/metrics shows one owner of steps');
is(gauge('pawl_leases_expired{relation="pawl_dag.steps"}'), '0', 'no lease has expired');
$node->safe_psql('postgres',
	q{select pawl_dag.cancel_tasks(array(select task_uuid from pawl_dag.tasks where name = 'unserved'), 'gauged')});
wait_until(sub { gauge('pawl_owned_rows{relation="pawl_dag.steps"}') eq 'none' }, 'nothing owned');
is(gauge('pawl_dag_dead_letters'), '0', 'no dead letters');

# A drain: what runs is finished, what only waits is given back.
define_template($node,
	qq({"name": "slow", "steps": [{"name": "s", "handler": "sleep", "handler_options": {"seconds": 700}, $retry}]}));
start_tasks($node, 'slow', 40);
my $worker = begin_program($node, 'example_worker', 'default', 2, 0.001, 60000);
ok($node->poll_query_until('postgres', "select count(*) filter (where s.state = 'in_progress') >= 3 "
	. "and count(s.result) > 0 from pawl_dag.tasks t join pawl_dag.steps s using (task_uuid) where t.name = 'slow'"),
	'a worker has more than it runs, and its handlers run');
is(end_program($worker, 'TERM'), 0, 'it ends on SIGTERM');
my ($done, $failed) = $worker->{out} =~ /^(\d+) succeeded, (\d+) failed, 0 dropped/m;
cmp_ok($done // 0, '>=', 2, 'what ran is finished');
is($failed, 0, 'nothing is cut off');
is(one($node, "select count(*) from pawl_dag.steps where state = 'in_progress'"), '0',
	'no step stays with an owner that is gone');
is(one($node, "select count(*) from pawl_dag.tasks t join pawl_dag.steps s using (task_uuid) where t.name = 'slow' "
	. "and s.result is not null"),
	$done, 'the results are in the database');

# its connection is new, so it looks for duties at once
$node->safe_psql('postgres', "create extension pawl_saga; "
	. "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pawld scheduling'");
wait_until(sub { $daemon->{harness}->pump_nb;
		2 == (() = $daemon->{err} =~ /duty found[^\n]*"duty":"time_out_tasks"/g) },
	'pawld to find the duties of a pack that comes later, also one of the name of another');
is(end_program($daemon, 'TERM'), 0, 'pawld drains and ends well');
like($daemon->{err}, qr/"event":"no connection".*"event":"connected"/s, 'its log reports the loss and the return');
is(scalar(grep { !/^\{.*\}$/ } split /\n/, $daemon->{err}), 0, 'every line of the log is a JSON object');

# For cron: what there is to do now, and nothing is waited for.
define_template($node, '{"name": "sql", "steps": [{"name": "one", "handler": "sql:public.twice"}, '
	  . '{"name": "two", "handler": "sql:public.twice", "dependencies": ["one"]}, '
	  . '{"name": "three", "handler": "sql:public.nothing", "dependencies": ["two"]}]}');
start_tasks($node, 'sql', 5);
is(end_program(begin_program($node, 'pawld', '--once')), 0, 'pawld --once ends well');
is(one($node, "select string_agg(distinct state, ',') from pawl_dag.tasks where name = 'sql'"), 'blocked_by_failures',
	'the tasks went as far as they can');
is(one($node, "select distinct error ->> 'sqlstate' from pawl_dag.steps where name = 'three'"), '42883',
	'a function that is not there is a permanent error');
is(one($node, "select distinct attempts from pawl_dag.steps where name = 'three'"), '1', 'and not tried again');

# systemd is told when it is ready, and when it ends.
my $notified = PostgreSQL::Test::Utils::tempdir_short() . '/notify';
my $notify;
socket($notify, AF_UNIX, SOCK_DGRAM, 0) && bind($notify, pack_sockaddr_un($notified)) or die "$notified: $!";
sub told
{
	my $said = '';
	IO::Select->new($notify)->can_read($PostgreSQL::Test::Utils::timeout_default) && recv($notify, $said, 100, 0);
	return $said
}
my $service = do { local $ENV{NOTIFY_SOCKET} = $notified; begin_program($node, 'pawld') };
is(told(), 'READY=1', 'pawld notifies systemd that it is ready');
is(end_program($service, 'TERM'), 0, 'it ends on SIGTERM');
is(told(), 'STOPPING=1', 'and says so');

my $bad = begin_program($node, 'pawld', '--batch', 'many', '--check');
is(end_program($bad), 2, 'contradictory settings are rejected');
like($bad->{err}, qr/batch must be a whole number from 1 to 10000, not "many"/, 'with a reason');

sound($node, 'after all of it');
no_crash($node);
done_testing();
