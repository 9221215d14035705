-- pawl.health: whether everything is in place that enforcement needs. It reads catalogs and pawl's own tables, and no
-- table of a user.

CREATE FUNCTION pawl._short_list(names text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT string_agg(u.name, ', ' ORDER BY u.n)
        || CASE WHEN cardinality(names) > 5 THEN format(' and %s more', cardinality(names) - 5) ELSE '' END
      FROM unnest(names) WITH ORDINALITY u(name, n) WHERE u.n <= 5
$function$;
COMMENT ON FUNCTION pawl._short_list(text[]) IS 'internal: the first five of a list, for messages';

-- The triggers of one part of a binding that are missing, disabled or altered.
CREATE FUNCTION pawl._lost_triggers(bound pawl.binding, part text) RETURNS TABLE (member regclass, trigger_name name)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT e.member, e.trigger_name FROM pawl._binding_triggers(bound) e
     WHERE e.part = _lost_triggers.part
       AND NOT EXISTS (SELECT FROM pg_trigger t
           WHERE t.tgrelid = e.member AND t.tgname = e.trigger_name AND t.tgenabled NOT IN ('D', 'R')
                          AND pawl._trigger_fits(t.oid, e.function, e.definition));
END
$function$;
COMMENT ON FUNCTION pawl._lost_triggers(pawl.binding, text) IS
'internal: triggers of a binding that are missing, disabled or altered';

-- The triggers of one binding. A row with status ok has neither detail nor hint.
CREATE FUNCTION pawl._trigger_health(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 4
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    attach_again text := format('select pawl.enforce(%L, %L, %L)', bound.relation, bound.state_column, bound.machine);
    wrong text[];
    altered text[];
BEGIN
    SELECT array_agg(format('%I on %s', e.trigger_name, e.member) ORDER BY e.member::text, e.trigger_name) INTO wrong
      FROM pawl._expected_triggers(bound.relation) e
     WHERE NOT EXISTS (SELECT FROM pg_trigger t
         WHERE t.tgrelid = e.member AND t.tgname = e.trigger_name AND t.tgfoid = e.function);
    SELECT array_agg(format('%I on %s', e.trigger_name, e.member) ORDER BY e.member::text, e.trigger_name) INTO altered
      FROM pawl._expected_triggers(bound.relation) e
      JOIN pg_trigger t ON t.tgrelid = e.member AND t.tgname = e.trigger_name AND t.tgfoid = e.function
     WHERE NOT pawl._trigger_fits(t.oid, e.function, e.definition);
    RETURN QUERY SELECT 'triggers', CASE WHEN wrong IS NULL AND altered IS NULL THEN 'ok' ELSE 'error' END,
        concat_ws('; ', 'missing: ' || pawl._short_list(wrong),
            'with another definition: ' || pawl._short_list(altered)),
        CASE WHEN wrong IS NOT NULL OR altered IS NOT NULL THEN attach_again END;

    SELECT array_agg(format('%I on %s', t.tgname, t.tgrelid::regclass) ORDER BY t.tgrelid::regclass::text, t.tgname)
        INTO wrong
      FROM pawl._members(bound.relation) m JOIN pg_trigger t ON t.tgrelid = m
     WHERE t.tgfoid = ANY (pawl._table_functions())
       AND t.tgenabled IN ('D', 'R');
    RETURN QUERY SELECT 'triggers_enabled', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'disabled: ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN attach_again
            || format(', then select * from pawl.verify(%L)', bound.relation) END;

    SELECT array_agg(format('%I on %s', t.tgname, t.tgrelid::regclass) ORDER BY t.tgrelid::regclass::text, t.tgname)
        INTO wrong
      FROM pawl._members(bound.relation) m JOIN pg_trigger t ON t.tgrelid = m
     WHERE t.tgfoid = ANY (pawl._table_functions())
       AND t.tgenabled = CASE WHEN (SELECT bool_or(b.always) FROM pawl.binding b WHERE b.relation = bound.relation)
           THEN 'O' ELSE 'A' END::"char";
    RETURN QUERY SELECT 'always', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'warning' END,
        CASE WHEN bound.always THEN 'replicated rows are not validated by ' ELSE 'replicated rows are validated by ' END
        || pawl._short_list(wrong), CASE WHEN wrong IS NOT NULL THEN attach_again END;

    SELECT array_agg(format('%I on %s', t.tgname, t.tgrelid::regclass) ORDER BY t.tgrelid::regclass::text, t.tgname)
        INTO wrong
      FROM pawl._members(bound.relation) m JOIN pg_trigger t ON t.tgrelid = m
      JOIN pg_trigger j ON j.tgrelid = m AND j.tgfoid = 'pawl.validate()'::regprocedure
          AND t.tgname COLLATE "C" > j.tgname
     WHERE t.tgtype & 19 = 19 AND t.tgfoid <> j.tgfoid;
    RETURN QUERY SELECT 'later_triggers', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'info' END,
        'fire after pawl.validate(), so rows are validated at the end of the statement: ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN 'rename these triggers so that they sort before it' END;
END
$function$;
COMMENT ON FUNCTION pawl._trigger_health(pawl.binding) IS 'internal: the health of the triggers of one binding';

CREATE FUNCTION pawl._log_health(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 2
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    problem text;
    wrong text[];
BEGIN
    problem := pawl._log_problem(bound.history, bound.relation, bound.key_columns, bound.most_recent,
        bound.hash_chain, false);
    RETURN QUERY SELECT 'log', CASE WHEN problem IS NULL THEN 'ok' ELSE 'error' END,
        format('the log %s: ', bound.history) || problem,
        CASE WHEN problem IS NOT NULL
            THEN format('select pawl.enable_log(%L, %L, log_name => ...)', bound.relation, bound.state_column) END;
    SELECT array_agg(quote_ident(e.name) || CASE WHEN e.m <> bound.history THEN ' of ' || e.m ELSE '' END
            ORDER BY e.m, e.name) INTO wrong
      FROM pawl._lost_triggers(bound, 'log') e(m, name);
    RETURN QUERY SELECT 'log_triggers', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        format('missing or disabled on %s: ', bound.history) || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL
            THEN format('select pawl.enable_log(%L, %L)', bound.relation, bound.state_column) END;
END
$function$;
COMMENT ON FUNCTION pawl._log_health(pawl.binding) IS 'internal: the health of the log of one binding';

-- A distributed table: its log is distributed with it, and each shard of both has the triggers. Without Citus'
-- coordinator this node sees its own shards only.
CREATE FUNCTION pawl._distributed_health(bound pawl.binding) RETURNS TABLE (status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    part regclass;
    function text;
    wrong text;
BEGIN
    hint := format('select pawl.release(%L, %L), then enforce the machine again', bound.relation, bound.state_column);
    IF pawl._is_distributed(bound.relation) IS DISTINCT FROM pawl._is_distributed(coalesce(bound.history,
        bound.relation)) THEN
        RETURN QUERY SELECT 'error', format('of table %s and its log %s only one is distributed', bound.relation,
            bound.history), hint;
        RETURN;
    END IF;
    IF NOT pawl._is_coordinator() THEN
        RETURN QUERY SELECT 'ok', NULL::text, NULL::text;
        RETURN;
    END IF;
    FOR part, function IN SELECT p.part, p.function FROM (VALUES (bound.relation, 'pawl.validate()'),
        (bound.history, 'pawl.protect_log()')) p(part, function) WHERE p.part IS NOT NULL LOOP
        EXECUTE 'SELECT string_agg(c.shardid::text, '', '' ORDER BY c.shardid) '
            'FROM pg_catalog.run_command_on_shards($1, $2) c WHERE NOT c.success OR c.result = ''0'''
           INTO wrong USING part, 'SELECT count(*) FROM pg_catalog.pg_trigger t WHERE t.tgrelid = '
               '''%s''::pg_catalog.regclass AND t.tgenabled <> ''D'' AND t.tgfoid = '
               || quote_literal(function) || '::pg_catalog.regprocedure';
        IF wrong IS NOT NULL THEN
            RETURN QUERY SELECT 'error', format('shards of %s cannot be reached, or are without triggers: %s', part,
                wrong), hint;
            RETURN;
        END IF;
    END LOOP;
    RETURN QUERY SELECT 'ok', NULL::text, NULL::text;
END
$function$;
COMMENT ON FUNCTION pawl._distributed_health(pawl.binding) IS
'internal: the health of a binding of a table that Citus distributes';

-- One binding.
CREATE FUNCTION pawl._health(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    problem record;
    wrong text[];
    newest integer;
BEGIN
    check_name := 'table';
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.relation) THEN
        RETURN QUERY SELECT check_name, 'error', format('there is no relation with OID %s', bound.relation::oid),
            format('delete from pawl.binding where relation = %s::regclass', bound.relation::oid);
        RETURN;
    END IF;
    RETURN QUERY SELECT check_name, 'ok', NULL, NULL;
    IF pawl._distributed(ARRAY(SELECT m FROM pawl._members(bound.relation) m UNION SELECT m
                                 FROM pawl._members(bound.history) m)) IS NOT NULL THEN
        RETURN QUERY SELECT 'distributed', h.status, h.detail, h.hint FROM pawl._distributed_health(bound) h;
    END IF;

    SELECT * INTO problem
        FROM pawl._column_problem(bound.relation, bound.state_column, bound.machine, bound.version, false);
    RETURN QUERY SELECT 'state_column', CASE WHEN problem.message IS NULL THEN 'ok' ELSE 'error' END,
        concat_ws(': ', problem.message, problem.detail), problem.hint WHERE problem.message IS NOT NULL
        UNION ALL SELECT 'state_column', 'ok', NULL, NULL WHERE problem.message IS NULL;

    SELECT array_agg(k ORDER BY k) INTO wrong FROM unnest(bound.key_columns) k
     WHERE NOT EXISTS (SELECT FROM pg_attribute a
         WHERE a.attrelid = bound.relation AND a.attname = k AND a.attnum > 0 AND NOT a.attisdropped);
    RETURN QUERY SELECT 'key_columns', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'there is no column ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL
            THEN format('select pawl.release(%1$L, %2$L), then pawl.enforce(%1$L, %2$L, %3$L, ...)',
                                                bound.relation, bound.state_column, bound.machine) END;

    RETURN QUERY SELECT h.* FROM pawl._trigger_health(bound) h;

    SELECT max(m.version) INTO newest FROM pawl.machine m WHERE m.machine = bound.machine;
    RETURN QUERY SELECT 'version', CASE WHEN newest = bound.version THEN 'ok' ELSE 'info' END,
        CASE WHEN newest <> bound.version
            THEN format('version %s of machine "%s" is enforced, the newest is %s', bound.version, bound.machine,
                newest) END,
        CASE WHEN newest <> bound.version
            THEN format('select pawl.upgrade(%L, %L)', bound.relation, bound.state_column) END;

    SELECT array_agg(g ORDER BY g) INTO wrong
        FROM pawl._guard_functions(bound.relation, bound.machine, bound.version, bound.calls) g;
    RETURN QUERY SELECT 'functions', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'guards or effects that cannot be called: ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL
            THEN format('create function %s(old %s, new %s) ...', substr(wrong[1], strpos(wrong[1], ' ') + 1),
                bound.relation, bound.relation) END;

    RETURN QUERY SELECT 'validated', CASE WHEN bound.validated THEN 'ok' ELSE 'warning' END,
        CASE WHEN NOT bound.validated THEN pawl._validation_progress(bound) END,
        CASE WHEN NOT bound.validated
            THEN format('call pawl.validate_all(%L, %L)', bound.relation, bound.state_column) END;

    IF bound.history IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT h.* FROM pawl._log_health(bound) h;
    RETURN QUERY SELECT h.* FROM pawl._health_partitions(bound) h;
    RETURN QUERY SELECT h.* FROM pawl._health_records(bound) h;
END
$function$;
COMMENT ON FUNCTION pawl._health(pawl.binding) IS 'internal: the health of one binding';

-- The checks of owned work; no rows for a binding without it.
CREATE FUNCTION pawl._work_health(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED STRICT SECURITY INVOKER ROWS 4
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    problem record;
    wrong record;
    states text[];
BEGIN
    IF EXISTS (SELECT FROM pawl._work_columns(bound))
        AND EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.relation) THEN
        SELECT * INTO problem FROM pawl._work_column_problem(bound);
        RETURN QUERY SELECT 'managed_columns', CASE WHEN problem.message IS NULL THEN 'ok' ELSE 'error' END,
            concat_ws(': ', problem.message, problem.detail), problem.hint;
    END IF;
    -- a node of Citus that is not the coordinator has the indexes on its shards only
    IF EXISTS (SELECT FROM pawl._work_columns(bound))
        AND EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.relation)
        AND (NOT pawl._is_distributed(bound.relation) OR pawl._is_coordinator()) THEN
        SELECT string_agg(format('%s on %s', s.kind, s.member)
                          || CASE WHEN s.found_one IS NULL THEN ' is missing' WHEN NOT s.is_valid
                              THEN ' is invalid' ELSE ' is another one' END,
                          ', ' ORDER BY s.member::text, s.kind) AS detail,
               string_agg(pawl._index_hint(bound, s.member, s.kind, s.found_one, s.definition, s.comment),
                   '; ' ORDER BY s.member::text, s.kind) AS hint
          INTO wrong
          FROM pawl._work_index_state(bound) s
          WHERE (s.found_one IS NULL OR NOT s.is_valid OR NOT s.fits) AND problem.message IS NULL;
        RETURN QUERY
            SELECT 'work_indexes', CASE WHEN wrong.detail IS NULL THEN 'ok' ELSE 'error' END, wrong.detail, wrong.hint;
    END IF;
    states := pawl._owned_states(bound.machine, bound.version);
    IF states <> '{}' THEN
        RETURN QUERY SELECT 'queue', CASE WHEN bound.owner_column IS NOT NULL THEN 'ok' ELSE 'info' END,
            CASE WHEN bound.owner_column IS NULL
                THEN format('states %s are owned, but there is no owner column', pawl._quoted_list(states)) END,
            CASE WHEN bound.owner_column IS NULL
                THEN format('select pawl.enable_queue(%L, %L, owner => ...)', bound.relation, bound.state_column) END;
    END IF;
    IF bound.lease_column IS NOT NULL THEN
        states := pawl._stuck_states(bound);
        RETURN QUERY SELECT 'on_expiry', CASE WHEN states = '{}' THEN 'ok' ELSE 'warning' END,
            CASE WHEN states <> '{}'
                THEN format('no transition for expired leases leaves %s', pawl._quoted_list(states)) END,
            CASE WHEN states <> '{}' AND bound.on_expiry IS NULL
                THEN format('select pawl.set_claiming(%L, %L, on_expiry => ...)', bound.relation, bound.state_column)
                 WHEN states <> '{}'
                     THEN format('define a machine with %s --> ... : %s', states[1], bound.on_expiry) END;
    END IF;
    IF EXISTS (SELECT FROM pawl.machine_transition t
            WHERE t.machine = bound.machine AND t.version = bound.version AND t.after IS NOT NULL) THEN
        states := pawl._untimed_states(bound);
        RETURN QUERY SELECT 'timers', CASE WHEN states = '{}' THEN 'ok' ELSE 'info' END,
            CASE WHEN states <> '{}'
                THEN format('timed transitions leave %s, but there is no due column', pawl._quoted_list(states)) END,
            CASE WHEN states <> '{}' THEN format('alter table %1$s add column due timestamptz; select '
            'pawl.enable_timers(%1$L, %2$L, due => ''due'')', bound.relation, bound.state_column) END;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._work_health(pawl.binding) IS 'internal: the health of the owned work of one binding';

CREATE FUNCTION pawl._index_hint(bound pawl.binding, member regclass, kind text, found_one regclass, definition text,
    comment text)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT concat_ws('; ', 'drop index ' || found_one,
                     format('create index %s%I %s', CASE WHEN c.relkind <> 'p' THEN 'concurrently ' END, n.name,
                         definition), format('comment on index %I.%I is %L', s.nspname, n.name, comment))
      FROM pg_class c
      JOIN pg_namespace s ON s.oid = c.relnamespace
      CROSS JOIN LATERAL (SELECT coalesce((SELECT i.relname FROM pg_class i WHERE i.oid = found_one),
                                          pawl._work_index_name(member, bound.state_column, kind)) AS name) n
     WHERE c.oid = member
$function$;
COMMENT ON FUNCTION pawl._index_hint(pawl.binding, regclass, text, regclass, text, text) IS
'internal: how to make an index that a binding lacks';

-- All checks of one binding. If its rows in the catalog are so damaged that a check fails, that is the finding, and
-- the other bindings are still checked.
CREATE FUNCTION pawl._health_of(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    part text;
    message text;
    explanation text;
    mend constant text := CASE WHEN EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.relation)
        THEN format('select pawl.release(%1$L, %2$L), then pawl.enforce(%1$L, %2$L, %3$L, ...); or restore the rows '
        'of pawl.binding and pawl.machine*', bound.relation, bound.state_column, bound.machine) END;
BEGIN
    IF mend IS NOT NULL THEN
        BEGIN
            PERFORM pawl._check_binding(bound.relation, bound.state_column);
            RETURN QUERY SELECT 'catalog', 'ok', NULL, NULL;
        EXCEPTION WHEN syntax_error_or_access_rule_violation THEN
            -- another check reports missing columns and functions
            RETURN QUERY SELECT 'catalog', 'ok', NULL, NULL;
        WHEN OTHERS OR ASSERT_FAILURE THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, explanation = PG_EXCEPTION_DETAIL;
            RETURN QUERY SELECT 'catalog', 'error', concat_ws(': ', message, nullif(explanation, '')), mend;
        END;
    END IF;
    FOREACH part IN ARRAY '{_health,_work_health,_health_pauses}'::text[] LOOP
        BEGIN
            RETURN QUERY EXECUTE format('SELECT h.* FROM pawl.%I($1) h', part) USING bound;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, explanation = PG_EXCEPTION_DETAIL;
            RETURN QUERY SELECT 'catalog', 'error', concat_ws(': ', message, nullif(explanation, '')), mend;
        END;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._health_of(pawl.binding) IS
'internal: the health of one binding, whatever state its rows in the catalog are in';

CREATE FUNCTION pawl.health()
RETURNS TABLE (relation regclass, state_column name, check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 50
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    wrong text[];
BEGIN
    SELECT array_agg(e.name ORDER BY e.name) INTO wrong
        FROM unnest(ARRAY['pawl_adopt', 'pawl_follow', 'pawl_gone', 'pawl_keep_schema', 'pawl_prepare',
        'pawl_rearm']) e(name)
     WHERE NOT EXISTS (SELECT FROM pg_event_trigger t WHERE t.evtname = e.name AND t.evtenabled NOT IN ('D', 'R'));
    RETURN QUERY
        SELECT NULL::regclass, NULL::name, 'event_triggers', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
        'missing or disabled: ' || pawl._short_list(wrong),
        CASE WHEN wrong IS NOT NULL THEN format('alter event trigger %I enable', wrong[1]) END;

    RETURN QUERY SELECT b.relation, b.state_column, h.check_name, h.status, nullif(h.detail, ''), h.hint
                   FROM pawl.binding b
                   CROSS JOIN LATERAL pawl._health_of(b) WITH ORDINALITY h(check_name, status, detail, hint, n)
                  ORDER BY b.relation::text COLLATE "C", b.state_column, h.n;

    RETURN QUERY SELECT NULL::regclass, NULL::name, o.check_name, o.status, o.detail, o.hint
        FROM pawl._health_outbox() o;
    RETURN QUERY SELECT o.* FROM pawl._health_orphans() o;
    RETURN QUERY
        SELECT t.tgrelid::regclass, NULL::name, 'orphaned_triggers', 'warning',
        'no binding exists for ' || string_agg(quote_ident(t.tgname), ', ' ORDER BY t.tgname),
               'run here what select pawl.definitions() returns in the original database; or, to end enforcement: '
               || string_agg(format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass), '; ' ORDER BY t.tgname)
          FROM pg_depend d
          JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid AND t.tgparentid = 0
         WHERE d.refclassid = 'pg_proc'::regclass
           AND d.refobjid = ANY (pawl._table_functions())
           AND NOT EXISTS (SELECT FROM pawl.binding b WHERE b.relation = pawl._logical(t.tgrelid, true)
                   OR b.relation IN (SELECT a FROM pawl._ancestors(t.tgrelid) a))
         GROUP BY t.tgrelid ORDER BY t.tgrelid::regclass::text COLLATE "C";
END
$function$;
COMMENT ON FUNCTION pawl.health() IS
'Checks every binding, its triggers, columns, indexes, log and audit, the event triggers, the outbox and the pauses.
Returns relation, state_column, check_name, status (ok, info, warning or error), detail (what is wrong) and hint (a
statement that repairs it).
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_reader.
Example: SELECT * FROM pawl.health() WHERE status <> ''ok''';
