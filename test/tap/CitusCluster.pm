# A coordinator and workers of Citus for a test, which is skipped where scripts/citus has built none.
package CitusCluster;

use strict;
use warnings;
use Exporter 'import';
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(need_citus citus_cluster citus_node add_node shard_with placements on_all);

# Ends the test where Citus is not built.
sub need_citus
{
	chomp(my $sharedir = `pg_config --sharedir`);
	plan skip_all => 'Citus is not built: scripts/citus build SOURCE' if !-e "$sharedir/extension/citus.control";
	return;
}

# (coordinator, worker, ...), with pawl in a `version` or `without_pawl`, and four shards a table. Their names begin
# with `prefix`.
sub citus_cluster
{
	my ($workers, %options) = @_;
	my $prefix = $options{prefix} // '';
	my @nodes = map { citus_node($prefix . ($_ == 0 ? 'coordinator' : "worker$_"), %options) } 0 .. $workers;
	my $coordinator = $nodes[0];
	$coordinator->safe_psql('postgres', sprintf "select citus_set_coordinator_host('%s', %d)", $coordinator->host,
		$coordinator->port);
	add_node($coordinator, $_) for @nodes[1 .. $workers];
	$coordinator->safe_psql('postgres', 'create extension pawl '
		. (defined $options{version} ? "version '$options{version}'" : '')) if !$options{without_pawl};
	return @nodes;
}

# A server with Citus that is no node of a cluster yet.
sub citus_node
{
	my ($name, %options) = @_;
	my $node = new_cluster($name, %options, bare => 1, conf => <<'CONF' . ($options{conf} // ''));
shared_preload_libraries = 'citus,pawl'
max_prepared_transactions = 40
max_connections = 100
wal_level = logical
max_wal_senders = 20
max_replication_slots = 20
max_worker_processes = 24
citus.shard_count = 4
citus.enable_unsafe_triggers = on
citus.max_cached_conns_per_worker = 1
citus.recover_2pc_interval = -1
CONF
	with_citus($node);
	return $node;
}

# Citus in a server that listens on its socket only.
sub with_citus
{
	my ($node) = @_;
	$node->append_conf('postgresql.conf', sprintf "citus.local_hostname = '%s'\n", $node->host);
	$node->reload;
	$node->safe_psql('postgres', 'create extension citus');
	return;
}

sub add_node
{
	my ($coordinator, $node) = @_;
	$coordinator->safe_psql('postgres', sprintf "select citus_add_node('%s', %d)", $node->host, $node->port);
	return;
}

# The shard that has a value of the distribution column: (its name, its port).
sub shard_with
{
	my ($coordinator, $table, $value) = @_;
	return split /\|/, $coordinator->safe_psql('postgres', "select shard_name('$table'::regclass, s), p.nodeport from "
		. "get_shard_id_for_distribution_column('$table', $value) s join citus_shards p on p.shardid = s limit 1");
}

# The shards of a table on a node.
sub placements
{
	my ($coordinator, $table, $node) = @_;
	return split /\n/, $coordinator->safe_psql('postgres', "select shard_name(table_name, shardid) from citus_shards "
		. "where table_name = '$table'::regclass and nodeport = " . $node->port . ' order by shardid');
}

# What a query gives on each node, joined by blanks.
sub on_all
{
	my ($query, @nodes) = @_;
	return join ' ', map { $_->safe_psql('postgres', $query) } @nodes;
}

1;
