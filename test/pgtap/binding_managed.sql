-- pawl.enforce and the functions beside it, for work that is owned: which columns they
-- keep, what they reject, and the indexes they make.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

-- Everything is stored as it was given.
select make_jobs('jobs');
select lives_ok($$select enforce_jobs('jobs'),
    pawl.set_claiming('jobs', lease_time => '5 min', backoff => '{"strategy": "none"}', operator_events => '{cancel}'),
    pawl.enable_events('jobs', wake => true)$$,
    'a table with every managed column');
select results_eq($$select owner_column, lease_column, token_column, due_column, attempts_column, max_attempts_column,
    queue_column, claim_events,
        claim_columns, claim_descending, lease_time, on_expiry, retry_events, backoff, operator_events, events, wake,
            managed_attnums from pawl.binding$$,
    $$values ('owner'::name, 'lease'::name, 'token'::name, 'due'::name, 'attempts'::name, 'max_attempts'::name,
        'queue'::name, '{start}'::text[],
        '{priority,created_at}'::name[], '{t,f}'::boolean[], '5 min'::interval, 'expire', '{fail}'::text[],
        '{"strategy": "none"}'::jsonb,
        '{cancel}'::text[], true, true, '{3,4,5,6,7,8,9,0,10,11}'::smallint[])$$, 'all of it is in the binding');
select results_eq($$select work_indexes('jobs')$$, $$values
    ('jobs_pawl_claim: (queue, priority DESC, created_at, id) WHERE ((state = ANY (ARRAY[''ready''::text, '
    '''waiting''::text])) AND (due IS NULL))'), ('jobs_pawl_due: (due, id) WHERE (due IS NOT NULL)'),
    ('jobs_pawl_owned: (owner, lease) WHERE (owner IS NOT NULL)')$$, 'and it has its indexes');
select is(obj_description('jobs_pawl_claim'::regclass),
    'kept by pawl for claims: rows in ready, waiting, in claim order',
    'the comment of the index says what it is for');
select lives_ok($$select pawl.release('jobs')$$, 'a table with managed columns can be released');
select is_empty($$select work_indexes('jobs')$$, 'the indexes go');
select lives_ok($$select pawl.enforce('jobs', 'state', 'job')$$, 'without managed columns');
select is_empty($$select work_indexes('jobs')$$, 'there are none');
drop table jobs;

-- The order of claims, as in ORDER BY.
select is((select (names, descending)::text from pawl._claim_order(given)), read, given) from (values
    ('priority', '({priority},{f})'), ('Priority DESC, Created_At', '("{priority,created_at}","{t,f}")'),
        (' a  asc ,"B c" desc', '("{a,""B c""}","{f,t}")'),
    ('"a""b,c" DESC', '("{""a\\""b,c""}",{t})'), ('größe desc,a$1', '("{größe,a$1}","{t,f}")'),
    ('"desc" desc', '({desc},{t})'), ('descent', '({descent},{f})')) v(given, read);
select is(outcome(format('select pawl._claim_order(%L)', given)), answer, 'rejected: ' || given) from (values
    ('', '42601 claim_order must be a list of columns | Invalid from here: "". | claim_order => ''priority desc, '
        'created_at'''),
    ('a,', '42601 claim_order must be a list of columns | Invalid from here: "". | claim_order => ''priority desc, '
    'created_at'''),
    ('a, lower(b)', '42601 claim_order must be a list of columns | Invalid from here: "lower(b)". | claim_order => '
    '''priority desc, created_at'''),
    ('a descending', '42601 claim_order must be a list of columns | Invalid from here: "a descending". | claim_order '
    '=> ''priority desc, created_at'''),
    ('a; drop table jobs', '42601 claim_order must be a list of columns | Invalid from here: "a; drop table jobs". | '
    'claim_order => ''priority desc, created_at'''),
    ('a desc nulls last', '0A000 claim_order does not allow NULLS FIRST or NULLS LAST | Nulls sort last in ascending '
    'and first in descending order, as in an index. | make the column not null, or omit NULLS'),
    ('a, b, A desc', '42701 claim_order contains a column twice')) v(given, answer);

-- What does not fit is rejected with an error that says what would.
create table odd (id int primary key, state text not null default 'ready', owner text, lease timestamptz, token bigint,
    due timestamptz,
    attempts int, max_attempts int, queue text, priority int, busy text not null default '',
    ends timestamptz not null default now(),
    day date, number numeric, spot point, made int generated always as (id + 1) stored,
    serial int generated always as identity, other text);
create domain present as text not null;
alter table odd add column here present default 'x';
create function tried(more text) returns text language sql as $$ 
    select outcome('select pawl.enforce(''odd'', ''state'', ''job''), '
        || regexp_replace(more, 'pawl\.(\w+)\(', 'pawl.\1(''odd'', ''state'', ', 'g')) $$;
select is(tried(more), answer, answer) from (values
    ('pawl.enable_queue(owner => ''worker'')',
        '42703 column "worker" of table public.odd does not exist | alter table public.odd add column worker text'),
    ('pawl.enable_timers(due => ''ctid'')',
        '42703 column "ctid" of table public.odd does not exist | alter table public.odd add column ctid timestamptz'),
    ('pawl.enable_queue(owner => ''owner'', lease => ''until'')', '42703 column "until" of table public.odd does not '
    'exist | alter table public.odd add column until timestamptz'),
    ('pawl.enable_queue(owner => ''priority'')', '42804 column "priority" of table public.odd is of type integer | '
    'owner is a column of type text, varchar, uuid, or a domain over one of them'),
    ('pawl.enable_queue(owner => ''owner'', lease => ''day'')',
        '42804 column "day" of table public.odd is of type date | lease is a column of type timestamptz'),
    ('pawl.enable_queue(owner => ''owner'', token => ''number'')',
        '42804 column "number" of table public.odd is of type numeric | token is a column of type bigint or integer'),
    ('pawl.enable_timers(due => ''day'')',
        '42804 column "day" of table public.odd is of type date | due is a column of type timestamptz'),
    ('pawl.enable_queue(owner => ''owner'', attempts => ''token'')', '42804 column "token" of table public.odd is of '
    'type bigint | attempts is a column of type integer or smallint'),
    ('pawl.enable_queue(owner => ''owner'', attempts => ''attempts'', max_attempts => ''token'')',
        '42804 column "token" of table public.odd is of type bigint | max_attempts is a column of type '
        'integer or smallint'),
    ('pawl.enable_queue(owner => ''owner'', queue => ''day''), pawl.set_claiming(claim => ''{start}'')',
        '42804 column "day" of table public.odd is of type date | queue is a column of type text, varchar, an enum, '
        'uuid, integer or bigint'),
    ('pawl.enable_queue(owner => ''owner'', queue => ''here''), pawl.set_claiming(claim => ''{start}'')',
        '42804 column "here" of table public.odd is of type public.present | queue is a column of type text, varchar, '
        'an enum, uuid, integer or bigint'),
    ('pawl.enable_queue(owner => ''busy'')', '22023 column "busy" of table public.odd must allow null | A null value '
    'means that the row has no owner. | alter table public.odd alter column busy drop not null'),
    ('pawl.enable_queue(owner => ''here'')', '22023 column "here" of table public.odd must allow null | A null value '
    'means that the row has no owner. | alter table public.odd alter column here type text'),
    ('pawl.enable_queue(owner => ''owner'', lease => ''ends'')', '22023 column "ends" of table public.odd must allow '
    'null | A null value means that the row has no lease. | alter table public.odd alter column ends drop not null'),
    ('pawl.enable_timers(due => ''ends'')', '22023 column "ends" of table public.odd must allow null | A null value '
    'means that the row has no due time. | alter table public.odd alter column ends drop not null'),
    ('pawl.enable_queue(owner => ''owner'', token => ''made'')', '0A000 column "made" of table public.odd cannot be '
    'written | It is a generated column. | name another column: token => ...'),
    ('pawl.enable_queue(owner => ''owner'', attempts => ''serial'')', '0A000 column "serial" of table public.odd '
    'cannot be written | It is an identity column. | name another column: attempts => ...'),
    ('pawl.enable_queue(owner => ''state'')', '22023 column "state" of table public.odd must allow null | A null '
    'value means that the row has no owner. | alter table public.odd alter column state drop not null'),
    ('pawl.enable_queue(owner => ''owner'', token => ''id'')',
        '22023 column "id" cannot be token: it is part of the key | name another column: token => ...'),
    ('pawl.enable_queue(owner => ''owner'', lease => ''due''), pawl.enable_timers(due => ''due'')',
        '22023 column "due" cannot be due: it is lease | name another column: due => ...'),
    ('pawl.enable_queue(owner => ''owner'', queue => ''owner''), pawl.set_claiming(claim => ''{start}'')',
        '22023 column "owner" cannot be queue: it is owner | name another column: queue => ...'),
    ('pawl.enable_queue(owner => ''owner'', queue => ''state''), pawl.set_claiming(claim => ''{start}'')',
        '22023 column "state" cannot be queue: it is the state | name another column: queue => ...'),
    -- one argument without another
    ('pawl.enable_queue(lease => ''lease'')',
        '22023 lease needs an owner column | select pawl.enable_queue(''public.odd'', ''state'', owner => ...)'),
    ('pawl.enable_queue(token => ''token'')',
        '22023 token needs an owner column | select pawl.enable_queue(''public.odd'', ''state'', owner => ...)'),
    ('pawl.enable_queue(attempts => ''attempts'')',
        '22023 attempts needs an owner column | select pawl.enable_queue(''public.odd'', ''state'', owner => ...)'),
    ('pawl.enable_queue(owner => ''owner'', max_attempts => ''max_attempts'')',
        '22023 max_attempts needs an attempts column | select '
            'pawl.enable_queue(''public.odd'', ''state'', attempts => ...)'),
    ('pawl.set_claiming(claim => ''{start}'')',
        '22023 claim needs an owner column | select pawl.enable_queue(''public.odd'', ''state'', owner => ...)'),
    ('pawl.set_claiming(claim_order => ''priority'')',
        '22023 claim_order needs claim | select pawl.set_claiming(''public.odd'', ''state'', claim => ...)'),
    ('pawl.enable_queue(queue => ''queue'')',
        '22023 queue needs an owner column | select pawl.enable_queue(''public.odd'', ''state'', owner => ...)'),
    ('pawl.enable_events(events => false, wake => true)',
        '22023 wake needs claim | select pawl.set_claiming(''public.odd'', ''state'', claim => ...)'),
    ('pawl.enable_queue(owner => ''owner''), pawl.set_claiming(on_expiry => ''expire'')',
        '22023 on_expiry needs a lease column | select pawl.enable_queue(''public.odd'', ''state'', lease => ...)'),
    ('pawl.enable_queue(owner => ''owner'', attempts => ''attempts''), pawl.set_claiming(retry => ''{fail}'')',
        '22023 retry needs a due column | select pawl.enable_timers(''public.odd'', ''state'', due => ...)'),
    ('pawl.enable_timers(due => ''due''), pawl.set_claiming(retry => ''{fail}'')',
        '22023 retry needs an attempts column | select pawl.enable_queue(''public.odd'', ''state'', attempts => ...)'),
    ('pawl.set_claiming(backoff => ''{"base": "1 s"}'')',
        '22023 backoff needs retry | select pawl.set_claiming(''public.odd'', ''state'', retry => ...)'),
    ('pawl.set_claiming(lease_time => ''0'')',
        '22023 lease_time must be positive and at most 100 years | It is 00:00:00. | lease_time => ''60 s'''),
    ('pawl.set_claiming(lease_time => ''-1 s'')',
        '22023 lease_time must be positive and at most 100 years | It is -00:00:01. | lease_time => ''60 s'''),
    -- events
    ('pawl.enable_queue(owner => ''owner''), pawl.set_claiming(claim => ''{begin}'')',
        'PW008 machine "job" has no event "begin", given in claim | Version 1 has "start", "finish", "fail", '
        '"expire", "cancel".'),
    ('pawl.enable_queue(owner => ''owner'', lease => ''lease''), pawl.set_claiming(on_expiry => ''crash'')',
        'PW008 machine "job" has no event "crash", given in on_expiry | Version 1 has "start", "finish", "fail", '
        '"expire", "cancel".'),
    ('pawl.enable_queue(owner => ''owner'', attempts => ''attempts''), pawl.enable_timers(due => ''due''), '
    'pawl.set_claiming(retry => ''{fail,again}'')', 'PW008 machine "job" has no event "again", given in retry | '
    'Version 1 has "start", "finish", "fail", "expire", "cancel".'),
    ('pawl.set_claiming(operator_events => ''{stop}'')', 'PW008 machine "job" has no event "stop", given in '
    'operator_events | Version 1 has "start", "finish", "fail", "expire", "cancel".'),
    ('pawl.enable_queue(owner => ''owner''), pawl.set_claiming(claim => ''{start,null}'')',
        '22023 claim must be a list of events | claim => array[''...'']'),
    ('pawl.enable_queue(owner => ''owner''), pawl.set_claiming(claim => ''{start,finish}'')',
        '22023 event "finish" cannot claim rows: it leads from no unowned state to an owned state | Owned states are '
        '"running". | choose another event, or tag the state that it enters: class ... owned'),
    ('pawl.enable_queue(owner => ''owner'', lease => ''lease''), pawl.set_claiming(on_expiry => ''start'')',
        '22023 event "start" leaves no owned state, so it cannot be fired for an expired lease | Owned states are '
        '"running". | running --> ... : start'),
    ('pawl.enable_queue(owner => ''owner'', attempts => ''attempts''), pawl.enable_timers(due => ''due''), '
            'pawl.set_claiming(retry => ''{finish}'')',
        '22023 event "finish" cannot retry rows: all its transitions end in terminal states'),
    -- the order of claims, the backoff
    ('pawl.enable_queue(owner => ''owner''), pawl.set_claiming(claim => ''{start}'', claim_order => ''urgency'')',
        '42703 column "urgency" of table public.odd, given in claim_order, does not exist'),
    (
        'pawl.enable_queue(owner => ''owner''), pawl.set_claiming(claim => ''{start}'', claim_order => '
        '''priority, spot'')', '42804 column "spot" of table public.odd, given in claim_order, is of type point | '
        'This type has no ordering operator.'),
    ('pawl.enable_queue(owner => ''owner''), pawl.set_claiming(claim => ''{start}'', claim_order => ''owner'')',
        '22023 claim_order cannot name column "owner" | Rows that can be claimed have no owner, lease or due time.'),
    ('pawl.enable_queue(owner => ''owner''), pawl.set_claiming(claim => ''{start}'', claim_order => ''priority '
    'nulls first'')', '0A000 claim_order does not allow NULLS FIRST or NULLS LAST | Nulls sort last in ascending and '
    'first in descending order, as in an index. | make the column not null, or omit NULLS'),
    ('pawl.enable_queue(owner => ''owner'', attempts => ''attempts''), pawl.enable_timers(due => ''due''), '
            'pawl.set_claiming(retry => ''{fail}'', backoff => ''[1]'')',
        '22023 backoff must be a JSON object | {"strategy": "exponential", "base": "1 s", "cap": "1 h"}')
    ) v(more, answer);
select is(tried('pawl.set_claiming(operator_events => ''{{cancel}}'')'),
    '22023 operator_events must be a one-dimensional array | It has 2 dimensions. | operator_events => ''{reset}''',
    'a list of lists is rejected');
select is_empty($$select from pawl.binding$$, 'nothing of all this was attached');
select is_empty($$select work_indexes('odd')$$, 'and no index made');

-- A machine without owned states, and a table without a key.
select pawl.define('free', $$stateDiagram-v2
    [*] --> ready
    ready --> busy : start
    busy --> [*]$$) as version \gset
select is(outcome($$select pawl.enforce('odd', 'state', 'free'), pawl.enable_queue('odd', 'state', owner => 'owner'),
    pawl.set_claiming('odd', 'state', claim => '{start}')$$),
    '22023 machine "free" has no state in which rows are owned | No state of version 1 is tagged "owned". | class '
    'running owned', 'an owner needs an owned state');
create table keyless (state text not null, owner text, due timestamptz);
select is(outcome($$select pawl.enforce('keyless', 'state', 'job'),
    $$ || replace(more, '(', '(''keyless'', ''state'', ')),
    '55000 table public.keyless has no key by which its rows can be owned or timed | It has no primary key. | add '
    'one, or name columns that identify a row: select pawl.enforce(''public.keyless'', ''state'', ''job'', key '
    '=> array[...])', more)
  from (values ('pawl.enable_queue(owner => ''owner'')'), ('pawl.enable_timers(due => ''due'')')) v(more);

-- Rows that are there: an owner outside the owned states is rejected, a row without one inside them is not.
insert into odd (id, state, owner, lease) values (1, 'ready', null, null), (2, 'ready', 'w', null),
    (3, 'waiting', 'w', now()), (4, 'ready', null, now()), (5, 'running', 'w', now());
select
    is(tried('pawl.enable_queue(owner => ''owner'', lease => ''lease''), pawl.set_claiming(on_expiry => ''expire'')'),
    '55000 table public.odd has rows with an owner or a lease in states that are not owned | 2 rows in "ready", 1 row '
    'in "waiting" | update public.odd set owner = null, lease = null where state::text not in (''running'')',
    'rows are counted by state');
select is(tried('pawl.enable_queue(owner => ''owner'')'),
    '55000 table public.odd has rows with an owner or a lease in states that are not owned | 1 row in "ready", 1 row '
    'in "waiting" | update public.odd set owner = null where state::text not in (''running'')',
    'only the columns that are named count');
update public.odd set owner = null, lease = null where state::text not in ('running');
insert into odd (id, state) values (6, 'running');
select
    is(tried('pawl.enable_queue(owner => ''owner'', lease => ''lease''), pawl.set_claiming(on_expiry => ''expire'')'),
        'ok', 'after the hint they are accepted, also an owned row without an owner');

-- Two bindings of one table.
create table twice (id int primary key, state text not null, phase text not null, owner text, owner2 text, queue text,
    due timestamptz);
select pawl.enforce('twice', 'state', 'job'), pawl.enable_queue('twice', 'state', owner => 'owner', queue => 'queue'),
    pawl.set_claiming('twice', 'state', claim => '{start}');
select is(outcome($$select pawl.enforce('twice', 'phase', 'job'),
    $$ || regexp_replace(more, 'pawl\.(\w+)\(', 'pawl.\1(''twice'', ''phase'', ', 'g')), answer, answer) from (values
    ('pawl.enable_queue(owner => ''owner'')', '22023 column "owner" of table public.twice is used by two bindings | '
        'The binding on column "state" uses it too. | alter table public.twice add column ... and name that'),
    ('pawl.enable_queue(owner => ''owner2'', queue => ''owner''), pawl.set_claiming(claim => ''{start}'')',
                '22023 column "owner" of table public.twice is used by two bindings | The binding on column "state" '
                'uses it too. | alter table public.twice add column ... and name that')) v(more, answer);
select is(outcome($$select pawl.enforce('twice', 'owner2', 'job')$$), 'ok',
    'a column that no binding keeps may be a second state');
select is(outcome($$select pawl.enforce('twice', 'phase', 'job'),
    pawl.enable_queue('twice', 'phase', owner => 'owner2')$$),
    '22023 column "owner2" of table public.twice is used by two bindings | The binding on column "owner2" uses it '
    'too. | alter table public.twice add column ... and name that', 'but then not an owner too');
select pawl.release('twice', 'owner2');
select is(outcome($$select pawl.enforce('twice', 'owner', 'job')$$),
    '22023 column "owner" of table public.twice is used by two bindings | The binding on column "state" uses it too. '
    '| alter table public.twice add column ... and name that', 'nor an owner a state');
select is(outcome($$select pawl.enforce('twice', 'phase', 'job'),
    pawl.enable_queue('twice', 'phase', owner => 'owner2', queue => 'queue'),
    pawl.enable_timers('twice', 'phase', due => 'due'), pawl.set_claiming('twice', 'phase', claim => '{start}')$$),
    'ok', 'a queue is only read, and may be shared');
select results_eq($$select work_indexes('twice')$$, $$values
    ('twice_pawl_claim: (queue, id) WHERE (state = ANY (ARRAY[''ready''::text, ''waiting''::text]))'),
    ('twice_pawl_due: (due, id) WHERE (due IS NOT NULL)'),
    ('twice_pawl_owned: (owner) WHERE (owner IS NOT NULL)'),
    ('twice_phase_pawl_claim: (queue, id) WHERE ((phase = ANY (ARRAY[''ready''::text, ''waiting''::text])) AND '
    '(due IS NULL))'),
    ('twice_phase_pawl_owned: (owner2) WHERE (owner2 IS NOT NULL)')$$, 'each lifecycle has its own indexes');
select pawl.release('twice', 'state');
select results_eq($$select split_part(work_indexes('twice'), ':', 1)$$,
    $$values ('twice_pawl_due'), ('twice_phase_pawl_claim'), ('twice_phase_pawl_owned')$$, 'and takes only them along');

-- Names: cut like a log's; a name that something else has is rejected; an index of pawl
-- that was left behind is used again.
create table a_very_long_table_name_that_leaves_no_room_for_what_comes_after (id int primary key, state text not null,
    owner text);
select pawl.enforce('a_very_long_table_name_that_leaves_no_room_for_what_comes_after', 'state', 'job'),
    pawl.enable_queue('a_very_long_table_name_that_leaves_no_room_for_what_comes_after', 'state', owner => 'owner'),
    pawl.set_claiming('a_very_long_table_name_that_leaves_no_room_for_what_comes_after', 'state', claim => '{start}');
select ok(bool_and(split_part(w, ':', 1) ~ '^a_very_long.*_[0-9a-f]{6}_pawl_(claim|owned)$'
    and octet_length(split_part(w, ':', 1)) <= 63), 'names are cut, not their endings')
  from work_indexes('a_very_long_table_name_that_leaves_no_room_for_what_comes_after') w;
create table taken (id int primary key, state text not null, owner text);
create table taken_pawl_owned (); 
select is(outcome($$select pawl.enforce('taken', 'state', 'job'),
    pawl.enable_queue('taken', 'state', owner => 'owner')$$), 'ok', 'a name that is taken: the column is added');
select is((select string_agg(split_part(w, ':', 1), ' ') from work_indexes('taken') w), 'taken_state_pawl_owned',
    'to the name');
select pawl.release('taken');
create table taken_state_pawl_owned ();
select is(outcome($$select pawl.enforce('taken', 'state', 'job'),
    pawl.enable_queue('taken', 'state', owner => 'owner')$$),
    '42P07 relation "taken_state_pawl_owned" exists and is not an index of the extension on table public.taken | '
    'Claims, leases and timers need an index of that name. | rename that relation', 'both are taken');

-- Every type that is allowed; the state as varchar, enum and domain.
create type lane as enum ('slow', 'fast');
create type job_state as enum ('ready', 'waiting', 'running', 'done', 'gone');
create domain worker as varchar(40) check (value <> '');
create domain job_state_domain as job_state;
create domain job_text as text;
create function try_types(state text, owner text, token text, attempts text, queue text) returns text
    language plpgsql as $$
declare answer text;
begin
    execute format('create table typed (id uuid primary key, state %s not null, owner %s, lease timestamptz, token '
        '%s, due timestamptz, attempts %s, limits %4$s, queue %s, rank numeric)',
                   state, owner, token, attempts, queue);
    answer := outcome($q$select pawl.enforce('typed', 'state', 'job'),
        pawl.enable_queue('typed', 'state', owner => 'owner', lease => 'lease', token => 'token',
            attempts => 'attempts', max_attempts => 'limits', queue => 'queue'),
        pawl.enable_timers('typed', 'state', due => 'due'),
        pawl.set_claiming('typed', 'state', claim => '{start}', claim_order => 'rank desc', on_expiry => 'expire',
            retry => '{fail}')$q$);
    answer := answer || coalesce((select ' ' || string_agg(s.kind || ' ' || s.fits, ', ')
            from pawl.binding b, pawl._work_index_state(b) s where b.relation = 'typed'::regclass), '');
    drop table typed;
    return answer;
end $$;
select is(try_types(state, owner, token, attempts, queue), 'ok claim true, due true, owned true',
        concat_ws(', ', state, owner, token, attempts, queue)) from (values
    ('text', 'text', 'bigint', 'integer', 'text'), ('varchar(20)', 'varchar(20)', 'integer', 'smallint', 'varchar(9)'),
        ('job_state', 'uuid', 'bigint', 'integer', 'lane'),
    ('job_state_domain', 'worker', 'bigint', 'integer', 'uuid'), ('job_text', 'text', 'bigint', 'integer', 'integer'),
    ('varchar', 'text', 'bigint', 'integer', 'bigint')) v(state, owner, token, attempts, queue);
select * from finish();
