# ALTER EXTENSION pawl UPDATE on the nodes of Citus, in both orders, while clients write. The older version is made as
# in 008_upgrade.pl.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CitusCluster;
use CitusWriters;
use OlderVersion;
use PawlTest;
use Test::More;

need_citus();
my $install_path = installation_with_older_version();
my $versions = q(select extversion from pg_extension where extname = 'pawl');
my $warnings = q(select string_agg(concat_ws(' ', check_name, status, detail), '; ' order by node) from
    pawl.cluster_health() where status <> 'ok');

# Two clusters, since a version cannot go back.
for my $order ('coordinator first', 'workers first')
{
	my $name = $order =~ s/ .*//r;
	my ($coordinator, @workers) = citus_cluster(2, install_path => $install_path, version => '0.0.9',
		prefix => "${name}_");
	my @nodes = ($coordinator, @workers);
	create_orders($coordinator);
	is(on_all($versions, @nodes), '0.0.9 0.0.9 0.0.9', "$order: all nodes have the older version");
	start_writers($coordinator, $name, 2);
	written_more(5);
	if ($order eq 'workers first')
	{
		for my $worker (@workers)
		{
			rejected($worker, 'alter extension pawl update', 'XX000', "$order: Citus updates on the coordinator");
			accepted($worker, 'set citus.enable_ddl_propagation = off; alter extension pawl update',
				"$order: a worker is updated by itself");
			written_more(5);
		}
		is(on_all($versions, @nodes), '0.0.9 0.1.0 0.1.0', "$order: the workers have the newest version");
		my $warning = 'extension warning version 0.1.0 of pawl is there, and 0.0.9 here';
		is(one($coordinator, $warnings), "$warning; $warning", "$order: which health of all nodes says");
	}
	accepted($coordinator, 'alter extension pawl update', "$order: the coordinator is updated");
	is(on_all($versions, @nodes), '0.1.0 0.1.0 0.1.0', "$order: all nodes have the newest version");
	is(one($coordinator, $warnings), '', "$order: health finds nothing");
	written_more(5);
	stop_writers();
	agrees_with_ledger($coordinator, $order);
	rejected($_, q(insert into orders values (99, 'sent')), 'PW002', "$order: rows are validated on " . $_->name)
		for @nodes;
	is(on_all(q(select string_agg(v::text, E'\n') from pawl.verify() v), @nodes), '  ', "$order: verify finds nothing");
	accepted($coordinator, q(
		create table more (number bigint primary key, state text not null default 'new');
		select create_distributed_table('more', 'number');
		select pawl.enforce('more', 'state', 'order'), pawl.enable_log('more');
		insert into more select g from generate_series(1, 9) g;
		update more set state = 'paid'), "$order: another table is enforced");
	is(one($coordinator, 'select count(*) from more_transitions'), 18, "$order: and logged");
	no_crash($_) for @nodes;
	$_->stop for @nodes;
}
done_testing();
