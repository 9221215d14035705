-- Random statements that nest: changes, deletions, insertions and requests in RETURNING, in triggers, in effects and in
-- subtransactions that are rolled back, on a partitioned table with two machines and managed columns. Whatever was
-- rejected or undone, entries of a row follow each other, and end in its state.
\set QUIET 1
set client_min_messages to error;
select no_plan();

create table r (id int not null, part int not null default 1, state text not null default 'a',
    other text not null default 'x', owner text, lease timestamptz, token bigint not null default 0, due timestamptz,
    n int not null default 0, primary key (id, part)) partition by list (part);
create table r1 partition of r for values in (1);
create table r2 (n int not null default 0, due timestamptz, other text not null default 'x',
    token bigint not null default 0, gone int, part int not null, state text not null default 'a', lease timestamptz,
    owner text, id int not null);
alter table r2 drop column gone;
alter table r attach partition r2 for values in (2);
create table r3 partition of r for values in (3);

create function upto(n int) returns int language sql volatile as $$ select 1 + floor(random() * n)::int $$;
create function next_state(s text) returns text language sql immutable as
    $$ select case s when 'a' then 'b' when 'b' then 'c' else 'a' end $$;
create function next_other(s text) returns text language sql immutable as
    $$ select case s when 'x' then 'y' when 'y' then 'z' else 'x' end $$;

-- One of the ways to change a row; `depth` ends the nesting.
create function change(key int, depth int) returns int language plpgsql as $$
declare
    way constant int := upto(12);
begin
    if depth <= 0 or pg_trigger_depth() > 4 then return 0; end if;
    case way
        when 1 then update r set other = next_other(other), part = upto(3) where id = key;
        when 2 then update r set state = next_state(state) where id = key returning change(id, depth - 1) into key;
        when 3 then update r set state = next_state(state), part = upto(3) where id = key
            returning change(id, depth - 1) into key;
        when 4 then delete from r where id = key;
        when 5 then insert into r (id, part) values (key, upto(3)) on conflict do nothing
            returning change(id, depth - 1) into key;
        when 6 then with gone as (delete from r where id = key returning id)
            insert into r (id, part) select id, upto(3) from gone returning change(id, depth - 1) into key;
        when 7 then insert into r_transitions (subject_id, event)
            select id, case state when 'a' then 'go' when 'b' then 'on' when 'c' then 'back' else 'fin' end
              from r where id = key limit 1;
        when 8 then perform pawl.fire('r', key, 'touch', state_column => 'state');
        when 9 then perform set_config('pawl.events', '{go,on,back}', true);
            update r set part = upto(3), n = n + 1 where id = key and state = 'a'
                returning length(case when random() < 0.5 then set_config('pawl.events', '', true) end) into key;
        when 10 then with q as (update r set part = upto(3), other = next_other(other) where id = key
                returning id, change(id, depth - 1)), s as (insert into r (id) values (key + 10) on conflict do nothing
                returning change(id, depth - 1))
            select count(*) from q, s into key;
        when 11 then update r set part = upto(3) where id between key and key + 2;
        else
            begin
                perform change(key, depth);
                if random() < 0.5 then raise exception 'undone'; end if;
            exception when others then null;
            end;
    end case;
    return 0;
end $$;
create function ripple(old r, new r) returns void language plpgsql as $$ begin
    if random() < 0.4 then perform change(case when random() < 0.5 then new.id else upto(8) end, 1); end if;
end $$;
create function mostly(old r, new r) returns boolean language sql volatile as $$ select random() < 0.9 $$;
create function trigger_changes() returns trigger language plpgsql as $$ begin
    if tg_when = 'BEFORE' and random() < 0.05 then return null; end if;
    if tg_when = 'BEFORE' and random() < 0.05 then new.n := new.n + 1; end if;
    if random() > 0.15 then return coalesce(new, old); end if;
    if tg_name <> 'z_deferred' then
        perform change(upto(8), 1);
        return coalesce(new, old);
    end if;
    begin
        perform change(upto(8), 1);
    exception when others then null;  -- at the end of the transaction nothing else would catch it
    end;
    return null;
end $$;
select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go [mostly] / ripple
    b --> c : on
    c --> a : back / ripple
    a --> a : touch
    b --> b : touch
    a --> w : start
    w --> a : fin
    classDef owned fill:#fff
    class w owned$$), pawl.define('o', $$stateDiagram-v2
    [*] --> x
    x --> y : xy / ripple
    y --> z : yz [mostly]
    z --> x : zx$$) \g /dev/null
select pawl.enforce('r', 'state', 'm', key => '{id}'),
    pawl.enable_log('r', 'state', hash_chain => true, most_recent => 'stored'), pawl.enable_events('r', 'state'),
    pawl.enforce('r', 'other', 'o', key => '{id}'), pawl.enable_log('r', 'other'),
    pawl.enable_queue('r', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.enable_timers('r', 'state', due => 'due') \g /dev/null
insert into r (id, part) select g, 1 + g % 3 from generate_series(1, 8) g;
create trigger a_before before update on r for each row execute function trigger_changes();
create trigger a_arrives before insert on r3 for each row execute function trigger_changes();
create trigger z_after after insert or update or delete on r for each row execute function trigger_changes();
create constraint trigger z_deferred after update on r deferrable initially deferred
    for each row execute function trigger_changes();

create table outcomes (sqlstate text, message text);
create procedure some_changes(n int) language plpgsql as $$ begin
    for i in 1..n loop
        begin
            perform set_config('pawl.events', '', true), set_config('pawl.processor', 'w', true),
                change(upto(8), 3);
            if random() < 0.1 then raise exception 'undone'; end if;
            insert into outcomes values ('00000', '');
        exception when others then insert into outcomes values (sqlstate, sqlerrm);
        end;
    end loop;
end $$;
select setseed(0.42) \g /dev/null
select format('call some_changes(%s)', upto(6)) from generate_series(1, 1200) \gexec

select is_empty('select * from pawl.verify(''r'')', 'the logs are whole, and end where the rows are');
create function gaps(log regclass) returns setof text language plpgsql as $$ begin
    return query execute format('select format(''%%s: %%s'', subject_id, sort_key)
        from (select *, lag(to_state) over w as before, row_number() over w as number
                from %s window w as (partition by subject_id order by sort_key)) e
        where from_state is distinct from before or sort_key <> number', log);
end $$;
select is_empty($$select gaps('r_transitions')$$, 'each entry begins where the one before it ended');
select is_empty($$select gaps('r_other_transitions')$$, 'also in a log without hashes');
select is((select string_agg(distinct sqlstate, ' ') from outcomes
    where sqlstate !~ '^(00000|P0001|PW00[1-4]|55000|23505|09000|27000|P0002|P0003)$'), null,
    'statements fail for known reasons');
select cmp_ok((select count(*) from outcomes where sqlstate = '00000'), '>', 100::bigint, 'most of them succeed');
select cmp_ok((select count(*) from r_transitions), '>', 300::bigint, 'and many states change');
select * from finish();
