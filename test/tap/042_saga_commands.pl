# pawl saga: what its commands print for people and for programs, what they do, and their exit codes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_saga' ]);
$node->safe_psql('postgres', q{
	create table public.mood (open boolean);
	insert into mood values (false);
	create function public.ok(a jsonb) returns jsonb language sql as $$ select '"done"'::jsonb $$;
	create function public.bad(a jsonb) returns jsonb
		language plpgsql as $$ begin raise exception 'no room' using errcode = 'FULL0'; end $$;
	create function public.undo(a jsonb, done jsonb) returns jsonb language plpgsql as $$ begin
		if not (select open from public.mood) then raise exception 'the desk is shut'; end if; return null; end $$});
my $folder = PostgreSQL::Test::Utils::tempdir();

# What a command printed, decoded where it is JSON; its status.
sub pawl
{
	my (@arguments) = @_;
	my $run = begin_program($node, 'pawl', 'saga', @arguments);
	my $status = end_program($run);
	diag($run->{err}) if $status == 139 || $run->{err} =~ /terminate/;
	my $out = (grep { $_ eq '--json' } @arguments) && $status < 2 ? decode_json($run->{out}) : $run->{out};
	return wantarray ? ($out, $status, $run->{err}) : $out;
}
sub status_of { return (pawl(@_))[1] }
sub duties { return end_program(begin_program($node, 'pawld', '--once')) }
sub define
{
	my ($name, $json) = @_;
	PostgreSQL::Test::Utils::append_to_file("$folder/$name.json", $json);
	return pawl('--json', 'define', "$folder/$name.json");
}

my $good = define('trip',
	'{"flow": "linear", "name": "trip", "children": [{"task": "flight", "execute": "sql:public.ok"}, '
	  . '{"flow": "unordered", "name": "stay", "retry": {"retry": "Times", "name": "again", "attempts": 2}, '
	  . '"children": [{"task": "hotel", "execute": "sql:public.ok"}, {"task": "car"}]}]}');
is("$good->{name} $good->{version} $good->{tasks}", 'trip 1 3',
	'pawl saga define returns name, version and number of tasks');
define('broken', '{"flow": "linear", "name": "broken", "children": [{"task": "flight", "execute": "sql:public.ok", '
	. '"revert": "sql:public.undo"}, {"task": "hotel", "execute": "sql:public.bad"}]}');
my (undef, $rejected, $why) = pawl('define', do {
	PostgreSQL::Test::Utils::append_to_file("$folder/x.json", '{"flow": "round", "name": "x"}');
	"$folder/x.json"
});
is($rejected, 3, 'an invalid structure is rejected');
like($why, qr/unknown kind of flow "round".*\[PW007\]/s, 'with the reason and the code');

# A flow that waits for a worker: suspended, shown, resumed, reverted
my $flow = pawl('--json', 'run', 'trip', '--inputs', '{"traveller": "Ada"}')->{flow};
is(duties(), 0, 'pawld runs what is SQL');
my $shown = pawl('show', $flow);
is($shown, <<'TREE', 'show draws the structure with its states');
trip  RUNNING  3 tasks, 1 PENDING, 2 SUCCESS
├─ ✓ flight  SUCCESS
└─ stay  (unordered)
   ├─ ✓ again  SUCCESS  attempt 1 of 2
   ├─ ✓ hotel  SUCCESS
   └─ · car  PENDING
TREE
my $json = pawl('--json', 'show', $flow);
is(join(' ', map { "$_->{name}:$_->{state}" } @{ $json->{atoms} }),
	'flight:SUCCESS again:SUCCESS hotel:SUCCESS car:PENDING', 'the same as JSON');
is($json->{inputs}{traveller}, 'Ada', 'with its inputs');
my ($said, $status) = pawl('suspend', $flow);
is($status, 0, 'pawl saga suspend succeeds');
like($said, qr/^flow \S+ is told to rest: it was RUNNING and is SUSPENDED$/, 'says what it did');
is((pawl('suspend', $flow))[1], 1, 'twice changes nothing');
is(status_of('follow', $flow), 1, 'following ends where a flow rests');
is(pawl('--json', 'resume', $flow)->{state}, 'RUNNING', 'pawl saga resume lets the flow run');
is(status_of('run', $flow), 3, 'it cannot be run twice');
like(scalar pawl('export', $flow), qr/^flowchart TD\n.*n\d+\["car<br\/>PENDING"\]:::PENDING/s,
	'export draws a flowchart');
is(status_of('revert', $flow), 3, 'a flow is reverted for a reason');
like(scalar pawl('revert', $flow, '--reason', 'Ada is ill'), qr/has everything undone: it was RUNNING and is RUNNING$/,
	'pawl saga revert says what becomes of the flow');
duties();
is(status_of('show', $flow), 0, 'pawl saga show succeeds');
is(one($node, "select state || ' ' || (problem ->> 'reason') from pawl_saga.flows where flow_uuid = '$flow'"),
	'REVERTED Ada is ill', 'hotel and flight needed no worker to be undone');
like(scalar pawl('show', $flow), qr/\n├─ ↩ flight  REVERTED\n.*\nreverted by hand: Ada is ill\n$/s, 'and shows it');
is(pawl('--json', 'reset', $flow, '--reason', 'well again')->{state}, 'PENDING',
	'pawl saga reset makes the flow PENDING');
is(pawl('--json', 'run', $flow)->{state}, 'RUNNING', 'it starts again');

# A revert that fails
my $broken = pawl('--json', 'run', 'broken')->{flow};
duties();
my ($followed, $ended) = pawl('follow', $broken);
is($ended, 1, 'follow ends with 1 for a flow that failed');
like($followed,
	qr/^\d\d:\d\d:\d\d\.\d{3}  ▶ broken  PENDING → RUNNING\n.*✗ hotel  RUNNING → FAILURE\n.*✗ flight  REVERTING → REVERT_FAILURE\n.*✗ broken  RUNNING → FAILURE\n$/s,
	'and prints every state change')
  or diag($followed);
unlike($followed, qr/\033/, 'no colours where there is no terminal');
my ($outcome) = pawl('--json', 'follow', $broken);
is("$outcome->{state} $outcome->{errors}{flight}{message}", 'FAILURE the desk is shut', 'as JSON with the errors');
like(scalar pawl('show', $broken), qr/✗ flight  REVERT_FAILURE  not undone: the desk is shut\n/,
	'show says what is not undone');
like(scalar pawl('revert', $broken, 'flight', '--reason', 'they said try again'),
	qr/tries the revert of flight again: it was FAILURE and is RUNNING$/, 'it is tried again');
duties();
is(one($node, "select state from pawl_saga.flows where flow_uuid = '$broken'"), 'FAILURE',
	'the flow stays in FAILURE when its revert fails again');
is(status_of('revert', $broken, 'hotel'), 3, 'one whose revert has not failed');
is(status_of('revert', $broken, '--done'), 2, 'a flow is not done by hand');
is(status_of('revert', $broken, 'flight', '--done'), 3, 'nor a task without a reason');
is(pawl('--json', 'revert', $broken, 'flight', '--done', '--reason', 'cancelled by phone')->{state}, 'REVERTED',
	'undone by hand');
duties();
is(status_of('follow', $broken), 1, 'a flow that was reverted is no success');
my @history = @{ pawl('--json', 'history', $broken, 'flight') };
is(join(' ', map { $_->{to_state} } @history),
	'RUNNING SUCCESS REVERTING REVERT_FAILURE REVERTING REVERT_FAILURE REVERTED', 'the history of a task');
is($history[-1]{reason}, 'cancelled by phone', 'with the reason');
is(scalar @{ pawl('--json', 'history', $flow, '--attempts') },
	one($node, "select count(*) from pawl_saga.attempts where flow_uuid = '$flow'"), 'attempts of retries');
is(status_of('history', $broken, 'missing'), 3, 'of a task that is not there');
is(scalar @{ pawl('--json', 'list', '--state', 'REVERTED') }, 1, 'list by state');
is(pawl('--json', 'list', '--name', 'broken')->[0]{flow}, $broken, 'and by name');
$node->safe_psql('postgres', 'update mood set open = true');
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', '100');
($followed, $ended) = pawl('run', 'broken', '--follow');
is($ended, 1, 'run and follow');
like($followed, qr/\A[0-9a-f-]{36}\n.*✗ hotel  RUNNING → FAILURE\n.*↩ broken  RUNNING → REVERTED\n\z/s,
		'live, to the end') or diag($followed);
is(end_program($daemon, 'TERM'), 0, 'pawld ends well');

# A flow that waits for a word
define('asked', '{"flow": "linear", "name": "asked", "children": [{"task": "answer", "signal": "said", "provides": '
	. '"word"}, {"task": "hotel", "execute": "sql:public.ok"}]}');
my $asked = pawl('--json', 'run', 'asked')->{flow};
is(pawl('--json', 'signal', $asked, 'other')->{taken_by}, undef, 'a signal that no task waits for');
is(pawl('--json', 'signal', $asked, 'said', '--payload', '"yes"')->{taken_by}, 'answer', 'one that a task waits for');
is(one($node, "select pawl_saga.outputs('$asked') ->> 'word'"), 'yes', 'its payload is the result');
is(status_of('signal', $asked, 'said', '--payload', '{'), 2, 'what is no JSON');

# Jobs
my $job = pawl('--json', 'post', 'for Ada', '--flow', 'trip', '--inputs', '{"traveller": "Ada"}', '--priority', 'LOW',
	'--board', 'elsewhere')->{job};
my $urgent = pawl('--json', 'post', 'for Bob', '--flow', 'trip', '--priority', 'VERY_HIGH', '--board',
	'elsewhere')->{job};
is(status_of('post', 'for Cyd', '--priority', 'HUGE'), 2, 'an invalid priority');
is(join(' ', map { $_->{name} } @{ pawl('--json', 'jobs', '--board', 'elsewhere') }), 'for Bob for Ada',
	'jobs in the order in which they are taken');
is(pawl('--json', 'cancel', $job, '--reason', 'Ada is ill')->{cancelled} ? 1 : 0, 1, 'pawl saga cancel cancels a job');
is(pawl('--json', 'jobs', '--state', 'trashed')->[0]{why}, 'Ada is ill', 'it is kept with the reason');
is(status_of('cancel', $job), 1, 'twice finds nothing to do');
my $conductor = begin_program($node, 'example_conductor', 60000, 10, 'elsewhere');
ok($node->poll_query_until('postgres', "select flow_uuid is not null from pawl_saga.jobs where job_uuid = '$urgent'"),
	'a conductor takes the other');
my (undef, $busy, $hint) = pawl('cancel', $urgent);
is($busy, 3, 'one that is at work is not cancelled');
like($hint, qr/pawl saga revert [0-9a-f-]{36} --reason/, 'but how to have it undone is said');
is(end_program($conductor, 'TERM'), 0, 'the conductor ends well');

is(status_of('show', '00000000-0000-0000-0000-000000000000'), 3, 'a flow that is not there');
is(status_of('run', 'nothing of the kind'), 3, 'a definition that is not there');
is(status_of('nonsense'), 2, 'a command that is not there');
is(end_program(begin_program($node, 'pawl', '--database', 'host=/nowhere', 'saga', 'list')), 4,
	'a server that is not there');
my ($offered) = PostgreSQL::Test::Utils::run_command([ 'bash', '-c', program('pawl') . q{ completion > }
	. "$folder/c; . $folder/c; COMP_WORDS=(pawl saga sus); COMP_CWORD=2; _pawl; echo \"\${COMPREPLY[*]}\"" ]);
is($offered, 'suspend', 'completion knows the commands');

sound($node, 'after all of it');
no_crash($node);
done_testing();
