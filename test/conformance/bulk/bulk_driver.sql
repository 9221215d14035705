-- The driver of the suite: one worker, a clock in logical seconds. The clock moves by moving what the database has
-- written the other way, so a case of 600 seconds takes a fraction of one, and nothing waits.
set client_min_messages = warning;
create schema conf;
create table conf.runs (row_number bigint, step_index int, execution int, at_second int,
    primary key (row_number, step_index, execution));
create table conf.planned (n int generated always as identity, at_second int, key text, result text, message text);
create table conf.checks (row_number bigint, step_index int, used int, primary key (row_number, step_index));
create table conf.did (n int generated always as identity, what jsonb);
create table conf.broken (n int generated always as identity, what text);
create table conf.it (operation uuid, c jsonb, clock int not null default 0,
    looked timestamptz not null default clock_timestamp(), next_action int not null default 0,
                      lease interval, worker int not null default 0);

create function conf.validator(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language sql as
$$ select n, c, c from unnest(row_numbers, rows) u(n, r) cross join lateral jsonb_array_elements_text(r -> 'codes')
    with ordinality x(c, k) order by n, k $$;
create function conf.metadata(metadata jsonb) returns table (code text, message text) language sql as
$$ select 'invalid', 'the metadata is invalid' where metadata ->> 'valid' = 'false' $$;

-- Time passes by this much for what the database has written; what really passed is taken back, to the whole second.
create function conf.moved(at timestamptz, looked timestamptz, is_now timestamptz, seconds int) returns timestamptz
    language sql as
$$ select case when isfinite(at) then is_now + make_interval(secs => round(extract(epoch from at - looked)) - seconds)
    else at end $$;
create procedure conf.pass(seconds int default 0) language plpgsql as $$
declare t timestamptz := clock_timestamp(); was timestamptz := (select looked from conf.it);
begin
    if seconds = 0 and t - was < interval '0.2 s' then return; end if;
    set local session_replication_role = replica;
    update pawl_bulk.work w
        set lease_until = conf.moved(lease_until, was, t, seconds), due = conf.moved(due, was, t, seconds),
           held_due = conf.moved(held_due, was, t, seconds), deadline_at = conf.moved(deadline_at, was, t, seconds)
     where w.operation = (select operation from conf.it)
         and (isfinite(lease_until) or isfinite(due) or isfinite(held_due) or isfinite(deadline_at));
    set local session_replication_role = origin;
    update conf.it set clock = clock + seconds, looked = t;
    -- A moved row can lie before the scan position of this session's claims. After an expensive scan of the head of the
    -- index, they read only behind that position for a while; after a rollback they read the head again.
    begin
        raise exception 'read from the head';
    exception when raise_exception then null;
    end;
end $$;

create function conf.status() returns text language sql as $$ select o.status from pawl_bulk.operations o
    where o.operation = (select operation from conf.it) $$;
create function conf.counters() returns jsonb language sql as
$$ select jsonb_build_array(s.total_rows, s.processed_rows, s.successful_rows,
        s.failed_rows) from pawl_bulk.status s where s.operation = (select operation from conf.it) $$;
create function conf.script(r bigint, s int, n int) returns jsonb language sql as
$$ select coalesce((select x -> 'steps' -> s::text -> (n - 1) from conf.it, jsonb_array_elements(c -> 'rows') x
        where (x ->> 'row')::bigint = r), '"ok"') $$;
create function conf.key(r bigint, s int) returns text language sql as
$$ select replace(replace(coalesce(c -> 'steps' -> s ->> 'key', 's{step}-r{row}'), '{step}', s::text), '{row}',
    r::text) from conf.it $$;

create function conf.look() returns void language sql as
$$ insert into conf.broken (what) select conf.status() || ': ' || problem || ' ' || detail
    from pawl_bulk.verify((select operation from conf.it)) $$;
-- After everything that is done, too, with PAWL_FULL=1; else after each action, and at rest.
\set full ''
\getenv full PAWL_FULL
create table conf.setting as select :'full' <> '' as looks_always;
create function conf.look_between() returns void language plpgsql as $$
begin
    if (select looks_always from conf.setting) then perform conf.look(); end if;
end $$;

-- One action from outside: its result as the cases write it.
create function conf.act(a jsonb) returns jsonb language plpgsql as $$
declare op uuid := (select operation from conf.it); answer jsonb; r record;
begin
    case a ->> 'do'
        when 'cancel' then answer := to_jsonb(case when pawl_bulk.cancel(op) then 'done' else 'already' end);
        when 'pause' then answer := to_jsonb(case when pawl_bulk.pause(op) then 'done' else 'already' end);
        when 'resume' then answer := to_jsonb(case when pawl_bulk.resume(op) then 'done' else 'already' end);
        when 'abort' then perform pawl_bulk.abort(op, 'aborted'); answer := '"done"';
        when 'drop_definition'
            then perform pawl_bulk.drop_definition((select definition from pawl_bulk.operations where operation = op));
        answer := '"done"';
        when 'can_retry' then
            select to_jsonb(x.reason) into answer from pawl_bulk.can_retry(case
                when a ? 'unknown_operation' then '00000000-0000-7000-8000-000000000000' else op end) x;
        when 'signal' then answer :=
            to_jsonb(pawl_bulk.signal(op, a ->> 'key', coalesce(a ->> 'result', 'complete'), a ->> 'message'));
        when 'force_operation' then update pawl_bulk.operations set status = a ->> 'to' where operation = op;
        answer := '"done"';
        when 'force_record' then
            if a ->> 'step' = '-1' then update pawl_bulk.validations set state = a ->> 'to'
                where operation = op and row_number = (a ->> 'row')::bigint;
            else update pawl_bulk.records set state = a ->> 'to'
                where operation = op and row_number = (a ->> 'row')::bigint and step_index = (a ->> 'step')::int;
            end if;
            answer := '"done"';
        when 'retry_all' then select jsonb_build_object('submitted', x.submitted, 'skipped', x.skipped) into answer
            from pawl_bulk.retry(op) x;
        when 'retry_rows' then
            select jsonb_build_object('submitted', x.submitted, 'skipped', x.skipped) into answer
              from pawl_bulk.retry(op, array(select jsonb_array_elements_text(a -> 'rows')::bigint)) x;
    end case;
    return answer;
exception when others then
    if sqlerrm ^@ 'retry rejected: ' then return jsonb_build_object('refused', substr(sqlerrm, 17)); end if;
    if sqlstate like 'PW%' or sqlstate = '55000' then return '"refused"'; end if;
    return to_jsonb(sqlstate || ' ' || sqlerrm);
end $$;

-- Does the actions whose turn it is, in their order, as long as the next one waits for this.
create function conf.when(happening jsonb) returns void language plpgsql as $$
declare a jsonb; w jsonb; r jsonb;
begin
    loop
        select c -> 'actions' -> next_action into a from conf.it;
        exit when a is null;
        w := coalesce(a -> 'when', '"rest"');
        exit when not (w = happening or jsonb_typeof(w) = 'array' and jsonb_array_length(w) = 3
            and happening = w || '[1]'
                       or w = '"rest"' and happening = '"created"' and false);
        r := conf.act(a);
        insert into conf.did (what) values (jsonb_build_array(a ->> 'do', r, conf.status(), conf.counters()));
        if a ->> 'do' = 'signal' and r is not null then null; end if;
        perform conf.look();
        update conf.it set next_action = next_action + 1;
    end loop;
end $$;

create function conf.send(key text, result text, message text) returns void
    language sql as $$ select pawl_bulk.signal((select operation from conf.it), key, result, message) $$;

-- What becomes of an execution that was claimed: the script says it.
create function conf.tell(w jsonb, result text, message text) returns boolean language plpgsql as $$
declare answer boolean;
begin
    call conf.pass();
    select r.ok into answer from pawl_bulk.report(jsonb_build_array((w - 'data' - 'metadata')
            || jsonb_build_object('result', result, 'message', message)), w ->> 'worker') r;
    return answer;
end $$;
create function conf.take(queue text, lease interval) returns jsonb language plpgsql as $$
declare w jsonb;
begin
    call conf.pass();
    update conf.it set worker = worker + 1;
    select to_jsonb(x) || jsonb_build_object('worker', 'w' || it.worker) into w
        from conf.it, pawl_bulk.claim('w' || it.worker, take.queue, 1, take.lease) x;
    return w;
end $$;

-- A check that is due. False: none is.
create function conf.check() returns boolean language plpgsql as $$
declare w jsonb := conf.take('checks', (select lease from conf.it)); r bigint; s int; n int; used_now int; answer text;
begin
    if w is null then return false; end if;
    r := w ->> 'row_number'; s := w ->> 'step_index';
    select max(execution) into n from conf.runs where row_number = r and step_index = s;
    insert into conf.checks values (r, s, 1) on conflict (row_number, step_index) do update set used = checks.used + 1
        returning used into used_now;
    answer := case when jsonb_typeof(conf.script(r, s, n)) = 'string' then 'done'
        else coalesce(conf.script(r, s, n) -> 'poll' ->> (used_now - 1), 'pending') end;
    if answer <> 'crash' then
        perform conf.tell(w, case answer when 'fail' then 'failed' else answer end,
            format('row %s step %s poll failed', r, s));
    end if;
    return true;
end $$;

-- An execution that is due. False: none is.
create function conf.execution() returns boolean language plpgsql as $$
declare w jsonb; r bigint; s int; n int; script jsonb; x jsonb; waiting boolean; next record; clock_now int :=
        (select clock from conf.it);
begin
    call conf.pass();
    perform from pawl.fire_due('pawl_bulk.work');
    select k.row_number, k.step_index into next from pawl_bulk.work k
        where k.operation = (select operation from conf.it) and k.queue = 'starts' and k.kind = 'start'
       and k.state in ('ready', 'lost') and k.due is null order by k.row_number, k.step_index limit 1;
    if not found then return false; end if;
    select coalesce(max(execution), 0) + 1 into n from conf.runs
        where row_number = next.row_number and step_index = next.step_index;
    perform conf.when(jsonb_build_array('before', next.row_number, next.step_index, n));
    script := conf.script(next.row_number, next.step_index, n);
    w := conf.take('starts', case when script = '"hang"' then '1 day' else (select lease from conf.it) end);
    if w is null then return true; end if;
    r := w ->> 'row_number'; s := w ->> 'step_index';
    insert into conf.runs values (r, s, n, clock_now);
    delete from conf.checks where row_number = r and step_index = s;
    for x in select e from jsonb_array_elements(coalesce(script -> 'signals', '[]')) e
        where (e ->> 'early')::boolean loop
        perform conf.send(conf.key(r, s), coalesce(x ->> 'result', 'complete'), x ->> 'message');
    end loop;
    perform conf.when(jsonb_build_array('during', r, s, n));
    if script in ('"crash"', '"hang"') then return true; end if;
    perform conf.tell(w, case when script = '"fail"' then 'fail' else 'ok' end,
        format('row %s step %s run %s', r, s, n));
    waiting := exists (select from pawl_bulk.records k where k.operation = (select operation from conf.it)
        and k.row_number = r and k.step_index = s and k.state = 'WaitingForCompletion');
    -- what the script sends later is sent, whether an early signal has completed the step or not
    if script <> '"fail"' and (select c -> 'steps' -> s ->> 'kind' from conf.it) = 'signal' then
        insert into conf.planned (at_second, key, result, message)
        select clock_now + (e ->> 'after')::int, conf.key(r, s), coalesce(e ->> 'result', 'complete'), e ->> 'message'
          from jsonb_array_elements(case
              when script = '"ok"' then case when waiting then '[{"after": 1}]' else '[]' end::jsonb
              else coalesce(script -> 'signals', '[]') end) e where e ? 'after';
    end if;
    if waiting then
        perform conf.when(jsonb_build_array('waiting', r, s, n));
    end if;
    perform conf.when(jsonb_build_array('after', r, s, n));
    return true;
end $$;

-- Everything that can be done at this second. Signals, deadlines, executions, checks: in this order; a check that is
-- due at its deadline is made.
create function conf.now() returns void language plpgsql as $$
declare p record;
begin
    -- a turn does one thing; a case that never ends is one that fails
    for turn in 1 .. 3000 loop
        call conf.pass();
        perform from pawl.reap('pawl_bulk.work');
        select * into p from conf.planned where at_second <= (select clock from conf.it) order by at_second, n limit 1;
        if found then
            delete from conf.planned where n = p.n;
            perform conf.send(p.key, p.result, p.message);
            continue;
        end if;
        continue when (select done from pawl_bulk.time_out()) > 0;
        if conf.status() = 'Retrying' then
            perform conf.when('"retrying"');
        end if;
        continue when (select done from pawl_bulk.advance(1)) > 0;
        continue when conf.execution();
        continue when conf.check();
        exit;
    end loop;
end $$;

-- Seconds until something is due; null: nothing is.
create function conf.until_next() returns int language plpgsql as $$
begin
    call conf.pass();
    return (select case when min(t) < 1 then 1 else round(min(t)) end::int from (
        select p.at_second - it.clock as t from conf.planned p, conf.it
        union all select extract(epoch from u.at - clock_timestamp()) from pawl_bulk.work w
         cross join lateral (values (case when w.state = 'leased'
             and w.lease_until < now() + interval '12 hours' then w.lease_until end), (w.due), (w.deadline_at)) u(at)
         where w.operation = (select operation from conf.it) and isfinite(u.at)) x);
end $$;

create procedure conf.prepare(c jsonb) language plpgsql as $$
declare name text := c ->> 'id'; steps jsonb; option jsonb :=
    coalesce(c -> 'options', '{}'); rows jsonb; n int; op uuid;
begin
    truncate conf.runs, conf.planned, conf.checks, conf.did, conf.broken, conf.it restart identity;
    select jsonb_agg(
        jsonb_strip_nulls(jsonb_build_object('name', s ->> 'name', 'kind', s ->> 'kind', 'handler', 'starts', 'check',
            'checks', 'max_retries', s -> 'max_retries',
               'backoff', jsonb_build_object('base', coalesce(s #>> '{backoff,base_s}', '1') || ' s', 'cap',
                   coalesce(s #>> '{backoff,max_s}', '30') || ' s', 'jitter', 0),
               'poll_interval', (s ->> 'poll_interval_s') || ' s', 'poll_jitter', 0, 'timeout',
               (s ->> 'timeout_s') || ' s', 'run_timeout', (s ->> 'run_timeout_s') || ' s',
               'allow_operation_retry', s -> 'allow_operation_retry', 'signal_key', s -> 'key')) order by k) into steps
      from jsonb_array_elements(c -> 'steps') with ordinality e(s, k);
    perform pawl_bulk.define(jsonb_build_object('name', name, 'validators', '["conf.validator"]'::jsonb,
        'metadata_validators', '["conf.metadata"]'::jsonb, 'steps', steps,
        'is_retryable', coalesce(option -> 'is_retryable', 'true'), 'track_row_data',
        coalesce(option -> 'track_row_data', 'true'),
        'max_retry_attempts', coalesce(option -> 'max_retry_attempts', '10'), 'max_takeovers',
        coalesce(option -> 'max_takeovers', '5')));
    n := greatest(coalesce((c #>> '{rows_template,count}')::int, 0),
        coalesce((select max((x ->> 'row')::int) from jsonb_array_elements(c -> 'rows') x), 0));
    n := least(n, (c ->> 'file_broken_after')::int);
    select coalesce(
                jsonb_agg(case when (x ->> 'malformed')::boolean then to_jsonb(k)
                    else jsonb_build_object('n', k, 'codes', coalesce(x -> 'validation', '[]')) end order by k), '[]')
        into rows
      from generate_series(1, n) k left join jsonb_array_elements(c -> 'rows') x on (x ->> 'row')::int = k;
    select s.operation into op from pawl_bulk.submit(name,
        case when c ->> 'metadata_valid' = 'false' then '{"valid": false}' else '{}' end::jsonb, rows) s;
    if c ? 'file_broken_after' then
        update pawl_bulk.operations o set input_error = 'the input cannot be read' where o.operation = op;
    end if;
    insert into conf.it (operation, c, lease)
        values (op, c, make_interval(secs => coalesce((option ->> 'lease_s')::int, 60)));
end $$;

-- The worker is lost after it validated this row, before its batch commits.
create function conf.lost_validation() returns void language plpgsql as $$
begin
    perform from pawl_bulk.advance(1);
    raise exception 'lost';
exception when raise_exception then null;
end $$;

create procedure conf.validate() language plpgsql as $$
declare through bigint; before bigint;
begin
    perform conf.when('"created"');
    loop
        call conf.pass();
        select coalesce(max(row_number), 0) into before from pawl_bulk.validations
            where operation = (select operation from conf.it);
        if (select c -> 'validation_crash_after' @> to_jsonb(before + 1) from conf.it) then
            perform conf.lost_validation();
        end if;
        if (select paused_at from pawl_bulk.operations
            where operation = (select operation from conf.it)) is not null then
            perform conf.when('"idle"');
        end if;
        exit when (select done from pawl_bulk.advance(1)) = 0;
        perform conf.look_between();
        select coalesce(max(row_number), 0) into through from pawl_bulk.validations
            where operation = (select operation from conf.it);
        if through > before then perform conf.when(jsonb_build_array('validated', through)); end if;
        exit when conf.status() not in ('Pending', 'Validating');
    end loop;
end $$;

create procedure conf.play() language plpgsql as $$
declare seconds int; actions int; turns int := 0;
begin
    call conf.validate();
    loop
        turns := turns + 1;
        if turns > 2000 then insert into conf.broken (what) values ('does not end'); exit; end if;
        perform conf.now();
        seconds := conf.until_next();
        if seconds is not null then
            perform conf.look_between();
            call conf.pass(seconds);
            continue;
        end if;
        perform conf.look();
        actions := (select next_action from conf.it);
        if conf.status() in ('Completed', 'CompletedWithErrors', 'Failed', 'Cancelled') then
            -- one at a time: a retry is run to its end before the next action
            perform conf.when_once('"rest"');
        else
            perform conf.when_once('"idle"');
        end if;
        exit when actions = (select next_action from conf.it);
    end loop;
end $$;
create function conf.when_once(happening jsonb) returns void language plpgsql as $$
declare rest jsonb; n int := (select next_action from conf.it);
begin
    -- the actions behind the next one are hidden from conf.when
    select c -> 'actions' into rest from conf.it;
    update conf.it set c = jsonb_set(c, '{actions}', (select coalesce(jsonb_agg(a order by k), '[]')
        from jsonb_array_elements(rest) with ordinality e(a, k) where k <= n + 1));
    perform conf.when(happening);
    update conf.it set c = jsonb_set(c, '{actions}', rest);
end $$;
