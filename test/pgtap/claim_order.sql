-- The entries that a claim logs.
\set QUIET 1
set client_min_messages to error;
select no_plan();
-- The log has the entries of a claim in claim order, whatever states the rows leave and enter: one is led by a guard,
-- another by the state that it leaves; a table is partitioned.
create table guided (job int primary key, state text not null default 'ready', rank int, owner text, lease timestamptz,
    token bigint not null default 0);
create table halves (like guided including all) partition by hash (job);
create table halves_0 partition of halves for values with (modulus 2, remainder 0);
create table halves_1 partition of halves for values with (modulus 2, remainder 1);
create table sourced (like guided including all);
create function is_odd(old guided, new guided) returns boolean language sql as $$ select new.job % 2 = 1 $$;
select pawl.define('guided', E'stateDiagram-v2\n[*] --> ready\nready --> odd : take [is_odd]\nready --> even : take\n'
    'odd --> ready : back\neven --> ready : back\nclassDef owned fill:#fff\nclass odd,even owned');
select pawl.define('sourced', E'stateDiagram-v2\n[*] --> ready\n[*] --> late\nready --> taken : take\n'
    'late --> hurried : take\ntaken --> ready : back\nhurried --> late : back\nclassDef owned fill:#fff\n'
    'class taken,hurried owned');
create function orders_of(tab text, batch int) returns text language plpgsql as $$
declare claimed int[]; logged int[]; ordered int[];
begin
    execute format('select array_agg(c.job order by c.n) from (select job, row_number() over () as n
        from pawl.claim(null::%I, ''take'', ''order'', ''1 h'', %s)) c', tab, batch) into claimed;
    execute format('select array_agg(job order by l.id) from %I l where job = any ($1) and sort_key = 2',
        tab || '_transitions_log') into logged using claimed;
    execute format('select array_agg(job order by rank, job) from %I where job = any ($1)', tab) into ordered
        using claimed;
    return cardinality(claimed) || case when claimed = ordered then ' returned' else ' not returned' end
        || case when logged = ordered then ' and logged' else ' and not logged' end;
end $$;
do $$ declare tab text; begin
    foreach tab in array '{guided,halves,sourced}'::text[] loop
        perform pawl.enforce(tab::regclass, 'state', case tab when 'guided' then 'guided' else 'sourced' end);
        perform pawl.enable_log(tab::regclass);
        perform pawl.enable_queue(tab::regclass, owner => 'owner', lease => 'lease', token => 'token');
        perform pawl.set_claiming(tab::regclass, claim => '{take}', claim_order => 'rank', on_expiry => 'back');
        execute format('insert into %I (job, state, rank) select n, case when %L and n %% 3 = 0 then ''late''
            else ''ready'' end, (n * 7919) %% 101 from generate_series(1, 200) n', tab, tab <> 'guided');
    end loop;
end $$;
select is(orders_of(tab, n), n || ' returned and logged', format('%s: %s in claim order', tab, n))
  from unnest('{guided,halves,sourced}'::text[]) tab, unnest('{7,60}'::int[]) n;
analyze;
set enable_nestloop = off;
select is(orders_of(tab, 60), '60 returned and logged', tab || ': also with other settings of the planner')
  from unnest('{guided,halves,sourced}'::text[]) tab;
reset enable_nestloop;
select is((select count(*) from unnest(array['guided', 'halves', 'sourced']) tab, pawl.verify(tab::regclass)),
    0::bigint,
    'rows and logs agree');
select * from finish();
