-- The guards of tasks that are in C++ say what their rules say, of every row that can be.
\set QUIET 1
set client_min_messages = warning;
create extension if not exists pawl_saga;
select plan(7);
create temporary table rows as
select jsonb_populate_record(null::pawl_saga.tasks,
    jsonb_build_object('blockers', b, 'intention', i, 'due_at', d)) as task
  from (values (0), (1), (2)) b(b), unnest('{EXECUTE,REVERT,IGNORE}'::text[]) i, (values (null), ('infinity')) d(d);
create view pairs as
select o.task as old, n.task as new, (o.task).due_at is null or (o.task).blockers > 0 as claimable,
       (n.task).blockers = 0 as free, (n.task).intention
  from rows o, rows n;
select is((select count(*) from pairs), 324::bigint, 'there are pairs of rows');
select is_empty($$select * from pairs
    where pawl_saga.may_execute(old, new) is distinct from (free and intention = 'EXECUTE' and claimable)$$,
    'a task may be executed that nothing blocks, and that was claimable or blocked');
select is_empty($$select * from pairs where pawl_saga.may_revert(old, new)
    is distinct from (free and intention = 'REVERT' and (old).due_at is null)$$,
    'a task may be reverted that nothing blocks, and that was claimable');
select is(pawl_saga.may_execute(null, task), true, 'a row that does not exist was never due')
    from rows where (task).blockers = 0 and (task).intention = 'EXECUTE' and (task).due_at is null;
select is(pawl_saga.may_execute(task, null), null, 'of no row nothing is known')
    from rows where (task).blockers = 0 and (task).intention = 'EXECUTE' and (task).due_at is null;
select is(pawl_saga.may_execute(task, null), false, 'but that a task which is not due does not begin')
    from rows where (task).blockers = 0 and (task).intention = 'EXECUTE' and (task).due_at is not null;
select is(pawl_saga.may_revert(null, null), null, 'and of two rows neither');
select * from finish();
