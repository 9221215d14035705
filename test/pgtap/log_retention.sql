-- pawl.prune_log on partitioned logs: what goes as a whole, what is kept of it, and pawl.extend_log.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : complete
    done --> ready : again
    done --> [*]$$) \g /dev/null
create function parts_of(log regclass) returns text language plpgsql as $$ declare answer text; begin
    execute format('select string_agg(leaf || '':'' || n, '' '' order by leaf) from (select tableoid::regclass::text '
                'leaf, count(*) n from %s group by 1) x', log) into answer;
    return answer; end $$;
-- The clock of a log can be turned back by its owner only.
create function age(log regclass, condition text, by interval) returns void
    language plpgsql as $$ declare leaf regclass; begin
    execute format('alter table %s disable trigger user', log);
    for leaf in select m from pawl._members(log) m where m <> log loop
        execute format('alter table %s disable trigger user', leaf);
    end loop;
    execute format('update %s set created_at = created_at - $1 where %s', log, condition) using by;
    for leaf in select m from pawl._members(log) m where m <> log loop
        execute format('alter table %s enable trigger user', leaf);
    end loop;
    execute format('alter table %s enable trigger user', log);
end $$;

-- For each way of keeping the log. Keys 1 to 9 are in the first range, 10 to 19 in the second, and so on.
create function begin_story(t text, most_recent text, chained boolean) returns void
    language plpgsql as $$ declare log regclass; begin
    execute format('create table %s (id int primary key, state text not null default ''ready'')', t);
    perform pawl.enforce(t::regclass, 'state', 'job'),
        pawl.enable_log(t::regclass, 'state', most_recent => most_recent, hash_chain => chained,
            log_partition => 'range (id)');
    log := (select history from pawl.binding where relation = t::regclass);
    for n in 0 .. 3 loop
        execute format('create table %s_%s partition of %s for values from (%s) to (%s)', t, n, log, n * 10,
            n * 10 + 10);
    end loop;
    execute format('insert into %s select generate_series(1, 34)', t);
    execute format('update %s set state = ''running'' where id < 30', t);
    execute format('update %s set state = ''done'' where id < 20 or id = 25', t);
    execute format('delete from %s where id in (3, 4)', t);
end $$;
create table logs (t regclass, log regclass);
select begin_story('stored', 'stored', false), begin_story('derived', 'derived', false),
    begin_story('chained', 'stored', true), begin_story('twin', 'derived', true) \g /dev/null
insert into logs select relation, history from pawl.binding where history is not null;
select is((select array_agg(distinct p::text) from logs, pawl.prune_log(t, '1 hour') p), '{"(0,f)"}',
    'what is young stays');
-- chains are of the clock that was: there an age of nothing prunes
select age(log, 'subject_id < 10', '2 days') from logs where t in ('stored'::regclass, 'derived') \g /dev/null
select is((select array_agg(p::text) from logs, pawl.prune_log(t, '1 day') p
    where t in ('stored'::regclass, 'derived')), '{"(29,f)","(29,f)"}', 'a partition whose entries are all old');
select is((select array_agg(p::text) from logs, pawl.prune_log(t, '0') p where t in ('chained'::regclass, 'twin')),
    '{"(61,f)","(61,f)"}', 'with an age of nothing, two, and what ended in the third');
select is(to_regclass('derived_0'), null, 'is dropped, because later ones have entries');
select ok(to_regclass('derived_1') is not null, 'and no other is');
select is(to_regclass('twin_1'), null, 'all of those that are past');
select is(parts_of('derived_transitions_log'), 'derived_1:30 derived_2:21 derived_3:5', 'nothing else went');
select is(parts_of('twin_transitions_log'), 'twin_2:19 twin_3:5', 'here what ended went row by row as well');
select is_empty('select * from pawl.verify()', 'and nothing is wrong');
select results_eq('select subject_id, sort_key, to_state, whole from stored_transitions_pruned order by 1',
    $$values (1, 3, 'done', true), (2, 3, 'done', true), (5, 3, 'done', true), (6, 3, 'done', true),
        (7, 3, 'done', true), (8, 3, 'done', true), (9, 3, 'done', true)$$,
    'the end of each row that is there is known, of those that are not nothing');
select is((select array_agg(distinct p::text) from logs, pawl.prune_log(t, '1 day') p), '{"(0,f)"}',
    'pruning again removes nothing');

-- Rows without a log go on where it ended.
select is(pawl.state_at(t, 1, now()), 'done', 'state_at knows the end') from logs;
select is(pawl.state_at('stored', 1, now() - interval '3 days'), null, 'and nothing before');
select is((select count(*) from pawl.history('twin', 1)), 0::bigint, 'history is empty');
update stored set state = 'ready' where id = 1;
update derived set state = 'ready' where id = 1;
update chained set state = 'ready' where id = 1;
update twin set state = 'ready' where id = 1;
insert into stored_transitions (subject_id, event) values (2, 'again');
insert into chained_transitions (subject_id, event) values (2, 'again');
insert into twin_transitions_log (subject_id, event) values (2, 'again');
delete from stored where id = 5; delete from chained where id = 5; delete from twin where id = 5;
insert into stored values (3), (5); insert into twin values (3), (5);
begin; update twin set state = 'ready' where id = 6; update twin set state = 'running' where id = 6; commit;
select results_eq(format('select sort_key, from_state, to_state, most_recent from pawl.history(%L, 1)', t),
        $$values (4, 'done', 'ready', true)$$, t || ': numbers go on') from logs;
select is((select string_agg(subject_id || ':' || numbers, ' ' order by subject_id)
        from (select subject_id, string_agg(sort_key::text, ',' order by sort_key) numbers from twin_transitions
            where subject_id < 10 group by 1) x),
    '1:4 2:4 3:1 5:4,5 6:4,5', 'numbers of deleted rows start at 1 again');
select is_empty('select * from pawl.verify()', 'chains hold, states agree');
select is(parts_of('twin_transitions_log'), 'twin_2:19 twin_3:5 twin_transitions_log_default:7',
    'their entries are in the default partition now');

-- Released and attached again.
select pawl.release('stored'), pawl.release('twin') \g /dev/null
delete from stored where id = 7;
insert into stored values (4);
select pawl.enforce('stored', 'state', 'job'), pawl.enable_log('stored', 'state', most_recent => 'stored'),
    pawl.enforce('twin', 'state', 'job'), pawl.enable_log('twin', 'state', hash_chain => true) \g /dev/null
select is_empty('select * from pawl.verify()', 'what is known of ends counts when a log is taken up again');
select results_eq($$select sort_key, from_state, to_state, event from pawl.history('stored', 7)$$,
    $$values (4, 'done', null, 'pawl.delete')$$, 'a row that went meanwhile');
select is((select count(*) from pawl.history('stored', 8)), 0::bigint, 'a row that did not has no entry for it');
select throws_ok($$select pawl.release('derived'); update derived set state = 'running' where id = 8;
    select pawl.enforce('derived', 'state', 'job'),
    pawl.enable_log('derived', 'state')$$, '55000',
    'the log public.derived_transitions_log does not match the rows of table public.derived');

-- What is done by hand is told from what was pruned.
create function by_hand(t regclass, what text) returns text language plpgsql as $$ declare answer text; begin
    perform age((select log from logs l where l.t = by_hand.t), 'false', '0');
    execute what;
    select string_agg(distinct key || ' ' || problem, ', ' order by key || ' ' || problem) into answer
        from pawl.verify(t);
    raise exception using errcode = 'P9999', message = coalesce(answer, 'nothing');
exception when sqlstate 'P9999' then return sqlerrm; end $$;
select is(by_hand('chained', 'alter table chained_transitions_pruned disable trigger user; delete from '
    'chained_transitions_pruned where subject_id = 8'), '8 log_missing', 'an end that is missing');
select is(by_hand('chained', 'alter table chained_transitions_pruned disable trigger user; update '
    'chained_transitions_pruned set to_state = ''ready'' where subject_id = 8'), '8 log_differs',
    'an end that is another');
select is(by_hand('chained', 'alter table chained_transitions_pruned disable trigger user; update '
    'chained_transitions_pruned set hash = ''x'' where subject_id = 1'), '1 hash_mismatch', 'a hash that is another');
select is(by_hand('chained', 'alter table chained disable trigger user; delete from chained where id = 8'),
    '8 row_missing', 'a row that went unseen');
select is(by_hand('chained', 'alter table chained_transitions disable trigger user; delete from chained_transitions '
    'where subject_id = 1'), '1 log_differs', 'an entry after the end');

-- Pruning waits for no reader or writer of a partition: the partition stays for this time.
create table lists (id int primary key, state text not null default 'ready');
select pawl.enforce('lists', 'state', 'job'),
    pawl.enable_log('lists', 'state', log_partition => 'list (id)') \g /dev/null
create table lists_1 partition of lists_transitions_log for values in (1);
insert into lists values (1), (2);
update lists set state = 'running'; update lists set state = 'done';
begin;
declare c cursor for select * from lists_1;
fetch c \g /dev/null
select is((select p::text from pawl.prune_log('lists', '0') p), '(3,f)',
    'a cursor of the same session keeps its partition');
rollback;
select is((select p::text from pawl.prune_log('lists', '0') p), '(6,f)',
    'afterwards it goes like the default partition before it');
select ok(to_regclass('lists_1') is not null, 'a list that was emptied is not dropped: its rows may go on');
select is((select emptied::text from pawl.pruned_log where log = 'lists_transitions_log'::regclass),
    '{lists_transitions_log_default,lists_1}', 'it is known that it was emptied');
update lists set state = 'ready';
select is_empty($$select * from pawl.verify('lists')$$, 'and they do');
select is(parts_of('lists_transitions_log'), 'lists_1:1 lists_transitions_log_default:1', 'where they were');

-- The partition in which things happen is not dropped though all in it has ended; nor one
-- that users made for what may come.
create table quiet (id int primary key, state text not null default 'ready');
select pawl.enforce('quiet', 'state', 'job'),
    pawl.enable_log('quiet', 'state', most_recent => 'stored', log_partition => 'range (id)') \g /dev/null
create table quiet_0 partition of quiet_transitions for values from (0) to (10);
create table quiet_1 partition of quiet_transitions for values from (10) to (20);
create table quiet_2 partition of quiet_transitions for values from (20) to (30);
insert into quiet values (11); update quiet set state = 'running'; update quiet set state = 'done';
select is((select removed from pawl.prune_log('quiet', '0')), 3::bigint,
    'pruning by age 0 empties the log of ended rows');
select ok(to_regclass('quiet_' || n) is not null, 'kept: quiet_' || n) from generate_series(0, 2) n;
insert into quiet values (21);
select is((select removed from pawl.prune_log('quiet', '0')), 0::bigint, 'when later ones are written');
select is(to_regclass('quiet_1'), null, 'an emptied partition that a later one follows is dropped');
select ok(to_regclass('quiet_0') is not null, 'a partition that never had an entry stays');
select is_empty($$select * from pawl.verify('quiet')$$, 'nothing is wrong');

-- Which roles may prune, and with which rights.
create role retention_reader; create role retention_owner;
grant select on quiet to retention_reader;
set role retention_reader;
select throws_ok($$select pawl.prune_log('quiet', '0')$$, '42501',
    'must be owner of table quiet_transitions, or a member of pawl_admin');
select throws_ok($$select pawl.extend_log('quiet', 'month')$$, '42501',
    'must be owner of table public.quiet_transitions');
reset role;

-- Partitions of time.
create table timed (id uuid primary key, state text not null default 'ready');
select pawl.enforce('timed', 'state', 'job'),
    pawl.enable_log('timed', 'state', most_recent => 'stored', log_partition => 'range (id)') \g /dev/null
select throws_ok($$select pawl.extend_log('timed', 'fortnight')$$, '22023', 'unknown period "fortnight"');
select throws_ok($$select pawl.extend_log('timed', null)$$, '22004', 'period must not be null');
select throws_ok($$select pawl.extend_log('timed', 'day', -1)$$, '22023', 'ahead must be from 0 to 1000');
select throws_ok($$select pawl.extend_log('quiet', 'day')$$, '55000',
    'the log public.quiet_transitions is not partitioned by ranges of time');
select throws_ok($$select pawl.extend_log('lists', 'day')$$, '55000',
    'the log public.lists_transitions_log is not partitioned by ranges of time');
insert into timed values (pawl.uuid_v7(now() + interval '2 months'));
select is(pawl.extend_log('timed', 'month', 4), 4,
    'this month and four to come, but for the one that the default partition has entries of');
select is(pawl.extend_log('timed', 'month', 4), 0, 'extending a log again creates no partition');
select is(pawl.extend_log('timed', 'month', 5), 1, 'extending a log by one more month creates one partition');
insert into timed select pawl.uuid_v7(now() + n * interval '1 month') from generate_series(-1, 5) n;
select is((select string_agg(part, ' ' order by part)
    from (select case when tableoid = 'timed_transitions_default'::regclass then 'default' else
        right(tableoid::regclass::text, 8) end part from timed_transitions) x),
    (select string_agg(to_char(date_trunc('month', now() at time zone 'UTC') + n * interval '1 month', 'YYYYMMDD'), ' '
        order by n) || ' default default default' from unnest(array[0, 1, 3, 4, 5]) n), 'each in its month');
select is((select count(distinct tgname) from pg_trigger t
        join pawl._members('timed_transitions'::regclass) m on m = t.tgrelid and m <> 'timed_transitions'::regclass),
    4::bigint, 'each new partition of a log has its guard triggers');
select is_empty($$select * from pawl.verify('timed')$$, 'nothing is wrong');
create table dated (day date, n int, state text not null default 'ready', primary key (day, n));
select pawl.enforce('dated', 'state', 'job'),
    pawl.enable_log('dated', 'state', log_partition => 'range (day, n)') \g /dev/null
select is(pawl.extend_log('dated', 'week', 1), 2, 'by date, and more columns');
create table stamped (at timestamptz, n int, state text not null default 'ready', primary key (at, n));
select pawl.enforce('stamped', 'state', 'job'),
    pawl.enable_log('stamped', 'state', most_recent => 'stored', log_partition => 'range (at)') \g /dev/null
-- twelve hours (two days with PAWL_LONG=1): each partition that is made looks at those that are there
\set long ''
\getenv long PAWL_LONG
select case :'long' when '' then 11 else 47 end as ahead \gset
select is(pawl.extend_log('stamped', 'hour', :ahead), 1 + :ahead, 'extend_log creates partitions of an hour');
insert into stamped select now() + n * interval '1 hour', 1 from generate_series(0, :ahead) n;
select is((select count(*) from only stamped_transitions_default), 0::bigint, 'each hour has its own');
select throws_ok($$select pawl.extend_log('stamped', 'day', 3)$$, '42P17', null, 'other periods do not fit between');
select is_empty($$select * from pawl.health() where status <> 'ok'$$, 'all is well');
select * from finish();
