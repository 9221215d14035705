-- Retention: old entries of logs and audits are removed by pawl.prune_log and pawl.prune_audit, and by nothing else.

CREATE TABLE pawl.pruned_log (
    log regclass NOT NULL PRIMARY KEY,
    anchors regclass NOT NULL,
    horizon timestamptz NOT NULL,
    next_block bigint NOT NULL DEFAULT 0,
    next_leaf oid NOT NULL DEFAULT 0,
    emptied regclass[] NOT NULL DEFAULT '{}',
    pruned_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    pruned_by text NOT NULL DEFAULT CURRENT_USER
);
COMMENT ON TABLE pawl.pruned_log IS 'one row a log that was ever pruned; written by pawl.prune_log';
COMMENT ON COLUMN pawl.pruned_log.anchors IS
'the table that knows, for every subject whose log was cut, the last entry removed';
COMMENT ON COLUMN pawl.pruned_log.horizon IS 'no entry younger than this was ever removed';
COMMENT ON COLUMN pawl.pruned_log.next_block IS
'where in the log, or in its partition next_leaf, the next call goes on looking';
COMMENT ON COLUMN pawl.pruned_log.next_leaf IS
'the OID of the partition where the next call goes on; after a restore that is none, and it begins anew';
COMMENT ON COLUMN pawl.pruned_log.emptied IS
'partitions that were emptied, to be dropped when no session writes to the log';

SELECT pg_catalog.pg_extension_config_dump('pawl.pruned_log', '');

-- The table of anchors of a log, created if it does not exist, with the owner and the readers of the log.
CREATE FUNCTION pawl._make_anchors(bound pawl.binding) RETURNS regclass
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    class pg_class;
    made text;
    keys name[] := pawl._apart(bound.log_key_columns, '{pruned_at,whole}', 'subject_');
    columns text;
    grantee regrole;
BEGIN
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = bound.history;
    made := (SELECT format('%I.%I', n.nspname, pawl._log_name(class.relname, '_pruned')) FROM pg_namespace n
        WHERE n.oid = class.relnamespace);
    SELECT string_agg(format('%I %s%s NOT NULL', keys[array_position(bound.log_key_columns, c.name)], c.type,
                CASE WHEN c."collation" <> 0 THEN ' COLLATE ' || c."collation"::regcollation END), ', ' ORDER BY c.n)
      INTO columns FROM pawl._log_columns(bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain) c
     WHERE c.name = ANY (bound.log_key_columns);
    EXECUTE format(
        'CREATE TABLE %s (%s, sort_key integer NOT NULL, to_state text, created_at timestamptz NOT NULL, hash bytea, '
                   'pruned_at timestamptz NOT NULL, whole boolean NOT NULL DEFAULT false, PRIMARY KEY (%s))', made,
                       columns, pawl._columns('', keys));
    EXECUTE format('COMMENT ON TABLE %s IS %L', made,
        'where the log ' || bound.history || ' was cut: the last entry removed of each subject; written by pawl');
    EXECUTE format('ALTER TABLE %s OWNER TO %s', made, class.relowner::regrole);
    FOR grantee IN SELECT DISTINCT g.grantee::regrole FROM aclexplode(class.relacl) g
                    WHERE g.privilege_type = 'SELECT' AND g.grantee NOT IN (0, class.relowner) LOOP
        EXECUTE format('GRANT SELECT ON %s TO %s', made, grantee);
    END LOOP;
    PERFORM pawl._close_record(made::regclass);
    RETURN made::regclass;
END
$function$;
COMMENT ON FUNCTION pawl._make_anchors(pawl.binding) IS 'internal: creates the table of anchors of a log';

-- What the key columns are called in the table of anchors: as they were in the log when it was made.
CREATE FUNCTION pawl._anchor_keys(bound pawl.binding, anchors regclass) RETURNS name[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
     WHERE a.attrelid = anchors AND a.attnum BETWEEN 1 AND cardinality(bound.log_key_columns)
$function$;
COMMENT ON FUNCTION pawl._anchor_keys(pawl.binding, regclass) IS
'internal: the key columns of the table of anchors of a log';

-- The statements of pawl._prune. They find entries by the primary key, one subject at a time. $1, $2: the pages to
-- read; $3: older entries are removed; $4: at most so many entries.
CREATE FUNCTION pawl._prune_statements(bound pawl.binding, anchors regclass, only_terminal boolean,
    OUT prefixes text, OUT ends text, OUT remove_ends text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    keys text := pawl._columns('', bound.log_key_columns);
    log text := bound.history::text;
    hash text := CASE WHEN bound.hash_chain THEN 'hash' ELSE 'NULL::bytea' END;
    terminal text[] := ARRAY(SELECT s.state FROM pawl.machine_state s
        WHERE s.machine = bound.machine AND s.version = bound.version
                                AND s.kind = 'state' AND s.terminal);
BEGIN
    -- of each subject seen: all entries before the newest one that are old
    prefixes := format($statement$
        WITH old AS MATERIALIZED (SELECT DISTINCT %1$s FROM %2$s WHERE ctid >= $1 AND ctid < $2 AND created_at < $3),
        doomed AS MATERIALIZED (
            SELECT x.at FROM old s
             CROSS JOIN LATERAL (SELECT l.sort_key, l.to_state, l.created_at FROM %2$s l WHERE %3$s
                 ORDER BY l.sort_key DESC LIMIT 1) n
             CROSS JOIN LATERAL (SELECT l.ctid AS at, l.sort_key FROM %2$s l WHERE %3$s AND l.sort_key < coalesce(
                 (SELECT l.sort_key FROM %2$s l WHERE %3$s AND l.created_at >= $3 ORDER BY l.sort_key LIMIT 1),
                 n.sort_key) AND l.sort_key < n.sort_key
                 ORDER BY l.sort_key) x
             WHERE %4$s ORDER BY %5$s, x.sort_key LIMIT $4),
        removed AS (DELETE FROM %2$s WHERE ctid = ANY (ARRAY(SELECT d.at FROM doomed d))
            RETURNING %1$s, sort_key, to_state, created_at, %6$s AS hash),
        kept AS (
            INSERT INTO %7$s AS a (%8$s, sort_key, to_state, created_at, hash, pruned_at)
            SELECT DISTINCT ON (%1$s) %1$s, sort_key, to_state, created_at, hash, clock_timestamp() FROM removed
                ORDER BY %1$s, sort_key DESC
            ON CONFLICT (%8$s) DO UPDATE SET sort_key = excluded.sort_key, to_state = excluded.to_state,
                created_at = excluded.created_at,
                hash = excluded.hash, pruned_at = excluded.pruned_at, whole = false
                WHERE a.sort_key < excluded.sort_key)
        SELECT count(*) FROM removed$statement$,
        keys, log, pawl._same_key('l', bound.log_key_columns, 's', bound.log_key_columns, bound.history),
        CASE WHEN only_terminal THEN format('n.created_at < $3 AND (n.to_state IS NULL OR n.to_state COLLATE '
        '"C" = ANY (%L))', terminal) ELSE 'true' END,
        pawl._columns('s.', bound.log_key_columns), hash, anchors,
        pawl._columns('', pawl._anchor_keys(bound, anchors)));
    -- the last entry of a deleted row, once it stands alone; a session that inserts the row again holds a lock on it
    ends := format($statement$
        SELECT array_agg(e.at), count(*) FROM (
            SELECT s.ctid AS at FROM %1$s s
            WHERE s.ctid >= $1 AND s.ctid < $2 AND s.created_at < $3 AND s.to_state IS NULL
               AND (SELECT l.sort_key FROM %1$s l WHERE %2$s ORDER BY l.sort_key LIMIT 1) = s.sort_key
               AND (SELECT l.sort_key FROM %1$s l WHERE %2$s ORDER BY l.sort_key DESC LIMIT 1) = s.sort_key LIMIT $4
                   FOR UPDATE OF s SKIP LOCKED) e$statement$,
        log, pawl._same_key('l', bound.log_key_columns, 's', bound.log_key_columns, bound.history));
    remove_ends := format($statement$
        WITH removed AS (DELETE FROM %1$s s WHERE s.ctid = ANY ($1)
            AND (SELECT l.sort_key FROM %1$s l WHERE %2$s ORDER BY l.sort_key DESC LIMIT 1) = s.sort_key
                RETURNING %3$s), forgotten AS (DELETE FROM %4$s a WHERE ctid = ANY (ARRAY(
            SELECT f.at FROM removed s CROSS JOIN LATERAL (SELECT l.ctid AS at FROM %4$s l WHERE %5$s LIMIT 1) f)))
        SELECT count(*) FROM removed$statement$,
        log, pawl._same_key('l', bound.log_key_columns, 's', bound.log_key_columns, bound.history), pawl._columns('s.',
            bound.log_key_columns), anchors,
        pawl._same_key('l', pawl._anchor_keys(bound, anchors), 's', bound.log_key_columns, anchors));
END
$function$;
COMMENT ON FUNCTION pawl._prune_statements(pawl.binding, regclass, boolean) IS
'internal: the statements that remove old entries of a log';

-- Statements about a whole partition, which may be removed if every entry is old and every subject has ended. $1: older
-- entries are removed. `looks_old` checks the end of the table, where young entries are; `may_go` reads until it finds
-- a reason to keep it; `count_all` reads everything, under the partition's lock; `keep_ends` stores the ends of
-- subjects that still exist.
CREATE FUNCTION pawl._prune_whole_statements(bound pawl.binding, leaf regclass, anchors regclass,
    OUT looks_old text, OUT may_go text, OUT count_all text, OUT keep_ends text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    keys text := pawl._columns('', bound.log_key_columns);
    anchor_keys text := pawl._columns('', pawl._anchor_keys(bound, anchors));
    terminal text[] := ARRAY(SELECT s.state FROM pawl.machine_state s
        WHERE s.machine = bound.machine AND s.version = bound.version
                                AND s.kind = 'state' AND s.terminal);
    stays text;
BEGIN
    stays := format('l.created_at >= $1 OR l.to_state COLLATE "C" <> ALL (%L) AND NOT EXISTS (SELECT FROM %s n WHERE '
        '%s AND n.sort_key = l.sort_key + 1)',
                    terminal, leaf,
                    pawl._same_key('n', bound.log_key_columns, 'l', bound.log_key_columns, bound.history));
    looks_old := format('SELECT NOT EXISTS (SELECT FROM %s l WHERE l.ctid >= $2 AND l.created_at >= $1)', leaf);
    may_go := format('SELECT NOT EXISTS (SELECT FROM %s l WHERE %s)', leaf, stays);
    count_all := format('SELECT count(*), coalesce(bool_and((%s) IS NOT TRUE), false) FROM %s l', stays, leaf);
    keep_ends := format($statement$
        WITH newest AS MATERIALIZED (SELECT DISTINCT ON (%1$s) %1$s, sort_key, to_state, created_at, %2$s AS hash
            FROM %3$s ORDER BY %1$s, sort_key DESC), kept AS (
            INSERT INTO %4$s AS a (%5$s, sort_key, to_state, created_at, hash, pruned_at, whole)
            SELECT %1$s, sort_key, to_state, created_at, hash, clock_timestamp(), true FROM newest
                WHERE to_state IS NOT NULL
            ON CONFLICT (%5$s) DO UPDATE SET sort_key = excluded.sort_key, to_state = excluded.to_state,
                created_at = excluded.created_at, hash = excluded.hash, pruned_at = excluded.pruned_at, whole = true),
        forgotten AS (DELETE FROM %4$s a USING newest n WHERE n.to_state IS NULL AND %6$s)
        SELECT 1$statement$,
        keys, CASE WHEN bound.hash_chain THEN 'hash' ELSE 'NULL::bytea' END, leaf, anchors, anchor_keys,
        pawl._same_key('a', pawl._anchor_keys(bound, anchors), 'n', bound.log_key_columns, anchors));
END
$function$;
COMMENT ON FUNCTION pawl._prune_whole_statements(pawl.binding, regclass, regclass) IS
'internal: the statements that empty a partition of a log';

-- Prepares to prune: creates the table of anchors, sets the horizon before anything is removed, and keeps other
-- sessions from pruning this log. Returns a row for each table of the log, with the place where the last call ended.
CREATE FUNCTION pawl._prune_plan(log oid, cutoff timestamptz, only_terminal boolean)
RETURNS TABLE (leaf oid, anchors oid, next_block bigint, prefixes text, ends text, remove_ends text,
    looks_old text, may_go text, count_all text, keep_ends text, emptied boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    bound pawl.binding;
    part pawl.binding;
    cut pawl.pruned_log;
BEGIN
    SELECT b.* INTO bound FROM pawl.binding b WHERE b.history = log;
    IF NOT FOUND THEN
        PERFORM pawl.raise('55000', format('%s is not the log of a table', log::regclass));
    END IF;
    PERFORM pawl._lock_upkeep(log);
    IF NOT EXISTS (SELECT FROM pawl.pruned_log p WHERE p.log = _prune_plan.log) THEN
        INSERT INTO pawl.pruned_log (log, anchors, horizon, pruned_by)
            VALUES (log, pawl._make_anchors(bound), cutoff, session_user);
    END IF;
    UPDATE pawl.pruned_log p
        SET horizon = greatest(p.horizon, cutoff), pruned_at = clock_timestamp(), pruned_by = session_user
     WHERE p.log = _prune_plan.log RETURNING p.* INTO cut;
    anchors := cut.anchors;
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = cut.anchors AND c.relkind = 'r') THEN
        PERFORM pawl.raise('XX001', format('the pruning state of log %s is damaged', log::regclass),
            'pawl.pruned_log names no existing table of pruned ends.', 'select * from pawl.health()');
    END IF;
    part := bound;
    FOR leaf IN
        SELECT m FROM pawl._members(log) m JOIN pg_class c ON c.oid = m AND c.relkind = 'r'
         WHERE log = m OR c.relispartition AND m >= cut.next_leaf ORDER BY m
    LOOP
        next_block := CASE WHEN leaf IN (log, cut.next_leaf) THEN cut.next_block ELSE 0 END;
        part.history := leaf;
        SELECT s.prefixes, s.ends, s.remove_ends INTO prefixes, ends, remove_ends
            FROM pawl._prune_statements(part, anchors, only_terminal) s;
        IF leaf <> log THEN
            SELECT s.looks_old, s.may_go, s.count_all, s.keep_ends INTO looks_old, may_go, count_all, keep_ends
              FROM pawl._prune_whole_statements(bound, leaf, anchors) s;
        END IF;
        emptied := leaf::regclass = ANY (cut.emptied);
        RETURN NEXT;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._prune_plan(oid, timestamptz, boolean) IS
'internal: what pawl.prune_log needs to know of a log';

CREATE FUNCTION pawl._prune(log regclass, cutoff timestamptz, only_terminal boolean, batch integer, OUT removed bigint,
    OUT more boolean)
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_prune';
COMMENT ON FUNCTION pawl._prune(regclass, timestamptz, boolean, integer) IS
'internal: removes old entries of a log; its owner and pawl_admin only';

CREATE FUNCTION pawl.prune_log(relation regclass, older_than interval, only_terminal boolean DEFAULT true,
    batch integer DEFAULT 10000, state_column name DEFAULT NULL, OUT removed bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
BEGIN
    PERFORM pawl._reject_distributed(bound.relation, 'pawl.prune_log');
    PERFORM pawl._check_retention(older_than, batch);
    IF only_terminal IS NULL THEN
        PERFORM pawl.raise('22004', 'only_terminal must not be null');
    END IF;
    PERFORM pawl._check_isolation('pawl.prune_log');
    SELECT p.removed, p.more INTO removed, more
        FROM pawl._prune(bound.history, clock_timestamp() - older_than, only_terminal, batch) p;
END
$function$;
COMMENT ON FUNCTION pawl.prune_log(regclass, interval, boolean, integer, name) IS
'Removes old log entries, at most one batch in each call, and returns how many were removed. It reads the log in
page order and continues where the last call ended. A partition whose entries are all old, and whose rows have all
ended, is truncated, or dropped if it is a range, a later one has entries and no session writes to the log.
relation: the enforced table. older_than: minimum age, 0 to 1000 years. only_terminal: true (default): only entries
of rows that are deleted or in a terminal state and have not changed since; the newest entry of an existing row
stays; false: also older entries of other rows. batch: 1 to 1000000; default 10000. state_column: null: the only
bound column.
Returns removed and more (call it again).
Errors: 22023 batch or age out of range; 22004 null; 55000 no log; 42704 no binding; 42501 not the owner;
25001 not READ COMMITTED.
Privileges: all roles; must own the log or be a member of pawl_admin.
Example: SELECT * FROM pawl.prune_log(''orders'', ''1 year'')';

CREATE FUNCTION pawl._check_retention(older_than interval, batch integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF older_than IS NULL OR batch IS NULL THEN
        PERFORM pawl.raise('22004',
            format('%s must not be null', CASE WHEN older_than IS NULL THEN 'older_than' ELSE 'batch' END));
    END IF;
    PERFORM pawl._check_age(older_than, 'older_than');
    IF batch < 1 OR batch > 1000000 THEN
        PERFORM pawl.raise('22023', 'batch must be from 1 to 1000000');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_retention(interval, integer) IS
'internal: checks the arguments of pawl.prune_log and pawl.prune_audit';

-- As above, for audits: older rows are removed, and nothing depends on them.
CREATE FUNCTION pawl._prune_audit_plan(log oid, cutoff timestamptz, OUT audit oid, OUT statement text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
BEGIN
    INSERT INTO pawl.pruned_audit AS p (log, pruned_before) VALUES (log, cutoff)
    ON CONFLICT ON CONSTRAINT pruned_audit_pkey DO UPDATE SET pruned_before = cutoff WHERE p.pruned_before < cutoff;
    SELECT b.audit INTO audit FROM pawl.audit_binding b WHERE b.log = _prune_audit_plan.log;
    statement := format(
        'WITH removed AS (DELETE FROM %1$s WHERE ctid = ANY (ARRAY(SELECT a.ctid FROM %1$s a WHERE a.recorded_at < $1 '
                        'ORDER BY a.recorded_at LIMIT $2)) RETURNING 1) SELECT count(*) FROM removed', audit::regclass);
END
$function$;
COMMENT ON FUNCTION pawl._prune_audit_plan(oid, timestamptz) IS
'internal: what pawl.prune_audit needs to know of an audit';

CREATE FUNCTION pawl._prune_audit(log regclass, cutoff timestamptz, batch integer) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_prune_audit';
COMMENT ON FUNCTION pawl._prune_audit(regclass, timestamptz, integer) IS
'internal: removes old rows of an audit; its owner and pawl_admin only';

CREATE FUNCTION pawl.prune_audit(relation regclass, older_than interval, batch integer DEFAULT 10000,
    state_column name DEFAULT NULL, OUT removed bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
    a pawl.audit_binding := pawl._audited(bound);
BEGIN
    PERFORM pawl._check_retention(older_than, batch);
    PERFORM pawl._check_isolation('pawl.prune_audit');
    removed := pawl._prune_audit(a.log, clock_timestamp() - older_than, batch);
    more := removed = batch;
END
$function$;
COMMENT ON FUNCTION pawl.prune_audit(regclass, interval, integer, name) IS
'Removes audit rows, oldest first, at most one batch in each call.
relation: the enforced table. older_than: minimum age, 0 to 1000 years. batch: 1 to 1000000; default 10000.
state_column: null: the only bound column.
Returns removed and more (call it again).
Errors: 22023 batch or age out of range; 22004 null; 42704 no binding or no audit; 55000 no log; 42501
not the owner; 25001 not READ COMMITTED.
Privileges: all roles; must own the audit or be a member of pawl_admin.
Example: SELECT * FROM pawl.prune_audit(''orders'', ''1 year'')';
