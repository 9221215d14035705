-- Keys of every type, in every form, through pawl.fire, pawl.available, pawl.history and pawl.state_at; and values that
-- are equal without being identical.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back$$) \g /dev/null

-- One table a type of key. Written: the key as it is inserted; asked: the same key as it is asked for.
create domain code as text check (value ~ '^[A-Z]+$');
create type colour as enum ('red', 'green');
create function try_key(type text, written text, asked text) returns text language plpgsql as $$
declare answers text;
begin
    execute format('create table k (id %s primary key, state text not null)', type);
    perform pawl.enforce('k', 'state', 'm'), pawl.enable_log('k', 'state', hash_chain => true);
    execute format('insert into k values (%s, ''a'')', written);
    execute format('select pawl.fire(''k'', %s, ''go'')', asked) into answers;
    execute format('select concat_ws('' '', %2$L, (select event from pawl.available(''k'', %1$s)), '
                   '(select count(*) from pawl.history(''k'', %1$s)), pawl.state_at(''k'', %1$s, ''infinity''))', asked,
            answers) into answers;
    if exists (select from pawl.verify('k')) then answers := answers || ' but verify complains'; end if;
    drop table k cascade;
    drop table k_transitions_log cascade;
    return answers;
end $$;
select is(try_key(type, written, asked), 'b back 2 b', format('a key of type %s, asked for as %s', type, asked))
    from (values
    ('bigint', '42', '42::bigint'), ('bigint', '42', '42'), ('bigint', '42', '''42'''),
        ('bigint', '42', '''42''::text'), ('bigint', '42', '42.0::numeric(3,0)'),
    ('int', '42', '42::bigint'), ('smallint', '42', '42'), ('int', '-1', '-1'), ('int', '42', 'row(42)'),
    ('bigint', '42', 'row(''42'')'),
    ('text', '''x''', '''x'''), ('text', '''x''', '''x''::text'), ('text', '''x''', '''x''::varchar'),
    ('text', '''''', ''''''), ('text', '''{a,b}''', '''{a,b}'''),
    ('text', '''O''''Neil "&\''', '''O''''Neil "&\'''), ('text', '''Zoë – 日本''', '''Zoë – 日本'''),
    ('text', 'repeat(''long '', 400)', 'repeat(''long '', 400)'),
    ('varchar(10)', '''x''', '''x'''), ('char(4)', '''x''', '''x'''), ('name', '''x''', '''x'''),
    ('"char"', '''x''', '''x'''),
    ('uuid', '''6ecd8c99-4036-403d-bf84-cf8400f67836''', '''6ecd8c99-4036-403d-bf84-cf8400f67836'''),
    ('uuid', '''6ecd8c99-4036-403d-bf84-cf8400f67836''', '''6ECD8C99-4036-403D-BF84-CF8400F67836''::uuid'),
    ('code', '''ABC''', '''ABC'''), ('code', '''ABC''', '''ABC''::code'), ('colour', '''red''', '''red'''),
    ('colour', '''red''', '''red''::colour'),
    ('numeric', '1.0', '1.00'), ('numeric', '1.0', '1'), ('numeric(8,3)', '1.0', '''1'''), ('float8', '0.1', '0.1'),
    ('float8', '1e300', '1e300::float8'),
    ('float8', '''-0''', '0'), ('boolean', 'true', '''yes'''), ('date', '''2024-02-29''', '''2024-02-29'''),
    ('date', '''2024-02-29''', '''29 Feb 2024''::date'),
    ('timestamptz', '''2024-02-29 12:00+00''', '''2024-02-29 14:00+02'''),
    ('timestamptz', '''2024-02-29 12:00:00.000001+00''', '''2024-02-29 14:00:00.000001+02''::timestamptz'),
    ('interval', '''1 day''', '''24 hours''::interval'), ('inet', '''10.0.0.1''', '''10.0.0.1/32'''),
    ('bytea', '''\x00ff''', '''\x00ff'''), ('oid', '42', '42'),
    ('jsonb', '''{"a": 1}''', '''{"a":1}'''), ('int[]', '''{1,2}''', '''{1,2}'''), ('int[]', '''{1,2}''', 'array[1,2]'),
    ('int4range', '''[1,3]''', '''[1,4)''')
    ) c(type, written, asked);

-- However the session prints times, floats and bytes.
set datestyle to 'SQL, DMY';
set timezone to 'Asia/Kolkata';
set extra_float_digits to 0;
set bytea_output to 'escape';
set intervalstyle to 'sql_standard';
select is(try_key(type, written, asked), 'b back 2 b', format('a key of type %s in a session of other habits', type))
    from (values
    ('timestamptz', '''2024-02-03 12:00:00.000001+00''', '''2024-02-03 12:00:00.000001+00''::timestamptz'),
        ('date', '''2024-02-03''::date', '''2024-02-03''::date'),
    ('float8', '0.1::float8 + 0.2', '0.1::float8 + 0.2'), ('bytea', '''\xff00''', '''\xff00''::bytea'),
    ('interval', '''1 mon -1 day 2 hours''::interval', '''1 mon -1 day 2 hours''::interval')) c(type, written, asked);
reset datestyle; reset timezone; reset extra_float_digits; reset bytea_output; reset intervalstyle;

-- citext: equal though not identical, its operators in a schema that no function of pawl looks into.
select count(*) > 0 as has_citext from pg_available_extensions where name = 'citext' \gset
\if :has_citext
create schema elsewhere;
create extension citext schema elsewhere;
select is(try_key('elsewhere.citext', '''Abc''', '''aBC'''), 'b back 2 b', 'a key of type citext in other case');
create table ci (id elsewhere.citext primary key, state text not null);
select pawl.enforce('ci', 'state', 'm'), pawl.enable_log('ci', 'state') \g /dev/null
insert into ci values ('Abc', 'a'), ('Def', 'a');
update ci set id = 'ABC', state = 'b' where id = 'Abc'::elsewhere.citext;
select is((select count(*) from pawl.history('ci', 'abc')), 2::bigint, 'the same key in other letters is the same key');
select throws_ok($$update ci set id = 'xyz' where id = 'Def'::elsewhere.citext$$, '0A000',
    'the key of a row with a log cannot change', 'another key is another');
select results_eq($$select key, ok from pawl.fire_many('ci', array['DEF', 'def'], 'go')$$,
    $$values ('DEF', true), ('def', true)$$, 'fire_many finds keys of type citext in any case');
select is_empty($$select * from pawl.verify('ci')$$, 'verify compares keys as the table does');
select pawl.release('ci') \g /dev/null
select lives_ok($$select pawl.enforce('ci', 'state', 'm'), pawl.enable_log('ci', 'state')$$,
    'so does enforce when it takes the log up again');
select is((select count(*) from ci_transitions), 4::bigint, 'and no row starts again');
\else
select skip('citext is not installed', 7);
\endif

-- Equal but not identical, within one statement.
create table nu (id numeric primary key, state text not null);
select pawl.enforce('nu', 'state', 'm'), pawl.enable_log('nu', 'state') \g /dev/null
insert into nu values (1.0, 'a');
select lives_ok('update nu set id = 1.00', '1.0 may be written 1.00');
with gone as (delete from nu returning id) insert into nu select 1.000, 'a' from gone;
select results_eq('select sort_key, to_state, event from nu_transitions order by 1',
    $$values (1, 'a', null), (2, null, 'pawl.delete'), (3, 'a', null)$$,
                  'deleted and inserted in one statement: one subject');
select is((select array_agg(sort_key) from nu_transitions where most_recent), array[3],
    'one of its rows is the most recent');
create table i (id int primary key, state text not null);
select pawl.enforce('i', 'state', 'm'), pawl.enable_log('i', 'state', hash_chain => true) \g /dev/null
insert into i select g, 'a' from generate_series(1, 1500) g;
with gone as (delete from i returning id) insert into i select id, 'a' from gone;
select is((select count(*) from i_transitions), 4500::bigint, 'so with plain integers, and many of them');
select is_empty($$select * from pawl.verify('i')$$, 'and the chains of hashes hold');
select is_empty($$select * from pawl.verify('nu')$$, 'verify finds no difference for keys of type numeric');

-- Composite keys.
create table c (b text, a int, note text, state text not null, primary key (a, b));
select pawl.enforce('c', 'state', 'm'), pawl.enable_log('c', 'state') \g /dev/null
insert into c (a, b, state) select 1, t, 'a' from unnest(array['x', 'y', 'z', 'u', 'v', 'with, comma', '{brace}']) t;
select is(pawl.fire('c', row(1, 'x'), 'go'), 'b', 'fire takes a key of two columns as a row');
select is(pawl.fire('c', row('1', 'y'::varchar), 'go'), 'b', 'a row of other types');
select is(pawl.fire('c', array['1', 'z'], 'go'), 'b', 'an array of texts');
select is(pawl.fire('c', '{1,u}', 'go'), 'b', 'fire takes a key of two columns as an array literal');
select is(pawl.fire('c', '{1,v}'::text, 'go'), 'b', 'fire takes a key of two columns as a text');
select is(pawl.fire('c', '{1,"with, comma"}', 'go'), 'b', 'a literal with a quoted part');
select is(pawl.fire('c', row(1, '{brace}'), 'go'), 'b', 'a part that looks like an array');
select is((select count(*) from pawl.history('c', row(1, 'x'))), 2::bigint, 'history by a row');
select is((select count(*) from pawl.history('c', array['1', 'x'])), 2::bigint, 'history by an array');
select is((select count(*) from pawl.history('c', '{1,x}')), 2::bigint, 'history by a literal');
select is(pawl.state_at('c', row(1, 'x'), 'infinity'), 'b', 'state_at by a row');
create type pair as (a int, b text);
select is(pawl.fire('c', row(1, 'x')::pair, 'back'), 'a', 'a value of a composite type');
select throws_ok($$select pawl.fire('c', 1, 'go')$$, '22023', 'wrong number of key values for table "c"',
    'a key with too few values is rejected');
select throws_ok($$select pawl.fire('c', row(1, 'x', 2), 'go')$$, '22023', 'wrong number of key values for table "c"',
    'a key with too many values is rejected');
select throws_ok($$select pawl.fire('c', array['1'], 'go')$$, '22023', 'wrong number of key values for table "c"',
    'a short array');
select throws_ok($$select pawl.fire('c', row(1, null), 'go')$$, '22004', 'key of table "c" must not be null',
    'a null in a row');
select throws_ok($$select pawl.fire('c', array['1', null], 'go')$$, '22004', 'key of table "c" must not be null',
    'a null in an array');
select throws_ok($$select pawl.fire('c', 'gibberish', 'go')$$, '22P02', null, 'a text that is no array');
select throws_ok($$select pawl.fire('c', row('x', 1), 'go')$$, '22P02', null, 'the wrong way round');
select throws_ok($$select pawl.fire('c', row(1, 'missing'), 'go')$$, 'P0002',
    'public.c has no row with key (1, missing)', 'no such row');

-- A key of the caller's choice, and one that is a row itself.
create table r (id int, code text unique not null, state text not null);
select pawl.enforce('r', 'state', 'm', key => '{code}'), pawl.enable_log('r', 'state') \g /dev/null
insert into r values (1, 'one', 'a');
select is(pawl.fire('r', 'one', 'go'), 'b', 'a key named in the call of enforce');
create table rr (id pair primary key, state text not null);
select pawl.enforce('rr', 'state', 'm'), pawl.enable_log('rr', 'state') \g /dev/null
insert into rr values (row(1, 'x'), 'a');
select is(pawl.fire('rr', row(1, 'x')::pair, 'go'), 'b', 'a key column of a composite type');
select is((select count(*) from pawl.history('rr', row(1, 'x')::pair)), 2::bigint, 'and its history');
select throws_ok($$select pawl.fire_many('rr', array[row(1, 'x')::pair], 'back')$$, '0A000',
    'rows of table "rr" cannot be found by a list of keys', 'which no list can have');
create table arrays (id int[] primary key, state text not null);
select pawl.enforce('arrays', 'state', 'm') \g /dev/null
insert into arrays values ('{1}', 'a');
select throws_ok($$select pawl.fire_many('arrays', '{"{1}"}', 'go')$$, '0A000',
    'rows of table "arrays" cannot be found by a list of keys', 'nor of arrays');
select is(pawl.fire('arrays', '{1}', 'go'), 'b', 'one row is found');

-- What does not fit.
create table t (id int primary key, state text not null);
select pawl.enforce('t', 'state', 'm') \g /dev/null
insert into t values (1, 'a');
select throws_ok($$select pawl.fire('t', 'x', 'go')$$, '22P02', null,
    'a text that is not a number is rejected as an integer key');
select throws_ok($$select pawl.fire('t', 3000000000, 'go')$$, '22003', null, 'too large a number');
select throws_ok($$select pawl.fire('t', 1.5, 'go')$$, '22P02', null, 'not an integer');
select throws_ok($$select pawl.fire('t', 2, 'go')$$, 'P0002', 'public.t has no row with key 2', 'no such row');
select throws_ok($$select pawl.fire('t', null, 'go')$$, '22004', 'key must not be null', 'a null key is rejected');
select throws_ok($$select pawl.fire('t', null::int, 'go')$$, '22004', 'key must not be null', 'a null integer');
select throws_ok($$select pawl.fire('t', array[1], 'go')$$, '22P02', null, 'an array for a single key');
select * from finish();
