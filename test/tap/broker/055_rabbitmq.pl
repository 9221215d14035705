# Workers that RabbitMQ tells of work, by a real broker that is killed, restarted, emptied and doubled: nothing is lost,
# nothing is run twice, and work is polled for where no message announces it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Broker;
use Exposition;
use FaultProxy;
use Messages;
use PawlTest;
use PawlPrograms;
use Test::More;

BAIL_OUT('rabbitmq-server is not there; `make deps` installs it') unless Broker::there();
my $node = new_cluster('main', with => [ 'pawl_dag' ]);
workflows($node);
my $broker = Broker->new;
$broker->start;
my %settings = (PAWL_PROVIDER => 'rabbitmq', PAWL_BROKER => $broker->url);
my $queue = 'pawl.pawl_dag.steps.default';
sub messages { return $broker->messages($queue) }

# Told: the worker looks by itself once in an hour.
my $daemon = publisher($node, \%settings, flags => [ '--http', '127.0.0.1:0' ]);
my ($port) = $daemon->{err} =~ /listening port=(\d+)/;
sub metric { my ($name) = @_; return sample(read_exposition((http_get($port, '/metrics'))[1]), $name) }
my $worker = told_worker($node, \%settings);
begin_tasks($node, 40);
all_done($node, 'by messages');
wait_until(sub { metric('pawld_messages_published_total') == 120 }, 'the count of messages');
is(metric('pawld_broker_connected'), 1, 'the publisher has its broker');
once($node, 'by messages');
wait_until(sub { messages() == 0 }, 'acknowledgements');
is(end_program($worker, 'TERM'), 0, 'the worker ends well') or diag($worker->{err});
like($worker->{out}, qr/^120 succeeded, 0 failed, 0 dropped, 0 given back, 120 by message$/m,
	'it got a message for each step');

# A broker that is killed while there is work, and away until the work is done without it.
# What it had promised to keep it has kept.
begin_tasks($node, 20);
wait_until(sub { messages() == 20 }, 'messages that wait for a worker');
$broker->kill;
log_has($daemon, qr/no broker/);
is(metric('pawld_broker_connected'), 0, 'and has it no more');
cmp_ok(metric('pawld_broker_failures_total'), '>', 0, 'pawld counts the failures of its broker');
is((http_get($port, '/healthz'))[0], 200, 'a daemon without its broker is well');
$worker = told_worker($node, \%settings, alone => 1);
log_has($worker, qr/no messages, polling for work instead: broker 127\.0\.0\.1:\d+: cannot connect/);
begin_tasks($node, 20);
all_done($node, 'without the broker');
$broker->start;
log_has($worker, qr/messages come from/);
log_has($daemon, qr/publishing/);
begin_tasks($node, 20);
all_done($node, 'the broker is back');
once($node, 'the broker is back');
wait_until(sub { messages() == 0 }, 'messages of what was done long ago');
unlike($daemon->{err} . $worker->{err}, qr/@{[Broker::password()]}/, 'no program prints the password');

# All messages lost, with the queues: the broker is killed and begins anew.
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
begin_tasks($node, 20);
wait_until(sub { messages() == 20 }, 'messages that wait for a worker');
$broker->kill;
$broker->forget;
$broker->start;
$worker = told_worker($node, \%settings);
all_done($node, 'all messages lost');

# Lost between outbox and broker: another session reads the events. The worker is connected, and looks after a while.
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
is(end_program($daemon, 'TERM'), 0, 'pawld ends well') or diag($daemon->{err});
$worker = told_worker($node, \%settings, fallback => 1_000);
begin_tasks($node, 20);
$node->safe_psql('postgres', q{select * from pawl.read_events('publisher', 100000)});
all_done($node, 'messages that were never sent');
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
like($worker->{out}, qr/, 0 by message$/m, 'it got no message');

# Doubled: pawld loses its session when the broker has confirmed, and the commit has not been done.
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
$node->safe_psql('postgres', q{select pawl.pause('pawl_dag.steps')});
is(messages(), 0, 'no messages yet');
begin_unpublished($node, 30);
$proxy->arm([ 'COMMIT', 'before', 'cut' ]);
$daemon = publisher($node, \%settings, through => $proxy->through);
log_has($daemon, qr/published.*30/);
is($proxy->fired, 1, 'the accident happened');
is(messages(), 60, 'two messages a step');
$node->safe_psql('postgres', q{select pawl.resume('pawl_dag.steps')});
my @workers = map { told_worker($node, \%settings) } 1 .. 2;
all_done($node, 'messages doubled');
once($node, 'messages doubled');
wait_until(sub { messages() == 0 }, 'acknowledgements');
is(end_program($_, 'TERM'), 0, 'a worker ends well') for @workers;

# A worker that is killed when it has received, and has claimed nothing yet; and one whose claim is done when it dies.
sub killed
{
	my ($when) = @_;
	my $through = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
	my $victim = told_worker($node, \%settings, through => $through->through, lease => 2_000);
	begin_tasks($node, 1);
	all_ended($node, 'row');  # so it has said how it claims
	my ($claim) = grep { /keys =>/ } $through->statements;
	$through->arm([ $claim, $when, $victim->{pid} ]);
	begin_tasks($node, 10);
	wait_until(sub { $through->fired == 1 }, 'the end of the worker');
	kill_program($victim);
	my $heir = told_worker($node, \%settings, lease => 2_000);
	all_done($node, "killed $when the claim");
	is(end_program($heir, 'TERM'), 0, 'the heir ends well');
	$through->end;
	return;
}
killed('before');
once($node, 'killed before the claim');
killed('after');
my $again = one($node, q{select count(*) from pawl_dag.step_transitions where metadata ? 'lost_owner'});
cmp_ok($again, '>', 0, 'what a worker had when it died was taken from it');
once($node, 'killed after the claim', $again);
wait_until(sub { messages() == 0 }, 'acknowledgements');

# Through TLS, to a broker with a valid certificate; not to one without.
is(end_program($daemon, 'TERM'), 0, 'pawld ends well');
$proxy->end;
my %secure = (PAWL_PROVIDER => 'rabbitmq', PAWL_BROKER => $broker->tls_url, PAWL_BROKER_CA => $broker->authority);
$daemon = publisher($node, \%secure);
$worker = told_worker($node, \%secure);
begin_tasks($node, 10);
all_done($node, 'through TLS');
is(end_program($worker, 'TERM'), 0, 'the worker ends well');
like($worker->{out}, qr/ 30 by message$/m, 'it got a message for each step');
is(end_program($daemon, 'TERM'), 0, 'pawld ends well');
for my $wrong ([ 'a certificate of an unknown authority',
	{ PAWL_PROVIDER => 'rabbitmq', PAWL_BROKER => $broker->tls_url }, qr/no broker.*SSL/ ],
	[ 'a wrong password', { PAWL_PROVIDER => 'rabbitmq', PAWL_BROKER => $broker->url =~ s/:never/:ever/r },
		qr/no broker.*ACCESS_REFUSED/ ])
{
	my ($name, $with, $said) = @$wrong;
	my $rejected = publisher($node, $with, alone => 1);
	log_has($rejected, $said);
	is(end_program($rejected, 'TERM'), 0, "$name: pawld goes on, and ends well");
	unlike($rejected->{err}, qr/ever-to-be-told/, "$name: without telling the password");
}

# Rows of any enforced table.
$node->safe_psql('postgres', fixture('../../../examples/table_worker/table.sql'));
$node->safe_psql('postgres', q{select pawl.enable_events('jobs')});
$daemon = publisher($node, \%settings, flags => [ '--publish', 'pawl_dag.steps,jobs' ]);
$node->safe_psql('postgres',
	q{insert into jobs (payload) select jsonb_build_object('n', 10 * g + 1) from generate_series(0, 299) g});
my $jobs = told_worker($node, \%settings, program => 'example_table_worker', alone => 1, fallback => 300);
is(end_program($jobs), 0, 'a worker on a table ends well') or diag($jobs->{err});
is(one($node, q{select string_agg(state || ' ' || n, ', ' order by state)
	from (select state, count(*) n from jobs group by state) x}), 'done 300', 'every job is done');
is(one($node, q{select count(*) - count(distinct subject_id) from jobs_transitions where event = 'start'
		and subject_id in (select id from jobs where attempts = 1)}), 0,
	'no row was claimed twice at its first attempt');

# What makes no sense is said at once.
is(end_program($daemon, 'TERM'), 0, 'pawld ends well');
for my $wrong ([ [ '--provider', 'rabbitmq' ], qr/queue provider rabbitmq needs a broker/ ],
	[ [ '--provider', 'rabbitmq', '--broker', 'localhost' ], qr/broker must be a URL/ ],
	[ [ '--provider', 'pigeons' ], qr/provider must be one of database, pgmq, rabbitmq/ ])
{
	my ($flags, $said) = @$wrong;
	my $run = begin_program($node, 'pawld', '--check', @$flags);
	is(end_program($run), 2, "@$flags: rejected");
	like($run->{err}, $said, 'with the reason');
}

sound($node, 'after all of it');
$broker->stop;
no_crash($node);
done_testing();
