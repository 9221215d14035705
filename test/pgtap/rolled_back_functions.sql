-- Errors that are caught half way: what guards, effects and log writers had begun is
-- gone, what others had begun is not.
\set QUIET 1
begin;
select plan(10);

select pawl.define('walk', $$stateDiagram-v2
    [*] --> new
    new --> used : use
    used --> [*]$$);

-- A SQL guard that fails after a savepoint is asked again in the same transaction.
create table f (id int primary key, state text not null default 'new', ok boolean not null default true,
    n int not null default 1);
create function f_guard(old f, new f) returns boolean language sql as 'select new.ok and 1 / new.n is not null';
create function f_effect(old f, new f) returns void language sql as 'select 1 / (new.n - 2)';
select pawl.define('f', $$stateDiagram-v2
    [*] --> new
    new --> used : use [f_guard] / f_effect
    used --> [*]$$);
select pawl.enforce('f', 'state', 'f'), pawl.enable_log('f', 'state');
insert into f (id, ok, n) values (1, true, 1), (2, true, 0), (3, true, 1), (4, false, 1), (5, true, 2), (6, true, 1);
update f set state = 'used' where id = 1;
select throws_ok('update f set state = ''used'' where id = 2', '22012', null, 'the guard divides by zero');
select lives_ok('update f set state = ''used'' where id = 3', 'asked again, it answers for the row in question');
select throws_ok('update f set state = ''used'' where id = 4', 'PW003', null, 'and may say no');
select throws_ok('update f set state = ''used'' where id = 5', '22012', null, 'an effect fails the same way');
select lives_ok('update f set state = ''used'' where id = 6', 'and runs again');
select throws_ok('update f set state = ''used''', '22012', null, 'many rows, one of them fails');
select results_eq('select id, state from f order by id',
    $$values (1, 'used'), (2, 'new'), (3, 'used'), (4, 'new'), (5, 'new'), (6, 'used')$$,
    'only what was allowed has happened');

-- A trigger moves rows of another table inside an exception block, and the log of those cannot be written: the log of
-- the rows that the statement itself moves must not suffer.
create table t (id int primary key, state text not null default 'new');
create table inner_t (id int primary key, state text not null default 'new');
select pawl.enforce('t', 'state', 'walk'), pawl.enable_log('t', 'state');
select pawl.enforce('inner_t', 'state', 'walk'), pawl.enable_log('inner_t', 'state');
alter table inner_t_transitions_log add check (to_state <> 'used' or inner_t_transitions_log.subject_id % 2 = 0);
insert into t select g from generate_series(1, 8) g;
insert into inner_t select g from generate_series(1, 8) g;
create function move_the_other() returns trigger language plpgsql as $$
begin
    begin
        update inner_t set state = 'used' where id = new.id;
    exception when check_violation then
        null;
    end;
    return new;
end$$;
create trigger aaa before update on t for each row execute function move_the_other();
update t set state = 'used';
select results_eq('select id, state from inner_t order by id',
    $$select g, case when g % 2 = 0 then 'used' else 'new' end from generate_series(1, 8) g$$,
    'what could not be logged did not happen');
select results_eq('select subject_id, to_state from t_transitions where most_recent order by 1',
    $$select g, 'used' from generate_series(1, 8) g$$,
    'every row of the statement itself is logged');
select is_empty('select * from pawl.verify()', 'rows and logs agree');

select finish();
commit;
