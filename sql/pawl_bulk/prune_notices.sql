-- How long notices are kept that are delivered or given up.

CREATE FUNCTION pawl_bulk.keep_notices(keep interval) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    INSERT INTO pawl_bulk.upkeep AS u (keep_notices) VALUES (keep) ON CONFLICT (one) DO UPDATE SET keep_notices = excluded.keep_notices
$function$;
COMMENT ON FUNCTION pawl_bulk.keep_notices(interval) IS 'declares for how long notices are kept that are delivered or given up; null: for ever. 30 days where nobody has said anything';

-- What goes is what an admin has declared, whoever calls it.
CREATE FUNCTION pawl_bulk.prune_notices(batch integer DEFAULT 1000, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    keep interval := '30 days';
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 100000 THEN
        PERFORM pawl._raise('22023', 'batch must be from 1 to 100000');
    END IF;
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
