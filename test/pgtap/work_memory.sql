-- A backend that claims a hundred thousand times is as large as it was after the first thousand.
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
    language sql as $$ select sum(total_bytes)::bigint from pg_backend_memory_contexts where name <> 'Combo CIDs' $$;

call claim_often(5000, true);
select memory() as before \gset
call claim_often(95000, true);
select memory() as after \gset
select is((select sum(attempts) from job), 100000::bigint, 'a hundred thousand claims were made');
\echo # :before bytes before, :after after
select ok(:after - :before < 65536, 'by a backend that did not grow');

-- Within one transaction what it keeps until the end is little.
begin;
call claim_often(1000, false);
select memory() as before \gset
call claim_often(4000, false);
select memory() as after \gset
\echo # :before bytes before, :after after
select ok(:after - :before < 400000, 'nor does one transaction with thousands of claims take much');
commit;
select * from finish();
