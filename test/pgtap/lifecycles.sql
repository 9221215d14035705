-- Every machine that the packs ship, and the four diagrams of the documents they were drawn from: loaded, and
-- enforced exactly. For each pair of states a row is put into the first one behind pawl's
-- back and then moved by a plain UPDATE.
\set QUIET 1
set client_min_messages to warning;
select no_plan();
\getenv top PAWL_TOP
set pawl_test.top = :'top';
create function picture(file text) returns text
    language sql as $$ select pg_read_file(current_setting('pawl_test.top') || '/' || file) $$;
create function files(folder text) returns setof text language sql as $$
    select folder || '/' || f from pg_ls_dir(current_setting('pawl_test.top') || '/' || folder) f where f like '%.mmd'
        order by 1 $$;
create function name_of(file text) returns text
    language sql as $$ select regexp_replace(file, '^.*/([^/]*/[^/]*)\.mmd$', '\1') $$;

-- Computed here again: what an UPDATE may do, and which states a row may begin in.
-- Returns what differs from the stored transitions.
create function differences(lifecycle text) returns setof text language plpgsql as $$
declare
    states text[] := array(select state from pawl.states(lifecycle) where kind = 'state');
    origin text; target text; may bool; drawn bool;
begin
    execute 'create table subject (id int primary key, state text not null)';
    perform pawl.enforce('subject', 'state', lifecycle);
    foreach target in array states loop
        drawn := exists (select from pawl.transitions(lifecycle) t where t.from_state is null and t.to_state = target);
        begin
            execute 'insert into subject values (0, $1)' using target;
            may := true;
        exception when sqlstate 'PW002' then may := false;
        end;
        if may <> drawn then return next format('birth in %s: %s', target, may); end if;
        set local session_replication_role = replica;
        delete from subject;
        foreach origin in array states loop
            insert into subject values (1, origin);
            set local session_replication_role = origin;
            drawn := origin = target or exists (select from pawl.transitions(lifecycle) t
                where t.from_state = origin and t.to_state = target);
            begin
                update subject set state = target where id = 1;
                may := true;
            exception when sqlstate 'PW001' then may := false;
            end;
            if may <> drawn then return next format('%s to %s: %s', origin, target, may); end if;
            set local session_replication_role = replica;
            delete from subject;
        end loop;
        set local session_replication_role = origin;
    end loop;
    drop table subject;
end $$;
create function legal(lifecycle text, out states bigint, out births bigint, out pairs bigint, out stays bigint)
    language sql as $$
    select (select count(*) from pawl.states(lifecycle) where kind = 'state'),
           count(distinct to_state) filter (where from_state is null),
           count(distinct (from_state, to_state)) filter (where from_state <> to_state),
           count(distinct from_state) filter (where from_state = to_state) from pawl.transitions(lifecycle) $$;

select ok(pawl.define(name_of(f), picture(f), unbound => 'note') = 1, f || ' loads')
  from (select files('sql/pawl_' || p) f from unnest(array['bulk', 'dag', 'saga']) p
      union all select files('test/diagrams/seed')) f;
select is_empty(format('select * from pawl.check(picture(%L)) where severity = ''error''', f), f || ' has no errors')
  from (select files('sql/pawl_' || p) f from unnest(array['bulk', 'dag', 'saga']) p
      union all select files('test/diagrams/seed')) f;
select is(pawl.define(machine, pawl.diagram(machine), unbound => 'note'), 1,
        machine || ' printed and read again is the same version') from pawl.machine;

-- Annotations that name no function: rejected without unbound => 'note', and listed.
select throws_ok(format('select pawl.define(''rejected'', picture(%L))', 'test/diagrams/seed/' || f || '.mmd'), 'PW007',
    null, f || ' is rejected for its annotations')
  from unnest(array['bulk_row', 'tasker_step']) f;
select ok((select count(*) from pawl.machine where machine = 'rejected') = 0, 'and nothing of it is stored');
select lives_ok(format('select pawl.define(''plain %s'', picture(%L))', f, 'test/diagrams/seed/' || f || '.mmd'),
    f || ' has none')
  from unnest(array['bulk_operation', 'tasker_task']) f;

-- Counted by hand from the text of the documents: states, states to begin in, pairs of
-- different states with a transition.
select results_eq(format('select states, births, pairs from legal(%L)', m),
    format('values (%s::bigint, %s::bigint, %s::bigint)', s, b, p),
                  format('%s: %s of %s pairs are legal', m, p, s * (s - 1)))
  from (values ('seed/bulk_operation', 8, 1, 9), ('seed/bulk_row', 6, 1, 9), ('seed/tasker_task', 12, 1, 25),
      ('seed/tasker_step', 10, 1, 27)) c(m, s, b, p);

-- Exactly these.
select is_empty(format('select differences(%L)', machine), machine || ' is enforced as it is drawn')
    from (select distinct machine from pawl.machine order by 1) m;

-- A machine of a pack allows what its document drew.
select is_empty(format('select from_state, to_state from pawl.transitions(%L) except select from_state, to_state from '
        'pawl.transitions(%L)', seed, pack), format('%s has every transition of %s', pack, seed))
  from (values ('seed/bulk_operation', 'pawl_bulk/operation'), ('seed/bulk_row', 'pawl_bulk/row')) c(seed, pack);
-- Those of pawl_dag have the database's names, and leave out what the document calls legacy.
create function snake(name text) returns text
    language sql as $$ select lower(regexp_replace(name collate "default", '(?<!^)([A-Z])', '_\1', 'g')) $$;
select results_eq(format('select snake(from_state) || '' '' || snake(to_state) from pawl.transitions(%L) where '
    'from_state is not null except select (from_state || '' '' || to_state) collate "default" from '
    'pawl.transitions(%L)', seed, pack),
                  left_out, format('%s has every transition of %s that is not deprecated', pack, seed))
  from (values ('seed/tasker_task', 'pawl_dag/task', 'select null::text where false'),
               ('seed/tasker_step', 'pawl_dag/step', $$values ('pending in_progress'::text)$$)) c(seed, pack, left_out);
select * from finish();
