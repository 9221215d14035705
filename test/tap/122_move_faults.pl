# A move of a namespace of each pack is killed, or cut off, before and after each of its statements, and runs again.
# Nothing is lost, nothing is in two databases, and all work has been done once.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use FaultProxy;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', with => [qw(pawl_dag pawl_bulk pawl_saga)]);
my $worker = '00000000-0000-7000-8000-00000000000a';
# Each work_<kind> reports what was claimed before the last move, wherever that was, and claims a little more.
$node->safe_psql('postgres', <<"SQL");
create function work_dag() returns void language plpgsql as \$\$
begin
    perform from pawl_dag.report((select coalesce(jsonb_agg(jsonb_build_object('task_uuid', s.task_uuid, 'step_uuid',
        s.step_uuid, 'token', s.token, 'result', 1)), '[]') from pawl_dag.steps s where s.worker_uuid = '$worker'),
        '$worker');
    perform from pawl_dag.orchestrate(1000);
    perform from pawl_dag.claim('$worker', 'billing', 2, '1 day');
end \$\$;
create function work_bulk() returns void language plpgsql as \$\$
begin
    perform from pawl_bulk.report((select coalesce(jsonb_agg(to_jsonb(w) || '{"result": "ok"}'), '[]')
        from pawl_bulk.work w where w.worker = 'w'), 'w');
    perform from pawl_bulk.advance(1000);
    perform from pawl_bulk.claim('w', 'hands', 4, '1 day');
end \$\$;
create function work_saga() returns void language plpgsql as \$\$
begin
    perform from pawl_saga.report((select coalesce(jsonb_agg(to_jsonb(t) || '{"result": 1}'), '[]')
        from pawl_saga.tasks t where t.worker = 'w'), 'w');
    perform from pawl_saga.claim('w', 'default', 2, '1 day');
end \$\$;
SQL
$node->safe_psql('postgres', "create database $_ template postgres") for qw(b c);
@PawlTest::stays{qw(b c)} = (1, 1);
my %database = (a => 'postgres', b => 'b', c => 'c');
for my $command (['init', 'a', 'dbname=postgres'], ['add', 'b', 'dbname=b'], ['add', 'c', 'dbname=c'])
{
	is(end_program(begin_program($node, 'pawl', 'databases', @$command)), 0, "databases @$command");
}
$node->safe_psql('postgres', <<'SQL');
select pawl_dag.define_template('{"name": "chain", "namespace": "billing", "identity_strategy": "always_unique",
    "steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]}]}');
select count(*) from pawl_dag.start_tasks('chain', array_fill('{}'::jsonb, array[20]), namespace => 'billing');
select pawl_bulk.define('{"name": "load", "track_row_data": true, "steps": [{"name": "a", "handler": "hands"},
    {"name": "b", "handler": "hands"}]}');
select pawl_bulk.submit('load', rows => (select jsonb_agg(jsonb_build_object('n', g)) from generate_series(1, 15) g))
  from generate_series(1, 2);
select pawl_bulk.advance(1000) from generate_series(1, 4);
select pawl_saga.define('{"flow": "linear", "name": "trip", "children": [{"task": "a"}, {"task": "b"}, {"task": "c"},
    {"task": "d"}]}');
select pawl_saga.post('trip ' || g, 'trip', board => 'mail') from generate_series(1, 10) g;
select pawl_saga.claim_job(job_uuid, 'conductor', '1 day') from pawl_saga.jobs;
update pawl_saga.jobs set flow_uuid = pawl_saga.start('trip');
SQL

# What a namespace of each kind has: its units, when they are complete, and the log entries of steps that were done.
my %kind = (
	dag => { namespace => 'billing', units => 'pawl_dag.tasks', complete => "state = 'complete'", count => 20,
		steps => 60, key => 'task_uuid, step_uuid',
		once => "pawl_dag.step_transitions_log where to_state = 'in_progress'" },
	bulk => { namespace => 'load', units => 'pawl_bulk.operations', complete => "status = 'Completed'", count => 2,
		steps => 60, key => 'operation, row_number, step_index',
		once => "pawl_bulk.record_transitions_log where to_state = 'Completed'" },
	saga => { namespace => 'mail', units => 'pawl_saga.flows', complete => "state = 'SUCCESS'", count => 10,
		steps => 40, key => 'flow_uuid, node',
		once => "pawl_saga.task_transitions_log where to_state = 'RUNNING'" },
);
my ($name_of_kind, $kind, $from, $to);
sub begin_move
{
	return begin_program($node, 'pawl', 'move', $kind->{namespace}, $to, '--pack', $name_of_kind, '--drain', '0 s');
}

# Where the namespace is: the databases that have rows of it, in tables or in transit.
sub places
{
	my ($what) = @_;
	return join ' ', grep { one($node, "select count(*) from $what", $database{$_}) > 0 } sort keys %database;
}

sub tried_again
{
	my ($name) = @_;
	my $again = begin_move();
	my $status = end_program($again);
	# it may have ended before
	ok($status == 0 || $again->{err} =~ /is in database "$to" already/, "$name: it is continued")
	  or diag($again->{err});
	is(one($node, "select state from pawl_move.moves order by created_at desc, move desc limit 1"), 'done',
		"$name: and ends");
	is(places($kind->{units}), $to, "$name: the work is in one database");
	is(one($node, "select count(*) from $kind->{units}", $database{$to}), $kind->{count}, "$name: all of it");
	is(places('pawl.transit'), '', "$name: nothing is in transit");
	is(one($node, "select database from pawl.where_is('$name_of_kind', '$kind->{namespace}')"), $to,
		"$name: it is placed there");
	# it goes on, with results of what was claimed elsewhere
	$node->safe_psql($database{$to}, "select work_$name_of_kind()");
	return;
}

my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
sub accident
{
	my ($statement, $when, $what) = @_;
	my $name = "$name_of_kind, $from to $to, $what $when " . (substr($statement, 0, 45) =~ s/\s+/ /gr);
	local $PawlPrograms::through = $proxy->through;
	# to kill a process that is not there yet, its turn waits
	$proxy->arm([ $statement, $when, 'cut' ]);
	my $run = begin_move();
	if ($what eq 'kill')
	{
		wait_until(sub { $proxy->fired(1) }, "$name: the accident");
		kill_program($run);
	}
	else
	{
		is(end_program($run), 4, "$name: the move ends, without a connection") or diag($run->{err});
	}
	is($proxy->fired(1), 1, "$name: the accident happens");
	$proxy->arm();
	undef $PawlPrograms::through;
	tried_again($name);
	($from, $to) = ($to, (grep { $_ ne $to } qw(a b c))[ rand 2 ]);
	return;
}

my $turn = 0;
for (qw(dag bulk saga))
{
	($name_of_kind, $kind, $from, $to) = ($_, $kind{$_}, 'a', 'b');
	# A whole move, seen by the proxy.
	local $PawlPrograms::through = $proxy->through;
	my $seen = begin_move();
	is(end_program($seen), 0, "$name_of_kind: a move goes well") or diag($seen->{err});
	undef $PawlPrograms::through;
	# What they begin with: some have the id of the move. The member that is neither left nor entered need not be told.
	my %statement = map { s/'.*//sr => 1 }
	  grep { !/^SELECT (?:d\.connection|extract)|^SELECT d\.name|^INSERT INTO pawl\.pl/i } $proxy->statements;
	my @statements = sort keys %statement;
	cmp_ok(scalar(@statements), '>=', 10, "$name_of_kind: its statements are known");
	note join "\n", @statements;
	($from, $to) = ('b', 'c');
	for my $statement (@statements)
	{
		my @when = $ENV{PAWL_LONG} ? qw(before after) : (qw(before after))[ $turn++ % 2 ];
		accident($statement, $_, 'cut') for @when;
	}
	my @important = grep { /pawl\.(?:depart|arrive|forget)|pawl_move\.place|^COMMIT|UPDATE pawl_move/ } @statements;
	cmp_ok(scalar(@important), '>=', 5, "$name_of_kind: the phases are among the statements");
	for my $statement (@important)
	{
		accident($statement, $_, 'cut') for $name_of_kind eq 'dag' || $ENV{PAWL_LONG} ? qw(before after) : ();
		accident($statement, 'after', 'kill');
	}

	# The server is killed while the rows arrive.
	$proxy->arm([ (grep { /pawl\.arrive/ } @statements)[0], 'after', 'cut' ]);
	local $PawlPrograms::through = $proxy->through;
	my $run = begin_move();
	undef $PawlPrograms::through;
	$proxy->fired(5);
	kill_server($node);
	$node->start;
	is(end_program($run), 4, "$name_of_kind: a server that is killed ends the move");
	$proxy->arm();
	tried_again("$name_of_kind: after a crash of the server");

	# All work has been done once: nothing ran twice, nothing was lost.
	becomes(sub {
		$node->safe_psql($database{$to}, "select work_$name_of_kind()");
		one($node, "select count(*) from $kind->{units} where $kind->{complete}", $database{$to}) }, $kind->{count},
		"$name_of_kind: all work is completed");
	is(one($node, "select count(*) || ' ' || count(distinct ($kind->{key})) from $kind->{once}", $database{$to}),
		"$kind->{steps} $kind->{steps}", "$name_of_kind: and each step was done once");
	sound($node, "$name_of_kind, in the end: $_", $database{$_}) for sort keys %database;
	next if $name_of_kind eq 'dag';
	is(one($node, "select count(*) from pawl_$name_of_kind.verify()", $database{$_}), 0,
		"$name_of_kind: its own verification is clean ($_)") for sort keys %database;
}

$proxy->end;
done_testing();
