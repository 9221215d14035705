-- Internal functions that a worker can execute, called with forged arguments: real operations, rows, flows, tasks and
-- jobs of others, and rows that say more than is true. What each can write is decided here, and nothing breaks.
\set QUIET 1
set client_min_messages = error;
select no_plan();
\ir ../pgtap/shared/dag.psql
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create role forged_worker in role pawl_worker;
\ir include/work.psql
select is(broken(), null, 'nothing is wrong before');

create view called as
select p.oid, p.pronamespace::regnamespace || '.' || quote_ident(p.proname) as name, p.oid::regprocedure::text as
    signature, p.prosecdef as definer, p.proargtypes::oid[] as types, p.proargnames as names
  from pg_proc p
 where p.pronamespace = any ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[]) and p.proname ^@ '_' and p.prokind = 'f'
   and p.provolatile = 'v' and p.prorettype <> 'trigger'::regtype and has_function_privilege('forged_worker', p.oid,
    'EXECUTE');

-- Literals for an argument, by its type and its name.
create function forged(type oid, name text) returns text[] language plpgsql as $$
declare said text[]; element oid := (select t.typelem from pg_type t where t.oid = type and t.typcategory = 'A');
begin
    if element <> 0 then
        return array(select format('array[%s]', f) from unnest(forged(element, rtrim(name, 's'))) f)
            || format('array[%s]', array_to_string(forged(element, rtrim(name, 's')), ', '));
    elsif exists (select from pg_type t join pg_class c on c.oid = t.typrelid
                   where t.oid = type and c.relkind = 'c') then
        return array(select format('jsonb_populate_record(null::%s, %L)', type::regtype, jsonb_build_object('task',
    t.task_uuid, 'task_uuid', t.task_uuid, 'event', e, 'next_event', e, 'enqueued', 1, 'left_over', 0, 'ready', 1))
            from pawl_dag.tasks t, unnest('{AllStepsSuccessful,Start,ReadyStepsFound,GiveUp}'::text[]) e);
    elsif (select t.typrelid from pg_type t where t.oid = type) <> 0 then
        -- a row of the table, and one that is made to fit
        execute format('select array_agg(x.said) from (select unnest(array[format(''%%L::%1$s'', t::text),
            format(''jsonb_populate_record(%%L::%1$s, %%L)'', t::text, jsonb_build_object(''session'', pg_backend_pid(),
                ''lost_at'', ''2001-01-01'', ''lease_until'', ''2001-01-01'', ''status'', ''Validating'', ''state'',
                ''SUCCESS'', ''input_error'', ''x'', ''worker'', ''intruder'', ''step_index'', 0, ''size'', 9,
                ''opened_through'', 0, ''validated_through'', 0))]) as said from %1$s t limit 12) x',
            type::regtype::text) into said;
        return coalesce(said, array[format('null::%s', type::regtype)]);
    elsif type = 'uuid'::regtype then
        return array(select format('%L::uuid', i.id) from (
            select 'operation' as name, operation as id from pawl_bulk.operations
            union all select 'run', run from pawl_bulk.sql_runs union all select 'flow', flow_uuid from pawl_saga.flows
            union all select 'job', job_uuid from pawl_saga.jobs union all select 'task', task_uuid from pawl_dag.tasks
            union all select 'step', step_uuid from pawl_dag.steps union all select 'notice', notice from
    pawl_bulk.notices) i
             where forged.name ^@ i.name or not forged.name ~ '^(operation|run|flow|job|task|step|notice)');
    end if;
    return array(select format('%L::%s', v, type::regtype) from unnest(case type::regtype::text
        when 'bigint' then '{1,2,3,0,9223372036854775807}' when 'integer' then '{0,1,2,-1,100}'
        when 'boolean' then '{t,f}'
        when 'interval' then '{1 h}' when 'timestamp with time zone' then '{now,2001-01-01,2100-01-01}'
        when 'jsonb' then E'{"{}","[]",null,"{\\"message\\": \\"x\\"}"}' when 'double precision' then '{0,1}'
        else '{other,intruder,default,sql:,57P01,x,Completed,Failed,SUCCESS,FAILURE,ok,rows,start}' end::text[]) v);
end $$;
create function digest() returns jsonb language plpgsql as $$
declare answer jsonb := '{}'; tab regclass; sum text;
begin
    for tab in select c.oid from pg_class c where c.relkind = 'r' and c.relnamespace = any
    ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[]) loop
        execute format('select md5(string_agg(t::text, '','' order by t::text)) from %s t', tab) into sum;
        answer := answer || jsonb_build_object(tab::text, sum);
    end loop;
    return answer;
end $$;
create table answer (signature text, definer boolean, call text, code text, tables text[], harm text);
create function attack(times integer) returns void language plpgsql as $f$
declare
    c record; k integer; i integer; given text; options text[]; call text; code text; changed text[]; harm text;
    before constant jsonb := digest();
begin
    for c in select * from called order by signature loop
        for k in 1 .. case when cardinality(c.types) = 0 then 1 else times end loop
            given := '';
            for i in 1 .. cardinality(c.types) loop
                options := forged(c.types[i - 1], c.names[i]);
                given := concat_ws(', ', nullif(given, ''),
    options[1 + abs(hashint8(k * 1000 + i * 7)::bigint) % cardinality(options)]);
            end loop;
            call := format('select * from %s(%s) as called', c.name, given);
            begin
                set local role forged_worker;
                perform set_config('pawl.processor', 'intruder', true);
                execute call;
                reset role;
                select array_agg(d.key order by d.key) into changed from jsonb_each_text(digest()) d where d.value is
    distinct from before ->> d.key;
                harm := case when changed is not null then broken() end;
                raise exception using errcode = 'ZZZZZ';
            exception when others or assert_failure then
                code := case sqlstate when 'ZZZZZ' then 'done' else sqlstate end;
            end;
            insert into answer values (c.signature, c.definer, call, code, case when code = 'done' then changed end,
    case when code = 'done' then harm end);
        end loop;
    end loop;
end $f$;
select attack(10) \g /dev/null
select is((select string_agg(concat_ws(' ', a.call, a.harm), E'\n') from answer a where a.harm is not null), null,
    'no call breaks anything');
select is((select string_agg(distinct concat_ws(' ', a.signature, a.code), ', ') from answer a where a.code ~
    '^(XX|42601)'), null, 'nor raises what is not foreseen');
-- What is written by these calls, of which a worker could do none by plain SQL: decided, function by function.
create table decided (name text, tables text[], reason text);
insert into decided values
    ('pawl_bulk._end_unvalidated', '{pawl_bulk.unvalidated}', 'a block whose rows are validated'),
    ('pawl_bulk._forget_invalid', '{pawl_bulk.input}', 'of rows that failed validation, where they are not kept'),
    ('pawl_bulk._hold', '{}', 'locks alone'),
    ('pawl_bulk._lay_unvalidated', '{pawl_bulk.unvalidated,pawl_bulk.operations}', 'the next rows of an operation'),
    ('pawl_bulk._seal_rows', '{pawl_bulk.operations}', 'workers complete the input of operations: pawl_bulk.seal'),
    ('pawl_bulk._take_unvalidated', '{pawl_bulk.unvalidated}', 'a block is divided'),
    ('pawl_bulk._takes_rows', '{}', 'a question'),
    ('pawl_bulk._why_not_retried', '{}', 'a question'),
    ('pawl_dag._bury', '{pawl_dag.dlq}', 'a task that is blocked'),
    ('pawl_dag._close_letter', '{}', 'nothing: of tasks that have ended, which have no open dead letter'),
    ('pawl_dag._out_of_trouble', '{pawl_dag.troubles}', 'of tasks that went on'),
    ('pawl_dag._trouble', '{}', 'nothing: the orchestrator says it'),
    ('pawl_dag._wait_for_locks', '{}', 'nothing: a turn says it'),
    ('pawl_saga._fill_flow', '{pawl_saga.tasks,pawl_saga.retries,pawl_saga.junctions}', 'as its definition says, once'),
    ('pawl_saga._record_orphans', '{pawl_saga.tasks}', 'tasks without a worker that are to be reverted');
select is((select string_agg(distinct p.pronamespace::regnamespace || '.' || p.proname, ', ') from pg_proc p
            where p.pronamespace = any ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[]) and p.proname ^@ '_'
              and p.prosecdef and p.prorettype <> 'trigger'::regtype and has_function_privilege('forged_worker', p.oid,
    'EXECUTE') and not exists (select from decided d where d.name = p.pronamespace::regnamespace || '.' || p.proname)),
    null, 'each internal function with the rights of the owner that a worker can execute is decided on');
select is((select string_agg(d.name, ', ') from decided d where not exists (select from pg_proc p where
    p.pronamespace::regnamespace || '.' || p.proname = d.name and p.prosecdef and
    has_function_privilege('forged_worker', p.oid, 'EXECUTE'))), null, 'and no other');
select is((select string_agg(distinct concat_ws(' ', a.signature, t), ', ') from answer a, unnest(a.tables) t where
    a.definer and not exists (select from decided d where a.signature ^@ (d.name || '(') and t = any (d.tables))),
    null, 'it writes what is decided and no more');
select is((select string_agg(distinct concat_ws(' ', a.signature, t), ', ') from answer a, unnest(a.tables) t where
    not a.definer and t ~ '(definitions|templates|parameters|votes|validations|dlq|attempts|retries|junctions|runs)$'
    and t !~ '(sql_runs|validation_attempts)$'), null, 'the others have the rights of the caller');
select cmp_ok((select count(*) from answer where code = 'done'), '>', 300::bigint, 'these were many calls');

-- A block whose rows are begun and not ended stays: they are run with it, whichever session began them.
create role forged_operator in role pawl_operator;
set role forged_operator;
select lives_ok(format('select pawl_bulk._begin_block(%L, 1, 2, 1)', :'blocks'), 'an operator begins a block');
select throws_ok(format('select pawl_bulk._shrink_block(%L, 1, 1)', :'blocks'), '55000', null, 'it stays a block');
select throws_ok(format('select pawl_bulk._opened(%L, %s)', o, n), '55000', null, 'nor say that later rows have work')
  from (values (:'open', 1), (:'sealed', 9223372036854775807), (:'blocks', 3), (:'o', 4)) x(o, n);
reset role;
begin;
set local session_replication_role = replica;
update pawl_bulk.operations set opened_through = 0 where operation = :'o';
delete from pawl_bulk.records where operation = :'o' and row_number = 2;
set local session_replication_role = origin;
set local role forged_operator;
select throws_ok(format('select pawl_bulk._opened(%L, 3)', :'o'), '55000', null,
    'nor of rows that were never laid out');
rollback;
delete from pawl_bulk.sql_runs;
select is((select sum(done) from generate_series(1, 5), pawl_bulk.run_sql_rows()) > 0, true, 'the rows are run');
select is((select array_agg(row_number || ' ' || state order by row_number) from pawl_bulk.records where operation =
    :'blocks'), '{1 Completed,2 Completed}', 'each of them');
select is(broken(), null, 'and nothing is wrong');
select * from finish();
drop owned by forged_worker, forged_operator;
drop role forged_worker, forged_operator;
