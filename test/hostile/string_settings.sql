-- Settings that any session can make change how SQL is read. What the functions of the
-- extensions decide does not depend on them.
\set QUIET 1
set client_min_messages = error;
select no_plan();
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
set standard_conforming_strings = off;
set escape_string_warning = off;
set array_nulls = off;
set quote_all_identifiers = on;
set transform_null_equals = on;
select is_empty($$select message from pawl_bulk._schema_errors('{"properties": {"n": {"type": "integer"}, "x": '
    '{"type": "number"}}}', '{1}', array['{"n": 12, "x": -1.5e3}'::jsonb])$$,
    'numbers are numbers');
select results_eq($$select field from pawl_bulk._schema_errors('{"properties": {"n": {"type": "integer"}, "x": '
    '{"type": "number"}}}', '{1}', array['{"n": "d", "x": "sd"}'::jsonb]) order by 1$$,
    $$values ('n'), ('x')$$, 'and letters are no digits');
create table ordered (id int primary key, state text not null, owner text, rank int);
select pawl.define('ordered', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> [*]
    class b owned$$) \g /dev/null
select lives_ok($$select pawl.enforce('ordered', 'state', 'ordered'), pawl.enable_log('ordered', 'state'),
    pawl.enable_queue('ordered', 'state', owner => 'owner'),
    pawl.set_claiming('ordered', 'state', claim => '{go}', claim_order => 'rank desc, id')$$, 'a claim order is read');
select is((select claim_columns::text from pawl.binding where relation = 'ordered'::regclass), '{rank,id}',
    'as it is written');
create table parted (id uuid primary key default pawl.uuid_v7(), state text not null);
select lives_ok($$select pawl.enforce('parted', 'state', 'ordered'),
    pawl.enable_log('parted', 'state', log_partition => 'hash (id) partitions 4')$$, 'so is a partition of a log');
select is_empty($$select check_name, detail from pawl.health() where status = 'error'$$, 'nothing is amiss');
select is_empty($$select * from pawl.verify()$$, 'nor in the log');
select * from finish();
