-- What one row does wrong stops no other: reap, fire_due, abandon, claim and claim_keys
-- leave it as it is, tell of it, and see to the rest.
\set QUIET 1
set client_min_messages = error;
select no_plan();
\setenv PGDATABASE :DBNAME
\setenv PGOPTIONS '-c client_min_messages=warning'

create sequence conflicts;
create function stings() returns trigger language plpgsql as $$
begin
    if new.state is distinct from old.state then
        if new.poison = 'trigger' then raise exception 'poisoned trigger' using errcode = 'ZZ003'; end if;
        if new.poison = 'busy' then raise exception 'later' using errcode = '40001'; end if;
        if new.poison = 'deadlock' then raise exception 'later' using errcode = '40P01'; end if;
        if new.poison = 'locked' then raise exception 'locked' using errcode = '55P03'; end if;
        if new.poison = 'memory' then raise exception 'short of it' using errcode = '53200'; end if;
        if new.poison = 'remote' then raise exception 'not there' using errcode = '08001'; end if;
        if new.poison = 'once' then
            if nextval('conflicts') <= 4 then raise exception 'once' using errcode = '40001'; end if;
        end if;
        if new.poison = 'slow' then perform pg_sleep(1000); end if;
    end if;
    return new;
end $$;
-- The first 12 rows are poisoned where they are now, the 13th is kept by its guard.
create function poison(t regclass) returns void language plpgsql as $$
begin
    execute format($f$update %s
            set held = state, poison = case when id <= 12
                then (array['check', 'trigger', 'effect', 'guard'])[1 + id %% 4] when id = 13 then 'no' end$f$, t);
end $$;
-- The first 13, with errors that a caller usually repeats for.
create function busy(t regclass) returns void language plpgsql as $$
begin
    execute format($f$update %s set poison = (array['busy', 'deadlock', 'locked', 'memory', 'remote'])[1 + id %% 5]
            where id <= 13$f$, t);
end $$;
create function heal(t regclass) returns void
    language plpgsql as $$ begin execute format('update %s set poison = null', t); end $$;
create function ids(t regclass, condition text) returns text language plpgsql as $$
declare answer text;
begin
    execute format('select string_agg(id::text, '' '' order by id) from %s where %s', t, condition) into answer;
    return answer;
end $$;
create function set_time(t regclass, assignment text) returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    execute format('update %s set %s', t, assignment);
    set local session_replication_role = origin;
end $$;
create function cancelled(statement text) returns boolean language plpgsql as $$
begin
    execute statement;
    return false;
exception when query_canceled then return true;
end $$;
create function all_but(first int) returns text
    language sql as $$ select string_agg(i::text, ' ' order by i) from generate_series(first, 30) i $$;

\set t plain_duties
\set partitions ''
\set members ''
\ir include/duties.psql
\set t partitioned_duties
\set partitions 'partition by range (id)'
\set members 'create table few_duties partition of partitioned_duties for values from (1) to (20); create table more_duties partition of partitioned_duties for values from (20) to (100);'
\ir include/duties.psql

-- More rows that raise errors than a call tells of.
create table many_duties (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, check (id > 200 or state = 'ready'));
select pawl.define('plain', E'stateDiagram-v2\n[*] --> ready\nready --> running : start\nrunning --> ready : lose\n'
    'running:::owned') \g /dev/null
select pawl.enforce('many_duties', 'state', 'plain'), pawl.enable_log('many_duties', 'state'),
    pawl.enable_queue('many_duties', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.set_claiming('many_duties', 'state', claim => '{start}', on_expiry => 'lose') \g /dev/null
insert into many_duties (id) select generate_series(1, 210);
\set warnings `psql -XAtqc "select count(*) from pawl.claim(null::many_duties, processor => 'w', batch => 5)" 2>&1`
select is((select count(*) from regexp_matches(:'warnings'::text, 'WARNING:  row \d+ of public.many_duties was '
    'skipped: new row for relation', 'g')), 5::bigint, 'the warnings of a call are few');
select matches(:'warnings'::text, 'WARNING:  195 more rows of public.many_duties were skipped: their state changes '
    'raised errors', 'and the others are counted');
select matches(:'warnings'::text, '(^|\n)5(\n|$)', 'behind many rows that raise errors others are reached');

-- A conflict is worth repeating.
alter table many_duties add poison text;
create trigger stings before update on many_duties for each row execute function stings();
update many_duties set poison = 'once' where id = 206;
\set warnings `psql -XAtqc "select id from pawl.claim(null::many_duties, processor => 'w', batch => 5)" 2>&1`
select matches(:'warnings'::text, '(^|\n)206(\n|$)', 'a row that conflicts a few times is claimed in the same call');
select is((select last_value from conflicts), 5::bigint, 'when it was tried again');
update many_duties set poison = 'busy' where state = 'ready';
\set warnings `psql -XAtqc "select count(*) from pawl.claim(null::many_duties, processor => 'w', batch => 5)" 2>&1`
select matches(:'warnings'::text, 'was skipped: later\s+DETAIL:  Its state change raised an error with SQLSTATE 40001',
    'others are reported');

-- What no row does wrong is raised.
create role duty_caller;
grant select, update (lease) on many_duties to duty_caller;
set role duty_caller;
select throws_ok($$select pawl.claim(null::many_duties, processor => 'w')$$, '42501', null,
    'rights that the caller lacks');
reset role;
select throws_ok($$select pawl.claim(null::many_duties, processor => 'w', lease => '294000 years')$$, '22023', null,
    'a lease that is out of range');
select is_empty($$select * from pawl.verify('many_duties')$$, 'log and rows agree');
drop owned by duty_caller;
drop role duty_caller;
select * from finish();
