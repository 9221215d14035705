-- Runs every scenario and compares what came of it with what is expected; says TAP.

-- Differences, one a line.
create function conf.compare() returns setof text language plpgsql as $$
#variable_conflict use_column
declare
    e jsonb := (select c -> 'expected' from conf.it);
    op uuid := (select operation from conf.it);
    found_it jsonb;
    x record;
begin
    return query select what from conf.broken;
    if conf.status() <> e ->> 'status' then
        return next format('status %s, expected %s', conf.status(), e ->> 'status');
    end if;
    select jsonb_agg(to_state order by sort_key) into found_it from pawl_bulk.operation_transitions
        where operation = op;
    if found_it <> e -> 'status_path' then
        return next format('path %s, expected %s', found_it, e -> 'status_path');
    end if;
    select coalesce(jsonb_agg(type order by event), '[]') into found_it from pawl_bulk.events
        where operation = op and type in ('Completed', 'CompletedWithErrors', 'Failed', 'Cancelled');
    if found_it <> e -> 'terminal_events' then
        return next format('terminal events %s, expected %s', found_it, e -> 'terminal_events');
    end if;
    if (select count(*) from pawl_bulk.events where operation = op and type = 'StatusChanged')
        <> jsonb_array_length(e -> 'status_path') - 1 then return next 'not one event a status change'; end if;
    if (select retry_count from pawl_bulk.operations where operation = op) <> (e ->> 'retry_count')::int then
        return next 'retry_count';
    end if;
    found_it := conf.counters();
    if found_it <> jsonb_build_array(e #> '{counters,total}', e #> '{counters,processed}', e #> '{counters,successful}',
            e #> '{counters,failed}') then
        return next format('counters %s, expected %s', found_it, e -> 'counters'); end if;
    -- the records
    for x in
        with was as (
            select r.row_number,
            jsonb_agg(jsonb_build_array(r.step_index, r.state, r.error_type, r.retry_attempt, coalesce(k.n, 0),
                       case when r.step_index = -1
                then (select jsonb_agg(c -> 'code') from jsonb_array_elements(r.errors) c)
                    else to_jsonb(r.error_message) end) order by r.step_index) as records
              from pawl_bulk.row_records r left join (select row_number, step_index, count(*) as n from conf.runs
                  group by 1, 2) k using (row_number, step_index)
             where r.operation = op and not (r.step_index >= 0 and k.n is null and r.retry_attempt = 0
                     and r.state in ('Pending', 'Cancelled')) group by 1),
        wanted as (
            select k as row_number, coalesce(e -> 'rows' -> k::text, e -> 'rows_default') as records
              from generate_series(1, greatest(coalesce((select (c #>> '{rows_template,count}')::int from conf.it), 0),
                  (select coalesce(max((r ->> 'row')::int), 0) from conf.it, jsonb_array_elements(c -> 'rows') r))) k)
        select row_number, w.records as was, x.records as wanted from was w full join wanted x using (row_number)
         where (select jsonb_agg(case when y -> 5 = 'null' and a ->> 1 in ('Failed', 'TimedOut') then a - 5 else a end
                 order by i) from jsonb_array_elements(w.records) with ordinality q(a, i)
                  left join lateral (select x.records -> (i - 1)::int as y) z on true)
               is distinct from
               (select jsonb_agg(case when y -> 5 = 'null' and y ->> 1 in ('Failed', 'TimedOut') then y - 5 else y end
                   order by i) from jsonb_array_elements(x.records) with ordinality q(y, i))
    loop
        return next format('row %s: %s, expected %s', x.row_number, x.was, x.wanted);
    end loop;
    -- the history, in the order of submission
    select coalesce(
                    jsonb_agg(jsonb_build_array(h.row_number, h.step_index, h.attempt, h.error_type,
                        case when w.m = 'null' then null else h.error_message end) order by h.k), '[]') into found_it
      from (select *, row_number() over (order by s, row_number) as k
          from (select h.*, max(submitted_at) over (partition by attempt, step_index, row_number) as s0,
                   (select count(*) from pawl_bulk.operation_transitions t
                       where t.operation = op and t.to_state = 'Retrying' and t.created_at <= h.submitted_at) as s
              from pawl_bulk.retry_history h where operation = op) h) h
      left join lateral (select e -> 'history' -> (h.k - 1)::int -> 4 as m) w on true;
    if found_it <> e -> 'history' then return next format('history %s, expected %s', found_it, e -> 'history'); end if;
    -- signals, per key
    if exists (select key, jsonb_agg(jsonb_build_array(result, answer) order by signal) from pawl_bulk.signals
        where operation = op group by 1
               except select s ->> 0, jsonb_agg(jsonb_build_array(s -> 1, s -> 2) order by k)
               from jsonb_array_elements(e -> 'signals') with ordinality q(s, k) group by 1)
       or (select count(*) from pawl_bulk.signals where operation = op) <> jsonb_array_length(e -> 'signals') then
        return next format('signals %s, expected %s',
            (select jsonb_agg(jsonb_build_array(key, result, answer) order by signal) from pawl_bulk.signals
                where operation = op), e -> 'signals');
    end if;
    select coalesce(jsonb_agg(what order by n), '[]') into found_it from conf.did;
    if found_it <> e -> 'actions' then return next format('actions %s, expected %s', found_it, e -> 'actions'); end if;
    if (select c ->> 'compare_times' from conf.it) = 'true' then
        if exists (select row_number, jsonb_agg(jsonb_build_array(step_index, at_second)
            order by at_second, step_index, execution) from conf.runs group by 1
                   except select (t ->> 0)::bigint,
                       jsonb_agg(jsonb_build_array(t -> 1, t -> 2) order by (t ->> 2)::int, (t ->> 1)::int)
                   from jsonb_array_elements(e -> 'execution_times') t group by 1)
           or (select count(*) from conf.runs) <> jsonb_array_length(e -> 'execution_times') then
            return next format('times %s, expected %s',
                (select jsonb_agg(jsonb_build_array(row_number, step_index, at_second) order by at_second, row_number)
                    from conf.runs),
                e -> 'execution_times');
        end if;
    end if;
end $$;

create function conf.run(n int) returns text language plpgsql as $$
declare k jsonb; title text; wrong text;
begin
    select c into k from cases where cases.n = run.n;
    title := format('%s %s', k ->> 'id', k ->> 'title');
    begin
        if k ->> 'kind' = 'scenario' then
            call conf.prepare(k);
            call conf.play();
            select string_agg(distinct d, E'\n# ') into wrong from conf.compare() d;
        elsif k ->> 'kind' = 'pairs' and k ->> 'entity' = 'operation' then
            select string_agg(d, E'\n# ') into wrong from conf.operation_pairs(k -> 'pairs') d;
        elsif k ->> 'kind' = 'pairs' then
            select string_agg(d, E'\n# ') into wrong from conf.record_pairs(k -> 'pairs') d;
        else
            select string_agg(d, E'\n# ') into wrong from conf.first_states(k) d;
        end if;
    exception when others then
        get stacked diagnostics wrong = pg_exception_context;
        wrong := sqlstate || ' ' || sqlerrm || ' ' || replace(wrong, E'\n', E'\n# ');
    end;
    return case when wrong is null
        then format('ok %s - %s', n, title) else format(E'not ok %s - %s\n# %s', n, title, wrong) end;
end $$;
select '1..' || count(*) from cases;
select format('select conf.run(%s)', n) from cases where :'only' = '' or c ->> 'id' = :'only' order by n \gexec
