-- What a claim returns of a row, whether rows are read as neighbours or one by one.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
create function submitted(definition text, variadic xs text[]) returns uuid language plpgsql as $$
declare o uuid;
begin
    if definition = 'plain' then
        select s.operation into o from pawl_bulk.submit(definition, metadata => '{"by": "json"}',
            rows => (select jsonb_agg(jsonb_build_object('x', x) order by n)
                from unnest(xs) with ordinality u(x, n))) s;
    else
        select s.operation into o from pawl_bulk.submit(definition, metadata => '{"by": "csv"}', format => 'csv',
            dialect => '{"delimiter": ";", "quote": "!"}') s;
        insert into pawl_bulk.input (operation, raw) select o, 'x;y';
        insert into pawl_bulk.input (operation, raw) select o, x || ';!a;b!' from unnest(xs) x;
        perform pawl_bulk.seal(o);
    end if;
    for turn in 1 .. 20 loop
        exit when (select done from pawl_bulk.advance()) = 0;
    end loop;
    return o;
end $$;
create temporary table got as select * from pawl_bulk.claim('w') with ordinality;
-- Claimed rows that differ from what the tables say of them, with the data that they should have.
create function wrong() returns setof text language sql as $$
    select g.row_number || ': ' || g.data from got g
      left join pawl_bulk.records r using (operation, row_number, step_index)
      left join pawl_bulk.work w using (operation, row_number, step_index)
      left join pawl_bulk.operations o using (operation)
      left join pawl_bulk.validations v using (operation, row_number)
     where (g.step_name, g.kind, g.token, g.attempt, g.tries, g.idempotency_key, g.row_id, g.metadata, g.lease_until,
            g.traceparent) is distinct from ('s' || r.step_index, w.kind, w.token, r.retry_attempt, r.tries,
        r.operation || '/' || r.row_number || '/' || r.step_index || '/' || r.retry_attempt, v.row_id, o.metadata,
        w.lease_until, o.traceparent) or g.data is distinct from pawl_bulk.row_data(g.operation, g.row_number)
        or w.worker <> 'w'
$$;
create function claimed(batch integer, queue text default 'hands') returns text language plpgsql as $$
begin
    delete from got;
    insert into got select * from pawl_bulk.claim('w', queue, batch) with ordinality;
    return (select string_agg(row_number || ' ' || (data ->> 'x'), ', ' order by ordinality) from got);
end $$;

select pawl_bulk.define('{"name": "plain", "row_id": "x", "max_input_bytes": 0, "steps": [{"name": "s0", "handler":
    "hands"}, {"name": "s1", "handler": "others"}]}') is not null as ok;
select pawl_bulk.define('{"name": "table", "row_id": "x", "max_input_bytes": 0, "steps": [{"name": "s0", "handler":
    "cells", "max_retries": 3, "backoff": {"base": "1 ms", "jitter": 0}}]}') is not null as ok;

set pawl.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
select submitted('plain', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l',
    'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v') as o \gset
reset pawl.traceparent;
select is(claimed(6), '1 a, 2 b, 3 c, 4 d, 5 e, 6 f', 'the first rows are claimed in their order');
select is_empty('select wrong()', 'with what belongs to them');
select is((select count(*) from got where traceparent like '00-4bf92f%'), 6::bigint, 'in the trace of the operation');
select is((select string_agg(row_number || ' ' || ok, ', ' order by row_number) from pawl_bulk.report((select
    jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index, 'token',
    token, 'result', 'ok')) from got), 'w')), '1 true, 2 true, 3 true, 4 true, 5 true, 6 true', 'they are reported');
begin;
select claimed(5, 'others') as claimed \gset
select is(current_setting('enable_nestloop'), 'on', 'a claim leaves the planner as it was');
commit;
select is(:'claimed'::text, '1 a, 2 b, 3 c, 4 d, 5 e', 'they go on to the next step');
select is_empty('select wrong()', 'whose rows are those of this step');

select is((select string_agg(row_number::text, ',') from pawl_bulk.claim('gone', 'hands', 1)), '7', 'a row is taken');
select is((select count(*) from pawl_bulk.claim('kept', 'hands', 11)), 11::bigint, 'and those behind it');
select pawl.abandon('pawl_bulk.work', 'gone') > 0 as ok;
select is(claimed(5), '7 g, 19 s, 20 t, 21 u, 22 v', 'rows with a gap between them');
select is_empty('select wrong()', 'have what belongs to them');
select is(claimed(2), null, 'nothing is left');
select is((select count(*) from got), 0::bigint, 'then there are no rows');

select submitted('table', 'm', 'n', 'o', 'p', 'q') as c \gset
select is(claimed(5, 'cells'), '1 m, 2 n, 3 o, 4 p, 5 q', 'rows of a CSV file');
select is_empty('select wrong()', 'have the cells that the dialect says');
select is((select string_agg(distinct data ->> 'y', ',') from got), 'a;b', 'with its quotes');
select is((select count(*) from pawl_bulk.report((select jsonb_agg(jsonb_build_object('operation', operation,
    'row_number', row_number, 'step_index', step_index, 'token', token, 'result', 'fail')) from got), 'w') where ok),
    5::bigint, 'a try fails');
select pg_sleep(0.02) is null as ok;
delete from pawl_bulk.input where operation = :'c' and row_number = 2;
select is(claimed(5, 'cells'), '1 m, 3 o, 4 p, 5 q', 'the rows are claimed again');
select is((select string_agg(row_number || ' ' || tries || ' ' || (data is null), ', ' order by row_number) from got),
    '1 1 false, 2 1 true, 3 1 false, 4 1 false, 5 1 false',
    'one of them has lost its input, and all know of their tries');
select is_empty('select wrong()', 'and have what belongs to them');

select submitted('plain', 'p', 'q') as p \gset
select submitted('plain', 'r', 's', 't', 'u') as r \gset
select is(claimed(10, null), '6 f, 1 p, 2 q, 1 r, 2 s, 3 t, 4 u', 'rows of several operations and steps');
select is_empty('select wrong()', 'have what belongs to them');
select is((select count(distinct (operation, step_index)) from got), 3::bigint, 'each of its own operation');
select finish();
