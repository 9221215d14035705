-- pawl_test: what its assertions say of what holds, of what does not, and of bad input.
\set QUIET 1
set client_min_messages to error;
select no_plan();
create extension pawl_test;
\ir include/jobs.psql

create table orders (id int primary key, state text not null default 'new', money int not null default 1);
create function solvent(orders, orders) returns boolean language sql as 'select $2.money > 0';
select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay [solvent]
    new --> void : cancel
    paid --> sent : send
    sent --> paid : back
    void --> [*]$$) \g /dev/null
select pawl.enforce('orders', 'state', 'order'), pawl.enable_log('orders');
insert into orders values (1), (2), (3);
update orders set money = 0 where id = 3;

-- Assertions that hold.
select pawl_test.accepts('orders', 1, 'pay', 'paid');
select is((select state from orders where id = 1), 'new', 'what was tried is undone');
select is((select count(*) from pawl.history('orders', 1)), 1::bigint, 'also in the log');
select pawl_test.rejects('orders', 1, 'send');
select pawl_test.rejects('orders', 3, 'pay', 'PW003', 'a guard is in the way');
select pawl_test.rejects('orders', 77, 'pay', 'P0002', 'no such row');
select pawl_test.history_is('orders', 1, '{new}');
select pawl_test.has_transition('order', 'new', 'paid', 'pay');
select pawl_test.has_transition('order', null, 'new', description => 'the first state');
select pawl_test.hasnt_transition('order', 'new', 'paid', 'cancel');
select pawl_test.hasnt_transition('order', 'void', 'new');
select pawl_test.has_path('order', 'new', 'sent');
select pawl_test.has_path('order', null, 'sent');
select pawl_test.has_path('order', 'sent', 'sent', 'a circle');
select pawl_test.hasnt_path('order', 'void', 'void');
select pawl_test.hasnt_path('order', 'sent', 'new');

-- Their descriptions, and their diagnoses where they fail.
select check_test(pawl_test.accepts('orders', 1, 'pay', 'paid'), true, 'accepts: holds',
    'event "pay" leads row 1 of orders to "paid"', '');
select check_test(pawl_test.accepts('orders', 1, 'cancel', 'paid'), false, 'accepts: another state',
    'event "cancel" leads row 1 of orders to "paid"', E'have: the row has changed to "void"\nwant: paid');
select check_test(pawl_test._verdict(true, 'a note', 'no'), true, 'no diagnosis of what holds', 'a note', '');
select check_test(pawl_test.accepts('orders', 3, 'pay', 'paid', 'it pays'), false, 'accepts: a guard', 'it pays',
    E'have: ' || (pawl_test._fired('orders', 3, 'pay', null)).said || E'\nwant: paid');
select matches((pawl_test._fired('orders', 3, 'pay', null)).said, '^PW003: .*solvent', 'which names the guard');
select check_test(pawl_test.rejects('orders', 1, 'pay'), false, 'rejects: accepted',
    'event "pay" is rejected with PW001 for row 1 of orders', E'have: the row has changed to "paid"\nwant: PW001');
select check_test(pawl_test.rejects('orders', 77, 'pay', 'PW003', 'a guard'), false, 'rejects: another code', 'a guard',
    E'have: P0002: public.orders has no row with key 77\n'
    'DETAIL: The row does not exist, or row-level security hides it.\nwant: PW003');
select check_test(pawl_test.history_is('orders', 1, '{new,paid}'), false, 'history_is: too short',
    'row 1 of orders has passed through {new,paid}', E'have: {new}\nwant: {new,paid}\n1: new');
select check_test(pawl_test.history_is('orders', 77, '{new}', 'nothing'), false, 'history_is: no row', 'nothing',
    E'have: {}\nwant: {new}\nthe log has no entry of the row');
select check_test(pawl_test.has_transition('order', 'new', 'sent'), false, 'has_transition: none',
    'machine "order" has a transition new --> sent', 'new leads to: paid by pay, void by cancel');
select check_test(pawl_test.hasnt_transition('order', 'paid', 'sent', 'send'), false, 'hasnt_transition: one',
    'machine "order" has no transition paid --> sent : send', 'paid leads to: sent by send');
select check_test(pawl_test.has_path('order', 'void', 'new'), false, 'has_path: none',
    'machine "order" has a path from "void" to "new"', 'void leads to: nothing');
select check_test(pawl_test.hasnt_path('order', 'new', 'sent'), false, 'hasnt_path: one',
    'machine "order" has no path from "new" to "sent"', 'path: new --> paid : pay --> sent : send');
select check_test(pawl_test.covers('order'), false, 'covers: not yet',
    'every transition of machine "order" was taken',
    E'never taken:\nnew --> paid : pay\nnew --> void : cancel\npaid --> sent : send\nsent --> paid : back');
select pawl.fire('orders', 1, 'pay'), pawl.fire('orders', 1, 'send'), pawl.fire('orders', 1, 'back'),
    pawl.fire('orders', 2, 'cancel') \g /dev/null
delete from orders where id = 2;
select pawl_test.covers('order', 'orders');
select pawl_test.history_is('orders', 1, '{new,paid,sent,paid}', 'all of it');
select pawl_test.history_is('orders', 2, '{new,void,null}', 'and the deletion');

create function fails() returns trigger language plpgsql as 'begin assert false, ''never''; end';
create trigger fails before update on orders for each row when (old.id = 3) execute function fails();
select pawl_test.rejects('orders', 3, 'cancel', 'P0004', 'a failed ASSERT is an answer, too');

-- Bad input.
select is(outcome('select pawl_test.' || call), answer, call) from (values
    ('accepts(null, 1, ''pay'', ''paid'')', '22004 relation must not be null'),
    ('accepts(''orders'', null::int, ''pay'', ''paid'')', '22004 key must not be null'),
    ('accepts(''orders'', 1, null, ''paid'')', '22004 event must not be null'),
    ('accepts(''orders'', 1, ''send'', null)', '22004 to_state must not be null'),
    ('accepts(''nowhere'', 1, ''pay'', ''paid'')', '42P01 relation "nowhere" does not exist'),
    ('rejects(''orders'', 1, ''pay'', null)', '22004 code must not be null | code => ''PW001'''),
    ('rejects(''orders'', 1, ''pay'', ''oops'')', '22023 code must be an SQLSTATE | It is "oops". | '
        'code => ''PW001'''),
    ('history_is(''orders'', 1, null)', '22004 states must not be null | states => ''{new,paid}'''),
    ('history_is(null, 1, ''{new}'')', '22004 relation must not be null'),
    ('has_transition(''order'', ''new'', null)', '22004 to_state must not be null'),
    ('has_transition(null, ''new'', ''paid'')', '22004 machine must not be null'),
    ('has_transition(''order'', ''New'', ''paid'')', 'PW008 machine "order" has no state "New" | It has "new", "paid", '
        '"void", "sent". | SELECT state FROM pawl.states(''order'') WHERE kind = ''state'';'),
    ('hasnt_path(''order'', ''new'', ''gone'')', 'PW008 machine "order" has no state "gone" | It has "new", "paid", '
        '"void", "sent". | SELECT state FROM pawl.states(''order'') WHERE kind = ''state'';'),
    ('has_path(''no'', ''new'', ''paid'')', 'PW008 unknown machine "no" | defined: ''job'', ''order'''),
    ('has_path(''order'', ''new'', null)', '22004 to_state must not be null'),
    ('covers(null)', '22004 machine must not be null')) c(call, answer);

-- Without rights an assertion fails, and says why.
create role asserts_nothing login;
set role asserts_nothing;
select matches(pawl_test._fired('orders', 1, 'send', null)::text, '42501', 'the right to fire is not lent');
reset role;
drop role asserts_nothing;
select * from finish();
