-- Checks of the columns, events and arguments of owned work, and its warnings.

-- Arguments that have no effect without another one.
CREATE FUNCTION pawl._check_work_arguments(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    lacking record;
BEGIN
    SELECT * INTO lacking FROM (VALUES
        ('lease', bound.lease_column IS NOT NULL, 'owner', bound.owner_column IS NULL),
        ('token', bound.token_column IS NOT NULL, 'owner', bound.owner_column IS NULL),
        ('attempts', bound.attempts_column IS NOT NULL, 'owner', bound.owner_column IS NULL),
        ('max_attempts', bound.max_attempts_column IS NOT NULL, 'attempts', bound.attempts_column IS NULL),
        ('claim', bound.claim_events <> '{}', 'owner', bound.owner_column IS NULL),
        ('claim_order', bound.claim_columns <> '{}', 'claim', bound.claim_events = '{}'),
        ('queue', bound.queue_column IS NOT NULL, 'owner', bound.owner_column IS NULL),
        ('on_expiry', bound.on_expiry IS NOT NULL, 'lease', bound.lease_column IS NULL),
        ('retry', bound.retry_events <> '{}', 'due', bound.due_column IS NULL),
        ('retry', bound.retry_events <> '{}', 'attempts', bound.attempts_column IS NULL),
        ('on_expiry_else', bound.on_expiry_else IS NOT NULL, 'on_expiry', bound.on_expiry IS NULL),
        ('backoff_column', bound.backoff_column IS NOT NULL, 'retry', bound.retry_events = '{}'),
        ('backoff', bound.backoff IS NOT NULL, 'retry', bound.retry_events = '{}'),
        ('wake', bound.wake, 'claim', bound.claim_events = '{}')) a(argument, is_given, needs, is_lacking)
     WHERE a.is_given AND a.is_lacking LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format(CASE WHEN lacking.needs IN ('claim', 'on_expiry', 'retry') THEN '%s needs %s'
            WHEN lacking.needs IN ('owner', 'attempts') THEN '%s needs an %s column' ELSE '%s needs a %s column' END,
            lacking.argument, lacking.needs), NULL,
            format('select pawl.%s(%L, %L, %s => ...)',
                   CASE WHEN lacking.needs = 'due'
                       THEN 'enable_timers' WHEN lacking.needs IN ('owner', 'lease', 'attempts') THEN 'enable_queue'
                        ELSE 'set_claiming' END, bound.relation, bound.state_column, lacking.needs));
    END IF;
    PERFORM pawl.check_lease(bound.lease_time, 'lease_time');
    IF bound.backoff IS NOT NULL THEN
        PERFORM pawl._check_backoff(bound.backoff);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_work_arguments(pawl.binding) IS 'internal: arguments that lack another one (22023)';

-- Named columns must exist, have the right type and be named once, and no two bindings may write the same column.
CREATE FUNCTION pawl._check_work_columns(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    problem record;
BEGIN
    SELECT * INTO problem FROM pawl._work_column_problem(bound);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl.raise(problem.code, problem.message, problem.detail, problem.hint);
    END IF;
    SELECT w.argument, w.name, o.role INTO problem
      FROM pawl._work_columns(bound) w
      JOIN (SELECT 0 AS n, bound.state_column AS name, 'the state' AS role, false AS may_share
            UNION ALL SELECT 0, k, 'part of the key', true FROM unnest(bound.key_columns) k
            UNION ALL SELECT x.n, x.name, x.argument, false FROM pawl._work_columns(bound) x) o
        ON o.name = w.name AND o.n < w.n AND NOT (o.may_share AND w.argument = 'queue')
     ORDER BY w.n LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023',
            format('column "%s" cannot be %s: it is %s', problem.name, problem.argument, problem.role), NULL,
            format('name another column: %s => ...', problem.argument));
    END IF;
    SELECT c AS name INTO problem FROM unnest(bound.claim_columns) c
     WHERE c IN (bound.state_column, bound.owner_column, bound.lease_column, bound.due_column) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('claim_order cannot name column "%s"', problem.name),
            'Rows that can be claimed have no owner, lease or due time.');
    END IF;
    PERFORM pawl._check_shared_columns(bound);
    IF bound.key_columns = '{}' AND (bound.owner_column IS NOT NULL OR bound.due_column IS NOT NULL) THEN
        PERFORM pawl.raise('55000',
            format('table %s has no key by which its rows can be owned or timed', bound.relation),
            CASE WHEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = bound.relation AND i.indisprimary)
                 THEN 'Its primary key is the state alone.' ELSE 'It has no primary key.' END,
            format('add one, or name columns that identify a row: select pawl.enforce(%L, %L, %L, key => array[...])',
                   bound.relation, bound.state_column, bound.machine));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_work_columns(pawl.binding) IS
'internal: managed columns that are missing, do not fit, or are used twice';

CREATE FUNCTION pawl._check_shared_columns(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    shared record;
BEGIN
    WITH used(state_column, name, is_written) AS (
        SELECT b.state_column, u.name, u.is_written
          FROM (SELECT b.* FROM pawl.binding b
              WHERE b.relation = bound.relation AND b.state_column <> bound.state_column
                UNION ALL SELECT bound.*) b
          CROSS JOIN LATERAL (SELECT b.state_column AS name, true AS is_written
                              UNION ALL SELECT w.name, w.is_written FROM pawl._work_columns(b) w) u)
    SELECT mine.name, other.state_column INTO shared
      FROM used mine JOIN used other ON other.name = mine.name AND (other.is_written OR mine.is_written)
     WHERE mine.state_column = bound.state_column AND other.state_column <> bound.state_column LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023',
            format('column "%s" of table %s is used by two bindings', shared.name, bound.relation),
            format('The binding on column "%s" uses it too.', shared.state_column),
            format('alter table %s add column ... and name that', bound.relation));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_shared_columns(pawl.binding) IS
'internal: no column is written by one binding and used by another';

CREATE FUNCTION pawl._check_backoff(policy jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF jsonb_typeof(policy) <> 'object' THEN
        PERFORM pawl.raise('22023', 'backoff must be a JSON object', NULL,
            '{"strategy": "exponential", "base": "1 s", "cap": "1 h"}');
    END IF;
    PERFORM pawl.backoff(1, policy);
END
$function$;
COMMENT ON FUNCTION pawl._check_backoff(jsonb) IS 'internal: rejects a backoff policy that pawl.backoff would reject';

CREATE FUNCTION pawl._check_known_events(machine text, version integer, argument text, events text[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    known text[] := ARRAY(SELECT t.event FROM pawl.machine_transition t
                           WHERE t.machine = _check_known_events.machine AND t.version = _check_known_events.version
                             AND t.event IS NOT NULL AND t.from_state IS NOT NULL GROUP BY t.event
                                 ORDER BY min(t.ordinal));
    unknown text;
BEGIN
    IF array_ndims(events) > 1 OR array_position(events, NULL) IS NOT NULL THEN
        PERFORM pawl.raise('22023', format('%s must be a list of events', argument), NULL,
            format('%s => array[''...'']', argument));
    END IF;
    SELECT e INTO unknown FROM unnest(events) e WHERE e <> ALL (known) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW008', format('machine "%s" has no event "%s", given in %s', machine, unknown, argument),
            CASE WHEN known = '{}' THEN format('Version %s has no events.', version)
                 ELSE format('Version %s has %s.', version, pawl._quoted_list(known)) END);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_known_events(text, integer, text, text[]) IS
'internal: rejects events that a machine does not have (PW008)';

-- A state that is likely to be that of work which is being done: neither initial nor terminal. null: there is none.
CREATE FUNCTION pawl._inner_state(machine text, version integer) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT s.state FROM pawl.machine_state s
     WHERE s.machine = _inner_state.machine AND s.version = _inner_state.version AND s.kind = 'state'
       AND NOT s.initial AND NOT s.terminal
     ORDER BY s.ordinal LIMIT 1
$function$;
COMMENT ON FUNCTION pawl._inner_state(text, integer) IS 'internal: a state for a hint, neither initial nor terminal';

-- The events that a binding names must do what they are named for in this version.
CREATE FUNCTION pawl._check_work_events(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    owned text[] := pawl._owned_states(bound.machine, bound.version);
    useless text;
BEGIN
    PERFORM pawl._check_known_events(bound.machine, bound.version, 'claim', bound.claim_events);
    PERFORM pawl._check_known_events(bound.machine, bound.version, 'on_expiry',
        array_remove(ARRAY[bound.on_expiry], NULL));
    PERFORM pawl._check_known_events(bound.machine, bound.version, 'on_expiry_else',
        array_remove(ARRAY[bound.on_expiry_else], NULL));
    PERFORM pawl._check_known_events(bound.machine, bound.version, 'retry', bound.retry_events);
    PERFORM pawl._check_known_events(bound.machine, bound.version, 'operator_events', bound.operator_events);
    IF bound.owner_column IS NOT NULL AND owned = '{}' THEN
        PERFORM pawl.raise('22023', format('machine "%s" has no state in which rows are owned', bound.machine),
            format('No state of version %s is tagged "owned".', bound.version),
            format('class %s owned', coalesce((SELECT t.to_state FROM pawl.machine_transition t
                                                WHERE t.machine = bound.machine AND t.version = bound.version
                AND t.event = ANY (bound.claim_events) ORDER BY t.ordinal LIMIT 1), pawl._inner_state(bound.machine,
                    bound.version), 'running')));
    END IF;
    SELECT e INTO useless FROM unnest(bound.claim_events) e
     WHERE pawl._claimable_states(bound.machine, bound.version, ARRAY[e]) = '{}' LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023',
            format('event "%s" cannot claim rows: it leads from no unowned state to an owned state', useless),
            format('Owned states are %s.', pawl._quoted_list(owned)),
            'choose another event, or tag the state that it enters: class ... owned');
    END IF;
    SELECT e INTO useless FROM unnest(array_remove(ARRAY[bound.on_expiry, bound.on_expiry_else], NULL)) e
     WHERE NOT EXISTS (SELECT FROM pawl.machine_transition t
         WHERE t.machine = bound.machine AND t.version = bound.version
                          AND t.event = e AND t.from_state = ANY (owned));
    IF FOUND THEN
        PERFORM pawl.raise('22023',
            format('event "%s" leaves no owned state, so it cannot be fired for an expired lease', useless),
            format('Owned states are %s.', pawl._quoted_list(owned)), format('%s --> ... : %s', owned[1], useless));
    END IF;
    SELECT e INTO useless FROM unnest(bound.retry_events) e
     WHERE NOT EXISTS (SELECT FROM pawl.machine_transition t
                         JOIN pawl.machine_state s ON s.machine = t.machine AND s.version = t.version
                             AND s.state = t.to_state
                        WHERE t.machine = bound.machine AND t.version = bound.version AND t.event = e
                          AND t.from_state IS NOT NULL AND NOT s.terminal) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023',
            format('event "%s" cannot retry rows: all its transitions end in terminal states', useless));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_work_events(pawl.binding) IS
'internal: events of a binding that the machine has not (PW008) or that do not do what they are named for (22023)';

-- Owned states that no lease expiry leads out of.
CREATE FUNCTION pawl._stuck_states(bound pawl.binding) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(array_agg(o.state ORDER BY o.n), '{}')
      FROM unnest(pawl._owned_states(bound.machine, bound.version)) WITH ORDINALITY o(state, n)
     WHERE bound.lease_column IS NOT NULL
       AND NOT EXISTS (SELECT FROM pawl.machine_transition t
           WHERE t.machine = bound.machine AND t.version = bound.version
                          AND t.event IN (bound.on_expiry, bound.on_expiry_else) AND t.from_state = o.state)
$function$;
COMMENT ON FUNCTION pawl._stuck_states(pawl.binding) IS
'internal: owned states that an expired lease does not lead out of';

-- Owned states that a row cannot leave by a retry event when its attempts are used up: the event leads to no terminal
-- state, and on_expiry_else does not end the attempt either. way_out: a state that the event leads to and that is not
-- claimable; null: there is none.
CREATE FUNCTION pawl._endless_retries(bound pawl.binding)
RETURNS TABLE (state text, event text, targets text[], way_out text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH ways AS (
        SELECT t.from_state, t.event, t.to_state, t.ordinal, s.terminal
          FROM pawl.machine_transition t
          JOIN pawl.machine_state s ON s.machine = t.machine AND s.version = t.version AND s.state = t.to_state
         WHERE t.machine = bound.machine AND t.version = bound.version
           AND t.from_state = ANY (pawl._owned_states(bound.machine, bound.version)))
    SELECT w.from_state, w.event, array_agg(w.to_state ORDER BY w.ordinal),
           (array_agg(w.to_state ORDER BY w.ordinal) FILTER (WHERE w.to_state <> ALL (pawl._claimable_states(
               bound.machine, bound.version, bound.claim_events))))[1]
      FROM ways w
     WHERE w.event = ANY (bound.retry_events)
       AND (bound.max_attempts_column IS NOT NULL OR coalesce((bound.backoff ->> 'max_attempts')::numeric, 0) > 0)
       AND NOT EXISTS (SELECT FROM ways e WHERE e.from_state = w.from_state AND e.event = bound.on_expiry_else
                          AND (e.terminal OR e.event <> ALL (bound.retry_events)))
     GROUP BY w.from_state, w.event HAVING NOT bool_or(w.terminal)
     ORDER BY min(w.ordinal)
$function$;
COMMENT ON FUNCTION pawl._endless_retries(pawl.binding) IS
'internal: retry events that do not lead out of an owned state when no attempt is left';

-- States with a timed transition in a binding without a due column.
CREATE FUNCTION pawl._untimed_states(bound pawl.binding) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(array_agg(t.from_state ORDER BY t.n), '{}')
      FROM (SELECT t.from_state, min(t.ordinal) AS n FROM pawl.machine_transition t
             WHERE t.machine = bound.machine AND t.version = bound.version AND t.after IS NOT NULL
                 AND t.from_state IS NOT NULL
             GROUP BY 1) t
     WHERE bound.due_column IS NULL
$function$;
COMMENT ON FUNCTION pawl._untimed_states(pawl.binding) IS
'internal: states with a timer in a binding that has no due column';

-- kinds: unowned (owned states, and no owner column), untimed (timers, and no due column), stuck (owned states that no
-- lease expiry leads out of), endless (owned states that no event leads out of when no attempt is left).
CREATE FUNCTION pawl._warn_of_work(bound pawl.binding, of text[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    owned text[] :=
        CASE WHEN bound.owner_column IS NULL THEN pawl._owned_states(bound.machine, bound.version) ELSE '{}' END;
    untimed text[] := pawl._untimed_states(bound);
    stuck text[] := pawl._stuck_states(bound);
    endless record;
BEGIN
    IF owned <> '{}' AND 'unowned' = ANY (of) THEN
        RAISE WARNING USING ERRCODE = '01000',
            MESSAGE = format('rows of table %s have no owner in the owned states of machine "%s"', bound.relation,
                bound.machine),
            DETAIL = format('Owned states are %s, and the binding has no owner column.', pawl._quoted_list(owned)),
            HINT = format('select pawl.enable_queue(%L, %L, owner => ...)', bound.relation, bound.state_column);
    END IF;
    IF untimed <> '{}' AND 'untimed' = ANY (of) THEN
        RAISE WARNING USING ERRCODE = '01000',
            MESSAGE = format('timers of machine "%s" do not fire on table %s', bound.machine, bound.relation),
            DETAIL = format('Timed transitions leave %s, and the binding has no due column.',
                pawl._quoted_list(untimed)),
            HINT = format('select pawl.enable_timers(%L, %L, due => ...)', bound.relation, bound.state_column);
    END IF;
    IF stuck <> '{}' AND 'stuck' = ANY (of) THEN
        RAISE WARNING USING ERRCODE = '01000',
            MESSAGE = format('no transition for expired leases leaves %s', pawl._quoted_list(stuck)),
            DETAIL = CASE WHEN bound.on_expiry IS NULL THEN 'The binding has no on_expiry event.'
                          ELSE format('Event "%s" does not leave these states of machine "%s".', bound.on_expiry,
                              bound.machine) END, HINT = CASE WHEN bound.on_expiry IS NULL
                        THEN format('select pawl.set_claiming(%L, %L, on_expiry => ...)', bound.relation,
                            bound.state_column)
                        ELSE format('%s --> ... : %s', stuck[1], bound.on_expiry) END;
    END IF;
    FOR endless IN SELECT e.* FROM pawl._endless_retries(bound) e WHERE 'endless' = ANY (of) LOOP
        RAISE WARNING USING ERRCODE = '01000',
            MESSAGE = format('rows of table %s cannot end when no attempt is left', bound.relation),
            DETAIL = format('Event "%s" leads from "%s" to %s, and to no terminal state.', endless.event,
                endless.state, pawl._quoted_list(endless.targets)),
            HINT = CASE WHEN endless.way_out IS NOT NULL THEN format('%s --> [*]', endless.way_out)
                        ELSE format('%s --> ended : %s, and ended --> [*]', endless.state, endless.event) END;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._warn_of_work(pawl.binding, text[]) IS
'internal: warns of states that lack an owner column, a timer, or a way out at lease expiry or without attempts';

-- Rows outside the owned states that have an owner or a lease, as `2 rows in "foo"`; null
-- when there are none. Source as above.
CREATE FUNCTION pawl._wrongly_owned_rows(source text, bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    counts text;
BEGIN
    IF bound.owner_column IS NULL THEN
        RETURN NULL;
    END IF;
    EXECUTE format($query$
        SELECT string_agg(CASE WHEN g.n = 1 THEN '1 row ' ELSE g.n || ' rows ' END || format('in "%%s"', g.state), ', '
            ORDER BY g.state COLLATE "C")
          FROM (SELECT pawl.value_text(t.%1$I) AS state, count(*) AS n FROM %2$s t
                 WHERE (%3$s) AND pawl.value_text(t.%1$I) COLLATE "C" <> ALL ($1)
                 GROUP BY 1 ORDER BY 2 DESC LIMIT 20) g$query$, bound.state_column, source,
            array_to_string(ARRAY(SELECT format('t.%I IS NOT NULL', w.name) FROM pawl._work_columns(bound) w
                    WHERE w.argument IN ('owner', 'lease')), ' OR '))
       INTO counts USING pawl._owned_states(bound.machine, bound.version);
    RETURN counts;
END
$function$;
COMMENT ON FUNCTION pawl._wrongly_owned_rows(text, pawl.binding) IS
'internal: counts rows by state that have an owner in a state that is not owned';

CREATE FUNCTION pawl._disown_hint(relation regclass, bound pawl.binding) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('update %s set %s where %I::text not in (%s)', relation,
                  string_agg(format('%I = null', w.name), ', ' ORDER BY w.n), bound.state_column,
                  (SELECT string_agg(quote_literal(s), ', ')
                      FROM unnest(pawl._owned_states(bound.machine, bound.version)) s))
      FROM pawl._work_columns(bound) w WHERE w.argument IN ('owner', 'lease')
$function$;
COMMENT ON FUNCTION pawl._disown_hint(regclass, pawl.binding) IS
'internal: a statement that takes the owner off rows that cannot have one';

CREATE FUNCTION pawl._check_work(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl._check_work_arguments(bound);
    PERFORM pawl._check_work_columns(bound);
    PERFORM pawl._check_work_events(bound);
END
$function$;
COMMENT ON FUNCTION pawl._check_work(pawl.binding) IS 'internal: rejects columns and events that a binding cannot name';
