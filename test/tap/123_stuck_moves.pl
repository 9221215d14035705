# Moves of namespaces that meet something in their way: defaults of a database, unusual tables, changed tables, missing
# rights, options that change. Rows that have left can always arrive or return, and what cannot move never leaves.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', with => [qw(pawl_dag)]);
# A table of a user, by namespaces of the kind "shop".
$node->safe_psql('postgres', <<'SQL');
create table orders (id integer primary key, customer text, state text default 'x');
select pawl.declare_placed('shop', '[{"relation": "public.orders", "role": "unit", "namespace_column": "customer"}]');
SQL
$node->safe_psql('postgres', "create database $_ template postgres") for qw(b c);
my %database = (a => 'postgres', b => 'b', c => 'c');

# What pawl prints, and its exit status.
sub pawl
{
	my $run = begin_program($node, 'pawl', @_);
	my $status = end_program($run);
	return ($status, "$run->{out}$run->{err}");
}

sub goes
{
	my ($name, @arguments) = @_;
	my ($status, $said) = pawl(@arguments);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status, 0, $name) or diag($said);
	return $said;
}

sub is_rejected
{
	my ($name, $expected, @arguments) = @_;
	my ($status, $said) = pawl(@arguments);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status, 3, $name);
	return like($said, $expected, "$name: the error says why");
}

# How many rows of a table each database has.
sub rows_in
{
	my ($table) = @_;
	return join ' ', map { one($node, "select count(*) from $table", $database{$_}) } sort keys %database;
}

goes('a database becomes the first of several', qw(databases init a dbname=postgres));
goes("database $_ is added", qw(databases add), $_, "dbname=$_") for qw(b c);
$node->safe_psql('postgres', "insert into orders select g, 'acme' from generate_series(1, 3) g");
my @shop = (qw(--pack shop --drain), '0 s');

# Sessions begin with other defaults in each database.
for my $setting ("default_transaction_isolation = 'serializable'", "default_transaction_isolation = 'repeatable read'",
	'default_transaction_read_only = on', 'default_transaction_deferrable = on')
{
	my ($from, $to) = rows_in('orders') eq '3 0 0' ? qw(a b) : qw(b a);
	$node->safe_psql('template1', "alter database $database{$_} set $setting") for qw(a b);
	goes("a namespace moves in spite of $setting", 'move', 'acme', $to, @shop);
	goes("the default place changes in spite of $setting", qw(databases default), $to);
	goes("the members are compared in spite of $setting", qw(databases check --update));
	$node->safe_psql('template1', "alter database $database{$_} reset all") for qw(a b);
	is(rows_in('orders'), $to eq 'b' ? '0 3 0' : '3 0 0', "its rows are there ($setting)");
}

done_testing();
