# Handlers that are told to stop and say so have not failed: their work goes back or is
# begun anew, and no failure is audited.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use FaultProxy;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag' ]);
my $retry = '"retry": {"max_attempts": 5, "backoff_base_ms": 20, "max_backoff_ms": 20}';
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);

sub begin_worker
{
	local $PawlPrograms::through = $proxy->through;
	return begin_program($node, 'example_worker', @_);
}

sub failures { return one($node, 'select count(*) from pawl_dag.step_result_audit where not success') }

# No heartbeat gets through, the connection that claims is untouched: what was claimed
# meanwhile has a lease of its own, and is not stopped.
define_template($node, qq({"name": "once", "identity_strategy": "always_unique", "steps": [
	{"name": "only", "handler": "sleep", "handler_options": {"seconds": 0.2}, $retry}]}));
my $worker = begin_worker('default', 4, 1, 900, 8);
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 100);
$proxy->arm(map { [ 'SELECT pawl.heartbeat', 'before', 'cut' ] } 1 .. 1000);
wait_until(sub { start_tasks($node, 'once', 2); $proxy->fired > 12 }, 'heartbeats that are lost');
$proxy->arm();
ok(all_ended($node, 'once'), 'every task ends though no heartbeat gets through');
is(failures(), 0, 'and no failure was reported');
is(end_program($worker, 'TERM'), 0, 'the worker ends');
like($worker->{out}, qr/, 0 failed,/, 'and has counted none');

# The leases are extended, but the worker does not get the answer: it stops, finds the work that it still owns, and
# begins it anew. They are long enough not to expire on a slow machine.
define_template($node, qq({"name": "long", "identity_strategy": "always_unique", "steps": [
	{"name": "only", "handler": "sleep", "handler_options": {"seconds": 4}, $retry}]}));
$worker = begin_worker('default', 4, 1, 2_700, 8);
$proxy->arm(map { [ 'SELECT pawl.heartbeat', 'after', 'cut' ] } 1 .. 4);
start_tasks($node, 'long', 3);
ok(all_ended($node, 'long'), 'every task ends though no heartbeat is answered');
is($proxy->fired, 4, 'four were lost');
is(failures(), 0, 'a worker that was told to stop reports no failure');
is(end_program($worker, 'TERM'), 0, 'the worker ends');
like($worker->{out}, qr/^3 succeeded, 0 failed, 0 dropped/, 'each step was reported once');
my ($attempts, $tokens) = split / /, one($node, q{select max(s.attempts) || ' ' || max(s.token) from pawl_dag.steps s
	join pawl_dag.tasks t using (task_uuid) where t.name = 'long'});
is("$attempts $tokens", '1 1', 'by the first owner');

# The grace of a drain is over.
define_template($node, qq({"name": "endless", "identity_strategy": "always_unique", "steps": [
	{"name": "only", "handler": "sleep", "handler_options": {"seconds": 100000}, $retry}]}));
$worker = begin_worker('default', 4, 1, 60_000, 8, 100);
start_tasks($node, 'endless', 3);
$node->poll_query_until('postgres', q{select count(*) = 3 from pawl_dag.steps where state = 'in_progress'});
is(end_program($worker, 'TERM'), 0, 'a worker whose handlers take too long ends');
like($worker->{out}, qr/^0 succeeded, 0 failed, 0 dropped, 3 given back/, 'and gives back what they have');
is(failures(), 0, 'a draining worker reports no failure');
is(one($node, q{select string_agg(distinct l.from_state || ' ' || l.event, ',') from pawl_dag.step_transitions l
          join pawl_dag.tasks t using (task_uuid)
	where t.name = 'endless' and l.sort_key = (select max(x.sort_key) from pawl_dag.step_transitions x
		where x.step_uuid = l.step_uuid and x.from_state = 'in_progress')}),
	'in_progress WaitForRetry', 'the log says how they were left');
end_program($daemon, 'TERM');
$proxy->end;
sound($node, 'after it');
done_testing();
