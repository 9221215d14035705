# The command line: what it prints for people and for programs, and its exit codes; a real workflow imported and run.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag' ]);

# What a command printed, decoded where it is JSON; its status.
sub pawl
{
	my (@arguments) = @_;
	my $run = begin_program($node, 'pawl', @arguments);
	my $status = end_program($run);
	diag($run->{err}) if $status == 139 || $run->{err} =~ /terminate/;
	my $out = (grep { $_ eq '--json' } @arguments) && $status < 2 ? decode_json($run->{out}) : $run->{out};
	return wantarray ? ($out, $status, $run->{err}) : $out;
}

my $montage = "$FindBin::Bin/../../examples/workflows/montage.json";
my $made = pawl('--json', 'import', $montage);
is($made->{steps}, 103, 'Montage is imported, all of its 103 steps');
cmp_ok($made->{critical_path_seconds}, '>', 0, 'its critical path is known');
is(pawl('--json', 'import', $montage)->{template}, $made->{template}, 'the same file again is the same template');

my $task = pawl('--json', 'start', 'montage')->{task};
like($task, qr/^[0-9a-f-]{36}$/, 'start gives the id of the task');
my $worker = begin_program($node, 'example_worker', 'default', 8, 0.0001);
my ($followed, $status) = pawl('follow', $task);
is($status, 0, 'follow ends well when the task is complete');
like($followed, qr/\[#{40}\] 103\/103  complete$/m, 'and its bar is full');
unlike($followed, qr/\033/, 'no colours where there is no terminal');
is(end_program($worker, 'TERM'), 0, 'the worker alone ran all of it, with no daemon');
is(one($node, 'select count(*) from pawl_dag.steps where attempts <> 1'), '0', 'every step ran exactly once');

my $list = pawl('--json', 'list', '--state', 'complete');
is($list->[0]{done}, 103, 'list knows it');
my $shown = pawl('show', $task);
like($shown, qr/^montage  complete  103 of 103 steps\n/, 'show begins with the task');
is(scalar(() = $shown =~ /  complete(?:  |$)/mg), 104, 'and has a line for each step');
my $drawn = pawl('export', $task);
like($drawn, qr/^flowchart TD\n/, 'export draws a flowchart');
is(scalar(() = $drawn =~ / --> /g), one($node, 'select count(*) from pawl_dag.edges'), 'with every dependency');
is(scalar @{ pawl('--json', 'history', $task) }, one($node, 'select count(*) from pawl_dag.task_transitions'),
	'history has every state change');

# What operators do
define_template($node, '{"name": "fails", "identity_strategy": "always_unique", "steps": [{"name": "one", "handler": '
	. '"sql:public.missing"}, {"name": "two", "dependencies": ["one"]}]}');
my $failed = pawl('--json', 'start', 'fails')->{task};
is(end_program(begin_program($node, 'pawld', '--once')), 0, 'pawld runs it');
is((pawl('follow', $failed))[1], 1, 'follow ends with 1 when the task is blocked');
like(scalar pawl('show', $failed), qr/^\S+ one  error  no function public\.missing/m, 'show says why')
  or diag(scalar pawl('show', $failed));
is(pawl('--json', 'retry', $failed, '--reason', 'the function is there now')->{moved}, 1,
	'retry goes on from the failed step');
is(one($node, "select metadata ->> 'reason' from pawl_dag.step_transitions where event = 'ResetForRetry'"),
	'the function is there now', 'its reason is logged');
is((pawl('retry', $failed))[1], 3, 'a task that is at work is not retried');
end_program(begin_program($node, 'pawld', '--once'));
is(one($node, "select state from pawl_dag.tasks where task_uuid = '$failed'"), 'blocked_by_failures', 'it fails again');
is(pawl('--json', 'retry', $failed, 'one')->{moved}, 1, 'one step is retried by its name');
is(pawl('--json', 'retry', $failed, 'one')->{moved}, 0, 'it is pending already');
is((pawl('retry', $failed, 'nonsense'))[1], 3, 'a step that is not there');
my (undef, $unreasoned, $why_not) = pawl('resolve', $failed, 'one', '--result', '{"by": "hand"}');
is($unreasoned, 3, 'a step is not completed by hand without a reason');
like($why_not, qr/\[22004\]/, 'and the code is there');
is((pawl('resolve', $failed, '--result', '1'))[1], 2, 'a task has no result');
is((pawl('resolve', $failed, 'one', '--result', '{', '--reason', 'x'))[1], 2, 'what is no JSON');
is(pawl('--json', 'resolve', $failed, 'one', '--result', '{"by": "hand"}', '--reason', 'by hand')->{moved}, 1,
	'a step is completed by hand');
is(one($node, "select state || result::text from pawl_dag.steps where task_uuid = '$failed' and name = 'one'"),
	'complete{"by": "hand"}', 'with its result');
is((pawl('cancel', $failed))[1], 0, 'pawl cancel succeeds on a task that failed');
is(one($node, "select t.state || ' ' || string_agg(s.state, ',' order by s.name) from pawl_dag.tasks t join "
	. "pawl_dag.steps s using (task_uuid) where task_uuid = '$failed' group by t.state"),
	'cancelled complete,cancelled', 'the task and what is open of it');
is((pawl('cancel', $failed))[1], 1, 'twice finds nothing to cancel');
is((pawl('resolve', $failed))[1], 3, 'what has ended is not closed otherwise');

my @history = @{ pawl('--json', 'history', $failed, 'one') };
is(join(' ', map { $_->{event} // 'begin' } @history[0, 1, 2, -1]), 'begin Enqueue Start CompleteManually',
	'history of a step');
is((pawl('history', $failed, 'nonsense'))[1], 3, 'of one that is not there');
my $audit = pawl('--json', 'audit', $failed);
is(join(' ', map { "$_->{step} " . ($_->{success} ? 'good' : 'bad') } @$audit), 'one bad one bad',
	'audit: two results of the step, both failures');

my $json = PostgreSQL::Test::Utils::tempdir() . '/chain.json';
PostgreSQL::Test::Utils::append_to_file($json, '{"name": "chain", "identity_strategy": "caller_provided", "steps": '
	. '[{"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]}]}');
like(pawl('--json', 'template', $json)->{template}, qr/^[0-9a-f-]{36}$/, 'template defines a workflow');
my $chain = pawl('--json', 'start', 'chain', '--key', 'k1', '--context', '{"n": 1}', '--priority', '5')->{task};
is((pawl('start', 'chain', '--key', 'k1'))[1], 3, 'the same key again is rejected');
is((pawl('start', 'chain', '--key', 'k2', '--context', '{'))[1], 2, 'a context that is no JSON');
is(scalar @{ pawl('--json', 'list', '--name', 'chain') }, 1, 'list by name');
is(pawl('--json', 'cancel', $chain, 'b', '--reason', 'not wanted')->{moved}, 2,
	'a step is cancelled with what waits for it');
is((pawl('cancel', $chain, 'a', '--descendants', 'reject'))[1], 0, 'a step that no other step waits for any more');
is(pawl('--json', 'resolve', $chain, '--reason', 'done by phone')->{moved}, 1, 'a task is closed by hand');
is(pawl('--json', 'show', $chain)->{state}, 'resolved_manually', 'and shows it');
is(pawl('--json', 'export', $chain)->{mermaid} =~ /cancelled/ ? 1 : 0, 1, 'its diagram has the states');

my $hopeless = pawl('--json', 'start', 'fails')->{task};
end_program(begin_program($node, 'pawld', '--once'));
is(pawl('--json', 'resolve', $hopeless, 'one', '--reason', 'skip it')->{moved}, 1,
	'a step is resolved without a result');
$hopeless = pawl('--json', 'start', 'fails')->{task};
end_program(begin_program($node, 'pawld', '--once'));
is(pawl('--json', 'give-up', $hopeless, '--reason', 'no use')->{moved}, 1, 'a blocked task is given up');
is(pawl('--json', 'list', '--state', 'error')->[0]{task}, $hopeless, 'and is in error');
is(pawl('--json', 'retry', $hopeless)->{moved}, 1, 'and starts again');

# Machines
my $file = PostgreSQL::Test::Utils::tempdir() . '/gate.mmd';
PostgreSQL::Test::Utils::append_to_file($file,
	"stateDiagram-v2\n    [*] --> open\n    open --> shut : close\n    shut --> open : open\n    shut --> [*]\n");
is((pawl('check', $file))[1], 0, 'check finds no error');
is(pawl('--json', 'define', 'gate', $file)->{version}, 1, 'define gives the version');
like(scalar pawl('diagram', 'gate'), qr/open --> shut : close/, 'diagram prints it');
PostgreSQL::Test::Utils::append_to_file($file, "    shut -- nonsense\n");
is((pawl('check', $file))[1], 1, 'check ends with 1 where there is an error');
my (undef, $rejected, $why) = pawl('define', 'gate', $file);
is($rejected, 3, 'a rejection by the database ends with exit code 3');
like($why, qr/\[PW007\]/, 'and its code');
is((pawl('show', '00000000-0000-0000-0000-000000000000'))[1], 3, 'a task that is not there');
is((pawl('nonsense'))[1], 2, 'a command that is not there');
is((pawl('--database', 'host=/nowhere', 'list'))[1], 4, 'a server that is not there');
is((pawl('verify'))[1], 0, 'verify finds nothing');
is((pawl('health'))[1], 0, 'health has no complaint');
is((pawl('verify', '--table', 'pawl_dag.steps'))[1], 0, 'verify of one table');
is((pawl('verify', '--table', 'pg_class'))[1], 3, 'of one that nothing is attached to');

# What cannot be written, or read as a whole, is an error.
for my $command ([ 'diagram', 'gate' ], [ '--json', 'health' ], ['completion'], ['--help'], [ 'list' ])
{
	my $run = begin_program($node, '/bin/sh', '-c', 'exec "$0" "$@" > /dev/full', program('pawl'), @$command);
	is(end_program($run) . $run->{err}, "2pawl: standard output could not be written\n",
		"a full disk ends with 2: pawl @$command");
}
my $folder = PostgreSQL::Test::Utils::tempdir();
PostgreSQL::Test::Utils::append_to_file("$folder/nul", "stateDiagram-v2\n[*] --> a\na --> [*]\n\0a --> b: go\n");
for my $command ([ 'define', 'cut' ], ['check'], [ 'template' ], [ 'import' ])
{
	my ($out, $code, $err) = pawl(@$command, "$folder/nul");
	like("$code $out$err", qr/^2 pawl: \Q$folder\E\/nul has a NUL byte, which PostgreSQL cannot store$/m,
		"a file with a NUL byte is rejected: pawl @$command");
}
is((pawl('diagram', 'cut'))[1], 3, 'and nothing of it is stored');
my (undef, $code, $err) = pawl('check', $folder);
like("$code $err", qr{^2 pawl: cannot read \Q$folder\E: is a directory$}m, 'a folder cannot be read as a file');
(undef, $code, $err) = pawl('check', '/dev/zero');
like("$code $err", qr{^2 pawl: /dev/zero is longer than 64 MiB$}m, 'nor can what has no end');

# Names and errors that others have chosen are printed without their control characters.
define_template($node, '{"name": "odd\u001b[2J", "namespace": "odd", "identity_strategy": "always_unique", "steps": [{'
	. '"name": "one", "handler": "odd"}]}');

# A task whose step has failed with this error.
sub failed_odd
{
	my ($error) = @_;
	my $failed_task = one($node, q(select pawl_dag.start_task(E'odd\x1b[2J', namespace => 'odd')));
	one($node, 'select count(*) from pawl_dag.orchestrate()');
	one($node, qq(select ok from pawl_dag.claim('00000000-0000-7000-8000-00000000000a', 'odd') c, pawl_dag.report(
		jsonb_build_array(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token,
		'error', $error || '{"permanent": true}')), '00000000-0000-7000-8000-00000000000a')));
	one($node, 'select count(*) from pawl_dag.orchestrate()');
	return $failed_task;
}
my $odd = failed_odd(q('{"message": 5}'::jsonb));
my ($list_of_odd) = pawl('list', '--name', "odd\x1b[2J");
like($list_of_odd, qr/ odd\\x1b\[2J /, 'a table has \x1b in place of the character');
is(pawl('--json', 'list', '--name', "odd\x1b[2J")->[0]{name}, "odd\x1b[2J", 'JSON has the character itself');
like((pawl('start', "\x1b]0;x\x07\xc2\x9b"))[2], qr/"\\x1b\]0;x\\x07\\x9b"/, 'so have messages');
my ($odd_shown, $odd_code) = pawl('show', $odd);
like("$odd_code $odd_shown", qr/^0 .* one  error  5$/ms, 'show takes an error whose message is no text');
my $deep = failed_odd(q(jsonb_build_object('deep', (repeat('[', 600) || repeat(']', 600))::jsonb)));
like(scalar pawl('show', $deep), qr/ one  error  an error too deep or too long to be read$/m,
	'show takes an error that is nested too deep');
like(pawl('--json', 'show', $deep)->{steps}[0]{error}, qr/^\{"deep": \[{600}\]{600}/, 'which JSON has as text');

# What a shell would be offered.
sub completed
{
	my @words = @_;
	my $script = pawl('completion');
	my $list = join ' ', map { "'$_'" } @words;
	my ($out, $err) = PostgreSQL::Test::Utils::run_command([ 'bash', '-c',
		"$script\nCOMP_WORDS=($list); COMP_CWORD=$#words; _pawl; echo \"\${COMPREPLY[*]}\"" ]);
	return $out;
}
is(completed('pawl', 'im'), 'import', 'completion knows the commands');
is(completed('pawl', '--json', 'cancel', '--de'), '--descendants', 'and the options of each');
is(completed('pawl', 'bulk', 'su'), 'submit', 'and the commands below a command');
is(completed('pawl', 'bulk', 'export', '--st'), '--step --state', 'and their options');
is(completed('pawl', 'bulk', 'signal', '--st'), '', 'but not those of their neighbours');

no_crash($node);
done_testing();
