-- Missing rights: each error names the role or the privilege to grant, and the role that needs it.
\set QUIET 1
set client_min_messages to error;
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
select pawl.release('kept'), pawl.release('of_superuser') \g /dev/null
drop owned by pawl_test_lacking, pawl_test_keeper cascade;
drop role pawl_test_lacking, pawl_test_keeper;
select * from finish();
