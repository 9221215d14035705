-- Upkeep of logs and audits that somebody has asked for: how long what they hold is kept, and partitions of time to come. Nothing is pruned that
-- is not named here.

CREATE TABLE pawl.log_upkeep (
    log regclass NOT NULL PRIMARY KEY,
    keep interval CHECK (keep OPERATOR(pg_catalog.>=) '0'),
    only_terminal boolean NOT NULL DEFAULT true,
    period text COLLATE "C" CHECK (period OPERATOR(pg_catalog.=) ANY ('{hour,day,week,month,quarter,year}')),
    ahead integer NOT NULL DEFAULT 3 CHECK (ahead OPERATOR(pg_catalog.>=) 0 AND ahead OPERATOR(pg_catalog.<=) 1000),
    declared_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    declared_by text NOT NULL DEFAULT CURRENT_USER
);
COMMENT ON TABLE pawl.log_upkeep IS 'what pawl.tend_logs does for a log or an audit; written by pawl.keep_log and pawl.keep_audit, and deleted with it';
COMMENT ON COLUMN pawl.log_upkeep.log IS 'a log, or the audit of one';
COMMENT ON COLUMN pawl.log_upkeep.keep IS 'what is older is pruned; null: nothing is';
COMMENT ON COLUMN pawl.log_upkeep.only_terminal IS 'as pawl.prune_log has it; says nothing of an audit';
COMMENT ON COLUMN pawl.log_upkeep.period IS 'what time a partition of the log covers; null: no partitions are made';
COMMENT ON COLUMN pawl.log_upkeep.ahead IS 'of how many periods to come partitions are made';
SELECT pg_catalog.pg_extension_config_dump('pawl.log_upkeep', '');

-- Whoever may write this table still speaks only for logs of his own.
CREATE FUNCTION pawl._upkeep_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.log_upkeep');
    detail constant text := 'What is removed from the record is gone.';
    refusal constant text := 'must be owner of table %s, or a member of pawl_admin';
BEGIN
    PERFORM pawl._hear(OLD.log, '{pawl_admin}', refusal, detail);
    PERFORM pawl._hear(NEW.log, '{pawl_admin}', refusal, detail);
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    ELSIF pawl._has_role('pawl_restore') THEN  -- a restore keeps who declared it, and when
        RETURN NEW;
    END IF;
    NEW.declared_at := clock_timestamp();
    NEW.declared_by := current_user;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._upkeep_check() IS 'internal: who may say how long a log or an audit is kept';

CREATE TRIGGER owners_only BEFORE INSERT OR UPDATE OR DELETE ON pawl.log_upkeep
    FOR EACH ROW EXECUTE FUNCTION pawl._upkeep_check();

-- A declaration takes the place of the one before; one that asks for nothing ends it. SECURITY DEFINER because who may INSERT need not be
-- one who may DELETE; it runs after the check above.
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
COMMENT ON FUNCTION pawl._upkeep_replace() IS 'internal: what is declared of a log takes the place of what was, or ends it';

CREATE TRIGGER replace BEFORE INSERT ON pawl.log_upkeep FOR EACH ROW EXECUTE FUNCTION pawl._upkeep_replace();

CREATE FUNCTION pawl.keep_log(relation regclass, keep interval, only_terminal boolean DEFAULT true, period text DEFAULT NULL, ahead integer DEFAULT 3,
    state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._logged(relation, state_column);
BEGIN
    IF only_terminal IS NULL OR ahead IS NULL THEN
        PERFORM pawl.raise('22004', format('%s must not be null', CASE WHEN ahead IS NULL THEN 'ahead' ELSE 'only_terminal' END));
    END IF;
    IF keep < interval '0' THEN
        PERFORM pawl.raise('22023', 'keep must not be negative');
    END IF;
    IF ahead NOT BETWEEN 0 AND 1000 THEN
        PERFORM pawl.raise('22023', 'ahead must be from 0 to 1000');
    END IF;
    IF period IS NOT NULL THEN
        PERFORM pawl.extend_log(relation, period, ahead, state_column);
    END IF;
    INSERT INTO pawl.log_upkeep (log, keep, only_terminal, period, ahead) VALUES (bound.history, keep, only_terminal, period, ahead)
    ON CONFLICT DO NOTHING;  -- 40001 where the declaration before is too young to be seen
END
$function$;
COMMENT ON FUNCTION pawl.keep_log(regclass, interval, boolean, text, integer, name) IS
'declares how long entries of a log are kept (null: for ever) and which partitions of time it gets (period, ahead: as pawl.extend_log, which it calls at once); it takes the place of what was declared before, and with neither there is nothing declared any more. pawl.tend_logs, a duty of pawld, does what is declared. 42501: neither owner of the log nor pawl_admin; 22023: a negative age, an unknown period, ahead is not from 0 to 1000; 55000: the table keeps no log, or one that is not partitioned by time; 22004: ahead or only_terminal is null';

CREATE FUNCTION pawl.keep_audit(relation regclass, keep interval, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    a pawl.audit_binding := pawl._audited(pawl._logged(relation, state_column));
BEGIN
    IF keep < interval '0' THEN
        PERFORM pawl.raise('22023', 'keep must not be negative');
    END IF;
    INSERT INTO pawl.log_upkeep (log, keep) VALUES (a.audit, keep) ON CONFLICT DO NOTHING;
END
$function$;
COMMENT ON FUNCTION pawl.keep_audit(regclass, interval, name) IS
'declares how long the results in an audit are kept (null: for ever), apart from the log; it takes the place of what was declared before. pawl.tend_logs, a duty of pawld, does what is declared. 42501: neither owner of the audit nor pawl_admin; 22023: a negative age; 42704: the results are not audited; 55000: the table keeps no log';

-- What is declared and the caller may do, of one table or all: the logs first.
CREATE FUNCTION pawl.upkeep_of(only_relation regclass, only_column name)
RETURNS TABLE (relation regclass, state_column name, record regclass, is_audit boolean, keep interval, only_terminal boolean, period text, ahead integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT b.relation, b.state_column, u.log, a.log IS NOT NULL, u.keep, u.only_terminal, CASE WHEN pawl._owns(u.log) THEN u.period END, u.ahead
      FROM pawl.log_upkeep u
      LEFT JOIN pawl.audit_binding a ON a.audit = u.log
      JOIN pawl.binding b ON b.history = coalesce(a.log, u.log)
     WHERE (only_relation IS NULL OR b.relation = only_relation) AND (only_column IS NULL OR b.state_column = only_column)
       AND (pawl._owns(u.log) OR pawl._has_role('pawl_admin'))
     ORDER BY a.log IS NOT NULL, b.relation::oid, b.state_column
$function$;
COMMENT ON FUNCTION pawl.upkeep_of(regclass, name) IS
'internal: what pawl.tend_logs is to do for the caller; period is null where he does not own the log, for then he makes no partitions';

CREATE FUNCTION pawl._tend(relation regclass, state_column name, is_audit boolean, keep interval, only_terminal boolean, period text, ahead integer,
    batch integer, OUT done bigint, OUT more boolean)
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
        SELECT done + p.removed, p.more INTO done, more FROM pawl.prune_log(relation, keep, only_terminal, batch, state_column) p;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._tend(regclass, name, boolean, interval, boolean, text, integer, integer) IS 'internal: does what is declared of one log or audit';

-- Each log on its own: what one of them runs into is told, and undoes nothing of the others.
CREATE FUNCTION pawl.tend_logs(relation regclass DEFAULT NULL, batch integer DEFAULT 10000, state_column name DEFAULT NULL, OUT done bigint, OUT next_at timestamptz)
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
              FROM pawl._tend(u.relation, u.state_column, u.is_audit, u.keep, u.only_terminal, u.period, u.ahead, batch) t;
            well := well + 1;
            done := done + one.done;
            IF one.more THEN
                next_at := clock_timestamp();
            END IF;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            failed := failed || ARRAY[ARRAY[u.record::text, code, message, detail, hint,
                                            format('SELECT * FROM pawl.tend_logs(%L, state_column => %L);', u.relation, u.state_column)]];
        END;
    END LOOP;
    IF well = 0 AND failed <> '{}' THEN
        PERFORM pawl.raise(failed[1][2], failed[1][3], nullif(failed[1][4], ''), nullif(failed[1][5], ''));
    END IF;
    FOR n IN 1..coalesce(array_length(failed, 1), 0) LOOP
        RAISE WARNING USING ERRCODE = failed[n][2], MESSAGE = format('%s was not tended: %s', failed[n][1], failed[n][3]),
            DETAIL = coalesce(nullif(failed[n][4], ''), format('SQLSTATE is %s.', failed[n][2])), HINT = coalesce(nullif(failed[n][5], ''), failed[n][6]);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.tend_logs(regclass, integer, name) IS
'does what pawl.keep_log and pawl.keep_audit have declared, for one table or all whose logs and audits the caller owns (pruning also for pawl_admin): makes partitions of time to come, and removes what is older than it is to be kept, at most batch rows of a log or audit. Returns how many were removed and partitions made; next_at is now where there is more to prune, else null. Each log and audit is a subtransaction of its own: where one fails a warning with its SQLSTATE says so, and the others are done; where all fail the first error is raised. A duty; what is not declared it leaves alone. 25001: not READ COMMITTED; 22023: batch is not from 1 to 1000000; and what pawl.prune_log, pawl.prune_audit and pawl.extend_log raise';
