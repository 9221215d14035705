-- What bad values are told: a SQLSTATE, what is wrong, the facts and what to do. odd_arguments.sql tries all functions.
\set QUIET 1
set client_min_messages to error;
select no_plan();

\ir shared/says.psql
create table jobs (id int primary key, state text not null default 'queued', owner text, result jsonb);
create table pairs (a int, b text, state text not null default 'queued', primary key (a, b));
create table free (id int primary key, state text not null default 'queued');
select pawl.define('job', $$stateDiagram-v2
    [*] --> queued
    queued --> running : start
    running --> done : finish
    done --> [*]
    class running owned$$), pawl.define('plain', $$stateDiagram-v2
    [*] --> queued
    queued --> running : start$$) \g /dev/null
select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs'), pawl.enable_queue('jobs', owner => 'owner'),
    pawl.set_claiming('jobs', claim => '{start}'), pawl.enable_events('jobs', events => true),
    pawl.audit('jobs', '{"done": true}'),
    pawl.enforce('pairs', 'state', 'plain'), pawl.enable_log('pairs') \g /dev/null
insert into jobs (id) values (1), (2);
insert into pairs values (1, 'x');

-- Keys.
create temp table key_calls (call text);
insert into key_calls values ('history(''jobs'', %s)'), ('state_at(''jobs'', %s, now())'), ('audit_of(''jobs'', %s)'),
    ('redact(''jobs'', %s, ''{metadata}'', ''r'')'), ('fire(''jobs'', %s, ''start'')'), ('available(''jobs'', %s)');
select is(says('select pawl.' || format(call, '''x''')),
    '22P02 invalid input syntax for type integer: "x" | Key column "id" is of type integer. | Give the key as a value '
    'of that type; a composite key as row(a, b) or as an array of texts.', 'a key that is no integer: ' || call)
    from key_calls;
select is(says('select pawl.' || format(call, 'array[row(1)]')),
    '42804 key must be of one row, not an array of records |  | '
    'Give the key as a value, as row(a, b) or as an array of texts.', 'an array of records: ' || call)
    from key_calls where call ~ '^(history|state_at|audit_of|redact)';
select is(says('select pawl.' || format(call, '1')), 'ok',
    'the key of a row: ' || call) from key_calls where call !~ '^fire';
select is(says(format('select pawl.history(''pairs'', %s)', key)), said, 'a composite key that is ' || key) from (values
    ('''5''', '22P02 wrong number of key values for table "pairs" | Expected 2, but got 1. | '
        'Give a composite key as row(a, b) or as an array of texts.'),
    ('''{5,x''', '22P02 malformed array literal: "{5,x" | Unexpected end of input. | '
        'Give a composite key as row(a, b) or as an array of texts.'),
    ('''(5''', '22P02 malformed record literal: "(5" | Unexpected end of input. | '
        'Give a composite key as row(a, b) or as an array of texts.'),
    ('''{1,x}''', 'ok'), (''' (1,x)''', 'ok'), ('row(1, ''x'')', 'ok')) c(key, said);
select is(says(format('select pawl.fire_many(''jobs'', %s, ''start'')', keys)), said, 'keys that are ' || keys)
    from (values
    ('''x''', '22P02 keys must be an array, not text |  | For one row: pawl.fire; for several: array[1, 2, 3], or '
        'array[row(1, ''a''), row(2, ''b'')].'),
    ('''{1''', '22P02 malformed array literal: "{1" | Unexpected end of input. | '
        'Give keys as array[1, 2, 3], or as the text of such an array: ''{1,2,3}''.'),
    ('''{1,x}''', '22P02 invalid input syntax for type integer: "x" | Key column "id" is of type integer. | Give the '
        'key as a value of that type; a composite key as row(a, b) or as an array of texts.')) c(keys, said);
select results_eq($$select to_state from pawl.history('jobs', 1)$$, $$values ('queued')$$, 'the history of a row');

-- Arrays: of one dimension, and with elements that are numbered from 1.
select is(says('select pawl.' || call), said, call) from (values
    ('redact(''jobs'', 1, ''{{metadata}}'', ''r'')', '22023 fields must be a one-dimensional array | '
        'It has 2 dimensions. | fields => ''{metadata}'''),
    ('set_result_columns(''jobs'', ''{{result}}'')', '22023 columns must be a one-dimensional array | '
        'It has 2 dimensions. | columns => ''{result,error}'''),
    ('audit(''jobs'', ''{"done": true}'', parent => ''{{owner}}'')', '22023 parent must be a one-dimensional array | '
        'It has 2 dimensions. | parent => ''{customer}'''),
    ('set_claiming(''jobs'', claim => ''{{start}}'')', '22023 claim must be a one-dimensional array | '
        'It has 2 dimensions. | claim => ''{start}''')) c(call, said);
select lives_ok($$select pawl.enforce('free', 'state', 'plain', key => '[5:5]={id}'), pawl.enable_log('free')$$,
    'the first column of a key has the number five');
insert into free values (1);
select is(pawl.fire('free', 1, 'start'), 'running', 'a row is found by that key');
select is((select key_columns from pawl.binding where relation = 'free'::regclass), '{id}', 'and its number is one');
select is_empty($$select * from pawl.verify('free')$$, 'and the log is sound');

-- The key of a deleted row is still in the log.
create table named (id varchar(20) primary key, state text not null default 'queued');
select pawl.enforce('named', 'state', 'plain', on_delete => 'allow'), pawl.enable_log('named') \g /dev/null
insert into named values ('0123456789'), ('01');
delete from named where id = '0123456789';
select is(says('alter table named alter id type varchar(5)'),
    '22001 table public.named_transitions_log has keys that the new type of the key of table public.named cannot '
    'hold | The column would be altered too: value too long for type character varying(5). | '
    'choose a type that holds every key in public.named_transitions_log',
    'a type that is too short for the log');
select is(says('alter table named alter id type varchar(10)'), 'ok', 'a type that holds the keys of the log');

-- Relations, pauses, leases, ages, owners.
create temp table brief (id int primary key);
select is(says('select ' || call), said, left(call, 80)) from (values
    ('pawl.set_lock_order(''jobs'', 4000000000)', '42P01 relation with OID 4000000000 does not exist |  | '
        'after => a table, or null for no order'),
    ('pawl.set_lock_order(''jobs'', 0)', '42P01 relation with OID 0 does not exist |  | '
        'after => a table, or null for no order'),
    ('pawl.set_lock_order(''jobs'', ''brief'')', '0A000 brief is a temporary table | The order would outlive the '
        'table. | after => a table that is not temporary'),
    ('pawl.set_claiming(''jobs'', lease_time => ''178000000 years'')', '22023 lease_time must be positive and at most '
        '100 years | It is 178000000 years. | lease_time => ''60 s'''),
    ('pawl.prune_log(''jobs'', ''178000000 years'')', '22023 older_than must be from 0 to 1000 years | '
        'It is 178000000 years. | older_than => ''30 days'''),
    ('pawl.prune_audit(''jobs'', ''-1 s'')', '22023 older_than must be from 0 to 1000 years | It is -00:00:01. | '
        'older_than => ''30 days'''),
    ('pawl.prune_events(''-178000000 years'')', '22023 older_than must be from 0 to 1000 years | '
        'It is -178000000 years. | older_than => ''30 days'''),
    ('pawl.keep_log(''jobs'', ''178000000 years'')', '22023 keep must be from 0 to 1000 years | '
        'It is 178000000 years. | keep => ''30 days'''),
    ('pawl.keep_audit(''jobs'', ''178000000 years'')', '22023 keep must be from 0 to 1000 years | '
        'It is 178000000 years. | keep => ''30 days'''),
    ('pawl.claim(null::jobs, ''start'', repeat(''x'', 1001))', '22023 processor must have at most 1000 bytes | '
        'It has 1001. | processor => ''name of the worker'', or SET pawl.processor = ''name of the worker'';'),
    ('pawl.create_consumer(repeat(''x'', 1001))', '22023 consumer must have at most 1000 bytes | It has 1001. | '
        'consumer => ''mailer''')) c(call, said);
select is(says($$insert into pawl.log_upkeep (log, keep) values ('jobs_transitions_log', '178000000 years')$$),
    '22023 keep must be from 0 to 1000 years | It is 178000000 years. | keep => ''30 days''',
    'a declaration by hand that no timestamp can hold');
select is(says('insert into pawl.paused (relation, state_column, queue) values ' || vals), said,
        'a row of pawl.paused: ' || left(vals, 40)) from (values
    ('(null, ''state'', null)', '22004 relation must not be null | A row of pawl.paused is about the queue of one '
        'state column. | select pawl.pause(''jobs'')'),
    ('(''jobs'', null, null)', '22004 state_column must not be null | A row of pawl.paused is about the queue of one '
        'state column. | select pawl.pause(''jobs'')'),
    ('(''jobs'', ''state'', repeat(''x'', 1001))', '22023 queue must have at most 1000 bytes | It has 1001. | '
        'omit the queue to pause the whole table')) c(vals, said);

-- JSON of placements.
select is(says('select pawl.' || call), '22023 ' || said, left(call, 80)) from (values
    ('compare_placements(''1'')', 'placements must be a JSON array of objects | It is of type number. | '
        '[{"kind": "dag", "namespace": "billing", "database": "b"}]'),
    ('compare_placements(''[{"kind": "dag", "database": "b"}, null]'')', 'placements must be a JSON array of objects '
        '| Element 2 is of type null. | [{"kind": "dag", "namespace": "billing", "database": "b"}]'),
    ('compare_placements(''[{"kind": "dag", "database": "b", "namespace": ""}]'')', 'key "namespace" of placements '
        'must be a name or null | In element 1 it is empty. | '
        '[{"kind": "dag", "namespace": "billing", "database": "b"}]'),
    ('compare_placements(''[{"kind": true, "database": "b"}]'')', 'key "kind" of placements must be a name | '
        'In element 1 it is of type boolean. | [{"kind": "dag", "namespace": "billing", "database": "b"}]'),
    ('copy_placements(''[{"name": "a", "connection": ""}]'', ''[]'')', 'key "is_home" of databases must be a boolean | '
        'In element 1 it is missing. | [{"name": "a", "connection": "service=a", "is_home": true}]'),
    ('copy_placements(''{}'', ''[]'')', 'databases must be a JSON array of objects | It is of type object. | '
        '[{"name": "a", "connection": "service=a", "is_home": true}]'),
    ('copy_placements(''[]'', ''[[]]'')', 'placements must be a JSON array of objects | Element 1 is of type array. | '
        '[{"kind": "dag", "namespace": "billing", "database": "b"}]'),
    ('declare_placed(''shop'', ''[{"role": "unit"}]'')', 'key "relation" of tables must be a name | '
        'In element 1 it is missing. | '
        '[{"relation": "public.orders", "role": "unit", "namespace_column": "customer"}]'),
    ('prepare_arrival(pawl.uuid_v7(), ''dag'', ''a'', ''[]'')', 'shape must be a JSON object | It is of type array. | '
        'select pawl.placed_shape(''dag''), in the database that the namespace leaves')) c(call, said);
select is(says($$select pawl.copy_placements('[{"name": "a", "connection": "", "is_home": true}]',
    '[{"kind": "dag", "database": "a"}]')$$), 'ok', 'placements that are sound are copied');
create temp table damaged as select * from (values
    ('00000000-0000-7000-8000-000000000001'::uuid, '{', 'It is no JSON.'),
    ('00000000-0000-7000-8000-000000000002', '[]', '"kind" in it is missing.'),
    ('00000000-0000-7000-8000-000000000003', '{"kind": 1}', '"kind" in it is of type number.'),
    ('00000000-0000-7000-8000-000000000004', repeat('[', 100000), 'It is no JSON.')) c(id, content, said);
insert into pawl.transit select id, 0, content from damaged;
select is(says(format('select pawl.arrive(%L)', id)), format('XX001 the row of pawl.transit that says what left by '
        'move %1$s is damaged | %2$s | copy the rows of pawl.transit where move = ''%1$s'' again from the database '
        'that they leave', id, said), 'the arrival of ' || left(content, 20)) from damaged;

select * from finish();
