# Workers of each language pass the same scenarios (test/workers): jobs that cannot succeed, a kill, lost leases,
# handlers that hang, a drain, a connection that is cut. Whatever happens, each job ends as it should, and its result
# counts once. PAWL_LONG=1: every accident on steps, rows and flows too, and cut at each statement that is sent.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use FaultProxy;
use JSON::PP;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = "$FindBin::Bin/../workers";
my $scenarios = decode_json(slurp_file("$folder/scenarios.json"));
my %program = (
	'C++' => ['scenario_worker'],
	Python => [ '/usr/bin/python3', "$folder/worker.py" ],
	TypeScript => [ '/usr/bin/env', 'node', "$folder/worker.mjs" ],
);
$ENV{PAWL_TYPESCRIPT} = "$ENV{PAWL_PROGRAMS}/typescript";
my $node = new_cluster('main', with => [qw(pawl_dag pawl_bulk pawl_saga)]);
$node->safe_psql('postgres', fixture('../workers/work.sql'));
my ($lease, $grace) = (1000, 30_000);

# How each source gets its jobs, and what became of them.
my %source = (
	table => {
		add => q(insert into work (kind) select '%1$s' from generate_series(1, %2$d)),
		duties => q(select pawl.reap('work'), pawl.fire_due('work')),
		states => q(select state, count(*) from work group by 1),
		owned => q(select count(*) from work where owner is not null),
		twice => q(select count(*) from (select subject_id from work_transitions where to_state = 'done'
			group by 1 having count(*) > 1) x),
		empty => 'delete from work',
	},
	steps => {
		add => q(select count(pawl_dag.start_task('work', '{"kind": "%1$s"}')) from generate_series(1, %2$d)),
		duties => q(select pawl.reap('pawl_dag.steps'), pawl.fire_due('pawl_dag.steps'), pawl_dag.orchestrate(100)),
		states => q(select case state when 'complete' then 'done' when 'error' then 'failed' else 'open' end, count(*)
			from pawl_dag.steps group by 1),
		owned => q(select count(*) from pawl_dag.steps where worker_uuid is not null),
		twice => q(select count(*) from (select step_uuid from pawl_dag.step_transitions where to_state = 'complete'
			group by 1 having count(*) > 1) x),
		empty => 'delete from pawl_dag.tasks',
	},
	rows => {
		add => q(select pawl_bulk.submit('work', rows => (select jsonb_agg('{"kind": "%1$s"}'::jsonb)
			from generate_series(1, %2$d)))),
		duties => q(select pawl.reap('pawl_bulk.work'), pawl.fire_due('pawl_bulk.work'), pawl_bulk.advance(1000)),
		states => q(select case state when 'Completed' then 'done' when 'Failed' then 'failed' else 'open' end, count(*)
			from pawl_bulk.records group by 1 union all select 'open', count(*) from pawl_bulk.operations
			where completed_at is null having count(*) > 0),
		owned => q(select count(*) from pawl_bulk.work where worker is not null),
		twice => q(select count(*) from (select operation, row_number from pawl_bulk.record_transitions
			where to_state in ('Completed', 'Failed') group by 1, 2 having count(*) > 1) x),
		empty => 'delete from pawl_bulk.operations',
	},
	flows => {
		add => q(select count(pawl_saga.start('work', '{"kind": "%1$s"}')) from generate_series(1, %2$d)),
		duties => q(select pawl.reap('pawl_saga.tasks'), pawl.fire_due('pawl_saga.tasks'), pawl_saga.begin_attempts()),
		states => q(select case state when 'SUCCESS' then 'done' when 'REVERTED' then 'failed' else 'open' end, count(*)
			from pawl_saga.flows group by 1),
		owned => q(select count(*) from pawl_saga.tasks where worker is not null),
		twice => q(select count(*) from (select flow_uuid, node from pawl_saga.task_transitions
			where to_state = 'SUCCESS' group by 1, 2 having count(*) > 1) x),
		empty => 'delete from pawl_saga.flows',
	},
);
my $source;

sub add
{
	my (%jobs) = @_;
	$node->safe_psql('postgres', join ';', map { sprintf $source->{add}, $_, $jobs{$_} } sort keys %jobs);
	return;
}

# The states, when all have ended; the duties of pawld are done meanwhile.
sub ends
{
	my ($of) = @_;
	my $states = '';
	eval {
		wait_until(sub {
			one($node, $source->{duties});
			$states = one($node, $source->{states});
			$states !~ /^(?:ready|running|open)/m }, $of);
	} or return "$states\n$@";
	return join ' ', sort split /\n/, $states;
}

sub begin
{
	my ($language, $name, $proxy) = @_;
	my @command = (@{ $program{$language} }, $name, $lease, $grace);
	return $proxy ? begin_through($proxy, $node, @command) : begin_program($node, @command);
}

# Waits until the worker has some. A look takes less than the duties, during which jobs can end.
sub works
{
	my $owned = sub { one($node, $source->{owned}) > 0 };
	return wait_until(sub {
		return 1 if $owned->();
		one($node, $source->{duties});
		return $owned->() }, 'jobs at work');
}

my %accident = (
	kill => sub {
		my ($language, $name, $run) = @_;
		works();
		kill_program($$run);
		$$run = begin($language, $name);
	},
	freeze => sub {
		my ($language, $name, $run) = @_;
		works();
		kill 'STOP', $$run->{pid};
		wait_until(sub {
			one($node, $source->{duties});
			one($node, $source->{owned}) == 0 }, 'lost leases');
		kill 'CONT', $$run->{pid};
	},
	drain => sub {
		my ($language, $name, $run) = @_;
		works();
		is(end_program($$run, 'TERM'), 0, 'it ends well') or diag($$run->{err});
		is(one($node, $source->{owned}), 0, 'and leaves nothing behind');
		$$run = begin($language, $name);
	},
	cut => sub {
		my ($language, $name, $run) = @_;
		end_program($$run, 'TERM');
		my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
		$$run = begin($language, $name, $proxy);
		add(quick => 2);
		ends('the statements are learned');
		my @statements = $proxy->statements;
		@statements = grep { /\bclaim\(|report\(|fire_many\(/ } @statements unless $ENV{PAWL_LONG};
		cmp_ok(scalar @statements, '>', 1, 'its statements are known');
		my $happened = 0;
		for my $statement (@statements)
		{
			for my $when (qw(before after))
			{
				$proxy->arm([ $statement, $when, 'cut' ]);
				add(quick => 2);
				ends("$statement, cut $when");
				$happened += $proxy->fired;
			}
		}
		cmp_ok($happened, '>', 2, 'the connection was cut');
		$proxy->arm;
		end_program($$run, 'TERM');
		$proxy->end;
		$$run = begin($language, $name);
		$node->safe_psql('postgres', $source->{empty});
		add(quick => 3);
	},
);

for my $language (sort keys %program)
{
	for my $name (sort keys %source)
	{
		$source = $source{$name};
		for my $scenario (map { exists $_->{$name} ? $_->{$name} ? { %$_, %{ $_->{$name} } } : () : $_ } @$scenarios)
		{
			next if $name ne 'table' && ($scenario->{accident} // 'kill') ne 'kill' && !$scenario->{everywhere}
				&& !$ENV{PAWL_LONG};
			$grace = $scenario->{grace_ms} // 30_000;
			subtest "$language, $name: $scenario->{name}" => sub {
				my $run = begin($language, $name);
				add(%{ $scenario->{jobs} });
				my $accident = $scenario->{accident};
				$accident{$accident}->($language, $name, \$run) if $accident;
				my $ends = $scenario->{ends};
				is(ends($scenario->{name}), join(' ', map { "$_|$ends->{$_}" } sort keys %$ends),
					'each job ends as it should')
					or diag($run->{err});
				is(one($node, $source->{twice}), 0, 'and no result counts twice');
				is(end_program($run, 'TERM'), 0, 'the worker ends well') or diag($run->{err});
				like($run->{err}, qr/dropped: /, 'what came too late was dropped') if $scenario->{drops};
				$node->safe_psql('postgres', $source->{empty});
			};
		}
	}
}
sound($node, 'after all scenarios');
done_testing();
