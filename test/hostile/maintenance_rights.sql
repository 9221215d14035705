-- ANALYZE, REINDEX, VACUUM and REFRESH MATERIALIZED VIEW by a superuser run code of the table's owner, as that owner.
-- The setting is_superuser stays on meanwhile; the owner gets no right from it: it neither pauses queues, nor has logs
-- pruned, nor writes a catalog.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
create role maintenance_villain;
grant create on schema public to maintenance_villain;
create schema victim;
grant usage on schema victim to maintenance_villain;
create table victim.jobs (id int primary key, state text not null, owner text, lane text);
select pawl.define('maintained', $$stateDiagram-v2
    [*] --> waiting
    waiting --> running : start
    running --> done : finish
    done --> [*]
    class running owned$$) \g /dev/null
select pawl.enforce('victim.jobs', 'state', 'maintained'), pawl.enable_log('victim.jobs', 'state'),
    pawl.enable_queue('victim.jobs', 'state', owner => 'owner', queue => 'lane'),
    pawl.set_claiming('victim.jobs', 'state', claim => '{start}') \g /dev/null
insert into victim.jobs values (1, 'waiting', null, 'mail');
grant select on victim.jobs to maintenance_villain;

-- What the owner of the index tries, each on its own, and what comes of it.
set role maintenance_villain;
create table tried (during text, what text, answer text);
create table deeds (what text);
insert into deeds values
    ($$insert into pawl.paused (relation, state_column) values ('victim.jobs', 'state')$$),
    ($$select pawl.pause('victim.jobs')$$),
    ($$insert into pawl.log_upkeep (log, keep, only_terminal) values ('victim.jobs_transitions', '0 s', false)$$),
    ($$select pawl.keep_log('victim.jobs', '0 s', false)$$),
    ($$select pawl.prune_log('victim.jobs', '0 s', false)$$),
    ($$select pawl.extend_log('victim.jobs', 'month', 1)$$),
    ($$insert into pawl.binding (relation, state_column, machine, version)
        values ('victim.jobs', 'lane', 'maintained', 1)$$),
    ($$insert into pawl.machine_transition (machine, version, ordinal, from_state, to_state)
        values ('maintained', 1, 99, 'done', 'waiting')$$),
    ($$select pawl.define('maintained', 'stateDiagram-v2' || chr(10) || ' [*] --> waiting')$$),
    ($$select pawl.release('victim.jobs')$$),
    ($$select set_config('pawl.restoring', 'on', false)$$),
    ($$select pawl.verify('victim.jobs')$$);
create function try_all() returns void language plpgsql as $f$
declare
    d record;
    answer text;
begin
    for d in select what from public.deeds loop
        begin
            execute d.what;
            answer := 'went through';
        exception when others then
            answer := sqlstate;
        end;
        insert into public.tried values (current_setting('test.during', true), d.what, answer);
    end loop;
end $f$;
create function harmless(a int) returns int language sql immutable as 'select a';
create table trap (a int);
insert into trap select generate_series(1, 10);
create index trap_a on trap (harmless(a));
create materialized view trap_view as select harmless(1) as a;
create or replace function harmless(a int) returns int
    language plpgsql immutable as $$begin if a = 1 then perform public.try_all(); end if; return a; end$$;
reset role;

set test.during = 'analyze';
analyze public.trap;
set test.during = 'reindex';
reindex table public.trap;
set test.during = 'vacuum';
update public.trap set a = a;
vacuum analyze public.trap;
set test.during = 'refresh';
refresh materialized view public.trap_view;
select set_eq('select distinct during from tried', array['analyze', 'reindex', 'vacuum', 'refresh'],
    'the code was run each time');
select is_empty($$select during, what, answer from tried where answer not in ('42501')$$,
    'and had no right that its owner has not');
select is_empty('select * from pawl.paused', 'nothing is paused');
select is_empty('select * from pawl.log_upkeep', 'no log is to be pruned');
select is((select count(*) from victim.jobs_transitions), 1::bigint, 'and none is');
-- A superuser itself has them.
select lives_ok($$select pawl.pause('victim.jobs')$$, 'a superuser pauses');
select lives_ok($$select pawl.keep_log('victim.jobs', '1 day')$$, 'and says how long a log is kept');
select is((select paused_by from pawl.paused), current_user::text, 'by its name');
drop owned by maintenance_villain cascade;
drop role maintenance_villain;
select * from finish();
