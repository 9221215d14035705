# What a request of a move finds out before anything is closed: rights, rows that are not sound where the namespace
# would arrive, two requests at once. Options count when a move is continued, too.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlCommands;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = new_cluster('main', with => [qw(pawl_dag)]);
commands_at($node);
$node->safe_psql('postgres', "create database $_ template postgres") for qw(b c);
my %database = (a => 'postgres', b => 'b', c => 'c');

# How many tasks of a namespace each database has.
sub tasks
{
	my ($namespace) = @_;
	return join ' ', map { one($node, "select count(*) from pawl_dag.tasks where namespace = '$namespace'",
		$database{$_}) } sort keys %database;
}
sub start { my ($namespace) = @_; return "select pawl_dag.start_task('one', namespace => '$namespace')" }
sub moves { return one($node, 'select count(*) from pawl_move.moves') }

for my $of ([ 'postgres', 'billing' ], [ 'postgres', 'other' ])
{
	my ($database, $namespace) = @$of;
	$node->safe_psql($database, "select pawl_dag.define_template('{\"name\": \"one\", \"namespace\": \"$namespace\", "
		. '"identity_strategy": "always_unique", "steps": [{"name": "a"}]}\'); ' . start($namespace));
}
goes('a database becomes the first of several', qw(databases init a dbname=postgres));
goes("database $_ is added", qw(databases add), $_, "dbname=$_") for qw(b c);
goes('a namespace goes to another one', qw(move other b --drain), '0 s');

# Rights that are missing are found before the move is requested.
my $before = moves();
$node->safe_psql('postgres', "create role $_ login in role pawl_admin") for qw(adam eva);
{
	local $PawlPrograms::as = 'adam';
	is_rejected('a role without pawl_restore moves nothing',
		qr/database "a" \[42501\].*DETAIL:  Role adam lacks rights of pawl_restore there.*HINT:  GRANT pawl_restore TO adam/s,
		qw(move billing b));
}
is(moves(), $before, 'no move is requested');
$node->safe_psql('postgres', 'grant pawl_restore to eva');
$node->safe_psql('b', 'revoke execute on function pawl.arrive(uuid, boolean) from pawl_restore');
{
	local $PawlPrograms::as = 'eva';
	is_rejected('nor does one whose rights the other database does not know',
		qr/database "b" \[42501\].*GRANT pawl_restore TO eva/s, qw(move billing b));
}
is(moves(), $before, 'nor is it then');
$node->safe_psql('b', 'grant execute on function pawl.arrive(uuid, boolean) to pawl_restore');
{
	local $PawlPrograms::as = 'eva';
	goes('with both roles a namespace moves', qw(move billing b --drain), '0 s');
	goes('and moves back', qw(move billing a --drain), '0 s');
}

# A row of another namespace that is not sound stops a move before the namespace is closed.
my $damage = "set session_replication_role = replica; update pawl_dag.tasks set state = 'complete' "
	. "where namespace = 'other'";
my $repair = $damage =~ s/'complete'/'pending'/r;
$node->safe_psql('b', $damage);
is_rejected('a table that is not sound takes no rows',
	qr/tasks is not sound where the namespace would arrive.*pawl move --no-verify/s, qw(move billing b --drain), '0 s');
is(tasks('billing'), '1 0 0', 'they have not left');
accepted($node, start('billing'), 'and the namespace accepts new work');
goes('unless it need not be', qw(move billing b --no-verify));
is(tasks('billing'), '0 2 0', 'then they are moved');
goes('and back, where all is sound', qw(move billing a --drain), '0 s');

# The same after the rows have left.
$node->safe_psql('b', $repair);
$node->safe_psql('b', 'alter table pawl.transit add constraint down check (ordinal <> 0) not valid');
is_rejected('an arrival fails', qr/violates check constraint "down"/, qw(move billing b --drain), '0 s');
is(tasks('billing'), '0 0 0', 'when the rows have left');
$node->safe_psql('b', 'alter table pawl.transit drop constraint down');
$node->safe_psql('b', $damage);
is_rejected('an arrival beside rows that are not sound fails', qr/not sound with the rows of the move/,
	qw(move billing b));
goes('a continued move takes the option', qw(move billing b --no-verify));
is(one($node, 'select verify from pawl_move.moves order by move desc limit 1'), 'f', 'and keeps it');
is(tasks('billing'), '0 2 0', 'so the rows arrive');
is(one($node, 'select drain from pawl_move.moves order by move desc limit 1'), '00:00:00',
	'options that are not given are as before');
$node->safe_psql('b', $repair);

# Two requests at once.
for my $case ([ 'c', qr/[0-9a-f]{8}-/, 'the same move is one' ], [ 'a', qr/55006/, 'another one is rejected' ])
{
	my ($other, $expected, $name) = @$case;
	my $first = $node->background_psql('postgres');
	$first->query_safe("begin; select pawl_move.request('dag', 'billing', 'c')");
	my $second = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $second->query('select pg_backend_pid()');
	$second->query_until(qr/asked/, "\\set VERBOSITY sqlstate\n\\echo asked\n"
		. "select move from pawl_move.request('dag', 'billing', '$other');\n");
	becomes(sub { one($node, "select cardinality(pg_blocking_pids($pid))") }, 1, "$name: it waits for the first");
	$first->query_safe('commit');
	my $said = $second->query('select 1');
	is(one($node, "select count(*) from pawl_move.moves where state = 'requested'"), 1, "$name: there is one");
	like("$said$second->{stderr}", $expected, $name);
	$_->quit for $first, $second;
	goes("$name: it is cancelled", qw(move billing --cancel));
}

# Names that no index can have.
is(scalar(sqlstate_of($node, "select pawl_move.request('dag', repeat('x', 1001), 'c')")), '22023',
	'a name is at most 1,000 bytes long');
is(scalar(sqlstate_of($node, "select pawl_move.request('dag', null, 'c')")), '22004', 'and there is one');

done_testing();
