-- Calls as drivers make them: parameters without a type (node-pg, asyncpg, psycopg 3), as varchar (JDBC), and with a
-- type; each function that takes a key, in each notation, for each type of key.
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back$$) \g /dev/null
select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> ready : stop
    classDef owned color:red
    class running owned$$) \g /dev/null

create type colour as enum ('red', 'green');
create domain code as text check (value ~ '^[A-Z]+$');
create domain pin as int;

-- The types of key columns, with a value of each.
create table kinds (type text primary key, value text not null);
insert into kinds values ('int', '42'), ('bigint', '42'), ('text', 'x y'), ('varchar(9)', 'x'),
    ('char(4)', 'x'), ('uuid', '6ecd8c99-4036-403d-bf84-cf8400f67836'), ('colour', 'red'),
    ('code', 'ABC'), ('pin', '7'), ('numeric', '1.5'), ('date', '2024-02-29'),
    ('timestamptz', '2024-02-29 12:00:00+00');

-- What is said of a parameter: null is nothing, so that PostgreSQL finds the type.
create table declared (types text[], note text);
insert into declared values ('{}', 'no type'), ('{text}', 'text'), ('{varchar}', 'varchar');

-- The calls that take a key as their first parameter. Where several stand, they do the same.
create table calls (function text, call text, answer text);
insert into calls values
    ('fire', $$select pawl.fire('k', $1, 'go')$$, 'b'),
    ('fire', $$select pawl.fire('k'::regclass, $1, 'go'::text)$$, 'b'),
    ('fire', $$select pawl.fire('k', $1, 'go'::varchar)$$, 'b'),
    ('fire', $$select pawl.fire('k', $1, event => 'go')$$, 'b'),
    ('fire', $$select pawl.fire(relation => 'k', key => $1, event => 'go')$$, 'b'),
    ('fire', $$select pawl.fire('k', $1, 'go', null)$$, 'b'),
    ('fire', $$select pawl.fire('k', $1, 'go', '{"a": 1}', 'state', 'me')$$, 'b'),
    ('fire', $$select pawl.fire('k', $1, 'go', processor => 'me', token => null)$$, 'b'),
    ('fire', $$select pawl.fire('k', $1, events => '{go,back,go}')$$, 'b'),
    ('fire', $$select pawl.fire('k', $1, events => array['go', 'back', 'go'])$$, 'b'),
    ('fire', $$select pawl.fire('k', $1, events => array['go']::varchar[])$$, 'b'),
    ('fire', $$select pawl.fire('k', key => $1, events => '{go}', metadata => '{}')$$, 'b'),
    ('fire', $$select * from pawl.fire('k', $1, 'go')$$, 'b'),
    ('fire_many', $$select to_state from pawl.fire_many('k', array[$1], 'go')$$, 'b'),
    ('fire_many', $$select to_state from pawl.fire_many('k', keys => array[$1], events => '{go,back,go}')$$, 'b'),
    ('fire_many', $$select to_state from pawl.fire_many('k', array[$1], 'go', tokens => '{null}')$$, 'b'),
    ('available', $$select event from pawl.available('k', $1)$$, 'go'),
    ('available', $$select event from pawl.available('k', key => $1, state_column => 'state')$$, 'go'),
    ('history', $$select to_state from pawl.history('k', $1)$$, 'a'),
    ('history', $$select to_state from pawl.history('k', key => $1, state_column => 'state')$$, 'a'),
    ('state_at', $$select pawl.state_at('k', $1, 'infinity')$$, 'a'),
    ('state_at', $$select pawl.state_at('k', $1, at => 'infinity'::timestamptz)$$, 'a'),
    ('audit_of', $$select transition_id from pawl.audit_of('k', $1)$$, null),
    ('place', $$select pawl.place('k', $1, 'b', 'a fixture')$$, 'b'),
    ('place', $$select pawl.place('k', key => $1, state => 'b', reason => 'r'::varchar, owner => null)$$, 'b'),
    ('redact', $$select pawl.redact('k', $1, '{metadata}', 'asked for')$$, '0');

-- Each public function whose argument is a key is called above, or below: claim_keys takes many, and
-- left_for the id of a row that is in another database.
select is(array(select distinct p.proname::text from pg_proc p
                  join pg_namespace n on n.oid = p.pronamespace and n.nspname = 'pawl'
                 where p.proname !~ '^_' and p.proargnames && '{key,keys}'
                   and p.proargtypes[array_position(p.proargnames, coalesce(
                       (select a from unnest(p.proargnames[:p.pronargs]) a where a in ('key', 'keys')), '')) - 1]
                       in ('"any"'::regtype, 'anyelement'::regtype, 'anycompatible'::regtype, 'text'::regtype)
                 order by 1),
          array(select distinct function from calls union select unnest('{claim_keys,left_for}'::text[]) order by 1),
    'every function that takes a key is in this test');

-- What a call answers as a driver makes it: prepared with the declared types, and given the value as a text.
create function answers(call text, types text[], value text) returns text language plpgsql as $$
declare answer text;
begin
    execute format('prepare drivers_call%s as %s',
                   case when types <> '{}' then '(' || array_to_string(types, ', ') || ')' else '' end, call);
    begin
        execute format('execute drivers_call(%L)', value) into answer;
    exception when others then answer := sqlstate || ' ' || sqlerrm;
    end;
    deallocate drivers_call;
    return answer;
exception when others then
    return sqlstate || ' ' || sqlerrm;
end $$;

-- A table with this type of key, and one row; every call starts from the same state.
create function tries(type text, value text) returns table (call text, declared text, answer text, wanted text)
language plpgsql as $$
declare c record; d record;
begin
    execute format('create table k (id %s primary key, state text not null)', type);
    perform pawl.enforce('k', 'state', 'm'), pawl.enable_log('k', 'state'),
        pawl.audit('k', '{"b": true}', state_column => 'state'), pawl.set_placing('k');
    execute format('insert into k values (%L, ''a'')', value);
    for c in select * from calls loop
        for d in select * from declared union all select array[type], 'its own type' loop
            begin
                tries.call := c.call;
                tries.declared := d.note;
                tries.wanted := c.answer;
                tries.answer := answers(c.call, d.types, value);
                -- undone, as every call begins in state a
                raise exception using errcode = 'TRY00';
            exception when sqlstate 'TRY00' then
                return next;
            end;
        end loop;
    end loop;
    drop table k cascade;
    drop table k_transitions_log cascade;
    drop table k_result_audit cascade;
end $$;
create temp table tried as
    select k.type, k.value, t.* from kinds k cross join lateral tries(k.type, k.value) t;
select is_empty($$select type, call, declared, answer from tried where answer is distinct from wanted$$,
    'every call with a key of every type gives the same answer, whatever the driver says of its type');
select cmp_ok((select count(*) from tried), '>=', 12 * 24 * 4::bigint, 'and that was the whole matrix');

-- Literals, as an interpolating driver writes them (psycopg 2).
create table k (id int primary key, state text not null);
select pawl.enforce('k', 'state', 'm'), pawl.enable_log('k', 'state') \g /dev/null
insert into k values (42, 'a');
select is(pawl.fire('k', 42, 'go'), 'b', 'an integer literal');
select is(pawl.fire('k', '42', 'back'), 'a', 'a quoted literal');
select is(pawl.fire('k', 42::bigint, 'go', '{}'::jsonb), 'b', 'a literal with a cast');
select is(pawl.fire('k', (select max(id) from k), 'back'), 'a', 'a subquery as key');
select is(pawl.fire('k', k.id, 'go'), 'b', 'a column as key') from k;
select throws_ok($$select pawl.fire('k', null, 'back')$$, '22004', 'key must not be null', 'a null literal');
select throws_ok($$select pawl.fire('k', null::uuid, 'back')$$, '22004', 'key must not be null', 'a null with a type');
prepare nothing as select pawl.fire('k', $1, $2);
select throws_ok($$execute nothing(null, 'back')$$, '22004', 'key must not be null', 'a null parameter without a type');
select throws_ok($$execute nothing('nonsense', 'back')$$, '22P02', null, 'a parameter that is no integer');
select throws_ok($$execute nothing('43', 'back')$$, 'P0002', 'public.k has no row with key 43', 'no such row');
select lives_ok($$execute nothing('42', 'back')$$, 'key and event without a type');
prepare all_of_it as select pawl.fire($1, $2, $3, $4, $5, $6, $7);
select lives_ok($$execute all_of_it('k', '42', 'go', '{"by": "hand"}', 'state', 'me', null)$$,
    'every parameter without a type');
prepare events_of_it as select pawl.fire($1, key => $2, events => $3);
select lives_ok($$execute events_of_it('k', '42', '{back,go,back}')$$, 'a list of events without a type');
prepare history_of_it as select count(*) from pawl.history($1, $2, $3);
select lives_ok($$execute history_of_it('k', '42', null)$$, 'every parameter of history without a type');
prepare state_of_it as select pawl.state_at($1, $2, $3);
select lives_ok($$execute state_of_it('k', '42', 'now')$$, 'every parameter of state_at without a type');
select results_eq('select parameter_types::text[] from pg_prepared_statements where name = ''nothing''',
    $$values ('{text,text}'::text[])$$, 'PostgreSQL describes a key without a type as text');

-- Keys of other types than the column's: each value is read from its text.
select is(pawl.fire('k', 42::smallint, 'go'), 'b', 'a smaller integer');
select is(pawl.fire('k', 42::numeric, 'back'), 'a', 'a numeric key');
select is(pawl.fire('k', 42::oid, 'go'), 'b', 'an OID as key');
select is(pawl.fire('k', '42'::name, 'back'), 'a', 'a name as key');
select is(pawl.fire('k', '42'::pin, 'go'), 'b', 'a value of a domain');
select throws_ok($$select pawl.fire('k', 42.5, 'back')$$, '22P02', null, 'a numeric that is no integer');
select throws_ok($$select pawl.fire('k', '42 ', 'back'), pawl.fire('k', '4 2', 'back')$$, '22P02', null,
    'a text with a blank inside');
create type boxed as (n int);
create function boxed_text(boxed) returns text language sql as $$select 'stolen'$$;
create function boxed_int(boxed) returns int language sql as $$select 42$$;
create cast (boxed as text) with function boxed_text(boxed) as implicit;
create cast (boxed as int) with function boxed_int(boxed) as implicit;
select is(pawl.fire('k', row(42)::boxed, 'back'), 'a', 'a row of one column, whatever casts its type has');
create table of_colour (id colour primary key, state text not null default 'a');
select pawl.enforce('of_colour', 'state', 'm'), pawl.enable_log('of_colour') \g /dev/null
insert into of_colour values ('red');
select is(pawl.fire('of_colour', 'red'::colour, 'go'), 'b', 'a value of an enum');
select is(pawl.fire('of_colour', 'red'::varchar(3), 'back'), 'a', 'its label as varchar');
select throws_ok($$select pawl.fire('of_colour', 'blue', 'go')$$, '22P02', null, 'no label of it');

-- The table: its name in any notation and of any text type, found by the search_path unless a schema is given.
create schema "My Shop";
create table "My Shop"."Odd ""Table""" ("The Key" int primary key, "State" text not null default 'a');
create table "My Shop".k (id int primary key, state text not null default 'a');
select pawl.enforce('"My Shop"."Odd ""Table"""', 'State', 'm'), pawl.enable_log('"My Shop"."Odd ""Table"""'),
    pawl.enforce('"My Shop".k', 'state', 'm'), pawl.enable_log('"My Shop".k') \g /dev/null
insert into "My Shop"."Odd ""Table""" values (1);
insert into "My Shop".k values (42);
prepare named as select pawl.fire($1, $2, $3), (select count(*) from pawl.history($1, $2)),
    pawl.state_at($1, $2, 'infinity');
prepare named_text(text, text, text) as select pawl.fire($1, $2, $3);
prepare named_varchar(varchar, varchar, varchar) as select pawl.fire($1, $2, $3);
prepare named_class(regclass, int, text) as select pawl.fire($1, $2, $3);
select results_eq($$execute named('"My Shop"."Odd ""Table"""', '1', 'go')$$, $$values ('b', 1::bigint, 'a')$$,
    'a quoted name without a type');
select results_eq($$execute named_text('"My Shop"."Odd ""Table"""', '1', 'back')$$, $$values ('a')$$,
    'a quoted name as text');
select results_eq($$execute named_varchar('"My Shop"."Odd ""Table"""', '1', 'go')$$, $$values ('b')$$,
    'a quoted name as varchar');
select results_eq($$execute named_class('"My Shop"."Odd ""Table"""', 1, 'back')$$, $$values ('a')$$,
    'a quoted name as regclass');
select throws_ok($$execute named_text('My Shop.k', '1', 'go')$$, '42602', null, 'a name that should be quoted');
select throws_ok($$execute named_text('nowhere', '1', 'go')$$, '42P01', 'relation "nowhere" does not exist',
    'a table that is not there');
set search_path = "My Shop", public;
select results_eq($$execute named_text('k', '42', 'go')$$, $$values ('b')$$, 'the first of the search_path');
select is((select state from "My Shop".k), 'b', 'is the one of that schema');
set search_path = public, "My Shop";
select results_eq($$execute named_text('"My Shop".k', '42', 'back')$$, $$values ('a')$$, 'a schema that is given');
reset search_path;

-- Calls that are none.
select throws_ok(call, '42883', null, call) from unnest(array[$$select pawl.fire('k')$$,
    $$select pawl.fire()$$, $$select pawl.fire_many('k')$$, $$select pawl.available('k')$$,
    $$select pawl.history('k')$$, $$select pawl.state_at('k', 42)$$,
    $$select pawl.fire('k', 42, 'go', '{}', 'state', 'me', 1, '{go}', 'more')$$,
    $$select pawl.fire('k', 42, happening => 'go')$$]) call;
select throws_ok($$select pawl.fire('k', 42, event => 'go', events => '{go}')$$, '22023',
    'event and events cannot both be specified', 'an event and a list');
select throws_ok(call, '22004', null, call) from unnest(array[$$select pawl.fire(null, 42, 'go')$$,
    $$select pawl.fire('k', 42, null)$$, $$select pawl.fire('k', 42, events => null)$$, $$select pawl.fire('k', 42)$$,
    $$select pawl.fire_many('k', '{1}')$$,
    $$select pawl.fire_many('k', null::int[], 'go')$$, $$select pawl.fire_many('k', '{1}', null)$$,
    $$select pawl.available('k', null)$$, $$select pawl.history('k', null)$$,
    $$select pawl.state_at('k', null, now())$$, $$select pawl.state_at('k', 42, null)$$]) call;

-- Lists: an array, its text, and rows of a composite key.
insert into k values (1, 'a'), (2, 'a');
prepare many as select key, ok from pawl.fire_many('k', $1, 'go');
select results_eq($$execute many('{1,2}')$$, $$values ('1', true), ('2', true)$$, 'a list without a type');
prepare many_varchar(varchar) as select key, ok from pawl.fire_many('k', $1, 'back');
select results_eq($$execute many_varchar('{1,2}')$$, $$values ('1', true), ('2', true)$$, 'a list as varchar');
prepare many_ids(bigint[]) as select key, ok from pawl.fire_many('k', $1, 'go');
select results_eq($$execute many_ids('{1,2}')$$, $$values ('1', true), ('2', true)$$, 'a list of another integer type');
select throws_ok($$execute many('1')$$, '22P02', null, 'a list that is none');
select throws_ok($$select pawl.fire_many('k', 1, 'go')$$, '42804', null, 'one key is no list');

create table c (a int, b text, state text not null, primary key (a, b));
select pawl.enforce('c', 'state', 'm'), pawl.enable_log('c', 'state') \g /dev/null
insert into c values (1, 'x', 'a'), (1, 'with, comma', 'a'), (2, 'quote " and \', 'a'), (3, '', 'a');
prepare pair as select pawl.fire('c', $1, $2);
prepare pair_varchar(varchar) as select pawl.fire('c', $1, $2);
prepare parts as select pawl.fire('c', array[$1, $2], $3);
prepare pair_row(int, varchar) as select pawl.fire('c', row($1, $2), $3);
select lives_ok($$execute pair('{1,x}', 'go')$$, 'a composite key as the text of an array');
select lives_ok($$execute pair('(1,x)', 'back')$$, 'a composite key as the text of a row');
select lives_ok($$execute pair('(1,"with, comma")', 'go')$$, 'a row with a quoted part');
select lives_ok($$execute pair('(2,"quote "" and \\")', 'go')$$, 'a row with quotes and a backslash');
select throws_ok($$execute pair('(3,)', 'go')$$, '22004', 'key of table "c" must not be null',
    'an empty part of a row is null');
select lives_ok($$execute pair('(3,"")', 'go')$$, 'a quoted empty part is an empty text');
select lives_ok($$execute pair_varchar('{1,x}', 'go')$$, 'a composite key as varchar');
select lives_ok($$execute parts('1', 'x', 'back')$$, 'an array of parameters without a type');
select lives_ok($$execute pair_row(1, 'x', 'go')$$, 'a row of parameters');
select throws_ok($$execute pair('(1)', 'go')$$, '22P02', null, 'a row with too few parts');
select throws_ok($$execute pair('(1,x,y)', 'go')$$, '22P02', null, 'a row with too many parts');
select throws_ok($$execute pair('(1,x', 'go')$$, '22P02', null, 'a row without an end');
select throws_ok($$execute pair('(x,1)', 'go')$$, '22P02', null, 'the wrong way round');
select throws_ok($$execute pair('', 'go')$$, '22P02', null, 'an empty text');
prepare pairs as select key, ok from pawl.fire_many('c', $1, $2);
select results_eq($$execute pairs('{{1,x},{2,"quote \" and \\"}}', 'back')$$,
    $$values ('(1, x)', true), ('(2, quote " and \)', true)$$, 'a list of two dimensions');
select results_eq($$execute pairs('{"(1,x)","(1,\"with, comma\")"}', 'go')$$,
    $$values ('(1, x)', true), ('(1, with, comma)', false)$$, 'a list of rows as text');
select results_eq($$select key, ok from pawl.fire_many('c', array[['1', 'x']], 'back')$$, $$values ('(1, x)', true)$$,
    'an array of two dimensions');
select throws_ok($$execute pairs('{{1,x,y}}', 'go')$$, '22023', 'wrong number of key values for table "c"',
    'a list of two dimensions that is too wide');
select throws_ok($$execute pairs('{{1,null}}', 'go')$$, '22004', 'key of table "c" must not be null',
    'a null in a list of two dimensions');
select is_empty($$execute pairs('{}', 'go')$$, 'an empty list');

-- Claims by key.
create table jobs (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint);
select pawl.enforce('jobs', 'state', 'job'),
    pawl.enable_queue('jobs', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.set_claiming('jobs', 'state', claim => '{start}', on_expiry => 'stop') \g /dev/null
insert into jobs (id) select generate_series(1, 6);
prepare claims as select id from pawl.claim_keys(null::jobs, $1, processor => $2);
prepare claims_varchar(varchar, varchar) as select id from pawl.claim_keys(null::jobs, $1, processor => $2);
prepare claims_ids(smallint[]) as select id from pawl.claim_keys(null::jobs, $1, processor => 'me');
select results_eq($$execute claims('{1,2}', 'me')$$, $$values (1), (2)$$, 'keys to claim without a type');
select results_eq($$execute claims_varchar('{3}', 'me')$$, 'values (3)', 'keys to claim as varchar');
select results_eq($$execute claims_ids('{4}')$$, 'values (4)', 'keys to claim of another integer type');
select results_eq($$select id from pawl.claim_keys(null::jobs, array[5], processor => 'me')$$, 'values (5)',
    'keys to claim as an array literal');
select throws_ok($$execute claims(null, 'me')$$, '22004', 'keys must not be null', 'keys to claim that are null');
select * from finish();
