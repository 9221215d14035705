# What the tests of the queue providers share: workflows whose workers are told of work by
# messages, and what must hold after any accident.
package Messages;

use strict;
use warnings;
use Exporter 'import';
use PawlTest;
use PawlPrograms;
use Test::More;

our @EXPORT = qw(workflows begin_tasks begin_unpublished told_worker publisher log_has all_done once);

# In a cluster with pawl_dag: three steps in a row, whose events go to the outbox.
sub workflows
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{select pawl.enable_events('pawl_dag.steps')});
	my $retry = '"retry": {"max_attempts": 20, "backoff_base_ms": 20, "max_backoff_ms": 100}';
	define_template($node,
		qq({"name": "row", "steps": [{"name": "a", "handler": "sleep", $retry}, {"name": "b", "handler": "sleep",
               "dependencies": ["a"], $retry},
		{"name": "c", "handler": "sleep", "dependencies": ["b"], $retry}]}));
	return;
}

my $begun = 0;
sub begin_tasks
{
	my ($node, $n) = @_;
	my $first = $begun + 1;
	$begun += $n;
	$node->safe_psql('postgres', "select pawl_dag.start_tasks('row', array(select jsonb_build_object('n', g) from "
		. "generate_series($first, $begun) g))");
	return;
}

# While no daemon runs: tasks whose first steps are enqueued, so that the first read of a publisher finds them all.
sub begin_unpublished
{
	my ($node, $n) = @_;
	begin_tasks($node, $n);
	$node->safe_psql('postgres', 'select pawl_dag.orchestrate(1000)');
	wait_until(sub { one($node,
		q{begin; select count(*) from pawl.read_claimable('publisher', 1000); rollback}) == $n }, 'events to be read');
	return;
}

# settings: of the environment; fallback: how often it looks without being told, in ms; program and arguments: another
# than the worker on workflows, or other than its usual ones.
sub told_worker
{
	my ($node, $settings, %options) = @_;
	local %ENV = (%ENV, %$settings, PAWL_FALLBACK_POLL_MS => $options{fallback} // 3_600_000);
	local $PawlPrograms::through = $options{through} if $options{through};
	local $PawlPrograms::as = $options{as} if $options{as};
	my $run = begin_program($node, $options{program} // 'example_worker', @{ $options{arguments} // [] }
		? @{ $options{arguments} } : $options{program} ? () : ('default', 4, 0.001, $options{lease} // 60_000, 20));
	log_has($run, qr/messages come from/) unless $options{alone};
	return $run;
}

sub publisher
{
	my ($node, $settings, %options) = @_;
	local %ENV = (%ENV, map { ("PAWLD_" . s/^PAWL_//r) => $settings->{$_} } keys %$settings);
	local $PawlPrograms::through = $options{through} if $options{through};
	local $PawlPrograms::as = $options{as} if $options{as};
	my $run = begin_program($node, 'pawld', '--longest-poll-ms', '100', '--log-level', 'debug',
		@{ $options{flags} // [] });
	log_has($run, qr/publishing/) unless $options{alone};
	return $run;
}

# Waits until a program has said it, after what it had said when asked last.
sub log_has
{
	my ($run, $what) = @_;
	eval { wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /$what/g }, "$run->{name} to say $what"); 1 }
		or die "$@\nIt said:\n$run->{err}";
	return;
}

sub all_done
{
	my ($node, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	all_ended($node, 'row');
	is(one($node, q{select string_agg(state || ' ' || n, ', ') from (select state, count(*) n from pawl_dag.tasks
		where name = 'row' group by 1) x}), "complete $begun", "$name: every task is complete");
	return;
}

# No step was claimed twice, unless its worker had died with it: then as often as it died.
sub once
{
	my ($node, $name, $again) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(one($node, q{select count(*) - count(distinct step_uuid) from pawl_dag.step_transitions where event = 'Start'}),
		$again // 0,
		"$name: " . ($again ? "what a dead worker had is taken again, once" : 'no step was taken twice'));
	is(one($node, q{select count(*) from (select step_uuid from pawl_dag.step_transitions
			where event = 'EnqueueForOrchestration' group by 1 having count(*) > 1) x}), 0,
		"$name: no result counted twice");
	return;
}

1;
