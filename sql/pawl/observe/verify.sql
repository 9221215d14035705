-- pawl.verify compares rows and logs with each other and with the machines.

-- Whether a log row (alias) is a state change that no version of the machine in $1 allows.
CREATE FUNCTION pawl._foreign_change(alias text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT replace($query$
        (CASE WHEN NOT EXISTS (SELECT FROM pawl.machine v
                               WHERE v.machine = $1 AND v.version = {}.machine_version) THEN true
              WHEN {}.to_state IS NULL THEN {}.event IS NULL OR {}.event NOT IN ('pawl.delete', 'pawl.truncate')
              WHEN {}.event IN ('pawl.attach', 'pawl.upgrade', 'pawl.place') THEN NOT EXISTS (
                   SELECT FROM pawl.machine_state s WHERE s.machine = $1 AND s.version = {}.machine_version
                      AND s.state = {}.to_state COLLATE "C" AND s.kind = 'state')
              WHEN {}.from_state IS NULL THEN NOT EXISTS (
                   SELECT FROM pawl.machine_state s WHERE s.machine = $1 AND s.version = {}.machine_version
                      AND s.state = {}.to_state COLLATE "C" AND s.kind = 'state' AND s.initial)
              ELSE NOT EXISTS (
                   SELECT FROM pawl.machine_transition t WHERE t.machine = $1 AND t.version = {}.machine_version
                      AND t.from_state = {}.from_state COLLATE "C" AND t.to_state = {}.to_state COLLATE "C") END)
        $query$, '{}', alias)
$function$;
COMMENT ON FUNCTION pawl._foreign_change(text) IS
'internal: a condition that a log row is a state change that its machine does not allow';

CREATE FUNCTION pawl._verify_binding(bound pawl.binding)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    IF pawl._is_distributed(bound.relation) THEN
        RETURN QUERY SELECT v.* FROM pawl._verify_distributed(bound) v;
        RETURN;
    END IF;
    RETURN QUERY SELECT v.* FROM pawl.read_as_owner(bound.relation, bound.state_column, 'verify')
                     v(relation regclass, state_column name, key text, problem text, detail text);
    IF bound.history IS NOT NULL THEN
        -- an audit that the caller may not read
        RETURN QUERY SELECT v.* FROM pawl._verify_audit_rights(bound) v;
    END IF;
    IF bound.events THEN
        RETURN QUERY SELECT v.* FROM pawl._verify_events(bound) v;
    END IF;
    IF bound.owner_column IS NOT NULL OR bound.due_column IS NOT NULL THEN
        RETURN QUERY SELECT v.* FROM pawl.read_as_owner(bound.relation, bound.state_column, 'verify_work')
                         v(relation regclass, state_column name, key text, problem text, detail text);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._verify_binding(pawl.binding) IS 'internal: what is wrong with a table and its records';

CREATE FUNCTION pawl._verify(only_relation regclass)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding;
    root regclass;
BEGIN
    IF only_relation IS NOT NULL THEN
        SELECT b.relation INTO root FROM pawl.binding b
         WHERE b.relation IN (SELECT a FROM pawl._ancestors(only_relation) a) LIMIT 1;
        IF NOT FOUND THEN
            PERFORM pawl._binding(only_relation, NULL);  -- says what is wrong with it
        END IF;
    END IF;
    FOR bound IN SELECT b.* FROM pawl.binding b WHERE root IS NULL OR b.relation = root
                  ORDER BY b.relation::text COLLATE "C", b.state_column LOOP
        IF root IS NULL THEN
            problem := CASE
                WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = bound.relation) THEN 'it does not exist'
                            WHEN NOT has_table_privilege(bound.relation, 'SELECT') THEN 'permission denied'
                            WHEN bound.history IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c
                                WHERE c.oid = bound.history) THEN 'its log does not exist'
                            WHEN NOT has_table_privilege(bound.history, 'SELECT') THEN 'permission denied for its log'
                            WHEN row_security_active(bound.relation)
                                OR row_security_active(bound.history) THEN 'row-level security hides rows'
                            WHEN NOT EXISTS (SELECT FROM pg_class c
                                WHERE c.oid = bound.relation AND c.relkind IN ('r', 'p')) THEN 'it is not a table'
                            WHEN pawl._of_another(bound.relation, pawl._verified_tables(bound)) IS NOT NULL
                            THEN format('%s belongs to another role than the table, which cannot read it',
                                pawl._of_another(bound.relation, pawl._verified_tables(bound)))
                            ELSE pawl._binding_problem(bound.relation, bound.state_column) END;
            IF problem IS NOT NULL THEN
                relation := bound.relation;
                state_column := bound.state_column;
                detail := problem;
                problem := 'not_checked';
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;
        IF root IS NOT NULL THEN
            RETURN QUERY SELECT v.* FROM pawl._verify_binding(bound) v;
            CONTINUE;
        END IF;
        BEGIN
            RETURN QUERY SELECT v.* FROM pawl._verify_binding(bound) v;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            -- one table, or what its owner has done to it, hides nothing of the others
            RETURN QUERY SELECT bound.relation, bound.state_column, NULL::text, 'not_checked', SQLERRM;
        END;
    END LOOP;
    IF root IS NULL THEN
        RETURN QUERY SELECT v.* FROM pawl._verify_outbox() v;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._verify(regclass) IS 'internal: see pawl.verify';

-- The statements by which pawl.read_as_owner verifies a table. verify: rows and log; verify_work: managed columns; log:
-- all entries, for pawl._verify_events.
CREATE FUNCTION pawl._verify_statements(bound pawl.binding, what text)
RETURNS TABLE (statement text, types regtype[], parameters text[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 5
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF what = 'verify' AND NOT bound.validated THEN
        RETURN QUERY SELECT s.* FROM pawl._verify_validation(bound) s;
    ELSIF what = 'verify' THEN
        RETURN QUERY SELECT format(
            'SELECT $1, $2, %1$s, ''unknown_state'', coalesce(''the row is in "'' || pawl.value_text(r.%2$I) || '
            '''"'', ''the state is null'') '
            'FROM %3$s r WHERE r.%2$I IS NULL OR pawl.value_text(r.%2$I) COLLATE "C" <> ALL ($3) ORDER BY 3',
            pawl._key_label('r', bound.key_columns), bound.state_column, bound.relation),
            '{regclass,name,text[]}'::regtype[],
            ARRAY[bound.relation::oid::text, bound.state_column, pawl._atoms(bound.machine, bound.version)::text];
    END IF;
    IF what = 'verify' THEN
        IF bound.history IS NOT NULL THEN
            RETURN QUERY SELECT s.* FROM pawl._verify_ends(bound) s;
            RETURN QUERY SELECT s.* FROM pawl._verify_log(bound) s;
            RETURN QUERY SELECT s.* FROM pawl._verify_anchors(bound) s;
            RETURN QUERY SELECT s.* FROM pawl._verify_audit(bound) s;
        END IF;
    ELSIF what = 'verify_work' THEN
        RETURN QUERY SELECT s.* FROM pawl._verify_work(bound) s;
    ELSIF what = 'log' AND bound.history IS NOT NULL THEN
        RETURN QUERY
            SELECT format('SELECT l.id, %s, l.sort_key, l.from_state, l.to_state, l.event, l.created_at FROM %s l',
                                   pawl._key_label('l', bound.log_key_columns), bound.history), '{}'::regtype[],
                '{}'::text[];
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._verify_statements(pawl.binding, text) IS
'internal: statements that read a table and its log for pawl.verify';

-- What is left to pawl.validate is one problem, and not one a row.
CREATE FUNCTION pawl._verify_validation(bound pawl.binding)
RETURNS TABLE (statement text, types regtype[], parameters text[])
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT 'SELECT $1, $2, NULL::text, ''not_validated'', $3', '{regclass,name,text}'::regtype[],
        ARRAY[bound.relation::oid::text, bound.state_column, pawl._validation_progress(bound)]
$function$;
COMMENT ON FUNCTION pawl._verify_validation(pawl.binding) IS
'internal: the problem that rows of before are not validated';

-- Every row is in the state of its newest entry, and the newest entry of every subject has a row.
CREATE FUNCTION pawl._verify_ends(bound pawl.binding)
RETURNS TABLE (statement text, types regtype[], parameters text[])
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY SELECT format($query$
        WITH newest AS %1$s,
             ends AS (SELECT CASE WHEN r.tableoid IS NULL THEN %3$s ELSE %2$s END AS key,
                 r.tableoid IS NOT NULL AS present, pawl.value_text(r.%4$I) AS state,
                             coalesce('"' || pawl.value_text(r.%4$I) || '"', 'no state') AS state_shown,
                             n.sort_key, n.to_state
                        FROM %5$s r FULL JOIN newest n ON %6$s)
        SELECT $1, $2, e.key, p.problem, p.detail
          FROM ends e
          CROSS JOIN LATERAL (VALUES
               ('log_missing', e.present
                   AND e.sort_key IS NULL AND %7$L, format('the row is in %%s, it has no log', e.state_shown)),
               ('row_missing', NOT e.present AND e.to_state IS NOT NULL,
                format('the log ends with "%%s", there is no row', e.to_state)),
               ('log_differs', e.present AND e.sort_key IS NOT NULL
                   AND e.state COLLATE "C" IS DISTINCT FROM e.to_state COLLATE "C",
                format('the row is in %%s, the log ends with %%s', e.state_shown,
                    coalesce('"' || e.to_state || '"', 'its deletion')))
               ) p(problem, holds, detail)
         WHERE p.holds ORDER BY e.key COLLATE "C"$query$,
        pawl._log_ends(bound), pawl._key_label('r', bound.key_columns), pawl._key_label('n', bound.log_key_columns),
        bound.state_column, bound.relation,
        pawl._same_key('n', bound.log_key_columns, 'r', bound.key_columns, bound.history), bound.validated),
        '{regclass,name}'::regtype[], ARRAY[bound.relation::oid::text, bound.state_column];
END
$function$;
COMMENT ON FUNCTION pawl._verify_ends(pawl.binding) IS 'internal: rows that are not where their log ends';

-- Every log is a chain: its entries are numbered 1, 2, 3 ... (from where it was pruned), each begins where the one
-- before ended, and each is a transition.
CREATE FUNCTION pawl._verify_log(bound pawl.binding)
RETURNS TABLE (statement text, types regtype[], parameters text[])
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    anchor record := pawl._anchor_join(bound);
    keys record := pawl._keys_apart('l', bound.log_key_columns);
    entry text := keys.listed || ', l.sort_key, l.from_state, l.to_state, l.event, l.processor, l.actor, l.metadata, '
        'l.correlation_id, l.machine_version, l.created_at' || CASE bound.most_recent WHEN 'stored'
        THEN ', l.most_recent' ELSE '' END || CASE WHEN bound.hash_chain THEN ', l.hash, l.salt, l.salts' ELSE '' END;
BEGIN
    RETURN QUERY SELECT format($query$
        WITH %10$s chain AS (
            SELECT %14$s, %13$s AS reason, coalesce(lag(l.sort_key) OVER w, %8$s.sort_key) AS last_sort_key,
                   CASE WHEN lag(l.sort_key) OVER w IS NULL THEN %8$s.to_state ELSE lag(l.to_state) OVER w END
                   AS last_to_state,
                   coalesce(lag(l.created_at) OVER w, %8$s.created_at) AS last_created_at,
                   lead(l.sort_key) OVER w IS NULL AS is_newest %1$s
              FROM %2$s l %9$s WINDOW w AS (PARTITION BY %3$s ORDER BY l.sort_key))
        , checked AS (
            SELECT c.*, c.sort_key <> coalesce(c.last_sort_key, 0) + 1 AS has_gap,
                   c.from_state COLLATE "C" IS DISTINCT FROM c.last_to_state COLLATE "C" AS is_broken,
                   NOT k.known AS is_unknown, k.known AND %5$s AS is_illegal, %6$s AS is_mistaken,
                   coalesce(c.created_at < c.last_created_at, false) AS is_backwards, %7$s AS is_forged,
                   %11$s AS unrecorded, coalesce(c.event = 'pawl.place', false) AS is_placed
              FROM chain c
              CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pawl.machine v
                  WHERE v.machine = $1 AND v.version = c.machine_version) AS known) k
              %12$s
            OFFSET 0)  -- each condition is looked at once
        SELECT $2, $3, %4$s, p.problem, format('sort_key %%s: ', c.sort_key) || p.detail
          FROM checked c
          CROSS JOIN LATERAL (VALUES
               ('sort_key_gap', c.has_gap, format('%%s should come before it', c.sort_key - 1)),
               ('chain_broken', c.is_broken, format('it begins at %%s, but the entry before ended at %%s',
                       coalesce('"' || c.from_state || '"', 'nothing'),
                       coalesce('"' || c.last_to_state || '"', 'nothing'))),
               ('unknown_version', c.is_unknown, format('machine "%%s" has no version %%s', $1, c.machine_version)),
               ('illegal_transition', c.is_illegal, format('%%s to %%s is not a transition of version %%s',
                   coalesce('"' || c.from_state || '"', 'nothing'),
                       coalesce('"' || c.to_state || '"', 'nothing'), c.machine_version)),
               ('most_recent', c.is_mistaken, CASE WHEN c.is_newest
                   THEN 'it is the newest entry, but most_recent is false'
                       ELSE 'most_recent is true, but it is not the newest entry' END),
               ('clock_backwards', c.is_backwards,
                   format('its time is %%s before that of the entry before it', c.last_created_at - c.created_at)),
               ('hash_mismatch', c.is_forged, 'its hash is not that of its content and its predecessor''s hash'),
               ('redaction_missing', c.unrecorded <> '{}',
                   format('pawl.redaction has no row for the redacted %%s', array_to_string(c.unrecorded, ', '))),
               ('placed', c.is_placed AND c.reason IS NOT NULL, format('"%%s" has placed the row in "%%s": %%s',
                   c.actor, c.to_state, c.reason)),
               ('illegal_transition', c.is_placed AND c.reason IS NULL,
                   format('it was placed in "%%s", but has no reason', c.to_state))
               ) p(problem, holds, detail)
         WHERE (c.has_gap OR c.is_broken OR c.is_unknown OR c.is_illegal OR c.is_mistaken OR c.is_backwards
             OR c.is_forged OR c.is_placed OR c.unrecorded <> '{}') AND p.holds
         ORDER BY 3, c.sort_key, p.problem COLLATE "C"$query$,
        CASE WHEN bound.hash_chain
            THEN format(', coalesce(lag(l.hash) OVER w, %s.hash) AS last_hash', anchor.alias) END,
        bound.history, pawl._columns('l.', bound.log_key_columns), pawl._key_label('c', keys.called),
        pawl._foreign_change('c'),
        CASE WHEN bound.most_recent = 'stored' THEN 'c.most_recent <> c.is_newest' ELSE 'false' END,
        CASE WHEN bound.hash_chain THEN
             format('c.hash IS DISTINCT FROM pawl._log_hash(c.last_hash, pawl._log_content(%s, c.sort_key, '
                 'c.from_state, c.to_state, c.event, '
                    'pawl._commitment(''processor'', c.processor, c.salt, c.salts), c.actor, '
                    'pawl._commitment(''correlation_id'', c.correlation_id, c.salt, c.salts), '
                    'pawl._metadata_commitment(c.metadata, c.salt, c.salts), c.machine_version, c.created_at, %s))',
                        pawl._key_array('c', keys.called), 'c.reason')
             ELSE 'false' END,
        anchor.alias, anchor.joined,
        CASE WHEN bound.hash_chain THEN format('redacted AS MATERIALIZED (SELECT x.key, array_agg(f) AS fields FROM '
        'pawl._redactions x CROSS JOIN LATERAL unnest(x.fields) f '
                                     'WHERE x.log = %L::regclass GROUP BY x.key),', bound.history) END,
        CASE WHEN bound.hash_chain
            THEN 'CASE WHEN c.salt IS NULL AND c.salts IS NOT NULL THEN pawl._unrecorded(c.processor, c.correlation_id,'
        ' c.metadata, c.salts, d.fields) ELSE ''{}'' END'
             ELSE '''{}''::text[]' END,
        CASE WHEN bound.hash_chain
            THEN format('LEFT JOIN redacted d ON c.salt IS NULL AND d.key = %s',
                pawl._key_array('c', keys.called)) END,
        pawl._placed(bound, 'l'), entry),
        '{text,regclass,name}'::regtype[], ARRAY[bound.machine, bound.relation::oid::text, bound.state_column];
END
$function$;
COMMENT ON FUNCTION pawl._verify_log(pawl.binding) IS 'internal: logs that are not a chain of allowed moves';

CREATE FUNCTION pawl.verify(relation regclass DEFAULT NULL)
RETURNS TABLE (relation regclass, state_column name, key text, problem text, detail text)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
AS $function$
    SELECT v.relation, v.state_column, v.key, v.problem, v.detail FROM pawl._verify($1) v
$function$;
COMMENT ON FUNCTION pawl.verify(regclass) IS
'Reads rows, logs, audits and outbox in one snapshot and returns what is wrong. No rows: nothing is.
relation: the table; null (default): all.
Returns relation, state_column, key, problem and detail. Problems: unknown_state, log_missing, row_missing,
log_differs, sort_key_gap, chain_broken, unknown_version, illegal_transition, most_recent, clock_backwards,
hash_mismatch, redaction_missing, placed (no fault: pawl.place has put the row there), stray_owner, lease_missing, '
'timer_missing, end_missing, audit_missing,
audit_unfounded, audit_differs, event_missing, event_unfounded, event_differs; without relation also outbox_differs;
not_checked if you lack SELECT, the catalog is damaged, or reading the table raised an error (detail).
Errors: 42704 no binding; 42501 permission denied; 42P01 no such table. Privileges: pawl_admin, pawl_operator,
pawl_reader; needs SELECT on the table and its log.
Example: SELECT * FROM pawl.verify(''orders'')';
