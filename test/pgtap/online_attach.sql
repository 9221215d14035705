-- Online attach: validate => false guards new writes at once, and pawl.validate checks what was there and begins its
-- history, batch by batch.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    [*] --> draft : write
    new --> paid : pay
    draft --> new : submit
    paid --> sent : send
    sent --> [*]$$) as version \gset

-- A log of each kind, on a plain table, a partitioned one, and one with an inheritance child.
create function make_orders(name text, kind text) returns void language plpgsql as $$
begin
    execute format('create table %I (id int, code text, state text default ''new''%s)%s', name,
        case when kind = 'partitioned' then '' else ', primary key (id)' end,
        case when kind = 'partitioned' then ' partition by range (id)' else '' end);
    if kind = 'partitioned' then
        execute format('alter table %1$I add primary key (id); create table %2$I partition of %1$I for values from (0) '
            'to (100); create table %3$I partition of %1$I for values from (100) to (1000)', name, name || '_1', name ||
            '_2');
    elsif kind = 'inherited' then
        execute format('create table %2$I (more text, primary key (id)) inherits (%1$I)', name, name || '_child');
        execute format('insert into %I select n, ''c'', ''paid'' from generate_series(150, 250) n', name || '_child');
    end if;
    execute format('insert into %I select n, ''c'', case n %% 3 when 0 then ''new'' when 1 then ''paid'' else ''sent'' '
        'end from generate_series(1, 120) n', name);
end $$;
create function validate_fully(target regclass, batch int default 7) returns bigint language plpgsql as $$
declare
    got record;
    calls bigint := 0;
begin
    loop
        select * into got from pawl.validate(target, batch => batch);
        calls := calls + 1;
        exit when got.validated;
        if calls > 1000 then
            raise 'after % calls % is not validated', calls, target;
        end if;
    end loop;
    return calls;
end $$;
-- Every row has one beginning, and is where its log ends.
create function beginnings(target regclass) returns text language plpgsql as $$
declare
    answer text;
    log regclass := (select coalesce(history_view, history) from pawl.binding where relation = target);
begin
    execute format('select format(''%%s rows, %%s beginnings, %%s keys twice'', (select count(*) from %s), count(*), '
        'count(*) - count(distinct subject_id)) from %s where event = ''pawl.attach''', target, log) into answer;
    return answer;
end $$;

create temp table cells as
    select format('o_%s_%s_%s', kind, case when hash_chain then 'chain' else most_recent end, part is not null) as name,
        kind, most_recent, hash_chain, part
      from unnest('{plain,partitioned,inherited}'::text[]) kind,
        (values ('derived', false, null), ('stored', false, null), ('derived', true, null),
                ('derived', false, 'hash (id) partitions 2')) l(most_recent, hash_chain, part);
select make_orders(name, kind) from cells;
select pawl.enforce(name::regclass, 'state', 'order', validate => false) from cells;
select pawl.enable_log(name::regclass, 'state', most_recent => most_recent, hash_chain => hash_chain,
    log_partition => part) from cells;
select is((select count(*) from pawl.binding where not validated), (select count(*) from cells),
    'each binding is not validated');
create function every(name text, statement text) returns setof text language plpgsql as $$
begin
    return query execute replace(statement, '{}', name);
end $$;
select is(beginnings(name::regclass), case kind when 'inherited' then '221' else '120' end
    || ' rows, 0 beginnings, 0 keys twice', name || ': no row was read') from cells;
select is(outcome(format('update %I set state = ''sent'' where id = 3', name)),
    'PW001 no transition from "new" to "sent" in machine "order" | Row (id)=(3) of public.' || name || ' is in '
    'state "new". | From "new" the machine allows: '
    '"paid" (pay).', name || ': a row of before is judged from its state') from cells;
select is(outcome(format('insert into %I values (121, ''c'', ''sent'')', name)),
    'PW002 "sent" is not an initial state of machine "order" | Row (id)=(121) of public.' || name || ' is new. | '
    'Initial states: "new", "draft" (write).',
    name || ': and a new row as ever') from cells;

-- The first state change begins the history, by whichever statement.
do $$
declare
    cell record;
begin
    for cell in select * from cells loop
        execute format('update %I set state = ''paid'' where id in (3, 6)', cell.name);
        execute format('update %I set state = ''sent'' where id = 3', cell.name);
        execute format('update %I set code = ''changed'' where id = 9', cell.name);
        execute format('delete from %I where id = 12', cell.name);
        execute format('insert into %I values (12, ''again'', ''draft'')', cell.name);
        execute format('select pawl.fire(%L, 15, ''pay'')', cell.name);
        execute format('insert into %s (subject_id, event) values (18, ''pay'')',
            (select coalesce(history_view, history) from pawl.binding where relation = cell.name::regclass));
        execute format('select pawl.fire(%L, 21, events => ''{pay,send}'')', cell.name);
        -- twice in one statement, by nested triggers' commands
        execute format('with a as (update %1$I set state = ''paid'' where id = 24 returning id) select * from a',
            cell.name);
    end loop;
end $$;
select results_eq(format($$select subject_id, string_agg(format('%%s:%%s>%%s', sort_key, coalesce(event, ''), to_state),
        ' ' order by sort_key) from %s where subject_id in (3, 6, 9, 12, 15, 18, 21, 24) group by 1 order by 1$$,
        (select coalesce(history_view, history) from pawl.binding where relation = name::regclass)),
    $$values (3, '1:pawl.attach>new 2:pay>paid 3:send>sent'), (6, '1:pawl.attach>new 2:pay>paid'),
        (12, '1:pawl.attach>new 2:pawl.delete> 3:write>draft'), (15, '1:pawl.attach>new 2:pay>paid'),
        (18, '1:pawl.attach>new 2:pay>paid'), (21, '1:pawl.attach>new 2:pay>paid 3:send>sent'),
        (24, '1:pawl.attach>new 2:pay>paid')$$, name || ': a history begins with the first state change') from cells;
select results_eq(format('select problem, detail from pawl.verify(%L)', name), $$values ('not_validated',
    'rows that were there before are not validated: 0 checked so far, 0 in no state of machine "order"')$$,
    name || ': verify says that rows are not validated, and finds nothing else') from cells;
select is((select format('%s %s %s', status, detail, hint) from pawl.health()
        where relation = name::regclass and check_name = 'validated'),
    'warning rows that were there before are not validated: 0 checked so far, 0 in no state of machine "order" '
    || format('call pawl.validate_all(''public.%s'', ''state'')', name), name || ': so does health') from cells;
select alike(pawl.definition(name::regclass), '%validate => false%', name || ': and the definition') from cells;

-- pawl.validate, in batches that do not divide the number of rows; then everything agrees.
select cmp_ok(validate_fully(name::regclass), '>=', 18::bigint, name || ': many batches') from cells;
select is(beginnings(name::regclass), case kind when 'inherited' then '221 rows, 221' else '120 rows, 120' end
    || ' beginnings, 0 keys twice', name || ': every history has begun, none twice') from cells;
select is_empty(format('select * from pawl.verify(%L)', name), name || ': verify finds nothing') from cells;
select is((select status from pawl.health() where relation = name::regclass and check_name = 'validated'), 'ok',
    name || ': health agrees') from cells;
select unalike(pawl.definition(name::regclass), '%validate%', name || ': the definition has no validate') from cells;
select is((select validated from pawl.validate(name::regclass)), true, name || ': a further call says so') from cells;
select is_empty('select * from pawl.validation', 'no position is left');

-- Rows in states that the machine does not have.
create table odd (id int primary key, code text, state text);
insert into odd values (1, 'a', 'legacy'), (2, 'a', null), (3, 'a', 'legacy'), (4, 'a', 'new'), (5, 'a', 'other'),
    (6, 'a', 'legacy');
select throws_ok($$select pawl.enforce('odd', 'state', 'order')$$, 'PW008', null, 'are rejected by pawl.enforce');
select pawl.enforce('odd', 'state', 'order', validate => false);
select pawl.enable_log('odd');
select is(outcome('update odd set code = ''b'''), 'ok', 'rows in unknown states may change otherwise');
select is(outcome('update odd set state = ''sent'' where id = 1'), 'PW002 "sent" is not an initial state of machine '
    '"order" | Row (id)=(1) of public.odd is in state "legacy", which the machine does not have. | Initial states: '
    '"new", "draft" (write).', 'they cannot get into the middle of the machine');
select is(outcome('update odd set state = ''nonsense'' where id = 2'), 'PW002 "nonsense" is not an initial state of '
    'machine "order" | Row (id)=(2) of public.odd is in state null, which the machine does not have. The machine '
    'has no '
    'state "nonsense". | Initial states: "new", "draft" (write).', 'nor into another unknown state');
select is(outcome('update odd set id = 11 where id = 1'), '0A000 the key of a row with a log cannot change | Row '
    '(id)=(1) of public.odd: the row''s log entries have this key. | Delete the row and insert it with the new key, or '
    'enforce with key => the columns that never change.', 'their key stays');
select is(outcome('update odd set state = ''draft'' where id = 1'), 'ok', 'they can enter an initial state');
select is(outcome('update odd set state = ''new'' where id = 2'), 'ok', 'also from null');
select is(outcome('delete from odd where id = 3'), 'ok', 'or be deleted');
select results_eq('select subject_id, sort_key, from_state, event, to_state from odd_transitions order by 1, 2',
    $$values (1, 1, null, 'write', 'draft'), (2, 1, null, null, 'new')$$,
    'their history begins in the initial state, and a row that was never legal has none');
select results_eq('select member::text, checked, begun, illegal, validated from pawl.validate(''odd'', batch => 2)',
    $$values ('odd', 2::bigint, 0::bigint, 0::bigint, false)$$, 'pawl.validate says what it has checked');
select results_eq('select checked, begun, illegal, validated from pawl.validate(''odd'', batch => 100)',
    $$values (3::bigint, 1::bigint, 2::bigint, false)$$, 'and how many rows are illegal');
select is(outcome('select pawl.validate(''odd'')'), 'PW008 table public.odd has rows that are in no state of machine '
    '"order" | 1 row in "legacy", 1 row in "other" | update public.odd set state = ''new'' where ...: such a row '
    'can enter '
    'an initial state, or be deleted', 'after the last row they are counted by state') from generate_series(1, 2);
select is((select detail from pawl.verify('odd') where problem = 'not_validated'),
    'rows that were there before are not validated: 5 checked so far, 2 in no state of machine "order"',
    'verify knows them');
update odd set state = 'new' where id = 5;
select alike(outcome('select pawl.validate(''odd'')'), '%1 row in "legacy" |%', 'one is left');
set session_replication_role = replica;  -- mended while the triggers are off
update odd set state = 'paid' where id = 6;
reset session_replication_role;
select is(validate_fully('odd', 100), 3::bigint, 'when all are mended they are read again');
select is(beginnings('odd'), '5 rows, 2 beginnings, 0 keys twice', 'and begin their history where none has begun');
select is_empty('select * from pawl.verify(''odd'')', 'verify finds nothing');
select is(outcome('update odd set state = ''paid'' where id = 1'), 'PW001 no transition from "draft" to "paid" in '
    'machine "order" | Row (id)=(1) of public.odd is in state "draft". | From "draft" the machine allows: "new" '
    '(submit).',
    'they are enforced as any row');

-- Without a log, and without a key.
create table bare (id int primary key, state text);
insert into bare select n, case when n = 50 then 'legacy' else 'new' end from generate_series(1, 99) n;
select pawl.enforce('bare', 'state', 'order', validate => false);
select is(outcome('update bare set id = 0 where id = 50'), '55000 the key of a row that is not validated cannot '
    'change | '
    'Row (id)=(50) of public.bare is in a state that machine "order" does not have. | Change its state first: into an '
    'initial one.', 'a row in an unknown state cannot get behind the position');
select is(outcome('update bare set id = 0 where id = 51'), 'ok', 'any other row can');
select alike(outcome('select validate_fully(''bare'')'), '%1 row in "legacy"%', 'it is found');
delete from bare where id = 50;
select is(outcome('select validate_fully(''bare'')'), 'ok', 'and gone when it is deleted');
create table keyless (state text);
insert into keyless values ('new'), ('legacy');
select pawl.enforce('keyless', 'state', 'order', validate => false);
select alike(outcome('select pawl.validate(''keyless'')'), 'PW008%1 row in "legacy"%',
    'a table without a key is read at once');
update keyless set state = 'new' where state = 'legacy';
select is((select validated from pawl.validate('keyless')), true, 'and validated by one call');

-- A log that is begun on a validated binding; and one that was there is compared at once.
create table later (id int primary key, state text);
insert into later select n, 'new' from generate_series(1, 20) n;
select pawl.enforce('later', 'state', 'order');
select pawl.enable_log('later', validate => false);
select is((select validated from pawl.binding where relation = 'later'::regclass), false,
    'a log with validate => false leaves the binding not validated');
select is(validate_fully('later'), 4::bigint, 'until its histories have begun');
select is(beginnings('later'), '20 rows, 20 beginnings, 0 keys twice', 'each history has begun once');
select pawl.release('later');
delete from later where id = 1;
select pawl.enforce('later', 'state', 'order', validate => false);
select pawl.enable_log('later');
select is((select validated from pawl.binding where relation = 'later'::regclass), true,
    'a log that is taken up again is compared with the rows at once');
select is_empty('select * from pawl.verify(''later'')', 'and goes on');
select pawl.release('later');
update later set state = 'sent' where id = 2;
select pawl.enforce('later', 'state', 'order', validate => false);
select alike(outcome('select pawl.enable_log(''later'')'), '55000 the log public.later_transitions_log does not match%',
    'which rejects rows that are elsewhere');

-- Composite keys of several types, and members without an index.
create table wide (tenant text, at timestamptz, n bigint, state text not null, primary key (tenant, at, n));
insert into wide select case when n % 2 = 0 then 'a' else 'b''"{,}' end,
    timestamptz '2026-01-01' + n / 3 * interval '1 h',
    n, 'paid' from generate_series(1, 100) n;
select pawl.enforce('wide', 'state', 'order', validate => false);
select pawl.enable_log('wide');
set timezone = 'Asia/Kolkata';
select is(validate_fully('wide', 3), 35::bigint, 'a composite key is followed');
reset timezone;
select is_empty('select * from pawl.verify(''wide'')', 'to its last row');
create table unindexed (id int, state text);
insert into unindexed values (1, 'new');
select pawl.enforce('unindexed', 'state', 'order', key => '{id}', validate => false);
select is(outcome('select pawl.validate(''unindexed'')'), '55000 table public.unindexed has no index on the key (id) | '
    'Its rows are validated in the order of the key. | create unique index concurrently on public.unindexed (id)',
    'a key needs an index');
create unique index on unindexed (id);
insert into unindexed values (null, 'new');
select is(outcome('select pawl.validate(''unindexed'')'), '23502 table public.unindexed has rows whose key column "id" '
    'is null | A row is identified by its key. | update public.unindexed set id = ... where id is null',
    'and rows have one');
delete from unindexed where id is null;
select is(outcome('select validate_fully(''unindexed'')'), 'ok', 'then it is validated');

-- Owned work: rows with an owner, and indexes that are made without holding up writers.
select make_jobs('work');
select make_jobs('parts', 'partition by list (id)');
create table parts_1 partition of parts for values in (1, 2, 3);
create table parts_2 partition of parts for values in (4, 5, 6) partition by list (id);
create table parts_21 partition of parts_2 for values in (4, 5);
create table parts_22 partition of parts_2 for values in (6);
insert into work (id) select generate_series(1, 6);
insert into work (id, state, owner, lease) values (7, 'ready', 'anna', now());
insert into parts (id) select generate_series(1, 6);
create function enforce_online(name text) returns void language sql as $$
    select pawl.enforce(name::regclass, 'state', 'job', validate => false),
           pawl.enable_queue(name::regclass, owner => 'owner', lease => 'lease', token => 'token',
               attempts => 'attempts', max_attempts => 'max_attempts'),
           pawl.enable_timers(name::regclass, due => 'due'),
           pawl.set_claiming(name::regclass, claim => '{start}', on_expiry => 'expire', retry => '{fail}') $$;
select enforce_online(t) from unnest('{work,parts}'::text[]) t;
select is_empty($$select work_indexes('work')$$, 'no index is made while the rows are not validated');
select is((select count(*) from pawl.claim(null::work, processor => 'ben', batch => 2)), 2::bigint,
    'rows can be claimed nevertheless');
select results_eq('select statement from pawl.missing_indexes(''work'')', $$values
    ('create index concurrently work_pawl_claim ON public.work (id) WHERE state IN (''ready'', ''waiting'') '
    'AND due IS NULL'),
    ('comment on index public.work_pawl_claim is ''kept by pawl for claims: rows in ready, waiting, in claim order'''),
    ('create index concurrently work_pawl_due ON public.work (due, id) WHERE due IS NOT NULL'),
    ('comment on index public.work_pawl_due is ''kept by pawl for timers: rows that have a due time'''),
    ('create index concurrently work_pawl_owned ON public.work (owner, lease) WHERE owner IS NOT NULL'),
    ('comment on index public.work_pawl_owned is ''kept by pawl for leases: rows that have an owner''')$$,
    'the statements for them are printed');
select statement from pawl.missing_indexes('work') \gexec
select statement from pawl.missing_indexes('parts') \gexec
select is_empty(format('select statement from pawl.missing_indexes(%L)', t), t || ': none is missing then')
    from unnest('{work,parts}'::text[]) t;
select is((select status from pawl.health() where relation = t::regclass and check_name = 'work_indexes'), 'ok',
    t || ': health agrees') from unnest('{work,parts}'::text[]) t;
select is((select count(*) from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid
    where x.indrelid in ('parts_1'::regclass, 'parts_21'::regclass, 'parts_22'::regclass) and x.indisvalid
        and x.indexrelid::regclass::text ~ '_pawl_'), 9::bigint,
    'partitions have theirs, attached');
-- an interrupted run: one partition's index is invalid, another's not attached, a third's missing
create table gaps (like parts including all) partition by list (id);
create table gaps_1 partition of gaps for values in (1);
create table gaps_2 partition of gaps for values in (2);
create table gaps_3 partition of gaps for values in (3);
select enforce_online('gaps');
create temp table run as select statement, row_number() over () n from pawl.missing_indexes('gaps') statement;
select statement from run where statement !~ '(gaps_3|attach)' order by n \gexec
update pg_index set indisvalid = false where indexrelid = 'gaps_1_pawl_claim'::regclass;
select is((select count(*) from pawl.missing_indexes('gaps') s where s.statement ~ '^drop index concurrently '
    'public.gaps_1_pawl_claim'),
    1::bigint, 'an invalid index is dropped first');
select statement from pawl.missing_indexes('gaps') \gexec
select is_empty('select statement from pawl.missing_indexes(''gaps'')', 'an interrupted run is completed');
select alike(outcome('select validate_fully(''work'')'), '55000 table public.work has rows with an owner or a lease%',
    'rows with an owner in states that are not owned keep a table from being validated');
update work set owner = null, lease = null where id = 7;
select is(outcome('select validate_fully(''work'')'), 'ok', 'until they have none');
select enforce_online('gaps');
select pawl.enable_queue('parts', build_indexes => true);

-- Bad input.
select is(outcome(statement), answer, statement) from (values
    ('select pawl.validate(null)', '22004 relation must not be null'),
    ('select pawl.validate(''odd'', batch => null)', '22004 batch must not be null | batch => 100'),
    ('select pawl.validate(''odd'', batch => 0)', '22023 batch must be from 1 to 10000 | It is 0. | batch => 100'),
    ('select pawl.validate(''odd'', batch => 10001)', '22023 batch must be from 1 to 10000 | It is 10001. | batch '
    '=> 100'),
    ('select pawl.validate(''cells'')', '42704 no machine is enforced on table cells | select pawl.enforce(''cells'', '
        'state_column, machine)'),
    ('select pawl.validate(''odd'', ''code'')', '42704 no machine is enforced on column "code" of table public.odd | '
        'state_column => ''state'''),
    ('select pawl.missing_indexes(null)', '22004 relation must not be null'),
    ('select pawl.enforce(''odd'', ''state'', ''nothing'', validate => false)', null),
    ('call pawl.validate_all(''odd'')', '2D000 invalid transaction termination')) v(statement, answer)
    where answer is not null;
create role other_owner;
grant pawl_admin to other_owner;
create table foreign_one (id int primary key, state text);
select pawl.enforce('foreign_one', 'state', 'order', validate => false);
set role other_owner;
select is(outcome('select pawl.validate(''foreign_one'')'), '42501 must be owner of table public.foreign_one | call '
    'it as '
    'role "' || session_user || '"', 'another role than the owner');
select is(outcome('select pawl._begin_logs(''foreign_one'', ''state'', ''foreign_one'', ''select 1'')'),
    '42501 must be owner of table foreign_one', 'also by internal functions');
select alike(outcome('select pawl._store_validation(''foreign_one'', ''state'', ''foreign_one'', null, 0, 0, 0, true)'),
    '42501 must be owner%', 'which store');
select alike(outcome('select pawl._end_validation(''foreign_one'', ''state'')'), '42501 must be owner%', 'or end it');
reset role;
begin isolation level repeatable read;
select alike(outcome('select pawl.validate(''foreign_one'')'), '25001 pawl.validate cannot run in isolation level%',
    'an old snapshot does not see the newest rows');
commit;
select is((select s from pawl.validate('foreign_one') v(a, b, c, d, s)), false, 'a binding with no rows');
select is((select s from pawl.validate('foreign_one') v(a, b, c, d, s)), true, 'takes two calls');

-- Renames while it goes on, and the end of a binding.
create table moving (id int primary key, state text);
insert into moving select n, 'new' from generate_series(1, 30) n;
select pawl.enforce('moving', 'state', 'order', validate => false);
select pawl.enable_log('moving');
select checked as first_batch from pawl.validate('moving', batch => 10) \gset
alter table moving rename to moved;
alter table moved rename column state to phase;
alter table moved rename column id to number;
select is((select checked from pawl.validation where relation = 'moved'::regclass and state_column = 'phase'),
    10::bigint,
    'a position follows renames');
select is(validate_fully('moved', 10), 4::bigint, 'and is gone on from');
select pawl.release('moved');
select pawl.enforce('moved', 'phase', 'order', validate => false);
select checked from pawl.validate('moved', batch => 10) \gset
select pawl.release('moved');
select is_empty('select * from pawl.validation', 'a binding that is released has none');
select * from finish();
