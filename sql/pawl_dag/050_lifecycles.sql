-- The picture, the definition and the enforcement are one text: make puts the diagrams here.

-- @diagram pawl_dag.task task.mmd
-- @diagram pawl_dag.step step.mmd

SELECT pawl.enforce('pawl_dag.tasks', 'state', 'pawl_dag.task', history => true, most_recent => 'derived', log_name => 'task_transitions',
    owner => 'processor_uuid', lease => 'lease_until', token => 'fence', lease_time => '30 s', lapse => 'ProcessorCrashed',
    operator_events => ARRAY['Cancel', 'ResolveManually', 'ManualResolution', 'GiveUp', 'Reset', 'Timeout'], events => true);

SELECT pawl.enforce('pawl_dag.steps', 'state', 'pawl_dag.step', history => true, most_recent => 'derived', log_name => 'step_transitions',
    owner => 'worker_uuid', lease => 'lease_until', token => 'fence', due => 'next_retry_at', attempts => 'attempts', max_attempts => 'max_attempts',
    queue => 'namespace', claim => ARRAY['Start'], claim_order => 'rank desc, task_uuid', lease_time => '60 s',
    lapse => 'WaitForRetry', lapse_else => 'Fail', retry => ARRAY['WaitForRetry'],
    backoff => '{"strategy": "exponential", "base": "1 s", "multiplier": 2, "cap": "60 s", "jitter": 0.1}', backoff_column => 'backoff',
    operator_events => ARRAY['Cancel', 'ResolveManually', 'CompleteManually', 'ResetForRetry'], wake => true);

SELECT pg_catalog.pg_extension_config_dump('pawl_dag.task_transitions_log', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.step_transitions_log', '');
