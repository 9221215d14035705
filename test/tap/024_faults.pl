# An accident at each statement that worker and daemon send: the connection is cut before the server hears of it or
# after it has done it, the program is killed, the backend is, the whole server is. Then every task ends well, no result
# counts twice, nothing is lost. PAWL_LONG=1: every accident at every statement.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Accidents;
use FaultProxy;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag' ]);
$node->safe_psql('postgres', <<'SQL');
create table called (task int);
create function called(context jsonb, inputs jsonb) returns jsonb language sql as
    $$ insert into public.called values ((context ->> 'n')::int); select jsonb_build_object('by', 'sql') $$;
SQL
my $retry = '"retry": {"max_attempts": 50, "backoff_base_ms": 20, "max_backoff_ms": 100}';
define_template($node, qq({"name": "work", "steps": [
	{"name": "a", "handler": "sleep", $retry},
	{"name": "b", "handler": "sleep", "handler_options": {"seconds": 300}, "dependencies": ["a"], $retry},
	{"name": "c", "handler": "sql:public.called", "dependencies": ["a"], $retry},
	{"name": "d", "handler": "sleep", "dependencies": ["b", "c"], $retry}]}));
my $tasks = 0;
# The server may be on its way back, and an answer may be lost: then the key tells that the task is there.
sub begin_task
{
	++$tasks;
	my $err = '';
	eval { wait_until(sub {
		(my $begun, undef, $err) =
			tried($node, "select pawl_dag.start_task('work', '{\"n\": $tasks}', identity_key => '$tasks')");
		$begun || $err =~ /with this identity already exists/ }, 'a task that begins') } or die "$@$err";
	return;
}

my %program = (
	example_worker => [ 'example_worker', 'default', 4, 0.001, 600 ],
	pawld => [ 'pawld', '--longest-poll-ms', 100 ],
);
for my $name (qw(example_worker pawld))
{
	my ($other) = grep { $_ ne $name } keys %program;
	my $helper = begin_program($node, @{ $program{$other} });
	# what the daemon does seldom, and when it begins; what a worker sends only where it has no room to claim
	my $accidents = Accidents->new(node => $node, program => $program{$name}, work => \&begin_task,
		at_start => qr/prune_events|time_out_tasks/, by_chance => qr/^SELECT o\.tasks/);
	# What it sends: in quiet, and after a loss.
	begin_task() for 1 .. 3;
	ok(all_ended($node, 'work'), "$name works through a proxy");
	$accidents->proxy->arm([ $name eq 'pawld' ? 'SELECT tasks, NULL' : 'SELECT r.task_uuid', 'after', 'cut' ]);
	begin_task();
	ok(all_ended($node, 'work'), 'and lives through a cut');
	my $least = $name eq 'pawld' ? 7 : 6;
	my @statements = $accidents->learned($least);
	diag("$name sends " . @statements . ' statements') if $ENV{PAWL_LONG};
	cmp_ok(scalar @statements, '>=', $least, "the statements of $name are known");

	$accidents->happen_at_each('cut', @statements);
	is(join("\n", $accidents->missed(@statements)), '', "an accident at each statement of $name");
	my @telling = $ENV{PAWL_LONG} ? @statements
		: grep { /pawl_dag\.(claim|report|orchestrate|work_sql_steps)|pawl\.reap/ } @statements;
	$accidents->happen_in_turns('program', @telling);
	@telling = grep { /pawl_dag\.(claim|report|orchestrate|work_sql_steps)/ } @telling unless $ENV{PAWL_LONG};
	for my $when ($ENV{PAWL_LONG} ? qw(before after) : 'after')
	{
		$accidents->happen($when, $_, @telling) for qw(backend server);
	}

	ok(all_ended($node, 'work'), "every task ends, after accidents at $name");
	is(end_program($accidents->run, 'TERM'), 0, "$name ends well");
	end_program($helper, 'TERM');
	$accidents->proxy->end;
}

# The drain's statement is sent at the end only.
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
my $daemon = begin_program($node, @{ $program{pawld} });
for my $when (qw(before after))
{
	my $run = begin_through($proxy, $node, @{ $program{example_worker} });
	# steps of the worker before may still be owned, those in SQL are the daemon's, and one may be over before the
	# test looks
	wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /^processor (\S+)$/m }, 'the name of the worker');
	my ($processor) = $run->{err} =~ /^processor (\S+)$/m;
	wait_until(sub {
		begin_task();
		one($node, qq{select count(*) from pawl_dag.steps where state = 'in_progress'
			and worker_uuid = '$processor'}) > 0 }, 'a step at work');
	$proxy->arm([ 'SELECT pawl.abandon', $when, 'cut' ]);
	is(end_program($run, 'TERM'), 0, "a drain that is cut $when it gives work back ends well");
	is($proxy->fired, 1, 'and was cut');
}
my $worker = begin_program($node, @{ $program{example_worker} });
ok(all_ended($node, 'work'), 'every task ends');
end_program($_, 'TERM') for $worker, $daemon;
$proxy->end;

is(one($node, q{select string_agg(distinct t.state || ' ' || s.state, ',') from pawl_dag.tasks t
	join pawl_dag.steps s using (task_uuid)}), 'complete complete', 'every task and step is complete');
is(one($node, 'select count(*) from pawl_dag.tasks'), $tasks, 'every task that was begun is there, once');
is(one($node, <<'SQL'), 4 * $tasks, 'no result counts twice');
select count(*) from (
    select from pawl_dag.step_transitions where to_state in ('enqueued_for_orchestration', 'complete')
     group by task_uuid, step_uuid
     having count(*) filter (where to_state = 'complete') = 1 and count(*) filter (where to_state <> 'complete') = 1) x
SQL
is(one($node, 'select count(*) || $$ $$ || count(distinct step_uuid) || $$ $$ || bool_and(success) from '
	. 'pawl_dag.step_result_audit'), join(' ', (4 * $tasks) x 2, 'true'),
	'the audit has exactly one row a result');
is(one($node, 'select count(*) || $$ $$ || count(distinct task) from called'), "$tasks $tasks",
	'a SQL step did what it does exactly once');
is(one($node, q{select count(*) from pawl_dag.steps where handler = 'sleep' and not result ? 'slept'
	or handler <> 'sleep' and result <> '{"by": "sql"}'}), 0, 'the results are there');
is(one($node, <<'SQL'), 0, 'no step begins before its parents are complete');
select count(*) from pawl_dag.edges e
  join pawl_dag.step_transitions p on p.task_uuid = e.task_uuid and p.step_uuid = e.parent_uuid
      and p.to_state = 'complete'
  join pawl_dag.step_transitions c on c.task_uuid = e.task_uuid and c.step_uuid = e.child_uuid
      and c.to_state = 'in_progress'
 where c.created_at < p.created_at
SQL
sound($node, 'after all accidents');
done_testing();
