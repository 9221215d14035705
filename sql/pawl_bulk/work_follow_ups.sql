-- What follows when work is claimed, lost or returned.

CREATE FUNCTION pawl_bulk._work_taken() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.work');
BEGIN
    IF NEW.state = 'lost' THEN
        NEW.takeovers := NEW.takeovers + 1;
    ELSE
        NEW.deadline_at := clock_timestamp() + NEW.run_timeout;
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._work_taken() IS
'internal: counts lost workers, sets the run limit when an attempt begins';

CREATE FUNCTION pawl_bulk._work_moved() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.work');
    one constant uuid := (SELECT n.operation FROM new_work n LIMIT 1);
    begun record;
    now_at timestamptz;
BEGIN
    SELECT count(*) AS rows, bool_and(n.operation = one) AS one, min(n.row_number) AS first_row,
        max(n.row_number) AS last_row, min(n.step_index) AS first_step, max(n.step_index) AS last_step
      INTO begun FROM new_work n WHERE n.state = 'leased' AND n.kind = 'start';
    now_at := clock_timestamp();
    IF begun.one AND begun.first_step = begun.last_step AND begun.last_row - begun.first_row < 2 * begun.rows
            AND begun.rows <= 100000 THEN
        -- neighbouring rows are read in order instead of one by one, as many as surely fit into a hash table
        UPDATE pawl_bulk.records r SET state = 'Running', started_at = now_at
         WHERE r.operation = one AND r.row_number BETWEEN begun.first_row AND begun.last_row
           AND r.step_index = begun.first_step AND r.state = 'Pending'
           AND (r.row_number IN (SELECT n.row_number FROM new_work n
                                  WHERE n.state = 'leased' AND n.kind = 'start')) IS TRUE;
    ELSIF begun.rows > 0 THEN
        UPDATE pawl_bulk.records r SET state = 'Running', started_at = now_at FROM new_work n
         WHERE n.state = 'leased' AND n.kind = 'start'
           AND r.operation = n.operation AND r.row_number = n.row_number AND r.step_index = n.step_index
           AND r.state = 'Pending';
    END IF;
    IF EXISTS (SELECT FROM new_work n WHERE n.state = 'lost') THEN
        -- one bad row must not crash workers forever
        UPDATE pawl_bulk.records r
           SET state = 'Failed', error_type = 'StepFailure',
           error_message = format('%s workers were lost', n.takeovers), completed_at = clock_timestamp()
          FROM new_work n JOIN pawl_bulk.operations o ON o.operation = n.operation
          JOIN pawl_bulk.definitions d ON d.name = o.definition AND d.version = o.version
         WHERE n.state = 'lost' AND n.takeovers > d.max_takeovers
           AND r.operation = n.operation AND r.row_number = n.row_number AND r.step_index = n.step_index
           AND r.state IN ('Running', 'WaitingForCompletion');
    END IF;
    IF EXISTS (SELECT FROM new_work n WHERE n.state IN ('ready', 'lost') AND n.kind = 'start' AND NOT n.held) THEN
        -- a session that pauses finds work that was ready before, but not what only becomes so
        IF EXISTS (SELECT FROM old_work w WHERE w.state = 'leased') THEN
            PERFORM pawl_bulk._hold_pauses(ARRAY(SELECT DISTINCT n.operation FROM new_work n
                WHERE n.state IN ('ready', 'lost') AND n.kind = 'start' AND NOT n.held));
        END IF;
        UPDATE pawl_bulk.work w SET held = true, held_due = w.due, due = 'infinity'
          FROM new_work n JOIN pawl_bulk.operations o ON o.operation = n.operation
         WHERE o.paused_at IS NOT NULL AND n.kind = 'start' AND NOT n.held
           AND w.operation = n.operation AND w.row_number = n.row_number AND w.step_index = n.step_index
           AND w.state IN ('ready', 'lost') AND NOT w.held;
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._work_moved() IS
'internal: starts records of claimed work, fails those that lost too many workers, holds those of paused operations';
CREATE TRIGGER moved AFTER UPDATE ON pawl_bulk.work REFERENCING OLD TABLE AS old_work NEW TABLE AS new_work
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_bulk._work_moved();
