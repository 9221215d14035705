-- A backend that claims twenty thousand times does not grow with it (a hundred thousand times with PAWL_LONG=1).
-- Alone on the server: DDL elsewhere empties the caches of a session, which are looked at.
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('job', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : expire
    done --> [*]
    class running owned$$);
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz, attempts int not null default 0,
    queue text not null default 'a', name text not null default repeat('x', 100)) with (fillfactor = 50);
select pawl.enforce('job', 'state', 'job'), pawl.enable_log('job', 'state', most_recent => 'stored'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts',
        queue => 'queue'), pawl.enable_timers('job', 'state', due => 'due'),
    pawl.set_claiming('job', 'state', claim => '{start}', claim_order => 'name', on_expiry => 'expire');
insert into job (id) select generate_series(1, 1000);
-- Autovacuum would have the session read the tables anew, and what it had before stays until the transaction ends.
alter table job set (autovacuum_enabled = false);
alter table job_transitions set (autovacuum_enabled = false);

-- Claims one by one; every hundred are given back, in a transaction of their own or not.
create procedure claim_often(times int, committing boolean) language plpgsql as $$
begin
    for i in 1..times loop
        perform pawl.claim(null::job, processor => 'w', queue => 'a');
        if i % 100 = 0 then
            perform pawl.heartbeat('job', 'w'), pawl.reap('job'), pawl.fire_due('job');
            perform pawl.abandon('job', 'w');
            if committing then commit; end if;
        end if;
    end loop;
end $$;
-- But for what PostgreSQL keeps of each row version of a transaction.
create function memory() returns bigint
    language sql as $$ select sum(used_bytes)::bigint from pg_backend_memory_contexts where name <> 'Combo CIDs' $$;

-- What is in use, not what PostgreSQL has allocated: blocks double, so a cache that is built again can add hundreds of
-- kB to that. What leaks grows in every turn.
create table turn (measured text, n int, memory bigint, primary key (measured, n));
create procedure take_turns(name text, turns int, times int, committing boolean) language plpgsql as $$
begin
    for n in 0..turns loop
        call claim_often(times, committing);
        insert into turn values (name, n, memory());
        if committing then commit; end if;
    end loop;
end $$;
create function growth(name text, out middle bigint, out whole bigint) language sql as $$
    select percentile_disc(0.5) within group (order by grown), sum(grown)
      from (select memory - lag(memory) over (order by n) as grown from turn where measured = name) t $$;

\set long ''
\getenv long PAWL_LONG
select case :'long' when '' then 20 else 100 end as turns \gset
call take_turns('committing', :turns - 1, 1000, true);
select is((select sum(attempts) from job), :turns * 1000::bigint, 'thousands of claims were made');
\echo # a thousand claims:
select '# ' || string_agg(coalesce(grown::text, '-'), ' ' order by n)
  from (select n, memory - lag(memory) over (order by n) as grown from turn) t;
select cmp_ok(middle, '<=', 100::bigint, 'by a backend that did not grow in each thousand')
  from growth('committing');
select cmp_ok(whole, '<', 65536::bigint, 'nor in all of them')
  from growth('committing');

-- Within one transaction what it keeps until the end is little.
begin;
call take_turns('one transaction', 10, 500, false);
select '# in one transaction: ' || growth('one transaction');
select cmp_ok(whole, '<', 400000::bigint, 'nor does one transaction with thousands of claims take much')
  from growth('one transaction');
commit;
select * from finish();
