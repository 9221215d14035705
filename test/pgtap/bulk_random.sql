-- Whatever happens to an operation, in any order: its counters are what a recount finds
-- after each statement, and nothing is wrong.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
create function sometimes(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
$$ select n, 'bad luck' from unnest(row_numbers) n where random() < 0.3 $$;
create function looked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, answer text, message text) language sql as
$$ select n, (array['done', 'pending', 'failed'])[1 + floor(random() * 3)::int], '' from unnest(row_numbers) n $$;
create function checked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language sql as
$$ select n, 'x', 'x' from unnest(row_numbers) n where random() < 0.1 $$;
select pawl_bulk.define('{"name": "random", "is_retryable": true, "track_row_data": true, "max_retry_attempts": 0,
    "validators": ["public.checked"], "steps": [
    {"name": "sql", "handler": "sql:public.sometimes", "max_retries": 1, "backoff": {"base": "0 s"}},
    {"name": "hands", "handler": "hands", "max_retries": 1, "backoff": {"base": "0 s"}},
    {"name": "poll", "kind": "poll", "handler": "sql:public.sometimes", "check": "sql:public.looked",
        "poll_interval": "1 ms", "timeout": "1 hour"},
    {"name": "signal", "kind": "signal", "handler": "none", "timeout": "1 hour"},
    {"name": "last", "handler": "sql:public.sometimes", "allow_operation_retry": false}]}') is not null as ok;
create table did (n int generated always as identity, what text, wrong text);
-- One action that may happen at any time; a rejected one has changed nothing.
create function anything(o uuid) returns text language plpgsql as $$
declare what text := (array['advance', 'advance', 'advance', 'run', 'run', 'run', 'claim', 'claim', 'report', 'report',
    'report', 'signal', 'signals', 'signals', 'due', 'due', 'expire', 'late', 'late', 'late',
                            'pause', 'resume', 'resume', 'resume', 'retry', 'retry', 'retry rows', 'fold', 'by hand',
                            'undone'])[1 + floor(random() * 30)::int];
begin
    case what
        when 'advance' then perform from pawl_bulk.advance(1 + floor(random() * 20)::int);
        when 'run' then perform from pawl_bulk.run_sql_rows(1 + floor(random() * 20)::int);
        when 'claim' then perform from pawl_bulk.claim('w', null, 1 + floor(random() * 10)::int);
        when 'report' then perform from pawl_bulk.report(
            (select coalesce(
                jsonb_agg(jsonb_build_object('operation', operation, 'row_number', row_number, 'step_index', step_index,
                    'token', token,
                'result', case when random() < 0.7 then 'ok' else 'fail' end, 'message', 'no')), '[]')
                from pawl_bulk.work where state = 'leased' and random() < 0.8), 'w');
        when 'signal' then perform pawl_bulk.signal(o, 's3-r' || 1 + floor(random() * 40)::int,
            case when random() < 0.7 then 'complete' else 'fail' end);
        when 'signals' then perform from pawl_bulk.signal_many(o,
            (select jsonb_agg(jsonb_build_object('key', 's3-r' || n, 'result',
                case when random() < 0.7 then 'complete' else 'fail' end))
                                      from generate_series(1, 40) n where random() < 0.4));
        when 'due' then perform pg_sleep(0.002); perform from pawl.fire_due('pawl_bulk.work');
        when 'expire' then perform from pawl_bulk.claim('gone', null, 3, '1 ms'); perform pg_sleep(0.002);
        perform from pawl.reap('pawl_bulk.work');
        when 'late' then
            update pawl_bulk.work set deadline_at = clock_timestamp()
                where operation = o and deadline_at is not null and random() < 0.3;
            perform from pawl_bulk.time_out();
        when 'pause' then perform pawl_bulk.pause(o);
        when 'resume' then perform pawl_bulk.resume(o);
        when 'retry' then perform from pawl_bulk.retry(o);
        when 'retry rows' then perform
            from pawl_bulk.retry(o, rows => array(select n from generate_series(1, 40) n where random() < 0.3));
        when 'fold' then perform from pawl_bulk.fold_counters();
        when 'by hand' then update pawl_bulk.records set state = 'Failed'
            where operation = o and state = 'WaitingForCompletion' and random() < 0.1;
        when 'undone' then
            perform from pawl_bulk.run_sql_rows(30);
            raise exception 'undone' using errcode = 'P0999';
    end case;
    return what;
exception when others then
    if sqlstate not in ('PW001', 'PW003', 'PW004', '55000', 'P0999') then raise; end if;
    return what || ': ' || sqlerrm;
end $$;
create procedure play(moves int) language plpgsql as $$
declare
    o uuid;
    what text;
    i int := 0;
    most constant int := case when current_setting('random.long')::boolean then 3000 else 600 end;
begin
    select s.operation into o from pawl_bulk.submit('random',
        rows => (select jsonb_agg(jsonb_build_object('n', n)) from generate_series(1, 40) n)) s;
    commit;
    -- on until all of it was seen; an operation that stands still makes room for the next
    while i < moves or i < most and ((select count(*) = 0 from pawl_bulk.events where type = 'RetrySubmitted')
        or (select count(distinct to_state) < 6 from pawl_bulk.record_transitions)) loop
        i := i + 1;
        what := public.anything(o);
        commit;
        insert into public.did (what, wrong) select what, string_agg(v.problem || ' ' || v.detail, '; ')
            from pawl_bulk.verify(o) v;
        commit;
        exit when exists (select from public.did where wrong is not null)
            or (select status = 'Completed' or status = 'CompletedWithErrors' and not (pawl_bulk.can_retry(o)).eligible
                from pawl_bulk.operations where operation = o);
    end loop;
end $$;
select setseed(0.42) is null as ok;
-- at least two operations (three longer ones with PAWL_LONG=1), and more when the first
-- were Completed before all was seen
\set long ''
\getenv long PAWL_LONG
select set_config('random.long', (:'long' <> '')::text, false) is null as ok;
do $$ declare long constant boolean := current_setting('random.long'); begin
    for turn in 1 .. 20 loop
        exit when turn > case when long then 3 else 2 end and (select count(*) > 200 from public.did)
            and (select count(*) > 0 from pawl_bulk.events where type = 'RetrySubmitted')
            and (select count(distinct to_state) = 6 from pawl_bulk.record_transitions)
            or exists (select from public.did where wrong is not null);
        call play(case when long then 200 else 125 end);
    end loop;
end $$;
select is((select string_agg(d.n || ' ' || d.what || ': ' || d.wrong, E'\n' order by d.n) from did d
        where wrong is not null),
    null, 'the counters are what a recount finds, and nothing is wrong, after each of many actions');
select cmp_ok((select count(*) from did), '>', 200::bigint, 'there were many');
select cmp_ok((select count(*) from pawl_bulk.events where type = 'RetrySubmitted'), '>', 0::bigint,
    'retries among them');
select is((select string_agg(distinct to_state, ' ') from pawl_bulk.record_transitions),
    (select string_agg(state, ' ' order by state) from pawl.states('pawl_bulk.row') where state <> 'Cancelled'),
    'and all states of rows, Cancelled apart');
select * from finish();
