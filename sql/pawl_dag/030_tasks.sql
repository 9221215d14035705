-- Tasks and their steps. Every key begins with the task, so that a task can live on any shard, whole.

CREATE TABLE pawl_dag.tasks (
    task_uuid uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    template_uuid uuid NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'pending',
    priority integer NOT NULL DEFAULT 0,
    context jsonb NOT NULL DEFAULT '{}',
    identity_key text COLLATE "C" NOT NULL,
    correlation_id uuid NOT NULL DEFAULT pawl.uuid_v7(),
    parent_correlation_id uuid,
    failure_policy text NOT NULL DEFAULT 'block',
    -- kept by pawl
    processor_uuid uuid,
    lease_until timestamptz,
    fence bigint NOT NULL DEFAULT 0,
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
    completed_at timestamptz,
    UNIQUE (namespace, name, identity_key)
) WITH (fillfactor = 70);
COMMENT ON TABLE pawl_dag.tasks IS 'runs of workflows';
COMMENT ON COLUMN pawl_dag.tasks.processor_uuid IS 'who drives the task, in the four states that are owned';
COMMENT ON COLUMN pawl_dag.tasks.steps_blocked IS 'pending, a parent is not satisfied';
COMMENT ON COLUMN pawl_dag.tasks.steps_ready IS 'pending, all parents are satisfied';
COMMENT ON COLUMN pawl_dag.tasks.steps_in_flight IS 'enqueued, in_progress, or with a result that waits to be read';
COMMENT ON COLUMN pawl_dag.tasks.steps_waiting IS 'waiting_for_retry';
COMMENT ON COLUMN pawl_dag.tasks.steps_failed IS 'error, and not optional';
COMMENT ON COLUMN pawl_dag.tasks.steps_satisfied IS 'complete, resolved_manually, or an optional step in error';
COMMENT ON COLUMN pawl_dag.tasks.evaluate IS 'something happened since the task was looked at';
COMMENT ON COLUMN pawl_dag.tasks.entered_at IS 'when the task entered its state';

CREATE INDEX tasks_pending ON pawl_dag.tasks (priority DESC, created_at, task_uuid) WHERE state OPERATOR(pg_catalog.=) 'pending';
CREATE INDEX tasks_to_evaluate ON pawl_dag.tasks (task_uuid) WHERE evaluate;
CREATE INDEX tasks_correlation ON pawl_dag.tasks (correlation_id);
CREATE INDEX tasks_parent_correlation ON pawl_dag.tasks (parent_correlation_id) WHERE parent_correlation_id IS NOT NULL;

CREATE TABLE pawl_dag.steps (
    task_uuid uuid NOT NULL REFERENCES pawl_dag.tasks ON DELETE CASCADE,
    step_uuid uuid NOT NULL DEFAULT pawl.uuid_v7(),
    name text COLLATE "C" NOT NULL CHECK (name OPERATOR(pg_catalog.<>) ''),
    state text COLLATE "C" NOT NULL DEFAULT 'pending',
    namespace text COLLATE "C" NOT NULL,
    priority integer NOT NULL DEFAULT 0,
    handler text NOT NULL,
    handler_options jsonb NOT NULL DEFAULT '{}',
    level integer NOT NULL DEFAULT 0,
    total_parents integer NOT NULL DEFAULT 0,
    unsatisfied_parents integer NOT NULL DEFAULT 0,
    optional boolean NOT NULL DEFAULT false,
    retryable boolean NOT NULL DEFAULT true,
    permanent boolean NOT NULL DEFAULT false,
    max_attempts integer NOT NULL DEFAULT 3 CHECK (max_attempts OPERATOR(pg_catalog.>=) 1),
    backoff jsonb,
    backoff_request interval,
    timeout interval,
    -- kept by pawl
    worker_uuid uuid,
    lease_until timestamptz,
    fence bigint NOT NULL DEFAULT 0,
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
COMMENT ON COLUMN pawl_dag.steps.namespace IS 'the queue that workers claim the step from: the namespace; ''sql:'' where the handler is a SQL function';
COMMENT ON COLUMN pawl_dag.steps.unsatisfied_parents IS 'parents that are neither complete nor resolved_manually; kept by triggers';
COMMENT ON COLUMN pawl_dag.steps.permanent IS 'the worker called the last error one that no retry mends';
COMMENT ON COLUMN pawl_dag.steps.backoff_request IS 'the wait that the worker asked for with the last error (Retry-After)';
COMMENT ON COLUMN pawl_dag.steps.optional IS 'an error satisfies those who wait for the step';

-- Every row is in it; the condition keeps the planner, as long as it has no statistics, from reading whole tasks through it where the
-- primary key finds one step.
CREATE UNIQUE INDEX steps_names ON pawl_dag.steps (task_uuid, name) WHERE name OPERATOR(pg_catalog.<>) '';
CREATE INDEX steps_results ON pawl_dag.steps (task_uuid)
    WHERE state OPERATOR(pg_catalog.=) 'enqueued_for_orchestration' OR state OPERATOR(pg_catalog.=) 'enqueued_as_error_for_orchestration';

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
