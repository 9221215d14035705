# Workers that PGMQ tells of work: the extension where the server has it; it is not in Debian, so elsewhere functions
# with the same names, overloads, arguments, results and tables stand in for it (pgmq.sql).
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use FaultProxy;
use Messages;
use Pgmq;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag' ]);
workflows($node);
my %settings = (PAWL_PROVIDER => 'pgmq');

# Not installed: said, and done without.
my $daemon = publisher($node, \%settings, alone => 1);
log_has($daemon, qr/consumer created/);
begin_tasks($node, 10);
log_has($daemon, qr/nothing is published.*pgmq/);
my $worker = told_worker($node, \%settings, alone => 1);
log_has($worker, qr/no messages, polling for work instead: .*pgmq/);
all_done($node, 'without the extension');

# Installed while they run.
install_pgmq($node);
log_has($worker, qr/messages come from pgmq/);
my $queue = one($node, 'select queue_name from pgmq.list_queues()');
like($queue, qr{^pawl_pawl_dag_steps_defaul_[0-9a-f]{16}$}, "the queue has a name that PGMQ allows");
sub messages { return one($node, "select count(*) from pgmq.q_$queue") }
log_has($daemon, qr/published/) if one($node, q{select behind from pawl.consumers}) > 0;
begin_tasks($node, 40);
all_done($node, 'by messages');
once($node, 'by messages');
is($node->poll_query_until('postgres', "select count(*) = 0 from pgmq.q_$queue"), 1,
	'what was claimed is acknowledged');
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
my ($succeeded, $told) = $worker->{out} =~ /^(\d+) succeeded, 0 failed, 0 dropped, 0 given back, (\d+) by message$/m;
is($succeeded, 150, 'it did all of it');
cmp_ok($told, '>=', 120, 'and got messages for what came after the extension');

# Doubled, lost, and none of ours.
$node->safe_psql('postgres', q{select pawl.pause('pawl_dag.steps')});
begin_tasks($node, 20);
$node->poll_query_until('postgres', "select count(*) = 20 from pgmq.q_$queue");
$node->safe_psql('postgres', "insert into pgmq.q_$queue (vt, message) select vt, message from pgmq.q_$queue");
$node->safe_psql('postgres',
	qq{select pgmq.send('$queue', m) from unnest(array['{"relation": "pawl_dag.steps", "key": [1, 2]}', '"hello"',
           '{"relation": "other", "key": ["1"]}', '{}',
	'{"relation": "pawl_dag.steps", "key": []}']::jsonb[]) m});
$node->safe_psql('postgres', q{select pawl.resume('pawl_dag.steps')});
my @workers = map { told_worker($node, \%settings) } 1 .. 2;
all_done($node, 'messages doubled');
once($node, 'messages doubled');
is($node->poll_query_until('postgres', "select count(*) = 0 from pgmq.q_$queue"), 1, 'all are acknowledged');
is(one($node, "select count(*) from pgmq.a_$queue"), 5, 'an unreadable message is archived');
is(end_program($_, 'TERM'), 0, 'a worker ends well') for @workers;
begin_tasks($node, 20);
$node->poll_query_until('postgres', "select count(*) = 20 from pgmq.q_$queue");
$node->safe_psql('postgres', "delete from pgmq.q_$queue");
$worker = told_worker($node, \%settings);
all_done($node, 'messages lost before the worker came');
$node->safe_psql('postgres', "create function pgmq.lose() returns trigger language plpgsql as 'begin return null; "
	. "end'; create trigger lose before insert on pgmq.q_$queue for each row execute function pgmq.lose()");
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
$worker = told_worker($node, \%settings, fallback => 500);
begin_tasks($node, 20);
all_done($node, 'messages lost while the worker waits');
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
like($worker->{out}, qr/, 0 by message$/m, 'it got no message');
$node->safe_psql('postgres', "drop trigger lose on pgmq.q_$queue");

# Sent in the transaction that reads: pawld's session ends before its commit, and no message is doubled.
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
is(end_program($daemon, 'TERM'), 0, 'pawld ends well');
$node->safe_psql('postgres', q{select pawl.pause('pawl_dag.steps')});
begin_unpublished($node, 30);
$proxy->arm([ 'COMMIT', 'before', 'cut' ]);
$daemon = publisher($node, \%settings, through => $proxy->through);
log_has($daemon, qr/published.*30/);
is($proxy->fired, 1, 'the accident happened');
is(messages(), 30, 'a message a step');
$node->safe_psql('postgres', q{select pawl.resume('pawl_dag.steps')});

# A worker that dies when it has received, and one whose claim is done.
for my $when ('before', 'after')
{
	my $through = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
	my $victim = told_worker($node, \%settings, through => $through->through, lease => 2_000);
	begin_tasks($node, 1);
	all_ended($node, 'row');
	my ($claim) = grep { /keys =>/ } $through->statements;
	$through->arm([ $claim, $when, $victim->{pid} ]);
	begin_tasks($node, 10);
	wait_until(sub { $through->fired == 1 }, 'the end of the worker');
	kill_program($victim);
	my $heir = told_worker($node, \%settings, lease => 2_000, fallback => 1_000);
	all_done($node, "killed $when the claim");
	once($node, "killed $when the claim",
		one($node, q{select count(*) from pawl_dag.step_transitions where metadata ? 'lost_owner'}));
	is(end_program($heir, 'TERM'), 0, 'the heir ends well');
	$through->end;
}
cmp_ok(one($node, q{select count(*) from pawl_dag.step_transitions where metadata ? 'lost_owner'}), '>', 0,
	'what a worker had when it died was taken from it');

# The server is away and back: sessions are made anew, by all.
$worker = told_worker($node, \%settings);
$node->restart;
log_has($worker, qr/messages come from pgmq/);
log_has($daemon, qr/connected/);
begin_tasks($node, 20);
all_done($node, 'after a restart of the server');

is(end_program($worker, 'TERM'), 0, 'the worker ends well') or diag($worker->{err});
is(end_program($daemon, 'TERM'), 0, 'pawld ends well') or diag($daemon->{err});
sound($node, 'after all of it');
no_crash($node);
done_testing();
