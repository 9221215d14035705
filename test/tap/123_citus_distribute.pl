# Enforced tables that Citus distributes afterwards, with rows and logs; reference tables and schemas; and tables that
# cannot be distributed or enforced.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CitusCluster;
use PawlTest;
use Test::More;

need_citus();
my ($coordinator, @workers) = citus_cluster(2);
my @nodes = ($coordinator, @workers);
$coordinator->safe_psql('postgres', q(
    select pawl.define('order', 'stateDiagram-v2
        [*] --> new
        new --> paid : pay
        paid --> sent : send
        sent --> [*]')));

# Rejections and log entries through every node; the table has rows 1 to 9 in state new.
sub is_enforced
{
	my ($table, $what) = @_;
	my $id = 0;
	for my $node (@nodes)
	{
		++$id;
		rejected($node, "update $table set state = 'sent' where number = $id", 'PW001',
			"$what: an illegal change is rejected on " . $node->name);
		rejected($node, "insert into $table values (100, 'sent')", 'PW002', "$what: and an illegal first state");
		accepted($node, "update $table set state = 'paid' where number = $id", "$what: a legal change is accepted");
		is(one($coordinator, "select string_agg(to_state, ' ' order by sort_key) from ${table}_transitions "
			. "where number = $id"), 'new paid', "$what: and recorded");
	}
	is(one($coordinator, "select string_agg(v::text, E'\\n') from pawl.verify('$table') v"), '',
		"$what: verify is clean");
	return;
}

# --- Enforced, with a log and rows in several states, then distributed.
$coordinator->safe_psql('postgres', q(
    create table orders (number bigint primary key, state text not null default 'new');
    select pawl.enforce('orders', 'state', 'order'), pawl.enable_log('orders');
    insert into orders select g from generate_series(1, 20) g;
    update orders set state = 'paid' where number > 10;
    update orders set state = 'sent' where number > 15));
accepted($coordinator, q(select create_distributed_table('orders', 'number')),
	'an enforced table with rows is distributed');
is(one($coordinator, q(select count(*) from orders_transitions_log)), 35, 'the log is distributed with its entries');
is_enforced('orders', 'distributed later');

# --- The same while empty.
$coordinator->safe_psql('postgres', q(
    create table later (number bigint primary key, state text not null default 'new');
    select pawl.enforce('later', 'state', 'order'), pawl.enable_log('later', most_recent => 'stored');
    select create_distributed_table('later', 'number');
    insert into later select g from generate_series(1, 9) g));
is_enforced('later', 'distributed while empty');

# --- A transaction that distributes a table, and writes rows past its binding.
# It is rejected by the shard, or found before the commit.
my ($state) = sqlstate_of($coordinator, q(begin;
    create table quick (number bigint primary key, state text not null default 'new');
    select pawl.enforce('quick', 'state', 'order'), pawl.enable_log('quick');
    select create_distributed_table('quick', 'number');
    insert into quick values (1, 'sent');
    commit));
like($state, qr/^\w{5}$/, 'a transaction that distributes a table cannot write past its binding');
is(one($coordinator, q(select to_regclass('quick') is null)), 't', 'and leaves nothing');

# --- Reference tables, in both orders.
$coordinator->safe_psql('postgres', q(
    create table kinds (number bigint primary key, state text not null default 'new');
    insert into kinds select g from generate_series(1, 9) g;
    select create_reference_table('kinds');
    select pawl.enforce('kinds', 'state', 'order'), pawl.enable_log('kinds');
    create table sorts (number bigint primary key, state text not null default 'new');
    select pawl.enforce('sorts', 'state', 'order'), pawl.enable_log('sorts');
    insert into sorts select g from generate_series(1, 9) g;
    select create_reference_table('sorts')));
is_enforced('kinds', 'reference table');
is_enforced('sorts', 'table made a reference table');

# --- Distributed schemas, in both orders.
$coordinator->safe_psql('postgres', q(
    set citus.enable_schema_based_sharding to on;
    create schema tenant1;
    create table tenant1.orders (number bigint primary key, state text not null default 'new');
    insert into tenant1.orders select g from generate_series(1, 9) g;
    select pawl.enforce('tenant1.orders', 'state', 'order'), pawl.enable_log('tenant1.orders');
    set citus.enable_schema_based_sharding to off;
    create schema tenant2;
    create table tenant2.orders (number bigint primary key, state text not null default 'new');
    select pawl.enforce('tenant2.orders', 'state', 'order'), pawl.enable_log('tenant2.orders');
    insert into tenant2.orders select g from generate_series(1, 9) g;
    select citus_schema_distribute('tenant2')));
is_enforced('tenant1.orders', 'table of a distributed schema');
is_enforced('tenant2.orders', 'schema distributed later');
for (1 .. 2)
{
	my ($to) = grep { !placements($coordinator, 'tenant1.orders', $_) } @workers;
	$coordinator->safe_psql('postgres', sprintf "select citus_schema_move('tenant1', '%s', %d)", $to->host, $to->port);
	accepted($coordinator, "update tenant1.orders set state = 'paid' where number = 6 + $_",
		'a row of a schema changes after it went to another node');
	is(one($coordinator, "select count(*) from tenant1.orders_transitions where number = 6 + $_"), 2,
		'and has its log entry');
}
rejected($coordinator, "update tenant1.orders set state = 'sent' where number = 9", 'PW001',
	'and the schema is enforced there');

# --- What is rejected, with its reason.
my $err = rejected($coordinator, q(
    create table two (number bigint, tenant int, state text not null default 'new', primary key (number, tenant));
    select create_distributed_table('two', 'tenant');
    select pawl.enforce('two', 'state', 'order')), '0A000', 'a key that does not begin with the distribution column');
like($err, qr/the key \(number, tenant\) of table public\.two does not begin with its distribution column "tenant"/,
	'the error names it');
accepted($coordinator, q(select pawl.enforce('two', 'state', 'order', key => array['tenant', 'number']),
    pawl.enable_log('two')), 'in the right order the key is accepted');
rejected($coordinator, q(
    create table parts (number bigint, state text not null default 'new', primary key (number))
        partition by range (number);
    create table parts_1 partition of parts for values from (0) to (100);
    select create_distributed_table('parts', 'number');
    select pawl.enforce('parts', 'state', 'order')), '0A000', 'a distributed table with partitions is rejected');
rejected($workers[0], q(select pawl.release('orders')), '0A000', 'bindings are changed on the coordinator only');
rejected($coordinator, q(select pawl.enforce('orders', 'state', 'order', always => true)), '0A000',
	'validation of replicated rows is rejected');

# --- Events per node, a new version, and a table that is undistributed.
$coordinator->safe_psql('postgres', q(
    create table bills (number bigint primary key, state text not null default 'new');
    select create_distributed_table('bills', 'number');
    select pawl.enforce('bills', 'state', 'order'), pawl.enable_log('bills'), pawl.enable_events('bills');
    insert into bills select g from generate_series(1, 20) g;
    select pawl.define('order', 'stateDiagram-v2
        [*] --> new
        new --> paid : pay
        paid --> sent : send
        paid --> lost : lose
        sent --> [*]');
    select pawl.upgrade('bills');
    update bills set state = 'paid';
    update bills set state = 'lost' where number = 3));
is(one($coordinator, q(select count(*) from bills_transitions where machine_version = 2)), 21,
	'a new version reaches all nodes');
my $events = 0;
for my $node (@workers)
{
	$node->safe_psql('postgres', q(select pawl.create_consumer('c', 'beginning')));
	$events += $node->safe_psql('postgres', q(select count(*) from pawl.read_events('c')
        where relation = 'bills'::regclass));
}
is($events, 41, 'consumers of all nodes together read each event once');
$coordinator->safe_psql('postgres', q(select undistribute_table('bills')));
rejected($coordinator, q(update bills set state = 'anything' where number = 3), '42704',
	'a table that was undistributed rejects changes until it is released or enforced');
no_crash($_) for @nodes;
done_testing();
