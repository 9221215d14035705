-- What follows from a state change of a record, however it was made, set-based, once a
-- statement: its work, the next step, the counters.

-- Sets the columns that a record stores about the state that it enters, where the statement does not.
CREATE FUNCTION pawl_bulk._record_entered() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
BEGIN
    CASE NEW.state
        WHEN 'Pending' THEN
            NEW.retry_attempt := OLD.retry_attempt + 1;
            NEW.tries := 0;
            NEW.error_type := NULL;
            NEW.error_message := NULL;
            NEW.completed_at := NULL;
            NEW.started_at := NULL;
        WHEN 'Running' THEN
            NEW.started_at := coalesce(NEW.started_at, clock_timestamp());
        WHEN 'WaitingForCompletion' THEN
            NEW.error_type := NULL;
            NEW.error_message := NULL;
            NEW.completed_at := NULL;
        ELSE
            NEW.completed_at := coalesce(NEW.completed_at, clock_timestamp());
            NEW.error_type := CASE WHEN NEW.state IN ('Completed', 'Cancelled') THEN NULL
                                   ELSE coalesce(NEW.error_type,
                                       CASE NEW.state WHEN 'TimedOut' THEN 'Timeout' ELSE 'StepFailure' END) END;
            NEW.error_message := CASE WHEN NEW.error_type IS NOT NULL THEN NEW.error_message END;
    END CASE;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._record_entered() IS
'internal: sets the columns of a record about the state that it enters';

-- A record begins when its work is claimed; only operators begin it by hand.
CREATE FUNCTION pawl_bulk._records_by_sql() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
    actor constant text := coalesce(current_setting('pawl.processor', true), '');
    now_at constant timestamptz := clock_timestamp();
    its record;
BEGIN
    SELECT n.row_number, n.step_index INTO its FROM new_records n
      JOIN old_records r ON r.operation = n.operation AND r.row_number = n.row_number AND r.step_index = n.step_index
     WHERE n.state = 'Running' AND r.state = 'Pending'
       AND NOT EXISTS (SELECT FROM pawl_bulk.work w
           WHERE w.operation = n.operation AND w.row_number = n.row_number AND w.step_index = n.step_index
               AND w.state = 'leased' AND w.worker = actor AND w.lease_until > now_at) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW004',
            format('row %s at step %s is not claimed by "%s"', its.row_number, its.step_index, actor),
            'It begins when its work is claimed.', 'select * from pawl_bulk.claim(...)');
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._records_by_sql() IS
'internal: rejects records that begin without their work; PW004';

CREATE FUNCTION pawl_bulk._signal_key(pattern text, step_index integer, row_number bigint, data jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    key text := replace(replace(coalesce(pattern, 's{step}-r{row}'), '{step}', step_index::text), '{row}',
        row_number::text);
    made text := '';
    piece text[];
BEGIN
    IF key !~ E'\\{data\\.' THEN
        RETURN CASE WHEN octet_length(key) <= 2000 THEN key END;
    END IF;
    -- piece by piece: what a field has in it is no placeholder
    FOR piece IN SELECT m FROM regexp_matches(key, E'([^{]+|\\{(?!data\\.[^}]*\\}))|\\{data\\.([^}]*)\\}', 'g') m LOOP
        made := made || coalesce(piece[1], nullif(data ->> piece[2], ''));
    END LOOP;
    RETURN CASE WHEN octet_length(made) <= 2000 THEN made END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._signal_key(text, integer, bigint, jsonb) IS
'internal: the signal key of a row at a step; null: a field is missing or empty, or the key exceeds 2000 bytes';

CREATE FUNCTION pawl_bulk._no_signal_key(pattern text, step_index integer, row_number bigint, data jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    missing text;
BEGIN
    IF pawl_bulk._signal_key(pattern, step_index, row_number, data) IS NOT NULL THEN
        RETURN 'its signal key belongs to another row';
    END IF;
    SELECT m[1] INTO missing FROM regexp_matches(pattern, E'\\{data\\.([^}]*)\\}', 'g') m
        WHERE coalesce(data ->> m[1], '') = '' LIMIT 1;
    RETURN CASE WHEN FOUND THEN format('it has no signal key: "%s" is missing', missing)
        ELSE 'its signal key is longer than 2000 bytes' END;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._no_signal_key(text, integer, bigint, jsonb) IS
'internal: why a record that waits for a signal has no key';

-- Rows that a SQL function begins with are one piece of work.
CREATE FUNCTION pawl_bulk._in_block(operation uuid, first_row bigint, last_row bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_sort = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    through bigint;
BEGIN
    -- locked, so that the block is not deleted before the session that works on it sees their records
    SELECT b.last_row INTO through FROM pawl_bulk.work b
     WHERE b.operation = _in_block.operation AND b.row_number <= first_row AND b.last_row IS NOT NULL
     ORDER BY b.row_number DESC LIMIT 1 FOR KEY SHARE;
    RETURN coalesce(through >= last_row, false);
END
$function$;
COMMENT ON FUNCTION pawl_bulk._in_block(uuid, bigint, bigint) IS
'internal: whether these rows are one block, or a part of it, which is locked until the transaction ends';

-- New records get their work, and the key by which they are signalled.
CREATE FUNCTION pawl_bulk._records_began() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER INSERT STATEMENT',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_bulk.records');
    one constant uuid := (SELECT n.operation FROM new_records n LIMIT 1);
    touched uuid[];
    blocks boolean;
    is_valid boolean;
    rejected record;
    span record;
BEGIN
    SELECT count(*) AS rows, bool_and(n.operation = one) AS one, min(n.row_number) AS first_row,
        max(n.row_number) AS last_row, min(n.step_index) AS first_step, max(n.step_index) AS last_step INTO span
      FROM new_records n;
    touched := CASE WHEN span.one THEN ARRAY[one] ELSE ARRAY(SELECT DISTINCT n.operation FROM new_records n) END;
    PERFORM pawl_bulk._hold(touched);
    SELECT n.operation, n.step_index, o.status INTO rejected
      FROM (SELECT one AS operation, span.last_step AS step_index WHERE span.one
            UNION ALL SELECT DISTINCT x.operation, x.step_index FROM new_records x WHERE span.one IS NOT TRUE) n
      LEFT JOIN pawl_bulk.operations o ON o.operation = n.operation
     WHERE o.status IS DISTINCT FROM 'Running' OR n.step_index > o.last_step LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW003',
            format('operation %s accepts no record of step %s', rejected.operation, rejected.step_index),
            CASE WHEN rejected.status IS NULL THEN 'There is no such operation.'
                 ELSE format('It is %s; records can be inserted while it is Running, for its steps.',
                     rejected.status) END);
    END IF;
    -- the usual case: rows without a gap, which are read in order and not looked up
    is_valid := span.one AND span.first_step = span.last_step
        AND span.last_row - span.first_row = span.rows - 1 AND span.rows = CASE span.last_step
            WHEN 0 THEN (SELECT count(*) FROM pawl_bulk.validations v WHERE v.operation = one
                AND v.row_number BETWEEN span.first_row AND span.last_row AND v.state = 'Completed')
            ELSE (SELECT count(*) FROM pawl_bulk.records r WHERE r.operation = one
                AND r.row_number BETWEEN span.first_row AND span.last_row AND r.step_index = span.last_step - 1
                AND r.state = 'Completed') END;
    SELECT n.operation, n.row_number, n.step_index INTO rejected FROM new_records n
     WHERE is_valid IS NOT TRUE AND CASE n.step_index WHEN 0 THEN NOT EXISTS (SELECT FROM pawl_bulk.validations v
         WHERE v.operation = n.operation AND v.row_number = n.row_number AND v.state = 'Completed')
           ELSE NOT EXISTS (SELECT FROM pawl_bulk.records r
         WHERE r.operation = n.operation AND r.row_number = n.row_number AND r.step_index = n.step_index - 1
             AND r.state = 'Completed') END LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('PW003', format('row %s of operation %s is not at step %s', rejected.row_number,
            rejected.operation, rejected.step_index),
            'A row starts when it is valid, and continues when the step before is Completed.');
    END IF;
    blocks := EXISTS (SELECT FROM pawl_bulk.work b WHERE b.operation = ANY (touched) AND b.last_row IS NOT NULL);
    IF blocks AND span.one AND span.last_step = 0 AND pawl_bulk._in_block(one, span.first_row, span.last_row) THEN
        RETURN NULL;
    END IF;
    INSERT INTO pawl_bulk.work (operation, row_number, step_index, queue, priority, run_timeout, held, due)
    SELECT n.operation, n.row_number, n.step_index, x.queue, x.priority, x.run_timeout, x.held,
    CASE WHEN x.held THEN 'infinity'::timestamptz END
      FROM (SELECT o.operation, s.step_index, s.queue, o.priority, s.run_timeout, o.paused_at IS NOT NULL AS held
              FROM pawl_bulk.operations o JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
             WHERE o.operation = ANY (touched) AND s.step_index BETWEEN span.first_step AND span.last_step OFFSET 0) x
      JOIN new_records n ON n.operation = x.operation AND n.step_index = x.step_index
     WHERE n.state = 'Pending'
         AND NOT (blocks AND n.step_index = 0 AND pawl_bulk._in_block(n.operation, n.row_number, n.row_number));
    IF EXISTS (SELECT FROM pawl_bulk.operations o
                 JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
                WHERE o.operation = ANY (touched) AND s.step_index BETWEEN span.first_step AND span.last_step
                  AND s.kind = 'signal') THEN
        -- made or locked in the order of the column, as senders of signals do, and not in that of the database
        INSERT INTO pawl_bulk.signal_keys AS k (operation, key, row_number, step_index)
        SELECT DISTINCT ON (1, 2) x.operation, x.key, x.row_number, x.step_index
          FROM (SELECT n.operation, pawl_bulk._signal_key(s.signal_key, n.step_index, n.row_number,
                       CASE WHEN s.signal_key ~ E'\\{data\\.' THEN pawl_bulk.row_data(n.operation, n.row_number) END)
                       COLLATE "C" AS key, n.row_number, n.step_index
                  FROM new_records n JOIN pawl_bulk.operations o ON o.operation = n.operation
                  JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
                      AND s.step_index = n.step_index
                 WHERE s.kind = 'signal' OFFSET 0) x
         WHERE x.key IS NOT NULL ORDER BY 1, 2, 3
        ON CONFLICT (operation, key) DO UPDATE SET row_number = excluded.row_number, step_index = excluded.step_index
        WHERE k.row_number IS NULL;
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._records_began() IS 'internal: the work and the signal keys of new records';
CREATE TRIGGER began AFTER INSERT ON pawl_bulk.records REFERENCING NEW TABLE AS new_records
    FOR EACH STATEMENT WHEN (NOT pawl.restoring()) EXECUTE FUNCTION pawl_bulk._records_began();
