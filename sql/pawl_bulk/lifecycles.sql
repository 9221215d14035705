-- The picture, the definition and the enforcement are one text: make puts the diagrams here.

-- @diagram pawl_bulk.operation operation.mmd
-- @diagram pawl_bulk.row row.mmd
-- @diagram pawl_bulk.validation validation.mmd
-- @diagram pawl_bulk.work work.mmd
-- @diagram pawl_bulk.event event.mmd
-- @diagram pawl_bulk.notice notice.mmd

SELECT pawl.enforce('pawl_bulk.operations', 'status', 'pawl_bulk.operation');
SELECT pawl.enable_log('pawl_bulk.operations', log_name => 'operation_transitions');
SELECT pawl.enable_events('pawl_bulk.operations');
SELECT pawl.set_trace('pawl_bulk.operations', 'traceparent', 'tracestate');

SELECT pawl.enforce('pawl_bulk.records', 'state', 'pawl_bulk.row');
SELECT pawl.enable_log('pawl_bulk.records', log_name => 'record_transitions');

SELECT pawl.enforce('pawl_bulk.validations', 'state', 'pawl_bulk.validation');

SELECT pawl.enforce('pawl_bulk.work', 'state', 'pawl_bulk.work');
SELECT pawl.enable_queue('pawl_bulk.work', owner => 'worker', lease => 'lease_until', token => 'token',
    queue => 'queue');
SELECT pawl.enable_timers('pawl_bulk.work', due => 'due');
SELECT pawl.set_claiming('pawl_bulk.work', claim => ARRAY['Take'],
    claim_order => 'priority desc, operation, row_number', lease_time => '60 s', on_expiry => 'WorkerLost');
SELECT pawl.enable_events('pawl_bulk.work', events => false, wake => true);

SELECT pawl.enforce('pawl_bulk.events', 'state', 'pawl_bulk.event');
SELECT pawl.enable_events('pawl_bulk.events');

SELECT pawl.enforce('pawl_bulk.notices', 'state', 'pawl_bulk.notice');
SELECT pawl.enable_queue('pawl_bulk.notices', owner => 'worker', lease => 'lease_until', token => 'token',
    attempts => 'tries', max_attempts => 'max_tries', queue => 'channel');
SELECT pawl.enable_timers('pawl_bulk.notices', due => 'due');
SELECT pawl.set_claiming('pawl_bulk.notices', claim => ARRAY['Take'], claim_order => 'notice', lease_time => '60 s',
    on_expiry => 'WorkerLost', on_expiry_else => 'GiveUp', retry => ARRAY['TryAgain', 'WorkerLost'],
    backoff => '{"strategy": "exponential", "base": "1 s", "cap": "10 min", "jitter": 0.5}');
SELECT pawl.enable_events('pawl_bulk.notices', events => false, wake => true);

SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.operation_transitions_log', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.record_transitions_log', '');
