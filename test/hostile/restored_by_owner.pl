# A dump is restored by a role that is no superuser: the owner of the tables, a member of pawl_restore. Machines, their
# owners, bindings, logs and audits come back, with parallel jobs too, and in parts; without that role, or for tables of
# others, nothing of it is written.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
my $dir = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', <<'SQL');
create role boss login in role pawl_admin, pawl_restore;
create role clerk login in role pawl_admin;
create role gone in role pawl_admin;
create schema app authorization boss;
set role gone;
select pawl.define('orphan', 'stateDiagram-v2
    [*] --> a
    a --> b : go');
set role boss;
select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> [*]$$);
select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    new --> void : cancel
    paid --> sent : send
    sent --> [*]
    void --> [*]$$);
create table app.orders (id int primary key, state text not null default 'new', note text, owner text,
    lease timestamptz);
create table app.parts (region text, no int, state text not null default 'new',
    primary key (region, no)) partition by list (region);
create table app.parts_a partition of app.parts for values in ('a');
select pawl.enforce('app.orders', 'state', 'order', on_delete => 'terminal'),
    pawl.enable_log('app.orders', 'state', hash_chain => true), pawl.enable_events('app.orders', 'state');
select pawl.enforce('app.parts', 'state', 'order', version => 1, always => true), pawl.enable_log('app.parts', 'state');
select pawl.audit('app.orders', '{"sent": true, "void": false}', parent => '{note}');
select pawl.keep_log('app.orders', '90 days'), pawl.create_consumer('feed');
insert into app.orders (id, note) select g, 'n' from generate_series(1, 30) g;
update app.orders set state = 'paid' where id <= 20;
update app.orders set state = 'sent' where id <= 10;
insert into app.parts select 'a', g from generate_series(1, 20) g;
update app.parts set state = 'paid' where no <= 10;
select pawl.prune_log('app.parts', '0', only_terminal => false);
SQL
my $kept = <<'SQL';
select 'orders', count(*), md5(string_agg(t::text, '|' order by id)) from app.orders_transitions t
union all select 'parts', count(*), md5(string_agg(t::text, '|' order by id)) from app.parts_transitions_log t
union all select 'audit', count(*), md5(string_agg(t::text, '|' order by audit_id)) from app.orders_result_audit t
union all select 'machines', count(*),
    md5(string_agg(row(machine, version, source, diagram, defined_by, owner)::text, '|' order by machine, version))
from pawl.machine
union all select 'transitions', count(*), md5(string_agg(t::text, '|' order by machine, version, ordinal))
from pawl.machine_transition t
union all select 'bindings', count(*), md5(string_agg(row(relation, state_column, machine, version, key_columns,
        history, hash_chain, on_delete, always, enforced_by, events)::text, '|'
        order by relation::text)) from pawl.binding
union all select 'audits', count(*),
    md5(string_agg(row(log, audit, relation, success_states, audited_by)::text, '|' order by log::text))
from pawl.audit_binding
union all select 'cuts', count(*), md5(string_agg(row(log, anchors, horizon)::text, '|' order by log::text))
from pawl.pruned_log
union all select 'upkeep', count(*), md5(string_agg(row(log, keep)::text, '|' order by log::text)) from pawl.log_upkeep
union all select 'consumers', count(*), md5(string_agg(row(consumer, owner)::text, '|')) from pawl.consumer
SQL
my $original = one($node, $kept);
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
$node->command_ok(['pg_dump', '-Fc', '--no-comments', '-f', "$dir/dump", 'postgres'], 'a superuser dumps');
$node->command_ok(['pg_dump', '-Fc', '--no-comments', '--schema-only', '-f', "$dir/schema", 'postgres'], 'the schema');
$node->command_ok(['pg_dump', '-Fc', '--no-comments', '--data-only', '-N', 'app', '-f', "$dir/catalog", 'postgres'],
	'and the data of pawl alone');

# Restores a dump as a role, into a database with pawl that is this role's; returns the errors.
sub restored
{
	my ($database, $role, @how) = @_;
	$node->safe_psql('postgres', "create database $database owner $role template template0")
		unless one($node, "select count(*) from pg_database where datname = '$database'");
	$node->safe_psql($database, 'create extension if not exists pawl');
	my ($out, $err) = ('', '');
	IPC::Run::run(['pg_restore', '-U', $role, '-d', $database, @how], '>', \$out, '2>', \$err);
	return join "\n", grep { /error:|ERROR|FATAL/ } split /\n/, $err;
}

sub enforced_again
{
	my ($name, $database) = @_;
	is(one($node, $kept, $database), $original, "$name: all is what it was");
	sound($node, $name, $database);
	rejected($node, "set role boss; update app.orders set state = 'sent' where id = 25", 'PW001', "$name: validated",
		$database);
	rejected($node, 'set role boss; delete from app.orders where id = 25', 'PW001', "$name: on_delete", $database);
	rejected($node, 'set role boss; delete from app.orders_transitions', 'PW006', "$name: the log is immutable",
		$database);
	accepted($node, "set role boss; update app.orders set state = 'paid' where id = 25; update app.parts set state = "
		. "'sent' where no = 1", "$name: the logs go on", $database);
	rejected($node, "set role clerk; select pawl.define('order', 'stateDiagram-v2\n[*] --> x\nx --> y')", '42501',
		"$name: the machine is still boss's", $database);
	accepted($node,
		"set role boss; alter table app.orders rename column note to comment_text; select pawl.upgrade('app.parts')",
		"$name: its owner goes on", $database);
	is(one($node, 'select parent_columns from pawl.audit_binding', $database), '{comment_text}',
		"$name: renames are followed");
	sound($node, "$name, after use", $database);
	return;
}

is(restored('one_job', 'boss', "$dir/dump"), '', 'its owner restores it');
enforced_again('restored', 'one_job');
# pg_restore creates triggers of a partitioned table beside the loading of its partitions, unless it is told not to.
is(restored('two_jobs', 'boss', '-j2', "--section=$_", "$dir/dump"), '', "with two jobs: $_")
	for qw(pre-data data post-data);
enforced_again('-j2', 'two_jobs');

# A role that is gone leaves machines of the extension's owner.
$node->safe_psql('postgres', 'drop owned by gone; drop role gone');
rejected($node, "set role boss; select pawl.define('orphan', 'stateDiagram-v2\n[*] --> a\na --> c')", '42501',
	'a machine whose owner is gone is no other admin\'s', 'one_job');
accepted($node, "select pawl.set_machine_owner('orphan', 'boss')", 'but given away by a superuser', 'one_job');
accepted($node, "set role boss; select pawl.define('orphan', 'stateDiagram-v2\n[*] --> a\na --> c')",
	'it has an owner again', 'one_job');

# Without pawl_restore nothing is loaded into the catalog, and its tables reject writes.
$node->safe_psql('postgres', 'revoke pawl_restore from boss');
like(restored('closed', 'boss', "$dir/dump"), qr/permission denied for table (?:binding|machine)/,
	'a role that is no member of pawl_restore cannot load the catalog');
is(one($node, 'select count(*) from pawl.binding', 'closed'), '0', 'of which nothing is there');
rejected($node, "set role boss; update app.orders set state = 'void'", '42704',
	'tables whose bindings are missing reject writes', 'closed');

# A member of pawl_restore loads bindings of its own tables only.
$node->safe_psql('postgres', 'grant pawl_restore to clerk');
$node->safe_psql('postgres', 'create database others owner boss template template0');
$node->safe_psql('others', 'create extension pawl');
restored('others', 'boss', "$dir/schema");
$node->safe_psql('others', 'grant usage on schema app to clerk');
like(restored('others', 'clerk', "$dir/catalog"), qr/must be owner of table app\.(?:orders|parts)/,
	'bindings of tables of others are rejected');
is(one($node, 'select count(*) from pawl.binding', 'others'), '0', 'and not stored');

no_crash($node);
done_testing();
