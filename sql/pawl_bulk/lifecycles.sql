-- The picture, the definition and the enforcement are one text: make puts the diagrams here.

-- @diagram pawl_bulk.operation operation.mmd
-- @diagram pawl_bulk.row row.mmd
-- @diagram pawl_bulk.validation validation.mmd
-- @diagram pawl_bulk.work work.mmd
-- @diagram pawl_bulk.event event.mmd
-- @diagram pawl_bulk.notice notice.mmd

SELECT pawl.enforce('pawl_bulk.operations', 'status', 'pawl_bulk.operation', history => true, most_recent => 'derived',
    log_name => 'operation_transitions', events => true);
SELECT pawl.set_trace('pawl_bulk.operations', 'traceparent', 'tracestate');

SELECT pawl.enforce('pawl_bulk.records', 'state', 'pawl_bulk.row', history => true, most_recent => 'derived', log_name => 'record_transitions');

SELECT pawl.enforce('pawl_bulk.validations', 'state', 'pawl_bulk.validation');

SELECT pawl.enforce('pawl_bulk.work', 'state', 'pawl_bulk.work', owner => 'worker', lease => 'lease_until', token => 'fence', due => 'due',
    queue => 'queue', claim => ARRAY['Take'], claim_order => 'priority desc, operation, row_number', lease_time => '60 s', lapse => 'WorkerLost', wake => true);

SELECT pawl.enforce('pawl_bulk.events', 'state', 'pawl_bulk.event', events => true);

SELECT pawl.enforce('pawl_bulk.notices', 'state', 'pawl_bulk.notice', owner => 'worker', lease => 'lease_until', token => 'fence', due => 'due',
    attempts => 'tries', max_attempts => 'max_tries', queue => 'channel', claim => ARRAY['Take'], claim_order => 'notice', lease_time => '60 s', lapse => 'WorkerLost',
    lapse_else => 'GiveUp', retry => ARRAY['TryAgain', 'WorkerLost'], backoff => '{"strategy": "exponential", "base": "1 s", "cap": "10 min", "jitter": 0.5}', wake => true);

SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.operation_transitions_log', '');
SELECT pg_catalog.pg_extension_config_dump('pawl_bulk.record_transitions_log', '');
