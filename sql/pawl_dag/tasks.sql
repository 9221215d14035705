-- Tasks and their steps. Every key begins with the task, so that a task with all its rows can be on any shard.

-- A point of priority is worth ten hours of waiting. All tasks age alike, so the order of two never changes, and the
-- rank need not be updated.
CREATE FUNCTION pawl_dag._rank(priority integer, since timestamptz) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN priority OPERATOR(pg_catalog.-) (pg_catalog.date_part('epoch',
    since OPERATOR(pg_catalog.-) '2020-01-01 00:00:00+00'::timestamptz) OPERATOR(pg_catalog./) 36000);
COMMENT ON FUNCTION pawl_dag._rank(integer, timestamptz) IS
'internal: where in the queue something of a priority stands that waits since then; the highest is first';

-- Tasks and steps have no CHECK constraints, which each statement that writes a row reads from text: triggers check
-- what is inserted, and the columns that an UPDATE names (by_sql.sql).
CREATE TABLE pawl_dag.tasks (
    task_uuid uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    template_uuid uuid NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'pending',
    priority integer NOT NULL DEFAULT 0,
    rank double precision NOT NULL,
    context jsonb NOT NULL DEFAULT '{}',
    identity_key text COLLATE "C" NOT NULL,
    correlation_id uuid NOT NULL DEFAULT pawl.uuid_v7(),
    parent_correlation_id uuid,
    -- the trace in which it began; its steps go on with it
    traceparent text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.traceparent', true), ''),
    tracestate text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.tracestate', true), ''),
    failure_policy text NOT NULL DEFAULT 'block',
    -- maintained by pawl
    processor_uuid uuid,
    lease_until timestamptz,
    token bigint NOT NULL DEFAULT 0,
    -- Steps by what can happen to them; kept by the triggers on steps.
    steps_total integer NOT NULL DEFAULT 0,
    steps_blocked integer NOT NULL DEFAULT 0,
    steps_ready integer NOT NULL DEFAULT 0,
    steps_in_flight integer NOT NULL DEFAULT 0,
    steps_waiting integer NOT NULL DEFAULT 0,
    steps_failed integer NOT NULL DEFAULT 0,
    steps_satisfied integer NOT NULL DEFAULT 0,
    steps_cancelled integer NOT NULL DEFAULT 0,
    evaluate boolean NOT NULL DEFAULT true,
    error jsonb,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    deadline_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) '24 hours'::interval,
    entered_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    stale_after interval NOT NULL DEFAULT '30 minutes',
    watch_at timestamptz,
    completed_at timestamptz,
    UNIQUE (namespace, name, identity_key)
) WITH (fillfactor = 30);
COMMENT ON TABLE pawl_dag.tasks IS 'runs of workflows';
COMMENT ON COLUMN pawl_dag.tasks.processor_uuid IS 'the processor that owns the task, in the four owned states';
COMMENT ON COLUMN pawl_dag.tasks.steps_blocked IS 'pending, a parent is not satisfied';
COMMENT ON COLUMN pawl_dag.tasks.steps_ready IS 'pending, all parents are satisfied';
COMMENT ON COLUMN pawl_dag.tasks.steps_in_flight IS 'enqueued, in_progress, or with a result that waits to be read';
COMMENT ON COLUMN pawl_dag.tasks.steps_waiting IS 'waiting_for_retry';
COMMENT ON COLUMN pawl_dag.tasks.steps_failed IS 'error, and not optional';
COMMENT ON COLUMN pawl_dag.tasks.steps_satisfied IS 'complete, resolved_manually, or an optional step in error';
COMMENT ON COLUMN pawl_dag.tasks.evaluate IS 'something happened since the task was looked at';
COMMENT ON COLUMN pawl_dag.tasks.rank IS
'place in the queue, the highest first: the priority, less a tenth for each hour that the task was created later';
COMMENT ON COLUMN pawl_dag.tasks.entered_at IS 'when the task entered its state';
COMMENT ON COLUMN pawl_dag.tasks.stale_after IS
'the shortest time in a state after which the template calls a task stale';
COMMENT ON COLUMN pawl_dag.tasks.watch_at IS
'pawl_dag.time_out_tasks looks at the task at this time; it cannot be stale earlier';

-- No index names what changes from state to state (state, entered_at), not in a condition either: so the state changes
-- of a task that is under way touch no index, and find room on the page of its row.
CREATE INDEX tasks_to_evaluate ON pawl_dag.tasks (rank DESC, task_uuid) WHERE evaluate;
CREATE INDEX tasks_watched ON pawl_dag.tasks (watch_at) WHERE watch_at IS NOT NULL;
CREATE INDEX tasks_correlation ON pawl_dag.tasks (correlation_id);
CREATE INDEX tasks_parent_correlation ON pawl_dag.tasks (parent_correlation_id) WHERE parent_correlation_id IS NOT NULL;

CREATE TABLE pawl_dag.steps (
    task_uuid uuid NOT NULL REFERENCES pawl_dag.tasks ON DELETE CASCADE,
    step_uuid uuid NOT NULL DEFAULT pawl.uuid_v7(),
    name text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'pending',
    namespace text COLLATE "C" NOT NULL,
    priority integer NOT NULL DEFAULT 0,
    rank double precision NOT NULL,
    handler text NOT NULL,
    handler_options jsonb NOT NULL DEFAULT '{}',
    map_of text COLLATE "C",
    map_index integer,
    level integer NOT NULL DEFAULT 0,
    total_parents integer NOT NULL DEFAULT 0,
    unsatisfied_parents integer NOT NULL DEFAULT 0,
    optional boolean NOT NULL DEFAULT false,
    retryable boolean NOT NULL DEFAULT true,
    permanent boolean NOT NULL DEFAULT false,
    max_attempts integer NOT NULL DEFAULT 3,
    backoff jsonb,
    backoff_request interval,
    timeout interval,
    -- the trace of its task
    traceparent text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.traceparent', true), ''),
    tracestate text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.tracestate', true), ''),
    -- maintained by pawl
    worker_uuid uuid,
    lease_until timestamptz,
    token bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    next_retry_at timestamptz,
    result jsonb,
    error jsonb,
    last_attempted_at timestamptz,
    last_failure_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (task_uuid, step_uuid)
) WITH (fillfactor = 70);
COMMENT ON TABLE pawl_dag.steps IS 'the steps of tasks';
COMMENT ON COLUMN pawl_dag.steps.namespace IS
'the queue that workers claim the step from: the namespace; ''sql:'' where the handler is a SQL function';
COMMENT ON COLUMN pawl_dag.steps.map_of IS
'the mapped step of the template that this is one of; its element is in handler_options, as "item" and "index"';
COMMENT ON COLUMN pawl_dag.steps.map_index IS 'which element, from 0';
COMMENT ON COLUMN pawl_dag.steps.rank IS
'place in the queue, the highest first: by the step''s priority and the age of its task';
COMMENT ON COLUMN pawl_dag.steps.unsatisfied_parents IS
'parents that are neither complete nor resolved_manually; kept by triggers';
COMMENT ON COLUMN pawl_dag.steps.permanent IS 'the worker called the last error one that no retry mends';
COMMENT ON COLUMN pawl_dag.steps.backoff_request IS
'the wait that the worker asked for with the last error (Retry-After)';
COMMENT ON COLUMN pawl_dag.steps.optional IS 'an error satisfies those who wait for the step';

CREATE INDEX steps_results ON pawl_dag.steps (task_uuid)
    WHERE state OPERATOR(pg_catalog.=) 'enqueued_for_orchestration'
        OR state OPERATOR(pg_catalog.=) 'enqueued_as_error_for_orchestration';

CREATE FUNCTION pawl_dag._ranked() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_dag.tasks', 'pawl_dag.steps');
BEGIN
    IF TG_TABLE_NAME = 'tasks' THEN
        NEW.rank := pawl_dag._rank(NEW.priority, NEW.created_at);
    ELSE
        NEW.rank := pawl_dag._rank(NEW.priority,
            coalesce((SELECT t.created_at FROM pawl_dag.tasks t WHERE t.task_uuid = NEW.task_uuid), NEW.created_at));
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl_dag._ranked() IS 'internal: ranks tasks and steps that are written by hand';
CREATE TRIGGER ranked BEFORE INSERT ON pawl_dag.tasks
    FOR EACH ROW WHEN (NEW.rank IS NULL) EXECUTE FUNCTION pawl_dag._ranked();
CREATE TRIGGER ranked BEFORE INSERT ON pawl_dag.steps
    FOR EACH ROW WHEN (NEW.rank IS NULL) EXECUTE FUNCTION pawl_dag._ranked();
CREATE TRIGGER ranked_again BEFORE UPDATE OF priority ON pawl_dag.tasks
    FOR EACH ROW WHEN (OLD.priority IS DISTINCT FROM NEW.priority) EXECUTE FUNCTION pawl_dag._ranked();
CREATE TRIGGER ranked_again BEFORE UPDATE OF priority ON pawl_dag.steps
    FOR EACH ROW WHEN (OLD.priority IS DISTINCT FROM NEW.priority) EXECUTE FUNCTION pawl_dag._ranked();

CREATE TABLE pawl_dag.edges (
    task_uuid uuid NOT NULL,
    parent_uuid uuid NOT NULL,
    child_uuid uuid NOT NULL,
    PRIMARY KEY (task_uuid, parent_uuid, child_uuid),
    FOREIGN KEY (task_uuid, parent_uuid) REFERENCES pawl_dag.steps ON DELETE CASCADE,
    FOREIGN KEY (task_uuid, child_uuid) REFERENCES pawl_dag.steps ON DELETE CASCADE,
    CHECK (parent_uuid OPERATOR(pg_catalog.<>) child_uuid)
);
COMMENT ON TABLE pawl_dag.edges IS 'which step of a task waits for which';
-- The child first: so that nothing else than children is looked up in it, also without statistics.
CREATE INDEX edges_of_child ON pawl_dag.edges (child_uuid, task_uuid);

SELECT pg_catalog.pg_extension_config_dump('pawl_dag.namespaces', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.templates', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.template_steps', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.template_edges', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.tasks', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.steps', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.edges', '');
