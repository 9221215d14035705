-- Logs that are partitioned by columns of the subject's key: their layout, and future partitions.

-- The argument log_partition as a PARTITION BY clause in the names of the log; buckets: how many hash partitions.
CREATE FUNCTION pawl._log_layout(log_partition text, key_columns name[], OUT clause text, OUT strategy text,
    OUT buckets integer)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    parts text[];
    given name[];
    wrong name;
BEGIN
    IF log_partition IS NULL THEN
        RETURN;
    END IF;
    parts := regexp_match(log_partition, E'^\\s*(range|list|hash)\\s*\\((.+)\\)\\s*(?:partitions\\s+(\\d{1,4}))?\\s*$',
        'i');
    IF parts IS NULL OR (lower(parts[1]) = 'hash') <> (parts[3] IS NOT NULL) THEN
        PERFORM pawl.raise('22023', format('invalid log_partition "%s"', log_partition), NULL,
            'range (column, ...), list (column), or hash (column, ...) partitions 8');
    END IF;
    strategy := lower(parts[1]);
    buckets := parts[3];
    IF buckets NOT BETWEEN 1 AND 1024 THEN
        PERFORM pawl.raise('22023', 'a log has from 1 to 1024 hash partitions');
    END IF;
    SELECT array_agg((parse_ident(c.name))[1]::name ORDER BY c.n) INTO given
        FROM string_to_table(parts[2], ',') WITH ORDINALITY c(name, n);
    SELECT g INTO wrong FROM unnest(given) g WHERE g <> ALL (key_columns) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('22023', format('log_partition names column "%s", which is not part of the key', wrong),
            format('The key is (%s): the log of a row must stay in one partition.',
                array_to_string(key_columns, ', ')));
    END IF;
    SELECT format('PARTITION BY %s (%s)', strategy, string_agg(quote_ident(l.name), ', ' ORDER BY g.n)) INTO clause
      FROM unnest(given) WITH ORDINALITY g(name, n)
      JOIN unnest(key_columns) WITH ORDINALITY k(name, n) ON k.name = g.name
      JOIN unnest(pawl._log_key_columns(key_columns)) WITH ORDINALITY l(name, n) ON l.n = k.n;
END
$function$;
COMMENT ON FUNCTION pawl._log_layout(text, name[]) IS 'internal: the argument log_partition of pawl.enable_log, read';

-- The partitions that a log begins with: those of a hash, or a default partition, so that every entry has one.
CREATE FUNCTION pawl._make_first_partitions(log regclass, strategy text, buckets integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    class pg_class;
    schema_name name;
BEGIN
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = log;
    SELECT n.nspname INTO schema_name FROM pg_namespace n WHERE n.oid = class.relnamespace;
    IF strategy = 'hash' THEN
        FOR bucket IN 0 .. buckets - 1 LOOP
            EXECUTE format('CREATE TABLE %I.%I PARTITION OF %s FOR VALUES WITH (MODULUS %s, REMAINDER %s)', schema_name,
                           pawl._log_name(class.relname, '_p' || bucket), log, buckets, bucket);
        END LOOP;
    ELSE
        EXECUTE format('CREATE TABLE %I.%I PARTITION OF %s DEFAULT', schema_name,
            pawl._log_name(class.relname, '_default'), log);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._make_first_partitions(regclass, text, integer) IS
'internal: the partitions that a new log has';

-- A statement fires the statement triggers of the table that it names, so each partition has its own guards and audit
-- trigger. PostgreSQL clones row triggers itself.
CREATE FUNCTION pawl._close_partitions(log regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    leaf regclass;
    guard record;
    audited boolean := EXISTS (SELECT FROM pawl.audit_binding a WHERE a.log = _close_partitions.log);
BEGIN
    -- partitions that have their triggers are left out by one look at the catalog: there can be a thousand
    FOR leaf IN
        SELECT m FROM pawl._members(log) m
          LEFT JOIN (SELECT t.tgrelid, count(*) AS present FROM pg_trigger t
                      WHERE (t.tgname, t.tgtype, t.tgenabled, t.tgfoid) IN (
                                ('!pawl_protect', 26, 'O', 'pawl.protect_log()'::regprocedure),
                                ('!pawl_protect_truncate', 34, 'O', 'pawl.protect_log()'::regprocedure),
                                ('!pawl_audit', 4, 'A', 'pawl.audit_results()'::regprocedure))
                        AND t.tgqual IS NULL AND t.tgnargs = 0 AND cardinality(t.tgattr::smallint[]) = 0
                      GROUP BY 1) g ON g.tgrelid = m
         WHERE m <> log AND g.present IS DISTINCT FROM CASE WHEN audited THEN 3 ELSE 2 END ORDER BY m
    LOOP
        FOR guard IN SELECT * FROM (VALUES ('!pawl_protect', 'BEFORE UPDATE OR DELETE ON %s FOR EACH STATEMENT'),
            ('!pawl_protect_truncate', 'BEFORE TRUNCATE ON %s FOR EACH STATEMENT')) g(name, moment) LOOP
            IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = leaf AND t.tgname = guard.name
                          AND pawl._trigger_fits(t.oid, 'pawl.protect_log()', guard.moment)) THEN
                EXECUTE format('ALTER TABLE ONLY %s ENABLE TRIGGER %I', leaf, guard.name);
            ELSE
                EXECUTE format('CREATE OR REPLACE TRIGGER %I ' || guard.moment
                        || ' EXECUTE FUNCTION pawl.protect_log()', guard.name, leaf);
            END IF;
        END LOOP;
        IF audited THEN
            PERFORM pawl._install_audit(leaf);
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._close_partitions(regclass) IS
'internal: creates or enables the statement triggers of the partitions of a log';

-- A table that becomes a partition of a log must have no rows, because only pawl writes entries.
CREATE FUNCTION pawl._adopt_partitions(log regclass, touched oid[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    newcomer regclass;
BEGIN
    FOR newcomer IN
        SELECT x.oid
          -- few are new; the others are not asked for their ancestors
          FROM (SELECT c.oid FROM unnest(touched) t CROSS JOIN LATERAL pawl._members(t) m JOIN pg_class c ON c.oid = m
                 WHERE c.relkind <> 'p' AND c.oid <> log AND NOT EXISTS (SELECT FROM pg_trigger g
                           WHERE g.tgrelid = m AND g.tgname = '!pawl_protect_truncate') OFFSET 0) x
         WHERE log IN (SELECT a FROM pawl._ancestors(x.oid) a)
    LOOP
        IF pawl._has_rows(newcomer) THEN
            PERFORM pawl.raise('PW006', format('%s cannot join the log %s: it has rows', newcomer, log),
                'Only the extension writes log entries.',
                (SELECT format('select pawl.enable_log(%L, %L, log_name => ...) begins another log', b.relation,
                    b.state_column)
                   FROM pawl.binding b WHERE b.history = log));
        END IF;
    END LOOP;
    PERFORM pawl._close_partitions(log);
END
$function$;
COMMENT ON FUNCTION pawl._adopt_partitions(regclass, oid[]) IS 'internal: adds new partitions to a log';

-- Removes pawl's triggers from a partition that left a log, which must be empty. Its size shows that, because this runs
-- as the extension's owner and reads no table of a user. PostgreSQL itself has dropped the row triggers.
CREATE FUNCTION pawl._let_partitions_go(log regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    left_behind regclass;
    trigger_name name;
BEGIN
    FOR left_behind IN
        SELECT DISTINCT t.tgrelid FROM pg_depend d
        JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
         WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'pawl.protect_log()'::regprocedure
             AND t.tgname = '!pawl_protect_truncate'
           AND NOT EXISTS (SELECT FROM pg_trigger r WHERE r.tgrelid = t.tgrelid AND r.tgname = '!pawl_protect_row')
           AND NOT EXISTS (SELECT FROM pawl.binding b WHERE b.history IN (SELECT a FROM pawl._ancestors(t.tgrelid) a))
    LOOP
        IF pg_relation_size(left_behind) > 0 THEN
            PERFORM pawl.raise('PW006', format('%s cannot leave the log %s: it has entries', left_behind, log),
                'Log entries are kept; pawl.prune_log empties old partitions.',
                (SELECT format('select pawl.prune_log(%L, ...)', b.relation) FROM pawl.binding b
                    WHERE b.history = log));
        END IF;
        FOR trigger_name IN SELECT t.tgname FROM pg_trigger t WHERE t.tgrelid = left_behind
                               AND t.tgfoid IN ('pawl.protect_log()'::regprocedure,
                                   'pawl.audit_results()'::regprocedure) LOOP
            EXECUTE format('DROP TRIGGER %I ON %s', trigger_name, left_behind);
        END LOOP;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._let_partitions_go(regclass) IS 'internal: part of event trigger pawl_follow';

-- The bound of a range as a literal of the partition column's type; UUIDs are those of
-- version 7, which begin with the time.
CREATE FUNCTION pawl._time_bound(type oid, at timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $function$
    SELECT CASE type WHEN 'uuid'::regtype
        THEN quote_literal(rpad(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0'), 32, '0')::uuid)
                     WHEN 'date'::regtype THEN quote_literal(at::date)
                     WHEN 'timestamp'::regtype THEN quote_literal(at::timestamp)
                     WHEN 'timestamptz'::regtype THEN quote_literal(at) END
$function$;
COMMENT ON FUNCTION pawl._time_bound(oid, timestamptz) IS
'internal: where a partition of time begins; null for types that hold no time';

-- Creates one partition and then attaches it, so that sessions that write to other partitions do not wait. Returns
-- false if the default partition has entries of its time.
CREATE FUNCTION pawl._attach_log_partition(log regclass, leaf text, lower_bound text, upper_bound text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE '
        'INCLUDING GENERATED)', leaf, log);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)', log, leaf, lower_bound,
        upper_bound);
    RETURN true;
EXCEPTION WHEN check_violation THEN
    RETURN false;
END
$function$;
COMMENT ON FUNCTION pawl._attach_log_partition(regclass, text, text, text) IS
'internal: creates one partition of a log of the caller';

-- ATTACH computes constants in the CHECKs of a log, which are code of its owner.
CREATE FUNCTION pawl._add_log_partition(log regclass, leaf text, lower_bound text, upper_bound text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_add_log_partition';
COMMENT ON FUNCTION pawl._add_log_partition(regclass, text, text, text) IS
'internal: creates a partition of a log as its owner, in a security-restricted operation, if the caller has its
rights';

CREATE FUNCTION pawl.extend_log(relation regclass, period text, ahead integer DEFAULT 3, state_column name DEFAULT NULL)
    RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
    schema_name name;
    base name;
    type oid;
    columns integer;
    width interval;
    starts timestamptz;
    leaf name;
    made integer := 0;
BEGIN
    IF period IS NULL OR ahead IS NULL THEN
        PERFORM pawl.raise('22004',
            format('%s must not be null', CASE WHEN period IS NULL THEN 'period' ELSE 'ahead' END));
    END IF;
    IF period NOT IN ('hour', 'day', 'week', 'month', 'quarter', 'year') OR ahead NOT BETWEEN 0 AND 1000 THEN
        PERFORM pawl.raise('22023', CASE WHEN ahead BETWEEN 0 AND 1000 THEN format('unknown period "%s"', period)
            ELSE 'ahead must be from 0 to 1000' END, NULL, 'hour, day, week, month, quarter or year');
    END IF;
    PERFORM pawl._check_owner(bound.history);
    SELECT a.atttypid, p.partnatts INTO type, columns FROM pg_partitioned_table p
      JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
      WHERE p.partrelid = bound.history AND p.partstrat = 'r';
    IF type IS NULL OR pawl._time_bound(pawl.base_type(type), now()) IS NULL THEN
        PERFORM pawl.raise('55000', format('the log %s is not partitioned by ranges of time', bound.history),
            'The first column of its partition key is to be a UUID of version 7, a timestamp or a date.',
            format('select pawl.enable_log(%L, %L, log_name => ..., log_partition => ''range (id)'')', bound.relation,
                bound.state_column));
    END IF;
    PERFORM pawl._lock_upkeep(bound.history);
    SELECT n.nspname, c.relname INTO schema_name, base FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = bound.history;
    width := CASE period WHEN 'quarter' THEN interval '3 months' ELSE ('1 ' || period)::interval END;
    FOR n IN 0 .. ahead LOOP
        starts := date_trunc(period, now()) + n * width;
        leaf := pawl._log_name(base,
            '_' || to_char(starts, CASE period WHEN 'hour' THEN 'YYYYMMDD"t"HH24' ELSE 'YYYYMMDD' END));
        IF NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
            WHERE s.nspname = schema_name AND c.relname = leaf)
           AND pawl._add_log_partition(bound.history, format('%I.%I', schema_name, leaf),
                   pawl._time_bound(pawl.base_type(type), starts) || repeat(', MINVALUE', columns - 1),
                   pawl._time_bound(pawl.base_type(type), starts + width) || repeat(', MINVALUE', columns - 1)) THEN
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl.extend_log(regclass, text, integer, name) IS
'Creates the current and future partitions of a log that is partitioned by ranges of time, and returns how many it
created. Call it more often than a period lasts. Entries without a partition go to the default partition; a period
with entries there gets no partition.
relation: the enforced table. period: hour, day, week, month, quarter or year, in UTC. ahead: future periods, 0 to
1000; default 3. state_column: null: the only bound column.
Errors: 55000 no log, or one not partitioned by a UUID of version 7, a timestamp or a date; 22023 unknown period or
ahead out of range; 22004 null; 42P17 an overlapping partition; 42501 not the owner; 42704 no binding.
Privileges: all roles; must own the log.
Example: SELECT pawl.extend_log(''letters'', ''month'', 2)';

-- The health of a partitioned log: every entry has a partition, and the default partition has few entries.
CREATE FUNCTION pawl._health_partitions(bound pawl.binding)
RETURNS TABLE (check_name text, status text, detail text, hint text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    parted pg_partitioned_table;
    problem text;
    makes text;
BEGIN
    SELECT p.* INTO parted FROM pg_partitioned_table p WHERE p.partrelid = bound.history;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT format('partition %s of the log is not owned by the owner of the log, which prunes it', m::regclass),
           format('alter table %s owner to %s', m::regclass, log.relowner::regrole) INTO problem, makes
      FROM pg_class log CROSS JOIN LATERAL pawl._members(log.oid) m JOIN pg_class c ON c.oid = m AND c.relispartition
     WHERE log.oid = bound.history AND NOT pg_has_role(log.relowner, c.relowner, 'USAGE') ORDER BY m LIMIT 1;
    IF FOUND THEN
        NULL;
    ELSIF parted.partstrat <> 'h' AND parted.partdefid = 0 THEN
        problem := 'the log has no default partition: a state change fails if no partition fits its entry';
        makes := format('create table ... partition of %s default', bound.history);
    ELSIF parted.partstrat = 'r'
        AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = bound.history AND i.inhrelid <> parted.partdefid)
          AND pg_relation_size(parted.partdefid) > 1000000 THEN
        problem := 'entries go to the default partition of the log, which is never dropped';
        makes := format('select pawl.extend_log(%L, ...), or create table ... partition of %s for values ...',
            bound.relation, bound.history);
    END IF;
    RETURN QUERY SELECT 'log_partitions', CASE WHEN problem IS NULL THEN 'ok' WHEN parted.partstrat <> 'h'
        AND parted.partdefid = 0 THEN 'error' ELSE 'warning' END, problem,
        CASE WHEN problem IS NOT NULL THEN makes END;
END
$function$;
COMMENT ON FUNCTION pawl._health_partitions(pawl.binding) IS 'internal: the health of the partitions of a log';
