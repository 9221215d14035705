-- Warnings of what has no effect, or another one than is meant. pawl.set_context outside a transaction block: the
-- statement that calls it is the whole transaction.
create schema context_warnings;
set search_path = context_warnings, public;
\pset format unaligned
\pset tuples_only on
select pawl.set_context(processor => 'lost');
select * from pawl.set_context(processor => 'lost');
select pawl.set_context(processor => 'lost'), pawl.set_context(event => 'lost');
select pawl.set_context();
prepare lost as select pawl.set_context(processor => $1);
execute lost('lost');
-- No warning: a statement that does more, a block, a function, several statements that are sent at once.
select pawl.set_context(processor => 'kept'), current_setting('pawl.processor');
begin;
select pawl.set_context(processor => 'kept');
select current_setting('pawl.processor');
commit;
do $$ begin perform pawl.set_context(processor => 'kept'); end $$;
create function kept() returns text language plpgsql as
    $$ begin perform pawl.set_context(processor => 'kept'); return current_setting('pawl.processor'); end $$;
select kept();
create function kept_by_sql() returns text language sql as
    $$ select pawl.set_context(processor => 'kept'); select current_setting('pawl.processor') $$;
select kept_by_sql();
select pawl.set_context(processor => 'kept')\; select current_setting('pawl.processor');
create table one (id int);
insert into one select 1 from (select pawl.set_context(processor => 'kept') offset 0) s;
select current_setting('pawl.processor');
-- A new log beside an older one.
create table orders (id int primary key, state text not null);
select pawl.define('warned', 'stateDiagram-v2
    [*] --> a
    a --> b : go');
select pawl.enforce('orders', 'state', 'warned'), pawl.enable_log('orders');
insert into orders values (1, 'a');
select pawl.enable_log('orders', log_name => 'orders_log_of_may');
select check_name, status, relation, hint from pawl.health()
    where check_name = 'orphaned_logs' and relation::text ~ 'context_warnings|orders_';
-- Taken up again: then the other one is left.
select pawl.enable_log('orders', log_name => 'orders_transitions');
select check_name, status, relation from pawl.health()
    where check_name = 'orphaned_logs' and relation::text ~ 'context_warnings|orders_';
-- After a release the log continues without a word.
select pawl.release('orders');
select relation from pawl.health() where check_name = 'orphaned_logs' order by 1;
select pawl.enforce('orders', 'state', 'warned');
select pawl.enable_log('orders');
-- Released, and then a log of another name.
select pawl.release('orders');
select pawl.enforce('orders', 'state', 'warned');
select pawl.enable_log('orders', log_name => 'orders_log_of_june');
-- The first log of another table has no older one.
create table order_items (id int primary key, state text not null);
select pawl.enforce('order_items', 'state', 'warned'), pawl.enable_log('order_items');
set client_min_messages to warning;
drop schema context_warnings cascade;
select count(*) from pawl.health() where check_name = 'orphaned_logs';
