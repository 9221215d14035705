-- Declared upkeep of logs and audits: how long entries are kept, and future partitions. Only declared logs are pruned.

CREATE TABLE pawl.log_upkeep (
    log regclass NOT NULL PRIMARY KEY,
    keep interval CHECK (keep OPERATOR(pg_catalog.>=) '0'),
    only_terminal boolean NOT NULL DEFAULT true,
    period text COLLATE "C" CHECK (period OPERATOR(pg_catalog.=) ANY ('{hour,day,week,month,quarter,year}')),
    ahead integer NOT NULL DEFAULT 3 CHECK (ahead OPERATOR(pg_catalog.>=) 0 AND ahead OPERATOR(pg_catalog.<=) 1000),
    declared_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    declared_by text NOT NULL DEFAULT CURRENT_USER
);
COMMENT ON TABLE pawl.log_upkeep IS
'what pawl.tend_logs does for a log or an audit; written by pawl.keep_log and pawl.keep_audit, and deleted with it';
COMMENT ON COLUMN pawl.log_upkeep.log IS 'a log, or the audit of one';
COMMENT ON COLUMN pawl.log_upkeep.keep IS 'what is older is pruned; null: nothing is';
COMMENT ON COLUMN pawl.log_upkeep.only_terminal IS 'as pawl.prune_log has it; says nothing of an audit';
COMMENT ON COLUMN pawl.log_upkeep.period IS 'what time a partition of the log covers; null: no partitions are made';
COMMENT ON COLUMN pawl.log_upkeep.ahead IS 'of how many periods to come partitions are made';
SELECT pg_catalog.pg_extension_config_dump('pawl.log_upkeep', '');

-- A role that can write to this table can only declare for logs that it owns.
CREATE FUNCTION pawl._upkeep_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.log_upkeep');
    detail constant text := 'Removed entries cannot be restored.';
    denied constant text := 'must be owner of table %s, or a member of pawl_admin';
BEGIN
    PERFORM pawl._hear(OLD.log, '{pawl_admin}', denied, detail);
    PERFORM pawl._hear(NEW.log, '{pawl_admin}', denied, detail);
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    PERFORM pawl._check_age(NEW.keep, 'keep');
    IF pawl._has_role('pawl_restore') THEN  -- a restore keeps the role and time of the declaration
        RETURN NEW;
    END IF;
    NEW.declared_at := clock_timestamp();
    NEW.declared_by := current_user;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._upkeep_check() IS 'internal: checks the right to declare how long a log or audit is kept';

CREATE TRIGGER owners_only BEFORE INSERT OR UPDATE OR DELETE ON pawl.log_upkeep
    FOR EACH ROW EXECUTE FUNCTION pawl._upkeep_check();

-- A declaration replaces the one before; an empty one removes it. SECURITY DEFINER, because a role that can INSERT need
-- not be able to DELETE; it runs after the check above.
CREATE FUNCTION pawl._upkeep_replace() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.log_upkeep');
BEGIN
    PERFORM pawl._wait_turn(TG_RELID, NEW.log);
    DELETE FROM pawl.log_upkeep u WHERE u.log = NEW.log;
    RETURN CASE WHEN NEW.keep IS NOT NULL OR NEW.period IS NOT NULL THEN NEW END;
END
$function$;
COMMENT ON FUNCTION pawl._upkeep_replace() IS 'internal: replaces or ends the declaration about a log';

CREATE TRIGGER replace BEFORE INSERT ON pawl.log_upkeep FOR EACH ROW EXECUTE FUNCTION pawl._upkeep_replace();

CREATE FUNCTION pawl.keep_log(relation regclass, keep interval, only_terminal boolean DEFAULT true,
    period text DEFAULT NULL, ahead integer DEFAULT 3,
    state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
BEGIN
    PERFORM pawl._reject_distributed(bound.relation, 'pawl.keep_log');
    IF only_terminal IS NULL OR ahead IS NULL THEN
        PERFORM pawl.raise('22004',
            format('%s must not be null', CASE WHEN ahead IS NULL THEN 'ahead' ELSE 'only_terminal' END));
    END IF;
    IF ahead NOT BETWEEN 0 AND 1000 THEN
        PERFORM pawl.raise('22023', 'ahead must be from 0 to 1000');
    END IF;
    IF period IS NOT NULL THEN
        PERFORM pawl.extend_log(relation, period, ahead, state_column);
    END IF;
    INSERT INTO pawl.log_upkeep (log, keep, only_terminal, period, ahead)
        VALUES (bound.history, keep, only_terminal, period, ahead)
    ON CONFLICT DO NOTHING;  -- 40001 if the snapshot is older than the declaration before
END
$function$;
COMMENT ON FUNCTION pawl.keep_log(regclass, interval, boolean, text, integer, name) IS
'Declares how long log entries are kept, and which partitions the log gets; replaces the previous declaration.
pawl.tend_logs, which pawld calls, carries it out.
relation: the enforced table. keep: 0 to 1000 years, null: for ever. only_terminal: as in pawl.prune_log; default true.
period, ahead: as in pawl.extend_log, which is called at once; default null (no partitions) and 3. With neither keep
nor period the declaration is removed. state_column: null: the only bound column.
Errors: 22023 keep or ahead out of range, unknown period; 22004 null; 55000 no log, or one not partitioned
by time; 42704 no binding; 42501 not the owner.
Privileges: all roles; must own the log or be a member of pawl_admin.
Example: SELECT pawl.keep_log(''orders'', ''1 year'')';

CREATE FUNCTION pawl.keep_audit(relation regclass, keep interval, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    a pawl.audit_binding := pawl._audited(pawl._logged(relation, state_column));
BEGIN
    INSERT INTO pawl.log_upkeep (log, keep) VALUES (a.audit, keep) ON CONFLICT DO NOTHING;
END
$function$;
COMMENT ON FUNCTION pawl.keep_audit(regclass, interval, name) IS
'Declares how long audit rows are kept; replaces the previous declaration. pawl.tend_logs, which pawld calls,
carries it out.
relation: the enforced table. keep: 0 to 1000 years, null: for ever. state_column: null: the only bound column.
Errors: 22023 keep is out of range; 42704 no binding or no audit; 55000 no log; 42501 not the owner. Privileges: all
roles; must own the audit or be a member of pawl_admin.
Example: SELECT pawl.keep_audit(''orders'', ''5 years'')';

-- The declarations that the caller may apply, of one table or all: logs first.
CREATE FUNCTION pawl.upkeep_of(only_relation regclass, only_column name)
RETURNS TABLE (relation regclass, state_column name, record regclass, is_audit boolean, keep interval,
    only_terminal boolean, period text, ahead integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT b.relation, b.state_column, u.log, a.log IS NOT NULL, u.keep, u.only_terminal,
        CASE WHEN pawl._owns(u.log) THEN u.period END, u.ahead
      FROM pawl.log_upkeep u
      LEFT JOIN pawl.audit_binding a ON a.audit = u.log
      JOIN pawl.binding b ON b.history = coalesce(a.log, u.log)
     WHERE (only_relation IS NULL OR b.relation = only_relation)
         AND (only_column IS NULL OR b.state_column = only_column)
       AND (pawl._owns(u.log) OR pawl._has_role('pawl_admin'))
     ORDER BY a.log IS NOT NULL, b.relation::oid, b.state_column
$function$;
COMMENT ON FUNCTION pawl.upkeep_of(regclass, name) IS
'Returns the declarations of pawl.keep_log and pawl.keep_audit that the caller can carry out, logs first.
only_relation: the table, null: all. only_column: its state column, null: all.
Returns relation, state_column, record (the log or audit), is_audit, keep (null: for ever), only_terminal, period
(null unless the caller owns the log) and ahead.
Errors: none. Privileges: all roles; shows logs and audits that the caller owns, and all to pawl_admin.
Example: SELECT record, keep FROM pawl.upkeep_of(NULL, NULL)';

CREATE FUNCTION pawl._tend(relation regclass, state_column name, is_audit boolean, keep interval, only_terminal boolean,
    period text, ahead integer, batch integer, OUT done bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    done := 0;
    more := false;
    IF is_audit THEN
        SELECT p.removed, p.more INTO done, more FROM pawl.prune_audit(relation, keep, batch, state_column) p;
        RETURN;
    END IF;
    IF period IS NOT NULL THEN
        done := pawl.extend_log(relation, period, ahead, state_column);
    END IF;
    IF keep IS NOT NULL THEN
        SELECT done + p.removed, p.more INTO done, more
            FROM pawl.prune_log(relation, keep, only_terminal, batch, state_column) p;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._tend(regclass, name, boolean, interval, boolean, text, integer, integer) IS
'internal: applies the declaration about one log or audit';

-- Each log by itself: an error of one is reported, and undoes nothing of the others.
CREATE FUNCTION pawl.tend_logs(relation regclass DEFAULT NULL, batch integer DEFAULT 10000,
    state_column name DEFAULT NULL, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    u record;
    one record;
    well integer := 0;
    failed text[] := '{}';  -- of each that failed: what, SQLSTATE, message, detail, hint, and how to try it by itself
    code text;
    message text;
    detail text;
    hint text;
BEGIN
    PERFORM pawl._check_retention(interval '0', batch);
    PERFORM pawl._check_isolation('pawl.tend_logs');
    done := 0;
    FOR u IN SELECT * FROM pawl.upkeep_of(tend_logs.relation, tend_logs.state_column) LOOP
        BEGIN
            SELECT t.done, t.more INTO one
              FROM pawl._tend(u.relation, u.state_column, u.is_audit, u.keep, u.only_terminal, u.period, u.ahead,
                  batch) t;
            well := well + 1;
            done := done + one.done;
            IF one.more THEN
                next_at := clock_timestamp();
            END IF;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                hint = PG_EXCEPTION_HINT;
            failed := failed || ARRAY[ARRAY[u.record::text, code, message, detail, hint,
                format('SELECT * FROM pawl.tend_logs(%L, state_column => %L);', u.relation, u.state_column)]];
        END;
    END LOOP;
    IF well = 0 AND failed <> '{}' THEN
        PERFORM pawl.raise(failed[1][2], failed[1][3], nullif(failed[1][4], ''), nullif(failed[1][5], ''));
    END IF;
    FOR n IN 1..coalesce(array_length(failed, 1), 0) LOOP
        RAISE WARNING USING ERRCODE = failed[n][2],
            MESSAGE = format('%s was not maintained: %s', failed[n][1], failed[n][3]),
            DETAIL = coalesce(nullif(failed[n][4], ''), format('SQLSTATE is %s.', failed[n][2])),
            HINT = coalesce(nullif(failed[n][5], ''), failed[n][6]);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.tend_logs(regclass, integer, name) IS
'Carries out what pawl.keep_log and pawl.keep_audit declare: creates partitions and removes old rows. Each log and
audit is a subtransaction; one that fails is reported as a warning, and the first error is raised if all fail. A
duty: call it periodically.
relation: the table; null (default): all whose logs or audits the caller owns, or for pruning all for pawl_admin.
batch: rows of each log or audit, 1 to 1000000; default 10000. state_column: null: all.
Returns done (removed rows and created partitions) and next_at (now if more rows are left, else null).
Errors: 25001 not READ COMMITTED; 22023 batch out of range; 22004 null; those of pawl.prune_log, pawl.prune_audit
and pawl.extend_log. Privileges: all roles.
Example: SELECT * FROM pawl.tend_logs()';
