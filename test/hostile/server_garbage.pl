# A server that answers garbage to worker, daemon and command line: no columns, nulls, other types, no rows, errors
# without fields, JSON that is nested very deep. They end with a message, or go on; no signal ends them. Work whose
# values cannot be read fails, and other work goes on.
use strict;
use warnings;
use FaultProxy;
use IPC::Run;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = api_cluster('garbage', qw(pawl_dag pawl_bulk pawl_saga));
define_template($node,
	'{"name": "work", "identity_strategy": "always_unique", "steps": [{"name": "a", "handler": "sleep"}]}');
my @kinds = ('no columns', 'nulls', 'words', 'empty', 'deep', 'numbers', 'no rows', 'bare error', 'strange error',
	'nothing', 'no description', 'too many values', 'cut');
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);

# Still runs, or ended by itself and said why; else what is wrong.
sub trouble_of
{
	my ($run) = @_;
	return '' if kill(0, $run->{pid}) && $run->{harness}->pumpable && eval { $run->{harness}->pump_nb; 1 }
		&& $run->{harness}->pumpable;
	eval { $run->{harness}->finish };
	my $signal = $run->{harness}->full_result(0) & 127;
	return "ended by signal $signal: $run->{err}" if $signal;
	return $run->{err} =~ /\S/ ? '' : 'ended without a word';
}

sub ended { my ($run) = @_; eval { $run->{harness}->pump_nb }; return !$run->{harness}->pumpable }

subtest 'the command line' => sub {
	start_tasks($node, 'work', 1);
	my $task = one($node, 'select task_uuid from pawl_dag.tasks');
	$node->safe_psql('postgres',
		q{select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "t"}]}')});
	my $flow = one($node, q{select pawl_saga.start('f')});
	local %ENV = (%ENV, PGHOST => $proxy->through->[0], PGPORT => $proxy->through->[1], PGDATABASE => 'postgres',
		PGUSER => one($node, 'select current_user'), PGOPTIONS => '');
	my @commands = ([ 'show', $task ], [ 'export', $task ], ['verify'], [ 'diagram', 'pawl_dag.task' ],
		[ 'start', 'work' ], [ 'saga', 'show', $flow ], [ '--json', 'list' ]);
	my @wrong;
	for my $kind (@kinds)
	{
		$proxy->garble($kind);
		for my $command (@commands)
		{
			my ($in, $out, $err) = ('', '', '');
			my $harness = IPC::Run::start([ program('pawl'), @$command ], \$in, \$out, \$err,
				IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
			$harness->finish;
			my $status = $harness->full_result(0);
			push @wrong, "@$command, $kind: $status $err"
				if $status & 127 || $status >> 8 > 4 || ($status && "$out$err" !~ /\S/);
		}
	}
	$proxy->garble;
	is(join("\n", @wrong), '', 'each command ends with a status and a word, whatever the server answers');
};

# What a program sends, learned while it works; then garbage to each of them, of every kind.
sub survives
{
	my ($program, $idle) = @_;
	my @wrong;
	my ($kinds, $reached) = (0, 0);  # of statements that it sends when it works
	for my $kind (grep { !/empty|numbers|strange|too many|no rows/ } @kinds)
	{
		$proxy->garble($kind);
		start_tasks($node, 'work', 2);
		my $before = $proxy->fired(0);
		my $run = begin_through($proxy, $node, @$program);
		# its first statements are answered with garbage; then a while of answers as they
		# should be, and garbage to what it sends when it works
		wait_until(sub { ended($run) || $proxy->fired(0.05) > $before }, "garbage for @$program");
		$proxy->garble;
		my $seen = $proxy->fired(0);
		for my $beginning ($idle->@*)
		{
			if (ended($run))
			{
				my $trouble = trouble_of($run);
				push @wrong, "$kind: $trouble" if $trouble;
				$run = begin_through($proxy, $node, @$program);
			}
			my $now = $proxy->fired(0);
			$proxy->garble($kind, $beginning);
			start_tasks($node, 'work', 1);
			# some answers end the program before it sends this again
			for (1 .. 100) { last if ended($run) || $proxy->fired(0.05) > $now }
			++$reached if $proxy->fired(0) > $now;
			++$kinds;
			$proxy->garble;
		}
		my $trouble = trouble_of($run);
		push @wrong, "$kind: $trouble" if $trouble;
		kill_program($run) unless ended($run);
	}
	is(join("\n", @wrong), '', "$program->[0] ends with a word or goes on");
	cmp_ok($reached, '>', $kinds / 2, 'and garbage has reached it while it worked');
	return;
}

subtest 'the worker' =>
	sub { survives([ 'example_worker', 'default', 2, 0.001, 600 ], [ 'SELECT c.task_uuid', 'SELECT r.task_uuid' ]) };
subtest 'the daemon' => sub {
	survives([ 'pawld', '--longest-poll-ms', 50, '--http', '127.0.0.1:0', '--gauges-ms', 100, '--boards', 'default' ],
		[ 'SELECT done', 'SELECT j.job_uuid' ]);
};

subtest 'the API' => sub {
	my $token = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
	local $PawlPrograms::through = $proxy->through;
	my $api = begin_api($node, '--sql-workers', '0');
	my @wrong;
	for my $kind (@kinds)
	{
		$proxy->garble($kind, 'SELECT pawl_api');
		for my $path (qw(/v1/session /v1/tasks /v1/machines/pawl_dag.task/diagram))
		{
			my $answer = ask('GET', $path, token => $token);
			push @wrong, "$kind, $path: $answer->{status} $answer->{content}"
				if $answer->{status} == 599 || $api->{run}{err} =~ /terminate/;
		}
	}
	$proxy->garble;
	is(join("\n", @wrong), '', 'each request is answered');
	wait_until(sub { ask('GET', '/v1/session', token => $token)->{status} == 200 }, 'a good answer');
	is(end_program($api->{run}, 'TERM'), 0, 'and the daemon ends on SIGTERM');
};

subtest 'values that are nested deep' => sub {
	define_template($node, '{"name": "deep", "namespace": "deep", "identity_strategy": "always_unique", "steps": '
		. '[{"name": "a", "handler": "sleep", "retry": {"max_attempts": 1}}]}');
	$node->safe_psql('postgres', q{select pawl_dag.start_tasks('deep',
		array[jsonb_build_object('x', (repeat('[', 2000) || repeat(']', 2000))::jsonb), '{"x": 1}'], 'deep')});
	my $worker = begin_program($node, 'example_worker', 'deep', 2, 0.001, 600);
	my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 50);
	wait_until(sub { one($node, q{select count(*) from pawl_dag.steps s join pawl_dag.tasks t using (task_uuid)
				where t.name = 'deep' and s.state in ('complete', 'error')}) == 2 }, 'both steps to end');
	is(one($node, q{select string_agg(s.state || coalesce(' ' || (s.error ->> 'message'), ''), ', ' order by s.state)
		from pawl_dag.steps s join pawl_dag.tasks t using (task_uuid) where t.name = 'deep'}),
		'complete, error column "context": JSON is nested deeper than 512',
		'the job that cannot be read fails, the other one is done');
	is(end_program($worker, 'TERM'), 0, 'and the worker continues until SIGTERM');
	end_program($daemon, 'TERM');
};

$proxy->end;
no_crash($node);
done_testing();
