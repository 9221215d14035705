-- The picture, the definition and the enforcement are one text: make puts the diagrams here.

-- @diagram pawl_dag.task task.mmd
-- @diagram pawl_dag.step step.mmd

SELECT pawl.enforce('pawl_dag.tasks', 'state', 'pawl_dag.task');
SELECT pawl.enable_log('pawl_dag.tasks', log_name => 'task_transitions');
SELECT pawl.enable_queue('pawl_dag.tasks', owner => 'processor_uuid', lease => 'lease_until', token => 'token');
SELECT pawl.set_claiming('pawl_dag.tasks', lease_time => '30 s', on_expiry => 'ProcessorCrashed',
    operator_events => ARRAY['Cancel', 'ResolveManually', 'ManualResolution', 'GiveUp', 'Reset', 'Timeout']);
SELECT pawl.enable_events('pawl_dag.tasks');

SELECT pawl.enforce('pawl_dag.steps', 'state', 'pawl_dag.step');
SELECT pawl.enable_log('pawl_dag.steps', log_name => 'step_transitions');
SELECT pawl.enable_queue('pawl_dag.steps', owner => 'worker_uuid', lease => 'lease_until', token => 'token',
    attempts => 'attempts', max_attempts => 'max_attempts', queue => 'namespace');
SELECT pawl.enable_timers('pawl_dag.steps', due => 'next_retry_at');
SELECT pawl.set_claiming('pawl_dag.steps', claim => ARRAY['Start'], claim_order => 'rank desc, task_uuid',
    lease_time => '60 s', on_expiry => 'WaitForRetry', on_expiry_else => 'Fail', retry => ARRAY['WaitForRetry'],
    backoff => '{"strategy": "exponential", "base": "1 s", "multiplier": 2, "cap": "60 s", "jitter": 0.1}',
    backoff_column => 'backoff',
    operator_events => ARRAY['Cancel', 'ResolveManually', 'CompleteManually', 'ResetForRetry']);
SELECT pawl.enable_events('pawl_dag.steps', events => false, wake => true);

SELECT pawl.set_trace('pawl_dag.tasks', 'traceparent', 'tracestate');
SELECT pawl.set_trace('pawl_dag.steps', 'traceparent', 'tracestate');
SELECT pawl.set_lock_order('pawl_dag.steps', 'pawl_dag.tasks');
SELECT pawl.set_log_token('pawl_dag.tasks');
SELECT pawl.set_log_token('pawl_dag.steps');
SELECT pawl.set_result_columns('pawl_dag.steps', '{result,error}');

-- One row a result that a worker reports. By task, and by step of a task, the primary key answers.
SELECT pawl.audit('pawl_dag.steps',
    '{"enqueued_for_orchestration": true, "enqueued_as_error_for_orchestration": false}',
    into_table => 'step_result_audit');
CREATE INDEX step_result_audit_step ON pawl_dag.step_result_audit (step_uuid);
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.step_result_audit', '');

CREATE VIEW pawl_dag.step_results AS
SELECT a.task_uuid, a.step_uuid, s.name, a.success, a.recorded_at, a.worker,
coalesce(a.correlation_id, t.correlation_id::text) AS correlation_id,
       a.execution_time_ms, l.sort_key, l.actor, l.metadata, a.audit_id, a.transition_id
  FROM pawl_dag.step_result_audit a
  LEFT JOIN pawl_dag.step_transitions_log l ON l.task_uuid = a.task_uuid AND l.step_uuid = a.step_uuid
      AND l.id = a.transition_id
  LEFT JOIN pawl_dag.steps s ON s.task_uuid = a.task_uuid AND s.step_uuid = a.step_uuid
  LEFT JOIN pawl_dag.tasks t ON t.task_uuid = a.task_uuid;
COMMENT ON VIEW pawl_dag.step_results IS
'every result that a worker reported, with the transition that brought it: order by recorded_at desc. The correlation '
'id is the task''s, where the worker set no other';

SELECT pg_catalog.pg_extension_config_dump('pawl_dag.task_transitions_log', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.step_transitions_log', '');
