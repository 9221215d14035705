# What a RabbitMQ does to its clients: it gives up clients that it does not hear of, rejects messages for queues that
# are full, deletes queues, stands still, and is away: a few seconds, or a minute and more with PAWL_LONG=1.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Broker;
use Messages;
use PawlTest;
use PawlPrograms;
use Test::More;

BAIL_OUT('rabbitmq-server is not there; `make deps` installs it') unless Broker::there();
my $node = new_cluster('main', with => [ 'pawl_dag' ]);
workflows($node);
define_template($node,
	q({"name": "slow", "steps": [{"name": "only", "handler": "sleep", "handler_options": {"seconds": 5000}}]}));
my $broker = Broker->new(conf => "heartbeat = 1\n");
$broker->start;
my %settings = (PAWL_PROVIDER => 'rabbitmq', PAWL_BROKER => $broker->url);
my $queue = 'pawl.pawl_dag.steps.default';
sub messages { return $broker->messages($queue) }
sub commits { return one($node, q{select xact_commit from pg_stat_database where datname = current_database()}) }
sub behind { return one($node, q{select behind from pawl.consumers where consumer = 'publisher'}) }

# A worker that is full for longer than the broker waits for a sign of life; it does not
# ask the database either while it has no room.
my $daemon = publisher($node, \%settings);
my $worker = told_worker($node, \%settings, arguments => [ 'default', 1, 0.001, 60_000, 1 ], fallback => 100);
start_tasks($node, 'slow', 3);
$node->poll_query_until('postgres', q{select count(*) = 1 from pawl_dag.steps where state = 'in_progress'});
wait_until(sub { messages() > 0 }, 'messages that wait');
is(end_program($daemon, 'TERM'), 0, 'pawld ends well');
my $before = commits();
all_ended($node, 'slow');
cmp_ok(commits() - $before, '<', 1_200, 'a full worker does not ask again and again');
$worker->{harness}->pump_nb;
unlike($worker->{err}, qr/no messages/, 'the broker has heard of the worker all the while');
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
like($worker->{out}, qr/^3 succeeded, 0 failed, 0 dropped, 0 given back/, 'and has done all');

# A queue with a limit rejects what is too much: nothing of the batch counts as sent, and
# it is sent again until all of it has been accepted.
$broker->control('set_policy', '--vhost', 'work', 'limited', '^pawl\\.', '{"max-length":5,"overflow":"reject-publish"}',
	'--apply-to', 'queues');
$daemon = publisher($node, \%settings);
begin_tasks($node, 20);
log_has($daemon, qr/no broker.*queue $queue takes no more messages \(is it full\?\)/) for 1 .. 2;
cmp_ok(behind(), '>', 0, 'what the broker rejected does not count as sent');
$worker = told_worker($node, \%settings);
all_done($node, 'a queue that is full');
once($node, 'a queue that is full');
wait_until(sub { behind() == 0 }, 'the publisher to have said all');
$broker->control('clear_policy', '--vhost', 'work', 'limited');
begin_tasks($node, 20);
all_done($node, 'a queue that was full');
once($node, 'a queue that was full');

# A queue is deleted while a worker listens to it: the worker makes it again.
$broker->control('delete_queue', '--vhost', 'work', $queue);
log_has($worker, qr/no messages, polling for work instead/);
log_has($worker, qr/messages come from/);
begin_tasks($node, 20);
all_done($node, 'a queue that was deleted');
once($node, 'a queue that was deleted');

# Away, with work going on all the while; then there, and work is told of again.
sub away
{
	my ($name, $seconds) = @_;
	my $until = time + $seconds;
	for (my $n = 0; time < $until; ++$n)
	{
		begin_tasks($node, 1 + $n % 3);
		all_ended($node, 'row');
	}
	all_done($node, $name);
	return;
}
$broker->kill;
away('the broker is away', $ENV{PAWL_LONG} ? 75 : 3);
$broker->start;
log_has($worker, qr/messages come from/);
log_has($daemon, qr/publishing/);
wait_until(sub { behind() == 0 && messages() == 0 }, 'messages of what was done long ago');
begin_tasks($node, 20);
all_done($node, 'the broker is back');
once($node, 'the broker is back');

# It stands still: connections are there, and nothing comes of them.
if ($ENV{PAWL_LONG})
{
	$broker->freeze;
	begin_tasks($node, 20);
	log_has($daemon, qr/no broker/);
	log_has($worker, qr/no messages/);
	away('the broker stands still', 60);
	$broker->thaw;
	log_has($worker, qr/messages come from/);
	log_has($daemon, qr/publishing/);
	begin_tasks($node, 20);
	all_done($node, 'the broker goes on');
	once($node, 'the broker goes on');
}

is(end_program($worker, 'TERM'), 0, 'the worker ends well') or diag($worker->{err});
is(end_program($daemon, 'TERM'), 0, 'pawld ends well') or diag($daemon->{err});
sound($node, 'after all of it');
$broker->stop;
no_crash($node);
done_testing();
