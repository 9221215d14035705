# A notification that comes while a worker's statement runs is read with the answer, and nothing is left in the socket
# that would end the wait behind it. The worker looks for work all the same. And pawld answers a wake-up soon, also if
# its polls are far apart.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use FaultProxy;
use PawlPrograms;
use PawlTest;
use Test::More;
use Time::HiRes qw(time);

my $node = new_cluster('main', with => ['pawl_dag']);
$node->safe_psql('postgres', q{select pawl_dag.define_template('{"name": "one", "steps": [{"name": "sleep"}]}')});
my $first_wait = 10;  # seconds; the second, before which a worker announces itself, is twice as long
$ENV{PYTHONPATH} = "$FindBin::Bin/../../client/python";
$ENV{PAWL_SHORTEST_POLL_MS} = 1000 * $first_wait;
$ENV{PAWL_LONGEST_POLL_MS} = 600_000;
my $python = "import pawl; w = pawl.Worker('', pawl.Steps(), shortest_poll=$first_wait, longest_poll=600); "
	. "w.on('sleep', lambda job: 1); w.run()";
my %worker = ('C++' => [ 'example_worker', 'default', 1, 0 ], Python => [ '/usr/bin/python3', '-c', $python ]);

for my $language (sort keys %worker)
{
	my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
	$proxy->arm([ 'SELECT CASE WHEN', 'after', 'hold' ], [ 'SELECT c.', 'after', 'hold' ]);
	my $run = begin_through($proxy, $node, @{ $worker{$language} });
	ok(wait_until(sub { $proxy->fired == 1 }, 'the announcement'), "$language: the worker announces that it waits");
	$proxy->release;
	ok(wait_until(sub { $proxy->fired == 2 }, 'the claim'), 'and looks once more');
	$node->safe_psql('postgres', "select pawl_dag.start_task('one', identity_key => '$language')");
	ok(wait_until(sub { $proxy->fired == 3 }, 'the notification'), 'a notification comes before the answer is read');
	my $began = time;
	$proxy->release;
	ok(wait_until(sub {
		one($node, q{select count(*) from pawl_dag.steps where state <> 'complete'}) eq '0' }, 'the step'),
		'the step is done');
	cmp_ok(time - $began, '<', $first_wait, 'without waiting for the next poll');
	is(end_program($run, 'TERM'), 0, 'SIGTERM ends the worker') or diag($run->{err});
	$proxy->end;
}

my $pawld = begin_program($node, 'pawld', '--shortest-poll-ms', 1000 * $first_wait, '--longest-poll-ms', 600_000);
ok($node->poll_query_until('postgres', q{select count(*) = 1 from pg_locks where locktype = 'advisory'
	and mode = 'ShareLock' and granted and classid = 0 and objsubid = 7101}), 'pawld waits for events');
my $began = time;
$node->safe_psql('postgres', q{select pawl_dag.start_task('one', identity_key => 'pawld')});
ok($node->poll_query_until('postgres', q{select count(*) = 1 from pawl_dag.steps where state = 'enqueued'}),
	'it moves a new task on, where no worker does');
cmp_ok(time - $began, '<', $first_wait, 'and does not wait for its shortest poll');
is(end_program($pawld, 'TERM'), 0, 'SIGTERM ends pawld') or diag($pawld->{err});
done_testing();
