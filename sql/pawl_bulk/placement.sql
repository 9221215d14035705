-- The rows of operations of one name, which can be in one database of several: the name is the namespace.

SELECT pawl.declare_placed('bulk', '[
    {"role": "unit", "relation": "pawl_bulk.operations", "namespace_column": "definition"},
    {"role": "part", "relation": "pawl_bulk.input", "parent": "pawl_bulk.operations", "key_columns": ["operation"]},
    {"role": "part", "relation": "pawl_bulk.unvalidated", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.validations", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.tallies", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.records", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.work", "parent": "pawl_bulk.operations", "key_columns": ["operation"]},
    {"role": "part", "relation": "pawl_bulk.retry_history", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.signal_keys", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.signals", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.events", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.notices", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.sql_runs", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.validation_attempts", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.troubles", "parent": "pawl_bulk.operations", "key_columns":
     ["operation"]},
    {"role": "part", "relation": "pawl_bulk.operation_transitions_log", "parent": "pawl_bulk.operations",
     "key_columns": ["operation"]},
    {"role": "part", "relation": "pawl_bulk.record_transitions_log", "parent": "pawl_bulk.operations",
     "key_columns": ["operation"]},
    {"role": "shared", "relation": "pawl_bulk.definitions", "namespace_column": "name", "identity": ["name",
     "version"], "content": ["configuration"]},
    {"role": "shared", "relation": "pawl_bulk.steps", "namespace_column": "name", "identity": ["name", "version",
     "step_index"]}]');
