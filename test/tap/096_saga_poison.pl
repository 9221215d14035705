# Tasks of flows whose SQL function ends its transaction or its session: the loss is logged, they fail when max_losses
# are reached, in both directions, and the others go on. By hand, and by pawld.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', conf => 'max_connections = 60', with => [ 'pawl_saga' ]);
endless($node);
$node->safe_psql('postgres', <<'SQL');
create table public.called (what text);
create table public.kept (id int unique deferrable initially deferred);
insert into public.kept values (1);
create function public.good(a jsonb) returns jsonb
    language sql as $$ insert into public.called values ('good'); select '1'::jsonb $$;
create function public.undo(a jsonb, was jsonb) returns jsonb
    language sql as $$ insert into public.called values ('undone'); select '1'::jsonb $$;
create function public.slow(a jsonb) returns jsonb
    language plpgsql as
    $$ begin insert into public.called values ('slow'); perform public.endless(); return '1'; end $$;
create function public.deadly(a jsonb) returns jsonb language plpgsql as
    $$ begin insert into public.called
        values ('deadly'); perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(600); return '1'; end $$;
create function public.deadly(a jsonb, was jsonb) returns jsonb language sql as $$ select public.deadly(a) $$;
create function public.late(a jsonb) returns jsonb
    language sql as $$ insert into public.kept values (1); select '1'::jsonb $$;
create function public.fails(a jsonb) returns jsonb language plpgsql as $$ begin raise exception 'no'; end $$;
create function public.patient(a jsonb) returns jsonb
    language plpgsql as $$ begin perform pg_sleep(1); return '1'; end $$;
select pawl_saga.define(jsonb_build_object('flow', 'linear', 'name', f, 'children',
    jsonb_build_array(jsonb_build_object('task', 'it', 'execute', 'sql:public.' || f, 'max_losses', 2))))
  from unnest(array['good', 'slow', 'deadly', 'late', 'patient']) f;
select pawl_saga.define(
    '{"flow": "linear", "name": "stuck", "children": [{"task": "it", "execute": "sql:public.good", "revert": '
    '"sql:public.deadly", "max_losses": 2}, {"task": "no", "execute": "sql:public.fails"}]}');
SQL

my @duties = (q{call pawl_saga.work_sql_tasks(10, '200 ms')}, q{select from pawl.reap('pawl_saga.tasks')});
my %met;

sub turn
{
	for my $statement (@_)
	{
		my ($state) = sqlstate_of($node, "set statement_timeout = '1 min'; $statement;");
		$met{$state}++ if defined $state;
	}
	return;
}

sub begin
{
	my ($name, $times) = @_;
	return $node->safe_psql('postgres', qq{select pawl_saga.start('$name') from generate_series(1, $times)})
}
sub states { return one($node, q{select string_agg(distinct name || ' ' || state, ', ' order by name || ' ' || state)
	from pawl_saga.flows}) }

# The bad ones came first.
begin($_, 1) for qw(slow deadly late stuck);
begin('good', 5);
wait_until(sub { turn(@duties); states() =~ /good SUCCESS/ && states() !~ /good [^S]/ }, 'the good ones');
is(one($node, q{select max(losses) from pawl_saga.tasks}), 1, 'what is behind them goes on after one loss of each');
wait_until(sub { turn(@duties); one($node, q{select count(*) from pawl_saga.flows
		where state not in ('SUCCESS', 'REVERTED', 'FAILURE')}) == 0 }, 'all flows to end');
is(states(), 'deadly REVERTED, good SUCCESS, late REVERTED, slow REVERTED, stuck FAILURE',
	'each of them ends as its flow says');
is(one($node, q{select string_agg(distinct t.state, ', ') from pawl_saga.tasks t
		join pawl_saga.flows f using (flow_uuid) where f.name = 'stuck' and t.name = 'it'}),
	'REVERT_FAILURE', 'a revert as well');
cmp_ok($met{$_} // 0, '>=', 2, "$_ was met at every loss") for '57014', '57P01', '23505';
is(one($node, q{select string_agg(what || ' ' || n, ', ' order by what)
		from (select what, count(*) as n from public.called group by what) c}),
	'good 6', 'nothing of what they did remains');
is(one($node, 'select * from pawl_saga.verify()'), '', 'all is in order');

# A function that takes longer than its lease has it all the same, for as long as it runs.
begin('patient', 1);
my $run = $node->background_psql('postgres');
$run->query_until(qr/go/, "\\echo go\n$duties[0];\n");
$node->poll_query_until('postgres',
		q{select count(*) = 1 from pawl_saga.tasks where state = 'RUNNING' and lease_until < clock_timestamp()})
	or die 'no session runs it';
is(one($node, q{select done from pawl.reap('pawl_saga.tasks')}), 0,
	'a task whose session still works is not reaped, though its lease has expired');
$run->quit;
like(states(), qr/patient SUCCESS/, 'the patient flow succeeds');

rejected($node, "begin; $duties[0];", '2D000', 'it commits, so it is not for inside a transaction');
rejected($node, 'call pawl_saga.work_sql_tasks(0)', '22023', 'nor for no task');
rejected($node, "set role pawl_reader; $duties[0];", '42501', 'nor for readers');

# pawld sees it in the same way.
$node->safe_psql('postgres', q{alter system set statement_timeout = '1 min'; select pg_reload_conf()});
begin($_, 2) for qw(deadly slow);
begin('good', 20);
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 100, '--sql-workers', 1);
wait_until(sub { one($node, q{select count(*) from pawl_saga.flows where name = 'good' and state = 'SUCCESS'}) == 25 },
	'the good ones');
is(end_program($daemon, 'TERM'), 0, 'pawld is still there and ends with 0 after SIGTERM');
no_crash($node);
done_testing();
