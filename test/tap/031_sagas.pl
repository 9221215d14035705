# pawld runs the tasks of flows that are SQL functions, forward and back; it is killed in the middle, and each
# function's effect counts once.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_saga' ]);
$node->safe_psql('postgres', q{
	create table public.booked (id bigint generated always as identity, flow uuid, what text,
		undone boolean not null default false);
	create function public.book(a jsonb) returns jsonb language sql as $$
		insert into public.booked (flow, what) values ((a ->> 'trip')::uuid, a ->> 'what')
			returning jsonb_build_object('booking', id) $$;
	create function public.cancel(a jsonb, done jsonb) returns jsonb language sql as $$
		update public.booked set undone = true where flow = (a ->> 'trip')::uuid and not undone
			and id = (select max(id) from public.booked b where b.flow = (a ->> 'trip')::uuid and not b.undone)
		returning to_jsonb(id) $$;
	create function public.full(a jsonb) returns jsonb language plpgsql as $$ begin raise exception 'no room'; end $$});

sub task
{
	my ($name, $execute) = @_;
	return qq({"task": "$name", "execute": "sql:public.$execute", "revert": "sql:public.cancel", "requires": ["trip"]})
}
sub define
{
	my ($name, @tasks) = @_;
	return one($node, "select pawl_saga.define('{\"flow\": \"linear\", \"name\": \"$name\", \"children\": ["
		. join(', ', @tasks) . "]}')");
}
define('trip', task('flight', 'book'), task('hotel', 'book'), task('car', 'book'));
define('broken', task('flight', 'book'), task('hotel', 'book'), task('car', 'full'));

# A few by hand of a cron user, then many with a daemon that does not live long.
one($node, "select pawl_saga.start('trip', jsonb_build_object('trip', pawl.uuid_v7()))");
one($node, "select pawl_saga.start('broken', jsonb_build_object('trip', pawl.uuid_v7()))");
is(end_program(begin_program($node, 'pawld', '--once')), 0, 'pawld --once ends well');
is(one($node, q(select string_agg(state, ',' order by state) from pawl_saga.flows)), 'REVERTED,SUCCESS',
	'a flow ran to its end, another was reverted');
is(one($node, 'select count(*) filter (where not undone) || \',\' || count(*) filter (where undone) from booked'),
	'3,2', 'three bookings stand, two were cancelled');

one($node, "select count(pawl_saga.start(case when g % 2 = 0 then 'trip' else 'broken' end, "
	. "jsonb_build_object('trip', pawl.uuid_v7()))) from generate_series(1, 60) g");
one($node, "select count(pawl_saga.post('job ' || g, 'trip', jsonb_build_object('trip', pawl.uuid_v7()))) from "
	. "generate_series(1, 20) g");
for my $life (1 .. 3)
{
	my $before = one($node, "select count(*) from booked");
	my $daemon = begin_program($node, 'pawld');
	ok($node->poll_query_until('postgres', "select count(*) > $before from booked"), "daemon $life is at work");
	kill_program($daemon);
}
my $daemon = begin_program($node, 'pawld');
ok($node->poll_query_until('postgres',
		q(select not exists (select from pawl_saga.flows where state not in ('SUCCESS', 'REVERTED'))
	and (select count(*) = 20 from pawl_saga.jobs where state = 'COMPLETE'))),
	'every flow ends and every job is consumed');
is(end_program($daemon, 'TERM'), 0, 'the last daemon drains');
is(one($node, q(select string_agg(state || ' ' || n, ', ' order by state)
	from (select state, count(*) n from pawl_saga.flows group by state) f)), 'REVERTED 31, SUCCESS 51', 'as it must');
is(one($node, 'select count(*) filter (where not undone) || \',\' || count(*) filter (where undone) from booked'),
	51 * 3 . ',' . 31 * 2, 'every booking of a flow once, every cancellation once');
is(one($node, 'select * from pawl.verify()') . one($node, 'select * from pawl_saga.verify()'), '',
	'and verify finds nothing');
done_testing();
