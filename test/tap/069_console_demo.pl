# Acts 2 to 5 of the demo, faster and with less data: they kill workers and check their own stories. What they leave
# behind is looked at in the console that the demo stays with, each act at its own
# address; files are handed to the browser.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use IPC::Run;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $all = '/usr/share/ieee-data/oui.csv';
plan skip_all => 'the package ieee-data is not installed' unless -r $all;
my $node = new_cluster('main');
program('pawl');
my $folder = PostgreSQL::Test::Utils::tempdir();
system("head -n 2001 $all > $folder/oui.csv") == 0 or die;
my $pictures = "$ENV{TESTDIR}/pictures";
mkdir $pictures;

my ($out, $err) = ('', '');
my $demo = do {
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGUSER => one($node, 'select current_user'),
		STAY => 1, PAWL_DEMO_NUMBERS => 40_000_000, PAWL_OUI => "$folder/oui.csv", PAWL_DEMO_MICROSECONDS => 800,
		PAWL_DEMO_MILLISECONDS => 40, PAWL_DEMO_SECONDS => 8,
		PAWL_WORKFLOWS => PostgreSQL::Test::Utils::tempdir());
	delete $ENV{PGDATABASE};
	IPC::Run::start([ 'setsid', "$FindBin::Bin/../../examples/demo", 2, 3, 4, 5 ], '<', \'', '>', \$out, '2>', \$err,
		IPC::Run::timeout(600));
};
my $group = $demo->{KIDS}[0]{PID};
END { local $?; kill 'TERM', -$group if $group }
$demo->pump until $out =~ /They stay until Ctrl-C/ || !$demo->pumpable;
my %at;
$at{$1} = { url => $2, token => $3 } while $out =~ /^    (\w+) +(http\S+)console\/   token (\S+)$/mg;
is(join(' ', sort keys %at), 'devices jobs travel workflows', 'the demo stays with a console for each of its databases')
	or BAIL_OUT("$out\n$err");

# What each act prints, from its first line on.
my ($jobs, $workflows, $devices, $travel) =
	split /^(?=Scientific workflows, run again$|A file of companies, row by row$|A flight, a room, a car, or nothing of it$)/m,
		$out;
sub checks { return scalar(() = $_[0] =~ /✓$/mg) }
like($workflows, qr/ben is killed \(SIGKILL\) with [1-9]\d* steps in flight/,
	'workflows: a worker had steps in flight when it was killed');
is(checks($workflows), 11, 'workflows: everything holds that must');
like($workflows, qr/Every step ran to completion exactly once, in an order that respects every edge\.$/m,
	'workflows: and the act says so');
is(one($node, 'select string_agg(distinct state, $$,$$) from pawl_dag.steps', 'workflows'), 'complete',
	'workflows: every step is complete');
like($devices, qr/bob is killed \(SIGKILL\) with [1-9]\d* rows in flight/,
	'devices: a worker had rows in flight when it was killed');
is(checks($devices), 15, 'devices: everything holds that must');
like($devices, qr/What could be done was done exactly once;/, 'devices: and the act says so');
like($travel, qr/cora, one of the conductors, is killed \(SIGKILL\) with [1-9]\d* trips in flight/,
	'travel: a conductor had trips in flight when it was killed');
like($travel, qr/an operator has a trip rest.*\n +trip  SUSPENDED  4 tasks/, 'travel: a trip was suspended');
like($travel,
	qr/^    \d\d:\d\d:\d\d\.\d{3}  ✗ hotel  RUNNING → FAILURE\n(?:.*\n)*?    .* ↻ another room  SUCCESS → RETRYING\n(?:.*\n)*?    .* ✓ trip  RUNNING → SUCCESS$/m,
	'travel: the timeline is printed');
is(checks($travel), 16, 'travel: everything holds that must');
like($travel, qr/Every trip is whole, or nothing is left of it; the one that is neither says so\.$/m,
	'travel: and the act says so');
unlike($out, qr/\033/, 'no colors where there is no terminal');
sound($node, "after the act $_", $_) for qw(workflows devices travel);

my $browser;
my $shown = 0;
my $whole = 0;
sub picture { my ($name) = @_; $browser->picture(sprintf('%s/demo_%02d_%s.png', $pictures, ++$shown, $name)); return }
END { local ($?, $@); if ($browser && !$whole) { diag($browser->tells); picture('died') } }

# A browser that has signed in at the console of one act.
sub enter
{
	my ($name) = @_;
	$browser->end if $browser;
	$browser = Browser->new;
	$browser->go("$at{$name}{url}console/");
	$browser->type('input[name=token]', $at{$name}{token});
	$browser->click('button[type=submit]');
	return $browser->sees('Overview', 'h1');
}

subtest 'act 2: jobs' => sub {
	ok(enter('jobs'), 'the token that the demo printed signs in');
	ok($browser->sees('public.job', 'table'), 'the overview has the queue');
	$browser->click('nav a', 'Machines');
	$browser->click('td a', 'job');
	$browser->find('.mermaid svg');
	my $done = $browser->run('return arguments[0].toLocaleString("en")',
		one($node, q{select count(*) from job where state = 'done'}, 'jobs') + 0);
	ok($browser->sees($done, '.mermaid'), "the diagram has the $done jobs that are done");
	picture('jobs');
};

subtest 'act 3: workflows' => sub {
	enter('workflows');
	$browser->click('nav a', 'Tasks');
	my $task = one($node, q{select task_uuid from pawl_dag.tasks where state = 'complete' order by steps_total limit 1},
		'workflows');
	$browser->run('location.hash = arguments[0]', "#/tasks/$task");
	$browser->find('.node.good');
	becomes(sub { scalar(() = $browser->all('.node:not(.good)')) }, 0, 'the steps of a workflow are drawn, and done');
	ok($browser->run('const frame = document.querySelector(".graph").getBoundingClientRect();
		const boxes = [...document.querySelectorAll(".graph .node")].map(e => e.getBoundingClientRect());
		const left = Math.min(...boxes.map(b => b.left));
		return document.querySelector(".graph").scrollTop > 0 && boxes.some(b => b.left ===
			left && b.top >= frame.top && b.bottom <= frame.bottom)'), 'and where it begins is what one sees first');
	picture('workflow');
};

subtest 'act 4: devices' => sub {
	enter('devices');
	$browser->devtools('Browser.setDownloadBehavior', behavior => 'allow', downloadPath => $folder);
	$browser->click('nav a', 'Bulk');
	my $operation = one($node, q{select operation from pawl_bulk.operations where status <> 'Cancelled'
		order by total_rows desc, operation limit 1}, 'devices');
	$browser->run('location.hash = arguments[0]', "#/bulks/$operation");
	ok($browser->sees('the owner wants to stay private'), 'the operation tells what failed');
	picture('devices');
	my $rows = one($node, "select total_rows from pawl_bulk.status where operation = '$operation'", 'devices');
	my $failed = one($node,
		"select count(*) from pawl_bulk.latest_records where operation = '$operation' and state = 'Failed'", 'devices');
	for ([ 'Export CSV', qr/(?<!failed)\.csv$/, $rows ], [ 'Export failed', qr/-failed\.csv$/, $failed ])
	{
		my ($button, $name, $count) = @$_;
		$browser->click('.head button', $button);
		my $file;
		wait_until(sub { ($file) = grep { $_ =~ $name && !m{/oui\.csv$} && -s } glob "$folder/*.csv" },
			"the file of \"$button\"");
		my $text = slurp_file($file);
		like($text, qr/\ARowNumber,/, "\"$button\" gives a file to the browser");
		is(one($node, q{select count(*) from regexp_matches($csv$} . $text . q{$csv$, '^\d+,', 'gn')}), $count,
			'with all its rows');
	}
	$node->safe_psql('devices', 'revoke execute on function pawl_api._export_command(jsonb) from pawl_operator');
	$browser->click('.head button', 'Export CSV');
	ok($browser->sees('HTTP 403'), 'a file that cannot be had says why');
};

subtest 'act 5: trips' => sub {
	enter('travel');
	$browser->click('nav a', 'Sagas');
	$browser->find('table tbody tr');
	my $flow = one($node, q{select flow_uuid from pawl_saga.flows where state = 'REVERTED' order by flow_uuid limit 1},
		'travel');
	$browser->run('location.hash = arguments[0]', "#/flows/$flow");
	$browser->find('.node.off');
	ok($browser->sees('reverted', 'h1'), 'a trip that was undone is drawn');
	picture('trip');
};

$whole = 1;
$browser->end;
kill 'INT', -$group;
$demo->finish;
is($demo->full_result(0), 0, 'Ctrl-C ends it') or diag("$out\n$err");
undef $group;
no_crash($node);
done_testing();
