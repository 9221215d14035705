-- A domain's CHECK is its owner's code. A role that reads the log of another owner's table must not run it.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
create role pawl_test_domain_owner;
create schema theirs authorization pawl_test_domain_owner;
grant usage on schema public to pawl_test_domain_owner;
select pawl.define('m', 'stateDiagram-v2
    [*] --> a
    a --> b : go') \g /dev/null
set role pawl_test_domain_owner;
create function theirs.snare(v text) returns bool language plpgsql as $$
begin
    if current_user <> 'pawl_test_domain_owner' then
        raise exception
            'snared %', current_user using errcode = 'P0666';
        end if;
    return v <> 'forbidden';
end $$;
create domain theirs.code as text check (theirs.snare(value));
create domain theirs.shortcode as char(4) check (theirs.snare(value));
create domain theirs.inner_code as theirs.code check (theirs.snare(value));
create table theirs.t (id theirs.code, part theirs.shortcode, deep theirs.inner_code, state text not null,
    primary key (id, part, deep));
reset role;
select pawl.enforce('theirs.t', 'state', 'm'), pawl.enable_log('theirs.t', 'state', hash_chain => true) \g /dev/null
set role pawl_test_domain_owner;
insert into theirs.t values ('x', 'y', 'z', 'a');
select is(pawl.fire('theirs.t', row('x', 'y', 'z'), 'go'), 'b', 'the owner changes its row');
reset role;
select is((select count(*) from pawl.history('theirs.t', row('x', 'y', 'z'))), 2::bigint,
    'history runs no CHECK of the owner''s');
select is((select count(*) from pawl.history('theirs.t', '{x,y,z}')), 2::bigint, 'in no form of the key');
select is(pawl.state_at('theirs.t', array['x', 'y', 'z'], 'infinity'), 'b', 'nor does state_at');
select lives_ok($$select * from pawl.available('theirs.t', row('x', 'y', 'z'))$$,
    'available works without usage on the schema of a domain');
select throws_ok($$select pawl.fire('theirs.t', row('x', 'y', 'forbidden'), 'go')$$, 'P0002', null,
    'a value outside the domain is one that no row has');
select is_empty($$select * from pawl.verify('theirs.t')$$, 'nor does verify');
select is_empty($$select * from pawl.health() where status = 'error'$$, 'health reports no error for such domains');
select * from finish();
