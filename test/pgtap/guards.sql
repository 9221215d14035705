-- Guards: how they may be written, what they see, how they choose; and pawl.available, which asks them.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

create table t (id int primary key, state text not null, n int, flag bool default true);
create table other (what text);
create function exact(o t, n t) returns bool language sql immutable as $$ select n.n > 0 $$;
create function poly(o anyelement, n anyelement) returns bool language plpgsql as $$ begin return n.n > 0; end $$;
create function anyrow(o record, n record) returns bool language plpgsql as $$ begin return n.n > 0; end $$;
create function null_is_no(o t, n t) returns bool language sql as $$ select null::bool $$;
create function failing(o t, n t) returns bool language plpgsql as $$ begin
    raise exception
        'guard fails' using errcode = 'P0042', hint = 'ask another user';
    end $$;
create function flagged(o t, n t) returns bool language sql as $$ select n.flag $$;
create function big(o t, n t) returns bool language sql as $$ select n.n >= 100 $$;
create function middle(o t, n t) returns bool language sql as $$ select n.n >= 10 $$;
create function changed(o t, n t) returns bool language sql as $$ select o.n is distinct from n.n $$;
create function sees_states(o t, n t) returns bool
    language sql as $$ select o.state = 'a' and n.state = 'seen' and o.id = n.id $$;
create function reads(o t, n t) returns bool
    language sql stable as $$ select exists (select from other where what = 'yes') $$;
create function writes(o t, n t) returns bool
    language plpgsql as $$ begin insert into other values ('asked'); return true; end $$;
create function no_old(o t, n t) returns bool language sql as $$ select o is null and n.n is not null $$;
create function strict_guard(o t, n t) returns bool language sql strict as $$ select true $$;
create function alone(o t, n t) returns bool
    language sql as $$ select not exists (select from t where state = 'alone' and id <> n.id) $$;
create schema "other Schema";
create function "other Schema".far(o t, n t) returns bool language sql as $$ select n.flag $$;
set search_path = public, "other Schema";
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    [*] --> guarded : be_born [no_old]
    [*] --> strict : be_strict [strict_guard]
    a --> exact : exact [exact]
    a --> poly : poly [poly]
    a --> anyrow : anyrow [anyrow]
    a --> nothing : null [null_is_no]
    a --> failed : fail [failing]
    a --> both : both [exact, flagged]
    a --> large : sort [big]
    a --> medium : sort [middle]
    a --> small : sort
    a --> changed : change [changed]
    a --> seen : see [sees_states]
    a --> told : tell [reads]
    a --> wrote : write [writes]
    a --> alone : stand_alone [alone]
    a --> far : far [far]
    a --> same : by_flag [flagged]
    a --> same : by_size [big]
    a --> plain
    a --> a : touch [flagged]$$) \g /dev/null
reset search_path;
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state') \g /dev/null
insert into t select g, 'a', 5 from generate_series(1, 60) g;
create function rejected(by text, "to" text) returns text language sql as $$
    select format('guard %s rejects the transition from "a" to "%s" in machine "m"', by, "to") $$;

-- Signatures.
select lives_ok(format('update t set state = %L where id = %s', s, n), format('a guard f(%s) says yes', s))
    from (values ('exact', 1), ('poly', 2), ('anyrow', 3)) c(s, n);
update t set n = 0 where id in (4, 5, 6);
select throws_ok(format('update t set state = %L where id = %s', s, n), 'PW003', rejected('public.' || s, s),
    format('a guard f(%s) says no', s))
  from (values ('exact', 4), ('poly', 5), ('anyrow', 6)) c(s, n);
select lives_ok($$update t set state = 'exact', n = 7 where id = 4$$, 'a guard sees the row as it will be');
select lives_ok($$update t set state = 'changed', n = 8 where id = 5$$, 'and as it was');
select throws_ok($$update t set state = 'changed' where id = 7$$, 'PW003', rejected('public.changed', 'changed'),
    'which is the same when nothing but the state changes');
select lives_ok($$update t set state = 'seen' where id = 8$$, 'both states are those of the state change');
select lives_ok($$update t set state = 'far' where id = 9$$, 'a guard in a schema that is not in the search_path now');

-- Answers.
select throws_ok($$update t set state = 'nothing' where id = 10$$, 'PW003', rejected('public.null_is_no', 'nothing'),
    'null is no');
select throws_ok($$update t set state = 'failed' where id = 10$$, 'P0042', 'guard fails',
    'an error of a guard is the statement''s');
select throws_ok($$select pawl.fire('t', 10, 'fail')$$, 'P0042', 'guard fails', 'through fire too');
update t set flag = false where id = 11;
select throws_ok($$update t set state = 'both' where id = 11$$, 'PW003', rejected('public.flagged', 'both'),
    'of two guards the one that says no is named');
select throws_ok($$update t set state = 'both', n = 0 where id = 11$$, 'PW003', rejected('public.exact', 'both'),
    'of two that say no the first');
select lives_ok($$update t set state = 'both' where id = 12$$, 'two that say yes');

-- One event, several transitions: the first whose guards allow it.
select is(pawl.fire('t', 13, 'sort'), 'small', '5 is small');
update t set n = 50 where id = 14; update t set n = 500 where id = 15;
select is(pawl.fire('t', 14, 'sort'), 'medium', '50 is medium');
select is(pawl.fire('t', 15, 'sort'), 'large', '500 is large, though it is medium too');
select throws_ok($$update t set state = 'large' where id = 16$$, 'PW003', rejected('public.big', 'large'),
    'an UPDATE names its own way');
select lives_ok($$update t set state = 'medium', n = 500 where id = 17$$,
    'and takes it though another would have come first');

-- Several transitions between the same states.
update t set state = 'same' where id = 18;
update t set state = 'same', flag = false, n = 200 where id = 19;
select results_eq($$select subject_id, event from t_transitions where to_state = 'same' order by 1$$,
    $$values (18, 'by_flag'), (19, 'by_size')$$, 'the first transition whose guards say yes gives the event');
select throws_ok($$update t set state = 'same', flag = false where id = 20$$, 'PW003',
    rejected('public.flagged', 'same'), 'when none does, the first rejection is reported');
select is(pawl.fire('t', 20, 'touch'), 'a', 'a guard on a transition to the same state says yes');
update t set flag = false where id = 20;
select throws_ok($$select pawl.fire('t', 20, 'touch')$$, 'PW003', rejected('public.flagged', 'a'),
    'a guard on a transition to the same state is asked by fire');
select lives_ok($$update t set n = 1 where id = 20$$, 'and is not called when no state change was meant');

-- First states.
select lives_ok($$insert into t values (101, 'guarded', 1)$$, 'a guard of a first state gets no old row');
select throws_ok($$insert into t values (102, 'guarded', null)$$, 'PW003',
    'guard public.no_old rejects the transition from null to "guarded" in machine "m"', 'and may say no');
select throws_ok($$insert into t values (103, 'strict', 1)$$, 'PW003',
    'guard public.strict_guard rejects the transition from null to "strict" in machine "m"',
    'a strict guard is not called without an old row: that is no');

-- Other tables.
select throws_ok($$update t set state = 'told' where id = 21$$, 'PW003', rejected('public.reads', 'told'),
    'a guard may read other tables');
insert into other values ('yes');
select lives_ok($$update t set state = 'told' where id = 21$$, 'and finds what was written');
update t set state = 'wrote' where id = 22;
select is((select count(*) from other where what = 'asked'), 1::bigint,
    'a guard that writes is asked once by an UPDATE');
select lives_ok($$update t set state = 'alone' where id = 23$$, 'a guard may look at the other rows of its table');
select throws_ok($$update t set state = 'alone' where id in (24)$$, 'PW003', rejected('public.alone', 'alone'),
    'and finds the one that was moved before');
delete from t where id = 23;
select throws_ok($$update t set state = 'alone' where id in (25, 26)$$, 'PW003', null,
    'also when both move in one statement');

-- Rights: the caller's, unless the guard is SECURITY DEFINER.
create role pawl_test_guard_user;
create table secret (x int);
create function is_user(o t, n t) returns bool language sql as $$ select current_user = 'pawl_test_guard_user' $$;
create function peek(o t, n t) returns bool language sql as $$ select not exists (select from secret) $$;
create function trusted(o t, n t) returns bool language sql security definer
    set search_path = public as $$ select not exists (select from secret) and current_user = 'postgres' $$;
create function forbidden(o t, n t) returns bool language sql as $$ select true $$;
revoke execute on function forbidden(t, t) from public;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : check_user [is_user]
    a --> c : peek [peek]
    a --> d : trusted [trusted]
    a --> e : forbidden [forbidden]
    a --> f : effect / forbidden$$) \g /dev/null
create table u (like t including all);
select throws_like($$select pawl.enforce('u', 'state', 'm')$$,
    'machine "m" has guards or effects that cannot be called for table %u', 'guards are for the row type they name');
drop table u;
delete from t;
select pawl.upgrade('t') \g /dev/null
insert into t select g, 'a', 5 from generate_series(201, 220) g;
grant select, update on t to pawl_test_guard_user;
set role pawl_test_guard_user;
select lives_ok($$update t set state = 'b' where id = 201$$, 'current_user in a guard is the caller');
select throws_ok($$update t set state = 'c' where id = 202$$, '42501', null,
    'a role that may not read a table may not by a guard');
select throws_ok($$select * from pawl.fire_many('t', array[202], 'peek')$$, '42501', null, 'nor by fire_many');
select lives_ok($$update t set state = 'd' where id = 203$$, 'a SECURITY DEFINER guard has its owner''s rights');
select throws_ok($$update t set state = 'e' where id = 204$$, '42501',
    'permission denied for function public.forbidden', 'no EXECUTE, no guard');
select throws_ok($$update t set state = 'f' where id = 204$$, '42501',
    'permission denied for function public.forbidden', 'no EXECUTE, no effect');
select throws_ok($$select * from pawl.available('t', 204)$$, '42501', null, 'available asks with the same rights');
reset role;
select is((select array_agg(distinct state) from t where id in (202, 204)), array['a'], 'nothing of it moved');

-- A guard may be replaced, dropped and made again while sessions have it cached.
create or replace function is_user(o t, n t) returns bool language sql as $$ select false $$;
select throws_ok($$update t set state = 'b' where id = 205$$, 'PW003', null, 'a replaced guard counts at once');
drop function is_user(t, t);
select throws_ok($$update t set state = 'b' where id = 205$$, '42883', null,
    'a dropped guard rejects all state changes of the table');
select throws_ok($$update t set state = 'd' where id = 205$$, '42883', 'function public.is_user(t, t) does not exist',
    'and is named');
create function is_user(o t, n t) returns bool language sql as $$ select true $$;
select lives_ok($$update t set state = 'b' where id = 205$$, 'until it is made again');

-- Partitions and inheritance children that have other columns in another order.
create table p (id int not null, state text not null, amount int, primary key (id, state)) partition by list (state);
create table p_a (amount int, x int, state text not null, id int not null);
alter table p_a drop column x;
alter table p attach partition p_a for values in ('a');
create table p_b partition of p default;
create function rich(o p, n p) returns bool
    language sql as $$ select n.amount >= 10 and o.amount >= 10 and o.id = n.id $$;
select pawl.define('p', $$stateDiagram-v2
    [*] --> a
    a --> b : go [rich]
    b --> c : on [rich]
    b --> a : back [rich]$$) \g /dev/null
select pawl.enforce('p', 'state', 'p'), pawl.enable_log('p', 'state') \g /dev/null
insert into p values (1, 'a', 10), (2, 'a', 9);
select lives_ok($$update p set state = 'b' where id = 1$$,
    'a guard sees the row in the order of the root, from one partition to another');
select throws_ok($$update p set state = 'b' where id = 2$$, 'PW003', null, 'says no to the other');
select throws_ok($$update p_a set state = 'b' where id = 2$$, '23514', null,
    'a row cannot leave a partition by an UPDATE of the partition');
select lives_ok($$update p set state = 'c' where id = 1$$, 'within a partition');
select results_eq($$select event, allowed, blocked_by from pawl.available('p', 2)$$,
    $$values ('go', false, array['public.rich'])$$, 'available sees it so too');
create table i (id int primary key, state text not null, amount int);
create table i_child (extra text) inherits (i);
create table i_late (amount int, state text not null, id int primary key, more int);
alter table i_late inherit i;
create function rich_i(o i, n i) returns bool language sql as $$ select n.amount >= 10 $$;
select pawl.define('i', $$stateDiagram-v2
    [*] --> a
    a --> b : go [rich_i]$$) \g /dev/null
select pawl.enforce('i', 'state', 'i') \g /dev/null
insert into i values (1, 'a', 10); insert into i_child values (2, 'a', 10, 'x');
insert into i_late values (10, 'a', 3, 1), (9, 'a', 4, 1);
select lives_ok($$update i set state = 'b' where id in (1, 2, 3)$$, 'inheritance children too');
select throws_ok($$update i_late set state = 'b' where id = 4$$, 'PW003',
    'guard public.rich_i rejects the transition from "a" to "b" in machine "i"', 'straight at a child');

-- pawl.available.
delete from t;
create or replace function is_user(o t, n t) returns bool language sql as $$ select n.n > 10 $$;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    state Open {
        [*] --> a
        a --> b : free
        a --> b : pay(amount, currency) [is_user, flagged, exact] / tell
        a --> c : [is_user] after 3 days
        a --> a : touch [legacy]
        a --> d
        b
    }
    Open --> e : leave
    state fork_in_the_road <<choice>>
    a --> fork_in_the_road : choose
    fork_in_the_road --> d : [flagged]
    fork_in_the_road --> e : [is_user]
    d --> [*]$$, unbound => 'note') \g /dev/null
select pawl.upgrade('t') \g /dev/null
insert into t select g, 'a', 5, false from generate_series(301, 302) g;
select results_eq($$select * from pawl.available('t', 301)$$, $$values
    ('free', 'b', true, '{}'::text[], '{}'::text[], '{}'::text[], '{}'::text[]),
    ('pay', 'b', false, '{public.is_user,public.flagged}', '{amount,currency}',
        '{public.is_user,public.flagged,public.exact}', '{/ tell}'),
    (null, 'c', false, '{public.is_user}', '{}', '{public.is_user}', '{}'),
    ('touch', 'a', true, '{}', '{}', '{}', '{[legacy]}'),
    (null, 'd', true, '{}', '{}', '{}', '{}'),
    ('leave', 'e', true, '{}', '{}', '{}', '{}'),
    ('choose', 'd', false, '{public.flagged}', '{}', '{public.flagged}', '{}'),
    ('choose', 'e', false, '{public.is_user}', '{}', '{public.is_user}', '{}')$$,
    'every transition in the order of the diagram, with all guards that say no, parameters and notes');
update t set n = 20 where id = 301;
select results_eq($$select event, to_state, blocked_by from pawl.available('t', 301) where not allowed$$,
                  $$values ('pay', 'b', '{public.flagged}'::text[]), ('choose', 'd', '{public.flagged}')$$,
                  'as the row is now');
select is(pawl.fire('t', 301, 'choose'), 'e', 'a choice goes where its guard says yes');
select throws_ok($$select pawl.fire('t', 302, 'choose')$$, 'PW003',
    'guard public.flagged rejects the transition from "a" to "d" in machine "m"', 'and nowhere when none does');
select is_empty($$select * from pawl.available('t', 301)$$, 'nothing leaves a state without transitions');
select throws_ok($$select * from pawl.available('t', 999)$$, 'P0002', 'public.t has no row with key 999',
    'no such row');
update t set state = 'b' where id = 302;
select is(pawl.fire('t', 302, 'leave'), 'e', 'a transition from a composite leaves every state in it');
select throws_ok($$insert into t values (303, 'Open', 5)$$, 'PW002', '"Open" is not an initial state of machine "m"',
    'a composite is no state of a row');
select throws_ok($$insert into t values (303, 'fork_in_the_road', 5)$$, 'PW002',
    '"fork_in_the_road" is not an initial state of machine "m"', 'nor is a choice');

-- Composites: an inner transition wins over an outer one for the same event; a transition
-- to a composite enters its first child.
create table k (id int primary key, state text not null);
select pawl.define('k', $$stateDiagram-v2
    [*] --> Work
    state Work {
        [*] --> idle
        idle --> busy : start
        state busy {
            [*] --> one
            one --> two : next
            two --> done : stop
        }
    }
    Work --> stopped : stop
    stopped --> Work : start
    done --> [*]$$) \g /dev/null
select pawl.enforce('k', 'state', 'k'), pawl.enable_log('k', 'state') \g /dev/null
insert into k values (1, 'idle'), (2, 'idle');
select is(pawl.fire('k', 1, 'start'), 'one', 'a transition to a composite enters its first child');
select is(pawl.fire('k', 1, 'next'), 'two', 'an inner transition');
select is(pawl.fire('k', 1, 'stop'), 'done', 'the inner transition wins');
select is(pawl.fire('k', 1, 'stop'), 'stopped',
    'done is a state inside, so the transition from the composite leaves it');
select is(pawl.fire('k', 2, 'stop'), 'stopped', 'from the composite');
select is(pawl.fire('k', 2, 'start'), 'idle', 'and back to its first child');
select throws_ok($$insert into k values (3, 'one')$$, 'PW002', null,
    'only the first child of the first composite begins');
select throws_ok($$update k set state = 'two' where id = 2$$, 'PW001', null,
    'composites add no transitions between their states');

-- What has two arguments of the row type and yet no answer for one row.
create table w (id int primary key, state text not null);
create function many(o w, n w) returns setof bool language sql as $$ select true $$;
create function into_state(s bool, o w, n w) returns bool language sql as $$ select true $$;
create aggregate total(w, w) (sfunc = into_state, stype = bool);
create procedure proceed(o w, n w) language plpgsql as $$ begin commit; end $$;
create function returns_text(o w, n w) returns text language sql as $$ select 'true' $$;
create function with_out(o w, n w, out answer bool) language sql as $$ select true $$;
select lives_ok(format('select pawl.define(%L, %L, unbound => ''note'')', label,
    E'stateDiagram-v2\n[*] --> a\na --> b : ' || label), 'defined: ' || label) from unnest(array['e [many]',
    'e [total]', 'e / many', 'e / total', 'e [returns_text]', 'e / returns_text', 'e [with_out]']) label;
select throws_ok(format('select pawl.enforce(''w'', ''state'', %L)', label), 'PW007', null, 'but not attached: '
    || label) from unnest(array['e [many]', 'e [total]', 'e / many', 'e / total', 'e [returns_text]']) label;
select is((select count(*) from pg_trigger where tgrelid = 'w'::regclass), 0::bigint, 'nothing is half attached');
insert into w values (1, 'a'), (2, 'a');
select lives_ok($$select pawl.enforce('w', 'state', 'e / returns_text')$$, 'an effect may return what it likes');
select lives_ok($$update w set state = 'b' where id = 1$$, 'it is forgotten');
select pawl.release('w') \g /dev/null
update w set state = 'a';
select lives_ok($$select pawl.enforce('w', 'state', 'e [with_out]')$$, 'an OUT parameter is an answer');
select lives_ok($$update w set state = 'b' where id = 2$$, 'a guard on a wide row returns true');
select * from finish();
