-- Signal keys in a database whose collation is not "C": all sessions make and lock them in the order of the column.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension dblink;
create database bulk_collation template template0 locale_provider icu icu_locale 'en-US' locale 'C.UTF-8';
select dblink_connect('s', format('host=%L port=%s dbname=bulk_collation user=%L',
    current_setting('unix_socket_directories'), current_setting('port'), current_user)) \g /dev/null
create function asked(query text) returns text language sql as $$ select r from dblink('s', query) d(r text) $$;
select dblink_exec('s', 'set client_min_messages = warning; create extension pawl_bulk cascade') \g /dev/null
select asked($q$ select pawl_bulk.define('{"name": "named", "steps": [{"name": "first", "handler": "hands"},
    {"name": "waits", "kind": "signal", "handler": "none", "timeout": "1 h", "signal_key": "{data.k}"}]}') $q$)
    \g /dev/null
select asked($q$ select operation::text from pawl_bulk.submit('named', rows => '[{"k": "a"}, {"k": "b"}, {"k": "C"}]')
    $q$) as o \gset
select dblink_exec('s', 'do $do$ begin for turn in 1 .. 5 loop perform from pawl_bulk.advance(); end loop; end $do$')
    \g /dev/null

-- in the order in which they were written
select is(asked($q$ select string_agg(k, ' ' order by k) from unnest('{a,b,C}'::text[]) k $q$), 'a b C',
    'the database sorts capitals among the others');
select is(asked($q$ select string_agg(r.row_number || ' ' || r.ok, ', ' order by r.row_number) from pawl_bulk.report(
    (select jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index,
        'token', token, 'result', 'ok')) from pawl_bulk.claim('w', 'hands')), 'w') r $q$), '1 true, 2 true, 3 true',
    'three rows go on to the step that waits');
select is(asked('select string_agg(key, $q$ $q$ order by ctid) from pawl_bulk.signal_keys'), 'C a b',
    'their keys are made in the order of the column');
select is(asked($q$ select string_agg(key || ' ' || answer, ', ') from pawl_bulk.signal_many($q$
    || quote_literal(:'o') || $q$, '[{"key": "b"}, {"key": "d"}, {"key": "D"}, {"key": "C"}]') $q$),
    'b early, d early, D early, C early', 'and signals find them');
select is(asked('select string_agg(key, $q$ $q$ order by ctid) from pawl_bulk.signal_keys where row_number is null'),
    'D d', 'and make others in the same order');
select dblink_disconnect('s') \g /dev/null
drop database bulk_collation;
select * from finish();
