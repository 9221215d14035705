-- Rows in states that the machine does not have: they were written while nothing was
-- enforced, and no transition leaves them.
\set QUIET 1
select no_plan();
create table jobs (id integer primary key, state text);
select pawl.define('job', 'stateDiagram-v2
    [*] --> queued : enqueue
    queued --> done : finish');
insert into jobs values (1, 'queued'), (2, 'queued');
select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs', 'state');

set session_replication_role = replica;
update jobs set state = 'lost' where id = 1;
update jobs set state = null where id = 2;
reset session_replication_role;

select throws_ok($$update jobs set state = 'queued' where id = 1$$, 'PW001',
    'no transition from "lost" to "queued" in machine "job"',
                 'not even into an initial state: the row is not new');
select throws_ok($$update jobs set state = 'done' where id = 1$$, 'PW001', null, 'nor into another');
select throws_ok($$update jobs set state = 'queued' where id = 2$$, 'PW001',
    'no transition from null to "queued" in machine "job"', 'nor from null');
select throws_ok($$select pawl.fire('jobs', 1, 'finish')$$, 'PW001', null, 'nor by event');
select is_empty($$select * from pawl.available('jobs', 1)$$, 'nothing is open');
select lives_ok($$update jobs set id = id where id = 1$$, 'the rest of the row may be written');
select results_eq($$select key, problem from pawl.verify('jobs') where problem = 'unknown_state' order by 1$$,
                  $$values ('1', 'unknown_state'), ('2', 'unknown_state')$$, 'pawl.verify finds them');

select is(pawl.define('job', 'stateDiagram-v2
    [*] --> queued : enqueue
    queued --> done : finish
    queued --> [*]'), 2, 'a next version');
select throws_ok($$select pawl.upgrade('jobs', remap => '{"lost": "queued"}')$$, 'PW008', null,
    'is not enforced while a row is in no state of it');
set session_replication_role = replica;
delete from jobs where id = 2;
reset session_replication_role;
select is(pawl.upgrade('jobs', remap => '{"lost": "queued"}'), 2, 'takes the strange row along');
select lives_ok($$update jobs set state = 'done' where id = 1$$, 'and it moves on');
select throws_ok($$alter table jobs alter column state type varchar(20) using 'queued'$$, '2BP01',
                 'column "state" of table public.jobs is a state column: its values cannot be rewritten',
                 'ALTER TYPE USING cannot move rows');
select lives_ok($$alter table jobs alter column state type varchar(20)$$, 'the type alone may change');
select lives_ok($$alter table jobs alter column state type text$$, 'the type of a state column can be changed back');
select pawl.release('jobs');
select throws_ok($$insert into jobs_transitions (subject_id, to_state) values (1, 'queued')$$, 'PW006',
                 'the log "jobs_transitions_log" is closed',
                 'after its release a log takes nothing in, also from its owner');
select * from finish();
