-- What the kernel gives to packs whose work is SQL functions: one call with its tries (pawl.try_function), which errors
-- a handler passes on (pawl.must_reraise), and the loop that claims, commits and runs (pawl.claim_and_run).
\set QUIET 1
set client_min_messages to error;
select no_plan();

-- Errors that a handler passes on, and those that are a function's own.
create function passed_on(codes text[]) returns text[] language sql as
    $$ select array_agg(c order by c) from unnest(codes) c where pawl.must_reraise(c) $$;
\set codes '{08006,40001,40002,40003,40P01,53200,55P03,57014,57P01,57P04,22012,42501,PW001}'
select is(passed_on(:'codes'), '{08006,40003,53200,55P03,57014,57P01}', 'what the server lacks is passed on');
begin isolation level repeatable read;
select passed_on(:'codes') as repeatable \gset
commit;
select is(:'repeatable'::text, '{08006,40001,40003,40P01,53200,55P03,57014,57P01}', 'and conflicts under one snapshot');
select is(pawl.must_reraise(null), null, 'null for null');

-- One call.
create sequence tries;
create table written (try bigint);
create function public.add_up(a jsonb, b jsonb) returns jsonb
    language sql as $$ select to_jsonb(a::text::integer + b::text::integer) $$;
create function public.one(a jsonb) returns integer language sql as $$ select a::text::integer $$;
create function public.three(a jsonb, b jsonb, c jsonb) returns jsonb
    language sql as $$ select jsonb_build_array(a, b, c) $$;
create function public.nothing(a jsonb) returns jsonb language sql as $$ select null::jsonb $$;
create function public.fails(code jsonb, until jsonb) returns jsonb language plpgsql as $$
begin
    insert into public.written values (nextval('public.tries'));
    if currval('public.tries') <= until::text::bigint then
        raise exception 'try %', currval('public.tries') using errcode = code #>> '{}',
            detail = case when code #>> '{}' = '22012' then 'and why' else '' end;
    end if;
    return to_jsonb(currval('public.tries'));
end $$;
create function called(function text, variadic arguments jsonb[]) returns text language plpgsql as $$
declare
    answer record;
begin
    perform setval('public.tries', 1, false);
    truncate public.written;
    answer := pawl.try_function(current_user, function, variadic arguments);
    return coalesce(answer.result::text, 'null') || ' ' || coalesce(answer.problem::text, 'null') || ' '
        || (select count(*) from public.written);
exception when others then
    return sqlstate || ' ' || sqlerrm;
end $$;
select is(called('public.add_up', '1', '2'), '3 null 0', 'a function of two arguments');
select is(called('public.one', '7'), '7 null 0', 'of one, whose result is made JSON');
select is(called('public.three', '1', null, '"x"'), '[1, null, "x"] null 0', 'and one of three');
select is(called('public.nothing', '1'), 'null null 0', 'null is a result');
select is(called('public.absent', '1'), 'null {"detail": "Its name must include the schema.", "message": '
    '"no function public.absent(jsonb)", "sqlstate": "42883"} 0', 'a function that is not there is a problem');
select is(called('add_up', '1', '2') ~ '"42883"', true, 'so is a name without a schema');
select is(called('a.b.c.d.e', '1') ~ '^null .*"sqlstate": "42', true, 'and a name that is none');
select is(called('public.fails', '"22012"', '9'),
    'null {"detail": "and why", "message": "try 1", "sqlstate": "22012"} 0', 'an error is a problem, tried once');
select is(called('public.fails', '"P0004"', '9'), 'null {"message": "try 1", "sqlstate": "P0004"} 0', 'so is ASSERT');
select is(called('public.fails', '"40001"', '3'), '4 null 1', 'a conflict is tried again; what it had done is gone');
select is(called('public.fails', '"40P01"', '9'), 'null {"message": "try 6", "sqlstate": "40P01"} 0',
    'but no more than six times');
select is(called('public.fails', '"40002"', '9'), 'null {"message": "try 1", "sqlstate": "40002"} 0',
    'a constraint that does not hold is no conflict');
select is(called('public.fails', '"53200"', '9'), '53200 try 1', 'what the server lacks is raised');
begin isolation level repeatable read;
select called('public.fails', '"40001"', '9') as one_snapshot \gset
commit;
select is(:'one_snapshot'::text, '40001 try 1', 'and so is a conflict under one snapshot');
create role sql_functions_definer;
create role sql_functions_operator in role pawl_operator;
set role sql_functions_operator;
select is((select f.problem ->> 'sqlstate' from pawl.try_function('sql_functions_definer', 'public.one', '1') f),
    '42501',
    'neither role can become the other: that is a problem too');
reset role;

-- The loop. Each try of a job writes a line, in a sequence that no rollback takes back.
create table jobs (job integer primary key, code text, fails_until bigint default 0, state text not null default 'new',
    tries bigint not null default 0, said text);
create table lines (line serial, what text);
create sequence clock;
create function public.next_job(processor text, lease interval, rest integer, before jsonb) returns jsonb
language plpgsql as $$
declare
    taken jsonb;
begin
    insert into public.lines (what) values (format('claim %s %s %s after %s', processor, lease, rest, before -> 'job'));
    update public.jobs j set state = 'claimed'
        where j.job = (select min(x.job) from public.jobs x where x.state = 'new')
    returning jsonb_build_object('job', j.job) into taken;
    return taken;
end $$;
create function public.run_job(work jsonb, processor text) returns integer language plpgsql as $$
declare
    j public.jobs;
begin
    select x.* into j from public.jobs x where x.job = (work ->> 'job')::integer;
    perform nextval('public.clock');
    insert into public.lines (what) values (format('run %s in %s', j.job, current_setting('search_path')));
    if j.state <> 'claimed' then raise exception 'not committed'; end if;
    if currval('public.clock') <= j.fails_until then raise exception 'job %', j.job using errcode = j.code; end if;
    update public.jobs x set state = 'done', tries = currval('public.clock') where x.job = j.job;
    return case when j.code = 'lost' then 0 else 1 end;
end $$;
create function public.job_failed(work jsonb, processor text, code text, said text) returns void language sql as $$
    insert into public.lines (what) values (format('failed %s %s %s', processor, code, said));
    update public.jobs j set state = 'failed', said = job_failed.said, tries = currval('public.clock')
    where j.job = (work ->> 'job')::integer;
$$;
create procedure start(rows text) language plpgsql as $$
begin
    truncate public.jobs, public.lines;
    perform setval('public.clock', 1, false);
    execute 'insert into public.jobs (job, code, fails_until) values ' || rows;
end $$;
\set statements '\'SELECT public.next_job($1, $2, $3, $4)\', \'SELECT public.run_job($1, $2)\''
\set failed '\'SELECT public.job_failed($1, $2, $3, $4)\''
create function told() returns text[] language sql as $$ select array_agg(what order by line) from public.lines $$;
create function ended() returns text[] language sql as
    $$ select array_agg(concat_ws(' ', job, state, tries, said) order by job) from public.jobs $$;

call start('(1, null, 0), (2, ''lost'', 0)');
call pawl.claim_and_run(:statements, :failed, 'p', '1 min', 10, null, '1 h') \gset
select is(:'done'::text, '1', 'what is lost does not count');
select is(told(), '{"claim p 00:01:00 10 after ","run 1 in pg_catalog, pg_temp",claim p 00:01:00 9 after 1,'
    '"run 2 in pg_catalog, pg_temp",claim p 00:01:00 9 after 2}', 'claims know what is left, and what was before');
call start('(1, null, 0), (2, null, 0), (3, null, 0)');
call pawl.claim_and_run(:statements, :failed, 'p', '1 min', 2, null, '1 h') \gset
select is(:'done' || ended()::text, '2{"1 done 1","2 done 2","3 new 0"}', 'no more than a batch');
call start('(1, ''40001'', 5), (2, null, 0)');
call pawl.claim_and_run(:statements, :failed, 'p', '1 min', 10, null, '1 h') \gset
select is(:'done' || ended()::text, '2{"1 done 6","2 done 7"}', 'a transient error is tried again, five times');
select is((select count(*) from lines where what ~ '^run 1 '), 1::bigint, 'what a failed try did is gone');
call start('(1, ''40001'', 6), (2, ''53200'', 12), (3, ''22012'', 99), (4, null, 0)');
call pawl.claim_and_run(:statements, :failed, 'p', '1 min', 10, null, '1 h') \gset
select is(:'done' || ended()::text, '1{"1 failed 6 job 1","2 failed 12 job 2","3 failed 13 job 3","4 done 14"}',
    'then it has failed, as with any other error at once, and the next has its turn');
select is((select array_agg(what order by line) from lines where what ~ 'failed'), '{failed p 40001 job 1,'
    'failed p 53200 job 2,failed p 22012 job 3}', 'failures are reported with SQLSTATE and message');

-- Without a statement for failures the error is the caller's, and the claim remains.
call start('(1, ''22012'', 9), (2, null, 0)');
\set ON_ERROR_STOP 0
\set VERBOSITY sqlstate
call pawl.claim_and_run(:statements, null, 'p', '1 min', 10, null, '1 h') \g /dev/null
select is(:'LAST_ERROR_SQLSTATE'::text, '22012', 'an error is raised');
select is(ended(), '{"1 claimed 0","2 new 0"}', 'the work stays claimed, the next unclaimed');
call start('(1, ''40001'', 9), (2, null, 0)');
call pawl.claim_and_run(:statements, null, 'p', '1 min', 10, null, '1 h') \g /dev/null
select is(:'LAST_ERROR_SQLSTATE'::text, '40001', 'a transient one as well');
select is(nextval('clock'), 7::bigint, 'after six tries');
begin;
call pawl.claim_and_run(:statements, null, 'p', '1 min', 10, null, '1 h') \g /dev/null
rollback;
select is(:'LAST_ERROR_SQLSTATE'::text, '2D000', 'it cannot run inside a transaction');
set role pawl_worker;
call pawl.claim_and_run('select null::jsonb', 'select 1', null, 'p', null, 1, null) \g /dev/null
reset role;
select is(:'LAST_ERROR_SQLSTATE'::text, '42501', 'workers do not run SQL functions');

-- It goes on for 100 ms: a long one ends the call, and nothing else is claimed before.
call start('(1, null, 0), (2, null, 0)');
create or replace function public.run_job(work jsonb, processor text) returns integer language sql as
    $$ select 1 from pg_catalog.pg_sleep(0.12) $$;
call pawl.claim_and_run(:statements, null, 'p', '1 min', 10, null) \gset
select is(:'done' || ended()::text, '1{"1 claimed 0","2 new 0"}', 'work that would wait is not claimed');
drop role sql_functions_definer, sql_functions_operator;
select throws_ok(format('select pawl.try_function(current_user, ''public.f'', variadic %s::jsonb[])', a), '22023',
    'a function of a definition has at least one argument', a || ' is no list of arguments')
  from unnest(array['null', '''{}''']) a;
select * from finish();
