-- Effects: when they run, what they see, what they may do, and what becomes of the state change when they fail.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create table diary (n int generated always as identity, what text);
create table t (id int primary key, state text not null, note text default '');
create function first_effect(o t, n t) returns void language plpgsql as $$
begin
    insert into diary (what)
        values (format('first %s->%s, stored %s', o.state, n.state, (select state from t where id = n.id)));
end $$;
create function second_effect(o t, n t) returns int language sql as $$
    insert into diary (what) values ('second ' || coalesce(o.state, 'nothing') || '->' || n.state) returning n $$;
create function failing(o t, n t) returns void
    language plpgsql as $$ begin raise exception 'the effect fails' using errcode = 'P0042'; end $$;
create function go_on(o t, n t) returns void language sql as $$ update t set state = 'c' where id = n.id $$;
create function push_next(o t, n t) returns void
    language sql as $$ update t set state = 'pushed' where id = n.id + 1 and state = 'a' $$;
create function annotate(o t, n t) returns void language sql as $$ update t set note = note || '!' where id = n.id $$;
create function illegal_move(o t, n t) returns void language sql as $$ update t set state = 'd' where id = n.id $$;
create function remove_row(o t, n t) returns void language sql as $$ delete from t where id = n.id $$;
create function insert_row(o t, n t) returns void language sql as $$ insert into t values (n.id + 1000, 'a') $$;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    [*] --> born : be_born / second_effect
    a --> b : two / first_effect, second_effect
    a --> x : fail / first_effect, failing
    a --> mid : run_on / go_on
    mid --> c : on
    a --> pushed : push / push_next
    a --> noted : note / annotate
    a --> bad : wrong / illegal_move
    a --> gone : vanish / remove_row
    a --> parent : have_child / insert_row
    d --> a
    [*] --> d$$) \g /dev/null
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state') \g /dev/null
create function diary() returns setof text language sql as $$ select what from diary order by n $$;
create function log_of(k int) returns text
    language sql as $$ select string_agg(to_state, '>' order by sort_key) from t_transitions where subject_id = k $$;

insert into t select g, 'a' from generate_series(1, 40) g;
update t set state = 'b' where id = 1;
select results_eq('select diary()', array['first a->b, stored b', 'second a->b'],
    'effects run in the order of the diagram, once, after the row has changed');
truncate diary;

insert into t values (100, 'born');
select results_eq('select diary()', array['second nothing->born'], 'an effect of a first state gets null for old');
truncate diary;

select throws_ok($$update t set state = 'x' where id = 2$$, 'P0042', 'the effect fails',
    'an error in an effect is the statement''s');
select is((select state from t where id = 2), 'a', 'and undoes the state change');
select is(log_of(2), 'a', 'and its log row');
select is_empty('select diary()', 'and what earlier effects wrote');

begin;
savepoint s;
select throws_ok($$update t set state = 'x' where id = 2$$, 'P0042', null, 'inside a savepoint');
rollback to s;
update t set state = 'b' where id = 2;
select results_eq('select diary()', array['first a->b, stored b', 'second a->b'],
    'no effect of a state change that was rolled back runs for the next one');
commit;
select is(log_of(2), 'a>b', 'the log knows only the second');
truncate diary;

update t set state = 'mid' where id = 3;
select is((select state from t where id = 3), 'c', 'an effect can move its own row further');
select is(log_of(3), 'a>mid>c', 'both state changes are logged in order');
select is(pawl.fire('t', 4, 'run_on'), 'mid', 'fire answers with the state its event leads to');
select is((select state from t where id = 4), 'c', 'while the effect led the row further');

update t set state = 'pushed' where id = 20;
select is((select array_agg(state order by id) from t where id between 20 and 40),
    array_fill('pushed'::text, array[21]),
          'an effect in SQL whose state changes call the same effect reaches the last row');
select is((select count(*) from t_transitions where to_state = 'pushed'), 21::bigint, 'each is logged');

update t set state = 'noted' where id = 5;
select is((select note from t where id = 5), '!', 'an effect may write the row without moving it');
select is(log_of(5), 'a>noted', 'which is no transition');

select throws_ok($$update t set state = 'bad' where id = 6$$, 'PW001', 'no transition from "bad" to "d" in machine "m"',
    'a state change made by an effect is validated like any other');
select is((select state from t where id = 6), 'a', 'and undoes the state change that called the effect');

update t set state = 'gone' where id = 7;
select is(log_of(7), 'a>gone', 'an effect may delete its row: no further state');
select is((select event from t_transitions where subject_id = 7 order by sort_key desc limit 1), 'pawl.delete',
    'its log ends with the deletion');
update t set state = 'parent' where id = 8;
select is((select state from t where id = 1008), 'a', 'an effect may insert a row');
select is_empty($$select * from pawl.verify('t')$$, 'nothing is wrong with rows and log');

-- Many rows in one statement.
truncate diary;
with moved as (update t set state = 'b' where id between 9 and 12 returning 1) select 1 \g /dev/null
select is((select count(*) from diary), 8::bigint, 'two effects of four rows each run once');
select is((select count(*) from pawl.fire_many('t', array[13, 14], 'two') where ok), 2::bigint,
    'fire_many changes both rows');
select is((select count(*) from diary), 12::bigint, 'two effects of two rows each run once in fire_many');

-- Rows that ~pawl_validate does not see as they are written: a later-named trigger changes them.
create function rewrite() returns trigger
    language plpgsql as $$ begin if new.note = 'rewrite' then new.state := 'b'; end if; return new; end $$;
create trigger "~zz" before update on t for each row execute function rewrite();
truncate diary;
update t set state = 'noted', note = 'rewrite' where id = 15;
select is((select state from t where id = 15), 'b', 'a later-named trigger changed the state to b');
select is((select note from t where id = 15), 'rewrite', 'so the effect of the transition to noted did not run');
select results_eq('select diary()', array['first a->b, stored b', 'second a->b'], 'but those of the transition to b');
select throws_ok($$update t set state = 'x' where id = 16$$, 'P0042', null,
    'an error of an effect in a row validated late');
select is((select state from t where id = 16), 'a', 'undoes the state change');
update t set state = 'pushed' where id = 17;
select is((select state from t where id = 18), 'pushed', 'effects that change the state of other rows run too');
drop trigger "~zz" on t;
select is_empty($$select * from pawl.verify('t')$$, 'nothing is wrong with rows and log');

-- Partitions: a state change moves the row to another partition.
create table p (id int not null, state text not null, extra int default 7,
    primary key (id, state)) partition by list (state);
create table p_a partition of p for values in ('a');
create table p_rest (note text, state text not null, extra int default 7, id int not null);
alter table p_rest drop column note;
alter table p attach partition p_rest default;
create function p_effect(o p, n p) returns void language sql as $$
    insert into diary (what) values (format('%s %s->%s %s in %s', o.id, o.state, n.state, n.extra,
        (select tableoid::regclass from p where id = n.id))) $$;
create function p_on(o p, n p) returns void language sql as $$ update p set state = 'c' where id = n.id $$;
select pawl.define('p', $$stateDiagram-v2
    [*] --> a
    a --> b : go / p_effect
    b --> a : back / p_effect
    a --> mid : run_on / p_on
    mid --> c : on / p_effect$$) \g /dev/null
select pawl.enforce('p', 'state', 'p'), pawl.enable_log('p', 'state') \g /dev/null
insert into p values (1, 'a', 11), (2, 'a', 12);
truncate diary;
update p set state = 'b' where id = 1;
update p_rest set extra = 13 where id = 1;
update p set state = 'a' where id = 1;
select results_eq('select diary()', array['1 a->b 11 in p_rest', '1 b->a 13 in p_a'],
                  'effects of a move between partitions see both rows in the root''s order of columns');
truncate diary;
update p set state = 'mid' where id = 2;
select is((select state from p where id = 2), 'c', 'an effect moves on a row that has just changed partition');
select results_eq('select diary()', array['2 mid->c 12 in p_rest'], 'with its own effect');
select is((select string_agg(to_state, '>' order by sort_key) from p_transitions where subject_id = 2), 'a>mid>c',
    'logged in order');
select is_empty($$select * from pawl.verify('p')$$, 'nothing is wrong with the partitioned table');

-- A strict effect is not called without an old row.
create table s (id int primary key, state text not null);
create function strict_effect(o s, n s) returns void
    language sql strict as $$ insert into diary (what) values ('strict') $$;
select pawl.define('s', $$stateDiagram-v2
    [*] --> a : come / strict_effect
    a --> b : go / strict_effect$$) \g /dev/null
select pawl.enforce('s', 'state', 's') \g /dev/null
truncate diary;
insert into s values (1, 'a');
select is_empty('select diary()', 'a strict effect of a first state is not called');
update s set state = 'b';
select results_eq('select diary()', array['strict'], 'that of a transition is');
select * from finish();
