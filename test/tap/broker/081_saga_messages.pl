# Flows whose workers are told of tasks by messages, through RabbitMQ and PGMQ: trips that are made, made at the second
# try, and undone. Messages are lost and doubled, workers are killed between receipt and claim and after it: no trip is
# lost, no service is asked twice for what it has answered.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Broker;
use FaultProxy;
use Messages;
use Pgmq;
use PawlTest;
use PawlPrograms;
use Test::More;

BAIL_OUT('rabbitmq-server is not there; `make deps` installs it') unless Broker::there();
my $node = new_cluster('main', with => [ 'pawl_saga' ]);
$node->safe_psql('postgres', fixture('../../../examples/travel/setup.sql'));
my $trip = begin_program($node, 'example_trip');
is(end_program($trip), 0, 'the structure of a trip');
$node->safe_psql('postgres', "select pawl_saga.define('" . $trip->{out} =~ s/'/''/gr . "')");
# the car is sold out for every third trip, so it is undone; for another third the hotel
# is full at first, so it is tried again
$node->safe_psql('postgres', q{insert into fates select n, case n % 3 when 1 then 'car' else 'hotel' end, 'book', 1,
          case n % 3 when 1 then 'SOLD0' else 'FULL0' end
	from generate_series(1, 2000) n where n % 3 > 0});

my %messages;    # of a provider: how many wait, and all of them lost, or doubled
my $broker = Broker->new;
$broker->start;
my $rabbit = 'pawl.pawl_saga.tasks.travel';
$messages{rabbitmq} = {
	count => sub { return $broker->messages($rabbit) // 0 },
	lose => sub { $broker->control('purge_queue', '--vhost', 'work', $rabbit) } };
install_pgmq($node);
sub pgmq { return 'pgmq.q_' . one($node, q{select queue_name from pgmq.list_queues()}) }
$messages{pgmq} = {
	count => sub { return one($node, 'select count(*) from ' . pgmq()) },
	lose => sub { $node->safe_psql('postgres', 'delete from ' . pgmq()) } };

my $begun = 0;
sub trips
{
	my ($n) = @_;
	my $first = $begun + 1;
	$begun += $n;
	$node->safe_psql('postgres',
		"select pawl_saga.start('trip', jsonb_build_object('trip', g)) from generate_series($first, $begun) g");
	return;
}

sub traveller
{
	my ($settings, %options) = @_;
	return told_worker($node, $settings, program => 'example_travel', arguments => [ 5, $options{lease} // 60_000 ],
		%options);
}

sub by_message { my ($n) = join('', map { $_->{out} } @_) =~ /^(\d+) by message$/m; return $n // 0 }

sub all_travelled
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->poll_query_until('postgres',
		q{select not exists (select from pawl_saga.flows where state not in ('SUCCESS', 'REVERTED', 'FAILURE'))});
	is(one($node, q{select count(*) from pawl_saga.flows where state <> case (inputs ->> 'trip')::int % 3 when 1 then
		'REVERTED' else 'SUCCESS' end}), '0', "$name: every trip ends as it must");
	is(one($node, 'select count(*) from pawl_saga.flows'), $begun, "$name: none is lost");
	is(one($node, q{select count(*) from pawl_saga.flows f
              where (select count(*) from bookings b where b.trip = (f.inputs ->> 'trip')::int and cancelled_at is null)
		<> case f.state when 'SUCCESS' then 3 else 0 end}), '0',
		"$name: what stands is booked, what was undone is not");
	is(one($node, q{select count(*) from (select trip, service from calls where verb = 'book' group by 1, 2
		having count(*) > 1 + count(*) filter (where answer <> 'yes') + (select count(*) from calls c
			where (c.trip, c.service, c.verb) = (calls.trip, calls.service, 'cancel'))) x}), '0',
		"$name: no service was asked again for what it had given");
	is(one($node, 'select * from pawl_saga.verify()'), '', "$name: the flows are sound");
	return;
}

for my $settings ({ PAWL_PROVIDER => 'rabbitmq', PAWL_BROKER => $broker->url }, { PAWL_PROVIDER => 'pgmq' })
{
	my $provider = $settings->{PAWL_PROVIDER};
	my ($count, $lose) = @{ $messages{$provider} }{qw(count lose)};
	my @flags = (flags => [ '--publish', 'pawl_saga.tasks', '--publisher', $provider ]);

	# Told: the workers look once in an hour, and when they have reported.
	my $daemon = publisher($node, $settings, @flags);
	my @workers = map { traveller($settings) } 1 .. 2;
	for (1 .. 5) { trips(6); all_travelled("$provider, by messages") }
	wait_until(sub { $count->() == 0 }, 'acknowledgements');
	is(end_program($_, 'TERM'), 0, 'a worker ends well') or diag($_->{err}) for @workers;
	cmp_ok(by_message(@workers), '>', 0, "$provider: they got messages for tasks");
	cmp_ok(one($node, q{select count(*) from pawl_saga.task_transitions where event = 'revert'}), '>', 0,
		"$provider: also of what is to be reverted");

	# Lost: before the worker comes; and while it waits, read by another.
	trips(6);
	wait_until(sub { $count->() > 0 }, 'messages');
	is(end_program($daemon, 'TERM'), 0, 'pawld ends well');
	$lose->();
	$daemon = begin_program($node, 'pawld', '--longest-poll-ms', '100');
	my $worker = traveller($settings, fallback => 500);
	all_travelled("$provider, messages lost before the worker came");
	trips(6);
	$node->safe_psql('postgres', "select from pawl.read_events('$provider', 100000)");
	all_travelled("$provider, messages lost while the worker waits");
	is(end_program($_, 'TERM'), 0, 'a program ends well') for $worker, $daemon;
	is(by_message($worker), 0, "$provider: it got no message");

	# Doubled: the publisher loses its session before it has committed what the broker
	# has; where both are one transaction, by hand.
	trips(6);
	my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
	$proxy->arm([ 'COMMIT', 'before', 'cut' ]) if $provider eq 'rabbitmq';
	$daemon = publisher($node, $settings, @flags, through => $proxy->through);
	wait_until(sub { $count->() >= ($provider eq 'rabbitmq' ? 2 : 1) * one($node,
			q{select count(*) from pawl_saga.tasks where queue = 'travel' and state = 'PENDING' and due_at is null}) },
		'messages');
	$node->safe_psql('postgres', 'insert into ' . pgmq() . ' (vt, message) select vt, message from ' . pgmq())
		if $provider eq 'pgmq';
	@workers = map { traveller($settings) } 1 .. 2;
	all_travelled("$provider, messages doubled");
	is(end_program($_, 'TERM'), 0, 'a program ends well') for @workers, $daemon;
	$proxy->end;

	# Killed when it has received, and has claimed nothing; and when the claim is done.
	$daemon = publisher($node, $settings, @flags);
	my $lost = q{select count(*) from pawl_saga.task_transitions where event in ('lost', 'settle')};
	for my $when ('before', 'after')
	{
		my $through = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
		my $before = one($node, $lost);
		my $victim = traveller($settings, through => $through->through, lease => 2_000);
		# it has looked for the last time, so the next claim is one that it is told to make
		trips(1);
		$node->poll_query_until('postgres',
			q{select not exists (select from pawl_saga.flows where state not in ('SUCCESS', 'REVERTED', 'FAILURE'))
			and exists (select from pg_stat_activity where query like 'SELECT c.* FROM pawl\_saga.claim(%'
				and state = 'idle' and state_change < clock_timestamp() - interval '300 ms')});
		$through->arm([ 'SELECT c.* FROM pawl_saga.claim(', $when, $victim->{pid} ]);
		trips(6);
		wait_until(sub { $through->fired == 1 }, 'the end of the worker');
		kill_program($victim);
		my $heir = traveller($settings, lease => 2_000, fallback => 500);
		all_travelled("$provider, killed $when the claim");
		is(one($node, $lost) - $before > 0 ? 1 : 0, $when eq 'after' ? 1
			: 0, "$provider: the task of the dead worker was taken back");
		is(end_program($heir, 'TERM'), 0, 'the heir ends well');
		$through->end;
	}
	is(end_program($daemon, 'TERM'), 0, 'pawld ends well') or diag($daemon->{err});
	$node->safe_psql('postgres', "select pawl.drop_consumer('$provider')");
}

sound($node, 'after all of it');
$broker->stop;
no_crash($node);
done_testing();
