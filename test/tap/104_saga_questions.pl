# Deciders and controllers that end the session that asks them: the flow that does it fails and says why, all others
# go on, whichever statement or duty reaches the function. By hand, by a worker, and by pawld with a conductor.
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
create table public.kept (id int unique deferrable initially deferred);
insert into public.kept values (1);
create table public.called (what text);
create table public.weapons (n int);
create function public.does(what text) returns boolean language plpgsql as $$
begin
    insert into public.called values (what);
    case what
        when 'deadly' then perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(600);
        when 'slow' then perform public.endless();
        when 'late' then insert into public.kept values (1);
        when 'shutdown' then raise exception 'no shutdown' using errcode = '57P01';
        when 'asserts' then assert false, 'never so';
        else null;
    end case;
    return true;
end $$;
create function public.armed(h jsonb) returns boolean language sql as
    $$ select public.does(case when count(*) > 0 then 'deadly' else 'fine' end) from public.weapons $$;
create function public.work(a jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
create function public.fails(a jsonb) returns jsonb language plpgsql as $$ begin raise exception 'no'; end $$;
do $$ declare w text; begin
    foreach w in array '{fine,deadly,slow,late,shutdown,asserts}'::text[] loop
        execute format('create function public.votes_%s(h jsonb) returns boolean language sql as '
            '$f$ select public.does(%L) $f$', w, w);
        execute format('create function public.says_%s(h jsonb) returns text language sql as '
            '$f$ select case when public.does(%L) then ''REVERT'' end $f$', w, w);
    end loop;
end $$;
-- a flow that reaches the function in one way: by what ends its first task
create function public.define(way text, what text) returns void language plpgsql as $$
declare
    b constant text := '{"task": "b", "execute": "sql:public.work"}';
    first text := case way
        when 'report' then '{"task": "a", "queue": "report"}'
        when 'batch' then '{"task": "a", "queue": "batch"}'
        when 'sql' then '{"task": "a", "execute": "sql:public.work"}'
        when 'signal' then '{"task": "a", "signal": "go"}'
        when 'end_waits' then '{"task": "a", "wait_seconds": 0.05}'
        when 'run' then '{"task": "a", "wait_seconds": 0}'
        when 'conduct' then '{"task": "a", "wait_seconds": 0}'
        when 'failure' then '{"task": "a", "execute": "sql:public.fails"}'
        when 'time_out_tasks' then '{"task": "a", "queue": "gone", "timeout_seconds": 0.05}'
        when 'reap' then '{"task": "a", "queue": "lost", "max_losses": 1}' end;
begin
    if way in ('failure', 'time_out_tasks', 'reap') then
        perform pawl_saga.define(format('{"flow": "linear", "name": "%s %s", "retry": {"retry": "Function", "name": "r",
            "function": "public.says_%2$s"}, "children": [%3$s]}', way, what, first)::jsonb);
    elsif way = 'claim' then
        perform pawl_saga.define(format('{"flow": "unordered", "name": "%s %s", "children": [{"task": "z",
            "execute": "sql:public.fails"},
            {"flow": "linear", "name": "in", "retry": {"retry": "Function", "name": "r",
                "function": "public.says_%2$s"},
             "children": [{"task": "a", "queue": "orphaned", "max_losses": 1000}]}]}', way, what)::jsonb);
    elsif way = 'begin_attempts' then
        perform pawl_saga.define(format('{"flow": "linear", "name": "%s %s", "retry": {"retry": "Times", "name": "r",
            "attempts": 2,
            "backoff": {"strategy": "none", "base": "50 ms"}}, "children": [{"flow": "graph", "name": "g",
                "children": [{"task": "a", "wait_seconds": 0},
            {"task": "b", "execute": "sql:public.fails"}], "links": [{"from": "a", "to": "b",
                "decider": {"function": "public.%s"}}]}]}',
            way, what, case what when 'fine' then 'votes_fine' else 'armed' end)::jsonb);
    else
        perform pawl_saga.define(format('{"flow": "graph", "name": "%s %s", "children": [%s, %s],
            "links": [{"from": "a", "to": "b",
                "decider": {"function": "public.votes_%2$s"}}]}', way, what, first, b)::jsonb);
    end if;
end $$;
create role helper login in role pawl_operator;
grant usage on schema public to helper;
grant insert on public.called, public.kept to helper;
SQL

my @ways = qw(report batch sql failure signal run conduct end_waits begin_attempts time_out_tasks reap claim);
for my $way (@ways)
{
	$node->safe_psql('postgres', "select public.define('$way', w) from unnest('{fine,deadly}'::text[]) w");
}
$node->safe_psql('postgres', "select public.define('end_waits', w), public.define('failure', w)
	from unnest('{slow,late,shutdown,asserts}'::text[]) w");

# What each duty met. One session for those that must not end, which says where it is; a session of the role itself,
# which may end its own only.
my %met;
sub meet
{
	my ($duties, %how) = @_;
	my ($out, $error) = ('', '');
	my $at = join "\n", map { "\\echo at $_->[0]\n\\warn at $_->[0]\n$_->[1];" } @$duties;
	$node->psql('postgres', "set statement_timeout = '1 min';\nset client_min_messages = error;\n$at",
		stdout => \$out, stderr => \$error, on_error_stop => 0, extra_params => [ '-U', $how{role}, '-v',
			'VERBOSITY=sqlstate' ]);
	my $where = '';
	for my $line (split /\n/, $error)
	{
		$where = $1 if $line =~ /at (\w+)$/;
		$met{$where}{$1}++ if $line =~ /(?:ERROR|FATAL):  (\w{5})/;
	}
	return;
}
# A worker: what it claims is committed before it reports; what it was to execute it leaves, if it says so.
sub works
{
	my ($queue, $batch, $lease, $executes) = @_;
	return qq{select coalesce(jsonb_agg(jsonb_build_object('flow_uuid', flow_uuid, 'node', node, 'token', token,
		'result', 1)), '[]') as done
		from pawl_saga.claim('w', '$queue', $batch, '$lease') where action = 'revert' or $executes \\gset
		select from pawl_saga.report(:'done', 'w')};
}
my @duties = (
	[ batch => works('batch', 100, '1 min', 'true') ], [ report => works('report', 1, '1 min', 'true') ],
	[ gone => works('gone', 100, '1 min', 'false') ], [ lost => works('lost', 100, '1 min', 'false') ],
	[ expire => q{begin; set local session_replication_role = replica;
		update pawl_saga.tasks set lease_until = clock_timestamp()
		where queue in ('batch', 'report', 'lost', 'orphaned') and state = 'RUNNING' and worker is not null; commit} ],
	[ reap => q{select from pawl.reap('pawl_saga.tasks')} ], [ time_out_tasks => 'select
		from pawl_saga.time_out_tasks()' ],
	[ end_waits => 'select from pawl_saga.end_waits()' ], [ begin_attempts => 'select
		from pawl_saga.begin_attempts()' ],
	[ conduct => 'select from pawl_saga.conduct()' ], [ claim => works('orphaned', 100, '1 min', 'false') ]);
my $work = [ work => q{call pawl_saga.work_sql_tasks(100, '200 ms')} ];
sub turn
{
	my (%how) = (role => 'postgres', only => '', @_);
	meet([ grep { $how{only} eq '' || $how{only} eq $_->[0] } @duties ], %how) if $how{only} ne 'work';
	if ($how{only} eq '' || $how{only} eq 'work') { meet([$work], role => $how{asker} // 'postgres') for 1 .. 4 }
	return;
}
sub hurry { $node->safe_psql('postgres', 'update pawl_saga.set_aside set due_at = clock_timestamp()'); return }
sub begin
{
	my ($way, $what, $times) = @_;
	my $begin = $way eq 'conduct' ? "pawl_saga.post('$way $what', '$way $what')" : "pawl_saga.start('$way $what')";
	# a signal goes to the flows that have none yet
	my $more = $way eq 'signal' ? q{select pawl_saga.signal(flow_uuid, 'go') from pawl_saga.flows f
		where name like 'signal %'
		and not exists (select from pawl_saga.signals s where s.flow_uuid = f.flow_uuid)} : 'select';
	$node->safe_psql('postgres', "select $begin from generate_series(1, $times); $more");
	return;
}
sub states
{
	my ($what) = @_;
	return one($node, "select coalesce(string_agg(distinct name || ' ' || state, ', ' order by name || ' ' || state),
		'') from pawl_saga.flows where name like '% $what'");
}
my $open = q{select count(*) from pawl_saga.flows where state not in ('SUCCESS', 'REVERTED', 'FAILURE')};
my %good = (failure => 'REVERTED', time_out_tasks => 'REVERTED', reap => 'REVERTED', claim => 'REVERTED',
	begin_attempts => 'REVERTED');
my $good = join ', ', map { "$_ fine " . ($good{$_} // 'SUCCESS') } sort @ways;

# Waits, and says where the flows are if it is in vain.
sub until_then
{
	my ($condition, $what) = @_;
	eval { wait_until($condition, $what); 1 } and return;
	diag(one($node, q{select string_agg(concat_ws(' ', n, name, state, k, s), E'\n')
		from (select count(*) n, f.name, f.state,
		(select string_agg(t.name || ' ' || t.state || ' ' || t.intention || ' ' || t.losses, ', ' order by t.node)
		from pawl_saga.tasks t
		where t.flow_uuid = f.flow_uuid) k, (select s.attempts || ' ' || s.message from pawl_saga.set_aside s
			where s.flow_uuid = f.flow_uuid) s from pawl_saga.flows f where f.state in ('RUNNING', 'SUSPENDING')
			group by 2, 3, 4, 5) x}));
	die $@;
}

# The workers of the orphans claim before anything fails. Of every kind the bad one comes first.
begin($_, 'deadly', 1), begin($_, 'fine', 10) for @ways;
turn(only => 'claim');
turn(only => 'begin_attempts');
until_then(sub { turn(only => 'work'); one($node, q{select count(*) = 11 from pawl_saga.attempts where failures <> '{}'
	and node in (select node from pawl_saga.retries where name = 'r') and flow_uuid in (select flow_uuid
	from pawl_saga.flows where name like 'begin_attempts %')}) }, 'the first attempts');
$node->safe_psql('postgres', 'insert into public.weapons values (1)');
until_then(sub { turn(); one($node, "$open and name like '% fine'") == 0 }, 'the good ones');
is(states('fine'), $good, 'all good flows end as they should, behind a bad one of each kind');
is(one($node, q{select count(*) from pawl_saga.flows where name like '% deadly' and state in ('FAILURE',
	'REVERTED')}), 0, 'no bad one has ended for the loss of one session');
cmp_ok(one($node, q{select count(*) from pawl_saga.set_aside where sqlstate = '57P01'}), '>', 0,
	'losses are counted');
like(one($node, 'select min(problem) from pawl_saga.verify()'),
	qr/is set aside until .* work_sql_tasks raised 57P01: the session or transaction that asked/,
	'verify reports that the flow is set aside');
is(one($node, q{select * from pawl_saga.verify() where problem !~ 'is set aside'}), '', 'else all is in order');

until_then(sub { turn(); hurry(); one($node, $open) == 0 }, 'the bad ones to end');
is(states('deadly'), join(', ', map { "$_ deadly FAILURE" } sort @ways), 'the bad ones fail');
is(one($node, q{select string_agg(distinct (problem - 'atom')::text, E'\\n') from pawl_saga.flows
	where name like '% deadly'}),
	'{"message": "6 sessions or transactions were lost that asked a decider or controller", "sqlstate": "57P01"}',
		'and say why');
is(one($node, q{select string_agg(distinct (problem ->> 'atom'), ', ') from pawl_saga.flows
	where name like '% deadly'}), 'a, b', 'and which atom it was');
is(one($node, q{select string_agg(distinct t.state, ', ') from pawl_saga.tasks t
	join pawl_saga.flows f using (flow_uuid) where f.name ~ '^(report|batch|sql|signal|run|conduct|end_waits) deadly'
	and t.name = 'a'}), 'SUCCESS', 'nothing is reverted: a decider');
is(one($node, q{select string_agg(distinct t.state || ' ' || t.intention, ', ') from pawl_saga.tasks t
	join pawl_saga.flows f using (flow_uuid) where f.name ~ '^(failure|time_out_tasks|reap) deadly' and t.name = 'a'}),
	'FAILURE EXECUTE', 'nor anything decided: a controller');
# The sessions that were ended: those that ask questions, and the one worker that reported the flow alone
is(join(', ', grep { $_ ne 'work' && $_ ne 'report' } sort keys %met), '',
	'no duty meets the function, nor a report of several flows');
is($met{report}{'57P01'}, 1, 'a report of one flow meets it once');
cmp_ok($met{work}{'57P01'}, '>=', 6 * 8, 'the sessions that run SQL functions are lost');
is(one($node, q{select count(*) from public.called where what <> 'fine'}), 0, 'nothing of what they did remains');
is(one($node, 'select (select count(*) from pawl_saga.questions) + (select count(*) from pawl_saga.set_aside)'), 0,
	'no question is left, nor a flow that is set aside');
is(one($node, 'select * from pawl_saga.verify()'), '', 'and pawl_saga.verify() finds nothing');
sound($node, 'after all of them');

# A rerun asks again.
my $again = one($node, q{select flow_uuid from pawl_saga.flows where name = 'end_waits deadly'});
is(one($node, "select pawl_saga.run('$again')"), 'RUNNING', 'a flow that failed by a question can be run again');
is(one($node, "select node || ' ' || losses from pawl_saga.questions where flow_uuid = '$again'"), one($node,
	"select node || ' 0' from pawl_saga.tasks where flow_uuid = '$again' and name = 'b'"),
	'a flow that runs again asks its question without losses');
$node->safe_psql('postgres',
	q{create or replace function public.votes_deadly(h jsonb) returns boolean language sql as $f$ select false $f$});
is(one($node, 'select done from pawl_saga.run_sql_tasks()'), 1, 'the decider was mended');
is(one($node, "select f.state || ' ' || t.state from pawl_saga.flows f join pawl_saga.tasks t using (flow_uuid)
	where f.flow_uuid = '$again' and t.name = 'b'"), 'SUCCESS IGNORE', 'and the flow ends');
$node->safe_psql('postgres',
	q{create or replace function public.votes_deadly(h jsonb) returns boolean language sql as
		$f$ select public.does('deadly') $f$});

# Other ends of a transaction, by a worker's role.
%met = ();
my @bad = qw(slow late shutdown asserts);
for my $way (qw(end_waits failure))
{
	begin($way, $_, 1) for @bad;
	begin($way, 'fine', 3);
}
until_then(sub { turn(asker => 'helper'); one($node, "$open and name like '% fine'") == 0 }, 'the good ones');
is(one($node, qq{select count(*) from pawl_saga.flows where name ~ ' (slow|shutdown)\$' and state <> 'RUNNING'}), 0,
	'before the others have used their attempts');
until_then(sub { turn(asker => 'helper'); hurry(); one($node, $open) == 0 }, 'the others to end');
is(states($_), "end_waits $_ FAILURE, failure $_ FAILURE", "what is $_ fails") for @bad;
is(one($node, q{select string_agg(distinct substr(f.name, strpos(f.name, ' ') + 1) || ' ' || (problem ->> 'sqlstate'),
	', ') from pawl_saga.flows f where f.name ~ ' (slow|late|shutdown|asserts)$'}),
	'asserts P0004, late 42501, shutdown 57P01, slow 57P01', 'with its reason');
cmp_ok($met{work}{57014} // 0, '>=', 12, 'statement_timeout was met on the way');
is(join(', ', grep { $_ ne 'work' } sort keys %met), '', 'by the sessions that ask, and no other');

# An attempt under way is not lost, however short its lease.
begin('run', 'slow', 1) if $node->safe_psql('postgres', "select public.define('run', 'slow')") || 1;
my $run = $node->background_psql('postgres', on_error_stop => 0);
$run->query_until(qr/go/, "\\echo go\ncall pawl_saga.work_sql_tasks(10, '1 ms');\n");
$node->poll_query_until('postgres', q{select count(*) = 1 from pawl_saga.questions q
	join pg_stat_activity a on a.pid = q.session where lease_until < clock_timestamp() and wait_event = 'PgSleep'})
	or die 'it is not asked';
begin('run', 'fine', 3);
until_then(sub { turn(); one($node, "$open and name like '% fine'") == 0 }, 'others beside it');
is(one($node, q{select losses || ' ' || (select count(*) from pawl_saga.set_aside) from pawl_saga.questions}), '0 0',
	'an attempt whose session is at work is not counted as lost');
is(one($node, 'select pg_cancel_backend(session) from pawl_saga.questions'), 't', 'it is cancelled');
$node->poll_query_until('postgres', q{select a.state = 'idle' from pawl_saga.questions q
	join pg_stat_activity a on a.pid = q.session}) or die 'it is not cancelled';
meet([$work], role => 'postgres');
is(one($node, 'select losses from pawl_saga.questions'), 1, 'that counts once, when its lease is over');
$run->{run}->kill_kill;
$node->safe_psql('postgres', q{delete from pawl_saga.flows where name = 'run slow'});

rejected($node, "set role helper; insert into pawl_saga.questions (flow_uuid, node, place) select flow_uuid, 1, 1
	from pawl_saga.flows limit 1", '42501', 'a worker puts no questions');
rejected($node, "set role helper; update pawl_saga.questions set losses = 9", '42501', 'nor counts losses');
rejected($node, 'set role pawl_reader; select pawl_saga._take_question(null)', '42501', 'a reader takes none');

# pawld and a conductor see it in the same way.
begin($_, 'deadly', 1), begin($_, 'fine', 10) for qw(sql conduct end_waits);
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 100, '--sql-workers', 1);
until_then(sub { one($node, "$open and name like '% fine'") == 0 && one($node, q{select count(*) from pawl_saga.jobs
	where name = 'conduct fine' and state <> 'COMPLETE'}) == 0 }, 'the good ones');
until_then(sub { hurry(); one($node, "$open and name ~ '^(conduct|end_waits) '") == 0 },
	'the bad ones that wait for no lease');
until_then(sub { one($node, q{select count(*) from pawl_saga.jobs where state <> 'COMPLETE'}) == 0 }, 'the jobs');
is(end_program($daemon, 'TERM'), 0, 'pawld lives, and so does its conductor');
is(one($node, q{select * from pawl_saga.verify() where problem !~ 'is set aside'}), '', 'all is in order');
no_crash($node);
done_testing();
