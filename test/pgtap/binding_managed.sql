-- What pawl.enforce is told of work that is owned: which columns it keeps, what it refuses, and the indexes it makes.
\set QUIET 1
set client_min_messages to error;
select no_plan();
select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    waiting --> running : start
    running --> done : finish
    running --> waiting : fail
    running --> ready : lapse
    ready --> gone : cancel
    waiting --> gone : cancel
    running --> gone : cancel
    done --> [*]
    gone --> [*]
    class running owned$$) as version \gset

-- A table with every managed column, and what pawl.enforce is told of it.
create function make_jobs(name text, suffix text default '') returns void language plpgsql as $$
begin
    execute format('create table %s (id int primary key, state text not null default ''ready'', owner text, lease timestamptz, '
        'token bigint not null default 0, due timestamptz, attempts int not null default 0, max_attempts int, queue text, '
        'priority int not null default 0, created_at timestamptz not null default now()) %s', name, suffix);
end $$;
create function enforce_jobs(name text, more text default '') returns void language plpgsql as $$
begin
    execute format('select pawl.enforce(%L, ''state'', ''job'', owner => ''owner'', lease => ''lease'', token => ''token'', due => ''due'', '
        'attempts => ''attempts'', max_attempts => ''max_attempts'', queue => ''queue'', claim => ''{start}'', '
        'claim_order => ''priority desc, created_at'', lapse => ''lapse'', retry => ''{fail}'' %s)', name, more);
end $$;
create function work_indexes(relation regclass) returns setof text language sql as $$
    select format('%s: %s', i.indexrelid::regclass, substr(pg_get_indexdef(i.indexrelid), strpos(pg_get_indexdef(i.indexrelid), 'btree ') + 6))
      from pg_index i where i.indrelid = relation and i.indpred is not null order by 1 $$;

-- Everything is stored as it was given.
select make_jobs('jobs');
select lives_ok($$select enforce_jobs('jobs', ', lease_time => ''5 min'', backoff => ''{"strategy": "none"}'', operator_events => ''{cancel}'', events => true, wake => true')$$,
    'a table with every managed column');
select results_eq($$select owner_column, lease_column, token_column, due_column, attempts_column, max_attempts_column, queue_column, claim_events,
        claim_columns, claim_descending, lease_time, lapse_event, retry_events, backoff, operator_events, events, wake, managed_attnums from pawl.binding$$,
    $$values ('owner'::name, 'lease'::name, 'token'::name, 'due'::name, 'attempts'::name, 'max_attempts'::name, 'queue'::name, '{start}'::text[],
        '{priority,created_at}'::name[], '{t,f}'::boolean[], '5 min'::interval, 'lapse', '{fail}'::text[], '{"strategy": "none"}'::jsonb,
        '{cancel}'::text[], true, true, '{3,4,5,6,7,8,9,10,11}'::smallint[])$$, 'all of it is in the binding');
select results_eq($$select work_indexes('jobs')$$, $$values
    ('jobs_pawl_claim: (queue, priority DESC, created_at, id) WHERE ((state = ANY (ARRAY[''ready''::text, ''waiting''::text])) AND (due IS NULL))'),
    ('jobs_pawl_due: (due, id) WHERE (due IS NOT NULL)'),
    ('jobs_pawl_owned: (owner, lease) WHERE (owner IS NOT NULL)')$$, 'and it has its indexes');
select is(obj_description('jobs_pawl_claim'::regclass), 'kept by pawl for claims: rows in ready, waiting, in the order they are taken',
    'a DBA is told what the index is for');
select lives_ok($$select pawl.release('jobs')$$, 'released');
select is_empty($$select work_indexes('jobs')$$, 'the indexes go');
select lives_ok($$select pawl.enforce('jobs', 'state', 'job')$$, 'without managed columns');
select is_empty($$select work_indexes('jobs')$$, 'there are none');
select * from finish();
