# Machines on tables that Citus distributes, over a coordinator and two workers: every way to write a row, on every
# node, and shards that go to other nodes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CitusCluster;
use IPC::Run;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

need_citus();
my ($coordinator, @workers) = citus_cluster(2);
my @nodes = ($coordinator, @workers);
my $define = q(select pawl.define('order', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    paid --> new : refund
    sent --> [*]'));
$coordinator->safe_psql('postgres', $define);

# --- A distributed table is enforced.
$coordinator->safe_psql('postgres', q(
    create table orders (number bigint primary key, state text not null default 'new', note text);
    select create_distributed_table('orders', 'number');
    insert into orders select g from generate_series(1, 40) g));
accepted($coordinator, q(select pawl.enforce('orders', 'state', 'order')), 'a distributed table is enforced');
accepted($coordinator, q(select pawl.enable_log('orders')), 'and gets a log');
is(one($coordinator, q(select count(*) from orders_transitions where event = 'pawl.attach')), 40,
	'the rows that are there begin it');
is(one($coordinator, q(select count(distinct colocationid) from pg_dist_partition
    where logicalrelid in ('orders'::regclass, 'orders_transitions_log'::regclass))), 1, 'the log is colocated');

# --- Legal state changes through each node, and on the shard.
my $id = 0;
for my $node (@nodes)
{
	++$id;
	accepted($node, "update orders set state = 'paid' where number = $id",
		'a legal change is accepted on ' . $node->name);
	is(one($coordinator, "select string_agg(concat_ws('>', from_state, to_state), ' ' order by sort_key) from "
		. "orders_transitions where number = $id"), 'new new>paid', 'and has its log entry');
}
for my $node (@nodes)
{
	rejected($node, "update orders set state = 'sent' where number = 20", 'PW001',
		'an illegal change is rejected on ' . $node->name);
	rejected($node, "insert into orders values (1001, 'sent')", 'PW002', 'and a row in another state than the first');
}
my ($shard, $port) = shard_with($coordinator, 'orders', 20);
my ($owner) = grep { $_->port == $port } @nodes;
rejected($owner, "set citus.enable_manual_changes_to_shards to on; update $shard set state = 'sent' where number = 20",
	'PW001', 'an illegal change is rejected on the shard');
my ($code, $out, $err) = $owner->psql('postgres',
	"set citus.enable_manual_changes_to_shards to on; update $shard set state = 'sent' where number = 20");
like($err, qr/no transition from "new" to "sent" in machine "order".*Row \(number\)=\(20\) of public\.orders /s,
	'the error names the machine, the key and the distributed table');
accepted($owner, "set citus.enable_manual_changes_to_shards to on; update $shard set state = 'paid' where number = 20",
	'a legal change is accepted on the shard');
is(one($coordinator, 'select count(*) from orders_transitions where number = 20'), 2, 'and has its log entry');
rejected($coordinator, 'delete from orders_transitions_log where number = 20', 'PW006',
	'log entries cannot be deleted');
rejected($coordinator, "update orders_transitions_log set to_state = 'x'", 'PW006', 'nor changed');
rejected($coordinator, 'truncate orders_transitions_log', 'PW006', 'nor truncated');

# --- Several nodes in one transaction.
accepted($coordinator, "update orders set state = 'paid' where number between 21 and 30",
	'a statement changes rows of several nodes');
is(one($coordinator, q(select count(*) from orders_transitions where to_state = 'paid'
    and number between 21 and 30)), 10,
	'each row has its log entry');
rejected($coordinator, "update orders set state = 'sent' where number in (21, 22, 23, 24, 31)", 'PW001',
	'one illegal change rejects the statement on all nodes');
is(one($coordinator, q(select count(*) from orders where state = 'sent')), 0, 'and no row has changed');

# --- A distributed table is an ordinary one to the binding's functions.
accepted($coordinator, q(insert into orders_transitions_log (number, to_state) values (21, 'sent')),
	'an insert into the log is a state change');
is(one($coordinator, q(select state from orders where number = 21)), 'sent', 'which the row takes');
rejected($coordinator, q(insert into orders_transitions_log (number, to_state) values (22, 'new2')), 'PW001',
	'an illegal one is rejected');

# --- Shards move, and go on being enforced with their logs.
sub move_all
{
	my ($from, $to, $mode) = @_;
	for my $moved (placements($coordinator, 'orders', $from))
	{
		my ($number) = $moved =~ /_(\d+)$/;
		$coordinator->safe_psql('postgres', sprintf "select citus_move_shard_placement(%d, '%s', %d, '%s', %d, '%s')",
			$number, $from->host, $from->port, $to->host, $to->port, $mode);
	}
	return;
}
for my $mode ('block_writes', 'force_logical')
{
	move_all(@workers[0, 1], $mode);
	is(scalar(placements($coordinator, 'orders', $workers[0]) // ()), 0, "all shards moved to one node ($mode)");
	rejected($coordinator, "update orders set state = 'nowhere' where number = $_", 'PW001', "row $_ is still enforced")
		for 35 .. 39;
	my $before = one($coordinator, 'select count(*) from orders_transitions');
	accepted($coordinator, "update orders set state = case state when 'paid' then 'new' else 'paid' end "
		. 'where number > 35',
		'legal changes are accepted');
	is(one($coordinator, 'select count(*) from orders_transitions') - $before, 5, 'and each has its log entry');
	move_all(@workers[1, 0], $mode);
}

# --- Shards that go to another node while clients write: each state change is recorded once.
{
	my $script = PostgreSQL::Test::Utils::tempdir() . '/toggle';
	open(my $file, '>', $script) or die "$script: $!";
	print $file "\\set n random(22, 30)\nupdate orders set state = case state when 'new' then 'paid' else 'new' end "
		. "where number = :n;\n";
	close $file;
	chmod 0644, $script;
	my $before = one($coordinator, 'select count(*) from orders_transitions_log');
	my ($out, $err) = ('', '');
	my $writers = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-t', 150, '-f', $script, '-h', $coordinator->host, '-p',
		$coordinator->port, 'postgres' ], '>', \$out, '2>', \$err);
	move_all(@workers[0, 1], 'force_logical');
	move_all(@workers[1, 0], 'block_writes');
	$writers->finish;
	my ($done) = $out =~ /transactions actually processed: (\d+)/;
	cmp_ok($done, '>', 0, 'clients write while shards go to other nodes') or diag($err);
	is(one($coordinator, 'select count(*) from orders_transitions_log') - $before, $done,
		'each of their state changes is recorded once');
}

# --- A node that joins gets the bindings with its first shard.
my $joining = citus_node('joining');
add_node($coordinator, $joining);
$coordinator->safe_psql('postgres', q(select replicate_reference_tables('block_writes')));
move_all($workers[0], $joining, 'block_writes');
ok(scalar(placements($coordinator, 'orders', $joining)), 'shards moved to a node that joined');
for my $row (31 .. 34)
{
	rejected($coordinator, "update orders set state = 'sent' where number = $row", 'PW001',
		"row $row is enforced there");
	accepted($coordinator, "update orders set state = 'paid' where number = $row", "row $row changes there");
	is(one($coordinator, "select count(*) from orders_transitions where number = $row and to_state = 'paid'"), 1,
		"row $row has its log entry there");
}

# --- What the log says of all this.
is(one($coordinator, q(select count(*) from orders r where not exists (select from orders_transitions_log l
    where l.number = r.number and l.to_state = r.state))), 0, 'each row is in a state of its log');
is(one($coordinator, q(select count(*) from (select sort_key,
    row_number() over (partition by number order by sort_key) n
    from orders_transitions_log) l where n <> sort_key)), 0, 'no entry is missing or doubled');

# --- Release.
accepted($coordinator, q(select pawl.release('orders')), 'the binding is released');
accepted($coordinator, q(update orders set state = 'anything'), 'and every change is accepted on every node');

no_crash($_) for @nodes, $joining;
done_testing();
