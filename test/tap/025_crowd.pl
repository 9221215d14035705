# Two daemons and six workers on the same work, some of them killed and replaced, pawl verify all the while. Fifteen
# rounds; three minutes with PAWL_LONG.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', conf => 'max_connections = 60', with => [ 'pawl_dag' ]);
my $retry = '"retry": {"max_attempts": 100, "backoff_base_ms": 10, "max_backoff_ms": 50}';
my @middle = map { qq({"name": "m$_", "handler": "sleep", "handler_options": {"seconds": $_}, "dependencies": )
		. qq(["first"], $retry}) } 1 .. 6;
my $names = join ', ', map { qq("m$_") } 1 .. 6;
define_template($node,
	qq({"name": "fan", "identity_strategy": "always_unique", "steps": [{"name": "first", "handler": "sleep", $retry}, )
	  . join(', ', @middle) . qq(, {"name": "last", "handler": "sleep", "dependencies": [$names], $retry}]}));

my @daemons = map { begin_program($node, 'pawld', '--longest-poll-ms', 200) } 1 .. 2;
my @worker = ('example_worker', 'default', 4, 0.001, 800);
my @workers = map { begin_program($node, @worker) } 1 .. 6;
my ($rounds, $killed, $verified, $found) = (0, 0, 0, '');
my $end = time + 180;
while ($ENV{PAWL_LONG} ? time < $end : $rounds < 15)
{
	start_tasks($node, 'fan', 20);
	# what verify finds while everything moves would be found for ever
	my $verify = begin_program($node, 'pawl', 'verify');
	$found .= $verify->{out} . $verify->{err} if end_program($verify) != 0;
	++$verified;
	if (++$rounds % 3 == 0)
	{
		my $i = $rounds % @workers;
		kill_program($workers[$i]);
		$workers[$i] = begin_program($node, @worker);
		++$killed;
	}
	if ($rounds % 7 == 0)
	{
		kill_program($daemons[0]);
		@daemons = ($daemons[1], begin_program($node, 'pawld', '--longest-poll-ms', 200));
		++$killed;
	}
	# no more open work than a second's or two, on whatever machine
	wait_until(sub { one($node, q{select count(*) from pawl_dag.tasks where completed_at is null}) < 60 },
		'tasks that end');
}
is($found, '', "pawl verify found nothing while everything moved, $verified times");
cmp_ok($killed, '>=', 7, "$killed programs were killed");
ok(all_ended($node, 'fan'), 'every task ends');
is(one($node, q{select string_agg(distinct t.state || ' ' || s.state, ',') from pawl_dag.tasks t
	join pawl_dag.steps s using (task_uuid)}), 'complete complete',
	'every task and step is complete in spite of the accidents');
my $steps = one($node, 'select count(*) from pawl_dag.steps');
is($steps, 20 * 8 * $rounds, 'all are there');
is(one($node, q{select count(*) || ' ' || count(distinct step_uuid) from pawl_dag.step_result_audit where success}),
	"$steps $steps", 'the audit has exactly one row a result');
is(one($node, q{select count(*) from pawl_dag.step_result_audit where not success}), 0, 'and nothing else');
is(one($node, q{select count(*) from (select from pawl_dag.step_transitions where to_state = 'complete'
	group by task_uuid, step_uuid having count(*) <> 1) x}), 0, 'no step is complete twice');
is(one($node, <<'SQL'), 0, 'no step begins before its parents are complete');
select count(*) from pawl_dag.edges e
  join pawl_dag.step_transitions p on p.task_uuid = e.task_uuid and p.step_uuid = e.parent_uuid
      and p.to_state = 'complete'
  join pawl_dag.step_transitions c on c.task_uuid = e.task_uuid and c.step_uuid = e.child_uuid
      and c.to_state = 'in_progress'
 where c.created_at < p.created_at
SQL
is(end_program($_, 'TERM'), 0, "$_->{name} drains and ends well") or diag($_->{err}) for @workers, @daemons;
sound($node, 'after all of it');
no_crash($node);
done_testing();
