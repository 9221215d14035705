# Tables on Citus without a superuser: an owner with pawl_admin enforces, distributes and changes bindings, an
# operator works on them, a worker claims, and a stranger can do nothing; on every node, one that joins later included.
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
    create role shop login in role pawl_admin;
    create role clerk login in role pawl_operator;
    create role laborer login in role pawl_worker;
    create role stranger login;
    create schema shop authorization shop));

# The functions of PawlTest as a role that logs in itself.
sub as
{
	my ($role, $function, @arguments) = @_;
	local $ENV{PGUSER} = $role;
	return $function->(@arguments);
}

sub value
{
	my ($role, $node, $query) = @_;
	return as($role, sub { $node->safe_psql('postgres', $query) });
}

# --- The owner defines, enforces and distributes, in both orders.
as('shop', \&accepted, $coordinator, q(
    select pawl.define('job', 'stateDiagram-v2
        [*] --> ready
        ready --> running : start
        running --> done : finish
        running --> ready : crashed
        running --> late : after 1 hour
        done --> [*]
        class running owned');
    create table shop.jobs (tenant int, id int, state text not null default 'ready', owner text, lease timestamptz,
        token bigint, due timestamptz, primary key (tenant, id));
    select create_distributed_table('shop.jobs', 'tenant');
    insert into shop.jobs (tenant, id) select g, 1 from generate_series(1, 24) g), 'an owner distributes a table');
as('shop', \&accepted, $coordinator, q(select pawl.enforce('shop.jobs', 'state', 'job')), 'enforces a machine on it');
as('shop', \&accepted, $coordinator, q(select pawl.enable_log('shop.jobs', hash_chain => true)), 'gives it a log');
as('shop', \&accepted, $coordinator, q(
    select pawl.enable_queue('shop.jobs', owner => 'owner', lease => 'lease', token => 'token');
    select pawl.enable_timers('shop.jobs', due => 'due');
    select pawl.set_claiming('shop.jobs', claim => array['start'], on_expiry => 'crashed');
    select pawl.enable_events('shop.jobs')), 'a queue, timers and events');
as('shop', \&accepted, $coordinator, q(
    create table shop.parcels (id bigint primary key, state text not null default 'ready');
    select pawl.enforce('shop.parcels', 'state', 'job'), pawl.enable_log('shop.parcels');
    insert into shop.parcels select g from generate_series(1, 9) g;
    update shop.parcels set state = 'running' where id = 9;
    select create_distributed_table('shop.parcels', 'id')), 'and distributes a table that is enforced');
as('shop', \&accepted, $coordinator, q(
    create table shop.kinds (id bigint primary key, state text not null default 'ready');
    select create_reference_table('shop.kinds');
    create table shop.sorts (id bigint primary key, state text not null default 'ready');
    select pawl.enforce('shop.sorts', 'state', 'job')), 'and makes a reference table');
as('shop', \&rejected, $coordinator, q(select pawl.enforce('shop.kinds', 'state', 'job')), '0A000',
	'which only the owner of the extension can enforce');
as('shop', \&rejected, $coordinator, q(select create_reference_table('shop.sorts')), '0A000', 'in either order');
rejected($coordinator, q(select pawl.enforce('shop.kinds', 'state', 'job')), '0A000', 'and only its own');
as('shop', \&accepted, $coordinator, q(
    grant usage on schema shop to clerk, laborer;
    grant select, update on shop.jobs to clerk, laborer;
    grant select on shop.jobs_transitions, shop.jobs_transitions_log to clerk), 'and grants rights on them');

# --- Rows are written through every node.
my $id = 0;
for my $node (@nodes)
{
	my $name = $node->name;
	++$id;
	for my $table ('jobs', 'parcels')
	{
		my $key = $table eq 'jobs' ? 'tenant' : 'id';
		as('shop', \&rejected, $node, "update shop.$table set state = 'done' where $key = $id", 'PW001',
			"the owner cannot change a row of $table against the machine on $name");
		as('shop', \&accepted, $node, "begin; select pawl.set_context(processor => 'p'); "
			. "update shop.$table set state = 'running' where $key = $id; commit",
			"and can change it with it on $name");
		my $row = $table eq 'jobs' ? "row($id, 1)" : "row($id)";
		is(value('shop', $coordinator, "select string_agg(concat_ws(' ', to_state, actor), ', ' order by sort_key) "
			. "from pawl.history('shop.$table', $row)"), 'ready shop, running shop', 'which the log has');
	}
	my $tenant = 20 + $id;
	as('clerk', \&accepted, $node, "select pawl.fire('shop.jobs', row($tenant, 1), 'start', processor => 'p')",
		"an operator fires an event on $name");
	as('clerk', \&rejected, $node, "select pawl.fire('shop.jobs', row($tenant, 1), 'start', processor => 'p')", 'PW001',
		'and none that leads nowhere');
	is(value('clerk', $node, "select string_agg(event, ' ' order by sort_key) from pawl.history('shop.jobs', "
		. "row($tenant, 1))"), 'pawl.attach start', 'and reads the history');
	as('stranger', \&rejected, $node, 'update shop.jobs set state = state', '42501',
		"a stranger cannot write on $name");
}

# --- Work.
for my $node (@workers)
{
	cmp_ok(value('laborer', $node, q(select count(*) from pawl.claim(null::shop.jobs, processor => 'w', batch => 100,
        lease => '1 ms'))), '>', 0, 'a worker claims rows of ' . $node->name);
}
as('clerk', \&accepted, $_, 'select done from pawl.reap()', 'an operator reaps leases on ' . $_->name) for @workers;
becomes(sub {
		value('clerk', $_, 'select done from pawl.reap()') for @workers;
		value('shop', $coordinator, q(select count(*) from shop.jobs where owner = 'w'));
	}, 0, 'until none of them has an owner');

# --- Checks of all nodes.
for my $role ('shop', 'clerk')
{
	is(value($role, $coordinator, q(select string_agg(v::text, E'\n') from pawl.verify('shop.jobs') v)), '',
		"$role verifies a table");
	is(value($role, $coordinator, q(select string_agg(h::text, E'\n') from pawl.cluster_health() h
        where status not in ('ok', 'info'))), '', "$role reads the health of all nodes");
	is(value($role, $coordinator, q(select sum(count) from pawl.cluster_counters() where sqlstate = 'PW001')), 9,
		"$role reads the counters of all nodes");
}
as('stranger', \&rejected, $coordinator, 'select * from pawl.cluster_health()', '42501', 'a stranger reads no health');
as('stranger', \&rejected, $coordinator, 'select * from pawl.cluster_counters()', '42501', 'nor counters');
as('shop', \&rejected, $coordinator, 'select pawl.spread_definitions()', '42501',
	'definitions are spread by the owner of the extension');
as('shop', \&rejected, $coordinator, q(insert into pawl_citus.definition values ('binding', 'x', '{}')), '42501',
	'and written by pawl only');
for my $node (@workers)
{
	as('shop', \&accepted, $node, q(select pawl.create_consumer('mine', 'beginning')), 'a consumer belongs to a role');
	cmp_ok(value('shop', $node, q(select count(*) from pawl.read_events('mine'))), '>', 0, 'and reads the events');
}

# --- Bindings change, and a node joins.
as('shop', \&accepted, $coordinator, q(select pawl.define('job', 'stateDiagram-v2
        [*] --> ready
        ready --> running : start
        running --> done : finish
        running --> ready : crashed
        running --> late : after 1 hour
        running --> lost : lose
        done --> [*]
        class running owned');
    select pawl.upgrade('shop.parcels')), 'the owner takes a new version');
push @nodes, citus_node('worker3');
add_node($coordinator, $nodes[-1]);
$coordinator->safe_psql('postgres', q(select citus_rebalance_start()));
$coordinator->safe_psql('postgres', q(select citus_rebalance_wait()));
cmp_ok(scalar(placements($coordinator, 'shop.parcels', $nodes[-1])), '>', 0, 'a node that joined has shards');
as('shop', \&accepted, $coordinator, q(update shop.parcels set state = 'running' where state = 'ready';
    update shop.parcels set state = 'lost'), 'the new version is enforced on all nodes');
as('shop', \&rejected, $nodes[-1], q(update shop.parcels set state = 'done'), 'PW001', 'on the one that joined too');
as('clerk', \&accepted, $nodes[-1], q(select * from pawl.health()), 'where roles have their rights');
is(value('clerk', $coordinator, q(select string_agg(h::text, E'\n') from pawl.cluster_health() h
    where status not in ('ok', 'info'))), '', 'health finds nothing on any node');
as('shop', \&accepted, $coordinator, q(select pawl.release('shop.parcels')), 'the owner releases a table');
as('shop', \&accepted, $coordinator, q(update shop.parcels set state = 'anything'), 'and every change is accepted');
no_crash($_) for @nodes;
done_testing();
