# What a move of a namespace, and a change of the default place, wait for: transactions that began before, however they
# end, so that no work of the namespace stays where it was; and locks. The user is told of each.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlCommands;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', with => [qw(pawl_dag)]);
commands_at($node);
$node->safe_psql('postgres', 'create database b template postgres');
my %database = (a => 'postgres', b => 'b');

# Waits until a program has printed something, or has ended.
sub says
{
	my ($run, $expected, $name) = @_;
	wait_until(sub { $run->{harness}->pump_nb if $run->{harness}->pumpable;
		$run->{out} =~ $expected || !$run->{harness}->pumpable }, $name);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return like($run->{out}, $expected, $name) || diag($run->{err});
}

goes('a database becomes the first of several', qw(databases init a dbname=postgres));
goes('a second one is added', qw(databases add b dbname=b));
sub define_in
{
	my ($database, $namespace) = @_;
	return $node->safe_psql($database, "select pawl_dag.define_template('{\"name\": \"one\", \"namespace\": "
		. "\"$namespace\", \"identity_strategy\": \"always_unique\", \"steps\": [{\"name\": \"a\"}]}')");
}
sub start { my ($namespace) = @_; return "select pawl_dag.start_task('one', namespace => '$namespace')" }

# How many tasks of a namespace each database has.
sub tasks
{
	my ($namespace) = @_;
	return join ' ', map { one($node, "select count(*) from pawl_dag.tasks where namespace = '$namespace'",
		$database{$_}) } qw(a b);
}

# A transaction that is prepared while it is waited for is another one by its name.
define_in('postgres', $_) for qw(billing killed);
$node->safe_psql('postgres', start('billing'));
my $writer = $node->background_psql('postgres');
$writer->query_safe('begin; ' . start('billing'));
my $move = begin_program($node, qw(pawl move billing b --drain), '0 s');
says($move, qr/waiting for transactions that began before: \d+\/\d+ of process \d+$/m, 'the move waits for a transaction');
$writer->query_safe("prepare transaction 'late'");
$node->safe_psql('postgres', "begin; create table other (); prepare transaction 'later'");
says($move, qr/waiting for transactions that began before: .*prepared transaction \d+ "late"/,
	'and goes on waiting when it has been prepared');
$node->safe_psql('postgres', "commit prepared 'late'");
$node->safe_psql('postgres', "rollback prepared 'later'");
is(end_program($move), 0, 'it ends when that is committed') or diag($move->{err});
is(tasks('billing'), '0 2', 'and all its work has moved');

# A stream of transactions that are prepared later delays nothing.
my $old = $node->background_psql('postgres');
my $new = $node->background_psql('postgres');
$old->query_safe('begin; create table first ()');
my $list = sub { my ($among) = @_; return one($node, "select pawl.transactions(\$\$$among\$\$)") };
my $open = one($node, 'select pawl.transactions()');
like($open, qr/^\{"\d+\/\d+ of process \d+"\}$/, 'a transaction is open');
$new->query_safe("begin; create table second (); prepare transaction 'second'");
is($list->($open), $open, 'one that is prepared meanwhile does not count while the first is the same');
$old->query_safe("prepare transaction 'first'");
$open = $list->($open);
like($open, qr/"first.*"second/, 'when it has gone, each prepared one may be the same');
$new->query_safe("begin; create table third (); prepare transaction 'third'");
is($list->($open), $open, 'from then on none is added');
$node->safe_psql('postgres', "commit prepared '$_'") for qw(first second);
is($list->($open), '{}', 'and the wait ends although another one is prepared');
$node->safe_psql('postgres', "rollback prepared 'third'");

# Nor are transactions lost that end by themselves, or with their session, or outlive the server.
for my $end (['commit', '0 2'], ['rollback', '0 1'], ['terminate', '0 1'])
{
	my ($how, $expected) = @$end;
	define_in('postgres', $how);
	$node->safe_psql('postgres', start($how));
	$writer->query_safe('begin; ' . start($how));
	my $pid = $writer->query_safe('select pg_backend_pid()');
	my $run = begin_program($node, qw(pawl move), $how, qw(b --drain), '0 s');
	says($run, qr/waiting for transactions that began before: \d+\/\d+ of process $pid$/m, "$how: the move waits");
	$how eq 'terminate' ? $node->safe_psql('postgres', "select pg_terminate_backend($pid)") : $writer->query_safe($how);
	is(end_program($run), 0, "$how: and ends with the transaction") or diag($run->{err});
	is(tasks($how), $expected, "$how: with all that was committed");
}
undef $writer;
$node->safe_psql('postgres', start('killed'));
$writer = $node->background_psql('postgres');
$writer->query_safe('begin; ' . start('killed'));
$move = begin_program($node, qw(pawl move killed b --drain), '0 s');
says($move, qr/waiting for/, 'a move waits once more');
$writer->query_safe("prepare transaction 'kept'");
kill_server($node);
$node->start;
is(end_program($move), 4, 'it ends with the server');
$move = begin_program($node, qw(pawl move killed b));
says($move, qr/waiting for transactions that began before: prepared transaction \d+ "kept"$/m,
	'when it is continued it waits for the prepared transaction');
$node->safe_psql('postgres', "commit prepared 'kept'");
is(end_program($move), 0, 'and ends with it') or diag($move->{err});
is(tasks('killed'), '0 2', 'no task has stayed behind');

# The default place changes by the same rule.
$writer = $node->background_psql('postgres');
$writer->query_safe("begin; select pawl_dag.define_template('{\"name\": \"one\", \"namespace\": \"unseen\", "
	. "\"identity_strategy\": \"always_unique\", \"steps\": [{\"name\": \"a\"}]}'); " . start('unseen'));
my $change = begin_program($node, qw(pawl databases default b));
says($change, qr/waiting for/, 'a change of the default place waits for a transaction');
$writer->query_safe("prepare transaction 'unseen'");
says($change, qr/prepared transaction \d+ "unseen"/, 'which it goes on to do when it has been prepared');
define_in('b', 'unseen');
is(scalar(sqlstate_of($node, start('unseen'), 'b')), 'PW009', 'the new place takes nothing meanwhile');
$node->safe_psql('postgres', "commit prepared 'unseen'");
is(end_program($change), 0, 'it ends when that is committed') or diag($change->{err});
is(one($node, "select database from pawl.where_is('dag', 'unseen')", $_), 'a', "$_ knows that the namespace has stayed")
  for values %database;
is(scalar(sqlstate_of($node, start('unseen'), 'b')), 'PW009', 'and the new place rejects it');
# Locks of other transactions: these are named, and no limit of time ends the wait.
$node->safe_psql('template1', "alter database $database{$_} set lock_timeout = '1 s'") for qw(a b);
$move = begin_program($node, qw(pawl databases default a));
is(end_program($move), 0, 'the default place changes back') or diag($move->{err});
define_in('postgres', 'locked');
$node->safe_psql('postgres', start('locked'));
my $locker = $node->background_psql('postgres');
my $pid = $locker->query_safe('begin; select pg_backend_pid()');
$locker->query_safe("select from pawl_dag.tasks where namespace = 'locked' for update");
$move = begin_program($node, qw(pawl move locked b --drain), '0 s');
says($move, qr/waiting for a lock: process $pid \(.*\), whose transaction began at \d{4}-/,
	'a session that has locked a row is named');
$node->safe_psql('b', "begin; lock table pawl_dag.steps in share mode; prepare transaction e'\\x1b]0;locker\\x07'");
$locker->query_safe('commit');
says($move, qr/waiting for a lock: prepared transaction \d+ "\\x1b\]0;locker\\x07"$/m,
	'and a prepared transaction where the rows arrive, without its control characters');
$node->safe_psql('b', "rollback prepared e'\\x1b]0;locker\\x07'");
is(end_program($move), 0, 'the move ends when it can') or diag($move->{err});
is(tasks('locked'), '0 1', 'with its rows');
$node->safe_psql('postgres', "select pawl_move.request('dag', 'locked', 'a')");
$pid = $locker->query_safe('begin; lock table pawl.arrival in exclusive mode; select pg_backend_pid()');
my $cancel = begin_program($node, qw(pawl move locked --cancel));
says($cancel, qr/waiting for a lock: process $pid /, 'a cancel says what it waits for, too');
$locker->query_safe('commit');
is(end_program($cancel), 0, 'and ends then') or diag($cancel->{err});
$node->safe_psql('template1', "alter database $database{$_} reset all") for qw(a b);
sound($node, "in the end: $_", $database{$_}) for sort keys %database;

done_testing();
