-- Errors as drivers read them: SQLSTATE, the fields SCHEMA, TABLE, COLUMN and CONSTRAINT, and no CONTEXT of pawl's own
-- functions; and errors => 'check_violation', by which an ORM takes a rejected state change for an integrity error.
\set QUIET 1
set client_min_messages to error;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
create extension if not exists pawl_test;
select no_plan();

create type said as (code text, at text, detail text, context text);
-- What a statement says: at is schema.table.column and constraint.
create function says(statement text) returns said language plpgsql as $$
declare s said; a text; b text; c text; d text;
begin
    execute statement;
    return row('00000', '', '', '')::said;
exception when others then
    get stacked diagnostics s.code = returned_sqlstate, a = schema_name, b = table_name, c = column_name,
        d = constraint_name, s.detail = pg_exception_detail, s.context = pg_exception_context;
    s.at := concat_ws('.', nullif(a, ''), nullif(b, ''), nullif(c, '')) || coalesce(' ' || nullif(d, ''), '');
    -- less the frames of this function
    s.context := regexp_replace(s.context, '(^|\n)(SQL statement "[^\n]*\n)?PL/pgSQL function says.*', '');
    return s;
end $$;

select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay [affordable]
    new --> held : hold
    held --> new : free
    paid --> [*]
    classDef owned color:red
    class held owned$$, unbound => 'note') \g /dev/null
create schema shop;
create table shop.orders (id int primary key, state text not null, amount int not null default 0, owner text,
    lease timestamptz, token bigint) partition by range (id);
create table shop.orders_1 partition of shop.orders for values from (0) to (100);
create function shop.affordable(o shop.orders, n shop.orders) returns boolean language sql as 'select n.amount < 10';
set search_path = shop, public;
select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay [affordable]
    new --> held : hold
    held --> new : free
    paid --> [*]
    classDef owned color:red
    class held owned$$) \g /dev/null
select pawl.enforce('orders', 'state', 'order', on_delete => 'deny'),
    pawl.enable_log('orders', 'state'),
    pawl.enable_queue('orders', 'state', owner => 'owner', lease => 'lease', token => 'token') \g /dev/null
reset search_path;
insert into shop.orders (id, state, amount) values (1, 'new', 5), (2, 'new', 50), (3, 'new', 5);
select pawl.set_context(processor => 'me') \g /dev/null
update shop.orders set state = 'held', owner = 'me' where id = 3;

create view shop.seen as select id, state from shop.orders;
-- Every kind of rejection: what is said as pawl's own code, and what with check_violation.
create table rejections (code text, statement text);
insert into rejections values
    ('PW001', $$update shop.orders set state = 'nonsense' where id = 1$$),
    ('PW001', $$update shop.orders_1 set state = 'nonsense' where id = 1$$),
    ('PW001', $$select pawl.fire('shop.orders', 1, 'free')$$),
    ('PW001', $$select pawl.fire('shop.orders', 1, events => '{free,pay}')$$),
    ('PW001', $$delete from shop.orders where id = 1$$),
    ('PW001', $$insert into shop.orders_transitions (subject_id, event) values (1, 'free')$$),
    ('PW001', $$insert into shop.orders (id, state) values (1, 'new') on conflict (id) do update set state = 'bad'$$),
    ('PW001', $$with w as (update shop.orders set state = 'bad' where id = 1 returning 1) select * from w$$),
    ('PW001', $$update shop.seen set state = 'bad' where id = 1$$),
    ('PW001', $$merge into shop.orders o using (values (1)) v(id) on o.id = v.id
        when matched then update set state = 'bad'$$),
    ('PW001', $$do 'begin update shop.orders set state = ''bad'' where id = 1; end'$$),
    ('PW002', $$insert into shop.orders (id, state) values (9, 'paid')$$),
    ('PW002', $$insert into shop.orders_1 (id, state) values (9, 'paid')$$),
    ('PW002', $$insert into shop.seen (id, state) values (9, 'paid')$$),
    ('PW002', $$copy shop.orders (id, state) from program 'echo 9,paid' (format csv)$$),
    ('PW002', $$merge into shop.orders o using (values (9)) v(id) on o.id = v.id
        when not matched then insert (id, state) values (9, 'paid')$$),
    ('PW003', $$update shop.orders set state = 'paid' where id = 2$$),
    ('PW003', $$select pawl.fire('shop.orders', 2, 'pay')$$),
    ('PW003', $$select pawl.fire('shop.orders', 2, events => '{pay}')$$);
-- What keeps its code: owners, leases, tokens, keys, events that do not exist.
create table others (code text, statement text);
insert into others values
    ('PW004', $$select pawl.set_context(processor => 'other'), pawl.fire('shop.orders', 3, 'free')$$),
    ('PW004', $$update shop.orders set owner = 'other' where id = 1$$),
    ('PW005', $$select pawl.fire('shop.orders', 3, 'free', token => 77)$$),
    ('PW008', $$select pawl.fire('shop.orders', 1, 'nonsense')$$),
    ('0A000', $$update shop.orders set id = 44 where id = 1$$);

select results_eq($$select statement, (says(statement)).code, (says(statement)).at from rejections union all
        select statement, (says(statement)).code, (says(statement)).at from others$$,
    $$select statement, code, 'shop.orders.state order' from rejections union all
        select statement, code, 'shop.orders.state order' from others$$,
    'every rejection names schema, table, column and, as the constraint, the machine');
select is((says($$select pawl.fire('shop.orders', 77, 'pay')$$)).at, 'shop.orders', 'a row that is missing: the table');
select is((says($$update shop.orders_transitions_log set actor = 'x'$$)).at, 'shop.orders_transitions_log',
    'an immutable log names itself');
select is_empty($$select statement, (says(statement)).context from rejections
    where (says(statement)).context ~ 'pawl' and statement !~ 'insert into shop.orders_transitions'$$,
    'no rejection has a CONTEXT of pawl');

select lives_ok($$select pawl.enforce('shop.orders', 'state', 'order', errors => 'check_violation')$$,
    'a binding is told to raise check violations');
select results_eq($$select statement, (says(statement)).code, (says(statement)).at, left((says(statement)).detail, 7)
        from rejections$$,
    $$select statement, '23514', 'shop.orders.state orders_state_machine', code || ': ' from rejections$$,
    'what the machine does not allow is a check violation, and the DETAIL begins with the code');
select results_eq($$select statement, (says(statement)).code, (says(statement)).at from others$$,
    $$select statement, code, 'shop.orders.state order' from others$$, 'all other errors keep their codes');
select results_eq($$select key, ok, sqlstate from pawl.fire_many('shop.orders', array[1, 2], 'pay')$$,
    $$values ('1', true, null), ('2', false, 'PW003')$$, 'fire_many returns its own codes');
select throws_ok($$insert into shop.orders (id, state) values (9, 'paid')$$, '23514',
    '"paid" is not an initial state of machine "order"', 'the message is the same');
select is(pawl.definition('shop.orders')
    ~ $$select pawl.enforce\('shop.orders', 'state', 'order', on_delete => 'deny', errors => 'check_violation'\);$$,
    true, 'pawl.definition prints it');
select lives_ok($$select pawl.enforce('shop.orders', 'state', 'order', on_delete => 'allow')$$, 'the call without it');
select is((select errors from pawl.binding where relation = 'shop.orders'::regclass), 'check_violation',
    'what is omitted stays');
select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    new --> held : hold
    held --> new : free
    paid --> [*]
    classDef owned color:red
    class held owned$$) \g /dev/null
select pawl.upgrade('shop.orders') \g /dev/null
select is((says($$update shop.orders set state = 'bad' where id = 2$$)).code, '23514', 'an upgrade keeps it');
select lives_ok($$select pawl.enforce('shop.orders', 'state', 'order', errors => 'pawl')$$,
    'and told to raise pawl''s codes again');
select is((says($$update shop.orders set state = 'bad' where id = 2$$)).code, 'PW001',
    'the code is that of pawl again');
select is(pawl.definition('shop.orders') ~ 'errors', false, 'the default is not printed');
select throws_ok($$select pawl.enforce('shop.orders', 'state', 'order', errors => 'PW')$$, '22023',
    'unknown value "PW" for errors', 'an unknown value is rejected');
select throws_ok($$select pawl.enforce('shop.orders', 'state', 'order', errors => '')$$, '22023',
    'unknown value "" for errors', 'an empty value is rejected');
select throws_ok($$update pawl.binding set errors = 'x' where relation = 'shop.orders'::regclass$$, '23514', null,
    'the catalog holds only the two values');
select throws_ok($$select pawl.enforce('pawl_dag.steps', 'state', 'pawl_dag.step', errors => 'check_violation')$$,
    '55000',
    'the errors of table pawl_dag.steps cannot be changed', 'tables of a pack keep their codes');

-- A long name is shortened as PostgreSQL shortens those of constraints.
create table a_table_whose_name_is_as_long_as_a_name_of_PostgreSQL_may_be1 (id int primary key, state text);
select pawl.define('short', $$stateDiagram-v2
    [*] --> a
    a --> b$$) \g /dev/null
select pawl.enforce('a_table_whose_name_is_as_long_as_a_name_of_PostgreSQL_may_be1', 'state', 'short',
    errors => 'check_violation') \g /dev/null
select is((says($$insert into a_table_whose_name_is_as_long_as_a_name_of_PostgreSQL_may_be1 values (1, 'b')$$)).at,
    'public.a_table_whose_name_is_as_long_as_a_name_of_postgresql_may_be1.state '
    || 'a_table_whose_name_is_as_long_as_a_name_of_postgr_state_machine', 'a long name of the constraint');
drop table a_table_whose_name_is_as_long_as_a_name_of_PostgreSQL_may_be1;

-- A foreign key writes the state: the error names the table that it writes, not the one of the statement.
create table kinds (kind text primary key);
insert into kinds values ('a'), ('b');
create table by_kind (id int primary key, state text not null default 'a' references kinds on delete set default);
select pawl.enforce('by_kind', 'state', 'short', errors => 'check_violation') \g /dev/null
insert into by_kind values (1, 'a');
update by_kind set state = 'b';
select results_eq($$select s.code, s.at from says('delete from kinds where kind = ''b''') s$$,
    $$values ('23514', 'public.by_kind.state by_kind_state_machine')$$, 'a foreign key');

-- Two machines on a table: each is its own constraint.
create table two (id int primary key, a text, b text);
select pawl.enforce('two', 'a', 'short'), pawl.enforce('two', 'b', 'short', errors => 'check_violation') \g /dev/null
select is((says($$insert into two values (1, 'b', 'a')$$)).at, 'public.two.a short', 'the first column');
select is((says($$insert into two values (1, 'a', 'b')$$)).at, 'public.two.b two_b_machine', 'the second column');

-- CONTEXT: lines of the user's functions stay, those of pawl do not appear.
create function mine(statement text) returns void language plpgsql as $$ begin execute statement; end $$;
select is((says($$select mine('select pawl.history(''shop.orders'', null)')$$)).context,
    E'SQL statement "select pawl.history(''shop.orders'', null)"\nPL/pgSQL function mine(text) line 1 at EXECUTE',
    'the user''s function is named, pawl.history is not');
select is((says($$select mine('select pawl.enforce(''two'', ''c'', ''short'')')$$)).context,
    E'SQL statement "select pawl.enforce(''two'', ''c'', ''short'')"\nPL/pgSQL function mine(text) line 1 at EXECUTE',
    'an error several functions deep');
create function guarded(o two, n two) returns boolean language plpgsql as $$ begin return 1 / (n.id - n.id) = 1; end $$;
select pawl.define('guarded', $$stateDiagram-v2
    [*] --> a
    a --> b : go [guarded]$$) \g /dev/null
create table three (id int primary key, a text);
create function guarded(o three, n three) returns boolean language plpgsql as
    $$ begin return 1 / (n.id - n.id) = 1; end $$;
select pawl.enforce('three', 'a', 'guarded') \g /dev/null
insert into three values (1, 'a');
select ok((says($$update three set a = 'b'$$)).context ~ 'PL/pgSQL function guarded\(three,three\) line 1',
    'the context of a guard stays');

-- Every function of pawl and its packs, with nulls and with strange values: no error shows a line of their own.
create view own_functions as
    select p.oid, p.oid::regprocedure as signature, n.nspname, p.proname,
           (select string_agg('null::' || case t.type when '"any"'::regtype then 'int'
                when 'anycompatible'::regtype then 'int' when 'anyelement'::regtype then 'shop.orders'
                else format_type(t.type, null) end, ', ' order by t.n)
              from unnest(p.proargtypes::oid[]) with ordinality t(type, n)) as nulls,
           (select string_agg(case t.type when '"any"'::regtype then '''77'''
               when 'anycompatible'::regtype then '''77'''
                when 'anyelement'::regtype then 'null::shop.orders' when 'regclass'::regtype then '''shop.orders'''
                when 'text'::regtype then '''x''' when 'name'::regtype then '''x''' when 'uuid'::regtype then
                '''6ecd8c99-4036-403d-bf84-cf8400f67836''' else 'null::' || format_type(t.type, null) end, ', '
                order by t.n)
              from unnest(p.proargtypes::oid[]) with ordinality t(type, n)) as strange
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname in ('pawl', 'pawl_dag', 'pawl_bulk', 'pawl_saga', 'pawl_api', 'pawl_test')
       and p.proname !~ '^(_|wait_)' and p.prokind = 'f'
       and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype) and p.provariadic = 0;
create temp table spoken as
    select f.signature, (says(c.statement)).*
      from own_functions f
      cross join lateral (select format('select %I.%I(%s)', f.nspname, f.proname, a.arguments) as statement
                            from (values (f.nulls), (f.strange)) a(arguments)
                           -- assertions that fail count among the tests of this file
                           where f.nspname <> 'pawl_test' or a.arguments = f.nulls) c;
select cmp_ok((select count(*) from spoken where code <> '00000'), '>', 150::bigint, 'most of them raise something');
select is_empty($$select signature, code, context from spoken where context <> '' and code !~ '^XX'
    -- the frame of a function in SQL does not say whose it is
    and context !~ '^SQL function "[a-z_]+" statement 1$'
    -- a null of a row type is no row that a guard is called with
    and signature::text !~ 'operations,pawl_bulk.operations'$$,
    'no error of any public function has a CONTEXT of pawl');

-- pawl.raise itself.
select results_eq($$select (says('select pawl.raise(''PW003'', ''no'', ''Because.'')')).*$$,
    $$values ('PW003'::text, ''::text, 'Because.'::text, ''::text)$$, 'raise takes a code of pawl');
select throws_ok($$select pawl.raise(null, 'm')$$, '22004', 'code must not be null', 'raise without a code');
select throws_ok($$select pawl.raise('22023', null)$$, '22004', 'message must not be null', 'raise without a message');
select throws_ok(format('select pawl.raise(%L, ''m'')', c), '22023', 'code must be the SQLSTATE of an error',
    format('raise with code "%s"', c))
    from unnest('{00000,01000,02000,pw001,PW01,PW0001,"",unique_violation}'::text[]) c;
select throws_ok($$select pawl.raise('22023', repeat('é', 3000))$$, '22023', repeat('é', 3000),
    'a long message is not cut');
select * from finish();
