-- Audits and pruned logs: checks of pawl.verify and pawl.health, and what ALTER and DROP of their tables do.

-- Joins the anchors of pruned logs to a query of the log (alias l).
CREATE FUNCTION pawl._anchor_join(bound pawl.binding, OUT alias text, OUT joined text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    anchors regclass := pawl._anchors(bound.history);
BEGIN
    alias := 'pruned';
    joined := CASE WHEN anchors IS NULL
                   THEN 'CROSS JOIN (VALUES (NULL::integer, NULL::text, NULL::timestamptz, NULL::bytea)) '
                   'pruned(sort_key, to_state, created_at, hash)'
                   ELSE format('LEFT JOIN %s pruned ON %s', anchors,
                       pawl._same_key('pruned', pawl._anchor_keys(bound, anchors), 'l', bound.log_key_columns,
                           anchors)) END;
END
$function$;
COMMENT ON FUNCTION pawl._anchor_join(pawl.binding) IS 'internal: joins a log with what is known of its pruned entries';

-- A pruned log continues after its anchor, unless it was removed as a whole with its partition: pruning leaves the
-- newest entry, or removes the anchor with it.
CREATE FUNCTION pawl._verify_anchors(bound pawl.binding)
RETURNS TABLE (statement text, types regtype[], parameters text[])
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    anchors regclass := pawl._anchors(bound.history);
BEGIN
    IF anchors IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT format('SELECT $1, $2, %s, ''end_missing'', format(''the log was pruned up to sort_key %%s, '
        'and later entries are missing'', a.sort_key) '
                                'FROM %s a WHERE NOT a.whole AND NOT EXISTS (SELECT FROM %s l WHERE %s) ORDER BY 3',
                                pawl._key_label('a', pawl._anchor_keys(bound, anchors)), anchors, bound.history,
                                pawl._same_key('l', bound.log_key_columns, 'a', pawl._anchor_keys(bound, anchors),
                                    bound.history)),
        '{regclass,name}'::regtype[], ARRAY[bound.relation::oid::text, bound.state_column];
END
$function$;
COMMENT ON FUNCTION pawl._verify_anchors(pawl.binding) IS 'internal: pruned logs that do not go on';

-- Every result has its row in the audit, and every row of the audit its result, in the log or pruned from it.
CREATE FUNCTION pawl._verify_audit(bound pawl.binding)
RETURNS TABLE (statement text, types regtype[], parameters text[])
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    a pawl.audit_binding;
    horizon timestamptz;
    keys record := pawl._keys_apart('l', bound.log_key_columns);
BEGIN
    SELECT b.* INTO a FROM pawl.audit_binding b JOIN pg_class c ON c.oid = b.audit WHERE b.log = bound.history;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF NOT has_table_privilege(a.audit, 'SELECT') OR row_security_active(a.audit) THEN
        RETURN;  -- pawl._verify_audit_rights says so
    END IF;
    SELECT p.horizon INTO horizon FROM pawl.pruned_log p WHERE p.log = bound.history;
    RETURN QUERY SELECT format($query$
        WITH result AS (SELECT %3$s, l.id, l.processor, l.correlation_id, l.to_state, l.created_at,
                               l.to_state COLLATE "C" = ANY (%4$L) AS is_success, %5$s AS given
                          FROM %2$s l
                          WHERE l.to_state COLLATE "C" = ANY (%6$L)
                              AND coalesce(l.event, '') NOT IN ('pawl.upgrade', 'pawl.place')),
        both_sides AS (
            SELECT CASE WHEN a.transition_id IS NULL THEN %7$s ELSE %8$s END AS key,
            coalesce(a.transition_id, n.id) AS transition, a.transition_id IS NULL AND n.created_at >= $3 AS is_missing,
                   n.id IS NULL AND NOT (a.recorded_at < $4 AND NOT EXISTS (SELECT FROM %2$s l
                       WHERE %10$s AND l.created_at < a.recorded_at)) AS is_unfounded,
                   a.transition_id IS NOT NULL AND n.id IS NOT NULL AS is_pair,
                   concat_ws(', ', CASE WHEN a.worker IS DISTINCT FROM n.processor
                       THEN format('worker %%s for %%s', a.worker, n.processor) END,
                             CASE WHEN a.correlation_id IS DISTINCT FROM n.correlation_id
                                 THEN format('correlation_id %%s for %%s', a.correlation_id, n.correlation_id) END,
                             CASE WHEN a.state COLLATE "C" IS DISTINCT FROM n.to_state COLLATE "C"
                                 THEN format('state %%s for %%s', a.state, n.to_state) END,
                             CASE WHEN a.success IS DISTINCT FROM n.is_success
                                 THEN format('success %%s for %%s', a.success, n.is_success) END,
                             CASE WHEN a.recorded_at IS DISTINCT FROM n.created_at
                                 THEN format('recorded_at %%s for %%s', a.recorded_at, n.created_at) END,
                             CASE WHEN a.execution_time_ms IS DISTINCT FROM n.given AND n.given IS NOT NULL
                                  THEN format('execution_time_ms %%s for %%s', a.execution_time_ms, n.given) END)
            AS differences
              FROM %1$s a FULL JOIN result n ON %9$s AND a.transition_id = n.id)
        SELECT $1, $2, b.key, p.problem, format('transition %%s: ', b.transition) || p.detail
          FROM both_sides b
          CROSS JOIN LATERAL (VALUES ('audit_missing', b.is_missing, 'the log has a result that is not in the audit'),
                                     ('audit_unfounded', b.is_unfounded,
                                         'the audit has a result that is not in the log'),
                                     ('audit_differs', b.is_pair AND b.differences <> '',
                                         'the audit says ' || b.differences)) p(problem, holds, detail)
         WHERE p.holds ORDER BY 3, b.transition$query$,
        a.audit, bound.history, keys.listed, a.success_states, pawl._given_time('l'),
        a.success_states || a.failure_states, pawl._key_label('n', keys.called), pawl._key_label('a', a.key_columns),
        pawl._same_key('a', a.key_columns, 'n', keys.called, a.audit),
        pawl._same_key('l', bound.log_key_columns, 'a', a.key_columns, bound.history)),
        '{regclass,name,timestamptz,timestamptz}'::regtype[], ARRAY[bound.relation::oid::text, bound.state_column,
            pawl._pruned_before(bound.history)::text, coalesce(horizon, '-infinity')::text];
END
$function$;
COMMENT ON FUNCTION pawl._verify_audit(pawl.binding) IS 'internal: audits that do not agree with their log';

CREATE FUNCTION pawl._verify_audit_rights(bound pawl.binding)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT bound.relation, bound.state_column, NULL::text, 'not_checked',
        format('permission denied for its audit %s', b.audit)
      FROM pawl.audit_binding b JOIN pg_class c ON c.oid = b.audit
     WHERE b.log = bound.history AND (NOT has_table_privilege(b.audit, 'SELECT') OR row_security_active(b.audit))
$function$;
COMMENT ON FUNCTION pawl._verify_audit_rights(pawl.binding) IS 'internal: an audit that the current user may not read';

CREATE FUNCTION pawl._health_records(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 4
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    a pawl.audit_binding;
    cut pawl.pruned_log;
    problem text;
    wrong text[];
    again text;
BEGIN
    SELECT p.* INTO cut FROM pawl.pruned_log p WHERE p.log = bound.history;
    IF FOUND THEN
        problem := CASE WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = cut.anchors)
            THEN 'the table of the ends of pruned logs is missing'
                        WHEN EXISTS (SELECT FROM pawl._lost_triggers(bound, 'pruned'))
                            THEN format('triggers that protect %s are missing or disabled', cut.anchors) END;
        RETURN QUERY SELECT 'pruned_log', CASE WHEN problem IS NULL THEN 'ok' ELSE 'error' END, problem,
            CASE WHEN problem ~ 'guarded' THEN format('select pawl._close_record(%L)', cut.anchors)
                 WHEN problem IS NOT NULL
                     THEN format('delete from pawl.pruned_log where log = %L::regclass', cut.log) END;
    END IF;
    SELECT b.* INTO a FROM pawl.audit_binding b WHERE b.log = bound.history;
    IF NOT FOUND THEN
        SELECT array_agg(quote_ident(t.tgname)) INTO wrong FROM pg_trigger t
         WHERE t.tgrelid = bound.history AND t.tgfoid = 'pawl.audit_results()'::regprocedure;
        IF wrong IS NOT NULL THEN
            RETURN QUERY SELECT 'audit', 'error',
                format('the log has the trigger of an unknown audit: %s', pawl._short_list(wrong)),
                format('drop trigger %s on %s', wrong[1], bound.history);
        END IF;
        RETURN;
    END IF;
    problem := pawl._audit_problem(a, bound.log_key_columns, false);
    again := format('select pawl.audit(%L, %L, %L%s, state_column => %L)', bound.relation,
                    (SELECT jsonb_object_agg(s, s = ANY (a.success_states))
                        FROM unnest(a.success_states || a.failure_states) s),
                    (SELECT c.relname FROM pg_class c WHERE c.oid = a.audit),
                    CASE WHEN a.parent_columns <> '{}' THEN format(', parent => %L', a.parent_columns) END,
                    bound.state_column);
    IF problem IS NULL AND EXISTS (SELECT FROM pg_class c WHERE c.oid = a.audit
          AND NOT (has_table_privilege(c.relowner, a.log, 'SELECT')
            AND (a.parent_columns = '{}' OR has_table_privilege(c.relowner, a.relation, 'SELECT')))) THEN
        problem := 'its owner lacks SELECT on the log or the table, and it is written with the owner''s rights';
    END IF;
    RETURN QUERY SELECT 'audit', CASE WHEN problem IS NULL THEN 'ok' ELSE 'error' END,
        format('the audit %s: ', a.audit) || problem,
        CASE WHEN problem IS NOT NULL
            THEN format('select pawl.unaudit(%L, %L), then pawl.audit again', bound.relation, bound.state_column) END;
    SELECT array_agg(e.trigger_name || CASE WHEN e.member NOT IN (a.log, a.audit) THEN ' of ' || e.member ELSE '' END
            ORDER BY e.trigger_name, e.member) INTO wrong
      FROM pawl._lost_triggers(bound, 'audit') e;
    IF wrong IS NULL AND EXISTS (SELECT FROM pg_trigger t
            WHERE t.tgrelid = a.log AND t.tgname = '!pawl_audit' AND t.tgenabled <> 'A') THEN
        RETURN QUERY SELECT 'audit_triggers', 'warning',
            format('!pawl_audit on %s is not ENABLE ALWAYS: results of replicated rows are not audited', a.log), again;
    ELSE
        RETURN QUERY SELECT 'audit_triggers', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'error' END,
            'missing or disabled: ' || pawl._short_list(wrong),
            CASE WHEN wrong IS NOT NULL THEN again END;
    END IF;
    IF problem IS NULL THEN
        SELECT array_agg(i.definition ORDER BY i.definition) INTO wrong FROM pawl._audit_missing_indexes(a) i;
        RETURN QUERY SELECT 'audit_indexes', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'warning' END,
            format('%s indexes of the audit are missing', cardinality(wrong)), array_to_string(wrong, '; ');
    END IF;
    SELECT array_agg(quote_ident(s) ORDER BY s) INTO wrong FROM unnest(a.success_states || a.failure_states) s
     WHERE s <> ALL (pawl._atoms(bound.machine, bound.version));
    RETURN QUERY SELECT 'audit_states', CASE WHEN wrong IS NULL THEN 'ok' ELSE 'info' END,
        format('version %s of machine "%s" lacks the audited states ', bound.version, bound.machine)
            || pawl._short_list(wrong), NULL::text;
END
$function$;
COMMENT ON FUNCTION pawl._health_records(pawl.binding) IS 'internal: the health of an audit and of a pruned log';

-- After ALTER TABLE on a table, a log or an audit. Renamed parent columns are followed;
-- the audit's own columns keep their names.
CREATE FUNCTION pawl._follow_audits(touched regclass, touched_column integer, rewritten name[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    a pawl.audit_binding;
    bound pawl.binding;
    parents name[];
    problem text;
BEGIN
    FOR a IN SELECT b.* FROM pawl.audit_binding b WHERE touched IN (b.relation, b.log, b.audit) LOOP
        IF touched = a.relation AND a.parent_columns <> '{}' THEN
            SELECT array_agg(coalesce(x.attname, k.name) ORDER BY k.n) INTO parents
              FROM unnest(a.parent_columns, a.parent_attnums) WITH ORDINALITY k(name, attnum, n)
              LEFT JOIN pg_attribute x ON x.attrelid = a.relation AND NOT x.attisdropped
                   AND x.attnum = CASE WHEN a.relation_oid = a.relation::oid THEN k.attnum
                                       WHEN EXISTS (SELECT FROM pg_attribute y WHERE y.attrelid = a.relation
                                           AND y.attname = k.name AND NOT y.attisdropped) THEN 0
                                       ELSE touched_column END AND x.attnum > 0;
            IF parents <> a.parent_columns THEN
                UPDATE pawl.audit_binding b SET parent_columns = parents WHERE b.log = a.log;
                a.parent_columns := parents;
            END IF;
        END IF;
        SELECT b.* INTO bound FROM pawl.binding b WHERE b.history = a.log;
        IF FOUND THEN
            problem := pawl._audit_problem(a, bound.log_key_columns, true);
            -- a log that gets the type of its table's key is followed by its audit
            IF problem IS NOT NULL AND touched = a.log AND pawl._log_problem(a.log, a.relation, bound.key_columns,
                bound.most_recent, bound.hash_chain, true) IS NULL THEN
                CONTINUE;
            END IF;
            IF problem IS NULL AND touched = a.audit THEN
                SELECT format('ALTER COLUMN ... TYPE ... USING would rewrite column "%s"', c.name) INTO problem
                  FROM pawl._audit_columns(a, bound.log_key_columns) c WHERE c.name = ANY (rewritten) LIMIT 1;
            END IF;
            IF problem IS NOT NULL THEN
                PERFORM pawl.raise('55000',
                    format('columns of table %s and its audit %s would no longer match', a.relation, a.audit),
                    format('Of the audit: %s.', problem),
                    format('select pawl.unaudit(%L, %L)', a.relation, bound.state_column));
            END IF;
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._follow_audits(regclass, integer, name[]) IS 'internal: part of event trigger pawl_follow';

-- Keeps audits and anchors that are in use, and removes what belonged to a dropped log.
CREATE FUNCTION pawl._gone_records() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    gone oid[];
    a pawl.audit_binding;
    cut pawl.pruned_log;
    dropped record;
BEGIN
    SELECT array_agg(d.objid) INTO gone FROM pg_event_trigger_dropped_objects() d
        WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0;
    DELETE FROM pawl.audit_binding b WHERE b.log::oid = ANY (gone);
    DELETE FROM pawl.pruned_audit p WHERE p.log::oid = ANY (gone);
    DELETE FROM pawl.log_upkeep u WHERE u.log::oid = ANY (gone);
    FOR a IN SELECT b.* FROM pawl.audit_binding b WHERE b.audit::oid = ANY (gone) LOOP
        IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = a.log AND t.tgfoid = 'pawl.audit_results()'::regprocedure)
           AND EXISTS (SELECT FROM pawl.binding b WHERE b.history = a.log) THEN
            PERFORM pawl.raise('2BP01',
                format('the audit of table %s cannot be dropped while the binding exists', a.relation), NULL,
                (SELECT format('select pawl.unaudit(%L, %L)', b.relation, b.state_column) FROM pawl.binding b
                    WHERE b.history = a.log));
        END IF;
        DELETE FROM pawl.audit_binding b WHERE b.log = a.log;
    END LOOP;
    FOR dropped IN
        SELECT b.log, b.audit, d.address_names[3] AS column_name FROM pg_event_trigger_dropped_objects() d
        JOIN pawl.audit_binding b ON d.objid IN (b.relation::oid, b.audit::oid)
         WHERE d.classid = 'pg_class'::regclass AND d.objsubid <> 0
           AND CASE WHEN d.objid = b.relation::oid THEN d.address_names[3] = ANY (b.parent_columns)
                    ELSE EXISTS (SELECT FROM pawl.binding x
                        WHERE x.history = b.log AND pawl._audit_problem(b, x.log_key_columns, true) IS NOT NULL) END
    LOOP
        PERFORM pawl.raise('2BP01', format('column "%s" cannot be dropped: the audit %s depends on it',
            dropped.column_name, dropped.audit), NULL,
            (SELECT format('select pawl.unaudit(%L, %L)', b.relation, b.state_column) FROM pawl.binding b
                WHERE b.history = dropped.log));
    END LOOP;
    FOR cut IN DELETE FROM pawl.pruned_log p WHERE p.log::oid = ANY (gone) RETURNING p.* LOOP
        IF cut.anchors::oid <> ALL (gone) THEN
            EXECUTE format('DROP TABLE %s', cut.anchors);
        END IF;
    END LOOP;
    FOR cut IN SELECT p.* FROM pawl.pruned_log p WHERE p.anchors::oid = ANY (gone) LOOP
        IF EXISTS (SELECT FROM pawl.binding b
            JOIN pg_trigger t ON t.tgrelid = b.relation AND t.tgfoid = 'pawl.validate()'::regprocedure
                    WHERE b.history = cut.log) THEN
            PERFORM pawl.raise('2BP01',
                format('the pruning state of log %s cannot be dropped while the log exists', cut.log));
        END IF;
        DELETE FROM pawl.pruned_log p WHERE p.log = cut.log;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._gone_records() IS 'internal: part of event trigger pawl_gone';
