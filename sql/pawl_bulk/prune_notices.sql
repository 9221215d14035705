-- How long notices are kept that are delivered or given up.

CREATE FUNCTION pawl_bulk.keep_notices(keep interval) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF keep NOT BETWEEN interval '0' AND interval '1000 years' THEN
        PERFORM pawl.raise('22023', 'keep must be from 0 to 1000 years', format('It is %s.', keep), 'keep => ''30 days'', or null for ever');
    END IF;
    INSERT INTO pawl_bulk.upkeep AS u (keep_notices) VALUES (keep) ON CONFLICT (one) DO UPDATE SET keep_notices = excluded.keep_notices;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.keep_notices(interval) IS 'declares for how long notices are kept that are delivered or given up; null: for ever. 30 days where nothing was declared. 22023: keep is from 0 to 1000 years';

-- What goes is what an admin has declared, whoever calls it.
CREATE FUNCTION pawl_bulk.prune_notices(batch integer DEFAULT 1000, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    keep interval := '30 days';
BEGIN
    PERFORM pawl.check_batch(batch, 100000);
    SELECT u.keep_notices INTO keep FROM pawl_bulk.upkeep u;
    IF NOT FOUND THEN
        keep := '30 days';
    END IF;
    DELETE FROM pawl_bulk.notices n
     WHERE (n.operation, n.notice) IN (SELECT x.operation, x.notice FROM pawl_bulk.notices x WHERE x.ended_at < clock_timestamp() - keep ORDER BY x.ended_at LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS done = ROW_COUNT;
    next_at := clock_timestamp() + interval '1 hour';
END
$function$;
COMMENT ON FUNCTION pawl_bulk.prune_notices(integer) IS 'a duty: deletes at most batch notices that were delivered or given up longer ago than pawl_bulk.keep_notices has declared (30 days). 22023: batch is from 1 to 100000';
