-- pawl.enable_queue, pawl.set_claiming, pawl.enable_timers and pawl.enable_events: each can be called again, what is
-- omitted stays, an empty value takes away, and triggers and indexes follow.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

create function work_triggers(relation regclass) returns setof text language sql as $$
    select tgname::text from pg_trigger where tgrelid = relation and not tgisinternal order by 1 $$;
select make_jobs('jobs');
insert into jobs (id) values (1), (2);
select pawl.enforce('jobs', 'state', 'job');
select is_empty($$select work_indexes('jobs')$$, 'a binding begins without indexes');
select set_has($$select check_name, status from pawl.health()$$, $$values ('queue', 'info')$$,
    'health knows that the owner column is missing');

-- The columns.
select pawl.enable_queue('jobs', owner => 'owner', queue => 'queue');
select set_has($$select check_name, status from pawl.health()$$, $$values ('queue', 'ok')$$, 'until it is named');
select results_eq($$select work_indexes('jobs')$$, $$values ('jobs_pawl_owned: (owner) WHERE (owner IS NOT NULL)')$$,
    'the index of owners');
select set_has($$select work_triggers('jobs')$$, $$values ('~pawl_validate_insert')$$,
    'a trigger for rows that begin in owned states');
select pawl.enable_queue('jobs', lease => 'lease', token => 'token');
select results_eq('select owner_column, lease_column, token_column, queue_column, attempts_column from pawl.binding',
    $$values ('owner'::name, 'lease'::name, 'token'::name, 'queue'::name, null::name)$$, 'what is omitted stays');
select results_eq($$select work_indexes('jobs')$$,
    $$values ('jobs_pawl_owned: (owner, lease) WHERE (owner IS NOT NULL)')$$, 'the index is created again');
select is(outcome($$select pawl.enable_queue('jobs', owner => '')$$),
    '22023 lease needs an owner column | select pawl.enable_queue(''public.jobs'', ''state'', owner => ...)',
    'a column stays that another needs');

-- Claims.
select pawl.set_claiming('jobs', claim => '{start}', claim_order => 'priority desc', lease_time => '5 min',
    on_expiry => 'expire');
select results_eq($$select work_indexes('jobs')$$, $$values
    ('jobs_pawl_claim: (queue, priority DESC, id) WHERE (state = ANY (ARRAY[''ready''::text, ''waiting''::text]))'),
    ('jobs_pawl_owned: (owner, lease) WHERE (owner IS NOT NULL)')$$, 'claims have their index');
select pawl.enable_timers('jobs', due => 'due');
select results_eq($$select work_indexes('jobs')$$, $$values
    ('jobs_pawl_claim: (queue, priority DESC, id) WHERE ((state = ANY (ARRAY[''ready''::text, ''waiting''::text])) '
    'AND (due IS NULL))'), ('jobs_pawl_due: (due, id) WHERE (due IS NOT NULL)'),
    ('jobs_pawl_owned: (owner, lease) WHERE (owner IS NOT NULL)')$$, 'which leaves out rows that are due later');
select is_empty($$select * from pawl.health() where status <> 'ok'$$, 'nothing is missing');
select pawl.set_claiming('jobs', claim_order => 'created_at');
select results_eq(
    'select claim_events, claim_columns, claim_descending, lease_time, on_expiry, operator_events from pawl.binding',
    $$values ('{start}'::text[], '{created_at}'::name[], '{f}'::boolean[], '5 min'::interval, 'expire', '{}'::text[])$$,
    'one argument changes, the others stay');
select alike((select i from work_indexes('jobs') i where i ~ 'claim'), '%(queue, created_at, id)%', 'with the index');
select pawl.set_claiming('jobs', claim_order => '');
select is((select claim_columns from pawl.binding), '{}', 'no order any more but the key');
select is(outcome($$select pawl.set_claiming('jobs', retry => '{fail}')$$),
    '22023 retry needs an attempts column | select pawl.enable_queue(''public.jobs'', ''state'', attempts => ...)',
    'retries need attempts');
select pawl.enable_queue('jobs', attempts => 'attempts', max_attempts => 'max_attempts');
select pawl.set_claiming('jobs', retry => '{fail}', backoff => '{"base": "10 s"}', operator_events => '{cancel}');
select is(outcome($$select pawl.enable_timers('jobs', due => '')$$),
    '22023 retry needs a due column | select pawl.enable_timers(''public.jobs'', ''state'', due => ...)',
    'and a due time');
select is(outcome($$select pawl.set_claiming('jobs', retry => '{}')$$),
    '22023 backoff needs retry | select pawl.set_claiming(''public.jobs'', ''state'', retry => ...)',
    'a backoff needs retries');
select pawl.set_claiming('jobs', retry => '{}', backoff => '{}', operator_events => '{}', on_expiry => '');
select results_eq('select claim_events, retry_events, backoff, operator_events, on_expiry from pawl.binding',
    $$values ('{start}'::text[], '{}'::text[], null::jsonb, '{}'::text[], null::text)$$, 'empty values take away');
select set_has($$select check_name, status, hint from pawl.health()$$,
    $$values ('on_expiry', 'warning', 'select pawl.set_claiming(''public.jobs'', ''state'', on_expiry => ...)')$$,
    'health knows what is open');
select pawl.enable_timers('jobs', due => '');
select unalike((select i from work_indexes('jobs') i where i ~ 'claim'), '%due%',
    'the index of claims forgets the due time');
select is_empty($$select i from work_indexes('jobs') i where i ~ '_due'$$, 'the index of due times goes');

-- Events and wake-ups.
select pawl.enable_events('jobs', events => false, wake => true);
select results_eq('select events, wake from pawl.binding', 'values (false, true)', 'wake-ups without events');
select is(outcome($$select pawl.set_claiming('jobs', claim => '{}')$$),
    '22023 wake needs claim | select pawl.set_claiming(''public.jobs'', ''state'', claim => ...)',
    'wake-ups need claims');
select pawl.enable_events('jobs');
select results_eq('select events, wake, events_since is not null from pawl.binding', 'values (true, true, true)',
    'events, wake-ups as they were');
update jobs set state = 'running', owner = 'w' where id = 1;
select is((select count(*) from pawl._events), 1::bigint, 'state changes have events');
select pawl.enable_events('jobs', events => null, wake => false);
select results_eq('select events, wake from pawl.binding', 'values (true, false)', 'null leaves them');
select pawl.enable_events('jobs', events => false);

-- Everything goes again.
select is(outcome($$select pawl.set_claiming('jobs', claim => '{}')$$), 'ok',
    'an empty list of claim events takes claims away');
select is(outcome($$select pawl.enable_queue('jobs', owner => '', lease => '', token => '', attempts => '',
    max_attempts => '', queue => '')$$), 'ok', 'empty names take the managed columns away');
select is_empty($$select work_indexes('jobs')$$, 'a binding without managed columns has no work indexes');
update jobs set state = 'done' where id = 1;
select is((select owner from jobs where id = 1), 'w', 'nothing is kept any more');
select is(split_part(outcome($$select pawl.enable_queue('jobs', owner => 'owner')$$), ' |', 1),
    '55000 table public.jobs has rows with an owner or a lease in states that are not owned',
    'rows are checked when a column is named');

-- In one transaction: one lock on the table, no stronger one at the end than at the beginning.
drop table jobs;
select make_jobs('jobs');
begin;
select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs'),
    pawl.enable_queue('jobs', owner => 'owner', lease => 'lease', queue => 'queue'),
       pawl.enable_timers('jobs', due => 'due'), pawl.set_claiming('jobs', claim => '{start}', on_expiry => 'expire'),
       pawl.enable_events('jobs', wake => true);
select is_empty($$select mode from pg_locks
    where database = (select oid from pg_database where datname = current_database())
    and relation = 'jobs'::regclass and mode = 'AccessExclusiveLock'$$, 'no call needs more than SHARE ROW EXCLUSIVE');
commit;
select is_empty($$select * from pawl.health() where status <> 'ok'$$, 'all is well');
begin;
select pawl.enable_timers('jobs', due => '');
select isnt_empty($$select mode from pg_locks
    where database = (select oid from pg_database where datname = current_database())
    and relation = 'jobs'::regclass and mode = 'AccessExclusiveLock'$$, 'an index that goes needs it');
rollback;

-- Rights and errors are the same for all.
create role queue_stranger login;
grant pawl_admin to queue_stranger;
grant usage on schema public to queue_stranger;
set role queue_stranger;
select alike(outcome(format('select pawl.%s(''jobs'')', call)),
    '42501 must be owner of table public.jobs | call it as role "%"',
    call || ' is for the owner of the table')
  from unnest('{enable_queue,set_claiming,enable_timers,enable_events}'::text[]) call;
reset role;
set role pawl_worker;
select alike(outcome(format('select pawl.%s(''jobs'')', call)), '42501 permission denied for function ' || call || '%',
    call || ' is for members of pawl_admin')
  from unnest('{enable_queue,set_claiming,enable_timers,enable_events,definition}'::text[]) call;
reset role;
begin isolation level repeatable read;
select alike(outcome(format('select pawl.%s(''jobs'')', call)),
    format('25001 pawl.%s cannot run in isolation level repeatable read%%', call), call || ' with an old snapshot')
  from unnest('{enable_queue,set_claiming,enable_timers,enable_events}'::text[]) call;
rollback;
select is(outcome($$select pawl.enable_queue('jobs', 'phase')$$), '42704 no machine is enforced on column "phase" of '
    'table public.jobs | state_column => ''state''', 'a column that has no binding');

-- The owner of a table that writes a binding by the internal function does not gain a log
-- of another role, nor another date.
create role queue_owner login;
grant pawl_admin to queue_owner;
create schema queue_owner authorization queue_owner;
create table others_log (id int);
set role queue_owner;
create table queue_owner.t (id int primary key, state text not null default 'ready');
select pawl.enforce('queue_owner.t', 'state', 'job');
select alike(
    outcome($$select pawl._change_binding(jsonb_populate_record(b, '{"history": "public.others_log"}'))
        from pawl.binding b where relation = 'queue_owner.t'::regclass$$),
    '42501 must be owner of table others_log | Call it as role "%"%', 'a log of another role');
select pawl._change_binding(jsonb_populate_record(b, '{"enforced_at": "2001-01-01", "enforced_by": "another", '
    '"always": true}')) from pawl.binding b where relation = 'queue_owner.t'::regclass;
reset role;
select results_eq($$select always, enforced_at > '2020-01-01', enforced_by from pawl.binding
        where relation = 'queue_owner.t'::regclass$$,
    $$values (true, true, 'queue_owner')$$, 'the caller cannot choose the time and the role');

-- The index of each kind is looked for once, however many tables and indexes there are.
select make_jobs('more');
select pawl.enforce('more', 'state', 'job'), pawl.enable_log('more');
select pawl.enable_queue('more', owner => 'owner', lease => 'lease'), pawl.enable_timers('more', due => 'due');
begin;
set local track_functions = 'all';
select pawl.set_claiming('more', claim => '{start}');
select cmp_ok(pg_stat_get_xact_function_calls('pawl._work_index(regclass, text, name)'::regprocedure), '<=', 6::bigint,
    'indexes are not looked for among those of other tables');
commit;
select * from finish();
