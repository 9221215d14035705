-- Logs that are partitioned by columns of the key: written, read, guarded, pruned as a whole, extended.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> ready : back
    running --> done : complete
    done --> ready : again
    done --> [*]$$) \g /dev/null
create function parts_of(log regclass) returns text language plpgsql as $$ declare answer text; begin
    execute format('select string_agg(leaf || '':'' || n, '' '' order by leaf) from (select tableoid::regclass::text '
                'leaf, count(*) n from %s group by 1) x', log) into answer;
    return answer; end $$;

-- What cannot be a layout.
create table t (tenant int, id int, state text not null default 'ready', note text, primary key (tenant, id));
select throws_ok(
        format($$select pawl.enforce('t', 'state', 'job'), pawl.enable_log('t', 'state', log_partition => %L)$$,
    bad), '22023', message)
  from (values ('by month', 'invalid log_partition "by month"'), ('range', 'invalid log_partition "range"'),
               ('hash (id)', 'invalid log_partition "hash (id)"'),
               ('range (id) partitions 8', 'invalid log_partition "range (id) partitions 8"'),
               ('range (note)', 'log_partition names column "note", which is not part of the key'),
               ('hash (id) partitions 0', 'a log has from 1 to 1024 hash partitions')) b(bad, message);
select throws_ok($$select pawl.enforce('t', 'state', 'job'),
    pawl.enable_log('t', 'state', log_partition => 'list (tenant, id)')$$, '42P17', null,
    'PostgreSQL has a word in it, too');
select is((select count(*) from pg_class where relname ~ '^t_transitions'), 0::bigint, 'nothing came of that');

-- The same story for each way to keep a log and each layout.
create table layouts (name text, layout text, most_recent text, chained boolean);
insert into layouts select 'w' || row_number() over () , l, m, h
  from unnest(array['range (tenant)', 'range (tenant, id)', 'list (tenant)', 'hash (tenant, id) partitions 4']) l,
      unnest(array['stored', 'derived']) m, unnest(array[false, true]) h;
create function begin_story(w layouts) returns void language plpgsql as $$
begin
    execute format('create table %s (tenant int, id int, state text not null default ''ready'', primary key '
        '(tenant, id))', w.name);
    execute format('insert into %s select n %% 4, n from generate_series(1, 40) n', w.name);
    perform pawl.enforce(w.name::regclass, 'state', 'job'),
        pawl.enable_log(w.name::regclass, 'state', most_recent => w.most_recent, hash_chain => w.chained,
            log_partition => w.layout);
end $$;
select begin_story(l) from layouts l \g /dev/null
select is((select array_agg(distinct parts_of((b.history))) from pawl.binding b
    join layouts l on l.name = b.relation::text where l.layout ~ '^(range|list)'
            and l.name = 'w1'), '{w1_transitions_default:40}', 'rows that are there begin in the default partition');
select is((select count(distinct m) from pawl.binding b join layouts l on l.name = b.relation::text
    and l.layout ~ '^hash', pawl._members(b.history) m), 4 * 5::bigint, 'a hash has its partitions at once');

-- New partitions, one whose columns lie in another order and one that is partitioned itself.
create function add_parts(w layouts) returns void language plpgsql as $$
declare log regclass := (select history from pawl.binding where relation = w.name::regclass); columns text; begin
    select string_agg(format('%I %s%s', attname, format_type(atttypid, atttypmod),
                    case when attnotnull then ' not null' else '' end), ', ' order by attnum desc) into columns
      from pg_attribute where attrelid = log and attnum > 0 and not attisdropped;
    execute format('create table %s_turned (dropped_one int, %s)', w.name, columns);
    execute format('alter table %s_turned drop column dropped_one', w.name);
    if w.layout ~ 'range' then
        execute format('create table %1$s_five partition of %2$s for values from (5%3$s) to (6%3$s)', w.name, log,
            case when w.layout ~ ',' then ', minvalue' else '' end);
        execute format('alter table %2$s attach partition %1$s_turned for values from (6%3$s) to (8%3$s)', w.name, log,
            case when w.layout ~ ',' then ', minvalue' else '' end);
        execute format('create table %1$s_sub partition of %2$s for values from (8%3$s) to (10%3$s) partition by hash '
            '(subject_id)', w.name, log, case when w.layout ~ ',' then ', minvalue' else '' end);
        execute format('create table %1$s_sub_0 partition of %1$s_sub for values with (modulus 1, remainder 0)',
            w.name);
    elsif w.layout ~ 'list' then
        execute format('create table %1$s_five partition of %2$s for values in (5)', w.name, log);
        execute format('alter table %2$s attach partition %1$s_turned for values in (6, 7)', w.name, log);
        execute format('create table %1$s_sub partition of %2$s for values in (8, 9) partition by hash (subject_id)',
            w.name, log);
        execute format('create table %1$s_sub_0 partition of %1$s_sub for values with (modulus 1, remainder 0)',
            w.name);
    end if;
end $$;
select add_parts(l) from layouts l \g /dev/null
create function walk(w layouts) returns void language plpgsql as $$ begin
    execute format('insert into %s select t, i from generate_series(4, 9) t, generate_series(1, 5) i', w.name);
    execute format('update %s set state = ''running'' where tenant >= 4', w.name);
    execute format('update %s set state = case when id < 3 then ''done'' else ''ready'' end where tenant >= 5', w.name);
    execute format('delete from %s where tenant >= 5 and id = 5', w.name);
    execute format('insert into %s select t, 5 from generate_series(7, 9) t', w.name);
end $$;
select walk(l) from layouts l \g /dev/null
select is(parts_of('w1_transitions'), 'w1_five:16 w1_sub_0:34 w1_transitions_default:50 w1_turned:33',
    'entries go where they belong');
select is_empty('select * from pawl.verify()', 'every log is whole');
select is_empty($$select * from pawl.health() where status <> 'ok' and check_name <> 'triggers'$$,
    'health finds nothing wrong in partitioned logs');
select is((select count(distinct digest)
    from (select md5(string_agg(concat_ws(' ', tenant, subject_id, sort_key, from_state, to_state, event), ','
        order by tenant, subject_id, sort_key)) digest
            from (select 1 k, tenant, subject_id, sort_key, from_state, to_state, event from w1_transitions
                union all select 2, tenant, subject_id, sort_key, from_state, to_state, event from w7_transitions
                  union all select 3, tenant, subject_id, sort_key, from_state, to_state, event from w16_transitions) x
        group by k) y), 1::bigint, 'the same entries however they lie');
select results_eq(format('select sort_key, from_state, to_state, most_recent from pawl.history(%L, row(7, 5))', name),
    $$values (1, null, 'ready', false), (2, 'ready', 'running', false), (3, 'running', 'ready', false),
    (4, 'ready', null, false), (5, null, 'ready', true)$$, 'history of ' || layout || ', ' || most_recent) from layouts;
select is((select array_agg(distinct pawl.state_at(name::regclass, row(6, 1), now())) from layouts), '{done}',
    'state_at finds the state in every partition layout');
select is((select count(*) from w3_transitions where most_recent),
    (select count(*) from w3_transitions) - (select count(*) from w3_transitions where not most_recent),
    'the view that derives most_recent');
select is((select count(*) from w3_transitions where most_recent and to_state is not null), (select count(*) from w3),
    'says so of one entry a row');

-- INSERT into the log, and into a partition of it.
insert into w1_transitions (tenant, subject_id, event, metadata)
    values (6, 3, 'start', '{"a": 1}'), (1, 1, 'start', null);
insert into w1_turned (tenant, subject_id, event) values (6, 4, 'start');
insert into w1_sub (tenant, subject_id, to_state) values (9, 3, 'running');
insert into w1_sub_0 (tenant, subject_id, to_state) values (9, 4, 'running');
select is((select array_agg((tenant, id)::text order by tenant, id) from w1
        where state = 'running' and (tenant, id) in ((6, 3), (1, 1), (6, 4), (9, 3), (9, 4))),
    '{"(1,1)","(6,3)","(6,4)","(9,3)","(9,4)"}', 'rows are claimed in a table with a partitioned log');
select is((select metadata->>'a' from pawl.history('w1', row(6, 3)) where most_recent), '1', 'with what it was given');
select throws_ok('insert into w1_turned (tenant, subject_id, event) values (9, 1, ''again'')', '0A000', null,
    'an entry of another partition does not go into this');
select is((select state from w1 where (tenant, id) = (9, 1)), 'done', 'and changes no state');
select throws_ok('insert into w1_turned (tenant, subject_id, event) values (6, 1, ''start'')', 'PW001', null,
    'a missing transition is rejected here too');
select is_empty($$select * from pawl.verify('w1')$$, 'nothing is wrong');

-- Clients cannot change what is written, neither in the log nor in a partition.
select throws_ok(format(s, t), 'PW006', null, format(s, t))
    from unnest(array['delete from %s', 'update %s set event = ''x''', 'truncate %s', 'truncate only %s']) s,
    unnest(array['w1_transitions', 'w1_turned', 'w1_sub', 'w1_sub_0', 'w1_transitions_default',
        'w16_transitions_log_p3']) t
    where s <> 'truncate only %s' or t not in ('w1_transitions', 'w1_sub');
select throws_ok('alter table w1_transitions detach partition w1_turned', 'PW006',
    'public.w1_turned cannot leave the log public.w1_transitions: it has entries');
select throws_ok('alter table w1_transitions detach partition w1_sub', 'PW006', null,
    'nor one that is partitioned itself');
create table strange (like w1_transitions including defaults);
insert into strange (id, tenant, subject_id, sort_key, actor, machine_version, created_at, most_recent)
    values (gen_random_uuid(), 100, 1, 1, 'x', 1, now(), true);
select throws_ok('alter table w1_transitions attach partition strange for values from (100) to (200)', 'PW006',
    'public.strange cannot join the log public.w1_transitions: it has rows');
truncate strange;
select lives_ok('alter table w1_transitions attach partition strange for values from (100) to (200)',
    'an empty table joins');
select throws_ok('truncate strange', 'PW006', null, 'and is guarded');
select lives_ok('alter table w1_transitions detach partition strange', 'a partition of a log can be detached');
select is((select count(*) from pg_trigger where tgrelid = 'strange'::regclass), 0::bigint, 'without triggers of ours');
select lives_ok('insert into strange select * from w1_transitions', 'a table like any other');
drop table strange;
alter table w1_turned disable trigger "!pawl_protect_truncate";
select is((select detail from pawl.health() where relation = 'w1'::regclass and status <> 'ok'),
    'missing or disabled on public.w1_transitions: "!pawl_protect_truncate" of public.w1_turned',
    'health sees a guard that is off');
select pawl._close_log('w1_transitions', true) \g /dev/null
select is_empty($$select * from pawl.health() where relation = 'w1'::regclass and status <> 'ok'$$,
    'and its hint mends it');

-- Columns that are renamed are followed; nothing else about the log may change.
alter table w5 rename tenant to customer;
insert into w5 values (6, 77);
select is((select count(*) from w5_turned where customer = 6 and subject_id = 77), 1::bigint, 'a renamed key column');
select throws_ok('alter table w5_transitions drop constraint w5_transitions_pkey', '55000', null,
    'the primary key stays');

-- Triggers and columns that the owner adds.
create table seen (what text);
create function spy() returns trigger language plpgsql as $$ begin
    insert into seen values (tg_name || ' ' || tg_relid::regclass || ' ' || tg_level || ' '
        || case tg_level when 'ROW' then new.subject_id::text else '' end); return new; end $$;
create function count_new() returns trigger language plpgsql as $$ begin
    insert into seen select 'new ' || tg_relid::regclass || ' ' || count(*) || ' ' || count(distinct tenant) from n;
    return null;
end $$;
create trigger of_all after insert on w2_transitions for each row execute function spy();
create trigger of_one after insert on w2_five for each row execute function spy();
create trigger of_statement after insert on w2_transitions referencing new table as n
    for each statement execute function count_new();
insert into w2 values (5, 1001), (6, 1002), (3, 1003);
select is((select array_agg(what order by what collate "C") from seen),
    '{"new w2_transitions 3 3","of_all w2_five ROW 1001","of_all w2_transitions_default ROW 1003","of_all w2_turned '
    'ROW 1002","of_one w2_five ROW 1001"}',
    'AFTER triggers see what they should');
alter table w2_transitions add column note text default 'none',
    add column twice int generated always as (sort_key * 2) stored;
create function drop_some() returns trigger
    language plpgsql as $$ begin new.note := tg_relid::regclass || '!'; return new; end $$;
create trigger before_row before insert on w2_turned for each row execute function drop_some();
update w2 set state = 'running' where id > 1000;
select is((select array_agg(note || ' ' || twice order by subject_id) from w2_transitions
    where subject_id > 1000 and sort_key = 2), '{"none 4","w2_turned! 4","none 4"}', 'columns and BEFORE triggers too');
select is_empty($$select * from pawl.verify('w2')$$, 'nothing is wrong');

-- A row that goes in circles within one statement, and rows by the thousand.
insert into w4 select t, i from generate_series(5, 9) t, generate_series(100, 1500) i;
update w4 set state = 'running' where id >= 100;
begin;
update w4 set state = 'done' where id >= 100;
savepoint a;
update w4 set state = 'ready' where id >= 100;
rollback to a;
delete from w4 where id >= 100 and tenant = 5;
insert into w4 select 5, i from generate_series(100, 1500) i;
commit;
select is_empty($$select * from pawl.verify('w4')$$, 'batches, savepoints, rows that come again');

-- A partition that is missing.
create table gaps (tenant int primary key, state text not null default 'ready');
select pawl.enforce('gaps', 'state', 'job'),
    pawl.enable_log('gaps', 'state', log_partition => 'list (tenant)') \g /dev/null
alter table gaps_transitions_log detach partition gaps_transitions_log_default;
select is((select status || ': ' || detail from pawl.health()
        where relation = 'gaps'::regclass and check_name = 'log_partitions'),
    'error: the log has no default partition: a state change fails if no partition fits its entry',
    'health knows before');
select throws_ok('insert into gaps values (1)', '23514',
    'no partition of relation "gaps_transitions_log" found for row', 'what happens then');
alter table gaps_transitions_log attach partition gaps_transitions_log_default default;
insert into gaps values (1);

-- A partition that is not the log's owner's.
create role partition_owner;
alter table gaps_transitions_log_default owner to partition_owner;
alter table gaps_transitions_log owner to partition_owner; alter table gaps owner to partition_owner;
select is_empty($$select * from pawl.health() where relation = 'gaps'::regclass and status <> 'ok'$$,
    'all of one owner');
create table gaps_2 partition of gaps_transitions_log for values in (2);
insert into gaps values (2);
select is((select status || ': ' || detail || ' -> ' || hint from pawl.health()
    where relation = 'gaps'::regclass and check_name = 'log_partitions'),
    'warning: partition public.gaps_2 of the log is not owned by the owner of the log, which prunes it -> alter table '
    'public.gaps_2 owner to partition_owner', 'health knows before pruning fails');
select throws_ok($$select pawl.prune_log('gaps', '0')$$, '42501', 'permission denied for table gaps_2', 'as it would');
alter table gaps_2 owner to partition_owner;
select lives_ok($$select pawl.prune_log('gaps', '0')$$, 'the hint mends it');

-- Results are audited wherever they lie.
create table audited (tenant int, id int, state text not null default 'ready', primary key (tenant, id));
select pawl.enforce('audited', 'state', 'job'),
    pawl.enable_log('audited', 'state', log_partition => 'range (tenant)') \g /dev/null
create table audited_1 partition of audited_transitions_log for values from (1) to (2);
select pawl.audit('audited', '{"done": true}') \g /dev/null
create table audited_2 partition of audited_transitions_log for values from (2) to (3);
insert into audited select t, i from generate_series(0, 2) t, generate_series(1, 4) i;
update audited set state = 'running';
update audited set state = 'done' where id = 1;
insert into audited_transitions (tenant, subject_id, to_state) select t, 2, 'done' from generate_series(0, 2) t;
insert into audited_1 (tenant, subject_id, to_state) values (1, 3, 'done');
insert into audited_2 (tenant, subject_id, to_state) values (2, 3, 'done'), (2, 4, 'done');
select is((select string_agg(tenant || '/' || subject_id, ' ' order by tenant, subject_id) from audited_result_audit),
    '0/1 0/2 1/1 1/2 1/3 2/1 2/2 2/3 2/4', 'by every statement, once');
select is_empty($$select * from pawl.verify('audited')$$, 'verify finds no difference in an audited partitioned log');
select is_empty($$select * from pawl.health() where relation = 'audited'::regclass and status <> 'ok'$$,
    'health finds nothing wrong in an audited partitioned log');
select is((select removed from pawl.prune_log('audited', '0') where not more), 22::bigint, 'what of it is pruned');
select is_empty($$select * from pawl.verify('audited')$$, 'is known not to be missing in the audit');
select pawl.unaudit('audited') \g /dev/null
select is((select count(*) from pg_trigger where tgname = '!pawl_audit'), 0::bigint, 'no trigger is left of it');
select * from finish();
