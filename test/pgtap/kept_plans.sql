-- What is planned while a statement of pawl is planned: the planner calls the stable functions of policies, and plans
-- of their statements are kept for the session, too.
\set ON_ERROR_STOP 1
\set QUIET 1
set client_min_messages = error;
select no_plan();
\ir include/jobs.psql

create table large (id int, pad text);
insert into large select g, 'x' from generate_series(1, 5000) g;
create function notes(name text) returns text language sql as $$ select coalesce(current_setting(name, true), '') $$;
create function notes_plan(name text, query text) returns void language plpgsql as $$
declare line text;
begin
    for line in execute 'explain ' || query loop
        perform set_config(name, notes(name) || line || ' ', false);
    end loop;
end $$;
create function marked(query text) returns void language plpgsql stable set enable_seqscan = off as $$
begin perform notes_plan('test.marked', query); end $$;
-- Only the first time, which is when the statement of pawl.claim is planned.
create function tenant() returns int language plpgsql stable as $$
begin
    if notes('test.join') = '' then
        perform notes_plan('test.join', 'select from large a join large b using (id)');
        perform notes_plan('test.scan', 'select from large where id > 0');
        perform marked('select from large where id > 0');
        perform set_config('test.fire', pawl.fire('others', 1, 'cancel'), false);
        perform notes_plan('test.after', 'select from large a join large b using (id)');
    end if;
    return 1;
end $$;

select make_jobs('jobs'), make_jobs('others');
select enforce_jobs('jobs'), enforce_jobs('others') \g /dev/null
alter table jobs add tenant int not null default 1;
insert into jobs (id, queue) select g, 'a' from generate_series(1, 3) g;
insert into others (id, queue) values (1, 'a');
alter table jobs enable row level security;
create policy of_tenant on jobs using (tenant = tenant());
create role pawl_kept_plans in role pawl_worker;
grant all on all tables in schema public to pawl_kept_plans;
create index on large (id);
analyze;

set role pawl_kept_plans;
set enable_material = off;
select is((select count(*) from pawl.claim(null::jobs, processor => 'w', queue => 'a')), 1::bigint,
    'rows under a policy are claimed');
reset role;
select matches(notes('test.join'), 'Hash|Merge', 'joins of its function are planned as usual');
select doesnt_match(notes('test.join'), 'rows=(1000000|333333)', 'by the statistics of the tables');
select matches(notes('test.scan'), 'Seq Scan', 'tables are read as usual');
select matches(notes('test.marked'), 'Index|Bitmap', 'a setting of a function that it calls holds');
select is(notes('test.fire'), 'gone', 'a state changes meanwhile');
select is(notes('test.after'), notes('test.join'), 'which changes nothing for what comes after');
select is(current_setting('enable_hashjoin') || current_setting('enable_material'), 'onoff',
    'the session keeps its settings');
select * from finish();
drop owned by pawl_kept_plans;
drop role pawl_kept_plans;
