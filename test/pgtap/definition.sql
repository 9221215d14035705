-- pawl.definition: what it prints, run after pawl.release, makes the same binding.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

-- Everything of a binding but when it was made.
create function facts(relation regclass) returns setof text language sql as $$
    select (to_jsonb(b) - '{enforced_at,events_since}'::text[])::text from pawl.binding b
        where b.relation = facts.relation order by b.state_column $$;
create function audits(relation regclass) returns setof text language sql as $$
    select (to_jsonb(a) - '{audited_at}'::text[])::text from pawl.audit_binding a where a.relation = audits.relation
        order by 1 $$;
-- The binding again by what the definition says.
create function again(relation regclass, state_column name default null) returns text language plpgsql as $$
declare
    calls text := pawl.definition(relation, state_column);
begin
    perform pawl.release(relation, state_column);
    execute calls;
    return calls;
end $$;

-- The least there is.
create table plain (id int primary key, state text not null default 'ready');
select pawl.enforce('plain', 'state', 'job');
select is(pawl.definition('plain'), $$select pawl.enforce('public.plain', 'state', 'job');$$, 'a binding and no more');

-- All there is.
select make_jobs('work');
alter table work add column code text not null default 'x', add column trace text, add column result jsonb,
    add column backoff jsonb, add unique (code, id);
create table parents (code text primary key);
select pawl.enforce('work', 'state', 'job', key => '{code,id}', on_delete => 'terminal', always => true),
       pawl.enable_log('work', most_recent => 'stored', hash_chain => true, log_name => 'Work "log"',
           log_partition => 'hash (id) partitions 3'),
       pawl.enable_queue('work', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts',
           max_attempts => 'max_attempts', queue => 'queue'),
       pawl.enable_timers('work', due => 'due'),
       pawl.set_claiming('work', claim => '{start}', claim_order => 'priority desc, created_at',
           lease_time => '1 day 5 min', on_expiry => 'expire',
                         on_expiry_else => 'cancel', retry => '{fail}', backoff => '{"base": "10 s"}',
                         backoff_column => 'backoff', operator_events => '{cancel}'),
       pawl.enable_events('work', wake => true),
       pawl.set_trace('work', 'trace'), pawl.set_lock_order('work', 'parents'), pawl.set_log_token('work'),
       pawl.set_result_columns('work', '{result}'),
       pawl.set_placing('work'), pawl.audit('work', '{"done": true, "gone": false}', parent => '{queue}'),
       pawl.keep_log('work', '90 days', only_terminal => false), pawl.keep_audit('work', '7 years');
insert into work (id) values (1), (2);
update work set state = 'running', owner = 'w' where id = 1;
create table before_work as select facts('work') as fact union all select audits('work');
select matches(pawl.definition('work'),
    array_to_string(array['enforce', 'enable_log', 'enable_queue', 'enable_timers', 'set_claiming',
    'enable_events', 'set_trace', 'set_lock_order', 'set_log_token', 'set_result_columns',
    'set_placing', 'audit', 'keep_log', 'keep_audit'],
        '\(.*\);\nselect pawl.'), 'every call that says something, in order');
select alike(pawl.definition('work'), '%log_partition => ''hash (id) partitions 3''%', 'the partitions of the log');
select lives_ok($$select again('work')$$, 'it can be run after a release');
select set_eq($$select facts('work') union all select audits('work')$$, 'select fact from before_work',
    'the same binding, the same audit');
select is_empty('select * from pawl.verify()', 'the log goes on');
select is_empty($$select * from pawl.health() where status not in ('ok', 'info')$$, 'nothing is missing');

-- Strange names, two bindings of one table, a log in ranges, an older version.
create table "O'Table" ("My Id" int primary key, "St ate" text not null default 'ready',
    phase text not null default 'ready', "own er" text, due timestamptz);
select pawl.enforce('"O''Table"', 'St ate', 'job'),
    pawl.enable_log('"O''Table"', 'St ate', log_partition => 'range ("My Id")'),
       pawl.enable_queue('"O''Table"', 'St ate', owner => 'own er'),
       pawl.set_claiming('"O''Table"', 'St ate', claim => '{start}', claim_order => '"My Id" desc'),
       pawl.enforce('"O''Table"', 'phase', 'job'), pawl.enable_log('"O''Table"', 'phase'),
       pawl.enable_timers('"O''Table"', 'phase', due => 'due');
create table before_strange as select facts('"O''Table"') as fact;
select alike(outcome($$select pawl.definition('"O''Table"')$$), '22023 table public."O''Table" has several bindings%',
    'one of several is to be named');
select lives_ok($$select again('"O''Table"', 'St ate')$$, 'the printed calls recreate the first binding of a table');
select lives_ok($$select again('"O''Table"', 'phase')$$, 'the printed calls recreate the second binding of a table');
select set_eq($$select facts('"O''Table"')$$, 'select fact from before_strange', 'both are what they were');
select pawl.define('job', (select diagram || E'\n    ready --> gone : drop' from pawl.diagram('job') diagram))
    as version \gset
select alike(pawl.definition('plain'), '%version => 1%', 'a version that is not the newest is named');
create table before_plain as select facts('plain') as fact;
select lives_ok($$select again('plain')$$, 'and taken again');
select set_eq($$select facts('plain')$$, 'select fact from before_plain', 'as it was');
select alike(outcome($$select pawl.definition('parents')$$), '42704 no machine is enforced on table public.parents%',
    'where there is none');

-- What the packs have attached can be printed and run as well.
create extension if not exists pawl_dag;
create extension if not exists pawl_saga;
create extension if not exists pawl_bulk;
create table before_packs as
    select b.relation, b.state_column, to_jsonb(b) - '{enforced_at,events_since,extension}'::text[] as fact
    from pawl.binding b where extension is not null;
select is(outcome(format('select again(%L, %L)', relation, state_column)), 'ok', format('%s of a pack', relation))
    from before_packs;
select set_eq($$select b.relation, b.state_column, to_jsonb(b) - '{enforced_at,events_since,extension}'::text[]
    from pawl.binding b, before_packs p
                where p.relation = b.relation and p.state_column = b.state_column$$, 'select * from before_packs',
    'as they were');
-- A diagram that is not defined
select is(pawl.render(pawl.render(E'stateDiagram-v2\n[*]-->a\na-->[*]:end')), pawl.render(
    E'stateDiagram-v2\n[*]-->a\na-->[*]:end'), 'the canonical form of a canonical form is itself');
select is(left(pawl.render(E'stateDiagram-v2\n[*] --> a', 'dot'), 7), 'digraph', 'or it is for Graphviz');
select throws_ok('select pawl.render(null)', '22004', null, 'a diagram that is null is rejected');
select throws_ok($$select pawl.render('stateDiagram-v2', null)$$, '22004', null, 'a format that is null is rejected');
select throws_ok($$select pawl.render('stateDiagram-v2', 'png')$$, '22023', null, 'an unknown format is rejected');
select throws_ok($$select pawl.render('flowchart')$$, 'PW007', null, 'another kind of diagram is rejected');
select * from finish();
