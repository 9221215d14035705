-- One binding or machine that is damaged keeps no other from working, from being looked after, from health and from
-- verify; what it says is an error that names it. And a pawl_admin cannot store such rows.
\set QUIET 1
set client_min_messages to error;
select no_plan();

create schema app;
create function app.steady(old anyelement, new anyelement) returns boolean language sql as 'select true';
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : expire
    class running owned') \g /dev/null
create table app.a (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    due timestamptz);
create table app.b (like app.a including all);
create table app.c (id uuid primary key, state text not null default 'ready');
select pawl.enforce(t, 'state', 'job'), pawl.enable_log(t, 'state', most_recent => 'stored'),
    pawl.enable_queue(t, 'state', owner => 'owner', lease => 'lease'), pawl.enable_timers(t, 'state', due => 'due'),
    pawl.set_claiming(t, 'state', claim => '{start}', on_expiry => 'expire')
    from unnest('{app.a,app.b}'::regclass[]) t \g /dev/null
select pawl.enforce('app.c', 'state', 'job'), pawl.enable_log('app.c', 'state', most_recent => 'stored') \g /dev/null
insert into app.a (id) select generate_series(1, 9);
insert into app.b (id) select generate_series(1, 9);
insert into app.c values ('00000000-0000-0000-0000-000000000001');

-- What the attack was: keys of another type, taken as pointers; and states that do not exist.
create function under(damage text, statement text) returns text language plpgsql as $$
declare code text; message text; explanation text;
begin
    begin
        set local session_replication_role = replica;
        execute damage;
        update pawl.machine set source = source where false;  -- this session reads it anew
        set local session_replication_role = origin;
        execute statement;
        raise exception using errcode = 'HARM0';
    exception when sqlstate 'HARM0' then return 'ok';
              when others then get stacked diagnostics code = returned_sqlstate, message = message_text,
                  explanation = pg_exception_detail;
    end;
    return concat_ws(' | ', code, message, nullif(explanation, ''));
end $$;
select is(under($$update pawl.binding set history = 'app.c_transitions' where relation = 'app.a'::regclass$$,
    $$update app.a set state = 'running', owner = 'x' where id = 1$$),
          'XX001 | log table "c_transitions" is damaged | Its key column "subject_id" is of type uuid, and "id" of '
          'the table of type integer.', 'a log whose key is of another type: integer taken for a pointer');
select is(under($$update pawl.binding set history = 'app.a_transitions' where relation = 'app.c'::regclass$$,
    $$update app.c set state = 'running'$$),
          'XX001 | log table "a_transitions" is damaged | Its key column "subject_id" is of type integer, and "id" of '
          'the table of type uuid.', 'and a pointer taken for an integer');
select is(under('alter table pawl.binding alter enforced_at drop default, alter enforced_at drop not null, alter '
    'enforced_at type text using null',
    $$create table app.d (like app.c including all); select pawl.enforce('app.d', 'state', 'job')$$),
    'XX001 | catalog table pawl.binding is damaged | Its column "enforced_at" is of type text, not timestamp with time '
    'zone.', 'a column of another type, written as the type that it had');
select is(under('alter table pawl.binding drop constraint binding_pkey cascade, '
    'alter state_column drop not null; update pawl.binding set state_column = null where relation = '
    '''app.a''::regclass',
    'select * from pawl.reap()'), 'ok', 'a column that is null: the binding is skipped with a warning');
select is(under($$update pawl.machine_transition set to_state = 'nowhere' where to_state = 'running'$$,
    $$update app.c set state = 'running'$$),
          'XX001 | version 1 of machine "job" is damaged | Transition 2 names "nowhere", which is not a state that a '
          'row can be in.', 'a transition to no state');
select is(under($$update pawl.machine_state set kind = 'composite' where state = 'done'$$, $$update app.c
    set state = 'running'$$) like 'XX001 | version 1 of machine "job" is damaged | %', true, 'to a composite');
select is(under($$update pawl.binding set key_columns = '{ctid}' where relation = 'app.a'::regclass$$,
    $$update app.a set state = 'running',
            owner = 'x'$$) like 'XX001 | column "ctid" of enforced table "a" is a system column%',
        true, 'a system column as key');
select is(under($$update pawl.binding set owner_column = 'id' where relation = 'app.a'::regclass$$,
    $$update app.a set state = 'running', owner = 'x'$$) like 'XX001 | the binding of column "state" of table "a" is '
        'damaged | Column "id" cannot be kept: its type is integer.', true, 'a managed column of another type');
select is(under($$update pawl.binding set lease_column = 'due' where relation = 'app.a'::regclass$$, $$update app.a
    set state = 'running', owner = 'x'$$) like '%Column "due" is used twice.', true, 'one that is used twice');
select is(under($$update pawl.binding set trace_columns = '{id}' where relation = 'app.c'::regclass$$,
        $$update app.c set state = 'running'$$) like '%Column "id" cannot hold a trace: its type is uuid.',
    true, 'a trace that is no text');
select is(under($$update pawl.binding
    set key_columns = array_fill('id'::name, array[40]), log_key_columns = array_fill('id'::name, array[40])
    where relation = 'app.a'::regclass$$, $$update app.a
    set state = 'running', owner = 'x'$$) like '%It has 40 key columns.', true, 'more key columns than an index has');
select is(under($$update pawl.binding set claim_columns = '{tableoid}', claim_descending = '{f}'
    where relation = 'app.a'::regclass$$, $$select pawl.claim(null::app.a,
            processor => 'x')$$) like 'XX001 | column "tableoid" of enforced table "a" is a system column%',
        true, 'a claim order by a system column');
select is(under($$alter table app.a_transitions alter id drop not null; update app.a_transitions set id = null$$,
    $$update app.a set state = 'running',
            owner = 'x'$$) like 'XX001 | log table "a_transitions" is damaged | It has an entry without id.',
        true, 'a log entry without id');

-- Now one stays damaged.
set session_replication_role = replica;
update pawl.binding set history = 'app.c_transitions' where relation = 'app.a'::regclass;
set session_replication_role = origin;
select throws_ok($$update app.a set state = 'running', owner = 'x'$$, 'XX001', null, 'what is damaged raises an error');
select lives_ok($$update app.b set state = 'running', owner = 'x', lease = now() - interval '1 h' where id < 4$$,
    'the others work');
select is((select done from pawl.reap()), 3::bigint, 'reap handles the others');
select is((select done from pawl.fire_due()), 0::bigint, 'fire_due too');
select is((select string_agg(format('%s %s', relation, detail), '; ') from pawl.health()
    where check_name = 'catalog' and status <> 'ok'),
          'app.a log table "c_transitions" is damaged: Its key column "subject_id" is of type uuid, and "id" of the '
          'table of type integer.', 'health names it, and says what is wrong');
select is((select count(*) from pawl.health() where relation = 'app.b'::regclass and status = 'error'), 0::bigint,
    'the others are sound');
select results_eq('select distinct relation::text from pawl.queue_depth order by 1', $$values ('app.b')$$,
    'the views leave it out, and show the others');
select is((select detail from pawl.verify() where relation = 'app.a'::regclass and problem = 'not_checked'),
          'log table "c_transitions" is damaged: Its key column "subject_id" is of type uuid, and "id" of the table '
          'of type integer.', 'verify says that it was not checked');
select is_empty($$select * from pawl.verify() where relation = 'app.b'::regclass$$, 'and checks the others');
select lives_ok($$select pawl.release('app.a')$$, 'a damaged lifecycle is taken off');
select is((select count(*) from pawl.health() where status = 'error'), 0::bigint, 'and all is well');

-- What a pawl_admin may store.
create role pawl_damage_maker in role pawl_admin;
create role pawl_damage_other;
alter table app.a owner to pawl_damage_maker;
create table app.theirs (id int primary key, state text not null);
alter table app.theirs owner to pawl_damage_other;
grant usage, create on schema app to pawl_damage_maker;
create function stores(change text) returns text language plpgsql as $$
declare code text; message text; explanation text;
begin
    begin
        perform pawl._drop_binding('app.a', 'state', '')
            where exists (select from pawl.binding b where b.relation = 'app.a'::regclass);
        set local role pawl_damage_maker;
        execute format($q$select pawl._store_binding(b)
            from (select (jsonb_populate_record(x, %L)).* from pawl.binding x where relation = 'app.b'::regclass) b$q$,
                       '{"relation": "app.a", "history": null, "history_view": null}'::jsonb || change::jsonb);
        reset role;
        return 'ok';
    exception when others then get stacked diagnostics code = returned_sqlstate, message = message_text,
        explanation = pg_exception_detail;
    end;
    return concat_ws(' | ', code, message, nullif(explanation, ''));
end $$;
select is(stores('{}'), 'ok', 'a binding of its own table that fits');
select results_eq($$select enforced_by, extension, enforced_at > now() - interval '1 h' from pawl.binding
        where relation = 'app.a'::regclass$$,
    $$values ('pawl_damage_maker', null::name, true)$$, 'enforced_by is the role that stored it');
select is(stores('{"enforced_by": "postgres", "extension": "pawl_dag"}'), 'ok',
    'another name and an extension may be said');
select results_eq($$select enforced_by, extension from pawl.binding where relation = 'app.a'::regclass$$,
    $$values ('pawl_damage_maker', null::name)$$, 'and are not believed');
select is(stores('{"relation": "app.theirs"}'), '42501 | must be owner of table app.theirs',
    'of no other role''s table');
select is(stores('{"history": "app.b_transitions"}'), '42501 | must be owner of table app.b_transitions',
    'with no other role''s log');
select is(stores('{"history_view": "app.theirs"}'), '42501 | must be owner of table app.theirs', 'nor view');
select is(stores('{"history": "app.a"}') like 'XX001 | log table "a" is damaged | %', true,
    'with no table that is not a log');
select is(stores('{"version": 99}') like 'PW008 | %', true, 'of no version that is not there');
select is(stores('{"key_columns": ["xmin"]}') like 'XX001 | %', true, 'by no system column');
select is(stores('{"owner_column": "id"}') like 'XX001 | %', true, 'with no column of another type');
select is(stores('{"state_column": "id"}') like '42804 | %', true, 'on no column that cannot hold a state');
select is(stores('{"relation": "pg_class"}') like '42501 | %', true, 'of no system catalog');
select is(stores('{"relation": "4000000000"}') like '42P01 | %', true, 'of no table that is not there');
set role pawl_damage_maker;
create temp table fleeting (id int primary key, state text not null, owner text, lease timestamptz, due timestamptz);
reset role;
select is(stores(jsonb_build_object('relation', 'fleeting'::regclass::oid::text)::text),
    '0A000 | fleeting is a temporary table', 'of no temporary table');
select is(stores('{"relation": "4000000001"}') like '42P01 | %', true, 'of no table that is not there');
set role pawl_damage_maker;
select throws_ok($$select pawl._change_binding(b) from pawl.binding b where relation = 'app.b'::regclass$$, '42501',
    'must be owner of table app.b', 'no other role''s is changed');
select throws_ok($$select pawl._drop_binding('app.b', 'state', '')$$, '42501', 'must be owner of table app.b',
    'or dropped');
select throws_ok($$select pawl._drop_audit('app.b_transitions')$$, '42501', 'must be owner of table app.b_transitions',
    'nor its audit');
select throws_ok($$select pawl._move_audit('app.b_transitions', 'app.a')$$, '42501',
    'must be owner of table app.b_transitions', 'nor moved');
select throws_ok($$insert into pawl.audit_binding select 'app.a', 'app.a', 'app.a', '{}', '{}', '{}'$$, '42501',
    'permission denied for table audit_binding', 'nothing by hand');
reset role;
select is_empty($$select c.oid::regclass, a.privilege_type from pg_class c, aclexplode(c.relacl) a
    where c.relnamespace = 'pawl'::regnamespace and a.grantee = 'pawl_admin'::regrole
                    and a.privilege_type <> 'SELECT'
                    and c.relname not in ('paused', 'log_upkeep', 'database', 'placement')$$,
    'pawl_admin writes no table of the catalog but requests and placements');
select is_empty($$select c.oid::regclass, a.grantee::regrole, a.privilege_type from pg_class c, aclexplode(c.relacl) a
    where c.relnamespace = 'pawl'::regnamespace
                    and a.grantee not in (0, c.relowner) and a.privilege_type <> 'SELECT'
                    and a.grantee not in ('pawl_restore'::regrole)
                    and not (c.relname in ('paused', 'log_upkeep')
        and a.grantee in ('pawl_admin'::regrole, 'pawl_operator'::regrole))
                    and not (c.relname in ('database', 'placement') and a.grantee = 'pawl_admin'::regrole)$$,
    'nor does any other role but pawl_restore');
select * from finish();
