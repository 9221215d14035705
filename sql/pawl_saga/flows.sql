-- Flows and their atoms. Every key begins with the flow, so that a flow with all its rows can be on any shard.

CREATE TABLE pawl_saga.flows (
    flow_uuid uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    definition_uuid uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'PENDING',
    defer_reverts boolean NOT NULL DEFAULT false,
    never_resolve boolean NOT NULL DEFAULT false,
    inputs jsonb NOT NULL DEFAULT '{}',
    correlation_id uuid NOT NULL DEFAULT pawl.uuid_v7(),
    -- the trace in which it began; its tasks go on with it
    traceparent text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.traceparent', true), ''),
    tracestate text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.tracestate', true), ''),
    run integer NOT NULL DEFAULT 0,
    undoing boolean NOT NULL DEFAULT false,
    broken boolean NOT NULL DEFAULT false,
    problem jsonb,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    entered_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) WITH (fillfactor = 70);
COMMENT ON TABLE pawl_saga.flows IS 'runs of definitions; only the outermost flow has a state';
COMMENT ON COLUMN pawl_saga.flows.inputs IS
'values that every atom can look up by name; they win over what atoms provide';
COMMENT ON COLUMN pawl_saga.flows.run IS 'how often it was begun; see pawl_saga.runs';
COMMENT ON COLUMN pawl_saga.flows.undoing IS 'it was decided that everything is reverted';
COMMENT ON COLUMN pawl_saga.flows.broken IS
'nothing more is begun, and the flow will end in FAILURE: a revert failed, a decider raised, a value is missing, or '
'never_resolve';
COMMENT ON COLUMN pawl_saga.flows.problem IS 'what broke it, where that is no failure of an atom';
CREATE INDEX flows_open ON pawl_saga.flows (state, flow_uuid)
    WHERE state OPERATOR(pg_catalog.<>) 'SUCCESS' AND state OPERATOR(pg_catalog.<>) 'REVERTED';

-- The engine of a flow: one row a run.
CREATE TABLE pawl_saga.runs (
    flow_uuid uuid NOT NULL REFERENCES pawl_saga.flows ON DELETE CASCADE,
    run integer NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'UNDEFINED',
    began_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    ended_at timestamptz,
    PRIMARY KEY (flow_uuid, run)
);
COMMENT ON TABLE pawl_saga.runs IS
'the engine of each run of a flow: WAITING while work is out, and the outcome in the end';

-- Domains and not constraints of the table, which every UPDATE would prepare anew, whatever it sets.
CREATE DOMAIN pawl_saga.task_intention AS text COLLATE "C"
    CHECK (VALUE OPERATOR(pg_catalog.=) ANY ('{EXECUTE,IGNORE,REVERT}'::text[]));
COMMENT ON DOMAIN pawl_saga.task_intention IS 'where a task must go';
CREATE DOMAIN pawl_saga.progress AS double precision
    CHECK (VALUE OPERATOR(pg_catalog.>=) 0 AND VALUE OPERATOR(pg_catalog.<=) 1);
COMMENT ON DOMAIN pawl_saga.progress IS 'how much of a task is done: from 0 to 1';
CREATE DOMAIN pawl_saga.loss_limit AS integer CHECK (VALUE OPERATOR(pg_catalog.>=) 1);
COMMENT ON DOMAIN pawl_saga.loss_limit IS 'how many workers may be lost with a task';

CREATE TABLE pawl_saga.tasks (
    flow_uuid uuid NOT NULL REFERENCES pawl_saga.flows ON DELETE CASCADE,
    node integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'PENDING',
    intention pawl_saga.task_intention NOT NULL DEFAULT 'EXECUTE',
    blockers integer NOT NULL DEFAULT 0,
    priority integer NOT NULL DEFAULT 0,
    queue text COLLATE "C" NOT NULL DEFAULT 'default',
    execute text NOT NULL,
    revert text,
    timeout interval,
    revert_timeout interval,
    signal text COLLATE "C",
    wait interval,
    -- the trace of its flow
    traceparent text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.traceparent', true), ''),
    tracestate text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.tracestate', true), ''),
    -- maintained by pawl
    worker text,
    lease_until timestamptz,
    token bigint NOT NULL DEFAULT 0,
    due_at timestamptz DEFAULT 'infinity',
    result jsonb,
    failure jsonb,
    revert_result jsonb,
    revert_failure jsonb,
    progress pawl_saga.progress,
    progress_details jsonb,
    started_at timestamptz,
    timeout_at timestamptz,
    wait_until timestamptz,
    dropped boolean NOT NULL DEFAULT false,
    revert_again boolean NOT NULL DEFAULT false,
    losses integer NOT NULL DEFAULT 0,
    max_losses pawl_saga.loss_limit NOT NULL DEFAULT 20,
    PRIMARY KEY (flow_uuid, node)
) WITH (fillfactor = 60);
COMMENT ON TABLE pawl_saga.tasks IS 'the tasks of flows';
COMMENT ON COLUMN pawl_saga.tasks.intention IS 'where the task must go';
COMMENT ON COLUMN pawl_saga.tasks.blockers IS
'to be executed: nodes directly before it that are not done; to be reverted: nodes directly behind it that '
'are not undone';
COMMENT ON COLUMN pawl_saga.tasks.due_at IS
'null: it can be claimed; infinity: it waits for other atoms, or is never claimed';
COMMENT ON COLUMN pawl_saga.tasks.execute IS
'the handler that workers know; sql:<schema>.<function> is run by pawl_saga.run_sql_tasks';
COMMENT ON COLUMN pawl_saga.tasks.queue IS
'the queue that workers claim from; ''sql:'' where the handler is a SQL function';
COMMENT ON COLUMN pawl_saga.tasks.dropped IS
'its flow was altered, and does not have it any more: it is kept as it is, and cannot be claimed';
COMMENT ON COLUMN pawl_saga.tasks.revert_again IS 'REVERT_FAILURE: an operator has its revert tried again';
COMMENT ON COLUMN pawl_saga.tasks.losses IS 'workers that were lost with it since it was begun';
COMMENT ON COLUMN pawl_saga.tasks.max_losses IS 'when so many workers were lost, it has failed';
COMMENT ON COLUMN pawl_saga.tasks.signal IS 'the signal that it waits for instead of being executed by a worker';
COMMENT ON COLUMN pawl_saga.tasks.wait IS 'how long it waits at most before it succeeds by itself';
COMMENT ON COLUMN pawl_saga.tasks.wait_until IS 'it waits: until when; infinity: for its signal alone';

CREATE INDEX tasks_live ON pawl_saga.tasks (flow_uuid)
    WHERE state OPERATOR(pg_catalog.=) 'RUNNING' OR state OPERATOR(pg_catalog.=) 'REVERTING'
       OR (due_at IS NULL AND state OPERATOR(pg_catalog.=) ANY ('{PENDING,SUCCESS,FAILURE,REVERT_FAILURE}'::text[]));

CREATE INDEX tasks_orphaned ON pawl_saga.tasks (queue, flow_uuid)
    WHERE worker IS NULL AND (state OPERATOR(pg_catalog.=) 'RUNNING' OR state OPERATOR(pg_catalog.=) 'REVERTING');
CREATE INDEX tasks_failed ON pawl_saga.tasks (flow_uuid) WHERE failure IS NOT NULL;
CREATE INDEX tasks_to_revert ON pawl_saga.tasks (queue, flow_uuid)
    WHERE due_at IS NULL AND state OPERATOR(pg_catalog.=) ANY ('{SUCCESS,FAILURE,REVERT_FAILURE}'::text[]);
CREATE INDEX tasks_timeout ON pawl_saga.tasks (timeout_at) WHERE timeout_at IS NOT NULL;
CREATE INDEX tasks_waiting ON pawl_saga.tasks (flow_uuid, wait_until) WHERE wait_until IS NOT NULL;
CREATE INDEX tasks_wait_over ON pawl_saga.tasks (wait_until)
    WHERE wait_until OPERATOR(pg_catalog.<>) 'infinity'::timestamptz;

CREATE TABLE pawl_saga.retries (
    flow_uuid uuid NOT NULL REFERENCES pawl_saga.flows ON DELETE CASCADE,
    node integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'PENDING',
    intention text COLLATE "C" NOT NULL DEFAULT 'EXECUTE'
    CHECK (intention OPERATOR(pg_catalog.=) ANY ('{EXECUTE,IGNORE,REVERT,RETRY}'::text[])),
    blockers integer NOT NULL DEFAULT 0,
    controller jsonb NOT NULL,
    -- the trace of its flow
    traceparent text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.traceparent', true), ''),
    tracestate text COLLATE "C" DEFAULT nullif(pg_catalog.current_setting('pawl.tracestate', true), ''),
    due_at timestamptz,
    value jsonb,
    failure jsonb,
    revert_failure jsonb,
    dropped boolean NOT NULL DEFAULT false,
    PRIMARY KEY (flow_uuid, node)
) WITH (fillfactor = 60);
COMMENT ON TABLE pawl_saga.retries IS 'the retry controllers of flows; the database runs them itself';
COMMENT ON COLUMN pawl_saga.retries.dropped IS 'its flow was altered, and does not have it any more';
COMMENT ON COLUMN pawl_saga.retries.due_at IS 'RETRYING: when the next attempt begins';
CREATE INDEX retries_due ON pawl_saga.retries (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE pawl_saga.junctions (
    flow_uuid uuid NOT NULL REFERENCES pawl_saga.flows ON DELETE CASCADE,
    node integer NOT NULL,
    blockers integer NOT NULL,
    backward boolean NOT NULL DEFAULT false,
    PRIMARY KEY (flow_uuid, node)
) WITH (fillfactor = 60);
COMMENT ON TABLE pawl_saga.junctions IS
'entries and ends of flows: they are passed when nothing blocks them, forward, or backward when what is behind '
'them is reverted';

CREATE TABLE pawl_saga.attempts (
    flow_uuid uuid NOT NULL,
    node integer NOT NULL,
    attempt integer NOT NULL,
    value jsonb,
    failures jsonb NOT NULL DEFAULT '{}',
    began_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    closed_at timestamptz,
    PRIMARY KEY (flow_uuid, node, attempt),
    FOREIGN KEY (flow_uuid, node) REFERENCES pawl_saga.retries ON DELETE CASCADE
);
COMMENT ON TABLE pawl_saga.attempts IS
'every attempt of every retry, for ever: the value it provided, and the failures that were decided in it by atom';
COMMENT ON COLUMN pawl_saga.attempts.closed_at IS
'when the history was cleared: the retry was reverted, or its flow began anew; only open attempts count';

-- A signal that no task waits for yet is kept until one does.
CREATE TABLE pawl_saga.signals (
    flow_uuid uuid NOT NULL REFERENCES pawl_saga.flows ON DELETE CASCADE,
    signal_uuid uuid NOT NULL DEFAULT pawl.uuid_v7(),
    name text COLLATE "C" NOT NULL CHECK (name OPERATOR(pg_catalog.<>) ''),
    payload jsonb NOT NULL DEFAULT 'null',
    sent_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    sent_by name NOT NULL DEFAULT session_user,
    taken_at timestamptz,
    taken_by integer,
    PRIMARY KEY (flow_uuid, signal_uuid)
);
COMMENT ON TABLE pawl_saga.signals IS
'what flows were told from outside; each signal is taken by one task that waits for it, the oldest first';
COMMENT ON COLUMN pawl_saga.signals.taken_by IS
'the node of the task that took it; null though it is taken: its flow began anew';
CREATE INDEX signals_open ON pawl_saga.signals (flow_uuid, name, signal_uuid) WHERE taken_at IS NULL;

-- An error of a duty in a flow concerns that flow alone: it waits for a while, and the others continue.
CREATE TABLE pawl_saga.set_aside (
    flow_uuid uuid PRIMARY KEY REFERENCES pawl_saga.flows ON DELETE CASCADE,
    duty text COLLATE "C" NOT NULL,
    attempts integer NOT NULL DEFAULT 1,
    due_at timestamptz NOT NULL,
    sqlstate text COLLATE "C" NOT NULL,
    message text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE pawl_saga.set_aside IS
'flows in which a duty raised: the duties try again at due_at, later each time; no row: nothing raises';
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.set_aside', '');

SELECT pg_catalog.pg_extension_config_dump('pawl_saga.flows', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.signals', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.runs', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.tasks', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.retries', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.junctions', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.attempts', '');
