-- Notices: which targets are notified of an operation, by which trigger, how often, and by which key a repeat is known.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk;
create table told (key text primary key, trigger text, status text, failed bigint, total bigint);
create function told(notice jsonb) returns void language sql as $$
    insert into public.told values (notice ->> 'key', notice ->> 'trigger', notice ->> 'status',
        (notice ->> 'failed_rows')::bigint, (notice ->> 'total_rows')::bigint) $$;
create table mood (good boolean);
insert into mood values (false);
create function moody(notice jsonb) returns void language plpgsql as $$
begin
    insert into public.told values (notice ->> 'key', 'moody');
    if not (select good from public.mood) then raise exception 'not today'; end if;
end $$;
create function rejecting(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
$$ select n, 'no network' from unnest(row_numbers, rows) u(n, r) where r ->> 'x' = 'bad' $$;
select pawl_bulk.define('{"name": "told", "handler": "sql:public.rejecting", "is_retryable": true, '
        '"track_row_data": true}') is not null as ok;
create function done_with(x text, notifications jsonb) returns uuid language plpgsql as $$
declare o uuid;
begin
    select s.operation into o from pawl_bulk.submit('told', rows => jsonb_build_array(jsonb_build_object('x', x)),
        notifications => notifications) s;
    for turn in 1 .. 20 loop
        exit when (select done from pawl_bulk.advance()) + (select done from pawl_bulk.run_sql_rows()) = 0;
    end loop;
    return o;
end $$;

-- what is invalid is rejected at once
select throws_ok($$select pawl_bulk.submit('told', rows => '[]', notifications => '["me"]')$$, '22023',
    'a target of notifications must be a JSON object');
select throws_ok($$select pawl_bulk.submit('told', rows => '[]', notifications => '{"channel": "sql"}')$$, '22023',
    'a target of notifications must have channel and target');
select throws_ok(
        $$select pawl_bulk.submit('told', rows => '[]',
            notifications => '{"channel": "sql", "target": "public.told", "trigger": "failure"}')$$, '22023', null,
    'notifications with an unknown trigger are rejected');
select throws_like(
    $$select pawl_bulk.submit('told', rows => '[]',
            notifications => '{"channel": "sql", "target": "public.told", "triggers": ["never"]}')$$,
        'triggers of notifications must be an array of %');
select throws_like(
    $$select pawl_bulk.submit('told', rows => '[]',
            notifications => '{"channel": "sql", "target": "public.told", "triggers": "failure"}')$$,
        'triggers of notifications must be an array of %');

-- triggers
select done_with('good', '[{"channel": "sql", "target": "public.told", "triggers": ["completion", '
        '"completion_with_errors"]}, {"channel": "sql", "target": "public.told", "triggers": ["status_change"]}, '
        '{"channel": "sql", "target": "public.told"}]') as good \gset
select is((select string_agg(payload ->> 'trigger' || ' ' || (payload ->> 'status'), ', ' order by notice)
    from pawl_bulk.notices where operation = :'good'),
    'status_change Validating, status_change Running, status_change Completed, completion Completed',
    'a notice for each event and target that wants to hear of it; failure by default, which this is not');
select is((select count(*) from pawl_bulk.notices n where not exists (select from pawl_bulk.events e
    where e.operation = n.operation and e.event = n.event)), 0::bigint, 'each names its event');
select done_with('bad',
    '{"channel": "sql", "target": "public.told", "triggers": ["completion", "completion_with_errors"]}') as bad \gset
select is((select done from pawl_bulk.run_sql_notices()), 5::bigint, 'the duty delivers them all');
select is((select done from pawl_bulk.run_sql_notices()), 0::bigint, 'a notice is delivered once');
select is((select string_agg(concat_ws(' ', trigger, status, failed, total), ', ' order by key) from told),
    'status_change Validating 0 0, status_change Running 0 1, status_change Completed 0 1, completion Completed 0 1, '
    'completion_with_errors CompletedWithErrors 1 1', 'and says where the operation stood');
select is((select count(*) from told t join pawl_bulk.notices n on n.notice = t.key::uuid and n.state = 'delivered'
    and n.ended_at is not null and n.tries = 1), 5::bigint, 'by the key of the notice');
select is(pawl_bulk.cancel((select operation
        from pawl_bulk.submit('told', rows => '[{"x": 1}]',
            notifications => '{"channel": "sql", "target": "public.told", "triggers": ["cancelled"]}'))),
    true, 'one is cancelled');
select done from pawl_bulk.run_sql_notices() \gset
select is((select string_agg(trigger, ', ') from told where status = 'Cancelled'), 'cancelled', 'and that is notified');
select pawl_bulk.abort((select operation from pawl_bulk.submit('told', rows => '[{"x": 1}]',
    notifications => '{"channel": "sql", "target": "public.told"}')), 'the disk is full');
select is((select payload ->> 'trigger' || ': ' || (payload ->> 'message') from pawl_bulk.notices
    where state = 'ready'), 'failure: the disk is full', 'failures are notified by default');
select done from pawl_bulk.run_sql_notices() \gset

-- an operation whose notifications are invalid, and could be written by no function, still advances
select throws_ok($$insert into pawl_bulk.operations (definition, version, notifications) values ('told', 1, '[7]')$$,
    '22023', 'a target of notifications must be a JSON object', 'nor are such inserted');
alter table pawl_bulk.operations disable trigger written;
insert into pawl_bulk.operations (definition, version, notifications, last_step, track_row_data, sealed)
    values ('told', 1, '[7, {"channel": "sql"}, {"target": 7, "triggers": 8}]', 0, false, true);
alter table pawl_bulk.operations enable trigger written;
select is((select done from pawl_bulk.advance()) > 0, true, 'invalid notifications do not stop the operation');
select is((select count(*) from pawl_bulk.notices where state = 'ready'), 0::bigint, 'and create no notice');

-- a target that fails is asked again, and nothing of what it did remains
delete from told;
select done_with('good', '[{"channel": "sql", "target": "public.moody", "triggers": ["completion"]}, {"channel": '
        '"sql", "target": "public.unknown", "triggers": ["completion"]}]') as o \gset
select done from pawl_bulk.run_sql_notices() \gset
select is((select string_agg(concat_ws(' ', target, state, tries, message, due > now()), ', ' order by target)
        from pawl_bulk.notices where operation = :'o'),
    'public.moody ready 1 not today t, public.unknown ready 1 no function public.unknown(jsonb) t',
    'what fails is tried again after a while');
select is((select count(*) from told), 0::bigint, 'a delivery that failed wrote nothing');
update mood set good = true;
update pawl_bulk.notices set due = now() - interval '1 s' where due is not null;
select done from pawl.fire_due('pawl_bulk.notices') \gset
select done from pawl_bulk.run_sql_notices() \gset
select is((select string_agg(concat_ws(' ', target, state, tries, message), ', ' order by target) from pawl_bulk.notices
        where operation = :'o'),
    'public.moody delivered 2, public.unknown ready 2 no function public.unknown(jsonb)', 'and delivered then');
do $$ begin for i in 3 .. 10 loop
    update pawl_bulk.notices set due = now() - interval '1 s' where due is not null;
    perform from pawl.fire_due('pawl_bulk.notices');
    perform from pawl_bulk.run_sql_notices();
end loop; end $$;
select is((select concat_ws(' ', state, tries, due is null, ended_at is not null) from pawl_bulk.notices
    where operation = :'o' and target = 'public.unknown'), 'failed 10 t t', 'given up after the last try');

-- the functions of a role that may write an operation do not run with the rights of the duty
create role notice_submitter;
create role notice_programmer;
grant pawl_admin to notice_programmer;
create function planted(notice jsonb) returns void
    language sql as $$ insert into public.told values (notice ->> 'key', current_user) $$;
alter function planted(jsonb) owner to notice_submitter;
select done_with('good', '[{"channel": "sql", "target": "public.planted", "triggers": ["completion"]}]') as o \gset
select done from pawl_bulk.run_sql_notices() \gset
select is((select concat_ws(': ', state, message) from pawl_bulk.notices where operation = :'o'),
    'ready: the owner of function public.planted(jsonb) is not a member of pawl_admin',
    'a function whose owner is no admin is not called');
select is((select count(*) from told where trigger = current_user), 0::bigint, 'so it did nothing');
alter function planted(jsonb) owner to notice_programmer;
grant insert on told to notice_programmer;
update pawl_bulk.notices set due = now() - interval '1 s' where due is not null;
select done from pawl.fire_due('pawl_bulk.notices') \gset
select done from pawl_bulk.run_sql_notices() \gset
select is((select state from pawl_bulk.notices where operation = :'o'), 'delivered', 'one of pawl_admin is');
select is((select count(*) from told where trigger = 'notice_programmer'), 1::bigint, 'with the rights of its owner');
delete from told where trigger = 'notice_programmer';
revoke insert on told from notice_programmer;
drop function planted(jsonb);
drop role notice_submitter, notice_programmer;

-- however long the targets of a batch take, the lease of the duty does not end before them
create function patient(notice jsonb) returns void language plpgsql as $$
begin
    if not exists (select from pawl_bulk.notices n where n.notice = (patient.notice ->> 'key')::uuid
        and n.lease_until > clock_timestamp() + interval '1 hour') then raise exception 'hurry'; end if;
end $$;
select done_with('good', '[{"channel": "sql", "target": "public.patient", "triggers": ["completion"]}]') as o \gset
select done from pawl_bulk.run_sql_notices() \gset
select is((select concat_ws(': ', state, message) from pawl_bulk.notices where operation = :'o'), 'delivered',
    'a target has time');

-- channels that others deliver
select done_with('good', '{"channel": "mail", "target": "ops@example.org", "triggers": ["completion"]}') as o \gset
select is((select done from pawl_bulk.run_sql_notices()), 0::bigint, 'the duty leaves other channels alone');
select throws_ok($$select pawl_bulk.claim_notices('w', 'sql')$$, '22023', null,
    'notices of the channel sql cannot be claimed by workers');
select throws_ok($$select pawl_bulk.claim_notices('w', null)$$, '22023', null, 'a claim of notices names a channel');
select throws_ok($$select pawl_bulk.claim_notices('', 'mail')$$, '22004', null,
    'a claim of notices names a processor');
select operation, notice, token, target, payload ->> 'key' as key from pawl_bulk.claim_notices('w1', 'mail') \gset
select is(:'target'::text, 'ops@example.org', 'a notice is claimed');
select is(:'key'::text, :'notice', 'its key is in the payload');
select is((select count(*) from pawl_bulk.claim_notices('w2', 'mail')), 0::bigint,
    'a claimed notice cannot be claimed by another worker');
select is((select ok
        from pawl_bulk.report_notices(
                jsonb_build_array(jsonb_build_object('operation', :'operation', 'notice', :'notice', 'token', :token,
                    'result', 'ok')), 'w2')),
    false, 'another cannot say that it is done');
-- its worker is lost
update pawl_bulk.notices set lease_until = clock_timestamp() + interval '1 ms'
    where notice = :'notice' and set_config('pawl.processor', 'w1', true) is not null;
reset pawl.processor;
do $$ begin
    while (select lease_until > clock_timestamp() from pawl_bulk.notices where state = 'leased') loop
        null;
    end loop;
end $$;
select done from pawl.reap('pawl_bulk.notices') \gset
select is((select state || ' ' || tries from pawl_bulk.notices where notice = :'notice'), 'ready 1',
    'a worker that is lost');
update pawl_bulk.notices set due = now() - interval '1 s' where due is not null;
select operation, notice as again, token as newer,
    payload ->> 'key' as key from pawl_bulk.claim_notices('w2', 'mail') \gset
select is(:'again'::text, :'notice', 'the notice comes again, with the same key');
select is((select problem
        from pawl_bulk.report_notices(
                jsonb_build_array(jsonb_build_object('operation', :'operation', 'notice', :'notice', 'token', :token,
                    'result', 'ok')), 'w1')),
    'PW005: the lease is lost, or the notice is already done', 'the late report is rejected');
select is((select ok
        from pawl_bulk.report_notices(
                jsonb_build_array(jsonb_build_object('operation', :'operation', 'notice', :'notice', 'token', :newer,
                    'result', 'fail', 'message', 'the mailbox is full')), 'w2')), true, 'it may fail');
select is((select concat_ws(' ', state, tries, message) from pawl_bulk.notices where notice = :'notice'),
    'ready 2 the mailbox is full', 'and will be tried again');
update pawl_bulk.notices set due = now() - interval '1 s' where due is not null;
select token from pawl_bulk.claim_notices('w3', 'mail') \gset
select is((select ok
        from pawl_bulk.report_notices(
                jsonb_build_array(jsonb_build_object('operation', :'operation', 'notice', :'notice', 'token', :token,
                    'result', 'ok')), 'w3')),
    true, 'or be delivered');
select is((select concat_ws(' ', state, tries, coalesce(message, 'fine')) from pawl_bulk.notices
    where notice = :'notice'), 'delivered 3 fine', 'which is the end');
-- a lease that ends while a report is handled loses that notice alone
select done_with('good', '[{"channel": "post", "target": "slow", "triggers": ["completion"]}, {"channel": "post", '
        '"target": "quick", "triggers": ["completion"]}]') as o \gset
create function ends_leases() returns trigger language plpgsql as $$
begin
    while old.lease_until > clock_timestamp() loop null; end loop;
    return new;
end $$;
select jsonb_agg(jsonb_build_object('operation', c.operation, 'notice', c.notice, 'token', c.token, 'result', 'ok'))
    as both
  from (select * from pawl_bulk.claim_notices('w4', 'post')) c \gset
update pawl_bulk.notices set lease_until = clock_timestamp() + interval '1 s'
    where operation = :'o' and target = 'slow' and set_config('pawl.processor', 'w4', true) is not null;
create trigger "!slow" before update on pawl_bulk.notices
    for each row when (old.state = 'leased' and old.target = 'slow') execute function ends_leases();
select is((select count(*) from pawl_bulk.report_notices(:'both', 'w4') r where r.problem ~ '^PW005'), 1::bigint,
    'one is lost');
select is((select string_agg(concat_ws(' ', target, state), ', ' order by target) from pawl_bulk.notices
    where operation = :'o'), 'quick delivered, slow leased', 'the other counts');
drop trigger "!slow" on pawl_bulk.notices;
drop function ends_leases();
-- what a report raises is the problem of that notice alone
select done_with('good', '[{"channel": "fax", "target": "broken", "triggers": ["completion"]}, {"channel": "fax", '
        '"target": "fine", "triggers": ["completion"]}]') as o \gset
create function never() returns trigger language plpgsql as $$ begin raise exception 'never' using errcode = 'ZZ001';
    end $$;
create trigger never before update on pawl_bulk.notices
    for each row when (old.state = 'leased' and old.target = 'broken') execute function never();
select jsonb_agg(jsonb_build_object('operation', c.operation, 'notice', c.notice, 'token', c.token, 'result', 'ok'))
    as both
  from (select * from pawl_bulk.claim_notices('w5', 'fax')) c \gset
select is((select string_agg(r.problem, ', ') from pawl_bulk.report_notices(:'both', 'w5') r where not r.ok),
    'ZZ001: never', 'what a report raises is its problem');
select is((select string_agg(concat_ws(' ', target, state), ', ' order by target) from pawl_bulk.notices
    where operation = :'o'), 'broken leased, fine delivered', 'and the other notice is delivered');
drop trigger never on pawl_bulk.notices;
drop function never();
select throws_ok($$select pawl_bulk.report_notices('{}', 'w')$$, '22023', null, 'a report of notices is an array');
select throws_ok($$select pawl_bulk.report_notices('[{"result": "ok"}]', 'w')$$, '22023', null,
    'each element of a report names its notice');
select throws_ok($$update pawl_bulk.notices set state = 'ready' where state = 'delivered'$$, 'PW001', null,
    'a delivered notice does not become ready again');
-- with the rights of an operator, which validates too; a reader only reads
grant select on mood to pawl_operator;
grant insert on told to pawl_operator;
select operation as worked from pawl_bulk.submit('told',
    rows => (select jsonb_agg(jsonb_build_object('x', 'good')) from generate_series(1, 6000)),
    notifications => '{"channel": "sql", "target": "public.told", "triggers": ["completion"]}') \gset
set role pawl_operator;
select done from pawl_bulk.advance() \gset
select is((select done from pawl_bulk.run_sql_rows(5000)), 5000::bigint,
    'a session that runs SQL handlers helps to validate');
select is((select string_agg(first_row || ' to ' || last_row, ', ') from pawl_bulk.unvalidated), '5001 to 6000',
    'block by block');
do $$ begin
    while (select a.done + r.done from pawl_bulk.advance() a, pawl_bulk.run_sql_rows() r) > 0 loop
        null;
    end loop;
end $$;
select is((select status from pawl_bulk.operations where operation = :'worked'), 'Completed',
    'an operator can do all of it');
select is((select done from pawl_bulk.run_sql_notices()), 1::bigint, 'and tell of it');
set role pawl_worker;
select throws_ok($$select pawl_bulk.run_sql_notices()$$, '42501', null, 'a worker runs no functions');
select throws_ok($$delete from pawl_bulk.unvalidated$$, '42501', null, 'a worker cannot delete blocks of rows');
select throws_ok($$insert into pawl_bulk.notices (operation, event, channel, target, asked_by, payload)
        select operation, operation, 'mail', 'me', 'me', '{}' from pawl_bulk.operations limit 1$$, '42501', null,
    'a worker cannot insert notices');
select throws_ok($$update pawl_bulk.notices set target = 'public.moody'$$, '42501', null,
    'a worker cannot change the target');
set role pawl_reader;
select throws_ok($$select pawl_bulk.run_sql_notices()$$, '42501', null, 'pawl_reader cannot run notices');
select throws_ok($$select pawl_bulk._take_unvalidated('00000000-0000-0000-0000-000000000000', 1)$$, '42501', null,
    'pawl_reader cannot take blocks of rows');
reset role;
-- no worker makes a block go that is not validated; were it gone all the same, it is found
select operation as lost from pawl_bulk.submit('told',
    rows => (select jsonb_agg(jsonb_build_object('x', 'good')) from generate_series(1, 6000))) \gset
select done from pawl_bulk.advance() \gset
select is_empty(format('select * from pawl_bulk.verify(%L)', :'lost'), 'nothing is wrong while it waits');
set role pawl_worker;
select first_row, last_row from pawl_bulk._take_unvalidated(:'lost', 700) \gset
select throws_ok(format('select pawl_bulk._end_unvalidated(%L, %s)', :'lost', :first_row), '55000',
    format('row %s of operation %s is not validated', :first_row, :'lost'));
reset role;
select is((select string_agg(first_row || ' to ' || last_row, ', ' order by first_row) from pawl_bulk.unvalidated
        where operation = :'lost'), format('%s to %s, %s to 5000, 5001 to 6000',
    :first_row, :last_row, :last_row + 1), 'a worker that claims a block and does not validate it has divided it');
select is_empty(format('select * from pawl_bulk.verify(%L)', :'lost'), 'and nothing is wrong with that');
delete from pawl_bulk.unvalidated where operation = :'lost' and first_row = :first_row;
select is((select problem || ': ' || detail from pawl_bulk.verify(:'lost')),
    'rows without a block to validate them: 700 rows from row ' || :first_row || ' on', 'a lost block');
select is(pawl_bulk.cancel(:'lost'), true);
select is_empty(format('select * from pawl_bulk.verify(%L)', :'lost'),
    'what is cancelled validates nothing more, and nothing is wrong with that');
-- a function is called only for a submitter that may call it, whatever name the submitter gives
create role notices_worker in role pawl_worker;
grant insert on told to notices_worker;
create function secret(notice jsonb) returns void language sql as $$ select public.told(notice) $$;
revoke execute on function secret from public;
set role notices_worker;
select operation as asked from pawl_bulk.submit('told', rows => '[]', created_by => 'postgres',
    notifications => '{"channel": "sql", "target": "public.secret", "triggers": ["completion"]}') \gset
select throws_ok(format('update pawl_bulk.operations set notified_by = ''postgres'' where operation = %L', :'asked'),
    '42501', null, 'the column that names the submitter cannot be written by hand');
reset role;
do $$ begin while (select done from pawl_bulk.advance()) > 0 loop null; end loop; end $$;
select done from pawl_bulk.run_sql_notices() \gset
select is((select state || ' for ' || asked_by || ': ' || message from pawl_bulk.notices where operation = :'asked'),
    'ready for notices_worker: role "notices_worker", which requested it, lacks EXECUTE on function '
    'public.secret(jsonb)',
    'what the submitter may not execute is not executed on its behalf');
grant execute on function secret to notices_worker;
update pawl_bulk.notices set due = clock_timestamp() where operation = :'asked';
select from pawl.fire_due('pawl_bulk.notices');
select done from pawl_bulk.run_sql_notices() \gset
select is((select state from pawl_bulk.notices where operation = :'asked'), 'delivered', 'and what it may execute is');
-- what has ended is kept for as long as was declared
select count(*) as ended from pawl_bulk.notices where ended_at is not null \gset
select is((select done from pawl_bulk.prune_notices()), 0::bigint, 'for thirty days');
update pawl_bulk.notices set ended_at = ended_at - interval '31 days' where operation = :'asked';
select pawl_bulk.keep_notices(null);
select is((select done from pawl_bulk.prune_notices()), 0::bigint, 'notices without a retention are not pruned');
select pawl_bulk.keep_notices('7 days');
set role notices_worker;
select is((select done from pawl_bulk.prune_notices()), 1::bigint, 'a worker prunes what was declared');
select throws_ok($$select pawl_bulk.keep_notices('0')$$, '42501', null, 'but declares nothing');
reset role;
select is((select count(*) from pawl_bulk.notices where ended_at is not null), :ended::bigint - 1,
    'and the others stay');
-- one that cannot be recorded stops no other, and what it did is undone
create function raises() returns trigger language plpgsql as $$ begin raise 'bad notice'; end $$;
select done from pawl_bulk.run_sql_notices(10000) \gset
select done_with('good', '{"channel": "sql", "target": "public.told", "triggers": ["completion"]}') as bad,
    done_with('good', '{"channel": "sql", "target": "public.told", "triggers": ["completion"]}') as good \gset
create function states() returns text language sql as $$
    select string_agg(concat_ws(' ', n.state, n.message, t.status), ', ' order by n.notice)
      from pawl_bulk.notices n left join public.told t on t.key = n.payload ->> 'key'
     where n.operation in (current_setting('test.bad')::uuid, current_setting('test.good')::uuid) $$;
select set_config('test.bad', :'bad', false), set_config('test.good', :'good', false) \gset x_
select format('create trigger raises before update on pawl_bulk.notices for each row
    when (new.operation = %L and new.state = ''delivered'') execute function raises()', :'bad') \gexec
set client_min_messages = error;
select is((select done from pawl_bulk.run_sql_notices()), 1::bigint, 'a notice is delivered, and one raises an error');
select is(states(), 'leased bad notice, delivered Completed', 'what that one did is undone');
select ok((select lease_until < clock_timestamp() + interval '5 s' from pawl_bulk.notices where operation = :'bad'),
    'it is tried again soon');
select done_with('good', '{"channel": "sql", "target": "public.told", "triggers": ["completion"]}') as good \gset
select set_config('test.good', :'good', false) \gset x_
begin;
set local session_replication_role = replica;
update pawl_bulk.notices set state = 'ready', worker = null, lease_until = null where operation = :'bad';
commit;
call pawl_bulk.work_sql_notices();
select is(states(), 'leased bad notice, delivered Completed', 'also in transactions of their own');
set client_min_messages = warning;
drop trigger raises on pawl_bulk.notices;
-- they go with their operation
delete from pawl_bulk.operations where operation = :'o';
select is((select count(*) from pawl_bulk.notices where operation = :'o'), 0::bigint,
    'notices go with their operation');
select * from finish();
