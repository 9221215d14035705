-- The job board: flows that are posted by one program, and run once by another.

CREATE TABLE pawl_saga.jobs (
    job_uuid uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    board text COLLATE "C" NOT NULL DEFAULT 'default',
    name text COLLATE "C" NOT NULL CHECK (name OPERATOR(pg_catalog.<>) ''),
    state text COLLATE "C" NOT NULL DEFAULT 'UNCLAIMED',
    priority integer NOT NULL DEFAULT 50,
    flow text COLLATE "C",
    inputs jsonb NOT NULL DEFAULT '{}',
    details jsonb NOT NULL DEFAULT '{}',
    flow_uuid uuid,
    -- maintained by pawl
    owner text,
    lease_until timestamptz,
    token bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 20 CHECK (max_attempts OPERATOR(pg_catalog.>=) 1),
    due_at timestamptz,
    session_lock integer,
    trashed_at timestamptz,
    trashed_for text,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    modified_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) WITH (fillfactor = 70);
COMMENT ON TABLE pawl_saga.jobs IS 'jobs: high priority first, then the oldest';
COMMENT ON COLUMN pawl_saga.jobs.flow IS 'the name of the definition that a conductor starts';
COMMENT ON COLUMN pawl_saga.jobs.flow_uuid IS 'the flow that was started for it';
COMMENT ON COLUMN pawl_saga.jobs.due_at IS 'infinity: it cannot be claimed (trashed); a time: not before';
COMMENT ON COLUMN pawl_saga.jobs.max_attempts IS 'a job that was taken so often and given up again is trashed';
COMMENT ON COLUMN pawl_saga.jobs.session_lock IS
'the number of the lock that the owner''s session holds as long as it lives; null: the claim has '
'its lease alone';
CREATE INDEX jobs_tied ON pawl_saga.jobs (session_lock) WHERE session_lock IS NOT NULL;
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.jobs', '');

-- @diagram pawl_saga.job job.mmd
SELECT pawl.enforce('pawl_saga.jobs', 'state', 'pawl_saga.job');
SELECT pawl.enable_log('pawl_saga.jobs', log_name => 'job_transitions');
SELECT pawl.enable_queue('pawl_saga.jobs', owner => 'owner', lease => 'lease_until', token => 'token',
    attempts => 'attempts', queue => 'board');
SELECT pawl.enable_timers('pawl_saga.jobs', due => 'due_at');
SELECT pawl.set_claiming('pawl_saga.jobs', claim => ARRAY['claim'], claim_order => 'priority desc, created_at',
    lease_time => '60 s', on_expiry => 'lost');
SELECT pawl.enable_events('pawl_saga.jobs', wake => true);
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.job_transitions_log', '');

CREATE FUNCTION pawl_saga._job_entered() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.jobs');
BEGIN
    NEW.modified_at := clock_timestamp();
    IF NEW.state <> 'CLAIMED' THEN
        NEW.session_lock := NULL;
    END IF;
    IF NEW.state = 'UNCLAIMED' AND NEW.attempts >= NEW.max_attempts AND NEW.trashed_at IS NULL THEN
        NEW.trashed_at := NEW.modified_at;
        NEW.trashed_for := 'abandoned too often';
        NEW.due_at := 'infinity';
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_saga._job_entered() IS
'internal: what a job remembers of the state it enters; one that was abandoned too often is trashed';
CREATE TRIGGER entered BEFORE UPDATE OF state ON pawl_saga.jobs
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION pawl_saga._job_entered();

-- Columns that only the owner of a job changes.
CREATE FUNCTION pawl_saga._job_kept() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.jobs');
BEGIN
    IF (OLD.state = 'CLAIMED' AND OLD.owner = current_setting('pawl.processor', true)) IS NOT TRUE
        AND NOT pg_has_role('pawl_operator', 'MEMBER') THEN
        PERFORM pawl.raise('42501', format('permission denied to change job "%s"', OLD.name),
            format('It is %s: only its owner can change it.', OLD.state), 'select pawl_saga.claim_job(...)');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_saga._job_kept() IS 'internal: keeps jobs as they are but for their owner; 42501';
CREATE TRIGGER kept BEFORE UPDATE OF flow_uuid, session_lock, due_at, trashed_at, trashed_for ON pawl_saga.jobs
    FOR EACH ROW WHEN ((OLD.flow_uuid IS DISTINCT FROM NEW.flow_uuid
        OR OLD.session_lock IS DISTINCT FROM NEW.session_lock OR OLD.due_at IS DISTINCT FROM NEW.due_at
                            OR OLD.trashed_at IS DISTINCT FROM NEW.trashed_at
                            OR OLD.trashed_for IS DISTINCT FROM NEW.trashed_for))
    EXECUTE FUNCTION pawl_saga._job_kept();

CREATE FUNCTION pawl_saga.post(name text, flow text DEFAULT NULL, inputs jsonb DEFAULT '{}', details jsonb DEFAULT '{}',
    priority text DEFAULT 'NORMAL', board text DEFAULT 'default')
RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    made uuid := pawl.uuid_v7();
    weight integer := CASE priority WHEN 'VERY_HIGH' THEN 100 WHEN 'HIGH' THEN 75 WHEN 'NORMAL' THEN 50
        WHEN 'LOW' THEN 25 WHEN 'VERY_LOW' THEN 0 END;
BEGIN
    IF weight IS NULL THEN
        PERFORM pawl.raise('22023', format('unknown priority "%s"', priority), NULL,
            'VERY_HIGH, HIGH, NORMAL, LOW, VERY_LOW');
    END IF;
    PERFORM pawl_saga._check_name(name, 'name'), pawl_saga._check_name(board, 'board');
    IF flow IS NOT NULL AND jsonb_typeof(inputs) <> 'object' THEN
        PERFORM pawl.raise('22023', 'inputs must be a JSON object', format('It is of type %s.', jsonb_typeof(inputs)),
            'inputs => ''{"name": "value"}''');
    END IF;
    INSERT INTO pawl_saga.jobs (job_uuid, name, flow, inputs, details, priority, board)
    VALUES (made, post.name, post.flow, coalesce(post.inputs, '{}'), coalesce(post.details, '{}'), weight, post.board);
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_saga.post(text, text, jsonb, jsonb, text, text) IS
'Posts a job and returns its id.
name: a text. flow: the name of the definition that a conductor starts; default null. inputs: of the flow; default
{}. details: a JSON value for the owner; default {}. priority: VERY_HIGH, HIGH, NORMAL (default), LOW or VERY_LOW.
board: the queue; default "default".
Errors: 22023 unknown priority, inputs of a flow that are no object, or a name or board that is empty or has more than
1000 bytes; 22004 name or board is null. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.post(''trip of Ada'', ''trip'', ''{"to": "Rome"}'')';

-- An owned job, locked. P0002: no such job, or it has no owner; PW004: another owner.
CREATE FUNCTION pawl_saga._owned_job(job uuid, processor text) RETURNS pawl_saga.jobs
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    j pawl_saga.jobs;
BEGIN
    SELECT x.* INTO j FROM pawl_saga.jobs x WHERE x.job_uuid = job FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002', format('there is no job %s', job));
    ELSIF j.owner IS NULL THEN
        PERFORM pawl.raise('P0002', format('job "%s" has no owner', j.name), format('Job %s is %s.', job, j.state));
    ELSIF j.owner IS DISTINCT FROM _owned_job.processor THEN
        PERFORM pawl.raise('PW004', format('job "%s" belongs to another owner', j.name),
            format('Job %s: its owner is "%s".', job, j.owner));
    END IF;
    PERFORM set_config('pawl.processor', processor, true);
    RETURN j;
END
$function$;
COMMENT ON FUNCTION pawl_saga._owned_job(uuid, text) IS 'internal: a job of an owner, locked; P0002, PW004';

CREATE FUNCTION pawl_saga.claim_job(job uuid, processor text, lease interval DEFAULT '60 s') RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    j pawl_saga.jobs;
BEGIN
    PERFORM pawl.check_lease(lease);
    IF lease IS NULL THEN
        PERFORM pawl.raise('22004', 'lease must not be null', NULL, 'lease => ''60 s''');
    ELSIF coalesce(processor, '') = '' THEN
        PERFORM pawl.raise('PW004', 'no processor given', NULL, 'processor => ''...''');
    END IF;
    PERFORM pawl_saga._check_name(processor, 'processor');
    SELECT x.* INTO j FROM pawl_saga.jobs x WHERE x.job_uuid = job FOR NO KEY UPDATE;
    IF NOT FOUND OR j.state = 'COMPLETE' OR j.trashed_at IS NOT NULL THEN
        PERFORM pawl.raise('P0002', format('there is no job %s to claim', job));
    ELSIF j.state = 'CLAIMED' THEN
        PERFORM pawl.raise('55000', format('job "%s" is already claimed', j.name),
            format('Job %s: its owner is "%s".', job, j.owner));
    ELSIF pawl_saga._is_paused('pawl_saga.jobs', j.board) THEN
        PERFORM pawl.raise('55000', format('board "%s" is paused', j.board), format('Job %s is not claimed.', job),
            format('select pawl.resume(''pawl_saga.jobs'', %L)', j.board));
    END IF;
    UPDATE pawl_saga.jobs x SET state = 'CLAIMED', owner = processor, lease_until = clock_timestamp() + lease
        WHERE x.job_uuid = job RETURNING x.token INTO j.token;
    RETURN j.token;
END
$function$;
COMMENT ON FUNCTION pawl_saga.claim_job(uuid, text, interval) IS
'Claims a job and returns its fencing token. pawl.claim(null::pawl_saga.jobs, ...) claims the next jobs of a board,
pawl.heartbeat extends leases.
job: its id. processor: its owner. lease: default 60 s.
Errors: 55000 already claimed, or its board is paused; P0002 no such job, or it has ended; PW004 no processor given;
22004 lease is null; 22023 lease out of range, or a processor of more than 1000 bytes. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT pawl_saga.claim_job(j.job_uuid, ''conductor 1'') FROM pawl_saga.jobs j WHERE j.name =
''trip of Ada''';

CREATE FUNCTION pawl_saga.abandon_job(job uuid, processor text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = 'abandon'
SET pawl.token = ''
SET pawl.processor = ''
AS $function$
DECLARE
    j pawl_saga.jobs := pawl_saga._owned_job(job, processor);
BEGIN
    UPDATE pawl_saga.jobs x SET state = 'UNCLAIMED' WHERE x.job_uuid = j.job_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_saga.abandon_job(uuid, text) IS
'Returns a job to its board; a job that was abandoned max_attempts times is trashed. job: its id. processor: its
owner.
Errors: P0002 no such job, or it has no owner; PW004 another owner; PW005 the lease has expired. Privileges:
pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.abandon_job(j.job_uuid, ''conductor 1'') FROM pawl_saga.jobs j WHERE j.owner =
''conductor 1''';

CREATE FUNCTION pawl_saga.consume_job(job uuid, processor text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = 'complete'
SET pawl.token = ''
SET pawl.processor = ''
AS $function$
DECLARE
    j pawl_saga.jobs := pawl_saga._owned_job(job, processor);
BEGIN
    UPDATE pawl_saga.jobs x SET state = 'COMPLETE' WHERE x.job_uuid = j.job_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_saga.consume_job(uuid, text) IS
'Completes a job. job: its id. processor: its owner.
Errors: P0002 no such job, or it has no owner; PW004 another owner; PW005 the lease has expired. Privileges:
pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.consume_job(j.job_uuid, ''conductor 1'') FROM pawl_saga.jobs j WHERE j.owner =
''conductor 1''';

CREATE FUNCTION pawl_saga.trash_job(job uuid, processor text, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = 'abandon'
SET pawl.token = ''
SET pawl.processor = ''
AS $function$
DECLARE
    j pawl_saga.jobs := pawl_saga._owned_job(job, processor);
BEGIN
    UPDATE pawl_saga.jobs x SET state = 'UNCLAIMED', trashed_at = clock_timestamp(), trashed_for = reason,
        due_at = 'infinity' WHERE x.job_uuid = j.job_uuid;
END
$function$;
COMMENT ON FUNCTION pawl_saga.trash_job(uuid, text, text) IS
'Removes a job from its board and keeps it. job: its id. processor: its owner. reason: a text; default null.
Errors: P0002 no such job, or it has no owner; PW004 another owner; PW005 the lease has expired. Privileges:
pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl_saga.trash_job(j.job_uuid, ''conductor 1'', ''no such city'') FROM pawl_saga.jobs j WHERE
j.owner = ''conductor 1''';
