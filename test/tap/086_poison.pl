# SQL functions that end their transaction or their session: the attempt is logged, they come to the end of their
# attempts, and the others go on. Here by hand, and by pawld.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', conf => 'max_connections = 60', with => [ 'pawl_dag' ]);
endless($node);
$node->safe_psql('postgres', <<'SQL');
create table public.called (what text, task uuid);
create table public.kept (id int unique deferrable initially deferred);
insert into public.kept values (1);
create function public.good(context jsonb, inputs jsonb) returns jsonb language sql as
    $$ insert into public.called values ('good', (context ->> 'task')::uuid); select '{"by": "sql"}'::jsonb $$;
create function public.slow(context jsonb, inputs jsonb) returns jsonb language plpgsql as
    $$ begin insert into public.called values ('slow'); perform public.endless(); return '{}'; end $$;
create function public.deadly(context jsonb, inputs jsonb) returns jsonb language plpgsql as
    $$ begin insert into public.called
        values ('deadly'); perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(600); return '{}'; end $$;
create function public.late(context jsonb, inputs jsonb) returns jsonb language sql as
    $$ insert into public.kept values (1); select '{}'::jsonb $$;
create function public.patient(context jsonb, inputs jsonb) returns jsonb language plpgsql as
    $$ begin perform pg_sleep(1); return '{}'; end $$;
select pawl_dag.define_template(jsonb_build_object('name', f, 'steps',
    jsonb_build_array(jsonb_build_object('name', 'it', 'handler', 'sql:public.' || f,
    'retry', '{"max_attempts": 2, "backoff": "linear", "backoff_base_ms": 600000}'::jsonb))))
    from unnest(array['good', 'slow', 'deadly', 'late', 'patient']) f;
SQL

# What pawld does, and what any session may do by hand; each call in a session of its own, that may end.
my @duties = ('select from pawl_dag.orchestrate(100)', q{call pawl_dag.work_sql_steps(10, '200 ms')},
	'select from pawl.reap()', 'select from pawl.fire_due()');
sub turn
{
	my (@statements) = @_;
	my @states;
	for my $statement (@statements)
	{
		my ($state) = sqlstate_of($node, "set statement_timeout = '1 min'; $statement;");
		push @states, $state;
	}
	return @states;
}

sub states { return one($node, q{select string_agg(distinct t.name || ' ' || s.state || ' ' || s.attempts, ', '
	order by t.name || ' ' || s.state || ' ' || s.attempts) from pawl_dag.tasks t
	join pawl_dag.steps s using (task_uuid)})
	}

# The bad ones come first.
$node->safe_psql('postgres', qq{select pawl_dag.start_task('$_', '{}', priority => 10)}) for qw(slow deadly late);
$node->safe_psql('postgres',
	q{select pawl_dag.start_task('good', jsonb_build_object('i', i)) from generate_series(1, 5) i});
my %met;
wait_until(sub { $met{$_}++ for turn(@duties); states() =~ /good complete/ && states() !~ /good [^c]/ },
	'the good ones');
unlike(states(), qr/error/, 'what is behind them goes on after one attempt of each') or diag(states());
wait_until(sub {
	$node->safe_psql('postgres',
		q{update pawl_dag.steps set next_retry_at = clock_timestamp() where state = 'waiting_for_retry'});
	$met{$_}++ for turn(@duties);
	one($node,
		q{select count(*) from pawl_dag.tasks where state not in ('complete', 'error', 'blocked_by_failures')}) == 0
}, 'all tasks to end');
is(states(), 'deadly error 2, good complete 1, late error 2, slow error 2',
	'and each of them has used its attempts, and ends as its policy says');
cmp_ok($met{$_} // 0, '>=', 2, "$_ was met at every attempt") or diag(explain(\%met)) for '57014', '57P01', '23505';
is(one($node, 'select count(*) from public.called'), 5, 'nothing of what they did remains');
sound($node, 'after all of them');

# A function that takes longer than its lease has it all the same, for as long as it runs.
$node->safe_psql('postgres', q{select pawl_dag.start_task('patient', '{}')});
turn($duties[0]);
my $run = $node->background_psql('postgres');
$run->query_until(qr/go/, "\\echo go\n$duties[1];\n");
$node->poll_query_until('postgres',
	q{select count(*) = 1 from pawl_dag.steps where state = 'in_progress' and lease_until < clock_timestamp()}) or die;
is(one($node, 'select done from pawl.reap()'), 0,
	'a step whose session still works is not reaped, though its lease has expired');
$run->quit;
turn(@duties) for 1 .. 2;
like(states(), qr/patient complete 1/, 'the patient task completes');

rejected($node, "begin; $duties[1];", '2D000', 'it commits, so it is not for inside a transaction');
rejected($node, 'call pawl_dag.work_sql_steps(0)', '22023', 'nor for no step');

# pawld sees it in the same way.
$node->safe_psql('postgres', q{alter system set statement_timeout = '1 min'; select pg_reload_conf()});
$node->safe_psql('postgres',
	q{delete from pawl_dag.tasks; select pawl_dag.start_task('deadly', jsonb_build_object('i', i), priority => 10),
	pawl_dag.start_task('slow', jsonb_build_object('i', i), priority => 10) from generate_series(1, 2) i});
$node->safe_psql('postgres',
	q{select pawl_dag.start_task('good', jsonb_build_object('i', i)) from generate_series(1, 20) i});
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 100, '--sql-workers', 1);
wait_until(sub { one($node, q{select count(*) from pawl_dag.tasks where state = 'complete'}) == 20 }, 'the good ones');
is(one($node, q{select count(*) from pawl_dag.steps where state = 'in_progress' and attempts = 1}), 4,
	'pawld has met each of the bad once when the good are done');
is(end_program($daemon, 'TERM'), 0, 'pawld is still there and ends with 0 after SIGTERM');
no_crash($node);
done_testing();
