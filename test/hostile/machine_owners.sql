-- A machine belongs to a role: that role and its members define the next version, drop it, or give it away; other
-- members of pawl_admin do not.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create role pawl_test_smith in role pawl_admin; create role pawl_test_guild in role pawl_admin;
create role pawl_test_thief in role pawl_admin;
create role pawl_test_member in role pawl_test_guild;
create schema app;
grant usage, create on schema app to public;

create function says(role text, statement text) returns text language plpgsql as $$
declare code text; message text; detail text; hint text;
begin
    begin
        execute format('set local role %I', role);
        execute statement;
        reset role;
        return 'ok';
    exception when others then
        get stacked diagnostics code = returned_sqlstate, message = message_text, detail = pg_exception_detail,
            hint = pg_exception_hint;
    end;
    reset role;
    return concat_ws('|', code, message, nullif(detail, ''), nullif(hint, ''));
end $$;
create function diagram(extra text) returns text language sql as $$ select 'stateDiagram-v2
    [*] --> a
    a --> b : go' || extra $$;
grant execute on all functions in schema public to public;

select is(says('pawl_test_smith', 'select pawl.define(''m'', public.diagram(''''))'), 'ok',
    'a pawl_admin defines a machine');
select is((select owner from pawl.machine where machine = 'm'), 'pawl_test_smith', 'and owns it');

-- the next version
select is(says('pawl_test_thief', $$select pawl.define('m', public.diagram(E'\n    b --> a : back'))$$),
          '42501|must be owner of machine "m"|It belongs to role "pawl_test_smith".|GRANT pawl_test_smith TO '
          'pawl_test_thief; or, as its owner: SELECT pawl.set_machine_owner(''m'', ''pawl_test_thief'');',
          'another pawl_admin defines no next version');
select is(says('pawl_test_thief', $$select pawl.define('m', public.diagram(''))$$), 'ok',
    'the same machine again is the same version, and changes nothing');
select is(says('pawl_test_thief', $$select pawl.define('M', public.diagram(E'\n    b --> a : back'))$$), 'ok',
    'another name is another machine');
select is((select count(*) from pawl.machine where machine = 'm'), 1::bigint, 'there is one version still');

-- by hand
select is(left(says('pawl_test_thief', s), 37), '42501|permission denied for table mac', s) from unnest(array[
    $$insert into pawl.machine (machine, version, source, diagram) values ('m', 2, '', '')$$,
    $$update pawl.machine set owner = 'pawl_test_thief'$$, $$delete from pawl.machine$$,
    $$insert into pawl.machine_state (machine, version, ordinal, state) values ('m', 1, 9, 'x')$$,
    $$delete from pawl.machine_state$$,
    $$insert into pawl.machine_transition (machine, version, ordinal, to_state) values ('m', 1, 9, 'a')$$,
    $$delete from pawl.machine_transition$$]) s;
select is(left(says('pawl_test_smith', $$update pawl.machine set owner = 'pawl_test_thief'$$), 5), '42501',
    'nor does the owner write the table');

-- dropping and giving away
select is(says('pawl_test_thief', $$select pawl.drop_machine('m')$$) like '42501|must be owner of machine "m"|%', true,
    'another pawl_admin does not drop it');
select is(says('pawl_test_thief', $$select pawl.set_machine_owner('m', 'pawl_test_thief')$$) like
    '42501|must be owner of machine "m"|%', true, 'nor take it');
select is(says('pawl_test_smith', $$select pawl.set_machine_owner('m', 'pawl_test_guild')$$),
    '42501|must be a member of role "pawl_test_guild"|GRANT pawl_test_guild TO pawl_test_smith;',
    'the owner gives it to no role that it is not a member of');
select is(left(says('pawl_test_smith', $$select pawl.set_machine_owner('m', 'pawl_test_nobody')$$), 5), '42704',
    'nor to one that does not exist');
select is(left(says('pawl_test_smith', $$select pawl.set_machine_owner('none', 'pawl_test_smith')$$), 5), 'PW008',
    'an unknown machine');
select is(left(says('pawl_test_smith', $$select pawl.set_machine_owner(null, 'pawl_test_smith')$$), 5), '22004',
    'null is no machine');
select is(left(says('pawl_test_smith', $$select pawl.drop_machine(null)$$), 5), '22004', 'nor to drop');
select is(left(says('pawl_test_smith', $$select pawl.drop_machine('m', 7)$$), 5), 'PW008', 'an unknown version');
select is(says('pawl_test_smith', $$select pawl.define('m', public.diagram(E'\n    b --> a : back'))$$), 'ok',
    'the owner defines version 2');
select lives_ok($$select pawl.set_machine_owner('m', 'pawl_test_guild')$$, 'a superuser gives it to another role');
select results_eq($$select version, owner from pawl.machine where machine = 'm' order by 1$$,
    $$values (1, 'pawl_test_guild'), (2, 'pawl_test_guild')$$, 'all versions are its');
select is(says('pawl_test_member', $$select pawl.define('m', public.diagram(E'\n    b --> c : on'))$$), 'ok',
    'a member of that role defines version 3');
select is((select owner from pawl.machine where machine = 'm' and version = 3), 'pawl_test_guild',
    'which is the role''s too');
select is(says('pawl_test_smith', $$select pawl.define('m', public.diagram(''))$$) like '42501|%', true,
    'the former owner may not any more');
select throws_ok($$update pawl.machine set source = 'x' where machine = 'm'$$, 'PW006', null,
    'nothing else of a version changes, also for a superuser');

-- a table of another role is still validated by its version; enforcing a machine of another role is allowed, upgrading
-- is the table owner's choice
create table app.t (id int primary key, state text not null);
alter table app.t owner to pawl_test_thief;
select is(says('pawl_test_thief', $$select pawl.enforce('app.t', 'state', 'm', version => 1)$$), 'ok',
    'a machine is there for all to use');
select is(says('pawl_test_member', $$select pawl.drop_machine('m')$$) like '2BP01|%', true,
    'a machine in use is not dropped');
select is(says('pawl_test_member', $$select pawl.drop_machine('m', 3)$$), 'ok', 'a version that is not in use is');
select is((select max(version) from pawl.machine where machine = 'm'), 2, 'and is gone');
select is((select count(*) from pawl.machine_state where machine = 'm' and version = 3), 0::bigint, 'with its states');

-- a role that is gone is stood in for by the owner of the extension
select pawl.define('lost', diagram('')) \g /dev/null
update pawl.machine set owner = 'pawl_test_gone' where machine = 'lost';
select is(says('pawl_test_member',
        $$select pawl.define('lost', public.diagram(E'\n    b --> a : back'))$$) like format(
            '42501|must be owner of machine "lost"|It belongs to role "%s".|%%', current_user), true,
          'a machine whose owner is gone is the extension owner''s');
select lives_ok($$select pawl.define('lost', diagram(E'\n    b --> a : back'))$$,
    'the new owner defines the next version');
select is((select owner from pawl.machine where machine = 'lost' and version = 2), current_user::text, 'and owns it');

-- define, called by a SECURITY DEFINER function, acts as the owner of that function
create function app.lend() returns int language sql security definer
    set search_path = pg_catalog as $$ select pawl.define('lent', public.diagram('')) $$;
alter function app.lend() owner to pawl_test_guild;
grant execute on function app.lend() to public;
select is(says('pawl_test_thief', 'select app.lend()'), 'ok', 'a function defines for its owner');
select is((select owner from pawl.machine where machine = 'lent'), 'pawl_test_guild', 'whose the machine is');
select is((select count(*) from pawl.machine where owner is null), 0::bigint, 'every version has an owner');
select is((select count(*) from pg_auth_members m join pg_roles r on r.oid = m.roleid where r.rolname = 'pawl_restore'),
    0::bigint, 'pawl_restore has no members unless a role is made one');
select * from finish();
