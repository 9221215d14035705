# Nodes of Citus that join, are drained and removed, and come back, and shards and schemas that are rebalanced, while
# clients write; and what all nodes together have counted, and find of their health.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CitusCluster;
use CitusWriters;
use PawlTest;
use Test::More;

need_citus();
my ($coordinator, @workers) = citus_cluster(2);
create_orders($coordinator);

# --- Counters of all nodes: each state change and each rejection counts once, wherever it was.
my $counts = q(select string_agg(concat_ws(' ', coalesce(event, sqlstate), n), ', ' order by sqlstate, event) from
    (select event, sqlstate, sum(count) n from pawl.cluster_counters() where count > 0 group by 1, 2) c);
$_->safe_psql('postgres', 'select pawl.reset_counters()') for $coordinator, @workers;
is(one($_, 'select count(*) from pawl.cluster_counters() where count > 0'), 0, 'nothing is counted on ' . $_->name)
	for $coordinator, @workers;
accepted($coordinator, q(update orders set state = 'paid' where number <= 10), 'rows of all nodes change');
accepted($workers[0], q(update orders set state = 'paid' where number in (11, 12)), 'also through a worker');
accepted($coordinator, q(select pawl.fire('orders', 1, 'refund')), 'an event is fired');
rejected($coordinator, q(update orders set state = 'sent' where number = 20), 'PW001', 'a change is rejected');
rejected($workers[1], q(update orders set state = 'sent' where number = 21), 'PW001', 'also through a worker');
rejected($coordinator, q(select pawl.fire('orders', 22, 'send')), 'PW001', 'so is an event');
for my $node ($coordinator, @workers)
{
	is(one($node, $counts), 'PW001 3, pay 12, refund 1', 'what all nodes have counted, on ' . $node->name);
}
is(one($coordinator, q(select bool_and(timed = (select sum(b) from unnest(buckets) b)) and sum(timed) = 13
    from pawl.cluster_counters() where kind = 'transition')), 't', 'with the times in the states');
cmp_ok(one($_, 'select count(*) from pawl.counters() where count > 0'), '>', 0, 'of which ' . $_->name . ' has a part')
	for @workers;

# --- Health of all nodes.
my $findings = q(select string_agg(concat_ws(' ', node, check_name, status), ', ' order by node, check_name)
    from pawl.cluster_health() where status <> 'ok');
is(one($_, $findings), '', 'health finds nothing on any node, asked on ' . $_->name) for $coordinator, @workers;
is(one($coordinator, 'select count(distinct node) from pawl.cluster_health()'), 3, 'and has asked all nodes');
$workers[1]->safe_psql('postgres', 'alter event trigger pawl_follow disable');
is(one($coordinator, $findings), $workers[1]->host . ':' . $workers[1]->port . ' event_triggers error',
	'it finds what is wrong on a worker');
$workers[1]->safe_psql('postgres', 'alter event trigger pawl_follow enable');
$workers[1]->stop;
like(one($coordinator, $findings), qr/distributed error.*:\d+ node error/, 'it finds a node that is down');
rejected($coordinator, 'select * from pawl.cluster_counters()', '55000', 'without it there is no sum of counters');
$workers[1]->start;

# --- A node joins, and shards are rebalanced to it, while clients write.
sub rebalance
{
	my ($what) = @_;
	$coordinator->safe_psql('postgres', 'select citus_rebalance_start()');
	$coordinator->safe_psql('postgres', 'select citus_rebalance_wait()');
	is(one($coordinator, q(select state from pg_dist_background_job order by job_id desc limit 1)), 'finished',
		"$what: the rebalance is finished");
	return;
}
start_writers($coordinator, 'w', 2);
written_more(5);
push @workers, citus_node('worker3');
add_node($coordinator, $workers[2]);
rebalance('a node has joined');
cmp_ok(scalar(placements($coordinator, 'orders', $workers[2])), '>', 0, 'and it has shards');
written_more(10);

# --- A node is drained and removed, while clients write.
$coordinator->safe_psql('postgres', sprintf "select citus_drain_node('%s', %d)", $workers[0]->host, $workers[0]->port);
written_more(5);
accepted($coordinator, sprintf("select citus_remove_node('%s', %d)", $workers[0]->host, $workers[0]->port),
	'a node is removed');
written_more(10);
is(one($coordinator, 'select count(distinct node) from pawl.cluster_health()'), 3,
	'health asks the nodes that are left');
is(one($coordinator, $findings), '', 'and finds nothing');

# --- It comes back, when there is another version of the machine.
$coordinator->safe_psql('postgres', q(select pawl.define('order', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> new : refund
    paid --> lost : lose
    lost --> new : find
    new --> sent : send
    sent --> [*]')));
accepted($coordinator, q(select pawl.upgrade('orders')), 'a new version is enforced while the node is away');
add_node($coordinator, $workers[0]);
rebalance('the node came back');
cmp_ok(scalar(placements($coordinator, 'orders', $workers[0])), '>', 0, 'and has shards again');
written_more(10);
stop_writers();
agrees_with_ledger($coordinator, 'nodes joined and left');
for my $number (1 .. 60)
{
	my ($shard, $port) = shard_with($coordinator, 'orders', $number);
	next if $port != $workers[0]->port;
	$coordinator->safe_psql('postgres', "update orders set state = 'paid' where number = $number and state = 'new'");
	accepted($coordinator, "update orders set state = 'lost' where number = $number", 'it enforces the new version');
	rejected($coordinator, "update orders set state = 'sent' where number = $number", 'PW001', 'and nothing else');
	last;
}
is(on_all(q(select string_agg(v::text, E'\n') from pawl.verify() v), $coordinator, @workers), '   ',
	'verify finds nothing on any node');
is(one($coordinator, $findings), '', 'nor does health');

# --- A schema moves to another node, while clients write.
$coordinator->safe_psql('postgres', q(
    set citus.enable_schema_based_sharding to on;
    create schema tenant));
create_orders($coordinator, 'tenant');
start_writers($coordinator, 't', 2, 'tenant');
for (1 .. 2)
{
	written_more(5);
	my ($to) = grep { !placements($coordinator, 'tenant.orders', $_) } @workers;
	accepted($coordinator, sprintf("select citus_schema_move('tenant', '%s', %d)", $to->host, $to->port),
		'a schema moves while clients write');
}
written_more(5);
stop_writers();
agrees_with_ledger($coordinator, 'a schema moved', 'tenant');
is(one($coordinator, q(select string_agg(v::text, E'\n') from pawl.verify('tenant.orders') v)), '',
	'verify finds nothing in the schema');
no_crash($_) for $coordinator, @workers;
done_testing();
