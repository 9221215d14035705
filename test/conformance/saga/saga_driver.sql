-- Drives one case of the saga suite: a worker in plain SQL whose tasks end as the case says.
set client_min_messages = warning;
create extension pawl_saga;
create table calls (atom text, kind text, n int not null default 0, primary key (atom, kind));
create table cue (atom text, state text, countdown int);
create table reverted (n int generated always as identity, atom text, given jsonb, failures jsonb);
create table given (n int generated always as identity, atom text, arguments jsonb);

-- A request to suspend at the moment of an event: before anything follows from it, as a watcher would send it.
create function at_the_cue() returns trigger language plpgsql as $$
declare outermost boolean;
begin
    update public.cue set countdown = countdown - 1 where atom = new.name and state = new.state;
    if found and exists (select from public.cue where countdown = 0) then
        outermost := pawl_saga._follow();
        update pawl_saga.flows set state = 'SUSPENDING' where flow_uuid = new.flow_uuid and state = 'RUNNING';
        if outermost then
            perform pawl_saga._followed();
        end if;
    end if;
    return null;
end $$;
create trigger at_the_cue after update on pawl_saga.tasks
    for each row when (old.state <> new.state) execute function at_the_cue();
create trigger at_the_cue after update on pawl_saga.retries
    for each row when (old.state <> new.state) execute function at_the_cue();

-- How the next call of this kind ends.
create function outcome(outcomes jsonb, atom text, kind text) returns jsonb language plpgsql as $$
declare list jsonb := coalesce(outcomes -> atom -> kind, '["ok"]'); said jsonb; nth int;
begin
    insert into calls values (atom, kind, 1) on conflict on constraint calls_pkey do update set n = calls.n + 1
        returning n into nth;
    said := list -> least(nth, jsonb_array_length(list)) - 1;
    if said = '"fail"' then
        return jsonb_build_object('failure',
            jsonb_build_object('message', atom || case kind when 'revert' then '!revert!' else '!' end || nth));
    elsif said ? 'fail' then
        return jsonb_build_object('failure', jsonb_build_object('message', said -> 'fail'));
    elsif said ? 'ok' and jsonb_typeof(said) = 'object' then
        return jsonb_build_object('result', said -> 'ok');
    end if;
    return jsonb_build_object('result', nth);
end $$;

-- Every event with what it carries, in order; also those of flows.
create table seen (n int generated always as identity, atom text, state text, value jsonb);
create function note_task() returns trigger language plpgsql as $$
begin
    insert into public.seen (atom, state, value)
        values (new.name, new.state, case new.state when 'SUCCESS' then coalesce(new.result, 'null')
        when 'FAILURE' then jsonb_build_object('failure', new.failure -> 'message')
        when 'REVERT_FAILURE' then jsonb_build_object('failure', new.revert_failure -> 'message') end);
    return null;
end $$;
create trigger a_note after update on pawl_saga.tasks
    for each row when (old.state <> new.state) execute function note_task();
create function note_retry() returns trigger language plpgsql as $$
begin
    insert into public.seen (atom, state, value)
        values (new.name, new.state, case new.state when 'SUCCESS' then coalesce(new.value, 'null')
        when 'FAILURE' then jsonb_build_object('failure', new.failure -> 'message') end);
    return null;
end $$;
create trigger a_note after update on pawl_saga.retries
    for each row when (old.state <> new.state) execute function note_retry();
create function note_flow() returns trigger language plpgsql as $$
begin
    insert into public.seen (atom, state) values ('$flow', new.state);
    return null;
end $$;
create trigger a_note after update on pawl_saga.flows
    for each row when (old.state <> new.state) execute function note_flow();

create function restore(flow uuid, preset jsonb) returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    update pawl_saga.tasks t
        set state = a.v ->> 'state', intention = coalesce(a.v ->> 'intention', 'EXECUTE'), result = a.v -> 'result',
           failure = case when a.v ? 'failure' then jsonb_build_object('message', a.v -> 'failure') end,
           due_at = case when a.v ->> 'state' in ('PENDING', 'SUCCESS', 'FAILURE') then 'infinity'::timestamptz end
      from jsonb_each(preset -> 'atoms') a(k, v) where t.flow_uuid = flow and t.name = a.k;
    update pawl_saga.retries t set state = a.v ->> 'state', intention = coalesce(a.v ->> 'intention', 'EXECUTE'),
        value = a.v -> 'history' -> -1 -> 0
      from jsonb_each(preset -> 'atoms') a(k, v) where t.flow_uuid = flow and t.name = a.k;
    insert into pawl_saga.attempts (flow_uuid, node, attempt, value, failures)
    select flow, t.node, h.n, h.v -> 0,
    (select coalesce(jsonb_object_agg(k, jsonb_build_object('message', x)), '{}') from jsonb_each(h.v -> 1) e(k, x))
      from jsonb_each(preset -> 'atoms') a(k, v) join pawl_saga.retries t on t.flow_uuid = flow and t.name = a.k
      cross join jsonb_array_elements(coalesce(a.v -> 'history', '[]')) with ordinality h(v, n);
    update pawl_saga.flows f set state = preset ->> 'flow_state' where f.flow_uuid = flow;
    insert into calls select u.k, c.k, c.v::int from jsonb_each(coalesce(preset -> 'attempts_used', '{}')) u(k, v)
        cross join jsonb_each_text(u.v) c(k, v);
    set local session_replication_role = origin;
end $$;

-- Claims, works and reports until nothing can be claimed; true: it died at the cue, in the middle of a call.
create function work(flow uuid, outcomes jsonb, crash_on jsonb, together boolean) returns boolean language plpgsql as $$
declare one record; claimed jsonb[]; reports jsonb; said jsonb;
begin
    loop
        claimed := '{}';
        for one in select c.*, t.priority from pawl_saga.claim('w', 'default', 1000) c
            join pawl_saga.tasks t using (flow_uuid, node) order by t.priority desc, c.node loop
            claimed := claimed || to_jsonb(one);
        end loop;
        exit when claimed = '{}';
        if crash_on is not null and exists (select from seen s where s.atom = crash_on ->> 0
                and s.state = crash_on ->> 1 offset coalesce((crash_on ->> 2)::int, 1) - 1) then
            set local session_replication_role = replica;
            update pawl_saga.tasks set lease_until = clock_timestamp() - interval '1 s' where worker = 'w';
            set local session_replication_role = origin;
            perform from pawl.reap('pawl_saga.tasks');
            return true;
        end if;
        reports := '[]';
        foreach said in array claimed loop
            if said ->> 'action' = 'execute' then
                insert into given (atom, arguments) values (said ->> 'name', said -> 'arguments');
            else
                insert into reverted (atom, given, failures) values (said ->> 'name',
                    case when jsonb_typeof(said -> 'failure') = 'object'
                        then jsonb_build_object('failure', said -> 'failure' -> 'message') else said -> 'result' end,
                    (select coalesce(jsonb_agg(k order by k), '[]') from jsonb_object_keys(said -> 'failures') k));
            end if;
            reports := reports || jsonb_build_array(jsonb_build_object('flow_uuid', said -> 'flow_uuid', 'node',
                said -> 'node', 'token', said -> 'token')
                                                    || outcome(outcomes, said ->> 'name', said ->> 'action'));
        end loop;
        if together then
            perform from pawl_saga.report(reports, 'w');
        else
            perform pawl_saga.report(jsonb_build_array(r), 'w') from jsonb_array_elements(reports) r;
        end if;
    end loop;
    return false;
end $$;

create function observed(flow uuid) returns jsonb language sql as $$
    select jsonb_build_object(
        'events', (select coalesce(
                        jsonb_agg(case when value is null then jsonb_build_array(atom, state)
                            else jsonb_build_array(atom, state, value) end order by n), '[]') from seen),
        'flow', f.state,
        'atoms', (select jsonb_object_agg(a.name, a.state) from (select name, state from pawl_saga.tasks
            where flow_uuid = flow union all select name, state from pawl_saga.retries where flow_uuid = flow) a),
        'intentions', (select jsonb_object_agg(a.name, a.intention) from (select name, intention from pawl_saga.tasks
            where flow_uuid = flow union all select name, intention from pawl_saga.retries where flow_uuid = flow) a),
        'error', pawl_saga.errors(flow),
        'retry_values',
        (select coalesce(jsonb_object_agg(r.name,
                    (select coalesce(jsonb_agg(s.value order by s.n), '[]') from seen s
                        where s.atom = r.name and s.state = 'SUCCESS')), '{}')
            from pawl_saga.retries r where r.flow_uuid = flow),
        'retry_history', (select coalesce(
            jsonb_object_agg(r.name,
                (select coalesce(
                        jsonb_agg(jsonb_build_array(a.value,
                                (select coalesce(jsonb_agg(k order by k), '[]') from jsonb_object_keys(a.failures) k))
                            order by a.attempt), '[]')
            from pawl_saga.attempts a where a.flow_uuid = flow and a.node = r.node and a.closed_at is null)), '{}')
            from pawl_saga.retries r where r.flow_uuid = flow),
        'reverts',
        (select coalesce(jsonb_agg(jsonb_build_array(atom, given, failures) order by n), '[]') from reverted),
        'args', (select coalesce(jsonb_object_agg(g.atom, g.list), '{}')
            from (select atom, jsonb_agg(arguments order by n) as list from given where arguments <> '{}'
                group by atom) g),
        'outputs', pawl_saga.outputs(flow))
      from pawl_saga.flows f where f.flow_uuid = flow $$;

create function run_case(one jsonb, together boolean) returns jsonb language plpgsql as $$
declare
    flow uuid; run jsonb; runs jsonb := '[]'; died boolean; loaded jsonb := one -> 'preset'; said text; state text;
    crash jsonb;
begin
    delete from calls; delete from cue; delete from seen; delete from reverted; delete from given;
    begin
        flow := pawl_saga.create_flow(pawl_saga.define(one -> 'definition'), coalesce(one -> 'inputs', '{}'),
            coalesce((one -> 'options' ->> 'defer_reverts')::boolean, false),
            coalesce((one -> 'options' ->> 'never_resolve')::boolean, false));
    exception when sqlstate 'PW007' then
        get stacked diagnostics said = message_text;
        return jsonb_build_array(jsonb_build_object('rejected', said));
    end;
    for run in select r from jsonb_array_elements(one -> 'runs') r loop
        delete from cue; delete from seen; delete from reverted; delete from given;
        crash := run -> 'crash_on';
        if crash is not null and crash ->> 1 not in ('RUNNING', 'REVERTING') or crash ->> 0 like 'r%' then
            -- result, decision and retry are one transaction, so no stop can come between
            -- them: the state between them is loaded
            loaded := run -> 'expected' -> 'snapshot';
            runs := runs || '[null]';
            continue;
        end if;
        if loaded is not null then
            perform restore(flow, loaded);
            loaded := null;
        end if;
        if run ? 'suspend_on' then
            insert into cue values (run -> 'suspend_on' ->> 0, run -> 'suspend_on' ->> 1,
                coalesce((run -> 'suspend_on' ->> 2)::int, 1));
        end if;
        select f.state into state from pawl_saga.flows f where f.flow_uuid = flow;
        if state in ('RUNNING', 'SUSPENDING', 'RESUMING') then
            perform pawl_saga.resume(flow);
        else
            perform pawl_saga.run(flow);
        end if;
        died := work(flow, coalesce(one -> 'outcomes', '{}'), crash, together);
        runs := runs || jsonb_build_array(observed(flow) || jsonb_build_object('died', died));
    end loop;
    return runs;
end $$;
