-- The rules for changes of an owned row (docs/internals/ownership.md), each kept and each broken.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/owned.psql

-- 1. States that are not owned have no owner; owned ones are entered only with one ------------------------------------
insert into job (id) select generate_series(1, 30);
select rejected($$update job set state = 'running' where id = 1$$, 'PW004', 'entering an owned state needs an owner');
select rejected($$update job set owner = 'w1' where id = 1$$, 'PW004',
    'a row in a state without owners is given no owner');
select rejected($$update job set lease = now() where id = 1$$, 'PW004', 'nor a lease');
select rejected($$update job set token = 7 where id = 1$$, 'PW005', 'nor a token');
select rejected($$insert into job (id, owner) values (100, 'w1')$$, 'PW004', 'nor does it begin with an owner');
select rejected($$insert into job (id, lease) values (100, now())$$, 'PW004', 'nor with a lease');
select holds($$update job set state = 'running', owner = 'w1' where id = 1$$, 1, 'running w1 1 1 60',
    'claimed by naming the owner in the statement');
select holds($$set pawl.processor = 'w1'; update job set state = 'running' where id = 2$$, 2, 'running w1 1 1 60',
    'claimed by the setting');
select holds($$update job set state = 'running', owner = 'w1', lease = clock_timestamp() + '10 min' where id = 3$$, 3,
    'running w1 1 1 600', 'for as long as the statement says');
select rejected(format('update job set state = ''running'', owner = ''w1'', lease = %s where id = 4', l), '22023',
    'but not until ' || l) from unnest('{''infinity'',now() + ''101 years''}'::text[]) l;
select rejected(format('update job set lease = %s, owner = ''w1'' where id = 3', l), '22023',
    'nor is a lease extended until ' || l) from unnest('{''infinity'',now() + ''101 years''}'::text[]) l;
select holds($$select pawl.fire('job', 4, 'start', processor => 'w1')$$, 4, 'running w1 1 1 60', 'claimed by fire');
select holds($$insert into job_transitions (subject_id, event, processor) values (5, 'start', 'w1')$$, 5,
    'running w1 1 1 60', 'claimed by INSERT into the log');
select holds($$update job set state = 'ready', owner = null where id = 1$$, 1, 'running w1 1 1 60',
    'without a processor it is not given back', 'PW004');

-- 2. Only the owner changes the state of an owned row -----------------------------------------------------------------
select rejected($$update job set state = 'done' where id = 1$$, 'PW004', 'no processor');
select rejected($$set pawl.processor = 'w2'; update job set state = 'done' where id = 1$$, 'PW004',
    'another processor, by the setting');
select rejected($$set pawl.processor = 'w1'; update job set state = 'done', owner = 'w2' where id = 1$$, 'PW004',
    'another processor, by the statement, which goes before the setting');
select rejected($$select pawl.fire('job', 1, 'finish')$$, 'PW004', 'fire without a processor');
select rejected($$set pawl.processor = 'w1'; select pawl.fire('job', 1, 'finish', processor => 'w2')$$, 'PW004',
    'fire by another, which goes before the setting');
select rejected($$insert into job_transitions (subject_id, to_state) values (1, 'done')$$, 'PW004',
    'INSERT into the log, without a processor');
select rejected($$insert into job_transitions (subject_id, to_state, processor) values (1, 'done', 'w2')$$, 'PW004',
    'INSERT into the log, by another processor');
select rejected($$update job set state = 'done' where id in (1, 2, 3)$$, 'PW004', 'many at once');
select is((select array_agg(concat_ws(' ', key, ok, sqlstate))
    from pawl.fire_many('job', array[1, 2, 20, 99], 'finish', processor => 'w2')),
    array['1 f PW004', '2 f PW004', '20 f PW001', '99 f P0002'], 'fire_many tells each key its reason');
select holds($$set pawl.processor = 'w1'; update job set state = 'done' where id = 1$$, 1, 'done - 1 1 -',
    'the owner, by the setting: the row is free of owner and lease, the token stays');
select holds($$update job set state = 'done', owner = 'w1' where id = 2$$, 2, 'done - 1 1 -',
    'the owner, by the statement');
select holds($$select pawl.fire('job', 3, 'finish', processor => 'w1')$$, 3, 'done - 1 1 -', 'the owner, by fire');
select holds($$insert into job_transitions (subject_id, to_state, processor) values (4, 'done', 'w1')$$, 4,
    'done - 1 1 -', 'the owner, by INSERT into the log');
select is((select array_agg(concat_ws(' ', key, ok)) from pawl.fire_many('job', array[5], 'finish', processor => 'w1')),
    array['5 t'], 'the owner, by fire_many');
select is((select string_agg(processor, ' ' order by sort_key) from job_transitions where subject_id = 4), 'w1 w1',
    'the log names the processor');

-- Fencing: a token that a write shows must be the row's, in whichever way it is shown.
select take(6, 'w1');
select rejected($$set pawl.processor = 'w1'; set pawl.token = 9; update job set state = 'done' where id = 6$$, 'PW005',
    'a stale token, by the setting');
select rejected($$update job set state = 'done', owner = 'w1', token = 9 where id = 6$$, 'PW005',
    'a stale token, by the statement');
select rejected($$select pawl.fire('job', 6, 'finish', processor => 'w1', token => 9)$$, 'PW005',
    'a stale token, by fire');
select rejected($$select pawl.set_context(processor => 'w1', token => 9);
            insert into job_transitions (subject_id, to_state) values (6, 'done')$$,
    'PW005', 'a stale token, by the context, for INSERT into the log');
select is((select array_agg(concat_ws(' ', key, ok, sqlstate))
    from pawl.fire_many('job', array[6, 7], 'finish', processor => 'w1', tokens => array[9, null])),
    array['6 f PW005', '7 f PW001'], 'a stale token, by fire_many');
select rejected($$select * from pawl.fire_many('job', array[6, 7], 'finish', tokens => array[1])$$, '2202E',
    'as many tokens as keys');
select rejected($$set pawl.token = 5; update job set state = 'running', owner = 'w1' where id = 7$$, 'PW005',
    'a token that is not the row''s takes none either');
select rejected($$set pawl.token = 'x'$$, '22023', 'a token is a number');
select holds($$update job set state = 'done', owner = 'w1', token = 1 where id = 6$$, 6, 'done - 1 1 -',
    'the right token, by the statement');
select take(7, 'w1');
select holds($$set pawl.processor = 'w1'; set pawl.token = 1; update job set state = 'done' where id = 7$$, 7,
    'done - 1 1 -', 'the right token, by the setting');
select take(8, 'w1'), take(9, 'w1');
update job set note = 'x' where id = 9;
select is((select array_agg(concat_ws(' ', key, ok))
        from pawl.fire_many('job', array[8, 9], 'finish', processor => 'w1', tokens => array[1, 1])),
    array['8 t', '9 t'], 'the right tokens, by fire_many');
select take(10, 'w1', 5), take(11, 'w1', 6);
set pawl.token = 5;
select is((select array_agg(concat_ws(' ', key, ok))
        from pawl.fire_many('job', array[10, 11], 'finish', processor => 'w1', tokens => array[5, 6])),
    array['10 t', '11 t'], 'tokens for each key go before that of the setting');
reset pawl.token;

-- An expired lease is lost even before the row is claimed again.
select take(12, 'w1');
select expire_lease(12);
select rejected($$set pawl.processor = 'w1'; update job set state = 'done' where id = 12$$, 'PW005',
    'the owner is late');
select rejected($$set pawl.processor = 'w1'; update job set lease = clock_timestamp() + '1 min' where id = 12$$,
    'PW005', 'too late to extend the lease');
select is((select pawl.heartbeat('job', 'w1')), 0::bigint, 'a heartbeat comes too late, and says so');
select rejected($$select pawl.fire('job', 12, 'finish', processor => 'w1')$$, 'PW005', 'late, by fire');
select is((select array_agg(concat_ws(' ', key, ok, sqlstate))
    from pawl.fire_many('job', array[12], 'finish', processor => 'w1')), array['12 f PW005'], 'late, by fire_many');
select is((select done from pawl.reap('job')), 1::bigint, 'it is reaped');
select is(seen(12), 'ready - 2 1 -', 'the row is back, and the token has grown');
select results_eq($$select event, metadata ->> 'lost_owner', metadata ->> 'token', metadata ? 'lease'
    from job_transitions where subject_id = 12 order by sort_key desc limit 1$$,
    $$values ('expire', 'w1', '1', true)$$, 'the log names the owner that lost it');
select holds($$set pawl.processor = 'w2'; update job set state = 'running' where id = 12$$, 12, 'running w2 3 2 60',
    'the next one takes it');
select rejected($$set pawl.processor = 'w1'; set pawl.token = 1; update job set state = 'done' where id = 12$$, 'PW005',
    'the former owner with its token');
select rejected($$set pawl.processor = 'w1'; update job set state = 'done' where id = 12$$, 'PW004',
    'the former owner without');
select rejected($$select pawl.fire('job', 12, 'expire')$$, 'PW004',
    'a lease that has not expired cannot be ended by others');
select holds($$select pawl.fire('job', 12, 'expire', processor => 'w2')$$, 12, 'ready - 3 2 -',
    'its owner gives it up: the token stays');
select take(13, 'w1'), expire_lease(13);
select holds($$select pawl.fire('job', 13, 'expire')$$, 13, 'ready - 2 1 -',
    'any session can fire the event of an expired lease');
select take(14, 'w1'), expire_lease(14);
select holds($$set pawl.event = 'expire'; update job set state = 'ready' where id = 14$$, 14, 'ready - 2 1 -',
    'by plain SQL as well');

-- 3. What taking does -------------------------------------------------------------------------------------------------
select holds($$update job set state = 'running', owner = 'w2' where id = 14$$, 14, 'running w2 3 2 60',
    'token and attempts grow with every taking');
select holds($$set pawl.processor = 'w2'; update job set state = 'reviewing' where id = 14$$, 14, 'reviewing w2 3 2 60',
    'from one owned state to another they stay, as does the owner');
select holds($$set pawl.processor = 'w2'; update job set state = 'running', lease = clock_timestamp() + '5 min'
    where id = 14$$, 14, 'running w2 3 2 300', 'a state change may extend the lease');
select holds($$set pawl.processor = 'w2'; update job set state = 'reviewing', attempts = 0 where id = 14$$, 14,
    'reviewing w2 3 0 300', 'attempts may be counted otherwise');
select holds($$update job set state = 'running', owner = 'w1', attempts = 7 where id = 15$$, 15, 'running w1 1 7 60',
    'also when the row is taken');

-- 4. Without a state change -------------------------------------------------------------------------------------------
select take(16, 'w1');
select rejected($$update job set owner = 'w2' where id = 16$$, 'PW004', 'an owned row is not taken over');
select rejected($$update job set owner = null where id = 16$$, 'PW004', 'nor made free');
select rejected($$set pawl.processor = 'w1'; update job set owner = 'w2' where id = 16$$, 'PW004',
    'nor given to another');
select rejected($$update job set token = 2, owner = 'w1' where id = 16$$, 'PW005', 'its token stays');
select rejected($$update job set token = null where id = 16$$, 'PW005', 'its token stays, whatever it is to become');
select rejected($$update job set lease = clock_timestamp() + '1 h' where id = 16$$, 'PW004',
    'without a processor its lease is not extended');
select rejected($$set pawl.processor = 'w2'; update job set lease = clock_timestamp() + '1 h' where id = 16$$, 'PW004',
    'nor does another');
select rejected($$set pawl.processor = 'w1'; set pawl.token = 4;
    update job set lease = clock_timestamp() + '1 h' where id = 16$$, 'PW005', 'nor its owner with an old token');
select rejected($$set pawl.processor = 'w1'; update job set lease = null where id = 16$$, 'PW004',
    'a lease has an end');
select holds($$set pawl.processor = 'w1'; update job set lease = clock_timestamp() + '1 h' where id = 16$$, 16,
    'running w1 1 1 3600', 'its owner extends it');
select holds($$update job set note = 'by any session', attempts = 3, max_attempts = 9 where id = 16$$, 16,
    'running w1 1 3 3600', 'columns that the binding does not keep can be written by any session');

-- A row without an owner in an owned state: left so by an expiry event that stays in the state.
select take(17, 'w1'), pawl.fire('job', 17, 'check', processor => 'w1'), expire_lease(17);
select is((select done from pawl.reap('job')), 1::bigint, 'reaped where it stands');
select is(seen(17), 'reviewing - 2 1 -', 'the state stays, the owner is gone, the token has grown');
select rejected($$set pawl.processor = 'w1'; update job set state = 'done' where id = 17$$, 'PW004',
    'its former owner cannot complete it, although it has no other owner');
select rejected($$select pawl.fire('job', 17, 'accept', processor => 'w1')$$, 'PW004', 'nor by fire');
select rejected($$set pawl.processor = 'w1'; set pawl.token = 1; update job set state = 'done' where id = 17$$, 'PW005',
    'nor with its token');
select rejected($$set pawl.token = 1; update job set owner = 'w1' where id = 17$$, 'PW005',
    'nor can it claim the row again with that token');
select rejected($$update job set owner = 'w1', token = 1 where id = 17$$, 'PW005',
    'in whatever way the token is shown');
select rejected($$update job set lease = now() where id = 17$$, 'PW004', 'there is no lease to extend');
select holds($$update job set owner = 'w2', lease = clock_timestamp() + '2 min' where id = 17$$, 17,
    'reviewing w2 3 1 120', 'any session may claim it by setting the owner');
select rejected($$update job set owner = 'w3' where id = 17$$, 'PW004', 'but only one');
select expire_lease(17), pawl.reap('job');
select holds($$update job set owner = 'w3', state = 'done' where id = 17$$, 17, 'done - 4 1 -',
    'taken and finished at once');
select take(18, 'w1'), pawl.fire('job', 18, 'check', processor => 'w1'), expire_lease(18), pawl.reap('job');
select holds($$select pawl.fire('job', 18, 'redo', processor => 'w2')$$, 18, 'running w2 3 1 60',
    'and by a state change to another owned state');

-- Operator events: for members of pawl_operator and the owner of the table; they make the owner's token stale.
select take(19, 'w1'), take(20, 'w1');
create role ops; create role other_worker; grant pawl_operator to ops; grant select, update on job to ops, other_worker;
grant select on job_transitions to ops, other_worker;
set role other_worker;
select rejected($$update job set state = 'gone' where id = 19$$, 'PW004', 'an operator event needs an operator');
select rejected($$set pawl.processor = 'w2'; select pawl.fire('job', 19, 'cancel')$$, 'PW004',
    'another worker is none');
select holds($$set pawl.processor = 'w1'; select pawl.fire('job', 20, 'cancel')$$, 20, 'gone - 1 1 -',
    'the owner may do what an operator may');
set role ops;
select holds($$update job set state = 'gone' where id = 19$$, 19, 'gone - 2 1 -',
    'an operator takes it away, and the token grows');
reset role;
select is((select metadata ->> 'lost_owner' from job_transitions where subject_id = 19 order by sort_key desc limit 1),
    'w1', 'and the log names the owner');
select take(21, 'w1');
select holds($$select pawl.fire('job', 21, 'cancel', '{"why": "test"}')$$, 21, 'gone - 2 1 -',
    'the table''s owner is an operator too');
select is((select metadata from job_transitions where subject_id = 21 order by sort_key desc limit 1) - 'lease',
    '{"why": "test", "lost_owner": "w1", "token": 1}'::jsonb,
    'the owner that was lost is added to the caller''s metadata');

-- Rows that begin in an owned state -----------------------------------------------------------------------------------
select rejected($$insert into job (id, state) values (101, 'running')$$, 'PW002',
    'not every owned state is a first one');
select rejected($$insert into job (id, state) values (101, 'adopted')$$, 'PW004',
    'an owned first state needs an owner');
select holds($$insert into job (id, state, owner) values (101, 'adopted', 'w1')$$, 101, 'adopted w1 1 0 60',
    'which the statement names');
select holds($$set pawl.processor = 'w1'; insert into job (id, state) values (102, 'adopted')$$, 102,
    'adopted w1 1 0 60', 'or the setting');
select holds($$insert into job (id, state, owner, lease, token) values (103, 'adopted', 'w1',
    clock_timestamp() + '2 min', 40)$$, 103, 'adopted w1 40 0 120', 'with whatever lease and token');
\copy job (id, state, owner) from stdin
104	adopted	w1
105	ready	\N
\.
select is(seen(104), 'adopted w1 1 0 60', 'COPY of an owned row');
select is(seen(105), 'ready - 0 0 -', 'and of one that is not');
insert into job (id, state) values (105, 'ready') on conflict (id) do update set state = 'running', owner = 'w5';
select is(seen(105), 'running w5 1 1 60', 'INSERT ... ON CONFLICT DO UPDATE takes');
select rejected($$insert into job (id, state) values (105, 'ready') on conflict (id) do update set state = 'done'$$,
    'PW004', 'and is validated');
select rejected($$merge into job using (values (105)) v(id) on job.id = v.id
    when matched then update set state = 'done', owner = 'w2'$$, 'PW004', 'as is MERGE');
merge into job using (values (105)) v(id) on job.id = v.id when matched then update set state = 'done', owner = 'w5';
select is(seen(105), 'done - 1 1 -', 'MERGE by the owner');

-- Triggers of the owner's that touch what is kept
create function meddle() returns trigger language plpgsql as $$
begin
    if new.note = 'owner' then new.owner := 'w2'; end if;
    if new.note = 'lease' then new.lease := clock_timestamp() + '7 min'; end if;
    if new.note = 'token' then new.token := new.token + 1; end if;
    return new;
end $$;
create trigger zz_meddle before update on job for each row execute function meddle();
select rejected($$set pawl.processor = 'w1'; update job set note = 'owner' where id = 16$$, 'PW004',
    'a trigger that changes the owner');
select rejected($$set pawl.processor = 'w1'; update job set state = 'done', note = 'owner' where id = 16$$, 'PW004',
    'also in a state change: the owner column then names the processor');
select rejected($$set pawl.processor = 'w1'; update job set note = 'token' where id = 16$$, 'PW005',
    'a trigger that changes the token');
select holds($$set pawl.processor = 'w1'; update job set note = 'lease' where id = 16$$, 16, 'running w1 1 3 420',
    'a trigger that extends the lease, for the owner');
select holds($$update job set state = 'running', note = 'owner' where id = 22$$, 22, 'running w2 1 1 60',
    'a trigger that names the new owner');
drop trigger zz_meddle on job;

-- A trigger that runs last, because no name sorts after its own: the processor of its state changes has not been
-- checked, so they are rejected.
create function late_move() returns trigger language plpgsql as $$
begin
    if new.note = 'late' then new.state := 'done'; end if;
    return new;
end $$;
select take(23, 'w1');
select format('create trigger %I before update on job for each row execute function late_move()',
    repeat('~', 63)) \gexec
select rejected($$update job set note = 'late' where id = 23$$, '55000',
    'a row that a later trigger changes without a processor');
select rejected($$set pawl.processor = 'w1'; update job set state = 'reviewing', note = 'late' where id = 23$$, '55000',
    'or elsewhere than its owner meant');
select holds($$set pawl.processor = 'w1'; update job set state = 'done' where id = 23$$, 23, 'done - 1 1 -',
    'its owner completes it as before, although it is validated late');
select format('drop trigger %I on job', repeat('~', 63)) \gexec

-- Nothing is checked in the replica role: rows come as they are elsewhere.
set session_replication_role = replica;
update job set owner = 'elsewhere', token = 77 where id = 16;
reset session_replication_role;
select is(seen(16), 'running elsewhere 77 3 420', 'the replica role leaves the columns alone');
update job set note = null where id = 16;
select pawl.release('job');
select pawl.enforce('job', 'state', 'owned_job', always => true), pawl.enable_log('job', 'state'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.set_claiming('job', 'state', on_expiry => 'expire');
set session_replication_role = replica;
update job set owner = 'w9', token = 78, lease = clock_timestamp() + '1 min' where id = 16;
update job set state = 'done', owner = null, lease = null where id = 16;
insert into job (id, state) values (110, 'adopted');
reset session_replication_role;
select is(seen(16), 'done - 78 3 -', 'with triggers that always fire: validated, and the columns are not kept');
select is(seen(110), 'adopted - 0 0 -', 'rows come as they are elsewhere');

-- pawl.upgrade with remap: owners of rows that leave the owned states are gone, and their tokens are stale.
create table up (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token int not null default 0, due timestamptz);
select pawl.define('up', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : expire
    done --> [*]
    class running owned$$);
select pawl.enforce('up', 'state', 'up'), pawl.enable_log('up', 'state'),
    pawl.enable_queue('up', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.enable_timers('up', 'state', due => 'due'), pawl.set_claiming('up', 'state', on_expiry => 'expire');
insert into up (id) values (1), (2);
update up set state = 'running', owner = 'w1' where id = 1;
select pawl.define('up', $$stateDiagram-v2
    [*] --> ready
    ready --> working : start
    working --> done : finish
    working --> ready : expire
    ready --> late : wait after 1 hour
    late --> done : drop
    done --> [*]
    class working owned$$);
select pawl.upgrade('up', remap => '{"running": "ready"}');
select results_eq($$select id, state, owner, lease, token, due > now() from up order by id$$,
    $$values (1, 'ready', null::text, null::timestamptz, 1 + 1, true), (2, 'ready', null, null, 0, null)$$,
    'a remapped row has no owner, a token that has grown, and the timer of its state');
select is_empty($$select * from pawl.verify('up') where problem <> 'timer_missing'$$, 'and verify agrees');

select is_empty($$select * from pawl.verify('job') where key <> '110'$$, 'the records agree with the rows');
select * from finish();
