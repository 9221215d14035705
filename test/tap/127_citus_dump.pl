# A coordinator is dumped by pg_dump, and restored into another cluster, where its tables are distributed again: they
# are enforced as before, on every node, with their logs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CitusCluster;
use CitusWriters;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

need_citus();
my ($old, @old_workers) = citus_cluster(2, prefix => 'old_');
create_orders($old);
$old->safe_psql('postgres', q(
    create table kinds (number bigint primary key, state text not null default 'new');
    select create_reference_table('kinds');
    select pawl.enforce('kinds', 'state', 'order'), pawl.enable_log('kinds');
    insert into kinds select g from generate_series(1, 9) g;
    update kinds set state = 'paid' where number < 4;
    set citus.enable_schema_based_sharding to on;
    create schema tenant;
    create table tenant.orders (number bigint primary key, state text not null default 'new');
    insert into tenant.orders select g from generate_series(1, 9) g;
    select pawl.enforce('tenant.orders', 'state', 'order'), pawl.enable_log('tenant.orders');
    update tenant.orders set state = 'paid' where number < 4;
    update orders set state = 'paid' where number < 30;
    update orders set state = 'sent' where number < 20));
my $contents = join ' union all ', map {
	"select '$_', count(*), md5(string_agg(t::text, '|' order by number, sort_key)) from ${_}_transitions_log t "
		. "union all select '$_ rows', count(*), md5(string_agg(t::text, '|' order by number)) from $_ t"
} qw(orders kinds tenant.orders);
my $before = one($old, $contents);
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$old->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $old->connstr('postgres') ], 'a coordinator is dumped');
$_->stop for $old, @old_workers;

my ($coordinator, @workers) = citus_cluster(2, prefix => 'new_', without_pawl => 1);
my @nodes = ($coordinator, @workers);
$coordinator->command_ok([ 'pg_restore', '-d', $coordinator->connstr('postgres'), $dump ], 'and restored into another');
is(one($coordinator, $contents), $before, 'rows and logs are there');
rejected($coordinator, q(update orders set state = 'paid' where number = 1), 'PW001', 'and enforced');

rejected($coordinator, q(select create_distributed_table('orders', 'number')), '55000',
	'they cannot be distributed while the nodes of this cluster cannot learn of bindings');
is(one($coordinator, q(select pawl.spread_definitions())), 0, 'the table for that is made anew');
$coordinator->safe_psql('postgres', $_) for
	q(select create_distributed_table('orders', 'number')),
	q(select create_reference_table('kinds')),
	q(select citus_schema_distribute('tenant'));
is(one($coordinator, $contents), $before, 'they are the same when they are distributed again');
my $id = 30;
for my $node (@nodes)
{
	++$id;
	for my $table (qw(orders kinds tenant.orders))
	{
		my $number = $table eq 'orders' ? $id : $id - 25;
		rejected($node, "update $table set state = 'sent' where number = $number", 'PW001',
			"$table is enforced on " . $node->name);
		accepted($node, "update $table set state = 'paid' where number = $number", 'and can change');
		is(one($coordinator, "select string_agg(to_state, ' ' order by sort_key) from ${table}_transitions_log where "
			. "number = $number"), 'new paid', 'and each change is logged');
	}
}
is(on_all(q(select string_agg(v::text, E'\n') from pawl.verify() v), @nodes), '  ', 'verify finds nothing');
is(one($coordinator, q(select string_agg(h::text, E'\n') from pawl.cluster_health() h where status <> 'ok')), '',
	'health finds nothing on any node');
is(one($coordinator, q(select count(*) from pawl_citus.definition where kind = 'binding')), 3,
	'nodes know of the bindings of this cluster only');
no_crash($_) for @nodes;
done_testing();
