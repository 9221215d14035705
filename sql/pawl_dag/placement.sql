-- The rows of a namespace, which can be in one database of several.

SELECT pawl.declare_placed('dag', '[
    {"role": "unit", "relation": "pawl_dag.tasks", "namespace_column": "namespace"},
    {"role": "part", "relation": "pawl_dag.steps", "parent": "pawl_dag.tasks", "key_columns": ["task_uuid"],
     "is_queue": true, "local_queues": ["sql:"]},
    {"role": "part", "relation": "pawl_dag.edges", "parent": "pawl_dag.tasks", "key_columns": ["task_uuid"]},
    {"role": "part", "relation": "pawl_dag.dlq", "parent": "pawl_dag.tasks", "key_columns": ["task_uuid"]},
    {"role": "part", "relation": "pawl_dag.troubles", "parent": "pawl_dag.tasks", "key_columns": ["task_uuid"]},
    {"role": "part", "relation": "pawl_dag.task_transitions_log", "parent": "pawl_dag.tasks",
     "key_columns": ["task_uuid"]},
    {"role": "part", "relation": "pawl_dag.step_transitions_log", "parent": "pawl_dag.tasks",
     "key_columns": ["task_uuid"]},
    {"role": "part", "relation": "pawl_dag.step_result_audit", "parent": "pawl_dag.tasks",
     "key_columns": ["task_uuid"]},
    {"role": "shared", "relation": "pawl_dag.namespaces", "namespace_column": "namespace", "identity": ["namespace"]},
    {"role": "shared", "relation": "pawl_dag.templates", "namespace_column": "namespace",
     "identity": ["namespace", "name", "version"], "content": ["content_hash"], "id_column": "template_uuid",
     "referring": ["pawl_dag.tasks"], "referring_columns": ["template_uuid"]},
    {"role": "shared", "relation": "pawl_dag.template_steps", "parent": "pawl_dag.templates",
     "key_columns": ["template_uuid"]},
    {"role": "shared", "relation": "pawl_dag.template_edges", "parent": "pawl_dag.templates",
     "key_columns": ["template_uuid"]}]');
