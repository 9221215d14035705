# An accident at each statement of worker, conductor and daemon of flows: the connection is cut before the server hears
# of it or after it has done it, the program is killed, the backend is, the whole server is; others go on meanwhile.
# Then every job is done, every trip is made or undone, no result counts twice. PAWL_LONG=1: every accident everywhere.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Accidents;
use FaultProxy;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', conf => 'max_connections = 80', with => [ 'pawl_saga' ]);
$node->safe_psql('postgres', fixture('../../examples/travel/setup.sql'));
my $trip = begin_program($node, 'example_trip');
is(end_program($trip), 0, 'the example defines its structure');
one($node, "select pawl_saga.define('" . $trip->{out} =~ s/'/''/gr . "')");
# A third of the trips finds its hotel full and tries again, another one is undone in the
# end; some revert for a season, some after all attempts.
$node->safe_psql('postgres', q{insert into fates select n, 'hotel', 'book', 1, case n % 6 when 1 then 'SOLD0' else
	'FULL0' end from generate_series(1, 2000) n where n % 3 > 0});

# The server may be on its way back, and an answer may be lost: the id of the job tells that it is there.
my $trips = 0;
sub begin_trip
{
	++$trips;
	asked($node, "insert into pawl_saga.jobs (job_uuid, board, name, flow, inputs) values (md5('$trips')::uuid, "
		. "'trips', '$trips', 'trip', '{\"trip\": $trips}') on conflict do nothing");
	return;
}
sub all_done { return wait_until(sub {
	asked($node, q{select count(*) from pawl_saga.jobs where state <> 'COMPLETE'}) eq '0'
}, 'all jobs to end') }

my %program = (example_travel => [ 'example_travel', 5, 450 ], example_conductor => [ 'example_conductor', 450, 3 ],
	pawld => [ 'pawld', '--longest-poll-ms', 50 ]);
my %telling = (example_travel => qr/pawl_saga\.|pawl\.heartbeat/, example_conductor =>
	qr/pawl_saga\.|pawl\.(?:claim|heartbeat)/, pawld => qr/work_sql_tasks|begin_attempts|pawl\.reap/);
my %gravest = (example_travel => qr/pawl_saga\.(?:claim|report)/, example_conductor => qr/pawl\.claim|start|consume/,
	pawld => qr/work_sql_tasks|begin_attempts/);
for my $name (qw(example_travel example_conductor pawld))
{
	my @helpers = map { begin_program($node, @{ $program{$_} }) } sort keys %program;
	my $accidents = Accidents->new(node => $node, program => $program{$name}, work => \&begin_trip,
		by_chance => qr/pawl_saga\.resume/);
	begin_trip() for 1 .. 4;
	ok(all_done(), "$name works through a proxy");
	end_program($_, 'TERM') for grep { $_->{name} eq $name } @helpers;
	@helpers = grep { $_->{name} ne $name } @helpers;
	begin_trip() for 1 .. 6;
	ok(all_done(), 'all flows end when that program works alone through a proxy');
	my @telling = $accidents->learned(3, $telling{$name});
	cmp_ok(scalar @telling, '>=', 3, "the statements of $name are known");
	@telling = $accidents->learned(0) if $ENV{PAWL_LONG};
	diag("$name sends:\n" . join("\n", @telling)) if $ENV{PAWL_LONG};
	$accidents->happen_at_each('cut', @telling);
	is(join("\n", $accidents->missed(@telling)), '', "an accident at each statement of $name");
	@telling = grep { $_ =~ $gravest{$name} } @telling unless $ENV{PAWL_LONG};
	$accidents->happen_in_turns('program', @telling);
	$accidents->happen('after', $_, @telling) for qw(backend server);
	ok(all_done(), "every job is done, after accidents at $name");
	is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for $accidents->run, @helpers;
	$accidents->proxy->end;
}

# A conductor resumes only what another one has begun and returned to the board.
my @helpers = map { begin_program($node, @{ $program{$_} }) } qw(example_travel pawld);
for my $when (qw(before after))
{
	begin_trip();
	$node->safe_psql('postgres', "set pawl.processor = 'gone'; select pawl_saga.claim_job(md5('$trips')::uuid, 'gone');
		update pawl_saga.jobs set flow_uuid = pawl_saga.start('trip', '{\"trip\": $trips}')
		 where job_uuid = md5('$trips')::uuid;
		select pawl_saga.abandon_job(md5('$trips')::uuid, 'gone')");
	my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
	$proxy->arm([ 'SELECT pawl_saga.resume', $when, 'cut' ]);
	my $conductor = begin_through($proxy, $node, @{ $program{example_conductor} });
	ok(wait_until(sub { $proxy->fired == 1 }, 'the accident'), "a conductor that resumes a flow is cut off $when it");
	ok(all_done(), 'and the job is done');
	is(end_program($conductor, 'TERM'), 0, 'the conductor ends well') or diag($conductor->{err});
	$proxy->end;
}
is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for @helpers;

note("$trips trips");
my $flows = q{(select (f.inputs ->> 'trip')::int as trip, f.* from pawl_saga.flows f)};
is(one($node, "select count(*) || ' ' || count(distinct trip) from $flows f"), "$trips $trips",
	'each job has one flow, whatever happened');
is(one($node, q{select count(*) from pawl_saga.flows where state not in ('SUCCESS', 'REVERTED')}), 0,
	'which was made or undone');
is(one($node, "select count(*) from $flows t where state = 'SUCCESS' and 3 <> (select count(*) from bookings b where "
	. "b.trip = t.trip and cancelled_at is null)"), 0, 'what was made has its three bookings');
is(one($node, "select count(*) from $flows t where state = 'REVERTED' and exists (select from bookings b where b.trip "
	. "= t.trip and cancelled_at is null)"), 0, 'of what was undone nothing is left');
is(one($node, "select count(*) from $flows t where (state = 'SUCCESS') <> exists (select from tickets k where "
	. "k.trip = t.trip)"), 0, 'each completed trip has a ticket');
cmp_ok(one($node, q{select count(*) from pawl_saga.flows where state = 'REVERTED'}), '>', 0, 'some were undone');
is(one($node, q{select count(*)
          from (select from pawl_saga.task_transitions where to_state in ('SUCCESS', 'FAILURE') group by flow_uuid, node
	having count(*) > (select count(*) from pawl_saga.task_transitions r
		where (r.flow_uuid, r.node) = (task_transitions.flow_uuid,
		task_transitions.node) and r.to_state = 'RUNNING')) x}), 0, 'no result without its own beginning');
is(one($node, q{select count(*) from (select flow_uuid, node, sort_key, from_state,
		lag(to_state) over (partition by flow_uuid, node order by sort_key) as before from pawl_saga.task_transitions)
		x where before is distinct from from_state}), 0,
	'the logs have no gap');
is(one($node, q{select count(*) from pawl_saga.job_transitions where to_state = 'COMPLETE'}), $trips,
	'every job was consumed once');
is(one($node, 'select * from pawl_saga.verify()'), '', 'the flows are sound');
sound($node, 'after all accidents');
done_testing();
