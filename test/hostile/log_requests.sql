-- An INSERT into a log of the packs is a request for a state change. It is answered as the UPDATE of the state is: by
-- the same rules, with the same rights, and with the same row behind it, for each row, state and processor.
\set QUIET 1
set client_min_messages = error;
select no_plan();
\ir ../pgtap/shared/dag.psql
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create role requests_worker in role pawl_worker;
create role requests_operator in role pawl_operator;
create role requests_reader in role pawl_reader;
\ir include/work.psql
select is(broken(), null, 'nothing is wrong before');

create view logs as
select b.relation, b.state_column, b.key_columns, b.log_key_columns, b.machine, coalesce(b.history_view, b.history) as
    log, b.history
  from pawl.binding b join pg_class c on c.oid = b.relation
 where b.history is not null and c.relnamespace = any ('{pawl_dag,pawl_bulk,pawl_saga}'::regnamespace[]);
select is((select count(*) from logs), 8::bigint, 'the packs have eight logs');
-- The role that can change a state can ask for it, and no other: here, on the view and on the log itself.
select is((select string_agg(concat_ws(' ', r, l.log), ', ') from logs l, unnest('{worker,operator,reader}'::text[]) r
            where has_column_privilege('requests_' || r, l.relation, l.state_column, 'UPDATE')
               <> all (array[has_table_privilege('requests_' || r, l.log, 'INSERT'), has_table_privilege('requests_'
    || r, l.history, 'INSERT')])), null, 'the right to insert into a log is the right to change the state');

-- What a statement about one row does: its SQLSTATE, or the row without its times; undone in any case.
create function said(role text, processor text, relation regclass, row_id tid, keys text, statement text) returns text
language plpgsql as $$
declare after text;
begin
    execute format('set local role requests_%s', role);
    perform set_config('pawl.processor', processor, true);
    execute statement;
    reset role;
    execute format('select jsonb_object_agg(j.key, j.value) from %s t, jsonb_each_text(to_jsonb(t)) j
        where %s and j.key !~ ''_(at|until)$'' and j.value !~ ''^2[0-9]{3}-''', relation, keys) into after;
    raise exception using errcode = 'ZZZZZ', message = coalesce('breaks: ' || broken(), after, 'gone');
exception when others then
    return case sqlstate when 'ZZZZZ' then sqlerrm else sqlstate end;
end $$;
create table answer (role text, processor text, log regclass, subject text, state text, before text, by_update text,
    by_log text);
create function ask(role text, only_log text default '') returns void language plpgsql as $$
declare l record; r record; keys text; named text; given text; p text;
begin
    for l in select * from logs x where x.log::text ~ only_log loop
        for r in execute format('select t.ctid as id, to_jsonb(t) as content from %s t limit 8',
    l.relation) loop
            select string_agg(format('%I = %L', k, r.content ->> k), ' and '),
                   string_agg(format('%L', r.content ->> k), ', ') into keys, given from unnest(l.key_columns) k;
            select string_agg(format('%I', k), ', ') into named from unnest(l.log_key_columns) k;
            foreach p in array array['00000000-0000-7000-8000-0000000000ff', '', coalesce(r.content ->> 'worker',
    r.content ->> 'worker_uuid', r.content ->> 'processor_uuid', r.content ->> 'owner', 'other')] loop
                insert into answer
                select ask.role, p, l.log, keys, s.state, r.content ->> l.state_column::text,
                       said(ask.role, p, l.relation, r.id, keys, format('update %s set %I = %L where %s', l.relation,
    l.state_column, s.state, keys)),
                       said(ask.role, p, l.relation, r.id, keys, format('insert into %s (%s, to_state) values (%s,
    %L)', l.log, named, given, s.state))
                  from pawl.states(l.machine) s where s.state <> r.content ->> l.state_column::text;
            end loop;
        end loop;
    end loop;
end $$;
select ask(r) from unnest('{worker,operator}'::text[]) r \g /dev/null
select is((select string_agg(concat_ws(' ', role, processor, log, subject, before, state, a.by_update, 'but', a.by_log),
    E'\n') from answer a where a.by_update is distinct from a.by_log), null,
          'the log answers as the UPDATE does, to each role and processor');
select is((select string_agg(concat_ws(' ', role, log, a.by_log), E'\n') from answer a where a.by_log ^@ 'breaks'),
          null, 'and no request breaks anything');
select is((select string_agg(distinct concat_ws(' ', a.log, a.by_log), ', ') from answer a where a.by_log ~
    '^(XX|42P|42601|42883)'), null, 'no request is one by its spelling');
select is((select string_agg(distinct l.log::text, ', ') from logs l where not exists (select from answer a where a.log
    = l.log)), null, 'each log was asked');
select is((select string_agg(distinct a.log::text, ', ' order by a.log::text) from answer a where a.role = 'worker' and
    a.by_log ^@ '{'), 'pawl_bulk.operation_transitions, pawl_bulk.record_transitions, pawl_dag.step_transitions, '
    'pawl_dag.task_transitions, pawl_saga.flow_transitions, pawl_saga.job_transitions, pawl_saga.task_transitions',
          'workers change states by these');
select is((select array_agg(distinct a.by_log) from answer a where a.role = 'worker' and a.log =
    'pawl_saga.retry_transitions'::regclass), '{42501}', 'and none of retries');
select cmp_ok((select count(*) from answer), '>', 400::bigint, 'these were many requests');
-- A right to insert that was granted too generously gives no right to the row.
grant insert on pawl_saga.retry_transitions, pawl_saga.retry_transitions_log to requests_worker;
delete from answer;
select ask('worker', 'retry') \g /dev/null
select is((select array_agg(distinct a.by_log) from answer a where a.log = 'pawl_saga.retry_transitions'::regclass),
    '{42501}', 'not with a right to insert alone either');
select * from finish();
drop owned by requests_worker, requests_operator, requests_reader;
drop role requests_worker, requests_operator, requests_reader;
