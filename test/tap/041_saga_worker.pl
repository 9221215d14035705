# The C++ worker and conductor of flows: executed, reverted, drained, killed at every stage, several of each at once;
# what must hold is asked by SQL.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_saga' ]);
$node->safe_psql('postgres', fixture('../../examples/travel/setup.sql'));

sub value { return one($node, $_[0]) }
my $worker = sub { return begin_program($node, 'example_travel', @_) };

# The structure of the builder, one trip of each kind
my $trip = begin_program($node, 'example_trip');
is(end_program($trip), 0, 'the builder example ends well');
value("select pawl_saga.define('" . $trip->{out} =~ s/'/''/gr . "')");
is(value(q{select string_agg(kind || ' ' || name, ', ' order by node) from pawl_saga.nodes
	where kind in ('task', 'retry')}),
	'retry another seat, task flight, retry another room, task hotel, task car, task ticket',
	'its structure is defined');
$node->safe_psql('postgres',
	q{insert into fates values (2, 'hotel', 'book', 1, 'FULL0'), (3, 'hotel', 'book', 1, 'FULL0'),
          (3, 'hotel', 'book', 2, 'FULL0'), (3, 'hotel', 'book', 3, 'FULL0'),
	(4, 'car', 'book', 1, 'SOLD0'), (5, 'flight', 'book', 1, 'FULL0'), (5, 'flight', 'book', 2, 'FULL0'),
	(6, 'hotel', 'book', 1, 'SOLD0'), (6, 'flight', 'cancel', 1, 'SHUT0')});
value("select count(pawl_saga.start('trip', jsonb_build_object('trip', g))) from generate_series(1, 6) g");
my @running = ($worker->(5), begin_program($node, 'pawld', '--longest-poll-ms', '100'));
ok($node->poll_query_until('postgres', q{select not exists (select from pawl_saga.flows
	where state not in ('SUCCESS', 'REVERTED', 'FAILURE'))}), 'every trip ends');
is(value(q{select string_agg(inputs ->> 'trip' || ' ' || state, ', ' order by flow_uuid) from pawl_saga.flows}),
	'1 SUCCESS, 2 SUCCESS, 3 REVERTED, 4 REVERTED, 5 SUCCESS, 6 FAILURE', 'as the services answered');
is(value(q{select string_agg(trip || ' ' || service, ', ' order by trip, service) from bookings
	where cancelled_at is null}),
	'1 car, 1 flight, 1 hotel, 2 car, 2 flight, 2 hotel, 5 car, 5 flight, 5 hotel, 6 flight',
	'what is booked is what stands');
is(value(q{select result from pawl_saga.tasks t join pawl_saga.flows f using (flow_uuid) where t.name = 'flight'
	and f.inputs ->> 'trip' = '1'}),
	'{"code": "flight-1-1", "service": "flight"}', 'a typed result');
like(value(q{select failure::text from pawl_saga.tasks t join pawl_saga.flows f using (flow_uuid)
	where f.inputs ->> 'trip' = '6' and t.name = 'hotel'})
	  . value(q{select pawl_saga.errors(flow_uuid)::text from pawl_saga.flows f where f.inputs ->> 'trip' = '6'}),
	qr/"sqlstate": "SOLD0"}\{"flight": \{.*"sqlstate": "SHUT0"/, 'a failure has the SQLSTATE of the service');
is(value(q{select max(attempt) from pawl_saga.attempts a join pawl_saga.flows f using (flow_uuid)
	where f.inputs ->> 'trip' = '4'}), '1', 'a controller had an answer of its own to one');
is(value('select count(*) > 0 from pawl_saga.tasks where progress = 0.5 and progress_details ? $$asking$$'), 't',
	'handlers reported their progress');
is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for @running;
like($running[0]{out}, qr/^\d+ succeeded, \d+ failed, 0 dropped, 0 given back$/m, 'the worker lost nothing');
is(value('select * from pawl_saga.verify()'), '', 'the flows are sound');

# Jobs: in order, with inputs, one that cannot begin
$node->safe_psql('postgres', q{truncate fates, calls, bookings, tickets});
value(q{select count(pawl_saga.post('trip ' || g, 'trip', jsonb_build_object('trip', g), board => 'trips',
	priority => case when g = 30 then 'HIGH' else 'NORMAL' end)) from generate_series(11, 30) g});
value(q{select pawl_saga.post('nonsense', 'no such flow', board => 'trips')});
value(q{select pawl_saga.post('nothing', board => 'trips')});
@running = ($worker->(5), begin_program($node, 'pawld', '--longest-poll-ms', '100'));
my $conductor = begin_program($node, 'example_conductor', 2000, 4);
ok($node->poll_query_until('postgres', q{select not exists (select from pawl_saga.jobs where state <> 'COMPLETE'
	and trashed_at is null)}), 'every job ends');
is(value(q{select string_agg(name || ': ' || trashed_for, ', ' order by name) from pawl_saga.jobs
	where trashed_at is not null})
	  =~ s/\n.*//sr, 'nonsense: ERROR:  unknown flow "no such flow"',
	  'one that has no flow is out of circulation, with the reason');
is(end_program($conductor, 'TERM'), 0, 'the conductor ends well') or diag($conductor->{err});
like($conductor->{out}, qr/^20 claimed, 20 consumed, 0 given back, 2 trashed, 0 lost$/m, 'and counted them')
	or diag($conductor->{err});
like($conductor->{err}, qr/\Aprocessor .*\nconducts board trips\ntrip 30: began\n/, 'the urgent one came first');
is(value(q{select count(*) from bookings}), '60', 'each trip has its three bookings');

# Jobs that a conductor has claimed when it ends go back to the board; the flow goes on,
# and so does the next conductor of the job
end_program($_, 'TERM') for @running;
value(q{select pawl_saga.post('trip 31', 'trip', '{"trip": 31}', board => 'trips')});
$conductor = begin_program($node, 'example_conductor');
ok($node->poll_query_until('postgres', q{select flow_uuid is not null from pawl_saga.jobs where name = 'trip 31'}),
	'a flow has begun, without a worker');
is(end_program($conductor, 'TERM'), 0, 'the conductor ends well');
is(value(q{select j.state || ' ' || f.state from pawl_saga.jobs j join pawl_saga.flows f using (flow_uuid)
	where j.name = 'trip 31'}), 'UNCLAIMED RUNNING', 'the job is back on the board');
value(q{select pawl_saga.suspend(flow_uuid) from pawl_saga.jobs where name = 'trip 31'});
@running = ($worker->(5), begin_program($node, 'pawld', '--longest-poll-ms', '100'),
	begin_program($node, 'example_conductor'));
ok($node->poll_query_until('postgres', q{select state = 'CLAIMED' from pawl_saga.jobs where name = 'trip 31'}),
	'the next one takes it');
is(value(q{select state from pawl_saga.flows where inputs ->> 'trip' = '31'}), 'SUSPENDED',
	'what an operator has suspended is left so');
value(q{select pawl_saga.resume(flow_uuid) from pawl_saga.jobs where name = 'trip 31'});
ok($node->poll_query_until('postgres', q{select state = 'COMPLETE' from pawl_saga.jobs where name = 'trip 31'}),
	'until it is resumed');
is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for @running;
like($running[2]{err}, qr/^trip 31: went on\ntrip 31: consumed$/m, 'it went on with the flow that was there');

# Killed at every stage, several of each at once: two workers, two conductors and a daemon
# that is the conductor of another board
$node->safe_psql('postgres', q{truncate fates, calls, bookings, tickets; delete from pawl_saga.jobs;
	insert into fates select n, 'hotel', 'book', c, 'FULL0' from generate_series(100, 999) n, generate_series(1, 3) c
		where c <= n % 4;
	insert into fates select n, 'flight', 'book', 1, 'FULL0' from generate_series(100, 999, 5) n});
my @kinds = ([ 'example_travel', 15, 700 ], [ 'example_travel', 15, 700 ], [ 'example_conductor', 700, 10 ],
	[ 'example_conductor', 700, 10 ],
	[ 'pawld', '--longest-poll-ms', 50, '--boards', 'default,other', '--board-lease-ms', 700 ]);
my @alive = map { begin_program($node, @$_) } @kinds;
my @stages = (
	[ 'tasks are executed', q{select count(distinct worker) > 1 from pawl_saga.tasks where state = 'RUNNING'}, 0, 1 ],
	[ 'tasks are reverted',
		q{select count(*) > 0 from pawl_saga.tasks where state = 'REVERTING' and worker is not null}, 0, 1 ],
	[ 'jobs are claimed', q{select count(*) > 2 from pawl_saga.jobs where state = 'CLAIMED' and board = 'trips'}, 2,
		3 ],
	[ 'the daemon has jobs', q{select count(*) > 0 from pawl_saga.jobs where state = 'CLAIMED' and board = 'other'},
		4 ],
	[ 'a retry waits for its next attempt',
		q{select count(*) > 0 from pawl_saga.retries where due_at > clock_timestamp()}, 4, 0 ],
	[ 'everything is at work',
		q{select count(*) > 0 from pawl_saga.tasks where state in ('RUNNING', 'REVERTING') and worker is not null},
		0 .. 4 ]);
my $next = 100;
sub post_twenty
{
	value("select count(pawl_saga.post('trip ' || g, 'trip', jsonb_build_object('trip', g), board => case g % 4 when "
		. "0 then 'other' when 1 then 'default' else 'trips' end)) from generate_series($next, $next + 19) g");
	$next += 20;
	return;
}

# Whether it is so. On a slow machine all trips can end before it is seen: then more of them are posted.
sub seen
{
	my ($condition) = @_;
	return 1 if value($condition) eq 't';
	post_twenty() if value(q{select count(*) = 0 from pawl_saga.jobs where state <> 'COMPLETE'}) eq 't';
	return 0;
}
for my $stage (@stages)
{
	my ($what, $condition, @victims) = @$stage;
	post_twenty();
	becomes(sub { seen($condition) }, 1, $what);
	kill_program($alive[$_]) for @victims;
	$alive[$_] = begin_program($node, @{ $kinds[$_] }) for @victims;
}
# and the server under all of them
post_twenty();
becomes(sub { seen($stages[-1][1]) }, 1, 'everything is at work again');
$node->stop('immediate');
$node->start;
my $posted = $next - 100;
ok($node->poll_query_until('postgres', qq{select count(*) = $posted from pawl_saga.jobs where state = 'COMPLETE'}),
	'every job is done in the end')
  or diag(value(q{select string_agg(x::text, ' ') from (select j.board, j.state, f.state, j.trashed_for, count(*)
  from pawl_saga.jobs j left join pawl_saga.flows f using (flow_uuid) group by 1, 2, 3, 4) x}));
is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for @alive;
my $trips = q{(select (f.inputs ->> 'trip')::int as trip, f.* from pawl_saga.flows f
	where (f.inputs ->> 'trip')::int >= 100)};
is(value("select count(*) || ' ' || count(distinct trip) from $trips t"), "$posted $posted",
	'each trip has one flow, whatever was killed');
is(value("select string_agg(distinct state, ', ' order by state) from $trips t"), 'REVERTED, SUCCESS',
	'which was made or undone');
is(value("select count(*) from $trips t where state = 'SUCCESS' and 3 <> (select count(*) from bookings b where "
	. "b.trip = t.trip and cancelled_at is null)"), '0', 'what was made has its three bookings');
is(value("select count(*) from $trips t where state = 'REVERTED' and exists (select from bookings b where b.trip = "
	. "t.trip and cancelled_at is null)"), '0', 'of what was undone nothing is left');
is(value("select count(*) from $trips t where (state = 'SUCCESS') <> exists (select from tickets k where "
	. "k.trip = t.trip)"), '0', 'each completed trip has one ticket');
is(value(q{select count(*) from (select lag(to_state) over (partition by flow_uuid, node order by sort_key) as before,
		* from pawl_saga.task_transitions) x where before is distinct from from_state}), '0',
	'nothing happened to a task that its log does not tell');
cmp_ok(value(q{select count(*) from pawl_saga.task_transitions where event in ('lost', 'settle')}), '>', 0,
	'tasks were taken back from the dead');
cmp_ok(value(q{select count(*) from pawl_saga.job_transitions where event = 'lost'}), '>', 0,
	'some jobs were lost by their conductors');
is(value('select * from pawl_saga.verify()'), '', 'the flows are sound');

sound($node, 'after all of it');
no_crash($node);
done_testing();
