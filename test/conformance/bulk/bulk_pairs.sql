-- Every pair of states, by plain UPDATE: what may be done and what not.

-- An operation in this status; rows of one step, which waits for a signal. failing: its row has failed, and it can be
-- ended. waits: false: the step is synchronous.
create function conf.operation_in(status text, done boolean, failing boolean, waits boolean default true) returns uuid
    language plpgsql as $$
declare op uuid; w jsonb;
begin
    perform pawl_bulk.define(jsonb_build_object('name', 'pairs', 'is_retryable', true, 'track_row_data', true, 'steps',
        jsonb_build_array('{"name": "a", "handler": "pairs"}'::jsonb
            || case when waits then '{"kind": "signal", "timeout": "1 h"}' else '{}' end::jsonb)));
    select s.operation into op from pawl_bulk.submit('pairs', rows => '[{"n": 1}]') s;
    if status = 'Pending' then return op; end if;
    perform from pawl_bulk.advance(1);
    if status = 'Validating' then perform from pawl_bulk.advance(1); return op; end if;
    for i in 1 .. 3 loop perform from pawl_bulk.advance(1); end loop;
    if status = 'Cancelled' then perform pawl_bulk.cancel(op); end if;
    if status = 'Failed' then perform pawl_bulk.abort(op, 'x'); end if;
    if done and status not in ('Cancelled', 'Failed') then
        perform pawl_bulk.report((select jsonb_agg(to_jsonb(c) || '{"result": "ok"}')
                from pawl_bulk.claim('w', 'pairs', 1) c), 'w');
        perform pawl_bulk.signal(op, 's0-r1', case when failing then 'fail' else 'complete' end, 'no');
    end if;
    if status not in ('Running', 'Cancelled', 'Failed') then perform from pawl_bulk.advance(1); end if;
    if status = 'Retrying' then perform from pawl_bulk.retry(op); end if;
    return op;
end $$;

create function conf.try(command text) returns text language plpgsql as $$
begin
    execute command;
    return 'legal';
exception when sqlstate 'PW001' or sqlstate 'PW002' or sqlstate 'PW003' or sqlstate 'PW006'
    or sqlstate '23514' then return 'illegal';
end $$;

create function conf.operation_pairs(pairs jsonb) returns setof text language plpgsql as $$
declare p jsonb; op uuid; answer text; logged bigint; told bigint;
begin
    for p in select jsonb_array_elements(pairs) loop
        op := conf.operation_in(p ->> 0, p ->> 0 in ('Completed', 'CompletedWithErrors', 'Retrying')
            or p ->> 1 in ('Completed', 'CompletedWithErrors'),
                                p ->> 0 in ('CompletedWithErrors', 'Retrying') or p ->> 0 <> 'Completed'
                                and p ->> 1 = 'CompletedWithErrors');
        if (select status from pawl_bulk.operations where operation = op) <> p ->> 0 then
            return next format('could not make %s', p);
            continue;
        end if;
        select count(*) into logged from pawl_bulk.operation_transitions where operation = op;
        select count(*) into told from pawl_bulk.events where operation = op;
        answer := conf.try(format('update pawl_bulk.operations set status = %L where operation = %L', p ->> 1, op));
        if p ->> 0 = p ->> 1 then
            if answer <> 'legal'
                or logged <> (select count(*) from pawl_bulk.operation_transitions where operation = op)
               or told <> (select count(*) from pawl_bulk.events where operation = op) then
                   return next format('%s is a transition', p);
               end if;
            -- the function has no such state change either
            if exists (select from pawl.transitions('pawl_bulk.operation') t where t.from_state = p ->> 0
                and t.to_state = p ->> 1) then return next format('%s is drawn', p); end if;
        elsif answer <> p ->> 2 then return next format('%s is %s', p, answer);
        elsif (select status from pawl_bulk.operations where operation = op) <> p ->> (answer = 'legal')::int
            then return next format('%s left another status', p);
        end if;
        return query select format('%s: %s %s', p, problem, detail) from pawl_bulk.verify(op);
        -- out of the way of the next one
        perform pawl_bulk.cancel(op) from pawl_bulk.operations o where o.operation = op and o.completed_at is null;
    end loop;
end $$;

create function conf.record_pairs(pairs jsonb) returns setof text language plpgsql as $$
declare p jsonb; op uuid; answer text; logged bigint; was text;
begin
    for p in select jsonb_array_elements(pairs) loop
        was := p ->> 0;
        op := conf.operation_in(case was when 'Cancelled' then 'Cancelled' else 'Running' end,
            was in ('Completed', 'Failed'), was = 'Failed', (p ->> 0, p ->> 1) <> ('Running', 'Completed'));
        if was in ('Running', 'WaitingForCompletion', 'TimedOut') then
            perform set_config('pawl.processor', 'w', false);
            perform pawl_bulk.report((select jsonb_agg(to_jsonb(c) || '{"result": "ok"}')
                        from pawl_bulk.claim('w', 'pairs', 1) c where was <> 'Running'), 'w') where was <> 'Running';
            if was = 'Running' then perform from pawl_bulk.claim('w', 'pairs', 1); end if;
            -- a row times out at its deadline
            if 'TimedOut' in (was, p ->> 1) then
                update pawl_bulk.work set deadline_at = clock_timestamp() where operation = op;
            end if;
            if was = 'TimedOut' then update pawl_bulk.records set state = 'TimedOut' where operation = op; end if;
        end if;
        -- a reset is part of a retry
        if was in ('Failed', 'TimedOut') and p ->> 1 = 'Pending' then
            perform from pawl_bulk.advance(1);
            update pawl_bulk.operations set status = 'Retrying' where operation = op;
        end if;
        if (select state from pawl_bulk.records where operation = op) is distinct from was then
            return next format('could not make %s: %s', p, (select state from pawl_bulk.records where operation = op));
            continue;
        end if;
        select count(*) into logged from pawl_bulk.record_transitions where operation = op;
        answer := conf.try(format('update pawl_bulk.records set state = %L where operation = %L', p ->> 1, op));
        if was = p ->> 1 then
            if answer <> 'legal' or logged <> (select count(*) from pawl_bulk.record_transitions where operation = op)
                then return next format('%s is a transition', p); end if;
        elsif answer <> p ->> 2 then return next format('%s is %s', p, answer);
        elsif answer = 'illegal' and (select state from pawl_bulk.records where operation = op) <> was
            then return next format('%s changed the row', p);
        end if;
        perform set_config('pawl.processor', '', false);
        return query select format('%s: %s %s', p, problem, detail) from pawl_bulk.verify(op);
        -- out of the way of the next claim
        perform pawl_bulk.cancel(op) from pawl_bulk.operations o where o.operation = op and o.completed_at is null;
    end loop;
end $$;

create function conf.first_states(k jsonb) returns setof text language plpgsql as $$
declare p jsonb; op uuid; answer text;
begin
    for p in select jsonb_array_elements(k -> 'values') loop
        -- a row that waits to be validated, or is valid and has no record
        op := conf.operation_in('Pending', false, false);
        perform pawl_bulk.advance(1)
            from generate_series(1, case p ->> 0 when 'validation' then 1 when 'step' then 3 else 0 end);
        answer := conf.try(case p ->> 0
            when 'operation' then format('insert into pawl_bulk.operations (definition, version, last_step, '
                    'track_row_data, status) values (''pairs'', 1, 0, true, %L)', p ->> 1)
            when 'step' then format('insert into pawl_bulk.records (operation, row_number, step_index, state, '
                    'error_type) values (%L, 1, 0, %L, %L)', op, p ->> 1,
                                    case p ->> 1 when 'Failed' then 'StepFailure' end)
            else format('insert into pawl_bulk.validations (operation, row_number, state, errors) values '
                '(%L, 1, %L, %L)', op, p ->> 1, case p ->> 1 when 'Failed' then '[]' end) end);
        if answer <> p ->> 2 then return next format('%s is %s', p, answer); end if;
        perform pawl_bulk.cancel(op);
    end loop;
    for p in select jsonb_array_elements(k -> 'validation_record_pairs') loop
        op := conf.operation_in('Pending', false, false);
        perform from pawl_bulk.advance(1);
        insert into pawl_bulk.validations (operation, row_number, state, errors)
            values (op, 1, p ->> 0, case p ->> 0 when 'Failed' then '[]'::jsonb end);
        if conf.try(format('update pawl_bulk.validations set state = %L where operation = %L', p ->> 1, op))
                <> 'illegal' then return next format('validation %s', p); end if;
        if conf.try(format('delete from pawl_bulk.validations where operation = %L', op)) <> 'illegal' then
            return next 'a validation record was deleted';
        end if;
        perform pawl_bulk.cancel(op);
    end loop;
end $$;
