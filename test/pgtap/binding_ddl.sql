-- Tables whose work is owned, and what people do to them by DDL: partitions, children,
-- renames, drops, newer machines, health.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

-- What health has to say of a table, without what is well.
create function complaints(relation regclass) returns setof text language sql as $$
    select concat_ws(' | ', h.status || ' ' || h.check_name, h.detail, h.hint) from pawl.health() h
        where h.relation = complaints.relation and h.status <> 'ok' $$;
create function managed(relation regclass) returns text language sql as $$
    select concat_ws(' ', state_column, owner_column, lease_column, token_column, due_column, attempts_column,
        max_attempts_column, queue_column, claim_columns, managed_attnums)
      from pawl.binding b where b.relation = managed.relation $$;

-- Partitions have the indexes of their root, also those that come later; one that leaves keeps them as its own.
create table parts (id int, region text, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz, attempts int not null default 0,
    max_attempts int, queue text, priority int not null default 0, created_at timestamptz not null default now(),
    primary key (id, region)) partition by list (region);
create table parts_a partition of parts for values in ('a');
select lives_ok($$select enforce_jobs('parts')$$, 'a partitioned table');
create table parts_b partition of parts for values in ('b');
create table parts_c (like parts including defaults);
alter table parts attach partition parts_c for values in ('c');
select is((select string_agg(format('%s %s', m::regclass,
                (select count(*) from pg_index i where i.indrelid = m and i.indpred is not null)), ', ' order by m)
    from pawl._members('parts'::regclass) m), 'parts 3, parts_a 3, parts_b 3, parts_c 3', 'every partition has three');
select is_empty($$select complaints('parts')$$, 'health is content');
create table parts_d (like parts including defaults);
insert into parts_d (id, region, owner) values (1, 'd', 'w');
select is(outcome($$alter table parts attach partition parts_d for values in ('d')$$),
    '55000 public.parts_d cannot join table public.parts: it has rows with an owner or a lease in states that are not '
    'owned | 1 row in "ready" | update public.parts_d set owner = null, lease = null where state::text not in '
    '(''running'')', 'rows with an owner in the wrong state stay out');
truncate parts_d;
alter table parts_d alter column lease set not null;
select is(outcome($$alter table parts attach partition parts_d for values in ('d')$$),
    '22023 column "lease" of table public.parts_d must allow null | A null value means that the row has no lease. | '
    'select pawl.release(''public.parts'', ''state'')', 'and so does a table whose lease is never null');
select is(outcome($$alter table parts_a alter column owner set not null$$),
    '22023 column "owner" of table public.parts_a must allow null | A null value means that the row has no owner. | '
    'select pawl.release(''public.parts'', ''state'')', 'nor may a partition become one');
create table whole (like parts including defaults) partition by list (region);
create table alone (like parts including defaults, primary key (id, region));
select enforce_jobs('alone') \g /dev/null
select is(outcome($$alter table whole attach partition alone for values in ('a')$$),
    '0A000 public.alone is enforced and cannot be a partition of table public.whole, which is not | A machine is '
    'enforced on a partitioned table as a whole. | select pawl.release(''public.alone''), attach it, and enforce '
    '''public.whole''', 'an enforced table cannot become a partition of one that is not');
select pawl.release('alone') \g /dev/null
select lives_ok($$alter table whole attach partition alone for values in ('a')$$, 'released, it can');
alter table parts detach partition parts_c;
select pawl.release('parts');
select is_empty($$select work_indexes(m) from pawl._members('parts'::regclass) m$$, 'release drops them from all');
select is((select count(*) from work_indexes('parts_c')), 3::bigint,
    'a partition that left keeps its indexes, as any other');

-- Inheritance children get their own, whenever they join, and lose them when they leave.
select make_jobs('base');
create table base_one () inherits (base);
select lives_ok($$select enforce_jobs('base')$$, 'a table with a child');
create table base_two (extra int) inherits (base);
select make_jobs('base_three');
alter table base_three inherit base;
select is((select string_agg(split_part(w, ':', 1), ' ' order by m, w)
    from pawl._members('base'::regclass) m, work_indexes(m) w),
    'base_pawl_claim base_pawl_due base_pawl_owned base_one_pawl_claim base_one_pawl_due base_one_pawl_owned '
    'base_two_pawl_claim base_two_pawl_due base_two_pawl_owned base_three_pawl_claim base_three_pawl_due '
    'base_three_pawl_owned', 'each child has three');
select is_empty($$select complaints('base')$$, 'health is content');
select is(outcome($$create table base_four (check (id > 0), owner text not null) inherits (base)$$),
    '22023 column "owner" of table public.base_four must allow null | A null value means that the row has no owner. | '
    'select pawl.release(''public.base'', ''state'')', 'a child that cannot hold null stays out');
alter table base_three no inherit base;
select is_empty($$select work_indexes('base_three')$$, 'a child that leaves loses them');
drop index base_two_pawl_due;
select results_eq($$select complaints('base')$$, $$values ('error work_indexes | due on public.base_two is missing | '
    'create index concurrently base_two_pawl_due ON public.base_two (due, id) WHERE due IS NOT NULL; comment on index '
    'public.base_two_pawl_due is ''kept by pawl for timers: rows that have a due time''')$$,
    'health says what is missing');
select pawl.release('base');
select is_empty($$select work_indexes(m) from pawl._members('base'::regclass) m$$, 'release drops them from all');

-- Renames are followed, whatever is renamed.
select make_jobs('jobs');
select enforce_jobs('jobs');
alter table jobs rename column owner to "Worker";
alter table jobs rename column lease to until;
alter table jobs rename column token to stamp;
alter table jobs rename column due to at;
alter table jobs rename column attempts to tries;
alter table jobs rename column max_attempts to tries_left;
alter table jobs rename column queue to lane;
alter table jobs rename column priority to rank;
alter table jobs rename column state to phase;
alter table jobs rename column id to number;
select is(managed('jobs'),
    'phase Worker until stamp at tries tries_left lane {rank,created_at} {3,4,5,6,7,8,9,0,10,11}',
    'every managed column is followed');
create schema other;
alter table jobs rename to duties;
alter table duties set schema other;
alter index other.jobs_pawl_claim rename to duties_pawl_claim;
select is_empty($$select complaints('other.duties')$$, 'health knows the indexes again');
select is(outcome($$select pawl._make_indexes(b) from pawl.binding b where relation = 'other.duties'::regclass$$), 'ok',
    'indexes of a binding without managed columns are none');
select is((select string_agg(split_part(w, ':', 1), ' ') from work_indexes('other.duties') w),
    'other.duties_pawl_claim other.jobs_pawl_due other.jobs_pawl_owned', 'is made twice');
-- a binding that a restore wrote without triggers has no numbers: the names decide
alter table pawl.binding disable trigger owner_only;
update pawl.binding set relation_oid = null, managed_attnums = null;
alter table pawl.binding enable trigger owner_only;
alter table other.duties rename column until to lease;
select is(managed('other.duties'), 'phase Worker lease stamp at tries tries_left lane {rank,created_at} '
    '{3,4,5,6,7,8,9,0,10,11}', 'a rename right after a restore is followed too');

-- What is needed cannot go, nor become something else.
select is(outcome(format('alter table other.duties drop column %I', name)),
    format('2BP01 column "%s" of table other.duties cannot be dropped: a binding depends on it | It is %s of the '
            'binding on column "phase". | select pawl.release(''other.duties'', ''phase'')', name, role),
    name || ' stays')
  from (values ('Worker', 'owner'), ('lease', 'lease'), ('stamp', 'token'), ('at', 'due'), ('tries', 'attempts'),
      ('tries_left', 'max_attempts'), ('lane', 'queue'),
               ('rank', 'part of the claim order'), ('created_at', 'part of the claim order'),
               ('number', 'part of the key'), ('phase', 'the state')) v(name, role);
select is(outcome(format('alter table other.duties %s', command)), answer, command) from (values
    ('alter column "Worker" type uuid using null',
        '2BP01 column "Worker" of table other.duties is a managed column: its values cannot be rewritten | ALTER '
        'COLUMN ... TYPE ... USING would write rows without validation. | keep what pawl.definition(''other.duties'', '
        '''phase'') returns, select pawl.release(''other.duties'', ''phase''), alter it, and run that'),
    ('alter column lease type timestamp', '42804 column "lease" of table other.duties is of type timestamp without '
    'time zone | select pawl.release(''other.duties'', ''phase'')'),
    ('alter column "Worker" set not null', '22023 column "Worker" of table other.duties must allow null | A null '
    'value means that the row has no owner. | select pawl.release(''other.duties'', ''phase'')'),
    ('alter column stamp type numeric', '42804 column "stamp" of table other.duties is of type numeric | select '
    'pawl.release(''other.duties'', ''phase'')'),
    ('alter column "Worker" type varchar using ''me''',
        '2BP01 column "Worker" of table other.duties is a managed column: its values cannot be rewritten | ALTER '
        'COLUMN ... TYPE ... USING would write rows without validation. | keep what pawl.definition(''other.duties'', '
        '''phase'') returns, select pawl.release(''other.duties'', ''phase''), alter it, and run that'),
    ('alter column "Worker" type varchar(50)', 'ok'),
    ('alter column tries type smallint', 'ok'),
    ('alter column rank type bigint', 'ok')) v(command, answer);
select is_empty($$select complaints('other.duties')$$, 'health is content after all this');

-- Health: indexes that are missing, invalid or other ones; columns that are gone behind
-- pawl's back; what nothing leads out of.
drop index other.jobs_pawl_owned;
update pg_index set indisvalid = false where indexrelid = 'other.jobs_pawl_due'::regclass;
update pawl.binding set claim_descending = '{f,f}';
select results_eq($$select complaints('other.duties')$$, $$values ('error work_indexes | claim on other.duties is '
    'another one, due on other.duties is invalid, owned on other.duties is missing | '
    'drop index other.duties_pawl_claim; create index concurrently duties_pawl_claim ON other.duties (lane, rank, '
    'created_at, number) WHERE phase IN (''ready'', ''waiting'') AND at IS NULL; '
    'comment on index other.duties_pawl_claim is ''kept by pawl for claims: rows in ready, waiting, in claim order''; '
    'drop index other.jobs_pawl_due; create index concurrently jobs_pawl_due ON other.duties (at, number) WHERE at IS '
    'NOT NULL; comment on index other.jobs_pawl_due is ''kept by pawl for timers: rows that have a due time''; '
    'create index concurrently duties_pawl_owned ON other.duties ("Worker", lease) WHERE "Worker" IS NOT NULL; '
    'comment on index other.duties_pawl_owned is ''kept by pawl for leases: rows that have an owner''')$$,
    'health sees all three');
do $$ declare command text; begin
    foreach command in array string_to_array((select replace(hint, 'concurrently ', '') from pawl.health()
        where check_name = 'work_indexes' and status = 'error'), '; ') loop execute command; end loop;
end $$;
select is_empty($$select complaints('other.duties')$$, 'and its hint mends them');
alter event trigger pawl_gone disable;
alter event trigger pawl_follow disable;
alter table other.duties drop column lane;
select results_eq($$select complaints('other.duties')$$, $$values ('error managed_columns | column "lane" of table '
    'other.duties does not exist | alter table other.duties add column lane text')$$,
    'health sees a column that is gone');
alter table other.duties add column lane text;
alter table other.duties alter column lease set not null;
select results_eq($$select complaints('other.duties')$$, $$values ('error managed_columns | column "lease" of table '
    'other.duties must allow null: A null value means that the row has no lease. | alter table other.duties alter '
    'column lease drop not null')$$, 'and one that is not null');
alter table other.duties alter column lease drop not null;
alter event trigger pawl_gone enable;
alter event trigger pawl_follow enable;
select is(outcome($$select pawl.release('other.duties')$$), 'ok', 'it can be released');
select is_empty($$select work_indexes('other.duties')$$, 'and nothing of pawl stays');

-- What nothing leads out of (that pawl.enforce warns of it is in test/sql/work.sql).
select pawl.define('slow', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> checking : check
    running --> ready : expire
    checking --> done : finish
    ready --> gone : give_up after 1 day
    done --> [*]
    gone --> [*]
    class running,checking owned$$) as version \gset
select make_jobs('slow_jobs');
select pawl.enforce('slow_jobs', 'state', 'slow'),
    pawl.enable_queue('slow_jobs', 'state', owner => 'owner', lease => 'lease'),
    pawl.set_claiming('slow_jobs', 'state', on_expiry => 'expire');
select results_eq($$select complaints('slow_jobs')$$, $$values
    ('warning on_expiry | no transition for expired leases leaves "checking" | define a machine with checking --> '
    '... : expire'),
    ('info timers | timed transitions leave "ready", but there is no due column | alter table public.slow_jobs add '
    'column due timestamptz; select pawl.enable_timers(''public.slow_jobs'', ''state'', due => ''due'')')$$,
    'states that nothing leads out of');
select pawl.release('slow_jobs');
select pawl.enforce('slow_jobs', 'state', 'slow'),
    pawl.enable_queue('slow_jobs', 'state', owner => 'owner', lease => 'lease'),
    pawl.enable_timers('slow_jobs', 'state', due => 'due');
select results_eq($$select complaints('slow_jobs')$$, $$values ('warning on_expiry | no transition for expired leases '
    'leaves "running", "checking" | select pawl.set_claiming(''public.slow_jobs'', ''state'', on_expiry => ...)')$$,
    'no event for expired leases at all');
select pawl.release('slow_jobs');
select pawl.enforce('slow_jobs', 'state', 'slow');
select results_eq($$select complaints('slow_jobs')$$, $$values ('info queue | states "running", "checking" are owned, '
    'but there is no owner column | select pawl.enable_queue(''public.slow_jobs'', ''state'', owner => ...)'),
    ('info timers | timed transitions leave "ready", but there is no due column | alter table public.slow_jobs add '
    'column due timestamptz; select pawl.enable_timers(''public.slow_jobs'', ''state'', due => ''due'')')$$,
    'a lifecycle without owners is not asked about leases');

-- A newer version of the machine is checked the same way, and the claim index follows the claimable states.
select make_jobs('tasks');
select enforce_jobs('tasks');
insert into tasks (id, state) values (1, 'ready'), (2, 'ready');
select pawl.define('job', replace(pawl.diagram('job'), 'running --> done : finish', 'running --> done : finish'
        || E'\n    parked --> running : start\n    ready --> parked : park\n    parked --> ready : unpark'))
    as version \gset
select is(pawl.upgrade('tasks'), 2, 'another state to claim from');
select is((select w from work_indexes('tasks') w where w ~ 'claim'),
    'tasks_pawl_claim: (queue, priority DESC, created_at, id) WHERE ((state = ANY (ARRAY[''ready''::text, '
    '''waiting''::text, ''parked''::text])) AND (due IS NULL))', 'is in the claim index');
select is_empty($$select complaints('tasks')$$, 'health is content');
select pawl.define('job', replace(pawl.diagram('job'), 'expire', 'time_out')) as version \gset
select is(outcome($$select pawl.upgrade('tasks')$$), 'PW008 machine "job" has no event "expire", given in on_expiry | '
    'Version 3 has "start", "finish", "park", "unpark", "fail", "time_out", "cancel".',
    'a version without the event of on_expiry is rejected');
select pawl.define('job', replace(replace(pawl.diagram('job'), 'time_out', 'expire'), 'class running owned', ''))
    as version \gset
select matches(outcome($$select pawl.upgrade('tasks')$$), '^22023 machine "job" has no state in which rows are owned',
    'one without owned states too');
select is((select version from pawl.binding where relation = 'tasks'::regclass), 2, 'the table stays at its version');

-- The schemas of extensions.
create extension pawl_dag;
select throws_ok('alter schema pawl rename to p', '0A000', 'the schema of extension "pawl" cannot be renamed',
    'the schema of pawl keeps its name');
select throws_ok('alter schema pawl_dag rename to d', '0A000', 'the schema of extension "pawl_dag" cannot be renamed',
    'so does that of a pack');
create schema pawl_other;
select lives_ok('alter schema pawl_other rename to pawl_another', 'any other may be renamed');
select * from finish();
