-- Missing rights: each error names the role or the privilege to grant, and the role that needs it.
\set QUIET 1
set client_min_messages to error;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
select no_plan();

create role pawl_test_lacking in role pawl_admin;
create role pawl_test_keeper;
grant create, usage on schema public to pawl_test_keeper;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go$$) \g /dev/null
set role pawl_test_keeper;
create table kept (id int primary key, state text not null);
reset role;
create table of_superuser (id int primary key, state text not null);
select pawl.enforce(t, 'state', 'm'), pawl.enable_log(t) from unnest('{kept,of_superuser}'::regclass[]) t \g /dev/null
insert into kept values (1, 'a');

-- SQLSTATE and hint.
create function hint_of(statement text) returns text language plpgsql as $$
declare hint text;
begin
    execute statement;
    return 'ok';
exception when others then
    get stacked diagnostics hint = pg_exception_hint;
    return sqlstate || ' ' || hint;
end $$;
set role pawl_test_lacking;
select is(hint_of(format(call, 'kept')), '42501 grant pawl_test_keeper to pawl_test_lacking',
    format('%s names the role of the owner', call))
    from unnest(array[$$select pawl.enforce('%s', 'state', 'm', on_delete => 'deny')$$, $$select pawl.release('%s')$$,
        $$select pawl.enable_log('%s')$$, $$select pawl.upgrade('%s')$$, $$select pawl.enable_events('%s')$$,
        $$select pawl.set_log_token('%s')$$, $$select pawl.audit('%s', '{"b": true}')$$]) call;
select is(hint_of($$select pawl.release('of_superuser')$$),
    format('42501 call it as role "%s"', (select rolname from pg_roles r join pg_class c on c.relowner = r.oid
        where c.oid = 'of_superuser'::regclass)), 'a superuser is granted to no role');
reset role;
grant select on kept to pawl_test_lacking;
revoke pawl_admin from pawl_test_lacking;
set role pawl_test_lacking;
select is(hint_of(call),
    '42501 grant select on public.kept_transitions_log, public.kept_transitions to pawl_test_lacking',
    format('%s names the log', call))
    from unnest(array[$$select pawl.history('kept', 1)$$, $$select pawl.state_at('kept', 1, now())$$]) call;
reset role;
grant select on kept_transitions_log to pawl_test_lacking;
set role pawl_test_lacking;
select is((select count(*) from pawl.history('kept', 1)), 1::bigint, 'with what the hint says it is read');
reset role;
revoke select on kept_transitions_log from pawl_test_lacking;
grant select (id) on kept_transitions_log to pawl_test_lacking;
set role pawl_test_lacking;
select throws_ok($$select pawl.history('kept', 1)$$, '42501', 'permission denied for table kept_transitions_log',
    'of single columns PostgreSQL says what is missing');
reset role;
revoke select (id) on kept_transitions_log from pawl_test_lacking;
revoke select on kept from pawl_test_lacking;

-- Every public function, called by a role that has the roles of pawl and nothing else, and by one that has nothing:
-- what pawl rejects for want of a right says what to grant. PostgreSQL's own errors name the object.
create table worked (id int primary key, state text not null default 'a', owner text, lease timestamptz, token bigint,
    due timestamptz);
select pawl.define('worked', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back
    classDef owned color:red
    class b owned$$) \g /dev/null
select pawl.enforce('worked', 'state', 'worked'), pawl.enable_log('worked'),
    pawl.enable_queue('worked', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.enable_timers('worked', due => 'due'), pawl.set_claiming('worked', claim => '{go}', on_expiry => 'back'),
    pawl.enable_events('worked', wake => true),
    pawl.audit('worked', '{"b": true}'), pawl.set_placing('worked') \g /dev/null
insert into worked values (1);
create table given (argument text, value text);
insert into given values ('relation', '''worked'''), ('state_column', '''state'''), ('machine', '''worked'''),
    ('event', '''go'''), ('processor', '''me'''), ('key', '1'), ('keys', 'array[1]'), ('state', '''b'''),
    ('reason', '''r'''), ('columns', '''{metadata}'''), ('success_states', '''{"b": true}'''), ('code', '''22023'''),
    ('diagram', E'$$stateDiagram-v2\n[*] --> a$$'), ('log', '''worked_transitions_log'''), ('at', 'now()'),
    ('audit', '''worked_result_audit'''), ('into', '''worked_result_audit'''), ('lease', '''1 min'''),
    ('keep', '''1 day'''), ('older_than', '''1 day'''), ('batch', '1');
create table calls as
    select p.oid::regprocedure::text as signature,
           format('select * from %I.%I(%s)', n.nspname, p.proname, string_agg(coalesce(
               (select g.value from given g where g.argument = p.proargnames[a.n]),
               case a.type when 'anyelement'::regtype then 'null::worked' when 'anycompatible'::regtype then '1'
                   when 'regclass'::regtype then '''worked''' when 'uuid'::regtype then
                   '''6ecd8c99-4036-403d-bf84-cf8400f67836'''
                   when 'text'::regtype then '''x''' when 'name'::regtype then '''x'''
                   else 'null::' || format_type(a.type, null) end), ', ' order by a.n)) as statement
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      left join unnest(p.proargtypes::oid[]) with ordinality a(type, n) on true
     where n.nspname in ('pawl', 'pawl_dag', 'pawl_bulk', 'pawl_saga', 'pawl_api') and p.prokind = 'f'
       and p.proname !~ '^(_|wait_)' and p.provariadic = 0
       and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
     group by p.oid, n.nspname, p.proname;
create function heard(statement text, code out text, message out text, detail out text, hint out text, context out text)
language plpgsql as $$
begin
    execute statement;
    raise exception using errcode = 'TRY00';  -- undone, as the next function finds the same
exception when others then
    get stacked diagnostics code = returned_sqlstate, message = message_text,
        detail = pg_exception_detail, hint = pg_exception_hint, context = pg_exception_context;
end $$;
create role pawl_test_rolled in role pawl_admin, pawl_operator, pawl_worker, pawl_reader;
create role pawl_test_bare;
grant select on calls to public;
create table heard_by (role name, signature text, code text, message text, detail text, hint text, context text);
grant insert on heard_by to public;
set role pawl_test_rolled;
insert into heard_by select current_user, c.signature, h.* from calls c cross join heard(c.statement) h;
set role pawl_test_bare;
insert into heard_by select current_user, c.signature, h.* from calls c cross join heard(c.statement) h;
reset role;
select cmp_ok((select count(*) from heard_by where code = '42501' and role = 'pawl_test_rolled'), '>=', 20::bigint,
    'roles of pawl without rights on a table are rejected');
select is_empty($$select role, signature, message from heard_by where code = '42501' and coalesce(hint, '') = ''
    and message !~ '^permission denied for '$$, 'every rejection for want of a right has a hint');
select is_empty($$select signature, message, hint from heard_by where code = '42501'
    and hint ~ 'grant' and hint !~ 'pawl_'$$, 'which names the role');
select is_empty($$select role, signature, message, hint from heard_by where code = '42501'
    and message ~ '^permission denied for (table|relation|view|sequence)' and coalesce(hint, '') = ''$$,
    'also of a table');
-- The lines of CONTEXT are those of this script; PostgreSQL would quote a statement of pawl's own below them.
select is_empty($$select role, signature, message, context from heard_by where code = '42501'
    and context !~ '\A(SQL statement "select \* from [^"]*"\n)?PL/pgSQL function heard\(text\) line \d+ at EXECUTE\Z'$$,
    'no statement that is internal is shown');
-- What changes rows names what it needs, and what it lacks may be one column.
create function told(statement text) returns text language plpgsql as $$
declare h record;
begin
    select * into h from heard(statement) h;
    return concat_ws(' | ', h.code, h.message, h.detail, h.hint);
end $$;
create table changing (call text, writes text);
insert into changing values ($$select * from pawl.claim(null::worked, processor => 'me')$$, 'state'),
    ($$select * from pawl.claim_keys(null::worked, array[1], processor => 'me')$$, 'state'),
    ($$select pawl.fire('worked', 1, 'go', processor => 'me')$$, 'state'),
    ($$select * from pawl.fire_many('worked', array[1], 'go', processor => 'me')$$, 'state'),
    ($$select * from pawl.fire_due('worked')$$, 'state'), ($$select pawl.abandon('worked', 'me')$$, 'state'),
    ($$select pawl.heartbeat('worked', 'me')$$, 'lease');
grant select on changing to public;
create function needs(writes text) returns text language sql as $$
    select format('42501 | permission denied for table worked | The statement needs SELECT on the table and UPDATE of '
        'column "%s". | grant select, update (%s) on public.worked to pawl_test_bare', writes, writes) $$;
set role pawl_test_bare;
select is(told(call), needs(writes), format('without rights: %s', call)) from changing;
select is(told($$select * from pawl.available('worked', 1)$$), '42501 | permission denied for table worked | The '
    'statement needs SELECT on the table. | grant select on public.worked to pawl_test_bare', 'available only reads');
select is(told($$select * from pawl.reap('worked')$$), '42501 | permission denied for table worked | The '
    'statement needs SELECT on the table. | grant select on public.worked to pawl_test_bare',
    'reap reads the leases first');
reset role;
grant select on worked to pawl_test_bare;
set role pawl_test_bare;
select is(told(call), needs(writes), format('with SELECT: %s', call)) from changing;
reset role;
grant update (token) on worked to pawl_test_bare;
set role pawl_test_bare;
select is(told(call), needs('state'), format('with UPDATE of another column: %s', call)) from changing
    where call ~ 'pawl.(claim|claim_keys|fire|fire_many)\(';
reset role;
grant update (state) on worked to pawl_test_bare;
set role pawl_test_bare;
select is((select count(*) from pawl.claim(null::worked, processor => 'me')), 1::bigint, 'what the hint says helps');
select is(told($$select pawl.heartbeat('worked', 'me', '1 h')$$), needs('lease'), 'a heartbeat needs another column');
reset role;
grant update (lease) on worked to pawl_test_bare;
set role pawl_test_bare;
select is(pawl.heartbeat('worked', 'me', '1 h'), 1::bigint, 'and with it extends the lease');
reset role;
revoke all on worked from pawl_test_bare;
drop role pawl_test_rolled, pawl_test_bare;
select pawl.release('worked'), pawl.release('kept'), pawl.release('of_superuser') \g /dev/null
drop owned by pawl_test_lacking, pawl_test_keeper cascade;
drop role pawl_test_lacking, pawl_test_keeper;
select * from finish();
