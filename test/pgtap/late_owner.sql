-- An owner that writes after its row has gone on without it: whatever became of the row,
-- the token of its claim is rejected with PW005.
\set QUIET 1
set client_min_messages to error;
select no_plan();
select pawl.define('late', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : complete
    running --> ready : expire
    running --> checked : check
    checked --> [*]
    done --> [*]
    class running owned$$) as version \gset
create table late (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, result int);
select pawl.enforce('late', 'state', 'late'), pawl.enable_log('late', 'state'),
    pawl.enable_queue('late', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.set_claiming('late', 'state', claim => '{start}', on_expiry => 'expire');
insert into late select generate_series(1, 3);

-- anna loses all three: 1 lies ready, 2 is bob's, 3 was finished by bob.
select count(*) from pawl.claim(null::late, processor => 'anna', lease => '1 ms', batch => 3) \gset
do $$ begin
    while exists (select from late where lease >= clock_timestamp()) loop
        perform pg_sleep(0.001);
    end loop;
end $$;
select is((select done from pawl.reap('late')), 3::bigint, 'all three leases have run out');
update late set state = 'running', owner = 'bob' where id > 1;
select pawl.fire('late', 3, 'complete', processor => 'bob') \gset
select results_eq($$select id, state, owner, token from late order by id$$,
    $$values (1, 'ready', null, 2::bigint), (2, 'running', 'bob', 3::bigint), (3, 'done', null, 3::bigint)$$,
    'the three rows of the former owner are ready, running and done');

select throws_like(format($$update late set state = 'done', result = 7, token = 1 where id = %s$$, i),
    'fencing token 1 does not match the row', 'an UPDATE that names the token: row ' || i) from generate_series(1, 3) i;
select throws_ok(format($$update late set state = 'checked', token = 1 where id = %s$$, i), 'PW005', null,
    'to another state: row ' || i) from generate_series(1, 3) i;
select throws_ok(format($$select pawl.fire('late', %s, 'complete', processor => 'anna', token => 1)$$, i), 'PW005',
    null, 'fire: row ' || i) from generate_series(1, 3) i;
select results_eq($$select key, ok, sqlstate
    from pawl.fire_many('late', array[1, 2, 3], 'complete', processor => 'anna', tokens => '{1, 1, 1}')$$,
    $$values ('1', false, 'PW005'), ('2', false, 'PW005'), ('3', false, 'PW005')$$,
    'fire_many rejects the reports of a former owner one by one');
set pawl.processor = 'anna';
set pawl.token = 1;
select throws_ok(format($$update late set state = 'done' where id = %s$$, i), 'PW005', null,
    'the setting pawl.token: row ' || i) from generate_series(1, 3) i;
select throws_ok($$update late set result = 7 where id = 3$$, 'PW005', null, 'also for a write that changes no state');
select throws_ok($$insert into late_transitions (subject_id, event) values (1, 'complete')$$, 'PW005', null,
    'INSERT into the log');
reset pawl.token;

-- With the token of the row, or none, the machine decides.
select throws_ok($$update late set state = 'done', token = 2 where id = 1$$, 'PW001', null,
    'the newest token allows no transition that the machine does not have');
select throws_ok($$select pawl.fire('late', 3, 'complete', token => 3)$$, 'PW001', null,
    'an owner that repeats a completion without an answer learns that it is done');
select throws_ok($$update late set state = 'done' where id = 1$$, 'PW001', null,
    'without a token a late write of the former owner is like any other');
select is((select count(*) from late where result is not null), 0::bigint, 'nothing of it was written');
select is_empty($$select * from pawl.verify('late')$$, 'verify finds nothing');

-- The lease of the next owner has expired as well, and the expiry leads where the late
-- write wants to go: the token decides.
reset pawl.processor;
insert into late values (4);
select count(*) from pawl.claim(null::late, processor => 'carl', lease => '1 ms', batch => 1, event => 'start') \gset
do $$ begin
    while exists (select from late where owner = 'carl' and lease >= clock_timestamp()) loop
        perform pg_sleep(0.001);
    end loop;
end $$;
select id as claimed, token as newest from late where owner = 'carl' \gset
select throws_ok(format($$update late set state = 'ready', result = 7, token = %s where id = %s$$, :newest - 1,
        :claimed), 'PW005', null, 'an UPDATE under a stale token is not taken for the expiry of the newer claim');
select throws_ok(format($$select pawl.fire('late', %s, 'expire', token => %s)$$, :claimed, :newest - 1), 'PW005', null,
    'nor does fire expire it');
select lives_ok(format($$select pawl.fire('late', %s, 'expire')$$, :claimed), 'without a token it expires');
select * from finish();
