-- One action on many tasks or bulk operations: those with given ids, or all that a filter matches. Each has an outcome
-- of its own. A request does a bounded part of the work, and its answer says where the next one continues.

-- The actions of a list, and the function that carries each out for one task or operation.
CREATE FUNCTION pawl_api._actions(kind text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN
CASE kind WHEN 'operation' THEN '{"cancel": "pawl_bulk.cancel(uuid)", "pause": "pawl_bulk.pause(uuid)",
    "resume": "pawl_bulk.resume(uuid)", "retry": "pawl_bulk.retry(uuid, bigint[], text[], text[])"}'::pg_catalog.jsonb
    ELSE '{"cancel": "pawl_dag.cancel_task(uuid, text)", "retry": "pawl_dag.retry_task(uuid, text)",
    "resolve": "pawl_dag.resolve_task(uuid, text)", "give_up": "pawl_dag.give_up(uuid, text)",
    "reset": "pawl_dag.reset_task(uuid, text)"}'::pg_catalog.jsonb
        OPERATOR(pg_catalog.-) CASE kind WHEN 'letter' THEN 'reset' ELSE '' END END;
COMMENT ON FUNCTION pawl_api._actions(text) IS 'internal: the actions on tasks or operations, with their functions';

CREATE FUNCTION pawl_api._flag(body jsonb, name text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF jsonb_typeof(body -> name) NOT IN ('boolean', 'null') THEN
        PERFORM pawl.raise('22023', format('%s must be true or false', name));
    END IF;
    RETURN coalesce((body ->> name)::boolean, false);
END
$function$;
COMMENT ON FUNCTION pawl_api._flag(jsonb, text) IS 'internal: a field that is true or false, by default false; 22023';

CREATE FUNCTION pawl_api._need_action(kind text, b jsonb) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    action text := pawl_api._required(b, 'action');
    function text := pawl_api._actions(kind) ->> action;
    known text;
BEGIN
    PERFORM pawl_api._need(CASE kind WHEN 'operation' THEN 'pawl_bulk' ELSE 'pawl_dag' END);
    IF function IS NULL THEN
        SELECT string_agg(k, ', ' ORDER BY k) INTO known FROM jsonb_object_keys(pawl_api._actions(kind)) k;
        PERFORM pawl.raise('22023', format('unknown action "%s"', action), NULL, known);
    ELSIF NOT has_function_privilege(function, 'EXECUTE') THEN
        PERFORM pawl.raise('42501', format('permission denied for action "%s"', action),
            format('Role "%s" cannot execute %s.', current_user, function),
            format('grant pawl_operator to %I', current_user));
    END IF;
    IF action IN ('resolve', 'give_up', 'reset') AND NOT pawl_api._flag(b, 'dry_run') THEN
        PERFORM pawl_api._required(b, 'reason');
    END IF;
    RETURN action;
END
$function$;
COMMENT ON FUNCTION pawl_api._need_action(text, jsonb) IS
'internal: the action of a body; 22023: there is none, or its reason is missing; 42501: the role may not execute it';

-- One of the two says on what to act; an empty filter is all there is.
CREATE FUNCTION pawl_api._need_target(kind text, b jsonb) RETURNS uuid[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    ids jsonb := nullif(b -> 'ids', 'null');
    filter jsonb := nullif(b -> 'filter', 'null');
    wrong text;
BEGIN
    IF (ids IS NULL) = (filter IS NULL) THEN
        PERFORM pawl.raise('22023', 'the body must have either "ids" or "filter"');
    ELSIF filter IS NOT NULL THEN
        PERFORM pawl_api._object(filter, CASE kind
            WHEN 'task'
                THEN '{state,name,namespace,identity_key,created_after,created_before,search}'::text[]
            WHEN 'letter' THEN '{reason,entered_before,search}'
            ELSE '{status,operationName,createdBy,fromDate,toDate}' END);
        SELECT e.key INTO wrong FROM jsonb_each(filter) e WHERE jsonb_typeof(e.value) <> 'string' LIMIT 1;
        IF FOUND THEN
            PERFORM pawl.raise('22023', format('"%s" of the filter must be a string', wrong));
        END IF;
        RETURN NULL;
    ELSIF jsonb_typeof(ids) <> 'array' OR jsonb_array_length(ids) > 500 THEN
        PERFORM pawl.raise('22023', 'ids must be a list of at most 500');
    END IF;
    RETURN ARRAY(SELECT DISTINCT pawl_api._uuid(jsonb_build_object('each of ids', coalesce(e, '')), 'each of ids') AS id
        FROM jsonb_array_elements_text(ids) e ORDER BY id DESC);
END
$function$;
COMMENT ON FUNCTION pawl_api._need_target(text, jsonb) IS
'internal: the ids of a body, newest first; null: it has a filter; 22023';

CREATE FUNCTION pawl_api._action_limit(b jsonb, most integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF jsonb_typeof(b -> 'limit') NOT IN ('number', 'null') OR (b ->> 'limit')::numeric NOT BETWEEN 1 AND most
        OR (b ->> 'limit')::numeric % 1 <> 0 THEN
        PERFORM pawl.raise('22023', format('limit must be from 1 to %s', most));
    END IF;
    RETURN coalesce((b ->> 'limit')::integer, most);
END
$function$;
COMMENT ON FUNCTION pawl_api._action_limit(jsonb, integer) IS
'internal: how many tasks or operations a request looks at; 22023';

CREATE FUNCTION pawl_api._act_on_one(kind text, action text, id uuid, reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF kind = 'operation' THEN
        CASE action
            WHEN 'cancel' THEN RETURN pawl_bulk.cancel(id);
            WHEN 'pause' THEN RETURN pawl_bulk.pause(id);
            WHEN 'resume' THEN RETURN pawl_bulk.resume(id);
            WHEN 'retry' THEN RETURN (SELECT r.submitted > 0 FROM pawl_bulk.retry(id) r);
        END CASE;
    END IF;
    CASE action
        WHEN 'cancel' THEN RETURN pawl_dag.cancel_task(id, reason);
        WHEN 'retry' THEN RETURN pawl_dag.retry_task(id, reason);
        WHEN 'resolve' THEN RETURN pawl_dag.resolve_task(id, reason);
        WHEN 'give_up' THEN RETURN pawl_dag.give_up(id, reason);
        WHEN 'reset' THEN RETURN pawl_dag.reset_task(id, reason);
    END CASE;
END
$function$;
COMMENT ON FUNCTION pawl_api._act_on_one(text, text, uuid, text) IS
'internal: carries an action out for one task or operation; false: it changed nothing';

CREATE FUNCTION pawl_api._carry_out_singly(kind text, action text, preview jsonb, reason text, enough timestamptz,
    code text, problem text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    outcomes jsonb := '[]';
    one jsonb;
BEGIN
    IF jsonb_array_length(preview) = 1 THEN
        RETURN jsonb_build_array(preview -> 0
            || jsonb_build_object('outcome', 'rejected', 'sqlstate', code, 'reason', problem));
    END IF;
    FOR one IN SELECT e FROM jsonb_array_elements(preview) WITH ORDINALITY x(e, n) ORDER BY n LOOP
        outcomes := outcomes || pawl_api._carry_out(kind, action, jsonb_build_array(one), reason, enough);
        EXIT WHEN clock_timestamp() > enough;
    END LOOP;
    RETURN outcomes;
END
$function$;
COMMENT ON FUNCTION pawl_api._carry_out_singly(text, text, jsonb, text, timestamptz, text, text) IS
'internal: the outcomes after an error: it is that of a single one, and of several each is tried by itself';

-- All of them in one subtransaction; if one fails, each in its own. A lock that another transaction keeps is waited for
-- briefly, so that one task does not hold up the others.
CREATE FUNCTION pawl_api._carry_out(kind text, action text, preview jsonb, reason text, enough timestamptz)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms'
AS $function$
DECLARE
    outcomes jsonb := '[]';
    one jsonb;
BEGIN
    FOR one IN SELECT e FROM jsonb_array_elements(preview) WITH ORDINALITY x(e, n) ORDER BY n LOOP
        IF one ->> 'outcome' = 'changed' AND NOT pawl_api._act_on_one(kind, action, (one ->> 'id')::uuid, reason) THEN
            one := one || '{"outcome": "unchanged", "reason": "it has changed meanwhile"}';
        END IF;
        outcomes := outcomes || jsonb_build_array(one);
        EXIT WHEN clock_timestamp() > enough;
    END LOOP;
    RETURN outcomes;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN pawl_api._carry_out_singly(kind, action, preview, reason, enough, SQLSTATE,
            'another transaction has locked it');
    WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl.must_reraise(SQLSTATE) THEN
            RAISE;
        END IF;
        RETURN pawl_api._carry_out_singly(kind, action, preview, reason, enough, SQLSTATE, SQLERRM);
END
$function$;
COMMENT ON FUNCTION pawl_api._carry_out(text, text, jsonb, text, timestamptz) IS
'internal: carries an action out for those that it would change, until the time has come; the outcomes of the first';

CREATE FUNCTION pawl_api._act(kind text, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    chunk constant integer := 25;
    -- a request ends well before its statement times out
    enough constant timestamptz := clock_timestamp() + least(interval '2 s',
        nullif(current_setting('statement_timeout')::interval, interval '0') / 4);
    b jsonb := pawl_api._object(body, '{action,reason,ids,filter,dry_run,limit,cursor}');
    action text := pawl_api._need_action(kind, b);
    dry_run boolean := pawl_api._flag(b, 'dry_run');
    ids uuid[] := pawl_api._need_target(kind, b);
    page integer := pawl_api._action_limit(b, CASE WHEN dry_run THEN 10000 ELSE 500 END);
    before uuid := coalesce((pawl_api._after(b, 1))[1]::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    looked_until uuid;
    outcomes jsonb := '[]';
BEGIN
    IF ids IS NULL THEN
        SELECT x.* INTO ids, looked_until
            FROM pawl_api._find(kind, b -> 'filter', before, page, pawl_api._look_until()) x;
    ELSE
        ids := ARRAY(SELECT u FROM unnest(ids) u WHERE u < before ORDER BY u DESC LIMIT page);
    END IF;
    IF dry_run THEN
        outcomes := pawl_api._preview(kind, ids, action);
    ELSE
        FOR n IN 1 .. cardinality(ids) BY chunk LOOP
            outcomes := outcomes || pawl_api._carry_out(kind, action,
                pawl_api._preview(kind, ids[n : n + chunk - 1], action), b ->> 'reason', enough);
            EXIT WHEN clock_timestamp() > enough;
        END LOOP;
    END IF;
    before := CASE WHEN jsonb_array_length(outcomes) < cardinality(ids) OR cardinality(ids) = page
        THEN (outcomes -> -1 ->> 'id')::uuid ELSE looked_until END;
    RETURN jsonb_build_object('action', action, 'dry_run', dry_run, 'at', clock_timestamp(),
        'groups', pawl_api._outcome_groups(outcomes), 'items', CASE WHEN dry_run THEN '[]' ELSE outcomes END,
        'next', CASE WHEN before IS NOT NULL THEN pawl_api._cursor(ARRAY[before::text]) END)
        || (SELECT jsonb_build_object('changed', count(*) FILTER (WHERE o ->> 'outcome' = 'changed'),
            'unchanged', count(*) FILTER (WHERE o ->> 'outcome' = 'unchanged'),
            'rejected', count(*) FILTER (WHERE o ->> 'outcome' = 'rejected')) FROM jsonb_array_elements(outcomes) o);
END
$function$;
COMMENT ON FUNCTION pawl_api._act(text, jsonb) IS
'internal: a bounded part of an action on tasks, on those of pending dead letters, or on bulk operations';

CREATE FUNCTION pawl_api.act_on_tasks(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._act('task', body); END;
COMMENT ON FUNCTION pawl_api.act_on_tasks(jsonb, jsonb) IS
'Route: cancels, retries, resolves, gives up or resets many tasks, each with an outcome of its own. A request works
for two seconds at most, or a quarter of statement_timeout if that is less; next continues it.
q: none. body: action (cancel, retry, resolve, give_up, reset), reason (a text for the log; resolve, give_up and
reset need it), either ids (at most 500) or filter (an object of texts: those of list_tasks; an empty one matches
all), dry_run (true: nothing is changed; default false), limit (1 to 500, with dry_run to 10000; default: the most),
cursor (next of the answer before).
Returns changed, unchanged (it was so already) and rejected (how many), groups (outcome, state before, sqlstate,
reason, count, up to three examples), items (id, state before, outcome, sqlstate, reason; empty with dry_run), at,
and next (null: the end).
Errors: 22023 an invalid body; 42501 the role may not execute the action; 0A000 pawl_dag is not installed.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.act_on_tasks(''{}'',
''{"action": "cancel", "filter": {"name": "invoice"}, "dry_run": true}'')';

CREATE FUNCTION pawl_api.act_on_dlq(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._act('letter', body); END;
COMMENT ON FUNCTION pawl_api.act_on_dlq(jsonb, jsonb) IS
'Route: retries, gives up, resolves or cancels the tasks of many pending dead letters, each with an outcome of its
own. A request works for two seconds at most, or a quarter of statement_timeout if that is less; next continues it.
q: none. body: action (cancel, retry, resolve, give_up), reason (a text for the log; resolve and give_up need it),
either ids (of tasks, at most 500) or filter (an object of texts: reason, entered_before, search; an empty one
matches all), dry_run (true: nothing is changed; default false), limit (1 to 500, with dry_run to 10000; default:
the most), cursor (next of the answer before).
Returns changed, unchanged (it was so already) and rejected (how many), groups (outcome, state before, sqlstate,
reason, count, up to three examples), items (id, state before, outcome, sqlstate, reason; empty with dry_run), at,
and next (null: the end).
Errors: 22023 an invalid body; 42501 the role may not execute the action; 0A000 pawl_dag is not installed.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.act_on_dlq(''{}'',
''{"action": "retry", "filter": {}, "dry_run": true}'')';

CREATE FUNCTION pawl_api.act_on_bulks(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._act('operation', body); END;
COMMENT ON FUNCTION pawl_api.act_on_bulks(jsonb, jsonb) IS
'Route: cancels, pauses, resumes or retries many bulk operations, each with an outcome of its own. A request works
for two seconds at most, or a quarter of statement_timeout if that is less; next continues it.
q: none. body: action (cancel, pause, resume, retry), either ids (at most 500) or filter (an object of texts: those
of list_bulks; an empty one matches all), dry_run (true: nothing is changed; default false), limit (1 to 500, with
dry_run to 10000; default: the most), cursor (next of the answer before).
Returns changed, unchanged (it was so already) and rejected (how many), groups (outcome, state before, sqlstate,
reason, count, up to three examples), items (id, state before, outcome, sqlstate, reason; empty with dry_run), at,
and next (null: the end).
Errors: 22023 an invalid body; 42501 the role may not execute the action; 0A000 pawl_bulk is not installed.
Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.act_on_bulks(''{}'',
''{"action": "pause", "filter": {"status": "Running"}, "dry_run": true}'')';
