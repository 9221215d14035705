-- Upkeep of logs that somebody has asked for: how long their entries are kept, and partitions of time to come. Nothing is pruned that is not named here.

CREATE TABLE pawl.log_upkeep (
    log regclass NOT NULL PRIMARY KEY,
    keep interval CHECK (keep OPERATOR(pg_catalog.>=) '0'),
    only_terminal boolean NOT NULL DEFAULT true,
    period text COLLATE "C" CHECK (period OPERATOR(pg_catalog.=) ANY ('{hour,day,week,month,quarter,year}')),
    ahead integer NOT NULL DEFAULT 3 CHECK (ahead OPERATOR(pg_catalog.>=) 0 AND ahead OPERATOR(pg_catalog.<=) 1000),
    declared_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    declared_by text NOT NULL DEFAULT CURRENT_USER
);
COMMENT ON TABLE pawl.log_upkeep IS 'what pawl.tend_logs does for a log; written by pawl.keep_log, and deleted with the log';
COMMENT ON COLUMN pawl.log_upkeep.keep IS 'entries that are older are pruned; null: none is';
COMMENT ON COLUMN pawl.log_upkeep.only_terminal IS 'as pawl.prune_log has it';
COMMENT ON COLUMN pawl.log_upkeep.period IS 'what time a partition of the log covers; null: no partitions are made';
COMMENT ON COLUMN pawl.log_upkeep.ahead IS 'of how many periods to come partitions are made';
SELECT pg_catalog.pg_extension_config_dump('pawl.log_upkeep', '');

-- Whoever may write this table still speaks only for logs of his own.
CREATE FUNCTION pawl._upkeep_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    log regclass;
BEGIN
    IF current_setting('is_superuser') = 'on' THEN  -- a restore may fill this table before pawl.binding
        RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    FOR log IN SELECT DISTINCT l FROM unnest(ARRAY[CASE WHEN TG_OP <> 'INSERT' THEN OLD.log END, CASE WHEN TG_OP <> 'DELETE' THEN NEW.log END]) l WHERE l IS NOT NULL LOOP
        IF NOT coalesce(pawl._owns(log), false) AND NOT pawl._is_admin() THEN
            PERFORM pawl._raise('42501', format('must be owner of table %s, or a member of pawl_admin', log), 'What is removed from the record is gone.');
        END IF;
    END LOOP;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    NEW.declared_at := clock_timestamp();
    NEW.declared_by := current_user;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._upkeep_check() IS 'internal: who may say how long a log is kept';

CREATE FUNCTION pawl._is_admin() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce((SELECT pg_has_role(current_user, r.oid, 'USAGE') FROM pg_roles r WHERE r.rolname = 'pawl_admin'), false)
$function$;
COMMENT ON FUNCTION pawl._is_admin() IS 'internal: whether the current user has the rights of pawl_admin';

CREATE TRIGGER owners_only BEFORE INSERT OR UPDATE OR DELETE ON pawl.log_upkeep
    FOR EACH ROW EXECUTE FUNCTION pawl._upkeep_check();

-- A declaration takes the place of the one before; one that asks for nothing ends it. SECURITY DEFINER because who may INSERT need not be
-- one who may DELETE; it runs after the check above.
CREATE FUNCTION pawl._upkeep_replace() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
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
        PERFORM pawl._raise('22004', format('%s must not be null', CASE WHEN ahead IS NULL THEN 'ahead' ELSE 'only_terminal' END));
    END IF;
    IF keep < interval '0' THEN
        PERFORM pawl._raise('22023', 'keep must not be negative');
    END IF;
    IF ahead NOT BETWEEN 0 AND 1000 THEN
        PERFORM pawl._raise('22023', 'ahead must be from 0 to 1000');
    END IF;
    IF period IS NOT NULL THEN
        PERFORM pawl.extend_log(relation, period, ahead, state_column);
    END IF;
    INSERT INTO pawl.log_upkeep (log, keep, only_terminal, period, ahead) VALUES (bound.history, keep, only_terminal, period, ahead);
END
$function$;
COMMENT ON FUNCTION pawl.keep_log(regclass, interval, boolean, text, integer, name) IS
'declares how long entries of a log are kept (null: for ever) and which partitions of time it gets (period, ahead: as pawl.extend_log, which it calls at once); it takes the place of what was declared before, and with neither there is nothing declared any more. pawl.tend_logs, a duty of pawld, does what is declared. 42501: neither owner of the log nor pawl_admin; 22023: a negative age, an unknown period, ahead is not from 0 to 1000; 55000: the table keeps no log, or one that is not partitioned by time; 22004: ahead or only_terminal is null';

CREATE FUNCTION pawl.tend_logs(relation regclass DEFAULT NULL, batch integer DEFAULT 10000, state_column name DEFAULT NULL, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    u record;
    pruned record;
BEGIN
    PERFORM pawl._check_retention(interval '0', batch);
    PERFORM pawl._check_isolation('pawl.tend_logs');
    done := 0;
    FOR u IN
        SELECT b.relation, b.state_column, x.keep, x.only_terminal, x.period, x.ahead, pawl._owns(x.log) AS ours
          FROM pawl.log_upkeep x JOIN pawl.binding b ON b.history = x.log
         WHERE (tend_logs.relation IS NULL OR b.relation = tend_logs.relation) AND (tend_logs.state_column IS NULL OR b.state_column = tend_logs.state_column)
           AND (pawl._owns(x.log) OR pawl._is_admin())
         ORDER BY x.log::oid
    LOOP
        IF u.period IS NOT NULL AND u.ours THEN
            done := done + pawl.extend_log(u.relation, u.period, u.ahead, u.state_column);
        END IF;
        IF u.keep IS NOT NULL THEN
            SELECT p.removed, p.more INTO pruned FROM pawl.prune_log(u.relation, u.keep, u.only_terminal, batch, u.state_column) p;
            done := done + pruned.removed;
            IF pruned.more THEN
                next_at := clock_timestamp();
            END IF;
        END IF;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.tend_logs(regclass, integer, name) IS
'does what pawl.keep_log has declared, for one table or all whose logs the caller owns (pruning also for pawl_admin): makes partitions of time to come, and removes what is older than it is to be kept, at most batch entries of a log. Returns how many entries were removed and partitions made; next_at is now where there is more to prune, else null. A duty; what is not declared it leaves alone. 25001: not READ COMMITTED; 22023: batch is not from 1 to 1000000; and what pawl.prune_log and pawl.extend_log raise';
