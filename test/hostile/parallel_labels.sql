-- Functions that are PARALLEL SAFE or RESTRICTED do in a parallel query what they do elsewhere, in sessions that know
-- nothing yet of machine and table: each call is the first of a connection.
\set QUIET 1
set client_min_messages = error;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
create table labelled (id int primary key, state text not null, owner text);
select pawl.define('labelled', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> [*]
    class b owned$$) \g /dev/null
select pawl.enforce('labelled', 'state', 'labelled'), pawl.enable_log('labelled', 'state'),
    pawl.enable_queue('labelled', 'state', owner => 'owner'),
    pawl.set_claiming('labelled', 'state', claim => '{go}', claim_order => 'id'),
    pawl.enable_events('labelled', 'state', wake => true) \g /dev/null
insert into labelled values (1, 'a');
alter table labelled set (parallel_workers = 1);
create table is_parallel (what text, plan text);
create function plan_of(query text) returns text language plpgsql as $$
declare
    line text;
    plan text := '';
begin
    for line in execute 'explain (costs off) ' || query loop plan := plan || line; end loop;
    return plan;
end $$;
select set_config(case when current_setting('server_version_num')::int >= 160000 then 'debug_parallel_query'
            else 'force_parallel_mode' end, 'on', false) as set_it,
    case when current_setting('server_version_num')::int >= 160000
        then 'debug_parallel_query' else 'force_parallel_mode' end as setting \gset
\set ON_ERROR_STOP 0

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select * from pawl.history('labelled', 1) \g /dev/null
\set answer0 :SQLSTATE
insert into is_parallel
    values ($$select * from pawl.history('labelled', 1)$$, plan_of($$select * from pawl.history('labelled', 1)$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl.state_at('labelled', 1, now()) \g /dev/null
\set answer1 :SQLSTATE
insert into is_parallel
    values ($$select pawl.state_at('labelled', 1, now())$$, plan_of($$select pawl.state_at('labelled', 1, now())$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl._key_text('labelled'::regclass, 1, 'state') from labelled \g /dev/null
\set answer2 :SQLSTATE
insert into is_parallel values ($$select pawl._key_text('labelled'::regclass, 1, 'state') from labelled$$,
    plan_of($$select pawl._key_text('labelled'::regclass, 1, 'state') from labelled$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl.channel('labelled') from labelled \g /dev/null
\set answer3 :SQLSTATE
insert into is_parallel values ($$select pawl.channel('labelled') from labelled$$,
    plan_of($$select pawl.channel('labelled') from labelled$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl._guard_functions('labelled', 'labelled', 1) \g /dev/null
\set answer4 :SQLSTATE
insert into is_parallel values ($$select pawl._guard_functions('labelled', 'labelled', 1)$$,
    plan_of($$select pawl._guard_functions('labelled', 'labelled', 1)$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl._resolve_calls('labelled', 'labelled', 1, null) \g /dev/null
\set answer5 :SQLSTATE
insert into is_parallel values ($$select pawl._resolve_calls('labelled', 'labelled', 1, null)$$,
    plan_of($$select pawl._resolve_calls('labelled', 'labelled', 1, null)$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select * from pawl.states('labelled') \g /dev/null
\set answer6 :SQLSTATE
insert into is_parallel
    values ($$select * from pawl.states('labelled')$$, plan_of($$select * from pawl.states('labelled')$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select * from pawl.transitions('labelled') \g /dev/null
\set answer7 :SQLSTATE
insert into is_parallel
    values ($$select * from pawl.transitions('labelled')$$, plan_of($$select * from pawl.transitions('labelled')$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl.diagram('labelled') \g /dev/null
\set answer8 :SQLSTATE
insert into is_parallel values ($$select pawl.diagram('labelled')$$, plan_of($$select pawl.diagram('labelled')$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl.restoring() from labelled \g /dev/null
\set answer9 :SQLSTATE
insert into is_parallel
    values ($$select pawl.restoring() from labelled$$, plan_of($$select pawl.restoring() from labelled$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl.backoff(id, '{}') from labelled \g /dev/null
\set answer10 :SQLSTATE
insert into is_parallel
    values ($$select pawl.backoff(id, '{}') from labelled$$, plan_of($$select pawl.backoff(id, '{}') from labelled$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl_api.get_machine('{"machine": "labelled"}') \g /dev/null
\set answer11 :SQLSTATE
insert into is_parallel values ($$select pawl_api.get_machine('{"machine": "labelled"}')$$,
    plan_of($$select pawl_api.get_machine('{"machine": "labelled"}')$$));

\c -
set :setting = on;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set client_min_messages = error;
select pawl_api.machine_diagram('{"machine": "labelled"}') \g /dev/null
\set answer12 :SQLSTATE
insert into is_parallel values ($$select pawl_api.machine_diagram('{"machine": "labelled"}')$$,
    plan_of($$select pawl_api.machine_diagram('{"machine": "labelled"}')$$));

\set ON_ERROR_STOP 1
\c -
set client_min_messages = error;
select no_plan();
select is(:'answer0'::text, '00000', $$select * from pawl.history('labelled', 1)$$);
select is(:'answer1'::text, '00000', $$select pawl.state_at('labelled', 1, now())$$);
select is(:'answer2'::text, '00000', $$select pawl._key_text('labelled'::regclass, 1, 'state') from labelled$$);
select is(:'answer3'::text, '00000', $$select pawl.channel('labelled') from labelled$$);
select is(:'answer4'::text, '00000', $$select pawl._guard_functions('labelled', 'labelled', 1)$$);
select is(:'answer5'::text, '00000', $$select pawl._resolve_calls('labelled', 'labelled', 1, null)$$);
select is(:'answer6'::text, '00000', $$select * from pawl.states('labelled')$$);
select is(:'answer7'::text, '00000', $$select * from pawl.transitions('labelled')$$);
select is(:'answer8'::text, '00000', $$select pawl.diagram('labelled')$$);
select is(:'answer9'::text, '00000', $$select pawl.restoring() from labelled$$);
select is(:'answer10'::text, '00000', $$select pawl.backoff(id, '{}') from labelled$$);
select is(:'answer11'::text, '00000', $$select pawl_api.get_machine('{"machine": "labelled"}')$$);
select is(:'answer12'::text, '00000', $$select pawl_api.machine_diagram('{"machine": "labelled"}')$$);
select is_empty($$select what from is_parallel where plan !~ 'Gather'$$, 'each was parallel');
select is((select count(*) from is_parallel), 13::bigint, 'all of them');
select * from finish();
