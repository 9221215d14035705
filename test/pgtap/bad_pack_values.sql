-- What bad values in calls of the packs are told, as in bad_values.sql.
\set QUIET 1
set client_min_messages to error;
create extension if not exists pawl_dag;
create extension if not exists pawl_bulk;
create extension if not exists pawl_saga;
create extension if not exists pawl_api;
select no_plan();

\ir shared/says.psql
create role pawl_test_token;
grant pawl_test_token to pawl_authenticator;
select pawl_dag.define_template('{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "a"}]}'),
    pawl_bulk.define('{"name": "devices", "steps": [{"name": "activate", "handler": "x"}]}'),
    pawl_saga.define('{"flow": "linear", "name": "trip", "children": [{"task": "t", "execute": "x"}]}') \g /dev/null
select is(says('select ' || call), said, left(call, 80)) from (values
    ('pawl_dag.start_task(''order'', priority => null)', '22004 priority must not be null |  | priority => 0'),
    ('pawl_dag.start_task(''order'', identity_key => repeat(''x'', 1001))', '22023 an identity key must have at most '
        '1000 bytes |  | identity_key => ''...'''),
    ('pawl_bulk.submit(''devices'', format => null)', '22004 format must not be null |  | format => ''ndjson'', '
        '''csv'' or ''json'''),
    ('pawl_saga.start(''trip'', defer_reverts => null)', '22004 defer_reverts must not be null |  | true or false'),
    ('pawl_saga.start(''trip'', never_resolve => null)', '22004 never_resolve must not be null |  | true or false'),
    ('pawl_saga.post(null)', '22004 name must not be null |  | name => ''...'''),
    ('pawl_saga.post('''')', '22023 name must have 1 to 1000 bytes | It has 0. | name => ''...'''),
    ('pawl_saga.post(''a'', board => null)', '22004 board must not be null |  | board => ''...'''),
    ('pawl_saga.post(''a'', board => repeat(''x'', 1001))', '22023 board must have 1 to 1000 bytes | It has 1001. | '
        'board => ''...'''),
    ('pawl_saga.post(''a'', ''trip'', ''1'')', '22023 inputs must be a JSON object | It is of type number. | '
        'inputs => ''{"name": "value"}'''),
    ('pawl_saga.post(''a'', null, ''1'')', 'ok'),
    ('pawl_saga.signal(pawl_saga.start(''trip''), repeat(''x'', 1001))', '22023 name must have 1 to 1000 bytes | '
        'It has 1001. | name => ''...'''),
    ('pawl_saga.claim_job(pawl_saga.post(''a''), repeat(''x'', 1001))', '22023 processor must have 1 to 1000 bytes | '
        'It has 1001. | processor => ''...'''),
    ('pawl_saga.wait_for_job(pawl_saga.post(''a''), ''-178000000 years'')', 'ok'),
    ('pawl_saga.wait_for_jobs(timeout => ''178000000 years'')', 'ok'),
    ('pawl_api.create_token(''pawl_test_token'', ''me'', valid => ''178000000 years'')', '22023 valid must be at most '
        '100 years | It is 178000000 years. | valid => ''90 days'', or null until it is revoked'),
    ('pawl_bulk.all_rows_succeeded(null, null), pawl_bulk.some_rows_failed(null, null)', 'ok')) c(call, said);
drop role pawl_test_token;
select * from finish();
