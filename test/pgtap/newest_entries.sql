-- Where a log ends is found for many rows side by side as for one: whatever the key's type, in any order, behind
-- entries that were rolled back.
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('ring', $$stateDiagram-v2
    [*] --> a
    a --> b
    b --> c
    c --> a$$);
create type shade as enum ('light', 'dark');
create domain code as varchar(20) check (length(value) > 0);
create function next_state(text) returns text language sql immutable as $$ select translate($1, 'abc', 'bca') $$;

create temp table kind (name text, columns text, key text, of_row text);
insert into kind values
    ('by_int', 'k int', 'k', 'g'),
    ('by_text', 'k text', 'k', $$md5(g::text)$$),
    ('by_domain', 'k code', 'k', $$'item ' || g$$),
    ('by_numeric', 'k numeric', 'k', 'g / 7.0'),
    ('by_two', 'k uuid, l bigint', 'k, l', $$('00000000-0000-0000-0000-00000000000' || g % 7)::uuid, g$$),
    ('by_three', 'k shade, l text collate "C", m timestamptz', 'k, l, m',
     $$(array['light', 'dark'])[1 + g % 2]::shade, md5((g % 9)::text), 'epoch'::timestamptz + g * interval '1 s'$$);
create temp table tried as
    select name || '_' || mode as name, mode, columns, key, of_row, mode = 'stored' and name = 'by_int' as hashed
    from kind, unnest(array['stored', 'derived']) mode;

-- 3,000 rows fill many pages of each index. A row counts its own entries, and what it had
-- before it was deleted is kept apart.
select statement from tried, unnest(string_to_array(format($sql$
    create table %1$I (%2$s, n int not null, state text not null default 'a', entries int not null default 1,
        primary key (%3$s));
    select pawl.enforce('%1$I', 'state', 'ring'),
        pawl.enable_log('%1$I', 'state', most_recent => %5$L, hash_chain => %6$L);
    insert into %1$I (%3$s, n) select %4$s, g from generate_series(1, 3000) g;
    -- all, every seventh, backwards, here and there
    update %1$I set state = next_state(state), entries = entries + 1;
    update %1$I set state = next_state(state), entries = entries + 1 where n %% 7 = 0;
    set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
    update %1$I t set state = next_state(t.state), entries = t.entries + 1
        from (select ctid from %1$I where n > 1500 order by %7$s) o where o.ctid = t.ctid;
    reset enable_seqscan; reset enable_hashjoin; reset enable_mergejoin;
    update %1$I set state = next_state(state), entries = entries + 1 where hashint4(n) %% 5 = 0;
    -- entries that were rolled back lie behind the true ends
    begin; update %1$I set state = next_state(state); rollback;
    begin; savepoint s; update %1$I set state = next_state(state) where n %% 2 = 0; rollback to s;
           update %1$I set state = next_state(state), entries = entries + 1 where n %% 3 = 0; commit;
    begin; update %1$I set state = next_state(state), entries = entries + 1;
    update %1$I set state = next_state(state), entries = entries + 1; commit;
    -- gone and back, with new ones between
    with gone as (delete from %1$I where n %% 11 = 0 returning *) select %3$s, n, entries + 1 as entries into %1$s_gone
        from gone;
    insert into %1$I (%3$s, n) select %4$s, g from generate_series(1, 3500) g on conflict do nothing;
    update %1$I t set entries = t.entries + g.entries from %1$s_gone g where g.n = t.n;
    update %1$I set state = next_state(state), entries = entries + 1;
$sql$, name, columns, key, of_row, mode, hashed, replace(key, ',', ' desc,') || ' desc'), ';'))
    with ordinality s (statement, nr) where statement ~ '\S' order by name, nr \gexec

select is_empty(format('select * from pawl.verify(%L)', name),
        name || ': no gap, no fork, and the log ends where the rows are') from tried;
select is_empty(format('select * from (select %1$s, n, entries from %2$I) t
    full join (select %1$s, count(*), max(sort_key) from %2$s_transitions group by %1$s) l using (%1$s)
                        where t.entries is distinct from l.count or t.entries is distinct from l.max', key, name),
                name || ': every row has as many entries as it has moved, and so many are counted') from tried;
select results_eq(format('select count(*)::int, sum(entries)::int from %I', name),
    format('values (3500, %s)', expected), name || ': and has moved as it was told')
from tried, lateral (select sum(case when n > 3000 then 2
                         else 5 + (n % 7 = 0)::int + (n > 1500)::int + (hashint4(n) % 5 = 0)::int + (n % 3 = 0)::int + 2
        * (n % 11 = 0)::int end)
                     from generate_series(1, 3500) n) as e (expected);

-- An index whose pages are split between two looks, in one transaction.
create table busy (id int primary key, state text not null default 'a', entries int not null default 1);
select pawl.enforce('busy', 'state', 'ring'), pawl.enable_log('busy', 'state');
insert into busy select g * 10 from generate_series(1, 2000) g;
do $$
begin
    for i in 1..9 loop
        insert into busy select g * 10 + i from generate_series(1, 2000) g where g % 9 = i - 1;
        update busy set state = next_state(state), entries = entries + 1 where id % 3 = i % 3;
    end loop;
end $$;
select is_empty($$select * from pawl.verify('busy')$$, 'statement after statement: nothing is wrong');
select is_empty($$select id, entries from busy except select subject_id, count(*)::int from busy_transitions
    group by subject_id$$, 'and nothing is missing');

select * from finish();
