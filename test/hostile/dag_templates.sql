-- What is wrong with a template is said with the step and the field, whatever the field
-- holds; and start_task names its own argument.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_dag;
create function outcome(command text) returns text language plpgsql as $$
declare message text; detail text; hint text;
begin
    execute command;
    return 'ok';
exception when others then
    get stacked diagnostics message = message_text, detail = pg_exception_detail, hint = pg_exception_hint;
    return concat_ws(' | ', sqlstate, message, nullif(detail, ''), nullif(hint, ''));
end $$;
-- Every field with every kind of value: it is taken, or the message names it, and its step.
create table value (v jsonb);
insert into value values ('null'), ('true'), ('0'), ('-1'), ('1'), ('1.5'), ('1e300'), ('-1e300'),
    ('99999999999999999999'), ('0.0000000001'), ('""'), ('"x"'), ('"1"'), ('" "'), ('[]'), ('[1]'), ('[null]'),
    ('["x"]'), ('{}'), ('{"a": 1}'), ('[[]]'), ('[{}]'),
    (to_jsonb(repeat('x', 3000))), ('"null"'), ('"2026-01-01"');
create table tried as
    select 'template' as of_what, f as field, v, jsonb_build_object('name', 'n' || row_number() over (),
        'identity_strategy', 'always_unique', 'steps', '[]'::jsonb) || jsonb_build_object(f, v) as template
      from unnest('{namespace,name,version,description,identity_strategy,failure_policy,max_duration_minutes,'
              'lifecycle,steps}'::text[]) f, value
    union all select 'step', f, v, jsonb_build_object('name', 's' || row_number() over (), 'steps',
        jsonb_build_array('{"name": "x"}'::jsonb, jsonb_build_object('name', 'pay') || jsonb_build_object(f, v)))
      from unnest('{name,description,handler,handler_options,dependencies,depends_on,retry,timeout_seconds,'
              'optional,map}'::text[]) f, value
    union all select 'retry', f, v, jsonb_build_object('name', 'r' || row_number() over (), 'steps',
        jsonb_build_array(jsonb_build_object('name', 'pay', 'retry', jsonb_build_object(f, v))))
      from unnest('{retryable,max_attempts,backoff,backoff_base_ms,max_backoff_ms,multiplier,jitter}'::text[]) f, value
    union all select 'lifecycle', f, v,
        jsonb_build_object('name', 'l' || row_number() over (), 'lifecycle', jsonb_build_object(f, v))
      from unnest('{max_waiting_for_dependencies_minutes,max_waiting_for_retry_minutes,max_steps_in_process_minutes,'
              'staleness_action,auto_fail_on_timeout,auto_dlq_on_timeout}'::text[]) f, value;
alter table tried add outcome text;
update tried set outcome = outcome(format('select pawl_dag.define_template(%L)', template));
select is_empty($$select of_what, field, left(v::text, 50), outcome from tried
    where outcome <> 'ok' and not outcome ~ '^22023 \| '$$, 'what is wrong is 22023');
select is_empty($$select of_what, field, left(v::text, 50),
        outcome from tried where outcome ~*
            'failing row|invalid input syntax|out of range|cannot (extract|call|cast)|function|constraint'$$,
    'and no server''s words');
select is_empty($$select of_what, field, left(v::text, 50), outcome from tried
    where outcome <> 'ok' and field not in ('name', 'map')
        and position(case field when 'depends_on' then 'depend' when 'dependencies' then 'depend'
    when 'backoff_base_ms' then 'base' when 'max_backoff_ms' then 'backoff' when 'steps' then 'step' else field end
            in outcome) = 0$$, 'but the field');
select is_empty($$select of_what, field, left(v::text, 50), outcome from tried
    where outcome <> 'ok' and of_what in ('step', 'retry') and field <> 'name' and outcome !~ 'pay'$$, 'and the step');
select is_empty($$select of_what, field, left(v::text, 50), outcome from tried where outcome <> 'ok'
    and outcome !~ '\|.*\|' and field not in ('name', 'dependencies', 'depends_on')$$, 'with a detail or a hint');
select cmp_ok((select count(*) from tried where outcome = 'ok'), '>', 100::bigint, 'what is well is taken');
-- in detail
select is(outcome(format('select pawl_dag.define_template(%L)', t)), o, o) from (values
    ('{"name": "d", "steps": [{"name": "pay", "timeout_seconds": -3}]}',
        '22023 | timeout_seconds of step "pay" must be a number from 0.001 to 1000000000 | It is -3. | '
        '"timeout_seconds": 1'),
    ('{"name": "d", "steps": [{"name": "pay", "retry": {"max_attempts": 2.5}}]}',
        '22023 | max_attempts of retry of step "pay" must be an integer from 1 to 1000000 | It is 2.5. | '
        '"max_attempts": 1'),
    ('{"name": "d", "steps": [{"name": "pay", "optional": "yes"}]}',
        '22023 | optional of step "pay" must be true or false | It is "yes". | "optional": true'),
    ('{"name": "d", "steps": [7]}',
        '22023 | step 1 must be a JSON object | It is 7. | {"name": "...", "handler": "..."}'),
    ('{"name": "d", "failure_policy": "stop"}', '22023 | failure_policy of the template must be one of block, '
                'continue | It is "stop". | "failure_policy": "block"')) v(t, o);

select pawl_dag.define_template('{"name": "named", "identity_strategy": "caller_provided"}') \g /dev/null
select pawl_dag.define_template('{"name": "strict"}') \g /dev/null
select pawl_dag.start_task('strict') \g /dev/null
select is(outcome('select pawl_dag.start_task(''named'')'),
    '22004 | template "named" needs an identity key for each task | identity_key => ''...''', 'one task has one key');
select is(outcome('select pawl_dag.start_tasks(''named'', array[''{}'']::jsonb[])'),
    '22004 | template "named" needs an identity key for each task | identity_keys => array[''...'']', 'many have many');
select alike(outcome('select pawl_dag.start_task(''strict'')'), '23505 | task "strict" with this identity already '
    'exists | % to create another one: identity_key => ''...''', 'so has one that is there already');
select alike(outcome('select pawl_dag.start_tasks(''strict'', array[''{}'']::jsonb[])'),
    '23505 | %to create another one: identity_keys => array%', 'and many');
select * from finish();
