# A namespace moves while a worker of each language works on it. The worker follows: what it holds it reports where the
# rows are, before they leave or after they have arrived, and each step is done once.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use FaultProxy;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my %program = (
	'C++' => ['scenario_worker'],
	Python => [ '/usr/bin/python3', "$FindBin::Bin/../workers/worker.py" ],
	TypeScript => [ '/usr/bin/env', 'node', "$FindBin::Bin/../workers/worker.mjs" ],
);
$ENV{PAWL_TYPESCRIPT} = "$ENV{PAWL_PROGRAMS}/typescript";
my $lease = 9_000;
my $node = new_cluster('main', with => ['pawl_dag']);
my %database = (a => 'postgres', b => 'b', c => 'c');
$node->safe_psql('postgres', "create database $_ template postgres") for qw(b c);
# The connections that pawl.database has lead through a proxy.
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
my ($folder, $port) = @{ $proxy->through };
for my $command ([qw(init a)], [qw(add b)], [qw(add c)])
{
	my $uri = "postgresql:///$database{ $command->[1] }?host=$folder&port=$port";
	is(end_program(begin_program($node, 'pawl', 'databases', @$command, $uri)), 0, "databases @$command");
}
$node->safe_psql('postgres', <<'SQL');
select pawl_dag.define_template('{"name": "pair", "identity_strategy": "always_unique", "steps": [{"name": "first"},
    {"name": "second", "dependencies": ["first"]}]}');
SQL

# Where the namespace is; counts of steps there.
my $at = 'a';
sub count_of
{
	my ($what) = @_;
	return one($node, "select count(*) from $what", $database{$at});
}
sub start
{
	my ($count, $context) = @_;
	$node->safe_psql($database{$at},
		"select pawl_dag.start_tasks('pair', array_fill('$context'::jsonb, array[$count]))");
	return;
}
sub begin_move { my ($to, $drain) = @_; return begin_program($node, 'pawl', 'move', 'default', $to, '--drain', $drain) }
sub ends
{
	my ($move, $to, $name) = @_;
	is(end_program($move), 0, $name) or diag($move->{err});
	$at = $to;
	return;
}
sub completes
{
	my ($count, $name) = @_;
	becomes(sub { count_of("pawl_dag.tasks where state = 'complete'") }, $count, $name);
	is(one($node, <<'SQL', $database{$at}), 't', "$name: each step was started and reported once");
select count(*) = 2 * (select count(*) from pawl_dag.tasks) and count(*) = count(distinct (task_uuid, step_uuid))
   and count(*) = (select count(*) from pawl_dag.step_transitions_log where to_state = 'complete')
   and 1 = (select max(attempts) from pawl_dag.steps)
  from pawl_dag.step_transitions_log where to_state = 'in_progress'
SQL
	return;
}

my $gates = PostgreSQL::Test::Utils::tempdir_short();
for my $language (sort keys %program)
{
	local $ENV{PAWL_PLACED} = 1;
	my $worker = begin_program($node, @{ $program{$language} }, 'steps', $lease, 30_000);
	my $tasks = count_of('pawl_dag.tasks');
	my $gate;
	my $hold = sub {
		$gate = "$gates/$language.$tasks";
		start(4, qq({"kind": "held", "until": "$gate"}));
		$tasks += 4;
		becomes(sub { count_of("pawl_dag.steps where state = 'in_progress'") }, 4, "$language: it works");
	};

	# What it holds when the namespace is closed, it reports before the rows leave, which waits for that.
	$hold->();
	my $move = begin_move('b', '10 min');
	becomes(sub { one($node, "select count(*) from pawl.departure where phase = 'closed'", $database{$at}) }, 1,
		"$language: the namespace is closed");
	append_to_file($gate, '');
	ends($move, 'b', "$language: the rows leave when the worker holds nothing more");
	my $left = one($node, "select max(created_at) from pawl_move.move_transitions_log where to_state = 'left'");
	is(count_of("pawl_dag.step_transitions_log l join pawl_dag.tasks t using (task_uuid) where l.created_at < '$left' "
		. "and l.from_state = 'in_progress' and t.context ->> 'until' = '$gate'"), 4,
		"$language: it has reported before");
	completes($tasks, "$language: the others complete where they are");

	# What it holds when the rows leave, it reports where they are then; its leases are extended there.
	$hold->();
	my $expiry = one($node, "select max(lease_until) from pawl_dag.steps where state = 'in_progress'", $database{$at});
	ends(begin_move('c', '0 s'), 'c', "$language: the rows leave while it works");
	becomes(sub { count_of("pawl_dag.steps where state = 'in_progress' and lease_until > '$expiry'") }, 4,
		"$language: leases are extended in the new database");
	append_to_file($gate, '');
	completes($tasks, "$language: results are reported in the new database");

	# It does much, and loses the database that it asks where the namespace is.
	$proxy->arm([ 'SELECT w.database', 'before', 'cut' ]);
	start(150, '{"kind": "quick"}');
	$tasks += 150;
	becomes(sub { count_of("pawl_dag.tasks where state = 'complete'") > $tasks - 120 ? 1 : 0 }, 1,
		"$language: many tasks are complete");
	ends(begin_move('a', '0 s'), 'a', "$language: the namespace moves meanwhile");
	completes($tasks, "$language: the others complete there");
	is($proxy->fired, 1, "$language: the database was lost in between");
	is(end_program($worker, 'TERM'), 0, "$language: the worker ends well") or diag($worker->{err});
	unlike($worker->{err}, qr/dropped: /, "$language: no result was dropped");
}
sound($node, "in the end: $_", $database{$_}) for sort keys %database;
$proxy->end;
done_testing();
