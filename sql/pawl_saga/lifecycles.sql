-- The picture, the definition and the enforcement are one text: make puts the diagrams here.

-- @diagram pawl_saga.flow flow.mmd
-- @diagram pawl_saga.task task.mmd
-- @diagram pawl_saga.retry retry.mmd
-- @diagram pawl_saga.engine engine.mmd

SELECT pawl.enforce('pawl_saga.flows', 'state', 'pawl_saga.flow');
SELECT pawl.enable_log('pawl_saga.flows', log_name => 'flow_transitions');
SELECT pawl.enable_events('pawl_saga.flows');
SELECT pawl.enforce('pawl_saga.tasks', 'state', 'pawl_saga.task');
SELECT pawl.enable_log('pawl_saga.tasks', log_name => 'task_transitions');
SELECT pawl.enable_queue('pawl_saga.tasks', owner => 'worker', lease => 'lease_until', token => 'token',
    queue => 'queue');
SELECT pawl.enable_timers('pawl_saga.tasks', due => 'due_at');
SELECT pawl.set_claiming('pawl_saga.tasks', claim => ARRAY['execute', 'revert'],
    claim_order => 'priority desc, flow_uuid', lease_time => '60 s', on_expiry => 'lost', on_expiry_else => 'settle',
    operator_events => ARRAY['time_out', 'resolve']);
SELECT pawl.enable_events('pawl_saga.tasks', wake => true);
SELECT pawl.enforce('pawl_saga.retries', 'state', 'pawl_saga.retry');
SELECT pawl.enable_log('pawl_saga.retries', log_name => 'retry_transitions');
SELECT pawl.enable_events('pawl_saga.retries');
-- Flows come before their tasks, in every transaction that locks both.
SELECT pawl.set_lock_order('pawl_saga.tasks', 'pawl_saga.flows');
SELECT pawl.set_trace('pawl_saga.flows', 'traceparent', 'tracestate');
SELECT pawl.set_trace('pawl_saga.tasks', 'traceparent', 'tracestate');
SELECT pawl.set_trace('pawl_saga.retries', 'traceparent', 'tracestate');
SELECT pawl.enforce('pawl_saga.runs', 'state', 'pawl_saga.engine');

SELECT pg_catalog.pg_extension_config_dump('pawl_saga.flow_transitions_log', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.task_transitions_log', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.retry_transitions_log', '');
