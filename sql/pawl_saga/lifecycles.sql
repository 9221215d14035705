-- The picture, the definition and the enforcement are one text: make puts the diagrams here.

-- @diagram pawl_saga.flow flow.mmd
-- @diagram pawl_saga.task task.mmd
-- @diagram pawl_saga.retry retry.mmd
-- @diagram pawl_saga.engine engine.mmd

SELECT pawl.enforce('pawl_saga.flows', 'state', 'pawl_saga.flow', history => true, most_recent => 'derived', log_name => 'flow_transitions', events => true);
SELECT pawl.enforce('pawl_saga.tasks', 'state', 'pawl_saga.task', history => true, most_recent => 'derived', log_name => 'task_transitions',
    owner => 'worker', lease => 'lease_until', token => 'fence', due => 'due_at', queue => 'queue', claim => ARRAY['execute', 'revert'],
    claim_order => 'priority desc, flow_uuid', lease_time => '60 s', lapse => 'lost', lapse_else => 'settle',
    operator_events => ARRAY['time_out', 'resolve'], events => true, wake => true);
SELECT pawl.enforce('pawl_saga.retries', 'state', 'pawl_saga.retry', history => true, most_recent => 'derived', log_name => 'retry_transitions', events => true);
-- Flows come before their tasks, in every transaction that locks both.
SELECT pawl.set_lock_order('pawl_saga.tasks', 'pawl_saga.flows');
SELECT pawl.set_trace('pawl_saga.flows', 'traceparent', 'tracestate');
SELECT pawl.set_trace('pawl_saga.tasks', 'traceparent', 'tracestate');
SELECT pawl.set_trace('pawl_saga.retries', 'traceparent', 'tracestate');
SELECT pawl.enforce('pawl_saga.runs', 'state', 'pawl_saga.engine');

SELECT pg_catalog.pg_extension_config_dump('pawl_saga.flow_transitions_log', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.task_transitions_log', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.retry_transitions_log', '');
