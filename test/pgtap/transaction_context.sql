-- With pawl.transaction_context only what this very transaction has set counts as context: never what another client of
-- a pooled session has left.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back
    a --> b : return
    b --> a : return
    a --> c : take
    c --> a : give
    classDef owned color:red
    class c owned$$) \g /dev/null
set client_min_messages to error;
create table t (id int primary key, state text not null, owner text, lease timestamptz, token bigint,
    attempts int not null default 0);
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state'),
    pawl.enable_queue('t', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.set_claiming('t', 'state', claim => '{take}', on_expiry => 'give') \g /dev/null
set client_min_messages to warning;
insert into t (id, state) values (1, 'a'), (2, 'a');
create function flip() returns text language sql as $$
    update t set state = case state when 'a' then 'b' else 'a' end where id = 1;
    select concat_ws(' ', coalesce(processor, '-'), case event when 'return' then event else '-' end,
        coalesce(correlation_id, '-'),
                     coalesce(metadata::text, '-'))
      from t_transitions where subject_id = 1 and most_recent $$;


-- What a client has left in the session.
set pawl.processor = 'left';
set pawl.event = 'return';
set pawl.correlation_id = 'left';
set pawl.metadata = '{"left": true}';
set pawl.traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
select is(flip(),
    'left return left {"left": true, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}',
    'settings of the session count');
select is(flip(),
    'left return left {"left": true, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}',
    'and so does the event');
set pawl.transaction_context = on;
select is(flip(), '- - - -', 'with transaction_context they do not');
select is(flip(), '- - - -', 'nor does the event that was left');
begin;
select is(flip(), '- - - -', 'nor inside a transaction block');
set local pawl.processor = 'mine';
select is(flip(), 'mine - - -', 'SET LOCAL of this transaction counts');
savepoint s;
set local pawl.processor = 'inner';
set local pawl.correlation_id = 'inner';
select is(flip(), 'inner - inner -', 'and that of a subtransaction');
rollback to s;
select is(flip(), 'mine - - -', 'a rollback to a savepoint returns to the value of this transaction, and to none');
commit;
select is(flip(), '- - - -', 'it ends with the transaction');
begin;
set pawl.processor = 'session';
select is(flip(), 'session - - -', 'a SET of this transaction counts');
commit;
select is(flip(), '- - - -', 'until its end, although the session keeps the value');
select is(current_setting('pawl.processor'), 'session', 'which it shows');
begin;
select pawl.set_context(processor => 'said', correlation_id => 'c', metadata => '{"a": 1}') \g /dev/null
select is(flip(), 'said - c {"a": 1}', 'what set_context says counts');
rollback;
select is(flip(), '- - - -', 'a transaction that is rolled back leaves nothing');
create function signed() returns text language plpgsql set pawl.processor = 'of the function' as
    $$ begin return flip(); end $$;
select is(signed(), 'of the function - - -', 'the setting of a function counts while it runs');
select is(flip(), '- - - -', 'and not after it');
begin;
select is(signed(), 'of the function - - -', 'likewise in a block');
select is(flip(), '- - - -', 'where it ends with the function, too');
commit;

-- Where a transaction ends, its context does: in a procedure, and in a prepared transaction.
create procedure signs_once() language plpgsql as $$
begin
    perform set_config('pawl.processor', 'of the procedure', true), flip();
    commit;
    perform flip();
end $$;
call signs_once();
select results_eq($$select processor from t_transitions where subject_id = 1 order by sort_key desc limit 2$$,
    $$values (null), ('of the procedure')$$, 'a procedure that commits begins without');
create procedure signs_session() language plpgsql as $$
begin
    perform set_config('pawl.processor', 'kept', false), flip();
    commit;
    perform flip();
end $$;
call signs_session();
select results_eq($$select processor from t_transitions where subject_id = 1 order by sort_key desc limit 2$$,
    $$values (null), ('kept')$$, 'also when the session keeps the value');
begin;
select pawl.set_context(processor => 'prepared') \g /dev/null
select flip() \g /dev/null
prepare transaction 'pawl_test_context';
commit prepared 'pawl_test_context';
select is((select processor from t_transitions where subject_id = 1 and most_recent), 'prepared',
    'a transaction that is prepared has its context');
select is(flip(), '- - - -', 'and leaves nothing behind');
begin;
set local pawl.processor = 'reset';
reset pawl.processor;
select is(flip(), '- - - -', 'a RESET in the transaction');
rollback;

-- Owners, tokens, lists of events and delays.
update t set state = 'a' where state = 'b';
set pawl.processor = 'left';
set pawl.token = 1;
set pawl.events = '{take,give}';
select throws_ok($$update t set state = 'c' where id = 2$$, 'PW004', null, 'a processor that was left owns nothing');
select throws_ok($$select pawl.claim(null::t)$$, '22004', 'no processor given', 'nor does it claim');
select throws_ok($$select pawl.heartbeat('t')$$, '22004', 'no processor given', 'nor keep a lease');
begin;
set local pawl.processor = 'mine';
select is((select count(*) from pawl.claim(null::t, batch => 2)), 2::bigint, 'one of this transaction claims');
commit;
select is(pawl.fire('t', 2, 'give', processor => 'mine'), 'a', 'a token that was left is not compared');
begin;
set local pawl.token = 99;
select throws_ok($$select pawl.fire('t', 1, 'give', processor => 'mine')$$, 'PW005', null,
    'a token of this transaction does');
rollback;
select is(pawl.fire('t', 1, 'give', processor => 'mine'), 'a', 'an argument is context of its own');

-- No client turns it off.
create role pawl_test_pooled;
grant select, update on t to pawl_test_pooled;
set role pawl_test_pooled;
select throws_ok('set pawl.transaction_context = off', '42501', null, 'only a superuser can change it');
select throws_ok('set local pawl.transaction_context = off', '42501', null, 'nor for a transaction');
select throws_ok($$select set_config('pawl.transaction_context', 'off', false)$$, '42501', null, 'nor by a function');
reset role;
set pawl.transaction_context = off;
select is(flip(),
    'left return left {"left": true, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}',
    'off again, what is in the session counts') from (select set_config('pawl.events', '', false),
        set_config('pawl.token', '', false)) reset_first;
drop owned by pawl_test_pooled;
drop role pawl_test_pooled;
select * from finish();
