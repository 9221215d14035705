# Dumps of the schema alone, and dumps by the owner of a database without more rights: what is restored is enforced, or
# says in one sentence what to run.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', bare => 1);
my $dir = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', 'create role plain_owner login createdb; create database shop owner plain_owner');
$node->safe_psql('shop', 'create extension pawl; grant pawl_admin to plain_owner; '
		. 'grant create on schema public to plain_owner');
my $as_owner = $node->connstr('shop') . ' user=plain_owner';
my $make = <<'SQL';
select pawl.define('order', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> [*]
    class paid owned');
select pawl.define('order', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    paid --> lost : lose
    sent --> [*]
    lost --> [*]
    class paid owned');
create table orders (id int primary key, state text not null default 'new', owner text, lease timestamptz);
create table parts (id int, region text, state text not null default 'new', primary key (id, region))
    partition by list (region);
create table parts_a partition of parts for values in ('a');
select pawl.enforce('orders', 'state', 'order', version => 1, on_delete => 'terminal', errors => 'check_violation'),
    pawl.enable_log('orders', hash_chain => true), pawl.enable_queue('orders', owner => 'owner', lease => 'lease'),
    pawl.set_claiming('orders', claim => '{pay}'), pawl.set_placing('orders'), pawl.audit('orders', '{"sent": true}');
select pawl.enforce('parts', 'state', 'order', validate => false), pawl.enable_log('parts', most_recent => 'stored');
select pawl.enable_events('orders');
insert into orders (id) values (1), (2);
insert into parts values (1, 'a');
SQL
$node->safe_psql('shop', $make, connstr => $as_owner);

# The owner of the database and of its tables can dump it, with the role for dumps.
my ($out, $err) = ('', '');
IPC::Run::run([ 'pg_dump', '-Fc', '-f', "$dir/whole", $as_owner ], '>', \$out, '2>', \$err);
like($err, qr/permission denied for table/, 'the owner of a database needs the role pawl_restore to dump it');
$node->safe_psql('postgres', 'grant pawl_restore to plain_owner');
my $result = IPC::Run::run([ 'pg_dump', '-Fc', '-f', "$dir/whole", $as_owner ], '>', \$out, '2>', \$err);
ok($result, 'the owner of a database dumps it') or diag($err);
$node->safe_psql('postgres', 'create database whole owner plain_owner');
$node->safe_psql('whole', 'create extension pawl; grant create on schema public to plain_owner');
$node->command_ok(
	[ 'pg_restore', '-e', '--no-comments', '-d', $node->connstr('whole') . ' user=plain_owner', "$dir/whole" ],
	'and restores it, as docs/operations.md says');
is($node->safe_psql('whole', 'select * from pawl.verify() where problem <> $$not_validated$$'), '',
	'rows and logs are what they were');
rejected($node, "update orders set state = 'sent' where id = 1", '23514', 'and enforced', 'whole');
is($node->safe_psql('whole', 'select pawl.definitions()'), $node->safe_psql('shop', 'select pawl.definitions()'),
	'by the same definitions');

# The schema alone, in the ways of people and of Rails (structure.sql).
my $definitions = $node->safe_psql('shop', 'select pawl.definitions()');
for my $options ([], [ '-x', '-O' ], [ '-x', '-O', '--no-comments', '-n', 'public' ])
{
	my $name = join ' ', 'pg_dump -s', @$options;
	my $database = 'schema_' . scalar @$options;
	$node->command_ok([ 'pg_dump', '-s', @$options, '-f', "$dir/schema.sql", $node->connstr('shop') ], $name);
	$node->safe_psql('postgres', "create database $database");
	$node->safe_psql($database, 'create extension pawl; drop schema public') if "@$options" =~ /-n/;
	$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/schema.sql", $node->connstr($database) ],
		"$name: is restored");
	for my $write ("insert into orders (id) values (1)", "insert into parts values (1, 'a')",
		"insert into parts_a values (1, 'a')", 'truncate orders')
	{
		($out, $err) = ('', '');
		$node->psql($database, "\\set VERBOSITY verbose\n$write", stdout => \$out, stderr => \$err);
		if ($write =~ /truncate/)
		{
			like($err, qr/42704/, "$name: $write is rejected");
			next;
		}
		like($err, qr/ERROR:  42704: table public\.\w+ has state machine triggers, but no binding/,
			"$name: $write is rejected");
		like($err, qr/HINT:  Run here what SELECT pawl.definitions\(\); returns in the original database, or pawl apply/,
			"$name: and says what to run");
	}
	like($node->safe_psql($database, "select check_name || ' ' || status from pawl.health() where relation = "
				. "'orders'::regclass"), qr/orphaned_triggers warning/, "$name: health knows");
	$node->safe_psql($database, $definitions);
	# the log that was restored is taken up, so all rows count as validated
	is($node->safe_psql($database, 'select pawl.definitions()'), $definitions =~ s/, validate => false//r,
		"$name: the definitions make it again");
	$node->safe_psql($database, "insert into orders (id) values (1); insert into parts values (1, 'a')");
	rejected($node, "update orders set state = 'sent' where id = 1", '23514', "$name: it is enforced", $database);
	rejected($node, "update parts set state = 'sent' where id = 1", 'PW001', "$name: also partitions", $database);
	is($node->safe_psql($database, "select status, detail from pawl.health() where status = 'error'"), '',
		"$name: health finds no fault");
	is($node->safe_psql($database, "select count(*) from orders_transitions_log"), 1, "$name: the log is used");
}
done_testing();
