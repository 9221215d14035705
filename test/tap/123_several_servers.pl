# pawld tends three servers, and workers follow their queues: while one server is down the others go on, and a namespace
# that moves takes its worker along.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my %node = map { $_ => new_cluster($_, with => ['pawl_dag']) } qw(a b c);
my $target = sub { my ($name) = @_; return 'host=' . $node{$name}->host . ' port=' . $node{$name}->port
		. ' dbname=postgres' };
sub pawl
{
	my ($name, @arguments) = @_;
	my $run = begin_program($node{a}, 'pawl', '-d', $target->('a'), @arguments);
	is(end_program($run), 0, $name) or diag($run->{err});
	return $run->{out};
}
pawl('the first database', 'databases', 'init', 'a', $target->('a'));
pawl("database $_ is added", 'databases', 'add', $_, $target->($_)) for qw(b c);
my %namespace = (a => 'red', b => 'green');
pawl('a namespace is placed', 'move', 'green', 'b');
for my $name (qw(a b))
{
	$node{$name}->safe_psql('postgres', <<"SQL");
select pawl_dag.define_template('{"name": "chain", "namespace": "$namespace{$name}", "identity_strategy":
    "always_unique", "steps": [{"name": "a", "handler": "sleep"},
    {"name": "b", "handler": "sleep", "dependencies": ["a"]}]}');
SQL
}
my $count = sub { my ($name, $where) = @_; return one_of($name, "select count(*) from pawl_dag.tasks where $where") };
sub one_of { my ($name, $query) = @_; return $node{$name}->safe_psql('postgres', $query) }
my $start = sub {
	my ($name, $n) = @_;
	one_of($name, "select count(*) from pawl_dag.start_tasks('chain', array_fill('{}'::jsonb, array[$n]), "
		. "namespace => '$namespace{$name}')");
};

# One daemon, and a worker for each namespace; all know the first database only.
my $daemon = begin_program($node{a}, 'pawld', '--database', $target->('a'), '--all-databases', 'true', '--http',
	'127.0.0.1:0');
my $port;
wait_until(sub { $daemon->{harness}->pump_nb; ($port) = $daemon->{err} =~ /listening port=(\d+)/; $port },
	'the daemon to listen');
my %worker;
for my $queue (qw(red green))
{
	local %ENV = (%ENV, PAWL_DATABASE => $target->('a'), PAWL_PLACED => 'true');
	$worker{$queue} = begin_program($node{a}, 'example_worker', $queue, 4, 0, 30_000);
}
$start->($_, 20) for qw(a b);
becomes(sub { $count->($_, "state = 'complete'") }, '20', "the tasks of $_ complete") for qw(a b);

# Whether the daemon can work in a database, and in one of them.
my $status = sub { my ($path) = @_; return (http_get($port, $path))[0] };
becomes(sub { $status->("/readyz/$_") }, '200', "the daemon tends $_") for qw(a b c);
is($status->('/healthz'), '200', 'it is alive');
is($status->('/healthz/b'), '200', 'in each of them');
is($status->('/readyz/z'), '503', 'it tends no database z');
my $metrics = (http_get($port, '/metrics'))[1];
like($metrics, qr/^pawld_databases_ready\{database="$_"\} 1$/m, "metrics of $_") for qw(a b c);
like($metrics, qr/^pawld_duty_runs_total\{database="b",duty="/m, 'duties have the label of their database');
my %times;
$times{$_}++ for $metrics =~ /^# TYPE (\S+)/mg;
is(join(' ', grep { $times{$_} > 1 } sort keys %times), '', 'each family is there once');

# One server is killed: the others go on.
kill_server($node{b});
becomes(sub { $status->('/readyz/b') }, '503', 'the daemon cannot work in the database that is down');
is($status->('/readyz'), '200', 'it is ready, because it can in others');
is($status->('/readyz/a'), '200', 'as in this one');
$start->('a', 20);
becomes(sub { $count->('a', "state = 'complete'") }, '40', 'tasks of another database complete meanwhile');
$node{b}->start;
$start->('b', 20);
becomes(sub { $count->('b', "state = 'complete'") }, '40', 'and its own, when it is there again');

# A namespace moves while its worker works.
$start->('b', 200);
becomes(sub { $count->('b', "state = 'complete'") >= 60 ? 1 : 0 }, '1', 'some tasks are complete');
pawl('it moves', 'move', 'green', 'c', '--drain', '5 s');
is($count->('b', 'true'), 0, 'no task stays');
is($count->('c', 'true'), 240, 'all have moved');
becomes(sub { $count->('c', "state = 'complete'") }, '240', 'the worker follows and completes them');
is(one_of('c', "select count(*) || ' ' || count(distinct (task_uuid, step_uuid)) from pawl_dag.step_transitions_log "
	. "where event = 'Start'"), '480 480', 'each step was started once');
my $task = one_of('c', 'select task_uuid from pawl_dag.tasks order by 1 limit 1');
like(pawl('a task is found by its id', 'show', $task), qr/^chain  complete/, 'wherever it is');
like(pawl('lists are of all databases', 'list', '--limit', '1000'), qr/\bred\b.*\bgreen\b|\bgreen\b.*\bred\b/s,
	'those of each namespace');
pawl('a task is started where its namespace is', 'start', 'chain', '--namespace', 'green');
is($count->('c', 'true'), 241, 'in the new database');

end_program($_, 'TERM') for values %worker, $daemon;
sound($node{$_}, "in the end: $_") for qw(a b c);
done_testing();
