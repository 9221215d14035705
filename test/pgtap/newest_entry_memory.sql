-- A session that changes the state of a row again without reading its log continues from the newest entry, whatever
-- happened to the session meanwhile.
-- Alone on the server: DDL elsewhere empties the caches of a session, which are looked at.
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('ring', $$stateDiagram-v2
    [*] --> a
    a --> b
    b --> c
    c --> a$$);
create table t (id int primary key, state text not null default 'a', n int not null default 0);
create table u (tenant uuid, id bigint, state text not null default 'a', primary key (tenant, id));
select pawl.enforce('t', 'state', 'ring'), pawl.enable_log('t', 'state');
select pawl.enforce('u', 'state', 'ring'), pawl.enable_log('u', 'state');
insert into t (id) select generate_series(1, 50);
insert into u select '00000000-0000-0000-0000-000000000001'::uuid, i from generate_series(1, 3) i;

create function next_state(text) returns text language sql immutable as $$ select translate($1, 'abc', 'bca') $$;
create function newest(key int) returns int
    language sql as $$ select max(sort_key) from t_transitions where subject_id = key $$;

update t set state = next_state(state) where id = 1;
update t set state = next_state(state) where id = 1;
update t set n = n + 1 where id = 1;
update t set state = next_state(state) where id = 1;
select is(newest(1), 4,
    'the count goes on over several transactions, also when the row was written without a state change between them');

begin;
update t set state = next_state(state) where id = 2;
savepoint s;
update t set state = next_state(state) where id = 2;
rollback to s;
commit;
update t set state = next_state(state) where id = 2;
select is(newest(2), 3, 'a state change that was rolled back to a savepoint does not count');

begin;
savepoint s;
update t set state = next_state(state) where id = 3;
release s;
update t set n = n + 1 where id = 3;
commit;
update t set state = next_state(state) where id = 3;
select is(newest(3), 3, 'one of a released savepoint does');

begin;
update t set state = next_state(state) where id = 4;
rollback;
update t set state = next_state(state) where id = 4;
select is(newest(4), 2, 'one of a transaction that was rolled back does not');

begin;
update t set state = 'b' where id = 5;
insert into t_transitions (subject_id, to_state) values (5, 'c');
commit;
update t set state = 'a' where id = 5;
select is(newest(5), 4, 'an INSERT into the log in the same transaction is seen');

insert into t_transitions (subject_id, to_state) values (6, 'b');
update t set state = 'c' where id = 6;
select is(newest(6), 3, 'and in one before');

begin;
update t set state = 'b' where id = 7;
update t set state = 'c' where id = 7;
update t set state = 'a' where id = 7;
commit;
update t set state = 'b' where id = 7;
select is(newest(7), 5, 'several state changes of one transaction are');

update t set state = 'b' where id = 8;
delete from t where id = 8;
insert into t (id) values (8);
update t set state = 'b' where id = 8;
select is(newest(8), 5, 'a row that comes back goes on after its deletion');

update t set state = 'b' where id = 9;
select pawl.release('t');
select pawl.enforce('t', 'state', 'ring'), pawl.enable_log('t', 'state');
update t set state = 'c' where id = 9;
update t set state = 'b' where id = 10;
vacuum full t_transitions_log;
alter table t_transitions_log rename to t_log;
update t set state = 'c' where id = 10;
alter table t_log rename to t_transitions_log;
update t set state = 'a' where id = 10;
select is((select array_agg(to_state order by sort_key) from t_transitions
        where subject_id = 9 and event is distinct from 'pawl.attach'), '{a,b,c}',
          'release and attaching again');
select is((select array_agg(to_state order by sort_key) from t_transitions
        where subject_id = 10 and event is distinct from 'pawl.attach'), '{a,b,c,a}',
          'rewritten and renamed logs');

update u set state = 'b';
update u set state = 'c' where id <> 2;
update u set state = 'a' where id = 1;
select is((select array_agg(n order by id)
    from (select subject_id as id, max(sort_key) n from u_transitions group by 1) x), '{4,2,3}',
    'newest entries of rows with composite keys are remembered');

-- More rows than there is room to remember, in one transaction: the rows of one place are told apart by their keys.
create table w (id int primary key, state text not null default 'a');
select pawl.enforce('w', 'state', 'ring'), pawl.enable_log('w', 'state');
insert into w (id) select generate_series(1, 6000);
begin;
update w set state = next_state(state);
update w set state = next_state(state) where id > 3000;
commit;
update w set state = next_state(state);
select results_eq($$select id <= 3000, n, count(*)
    from (select subject_id as id, max(sort_key) as n from w_transitions group by 1) x group by 1, 2 order by 1$$,
    $$values (false, 4, 3000::bigint), (true, 3, 3000)$$, 'each row goes on from its own entry');

-- Anything of it, in any order, often; what is rolled back as well.
create procedure wander(times int) language plpgsql as $$
declare
    k int;
begin
    perform setseed(0.4);
    for i in 1..times loop
        k := 11 + floor(random() * 5);
        begin
            case floor(random() * 6)
                when 0 then update t set n = n + 1 where id = k;
                when 1 then insert into t_transitions (subject_id, to_state) select id, next_state(state) from t
                    where id = k;
                when 2 then delete from t where id = k; insert into t (id) values (k);
                when 3 then perform pawl.prune_log('t', '0 s', false);
                else update t set state = next_state(state) where id = k;
            end case;
            if random() < 0.2 then raise exception 'undo this' using errcode = 'PT000'; end if;
        exception when sqlstate 'PT000' then null;
        end;
        if random() < 0.5 then commit; elsif random() < 0.2 then rollback; end if;
    end loop;
    commit;
end $$;
call wander(3000);
select cmp_ok((select max(sort_key) from t_transitions), '>', 100, 'a long walk of many state changes');
select is_empty('select * from pawl.verify()', 'leaves logs without a gap');
select * from finish();
