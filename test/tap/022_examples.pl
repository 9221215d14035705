# The examples of the client library do what they say.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag' ]);

# A table of one's own
$node->safe_psql('postgres', fixture('../../examples/table_worker/table.sql'));
$node->safe_psql('postgres',
	q{insert into jobs (payload) select jsonb_build_object('n', g) from generate_series(1, 60) g});
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', '100');  # retries wait for their time
my @jobs = map { begin_program($node, 'example_table_worker') } 1 .. 2;
is(end_program($_), 0, 'a worker on a table ends well') or diag($_->{err}) for @jobs;
is(one($node, q{select string_agg(state || ' ' || n, ', ' order by state)
	from (select state, count(*) n from jobs group by state) x}),
	'done 54, failed 6', 'every job is done but each tenth, which failed for good');
is(one($node, q{select count(*) from jobs where attempts <> case when (payload ->> 'n')::int % 3 = 0
	and (payload ->> 'n')::int % 10 <> 0 then 2 else 1 end}),
	'0', 'each third was tried twice, the others once');
my ($succeeded, $failed) = (0, 0);
for (@jobs) { my @n = $_->{out} =~ /(\d+) succeeded, (\d+) failed, 0 dropped/; $succeeded += $n[0]; $failed += $n[1] }
is("$succeeded $failed", '54 24', 'the workers counted the same');

# An event that the machine does not have is found before a row is claimed.
my $kept = fixture('../../examples/table_worker/table.sql') =~ s/, on_expiry => 'fail',\n.*?\);/);/sr
	=~ s/running --> failed : give_up\n\s*//r =~ s/failed --> \[\*\]\n\s*//r;
$node->safe_psql('postgres', 'create database kept');
$node->safe_psql('kept', "create extension pawl; $kept insert into jobs default values");
{
	local $ENV{PAWL_DATABASE} = 'dbname=kept';
	my $worker = begin_program($node, 'example_table_worker');
	is(end_program($worker), 1, 'a worker whose table has no such event ends');
	like($worker->{err}, qr/machine "job" has no event "give_up"/, 'and says which');
}
is(one($node, 'select state from jobs', 'kept'), 'queued', 'before it claims anything');

# What handlers may do
my $handlers = begin_program($node, 'example_handlers');
is(end_program($handlers), 0, 'the handlers example ends well') or diag($handlers->{err});
is($handlers->{out}, <<'OUT', 'one parcel is sent, one cannot be, one was called off');
complete {"hand_over":{"price":8.0},"label":{"attempt":2,"label":"1200 g"},"weigh":{"grams":1200,"price":8.0}}
blocked_by_failures {}
cancelled {"label":{"attempt":2,"label":"400 g"},"weigh":{"grams":400,"price":4.0}}
OUT
$node->safe_psql('postgres', 'delete from pawl_dag.tasks');
is(end_program($daemon, 'TERM'), 0, 'pawld ends well');

# Tasks in the caller's transaction, errors as types
my $orders = begin_program($node, 'example_orders');
is(end_program($orders), 0, 'the orders example ends well') or diag($orders->{err});
like($orders->{out}, qr/^order 1 is task [0-9a-f-]{36}\na second task for order 1: 23505\nno template sip_order\n$/,
	'and says what it should');
is(one($node, 'select count(*) from pawl_dag.tasks t join orders o on o.task = t.task_uuid'), '1',
	'one order, one task');
is(one($node, 'select count(*) from pawl_dag.tasks'), '1', 'what was not committed never began');

# Flows: a graph with a decider, one bank after the other, failures with types
$node->safe_psql('postgres', 'create extension pawl_saga');
my $loans = begin_program($node, 'example_sagas');
is(end_program($loans), 0, 'the sagas example ends well') or diag($loans->{err});
is($loans->{out}, <<'OUT', 'and says what it should');
no amount: 22023
north-1 is clawed back
south-1 is clawed back
SUCCESS: 4 of 4 tasks ended, {"amount":500,"bank":"north","customer":"Ada","fee":2.5,"receipt":"north-1","score":"good"}, errors null
SUCCESS: 4 of 4 tasks ended, {"amount":5000,"bank":"south","customer":"Bob","fee":2.5,"receipt":"south-1","score":"unsure","seen_by":"clerk 7, for score \"unsure\""}, errors null
REVERTED: 3 of 4 tasks ended, {"amount":9000,"customer":"Mallory"}, errors {"pay":{"message":"the passport belongs to another person","type":"fraud"}}
REVERTED: 4 of 4 tasks ended, {"amount":100,"customer":"Eve"}, errors {"letter":{"message":"no address","type":"permanent"}}
OUT
is(one($node, 'select count(*) from pawl_saga.flows f join loans l on l.flow = f.flow_uuid'), '4',
	'one loan, one flow');
is(one($node, 'select count(*) from pawl_saga.flows'), '4', 'what was not committed never began');
is(one($node, 'select * from pawl_saga.verify()'), '', 'the flows are sound');

sound($node, 'after the examples');
no_crash($node);
done_testing();
