-- Templates: named workflows in versions. A task keeps the version that it was started with.

CREATE TABLE pawl_dag.namespaces (
    namespace text COLLATE "C" PRIMARY KEY CHECK (namespace ~ '^[a-z][a-z0-9_]{0,28}$'),
    description text,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE pawl_dag.namespaces IS 'groups of templates; each is a queue that workers claim from';

CREATE TABLE pawl_dag.templates (
    template_uuid uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    namespace text COLLATE "C" NOT NULL REFERENCES pawl_dag.namespaces,
    name text COLLATE "C" NOT NULL CHECK (name <> ''),
    version text COLLATE "C" NOT NULL CHECK (version <> ''),
    description text,
    identity_strategy text NOT NULL DEFAULT 'strict'
    CHECK (identity_strategy IN ('strict', 'caller_provided', 'always_unique')),
    failure_policy text NOT NULL DEFAULT 'block' CHECK (failure_policy IN ('block', 'continue')),
    max_duration interval NOT NULL DEFAULT '24 hours' CHECK (max_duration OPERATOR(pg_catalog.>) '0'),
    stale_after interval NOT NULL DEFAULT '30 minutes',
    configuration jsonb NOT NULL,
    content_hash bytea NOT NULL,
    steps_total integer NOT NULL,
    steps_ready integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    created_by name NOT NULL DEFAULT CURRENT_USER,
    UNIQUE (namespace, name, version)
);
COMMENT ON TABLE pawl_dag.templates IS
'workflows in versions; written by pawl_dag.define_template, never changed afterwards';
COMMENT ON COLUMN pawl_dag.templates.content_hash IS 'SHA-256 of the configuration';
COMMENT ON COLUMN pawl_dag.templates.created_by IS
'the role that defined it; SQL functions of its steps run as pawl.call_as_definer runs functions that it named';
COMMENT ON COLUMN pawl_dag.templates.steps_ready IS 'steps without parents';

-- The times in a state after which a task is stale: the template's own, else these.
CREATE FUNCTION pawl_dag._threshold(state text, lifecycle jsonb) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN pg_catalog.make_interval(mins => coalesce(
    CASE state WHEN 'waiting_for_dependencies' THEN (lifecycle ->> 'max_waiting_for_dependencies_minutes')::integer
               WHEN 'waiting_for_retry' THEN (lifecycle ->> 'max_waiting_for_retry_minutes')::integer
               WHEN 'steps_in_process' THEN (lifecycle ->> 'max_steps_in_process_minutes')::integer END,
    CASE state WHEN 'waiting_for_dependencies' THEN 60 WHEN 'waiting_for_retry' THEN 30 WHEN 'steps_in_process'
        THEN 30 ELSE 1440 END));
COMMENT ON FUNCTION pawl_dag._threshold(text, jsonb) IS
'internal: how long a task may be in a state before it is stale';

CREATE TABLE pawl_dag.template_steps (
    template_uuid uuid NOT NULL REFERENCES pawl_dag.templates ON DELETE CASCADE,
    name text COLLATE "C" NOT NULL CHECK (name <> ''),
    ordinal integer NOT NULL,
    level integer NOT NULL,
    parents integer NOT NULL,
    description text,
    handler text NOT NULL,
    handler_options jsonb NOT NULL DEFAULT '{}',
    retryable boolean NOT NULL,
    max_attempts integer NOT NULL CHECK (max_attempts OPERATOR(pg_catalog.>=) 1),
    backoff jsonb NOT NULL,
    timeout interval CHECK (timeout OPERATOR(pg_catalog.>) '0'),
    optional boolean NOT NULL,
    map_over text[] CHECK (map_over OPERATOR(pg_catalog.<>) '{}'),
    PRIMARY KEY (template_uuid, name)
);
COMMENT ON TABLE pawl_dag.template_steps IS 'the steps of a template';
COMMENT ON COLUMN pawl_dag.template_steps.map_over IS
'path of an array in the context: the step becomes one for each of its elements';
COMMENT ON COLUMN pawl_dag.template_steps.level IS
'length of the longest path from a step without parents, which has 0';

CREATE TABLE pawl_dag.template_edges (
    template_uuid uuid NOT NULL,
    parent text COLLATE "C" NOT NULL,
    child text COLLATE "C" NOT NULL,
    PRIMARY KEY (template_uuid, parent, child),
    FOREIGN KEY (template_uuid, parent) REFERENCES pawl_dag.template_steps ON DELETE CASCADE,
    FOREIGN KEY (template_uuid, child) REFERENCES pawl_dag.template_steps ON DELETE CASCADE,
    CHECK (parent <> child)
);
COMMENT ON TABLE pawl_dag.template_edges IS 'which step waits for which';
