-- The rows of a job board, which can be in one database of several: its jobs and the flows that were started for them.
-- A flow that was started without a job is on no board, and does not move.

SELECT pawl.declare_placed('saga', '[
    {"role": "unit", "relation": "pawl_saga.jobs", "namespace_column": "board", "is_queue": true},
    {"role": "part", "relation": "pawl_saga.job_transitions_log", "parent": "pawl_saga.jobs", "key_columns":
     ["job_uuid"]},
    {"role": "part", "relation": "pawl_saga.flows", "parent": "pawl_saga.jobs", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.runs", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.tasks", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.retries", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.junctions", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.attempts", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.signals", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.set_aside", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.questions", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.intentions", "parent": "pawl_saga.flows", "key_columns": ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.flow_transitions_log", "parent": "pawl_saga.flows", "key_columns":
     ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.task_transitions_log", "parent": "pawl_saga.flows", "key_columns":
     ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.retry_transitions_log", "parent": "pawl_saga.flows", "key_columns":
     ["flow_uuid"]},
    {"role": "part", "relation": "pawl_saga.definitions", "parent": "pawl_saga.flows", "key_columns":
     ["flow_uuid"], "only_if": "r.flow_uuid IS NOT NULL"},
    {"role": "part", "relation": "pawl_saga.nodes", "parent": "pawl_saga.definitions", "key_columns":
     ["definition_uuid"]},
    {"role": "part", "relation": "pawl_saga.edges", "parent": "pawl_saga.definitions", "key_columns":
     ["definition_uuid"]},
    {"role": "part", "relation": "pawl_saga.votes", "parent": "pawl_saga.definitions", "key_columns":
     ["definition_uuid"]},
    {"role": "part", "relation": "pawl_saga.parameters", "parent": "pawl_saga.definitions", "key_columns":
     ["definition_uuid"]},
    {"role": "shared", "relation": "pawl_saga.definitions", "parent": "pawl_saga.jobs", "key_columns": ["name"],
     "parent_columns": ["flow"], "only_if": "r.flow_uuid IS NULL", "identity": ["name", "version"], "content":
     ["content_hash"], "id_column": "definition_uuid", "referring": ["pawl_saga.flows", "pawl_saga.definitions"],
     "referring_columns": ["definition_uuid", "made_from"]},
    {"role": "shared", "relation": "pawl_saga.definitions", "parent": "pawl_saga.flows", "key_columns": ["name"],
     "parent_columns": ["name"], "only_if": "r.flow_uuid IS NULL", "identity": ["name", "version"], "content":
     ["content_hash"], "id_column": "definition_uuid", "referring": ["pawl_saga.flows", "pawl_saga.definitions"],
     "referring_columns": ["definition_uuid", "made_from"]},
    {"role": "shared", "relation": "pawl_saga.definitions", "parent": "pawl_saga.flows", "key_columns":
     ["definition_uuid"], "parent_columns": ["definition_uuid"], "only_if": "r.flow_uuid IS NULL", "identity":
     ["name", "version"], "content": ["content_hash"], "id_column": "definition_uuid", "referring":
     ["pawl_saga.flows", "pawl_saga.definitions"], "referring_columns": ["definition_uuid", "made_from"]},
    {"role": "shared", "relation": "pawl_saga.nodes", "parent": "pawl_saga.definitions", "key_columns":
     ["definition_uuid"]},
    {"role": "shared", "relation": "pawl_saga.edges", "parent": "pawl_saga.definitions", "key_columns":
     ["definition_uuid"]},
    {"role": "shared", "relation": "pawl_saga.votes", "parent": "pawl_saga.definitions", "key_columns":
     ["definition_uuid"]},
    {"role": "shared", "relation": "pawl_saga.parameters", "parent": "pawl_saga.definitions", "key_columns":
     ["definition_uuid"]}]');
