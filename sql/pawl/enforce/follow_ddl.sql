-- What DDL does to enforced tables: renamed and dropped tables, columns and triggers. The event triggers that call
-- these functions are created last, in grants.sql.

-- Functions and triggers name the schema of their extension. Nothing of it can be called here: it has another name now.
CREATE FUNCTION pawl._keep_schema() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    extension name;
BEGIN
    SELECT e.extname INTO extension FROM pg_event_trigger_ddl_commands() c
      JOIN pg_namespace n ON n.oid = c.objid
      JOIN pg_depend d ON d.classid = 'pg_namespace'::regclass AND d.objid = n.oid AND d.deptype = 'e'
      JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
     WHERE c.classid = 'pg_namespace'::regclass AND e.extname ^@ 'pawl' AND e.extname <> n.nspname;
    IF FOUND THEN
        RAISE EXCEPTION USING MESSAGE = format('the schema of extension "%s" cannot be renamed', extension),
            ERRCODE = '0A000', DETAIL = 'Its functions, and the triggers of enforced tables, name it.';
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._keep_schema() IS
'internal: event trigger pawl_keep_schema: the schemas of the extensions keep their names';

-- Writes renames into the bindings, rejects changes that would break one, and removes pawl's triggers from members that
-- left. SECURITY DEFINER, because the owner of a table need not be able to write bindings; so it reads catalogs only,
-- and runs no code of users, not even the CHECK of a domain.
CREATE FUNCTION pawl._follow() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    touched regclass;
    leaves boolean;
    touched_column integer;
    rewritten name[];
    cut name[];
    altered oid[];
    changed_type regtype;
    bound pawl.binding;
    problem record;
BEGIN
    IF NOT EXISTS (SELECT FROM pawl.binding) THEN
        RETURN;
    END IF;
    FOR touched, leaves, touched_column IN
        SELECT c.objid, coalesce(bool_or(pawl._tree_change(c.command) = 'leave'), false), max(c.objsubid)
        FROM pg_event_trigger_ddl_commands() c
         WHERE c.classid = 'pg_class'::regclass AND NOT c.in_extension
           AND c.object_type IN ('table', 'table column', 'foreign table', 'composite type', 'composite type column')
               GROUP BY 1 ORDER BY 1
    LOOP
        rewritten := pawl._rewritten_by_command(touched, false);
        cut := pawl._rewritten_by_command(touched, true);
        altered := ARRAY(SELECT pawl._altered_with(touched));
        FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.relation = ANY (altered)
            ORDER BY b.relation, b.state_column LOOP
            PERFORM pawl._follow_columns(bound, CASE WHEN bound.relation = touched THEN touched_column ELSE 0 END);
            PERFORM pawl._reject_rewrite(bound, rewritten, cut);
            PERFORM pawl._find_view(bound);
        END LOOP;
        -- what a command did to one member, or brought in with it
        FOR bound IN SELECT b.* FROM pawl._ancestors(touched) a JOIN pawl.binding b ON b.relation = a
            ORDER BY b.relation, b.state_column LOOP
            SELECT * INTO problem FROM pawl._work_column_problem(bound);
            IF problem.message IS NOT NULL THEN
                PERFORM pawl.raise(problem.code, problem.message, problem.detail,
                    format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
            END IF;
        END LOOP;
        FOR bound IN
            SELECT b.* FROM pawl.binding b
             WHERE b.history = ANY (altered) OR b.history IN (SELECT a FROM pawl._ancestors(touched) a)
             ORDER BY b.relation, b.state_column
        LOOP
            PERFORM pawl._check_altered_log(bound, rewritten);
        END LOOP;
        PERFORM pawl._follow_audits(a::regclass, CASE WHEN a = touched THEN touched_column ELSE 0 END, rewritten)
            FROM unnest(altered) a
           WHERE a IN (SELECT unnest(ARRAY[b.relation, b.log, b.audit]) FROM pawl.audit_binding b);
        IF leaves THEN
            PERFORM pawl._let_go(touched);
            PERFORM pawl._let_partitions_go(b.history) FROM pawl.binding b
                WHERE b.history IN (SELECT a FROM pawl._ancestors(touched) a);
        END IF;
    END LOOP;
    FOR changed_type IN
        SELECT DISTINCT c.objid FROM pg_event_trigger_ddl_commands() c
         WHERE c.classid = 'pg_type'::regclass AND c.object_type = 'type' AND NOT c.in_extension
    LOOP
        -- ALTER TYPE ... RENAME VALUE changes states without a transition
        FOR bound IN
            SELECT b.* FROM pawl.binding b
             WHERE changed_type = (WITH RECURSIVE down(base, steps) AS (
                       SELECT a.atttypid, 0 FROM pg_attribute a
                       WHERE a.attrelid = b.relation AND a.attname = b.state_column
                       UNION ALL
                       SELECT t.typbasetype, d.steps + 1 FROM down d
                           JOIN pg_type t ON t.oid = d.base AND t.typtype = 'd')
                       SELECT d.base FROM down d ORDER BY d.steps DESC LIMIT 1)
        LOOP
            SELECT * INTO problem
                FROM pawl._column_problem(bound.relation, bound.state_column, bound.machine, bound.version, false);
            IF problem.message IS NOT NULL THEN
                PERFORM pawl.raise('2BP01',
                    format('type %s holds the states of table %s', changed_type, bound.relation), problem.detail,
                    format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
            END IF;
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._follow() IS 'internal: event trigger pawl_follow: renames and changes of enforced tables';

-- The columns of a table that the command computed anew. cut: see pawl._reject_rewrite.
CREATE FUNCTION pawl._rewritten_by_command(touched regclass, cut boolean) RETURNS name[]
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT ARRAY(SELECT r::name FROM pg_event_trigger_ddl_commands() c
                   CROSS JOIN LATERAL unnest(pawl._rewritten_columns(c.command, cut)) r
                  WHERE c.classid = 'pg_class'::regclass AND c.objid = touched)
$function$;
COMMENT ON FUNCTION pawl._rewritten_by_command(regclass, boolean) IS
'internal: part of event trigger pawl_follow: columns with USING that is no mere cast';

-- The view on a log was made again, because a column of its key has another type now.
CREATE FUNCTION pawl._find_view(bound pawl.binding) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    UPDATE pawl.binding b SET history_view = v.oid
      FROM pg_class l JOIN pg_class v ON v.relnamespace = l.relnamespace AND v.relkind = 'v' AND v.relowner = l.relowner
           AND v.relname || '_log' = l.relname
     WHERE b.relation = bound.relation AND b.state_column = bound.state_column AND b.history = l.oid
       AND b.most_recent = 'derived' AND b.history_view IS NULL
$function$;
COMMENT ON FUNCTION pawl._find_view(pawl.binding) IS 'internal: stores the view on a log that was made again';

-- An attribute number that has another name now was renamed. A binding that a restore wrote without triggers has no
-- numbers of this table. Its names were right until this command, so a name that is gone is that of the column that the
-- command renamed.
CREATE FUNCTION pawl._follow_columns(bound pawl.binding, touched_column integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    new_state_column name := bound.state_column;
    new_keys name[] := bound.key_columns;
    new_managed name[] := pawl._managed_columns(bound);
    new_log_keys name[];
    touched_name name;
    problem record;
    pair record;
BEGIN
    IF bound.relation_oid IS NOT DISTINCT FROM bound.relation::oid THEN
        SELECT a.attname INTO new_state_column FROM pg_attribute a
         WHERE a.attrelid = bound.relation AND a.attnum = bound.state_attnum AND NOT a.attisdropped;
        new_state_column := coalesce(new_state_column, bound.state_column);
        SELECT coalesce(array_agg(coalesce(a.attname, k.name) ORDER BY k.n), '{}') INTO new_keys
          FROM unnest(bound.key_columns, bound.key_attnums) WITH ORDINALITY k(name, attnum, n)
          LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attnum = k.attnum AND NOT a.attisdropped;
        SELECT array_agg(coalesce(a.attname, m.name) ORDER BY m.n) INTO new_managed
          FROM unnest(new_managed, bound.managed_attnums) WITH ORDINALITY m(name, attnum, n)
          LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attnum = m.attnum AND NOT a.attisdropped;
    ELSE
        SELECT a.attname INTO touched_name FROM pg_attribute a
         WHERE a.attrelid = bound.relation AND a.attnum = touched_column AND a.attnum > 0;
        SELECT CASE WHEN c.is_gone THEN coalesce(touched_name, bound.state_column) ELSE bound.state_column END
            INTO new_state_column
          FROM (SELECT NOT EXISTS (SELECT FROM pg_attribute a
              WHERE a.attrelid = bound.relation AND a.attname = bound.state_column
                                      AND NOT a.attisdropped) AS is_gone) c;
        SELECT coalesce(array_agg(CASE WHEN a.attname IS NULL THEN coalesce(touched_name, k.name) ELSE k.name END
                ORDER BY k.n), '{}')
          INTO new_keys
          FROM unnest(bound.key_columns) WITH ORDINALITY k(name, n)
          LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = k.name AND NOT a.attisdropped;
        SELECT array_agg(CASE WHEN a.attname IS NULL
                AND m.name IS NOT NULL THEN coalesce(touched_name, m.name) ELSE m.name END ORDER BY m.n)
          INTO new_managed
          FROM unnest(new_managed) WITH ORDINALITY m(name, n)
          LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = m.name AND NOT a.attisdropped;
    END IF;
    SELECT * INTO problem
        FROM pawl._column_problem(bound.relation, new_state_column, bound.machine, bound.version, false);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl.raise(problem.code, problem.message, problem.detail,
            format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
    END IF;
    new_log_keys := pawl._log_key_columns(new_keys);
    IF new_state_column <> bound.state_column OR new_keys <> bound.key_columns
        OR new_managed <> pawl._managed_columns(bound) THEN
        UPDATE pawl.binding b
           SET state_column = new_state_column, key_columns = new_keys, log_key_columns = new_log_keys,
               owner_column = new_managed[1], lease_column = new_managed[2], token_column = new_managed[3],
               due_column = new_managed[4],
               attempts_column = new_managed[5], max_attempts_column = new_managed[6], queue_column = new_managed[7],
               backoff_column = new_managed[8], claim_columns = new_managed[9:8 + cardinality(bound.claim_columns)],
               trace_columns = new_managed[9 + cardinality(bound.claim_columns):]
         WHERE b.relation = bound.relation AND b.state_column = bound.state_column;
        UPDATE pawl.validation v SET state_column = new_state_column
         WHERE v.relation = bound.relation AND v.state_column = bound.state_column;
    END IF;
    IF bound.history IS NULL THEN
        RETURN;
    END IF;
    FOR pair IN SELECT o.name AS old_name, n.name AS new_name
                  FROM unnest(bound.log_key_columns) WITH ORDINALITY o(name, n)
                  JOIN unnest(new_log_keys) WITH ORDINALITY n(name, n) ON n.n = o.n WHERE o.name <> n.name LOOP
        EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', bound.history, pair.old_name, pair.new_name);
        IF bound.history_view IS NOT NULL THEN
            EXECUTE format('ALTER VIEW %s RENAME COLUMN %I TO %I', bound.history_view, pair.old_name, pair.new_name);
        END IF;
    END LOOP;
    problem := (SELECT ROW(pawl._log_problem(bound.history, bound.relation, new_keys, bound.most_recent,
        bound.hash_chain, true)));
    IF problem.f1 IS NOT NULL THEN
        PERFORM pawl.raise('55000',
            format('columns of table %s and its log %s would no longer match', bound.relation, bound.history),
            format('Of the log: %s.', problem.f1),
            format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._follow_columns(pawl.binding, integer) IS
'internal: follows renamed columns of an enforced table';

-- Removes the bindings of dropped tables, and keeps columns and logs that a binding needs. SECURITY DEFINER as above.
CREATE FUNCTION pawl._gone() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    gone oid[];
    dropped record;
    bound pawl.binding;
BEGIN
    PERFORM pawl._gone_records();
    IF NOT EXISTS (SELECT FROM pawl.binding) THEN
        RETURN;
    END IF;
    SELECT array_agg(d.objid) INTO gone FROM pg_event_trigger_dropped_objects() d
     WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0;
    DELETE FROM pawl.released r WHERE r.relation::oid = ANY (gone);
    DELETE FROM pawl.validation v WHERE v.relation::oid = ANY (gone) OR v.member::oid = ANY (gone);
    FOR bound IN DELETE FROM pawl.binding b WHERE b.relation::oid = ANY (gone) RETURNING b.* LOOP
        IF bound.history IS NOT NULL AND bound.history::oid <> ALL (gone) THEN
            PERFORM pawl._retire_log(bound.history, bound.history_view);
        END IF;
    END LOOP;
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE b.history::oid = ANY (gone) LOOP
        -- a table without triggers is being dropped piece by piece, by pg_restore --clean for example
        IF EXISTS (SELECT FROM pg_trigger t
                WHERE t.tgrelid = bound.relation AND t.tgfoid = 'pawl.validate()'::regprocedure) THEN
            PERFORM pawl.raise('2BP01',
                format('the log of table %s cannot be dropped while the binding exists', bound.relation), NULL,
                format('select pawl.release(%L, %L)', bound.relation, bound.state_column));
        END IF;
        UPDATE pawl.binding b SET history = NULL, history_view = NULL
         WHERE b.relation = bound.relation AND b.state_column = bound.state_column;
    END LOOP;
    UPDATE pawl.binding b SET history_view = NULL WHERE b.history_view::oid = ANY (gone);
    FOR dropped IN
        SELECT b.relation, b.state_column, d.address_names[3] AS column_name, w.argument,
        d.address_names[3] = ANY (b.key_columns) AS is_key
          FROM pg_event_trigger_dropped_objects() d JOIN pawl.binding b ON b.relation::oid = d.objid
          LEFT JOIN pawl._work_columns(b) w ON w.name = d.address_names[3]
         WHERE d.classid = 'pg_class'::regclass AND d.objsubid <> 0
           AND (CASE WHEN b.relation_oid = b.relation::oid
                     THEN d.objsubid = b.state_attnum OR d.objsubid = ANY (b.key_attnums)
                     OR d.objsubid = ANY (b.managed_attnums)
                     ELSE d.address_names[3] = b.state_column
                   OR d.address_names[3] = ANY (b.key_columns || pawl._managed_columns(b)) END)
         ORDER BY 1, 2
    LOOP
        PERFORM pawl.raise('2BP01', format('column "%s" of table %s cannot be dropped: a binding depends on it',
            dropped.column_name, dropped.relation), format('It is %s of the binding on column "%s".',
                   CASE WHEN dropped.column_name = dropped.state_column THEN 'the state' WHEN dropped.is_key
                       THEN 'part of the key'
                        ELSE coalesce(dropped.argument, 'part of the claim order') END, dropped.state_column),
            format('select pawl.release(%L, %L)', dropped.relation, dropped.state_column));
    END LOOP;
    FOR dropped IN
        SELECT b.*, CASE WHEN d.object_type = 'table column' THEN '2BP01' ELSE '55000' END AS code
          FROM pg_event_trigger_dropped_objects() d
          JOIN pg_class c ON c.relname = d.address_names[2]
          JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = d.address_names[1]
          JOIN pawl.binding b ON b.history = c.oid
         WHERE d.object_type IN ('table column', 'table constraint')
           AND EXISTS (SELECT FROM pg_trigger t
               WHERE t.tgrelid = b.history AND t.tgfoid = 'pawl.log_insert()'::regprocedure)
           AND pawl._log_problem(b.history, b.relation, b.key_columns, b.most_recent, b.hash_chain, false) IS NOT NULL
    LOOP
        PERFORM pawl.raise(dropped.code,
            format('the log %s of table %s cannot be altered in this way', dropped.history, dropped.relation), NULL,
            format('select pawl.release(%L, %L)', dropped.relation, dropped.state_column));
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._gone() IS 'internal: event trigger pawl_gone: dropped tables, columns and logs';

-- Runs when a command creates or renames a trigger that sorts after the validating one. SECURITY DEFINER, because a
-- role that creates triggers need not own the table; it only renames or adds triggers of pawl.
CREATE FUNCTION pawl._rearm() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    root regclass;
BEGIN
    -- a shard of Citus may be the first of its table on this node, and pawld looks for its work in pawl.binding
    FOR root IN
        SELECT DISTINCT pawl._logical(t.tgrelid, true)
          FROM pg_event_trigger_ddl_commands() c
          JOIN pg_trigger t ON c.classid = 'pg_trigger'::regclass AND t.oid = c.objid
         WHERE t.tgfoid = 'pawl.validate()'::regprocedure
    LOOP
        IF NOT EXISTS (SELECT FROM pawl.binding b WHERE b.relation = root) THEN
            PERFORM pawl._adopt(root);
        END IF;
    END LOOP;
    FOR root IN
        SELECT DISTINCT b.relation
          FROM pg_event_trigger_ddl_commands() c
          JOIN pg_trigger t ON c.classid = 'pg_trigger'::regclass AND t.oid = c.objid
          CROSS JOIN LATERAL pawl._ancestors(t.tgrelid) a
          JOIN pawl.binding b ON b.relation = a
         WHERE t.tgfoid <> ALL (ARRAY['pawl.validate()', 'pawl.record()', 'pawl.record_truncate()']::regprocedure[])
           -- a restore creates the validating trigger later
           AND EXISTS (SELECT FROM pg_trigger j
               WHERE j.tgrelid = t.tgrelid AND j.tgfoid = 'pawl.validate()'::regprocedure)
    LOOP
        IF pawl._validate_trigger_name(root) IS NULL THEN
            PERFORM pawl._install(root);
        ELSE
            PERFORM pawl._outrank(root);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._rearm() IS 'internal: event trigger pawl_rearm: keeps the validating trigger the last one';
