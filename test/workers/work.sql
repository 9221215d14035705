-- What the workers of the scenarios work on: a table of jobs, a workflow, a bulk operation and a flow of one step.
create table work (
    id bigint generated always as identity primary key,
    kind text not null,
    state text not null default 'ready',
    owner text,
    lease timestamptz,
    token bigint not null default 0,
    due timestamptz,
    attempts int not null default 0
);
select pawl.define('work', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : fail
    running --> failed : fail
    running --> failed : give_up
    running --> ready : expire
    done --> [*]
    failed --> [*]
    class running owned');
select pawl.enforce('work', 'state', 'work');
select pawl.enable_log('work');
select pawl.enable_queue('work', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts');
select pawl.enable_timers('work', due => 'due');
select pawl.set_claiming('work', claim => '{start}', claim_order => 'id', on_expiry => 'expire', retry => '{fail}',
    backoff => '{"base": "10 ms", "cap": "50 ms", "max_attempts": 3}');
select pawl.enable_events('work', events => false, wake => true);
select pawl_dag.define_template('{"name": "work", "identity_strategy": "always_unique", "steps": [{"name": "only",
    "retry": {"max_attempts": 3, "backoff_base_ms": 10, "max_backoff_ms": 50}}]}');
select pawl_bulk.define('{"name": "work", "track_row_data": true, "steps": [{"name": "only", "handler": "work",
    "max_retries": 2, "backoff": {"base": "10 ms", "jitter": 0}}]}');
select pawl_saga.define('{"flow": "linear", "name": "work", "children": [{"task": "only", "requires": ["kind"]}]}');
