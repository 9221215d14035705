-- The error of a rejected change shows a role nothing that it may not select.
\set ECHO none
\set QUIET 1
set client_min_messages to warning;
select no_plan();
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> [*]$$) \g /dev/null
create role pawl_test_blind;
create role pawl_test_half;
create function detail_of(query text) returns text language plpgsql as $$
declare detail text;
begin
    execute query;
    return 'no error';
exception when others then
    get stacked diagnostics detail = pg_exception_detail;
    return detail;
end $$;

create table t (id int primary key, state text not null, secret text) partition by range (id);
create table t0 partition of t for values from (0) to (100);
select pawl.enforce('t', 'state', 'm', on_delete => 'deny'), pawl.enable_log('t', 'state') \g /dev/null
insert into t values (41, 'a', 'x');
grant update (state), delete, truncate on t, t0 to pawl_test_blind;
grant update (state), select (id) on t to pawl_test_half;

set role pawl_test_blind;
select is(detail_of($$update t set state = 'nowhere'$$), 'A row of public.t is in state "a". The machine has no '
    'state "nowhere".', 'a key that may not be selected is not shown');
select unalike(detail_of($$update t0 set state = 'nowhere'$$), '%41%', 'nor when a partition is named');
select unalike(detail_of($$delete from t$$), '%41%', 'nor by a deletion');
select unalike(detail_of($$truncate t0$$), '%41%', 'nor by TRUNCATE');
reset role;
set role pawl_test_half;
select is(detail_of($$update t set state = 'nowhere'$$), 'Row (id)=(41) of public.t is in state "a". The machine has '
    'no state "nowhere".', 'a role that may select the key sees it');
reset role;
grant select (id), update (state) on t0 to pawl_test_half;
revoke select (id) on t from pawl_test_half;
set role pawl_test_half;
select alike(detail_of($$update t0 set state = 'nowhere'$$), 'Row (id)=(41)%',
    'a role that may select it from the partition, too');
reset role;

-- an UPDATE policy may reach rows that no SELECT policy shows
alter table t enable row level security;
create policy all_move on t for update using (true);
create policy none_seen on t for select using (false);
grant select on t to pawl_test_half;
set role pawl_test_half;
select unalike(detail_of($$update t set state = 'nowhere'$$), '%41%', 'row security tells no keys');
reset role;
select alike(detail_of($$update t set state = 'nowhere'$$), 'Row (id)=(41)%',
    'a role that bypasses row security sees the key');

drop table t;
drop role pawl_test_blind;
drop role pawl_test_half;
select * from finish();
