-- What a session knows of an audit is let go of when it is stale, also after errors and when triggers nest.
-- Alone on the server: DDL elsewhere empties the caches of a session, which are looked at.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('step', $$stateDiagram-v2
    [*] --> ready
    ready --> done : finish
    done --> ready : again$$) \g /dev/null
create table steps (id int primary key, state text not null default 'ready', nested int);
select pawl.enforce('steps', 'state', 'step'), pawl.enable_log('steps', 'state') \g /dev/null
select pawl.audit('steps', '{"done": true}', parent => '{nested}') \g /dev/null
insert into steps (id) select generate_series(1, 200);

create function known() returns bigint
    language sql as $$ select count(*) from pg_backend_memory_contexts where name = 'pawl audit' $$;
create function plans() returns bigint language sql as $$ select count(*) from pg_backend_memory_contexts
    -- since 18 this very query has a plan, too
    where name = 'CachedPlanSource' and ident ~ 'steps_result_audit' and ident !~ 'pg_backend_memory_contexts' $$;

update steps set state = 'done' where id = 1;
select is(known(), 1::bigint, 'one audit is known');

-- Errors while the audit is written, and it is stale after each.
alter table steps_result_audit add constraint odd check (subject_id % 2 = 1);
create function fail_and_alter(n int) returns int language plpgsql as $$
declare
    failed int := 0;
begin
    for i in 1..n loop
        begin
            update steps set state = 'done' where id = 2 * i;
        exception when check_violation then failed := failed + 1;
        end;
        grant select on steps to public;
        revoke select on steps from public;
    end loop;
    return failed;
end $$;
select is(fail_and_alter(40), 40, 'writing the audit fails 40 times');
update steps set state = 'done' where id = 3;
select is(known(), 1::bigint, 'none of the stale ones is still there');
select cmp_ok(plans(), '<=', 1::bigint, 'nor is a plan of theirs');
alter table steps_result_audit drop constraint odd;

-- An audit that becomes stale, and is looked for again, while it is being written.
create function nest() returns trigger language plpgsql as $$
begin
    grant select on public.steps to public;
    revoke select on public.steps from public;
    if new.nested is not null then update public.steps set state = 'done' where id = new.nested; end if;
    if new.subject_id = 130 then raise exception 'enough' using errcode = 'P0042'; end if;
    return new;
end $$;
create trigger nest after insert on steps_result_audit for each row execute function nest();
update steps set nested = id + 1 where id between 101 and 104;
update steps set nested = id + 1 where id between 126 and 129;
update steps set state = 'done' where id = 101;
select is((select count(*) from steps_result_audit where subject_id between 101 and 105), 5::bigint,
    'five results, one within the other');
do $$ begin
    for i in 1..20 loop
        begin
            update steps set state = 'done' where id = 126;
        exception when sqlstate 'P0042' then null;
        end;
    end loop;
end $$;
select is((select count(*) from steps_result_audit where subject_id between 126 and 130), 0::bigint,
    'five that the innermost one undoes');
update steps set state = 'done' where id = 150;
select is(known(), 1::bigint, 'afterwards one audit is known');
select cmp_ok(plans(), '<=', 1::bigint, 'with one plan');
select is_empty('select * from pawl.verify(''steps'')', 'nothing is wrong');
select * from finish();
