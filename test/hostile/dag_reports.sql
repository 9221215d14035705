-- A report validates each of its elements alone: whatever is wrong with one, the others
-- count, and ok is returned for recorded results only.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
\ir ../pgtap/shared/dag.psql
\set me 'c0000000-0000-7000-8000-00000000000c'
\set other 'd0000000-0000-7000-8000-00000000000d'
select pawl_dag.define_template('{"name": "one", "identity_strategy": "always_unique", "steps": [{"name": "s", '
        '"retry": {"max_attempts": 9, "backoff": "none"}}]}') \g /dev/null
-- A step in progress of a task of its own, as an element of a report without its result.
create function held(lease interval default '1 hour') returns jsonb language plpgsql as $$
declare made jsonb;
begin
    perform pawl_dag.start_task('one');
    select jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token) into made
      from pawl_dag.claim('c0000000-0000-7000-8000-00000000000c', orchestrate => 100, lease => held.lease) c;
    return made;
end $$;
create function said(element jsonb, processor text default 'c0000000-0000-7000-8000-00000000000c') returns text
    language sql as $$
    select string_agg(coalesce(left(r.problem, 5), 'ok ' || r.state), ', ')
        from pawl_dag.report(case jsonb_typeof(element) when 'array' then element else jsonb_build_array(element) end,
            processor) r $$;

-- what is wrong with an element is said of it alone
create table wrong_element (what text, element jsonb, problem text);
insert into wrong_element select what, held() || added, '22023' from (values
    ('retry_after that is no time', '{"error": {"retry_after": "soon"}}'::jsonb),
        ('retry_after that is negative', '{"error": {"retry_after": -1}}'),
    ('retry_after that is an object', '{"error": {"retry_after": {}}}'),
    ('retry_after for ever', '{"error": {"retry_after": "infinity"}}'),
    ('retry_after on no day', '{"error": {"retry_after": "2026-02-31"}}'),
    ('retry_after that is true', '{"error": {"retry_after": true}}'),
    ('retry_after that only PostgreSQL reads', '{"error": {"retry_after": "tomorrow"}}'),
    ('permanent that is no boolean', '{"error": {"permanent": "perhaps"}}'),
    ('permanent that is a number', '{"error": {"permanent": 1}}'),
    ('a token that is no number', '{"token": "x", "result": 1}'),
    ('a token that is too large', '{"token": 99999999999999999999999, "result": 1}'),
    ('a token that is negative', '{"token": -1, "result": 1}'), ('a token that is a fraction',
        '{"token": 1.5, "result": 1}'), ('a token that is null', '{"token": null, "result": 1}'),
    ('a token that is an object', '{"token": {}, "result": 1}'), ('a task that is no uuid',
        '{"task_uuid": "x", "result": 1}'), ('a task that is null', '{"task_uuid": null, "result": 1}'),
    ('a task that is a number', '{"task_uuid": 7, "result": 1}'), ('a step that is no uuid',
        '{"step_uuid": "{0000", "result": 1}'), ('a step that is a list', '{"step_uuid": [], "result": 1}'),
    ('neither result nor error', '{}'), ('a misspelt result', '{"reslut": 1}'), ('a null error', '{"error": null}'),
    ('both', '{"result": 1, "error": {"message": "x"}}')) v(what, added);
insert into wrong_element select 'without ' || k, (held() || '{"result": 1}') - k, '22023'
    from unnest('{task_uuid,step_uuid,token}'::text[]) k;
insert into wrong_element select format('an element that is %s', e), e, '22023'
    from (values ('null'::jsonb), ('1'), ('true'), ('"x"'), ('[]'), ('[[1]]')) v(e);
insert into wrong_element select 'an element that is empty', '{}', '22023';
insert into wrong_element
    select 'an unknown step', held() || '{"step_uuid": "00000000-0000-7000-8000-000000000000", "result": 1}', 'P0002';
insert into wrong_element select 'a token of another claim', held() || '{"token": 7, "result": 1}', 'PW005';
select is(said(jsonb_build_array(element)), problem, what || ', alone') from wrong_element;
select jsonb_agg(x.e order by x.n) as mixed, string_agg(x.problem, ', ' order by x.n) as expected from (
    select row_number() over () * 2 as n, element as e, problem from wrong_element
    union all select row_number() over () * 2 + 1, held() || '{"result": {"a": 1}}', 'ok enqueued_for_orchestration'
    from wrong_element
    union all select 1, held() || '{"error": {"message": "x", "permanent": false, "retry_after": 3}}',
        'ok enqueued_as_error_for_orchestration') x \gset
select is(said(:'mixed'), :'expected', 'each element has its row, in their order, and those that are well count');
select is((select count(*) from pawl_dag.steps s join wrong_element w on s.step_uuid::text = w.element ->> 'step_uuid'
    where s.state <> 'in_progress'), 0::bigint, 'what is wrong moved nothing');
select is(said('[]'), null, 'no element, no row');

-- what is well, in every form
select is(said(held() || form), coalesce(expected, 'ok enqueued_for_orchestration'), form::text)
    from (values ('{"result": null}'::jsonb, null), ('{"result": null, "error": null}', null),
        ('{"result": false}', null),
    ('{"token": "1", "result": 1}', null), ('{"token": 1e0, "result": 1}', null),
    ('{"result": 1, "more": {"x": 1}}', null),
    ('{"error": "boom"}', 'ok enqueued_as_error_for_orchestration'),
    ('{"error": []}', 'ok enqueued_as_error_for_orchestration'),
    ('{"error": {"permanent": null, "retry_after": null}}', 'ok enqueued_as_error_for_orchestration'),
    ('{"error": {"retry_after": "2.5"}}', 'ok enqueued_as_error_for_orchestration'),
    ('{"error": {"retry_after": 99999999999999}}', 'ok enqueued_as_error_for_orchestration'),
    ('{"error": {"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}}', 'ok enqueued_as_error_for_orchestration'),
    ('{"error": {"retry_after": "2999-10-21T07:28:00Z"}}', 'ok enqueued_as_error_for_orchestration')) v(form, expected);
select held() as h \gset
select is(said(:'h'::jsonb
    || jsonb_build_object('result', 1, 'task_uuid', upper(:'h'::jsonb ->> 'task_uuid'), 'step_uuid',
        replace(:'h'::jsonb ->> 'step_uuid', '-', ''))),
    'ok enqueued_for_orchestration', 'a uuid in any way that PostgreSQL reads');
select is(said(held() || jsonb_build_object('result', (repeat('[', 1000) || repeat(']', 1000))::jsonb)),
    'ok enqueued_for_orchestration', 'a deep result');
select throws_ok(format('select pawl_dag.report(%L)', held() || '{"result": 1}'), '22023', null, 'no array');
select throws_ok($$select pawl_dag.report('[]', '')$$, 'PW004', null, 'no processor');
select is(said(held() || '{"result": 1}', 'no uuid'), 'PW004', 'a processor that cannot have claimed anything');
select work();

-- ok is said of recorded results only
select held() as h \gset
select pawl.abandon('pawl_dag.steps', :'me') \g /dev/null
select is(said(:'h'::jsonb || '{"result": 1}'), 'PW005', 'after its own abandon');
select is(said(:'h'::jsonb || '{"error": {"message": "x"}}'), 'PW005', 'neither does a failure count then');
select held() as h \gset
select pawl_dag.start_task('one') as task \gset
select step_of(:'task', 's') as step \gset
select jsonb_build_object('task_uuid', :'task', 'step_uuid', :'step', 'token', 0) as zero \gset
select is(said(:'zero'::jsonb || '{"result": 1}'), 'PW005', 'a step that was never claimed, with token 0');
select is(said(:'zero'::jsonb || '{"result": null}'), 'PW005', 'nor the result that it does not have');
select is(said(:'h'::jsonb || '{"result": 1}', :'other'), 'PW004', 'a second processor, while the first has the step');
select is(said(:'h'::jsonb || '{"result": 1}'), 'ok enqueued_for_orchestration', 'the first');
select is(said(:'h'::jsonb || '{"result": 1}', :'other'), 'PW005',
    'a second processor with the same result, when it is recorded');
select is(said(:'h'::jsonb || '{"result": 1}'), 'ok enqueued_for_orchestration', 'the recorded result again');
select is(said(:'h'::jsonb || '{"result": 1}', upper(:'me')), 'ok enqueued_for_orchestration',
    'by the same processor, written otherwise');
select is(said(:'h'::jsonb || '{"result": 2}'), 'PW005', 'another result');
select is(said(:'h'::jsonb || '{"error": {"message": "x"}}'), 'PW005', 'a failure after a success');
select from pawl_dag.orchestrate(1000);
select is(said(:'h'::jsonb || '{"result": 1}'), 'ok complete', 'the recorded result, when it has been read');
select is(said(:'h'::jsonb || '{"result": 1}', :'other'), 'PW005', 'of the second processor it is not');
select held() as h \gset
select is(said(:'h'::jsonb || '{"error": {"message": "x"}}'), 'ok enqueued_as_error_for_orchestration', 'a failure');
select from pawl_dag.orchestrate(1000);
select is(said(:'h'::jsonb || '{"error": {"message": "x"}}'), 'ok waiting_for_retry', 'the same again');
select is(said(:'h'::jsonb || '{"error": {"message": "y"}}'), 'PW005', 'another one');
select is(said(:'h'::jsonb || '{"result": 1}'), 'PW005', 'a success after a failure');
select is(said(:'h'::jsonb || '{"error": {"message": "x"}}', :'other'), 'PW005', 'the same of another processor');
select held() as h \gset
select is(
    said(jsonb_build_array(:'h'::jsonb || '{"result": 1}', :'h'::jsonb || '{"result": 1}',
        :'h'::jsonb || '{"result": 2}', :'h'::jsonb || '{"error": "x"}')),
    'ok enqueued_for_orchestration, ok enqueued_for_orchestration, PW005, PW005',
    'of several results for one step the first counts, and its repetitions');
select held() as h \gset
create function reject_bad() returns trigger language plpgsql as $$ begin raise 'bad result'; end $$;
create trigger reject_bad before update on pawl_dag.steps for each row when (new.result = '"bad"')
    execute function reject_bad();
select is(said(jsonb_build_array(:'h'::jsonb || '{"result": "bad"}', :'h'::jsonb || '{"result": "good"}',
        :'h'::jsonb || '{"result": "late"}')), 'P0001, ok enqueued_for_orchestration, PW005',
    'one that is rejected does not hide the next');
select held() as h \gset
select is((select string_agg(coalesce(left(r.problem, 5), 'ok ' || r.state), ', ') from pawl_dag.report_and_claim(
    jsonb_build_array(:'h'::jsonb || '{"result": "bad"}', :'h'::jsonb || '{"result": "good"}'), :'me', 'nothing') r),
    'P0001, ok enqueued_for_orchestration', 'nor in a call that claims as well');
drop trigger reject_bad on pawl_dag.steps;
-- of two claims of one step
create function held_again() returns jsonb language plpgsql as $$
declare
    first constant jsonb := held();
begin
    perform said(first || '{"error": {"retry_after": 0}}');
    perform from pawl_dag.orchestrate(1000);
    update pawl_dag.steps set next_retry_at = now() where state = 'waiting_for_retry'
        and step_uuid::text = first ->> 'step_uuid';
    perform pawl.fire_due('pawl_dag.steps');
    perform from pawl_dag.orchestrate(1000);
    return first || (select jsonb_build_object('token', c.token) from pawl_dag.claim(
        'c0000000-0000-7000-8000-00000000000c', lease => '1 hour', keys => array[array[first ->> 'task_uuid',
        first ->> 'step_uuid']::text]) c);
end $$;
select held_again() as h \gset
select is(said(jsonb_build_array(:'h'::jsonb || '{"token": 1, "result": 1}', :'h'::jsonb || '{"result": 2}')),
    'PW005, ok enqueued_for_orchestration', 'a result of an earlier claim does not hide that of the last');
select held_again() as h \gset
select is((select string_agg(coalesce(left(r.problem, 5), 'ok ' || r.state), ', ') from pawl_dag.report_and_claim(
    jsonb_build_array(:'h'::jsonb || '{"token": 1, "result": 1}', :'h'::jsonb || '{"result": 2}'), :'me', 'nothing') r),
    'PW005, ok complete', 'nor in a call that reports and claims');
select held() as h \gset
select pawl_dag.cancel_task((:'h'::jsonb ->> 'task_uuid')::uuid) \g /dev/null
select is(said(:'h'::jsonb || '{"result": 1}'), 'PW005', 'a cancelled step');
select held() as h \gset
select is(said(:'h'::jsonb || '{"result": 1}'), 'ok enqueued_for_orchestration', 'reported');
select pawl_dag.complete_step_manually((:'h'::jsonb ->> 'task_uuid')::uuid, (:'h'::jsonb ->> 'step_uuid')::uuid, '2',
    'test') \g /dev/null
select is(said(:'h'::jsonb || '{"result": 1}'), 'PW005', 'a result in whose place an operator has put another');

-- a row that cannot be written stands alone
create function reject() returns trigger
    language plpgsql as $$ begin raise exception 'not this one' using errcode = 'ZZ001'; end $$;
create trigger reject before update on pawl_dag.steps
    for each row when (new.result = '"poison"'::jsonb) execute function reject();
select is(
    said(jsonb_build_array(held() || '{"result": 1}', held() || '{"result": "poison"}', held() || '{"error": "x"}',
        held() || '{"result": "poison"}', held() || '{"result": 2}')),
    'ok enqueued_for_orchestration, ZZ001, ok enqueued_as_error_for_orchestration, ZZ001, ok '
    'enqueued_for_orchestration', 'a result that a trigger rejects');
drop trigger reject on pawl_dag.steps;
create function busy() returns trigger
    language plpgsql as $$ begin raise exception 'later' using errcode = '40001'; end $$;
create trigger busy before update on pawl_dag.steps for each row execute function busy();
select throws_ok(format('select pawl_dag.report(%L, %L)',
    (select jsonb_agg(jsonb_build_object('task_uuid', task_uuid, 'step_uuid', step_uuid, 'token', token, 'result', 1))
        from pawl_dag.steps where state = 'in_progress'), :'me'),
    '40001', 'later', 'what asks for a repetition is no element''s');
drop trigger busy on pawl_dag.steps;
select is((select count(*) from pawl_dag.step_result_audit a
        join pawl_dag.step_transitions_log l on l.id = a.transition_id),
    (select count(*) from pawl_dag.step_result_audit), 'every recorded result has its entry');
select is_empty('select wrong()', 'everything is as it must be');
select * from finish();
