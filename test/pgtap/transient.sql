-- pawl.is_transient, and that duties of the packs take what is transient for no failure of the work.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select is(array_agg(code order by code) filter (where pawl.is_transient(code)), expected,
    'transient: ' || array_to_string(expected, ' '))
  from unnest(array['08000', '08006', '08P01', '40000', '40001', '40P01', '40003', '53000', '53100', '53200', '53300',
      '53400', '55P03', '57014', '57P01', '57P02', '57P03', '57P05']) expected_code
 cross join lateral (select array[expected_code] as expected, expected_code as code) x group by expected;
select is(pawl.is_transient(code), false, format('not transient: "%s"', code))
  from unnest(array['00000', '22012', '23505', '25006', '40002', '42501', '54000', '55000', '55006', '57000', '57P04',
      '58030', 'PW001', 'PW005', 'XX000', '', '4', '40', '400011', '40001 ', 'P0001', '53ä']) code;
select is(pawl.is_transient(null), null, 'null for null');
select is((select concat_ws(' ', provolatile, proparallel, proisstrict) from pg_proc where proname = 'is_transient'),
    'i s t', 'immutable, parallel safe, strict');
create role nothing;
set role nothing;
select ok(pawl.is_transient('40001'), 'every role may ask');
reset role;
drop role nothing;

create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create table trouble (code text);
insert into trouble values (null);
create function raise_trouble() returns void language plpgsql as $$
declare
    wanted text := (select t.code from public.trouble t);
begin
    if wanted is not null then raise exception 'trouble' using errcode = wanted; end if;
end $$;
create function ends_with(query text) returns text language plpgsql as $$
begin
    execute query;
    return 'no error';
exception when others then return sqlstate;
end $$;
create function answers(context jsonb, inputs jsonb) returns jsonb
    language sql as $$ select public.raise_trouble(); select '{}'::jsonb $$;
create function answers(arguments jsonb) returns jsonb
    language sql as $$ select public.raise_trouble(); select '{}'::jsonb $$;
create function handles(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language plpgsql as $$
begin
    perform public.raise_trouble();
end $$;

-- One of each pack, ready to be run.
select pawl_dag.define_template('{"name": "t", "steps": [{"name": "s", "handler": "sql:public.answers", "retry": '
    '{"max_attempts": 1}}]}') \g /dev/null
select pawl_dag.start_task('t') as task \gset
select from pawl_dag.orchestrate();
select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "a", "execute": "sql:public.answers"}]}')
    \g /dev/null
select pawl_saga.start('f') as flow \gset
select pawl_bulk.define('{"name": "b", "steps": [{"name": "a", "handler": "sql:public.handles"}]}') \g /dev/null
select operation from pawl_bulk.submit('b') \gset
insert into pawl_bulk.input (operation, row_number, data) values (:'operation', 1, '{}');
select pawl_bulk.seal(:'operation') \g /dev/null
create function advance() returns void language plpgsql as $$
begin
    for i in 1..20 loop perform pawl_bulk.advance(); end loop;
end $$;
select advance();

create function states() returns text language sql as $$
    select concat_ws(', ', (select 'step ' || state from pawl_dag.steps),
        (select 'task ' || state from pawl_saga.atoms),
                     (select 'row ' || case when w.row_number is null then 'gone' else 'waits' end
        from pawl_bulk.operations o left join pawl_bulk.work w using (operation))) $$;
select states() as before \gset
create function all_duties(wanted text) returns setof text language plpgsql as $$
begin
    update public.trouble set code = wanted;
    return next ends_with('select pawl_dag.run_sql_steps(10)');
    return next ends_with('select pawl_saga.run_sql_tasks(10)');
    -- the duty of operations goes on with others, and the rows wait
    return next nullif(ends_with('select pawl_bulk.run_sql_rows(10)'), wanted);
end $$;
create function pawl_bulk_raises(code text) returns boolean language sql as $$ select code like '57P%' $$;
select results_eq(format('select all_duties(%L)', code),
    array[code, code, (array['no error', null])[1 + (pawl_bulk_raises(code))::int]],
    format('%s of a handler is no failure of its work: the duty raises it', code))
  from unnest(array['53100', '53200', '53300', '55P03', '57P03', '08006']) code;
-- a conflict may be that of the transaction, where it has one snapshot
begin isolation level repeatable read;
select results_eq(format('select all_duties(%L)', code), array[code, code, null],
    format('nor is %s, where the caller repeats the transaction', code)) from unnest(array['40001', '40P01']) code;
commit;
select is(states(), :'before', 'and the work waits as before');
-- where it does not go away by repetition, it is the function's own, and does not stop the duty for ever
begin;
select results_eq($$select all_duties('40001')$$, array['no error', 'no error', 'no error'],
    'one that always comes back uses an attempt');
select is((select error ->> 'sqlstate' from pawl_dag.steps), '40001', 'and the step has the error');
select is(states(), 'step enqueued_as_error_for_orchestration, task REVERTED, row waits', 'the work has failed');
rollback;
select results_eq($$select all_duties('22012')$$, array['no error', 'no error', 'no error'],
    'a division by zero is the work''s own');
select advance();
select is(states(), 'step enqueued_as_error_for_orchestration, task REVERTED, row gone', 'and ends it');
select * from finish();
