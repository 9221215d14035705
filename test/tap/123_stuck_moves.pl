# Moves of namespaces that meet something in their way: defaults of a database, unusual tables, changed tables. Rows
# that have left can always arrive or return, and what cannot move never leaves.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlCommands;
use PawlTest;
use Test::More;

my $node = new_cluster('main', with => [qw(pawl_dag)]);
commands_at($node);
# Tables of a user, by namespaces of the kind "shop". The server gives values to two columns of the second.
$node->safe_psql('postgres', <<'SQL');
create table orders (id integer primary key, customer text, state text default 'x');
create table lines (id integer primary key, number bigint generated always as identity, order_id integer,
    price integer, price_with_tax integer generated always as (price * 2) stored);
create table notes (order_id integer, note text);
select pawl.declare_placed('shop', '[{"relation": "public.orders", "role": "unit", "namespace_column": "customer"},
    {"relation": "public.lines", "role": "part", "key_columns": ["order_id"], "parent": "public.orders",
        "parent_columns": ["id"]},
    {"relation": "public.notes", "role": "part", "key_columns": ["order_id"], "parent": "public.orders",
        "parent_columns": ["id"]}]');
SQL
$node->safe_psql('postgres', "create database $_ template postgres") for qw(b c);
my %database = (a => 'postgres', b => 'b', c => 'c');

# How many rows of a table each database has.
sub rows_in
{
	my ($table) = @_;
	return join ' ', map { one($node, "select count(*) from $table", $database{$_}) } sort keys %database;
}

goes('a database becomes the first of several', qw(databases init a dbname=postgres));
goes("database $_ is added", qw(databases add), $_, "dbname=$_") for qw(b c);
$node->safe_psql('postgres', "insert into orders select g, 'acme' from generate_series(1, 3) g; "
	. 'insert into lines (id, order_id, price) select g, g, g from generate_series(1, 3) g');
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

# Columns to which the server gives values: a table that is moved has those that left, byte for byte.
my $lines = "select string_agg(l::text, ' ' order by id) from lines l";
my $before = one($node, $lines);
is($before, '(1,1,1,1,2) (2,2,2,2,4) (3,3,3,3,6)', 'rows have an identity and a generated column');
goes('they move', qw(move acme b), @shop);
is(one($node, $lines, 'b'), $before, 'and are what they were');
goes('they move back', qw(move acme a), @shop);

# What fails while an arrival is prevented is tried again, or cancelled.
sub break
{
	my ($name) = @_;
	$node->safe_psql($database{$name}, 'alter table pawl.transit add constraint down check (false) not valid');
	return;
}

sub mend
{
	my ($name) = @_;
	$node->safe_psql($database{$name}, 'alter table pawl.transit drop constraint down');
	return;
}

sub alter
{
	my ($sql, @names) = @_;
	$node->safe_psql($database{$_}, $sql) for @names;
	return;
}
break('b');
is_rejected('an arrival fails', qr/violates check constraint "down"/, qw(move acme b), @shop);
is(rows_in('lines'), '0 0 0', 'after the rows have left');
mend('b');
goes('it is cancelled', qw(move acme --cancel --pack shop));
is(one($node, $lines), $before, 'and such rows return as they were');

# What INSERTs cannot bring back does not leave.
for my $obstacle (
	['create rule quiet as on insert to lines do instead nothing', qr/Rule "quiet"/, 'drop rule quiet on lines'],
	['alter table lines add constraint cheap check (price < 3) not valid', qr/Constraint "cheap", which is NOT VALID/,
		'alter table lines drop constraint cheap'])
{
	my ($make, $expected, $drop) = @$obstacle;
	alter($make, 'a');
	is_rejected("rows do not leave: $make", qr/rows of table public\.lines cannot move.*$expected/s, qw(move acme b),
		@shop);
	is(rows_in('orders'), '3 0 0', 'they are where they were');
	accepted($node, "insert into orders values (9, 'acme'); delete from orders where id = 9");
	goes('the move is cancelled', qw(move acme --cancel --pack shop));
	alter($drop, 'a');
}
alter('alter table lines add constraint cheap check (price < 4) not valid', 'a');
goes('a constraint that the rows fulfil stops nothing', qw(move acme b), @shop);
goes('nor on the way back', qw(move acme a), @shop);
alter('alter table lines drop constraint cheap', 'a');
alter('alter table lines drop column price_with_tax, '
	. 'add column price_with_tax integer generated always as (price * 3) stored', 'b');
is_rejected('a column that is generated otherwise there is found before',
	qr/databases differ: columns of public\.lines/, qw(move acme b), @shop);
alter('alter table lines drop column price_with_tax, '
	. 'add column price_with_tax integer generated always as (price * 2) stored', 'b');
goes('the move is continued', qw(move acme b), @shop);
is(one($node, $lines, 'b'), $before, 'when it is the same');
goes('and the rows go back', qw(move acme a), @shop);

# Tables get columns while rows are between two databases.
break('b');
is_rejected('an arrival fails', qr/violates check constraint "down"/, qw(move acme b), @shop);
mend('b');
alter("alter table lines add column extra text default 'new', add column more int", 'b');
goes('rows arrive in a table that has got columns', qw(move acme b), @shop);
is(one($node, $lines, 'b'), '(1,1,1,1,2,new,) (2,2,2,2,4,new,) (3,3,3,3,6,new,)', 'which have their defaults');
is_rejected('the next move finds that tables differ', qr/databases differ/, qw(move acme a), @shop);
alter("alter table lines add column extra text default 'new', add column more int", 'a');
goes('until both have them', qw(move acme a), @shop);
break('b');
is_rejected('an arrival fails once more', qr/violates check constraint "down"/, qw(move acme b), @shop);
mend('b');
alter('alter table orders add column note text', qw(a b));
goes('rows return to a table that has got a column', qw(move acme --cancel --pack shop));
is(one($node, "select string_agg(o::text, ' ' order by id) from orders o"), '(1,acme,x,) (2,acme,x,) (3,acme,x,)',
	'with their values');
break('b');
is_rejected('an arrival fails again', qr/violates check constraint "down"/, qw(move acme b), @shop);
mend('b');
alter('alter table orders rename state to status', qw(a b));
my $changed = qr/table public\.orders has changed since rows left it.*"state".*"status".*HINT:  give it these columns/s;
is_rejected('a column that has another name is not written', $changed, qw(move acme b), @shop);
is_rejected('nor where the rows would return', $changed, qw(move acme --cancel --pack shop));
alter('alter table orders rename status to state', 'a');
goes('when it has its name again the rows return', qw(move acme --cancel --pack shop));
alter('alter table orders rename status to state', 'b');
is(rows_in('orders'), '3 0 0', 'all of them');

# A cancel that was interrupted between the two databases: nothing is closed again, and the hint works as it is.
goes('the namespace goes to another database', qw(move acme b), @shop);
is_rejected('the next move is not possible', qr/databases differ/, qw(move acme c), @shop);
my $open_move = one($node, "select move from pawl_move.moves where state = 'requested'");
$node->safe_psql('c', "select pawl.reject_arrival('$open_move', 'shop', 'acme')");
my ($status, $said) = pawl(qw(move acme c), @shop);
is($status, 3, 'a move that is being cancelled does not go on') or diag($said);
like($said, qr/the move is being cancelled/, 'the error says so');
accepted($node, "insert into orders values (9, 'acme')", 'the namespace accepts new work as before', 'b');
my ($hint) = $said =~ /HINT:  (pawl move .*)/;
is_deeply([ split ' ', $hint ], [qw(pawl move --cancel --pack 'shop' -- 'acme')], 'the hint names the kind, too');
goes('so the cancel is ended', qw(move --cancel --pack shop -- acme));
is(rows_in('orders'), '0 4 0', 'and the rows are where they were');

done_testing();
