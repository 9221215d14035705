-- Upkeep by another role than the owner of a table: code that the owner has attached to its records runs as the owner,
-- leaves nothing for later that would run as the caller, and no setting. Lists that name
-- no table run no policy of an owner as the caller.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
create role code_villain in role pawl_admin;
create role code_operator in role pawl_operator;
create role code_inner in role code_villain;
create schema villain authorization code_villain;
grant usage on schema villain to public;
create table ran (what text, as_role name default current_user);
grant insert, select on ran to public;
create function names(what text) returns text language sql as
    $$ select coalesce(string_agg(distinct as_role, ', ' order by as_role),
        'not run') from ran where ran.what = names.what $$;

create function note(what text) returns void language plpgsql as $$ begin insert into public.ran values (what); end $$;

set role code_villain;
select pawl.define('owners_code', $$stateDiagram-v2
    [*] --> a
    a --> b : on
    b --> c : up
    c --> [*]
    class b owned$$) \g /dev/null
create function villain.constant(what text) returns boolean
    language plpgsql immutable as $$ begin perform public.note(what); return true; end $$;
create function villain.trap() returns trigger
    language plpgsql as $$ begin insert into public.ran values (tg_argv[0]); return null; end $$;
create table villain.later (x int);
create constraint trigger later after insert on villain.later deferrable initially deferred
    for each row execute function villain.trap('deferred by a row');
create function villain.queues() returns trigger language plpgsql as $$ begin
    insert into public.ran values (tg_argv[0]);
    perform set_config('search_path', 'villain, pg_catalog', false);
    begin
        insert into villain.later values (1);
    exception when others then
        insert into public.ran values ('rejected', sqlstate);
    end;
    return coalesce(new, old);
end $$;

-- Partitions to come: what is constant in a CHECK is computed when they are attached.
create table villain.timed (id uuid primary key default pawl.uuid_v7(), state text not null);
select pawl.enforce('villain.timed', 'state', 'owners_code'),
    pawl.enable_log('villain.timed', 'state', most_recent => 'stored', log_partition => 'range (id)') \g /dev/null
alter table villain.timed_transitions add check (villain.constant('a constant check'));
insert into pawl.log_upkeep (log, period, ahead) values ('villain.timed_transitions', 'day', 3);
reset role;
delete from ran;
select is((select done from pawl.tend_logs('villain.timed')), 4::bigint, 'a superuser has partitions made');
select is(names('a constant check'), 'code_villain', 'a CHECK runs as the owner of the log');
select is_empty($$select m from pawl._members('villain.timed_transitions'::regclass) m join pg_class c on c.oid = m
    where c.relowner <> 'code_villain'::regrole$$, 'the partitions are the owner''s');
select is((select done from pawl.tend_logs('villain.timed')), 0::bigint, 'a second call finds them there');
set role code_operator;
select throws_ok($$select pawl._add_log_partition('villain.timed_transitions', 'villain.x', '''x''', '''y''')$$,
    '42501', null, 'for the owner only');
reset role;

-- Pruning deletes entries: their triggers are the owner's.
set role code_villain;
create table villain.pruned (id int primary key, state text not null);
select pawl.enforce('villain.pruned', 'state', 'owners_code'),
    pawl.enable_log('villain.pruned', 'state', most_recent => 'stored') \g /dev/null
insert into villain.pruned values (1, 'a');
update villain.pruned set state = 'b';
update villain.pruned set state = 'c';
create trigger queues after delete on villain.pruned_transitions
    for each row execute function villain.queues('pruning');
reset role;
delete from ran;
set search_path = public;
select is((select removed from pawl.prune_log('villain.pruned', '0 s')), 2::bigint, 'a superuser prunes');
select is(names('pruning'), 'code_villain', 'a trigger on the log runs as its owner');
select is(names('deferred by a row'), 'not run', 'what it puts off does not run as the superuser');
select is(names('rejected'), '42501', 'putting it off is rejected');
select is(current_setting('search_path'), 'public', 'settings that it makes end with it');
set role code_villain;
update villain.pruned set state = 'c';
insert into villain.pruned values (2, 'a');
update villain.pruned set state = 'b' where id = 2;
update villain.pruned set state = 'c' where id = 2;
create constraint trigger at_commit after delete on villain.pruned_transitions deferrable initially deferred
    for each row execute function villain.trap('deferred on the log');
reset role;
delete from ran;
select throws_ok($$select pawl.prune_log('villain.pruned', '0 s')$$, '42501', null,
    'a deferred trigger on the log keeps others than its owner from pruning');
select is(names('deferred on the log'), 'not run', 'and does not run as the superuser');
set role code_villain;
select is((select removed from pawl.prune_log('villain.pruned', '0 s')), 2::bigint, 'its owner prunes');
reset role;
select is(names('deferred on the log'), 'code_villain', 'and runs its own triggers, deferred ones too');

-- Redaction updates entries.
set role code_villain;
drop trigger at_commit on villain.pruned_transitions;
drop trigger queues on villain.pruned_transitions;
create trigger queues after update on villain.pruned_transitions
    for each row execute function villain.queues('redaction');
set pawl.processor = 'other';
insert into villain.pruned values (3, 'a');
reset pawl.processor;
reset role;
delete from ran;
select lives_ok($$select pawl.redact('villain.pruned', 3, '{processor}', 'a test')$$, 'a superuser redacts');
select is(names('redaction'), 'code_villain', 'a trigger on the log runs as its owner');
select is(names('deferred by a row'), 'not run', 'what it puts off does not run as the superuser');
select is(current_setting('search_path'), 'public', 'settings that it makes end with it');

-- A decider in a superuser's session.
set role code_villain;
create function villain.decides(history jsonb) returns boolean language plpgsql as $$ begin
    insert into public.ran values ('decider');
    perform set_config('search_path', 'villain, pg_catalog', false);
    begin
        insert into villain.later values (1);
    exception when others then
        insert into public.ran values ('rejected', sqlstate);
    end;
    return true;
end $$;
select pawl_saga.define('{"flow": "graph", "name": "decided", "children": [{"task": "a", "wait_seconds": 0},
    {"task": "b", "wait_seconds": 0}],
    "links": [{"from": "a", "to": "b", "decider": {"function": "villain.decides"}}]}') \g /dev/null
reset role;
delete from ran;
select pawl_saga.start('decided'), pawl_saga.run_sql_tasks() \g /dev/null
select is(names('decider'), 'code_villain', 'a decider runs as its owner');
select is(names('deferred by a row'), 'not run', 'what it puts off does not run as the superuser');
select is(current_setting('search_path'), 'public', 'settings that it makes end with it');

-- Policies run as the role that reads.
set role code_villain;
create function villain.shows() returns boolean
    language plpgsql as $$ begin insert into public.ran values ('policy'); return true; end $$;
create table villain.hidden (id int primary key, state text not null, owner text, due timestamptz);
select pawl.enforce('villain.hidden', 'state', 'owners_code'),
    pawl.enable_queue('villain.hidden', 'state', owner => 'owner'),
    pawl.enable_timers('villain.hidden', 'state', due => 'due'),
    pawl.set_claiming('villain.hidden', 'state', claim => '{on}', claim_order => 'id') \g /dev/null
insert into villain.hidden values (1, 'a');
alter table villain.hidden enable row level security;
create policy shows on villain.hidden using (villain.shows());
grant select on villain.hidden to public;
reset role;
create function lists() returns setof text language plpgsql volatile as $$ begin
    return query select relation::text from pawl.queue_depth where relation = 'villain.hidden'::regclass
           union all select relation::text from pawl.owners where relation = 'villain.hidden'::regclass
           union all select relation::text from pawl.timers where relation = 'villain.hidden'::regclass
           union all select i ->> 'relation'
           from jsonb_array_elements(pawl_api.machine_counts('{"machine": "owners_code"}') -> 'items') i
                      where i ->> 'relation' = 'villain.hidden';
    perform pawl_api.overview('{}');
end $$;
delete from ran;
set role code_operator;
select is_empty('select lists()',
    'lists leave out a table with policies whose owner lacks the rights of the role that looks');
select is(names('policy'), 'not run', 'and run none of its code');
select throws_ok($$select * from pawl.read_as_owner('villain.hidden', 'state', 'states') c(state text, n bigint,
    estimated boolean)$$, '42501', null, 'nor by hand');
reset role;
-- An owner that has the rights of the role that looks gains nothing.
grant code_operator to code_villain;
set role code_operator;
select isnt_empty('select lists()', 'a table whose owner has the rights of the role that looks is listed');
select is(names('policy'), 'code_operator', 'by the rows that the policies show');
reset role;
select isnt_empty('select lists()', 'a superuser sees all');

-- Times in a state: planning a query of a log computes what is constant in its CHECKs.
alter table villain.pruned_transitions add check (true);
set role code_villain;
alter table villain.timed_transitions add check (villain.constant('a check of a log that is read'));
create index on villain.timed_transitions (sort_key) where villain.constant('a predicate of a log that is read');
insert into villain.timed (state) values ('a');
update villain.timed set state = 'b';
reset role;
delete from ran;
select isnt((select pawl_api.machine_slowest('{"machine": "owners_code"}') -> 'items'), '[]', 'times in a state');
select is(names('a check of a log that is read'), 'code_villain', 'a CHECK runs as the owner of the log');
select is(names('a predicate of a log that is read'), 'code_villain', 'the predicate of an index too');
select * from finish();
