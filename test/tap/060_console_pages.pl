# The console in a browser: every page, what it shows, what its buttons do, by mouse and
# by keyboard, on a phone, in the dark.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use JSON::PP;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = api_cluster('main', qw(pawl_dag pawl_bulk pawl_saga));
$node->psql('postgres', slurp_file("$FindBin::Bin/console.sql"), on_error_stop => 1, on_error_die => 1);
# rejections are counted in the server's memory
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pawl'\n");
$node->restart;
my $api = begin_api($node);
my $worker = begin_program($node, 'pawld');
my $reader = make_token($node, 'pawl_reader', 'rita', '{read}');
my $operator = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $root = "http://127.0.0.1:$api->{port}";
my $pictures = "$ENV{TESTDIR}/pictures";
mkdir $pictures;

ok($node->poll_query_until('postgres', q{select (select count(*) = 6 from pawl_dag.tasks where state = 'complete')
	and (select count(*) = 2 from pawl_dag.tasks where state = 'blocked_by_failures')
	and (select count(*) = 32 from pawl_bulk.work where kind = 'signal' and state <> 'ready')
	and (select string_agg(state, ',' order by state) = 'REVERTED,RUNNING,SUCCESS' from pawl_saga.flows)}),
	'there is something to look at')
	or diag(one($node, q{select json_build_object('tasks',
              (select json_object_agg(state, n) from (select state, count(*) n from pawl_dag.tasks group by 1) t),
		'work', (select json_agg(w) from (select kind, state, count(*) from pawl_bulk.work group by 1, 2) w), 'flows',
		(select json_agg(name || state) from pawl_saga.flows),
		'bulk', (select json_agg(s) from pawl_bulk.status s))}));

my $browser = Browser->new(network => 1);
my $shown = 0;
my $whole = 0;
END { local ($?, $@); diag($browser->tells), picture('died') if $browser && !$whole }
sub picture { my ($name) = @_; $browser->picture(sprintf('%s/%02d_%s.png', $pictures, ++$shown, $name)); return }
sub page { my ($path) = @_; $browser->run('location.hash = arguments[0]', $path); return }

# Signing in
$browser->go("$root/console/");
$browser->find('input[name=token]');
picture('sign_in');
is(join("\n", $browser->inaccessible), '', 'the page to sign in is accessible');
$browser->type('input[name=token]', 'pawl_wrong');
$browser->press('Enter');
ok($browser->sees('HTTP 401'), 'a wrong token is rejected with the reason');
$browser->run('document.querySelector("input[name=token]").select()');
$browser->type('input[name=token]', $operator);
$browser->click('button[type=submit]');
ok($browser->sees('Overview', 'h1'), 'an operator signs in');
is($browser->run('return document.cookie + Object.keys(localStorage).join()'), '',
	'the token is in no cookie and not in what outlives the tab');

# Overview
ok($browser->sees($_), "the overview shows $_")
	for 'Dead letters', 'Throughput', 'Queues', 'Owners and leases', 'the card was declined', 'healthy';
ok($browser->sees('live', '.live'), 'and is live');
picture('overview');
like($browser->text('.figures'), qr/Rejected state changes\s+0\s/, 'nothing was rejected so far');
rejected($node, "update shop.tickets set state = 'open' where id = 4", 'PW001', 'a closed ticket stays closed');
ok($browser->sees(qr/Rejected state changes\s+1\s/, '.figures'), 'a rejection of another client is counted');
like($browser->text('main'), qr/ticket\s+PW001\s+1\b/, 'by machine and SQLSTATE');

# Tabs: a browser opens six connections at most, and eight tabs share one stream
my $first = $browser->current_tab;
my @tabs = ($first, map { $browser->tab("$root/console/") } 1 .. 7);
for my $n (0 .. $#tabs)
{
	$browser->to_tab($tabs[$n]);
	ok($browser->sees('Throughput') && $browser->sees('live', '.live'),
		'tab ' . ($n + 1) . ' of eight shows the overview live');
}
for (@tabs[0 .. 3])
{
	$browser->to_tab($_);
	$browser->close_tab;
}
for (@tabs[4 .. 7])
{
	$browser->to_tab($_);
	ok($browser->sees('live', '.live'), 'a tab is live when the one with the stream was closed');
	$browser->close_tab unless $_ eq $tabs[-1];
}

# Machines
$browser->click('nav a', 'Machines');
ok($browser->sees('pawl_dag.task', 'table'), 'machines are listed');
picture('machines');
$browser->click('td a', 'ticket');
$browser->find('.mermaid svg');
ok($browser->sees('6', '.mermaid'), 'the diagram is drawn, with the rows in each state');
picture('machine');
my $size = 'const g = document.querySelector(".graph"), s = g.querySelector("svg").getBoundingClientRect(); '
	. 'return [Math.round(s.width), g.clientWidth]';
my ($drawn, $frame) = @{ $browser->run($size) };
cmp_ok($drawn, '<=', $frame, 'the whole diagram is in its card');
$browser->click('.tool', 'Larger') for 1 .. 6;
cmp_ok($browser->run($size)->[0], '>', 3 * $drawn, 'it can be enlarged');
$browser->run('document.querySelector(".graph").focus()');
$browser->press('0');
is($browser->run($size)->[0], $drawn, 'and fits again');
$node->safe_psql('postgres', q{insert into shop.tickets select g, 'late' from generate_series(100, 120) g});
ok($browser->sees('27', '.mermaid'), 'rows that come are counted in the picture, unasked');
page('#/machines/pawl_dag.task');
$browser->find('.mermaid svg g.node');
ok($browser->sees('blocked by failures'), 'the machine of tasks is drawn too');
ok($browser->sees('Slowest states'), 'with its slowest states');
$browser->find('.mermaid g.live');
is_deeply($browser->run('const s = getComputedStyle; return [...document.querySelectorAll("g.live")].filter(g => '
	. 's(g.querySelector("rect")).fill !== s(document.querySelector(".tool[aria-pressed=true]")).borderTopColor '
	. '|| s(g.querySelector("rect")).fill === s(g.querySelector("text")).fill).map(g => g.textContent)'), [],
	'the counts can be read, whatever colour a state has');
picture('machine_of_tasks');

# A timeline
page('#/row?relation=shop.tickets&key=4');
ok($browser->sees('answered', '.timeline'), 'a row has a timeline');
page('#/row?relation=shop.tickets&key=2');
ok($browser->sees('ask again'), 'and shows the possible transitions');
picture('timeline');
$browser->click('td button', 'Fire');
ok($browser->sees('The row will change from answered to', 'dialog'), 'an event asks first, and says what will happen');
$browser->click('dialog button[type=submit]');
ok($node->poll_query_until('postgres', q{select state <> 'answered' from shop.tickets where id = 2}),
	'the button of an event changes the state of the row');
ok($browser->sees('#3', '.timeline'), 'the timeline grows');

# Tasks
$browser->click('nav a', 'Tasks');
$browser->find('table tbody tr');
picture('tasks');
$browser->run('const s = document.querySelector(".filters select"); s.value = "blocked_by_failures"; '
	. 's.dispatchEvent(new Event("change", { bubbles: true }))');
becomes(sub { scalar(() = $browser->all('table tbody tr')) }, 2, 'tasks are filtered by state');
$browser->click('td a', 'order');
$browser->find('.node.bad[data-name=pay]');
ok($browser->sees('A step has failed: pay'), 'a blocked task says which step failed');
like($browser->text('.banner'), qr/pay \(the card was declined\)/, 'and with which error');
$browser->click('.node', 'pay');
ok($browser->sees('the card was declined', '#step'), 'the step tells its error');
ok($browser->sees('failure', '#step table'), 'and its audit');
picture('task_failed');

# A task that is started here
my $blocked_page = $browser->run('return location.hash');
page('#/tasks');
$browser->click('.head button', 'Start a task');
$browser->run('const t = document.querySelector("dialog textarea"); t.value = "{oops"; '
	. 't.dispatchEvent(new Event("input", { bubbles: true }))');
$browser->click('dialog button[type=submit]');
ok($browser->sees('Not valid JSON', 'dialog'), 'a context that is no JSON is not sent');
$browser->run('const t = document.querySelector("dialog textarea"); t.value = JSON.stringify({ order: 41 }); '
	. 't.dispatchEvent(new Event("input", { bubbles: true }))');
picture('start_task');
$browser->click('dialog button[type=submit]');
ok($browser->sees('complete', 'h1'), 'a task that is started in the console runs, and is shown');
is(one($node, q{select count(*) from pawl_dag.tasks where context ->> 'order' = '41' and state = 'complete'}), 1,
	'with the context that was typed');
page($blocked_page);

# Retry: the card is good now
$node->safe_psql('postgres', 'update shop.card set good = true');
my $task = ($browser->run('return location.hash') =~ m{tasks/([-0-9a-f]+)})[0];
$browser->click('.head button', 'Retry');
ok($browser->sees('1 failed step (pay) will get all attempts back and run again', 'dialog'),
	'a retry says what will happen');
picture('retry_asks');
$browser->type('dialog input[name=reason]', 'the card is good again');
$browser->click('dialog button[type=submit]');
ok($browser->sees('complete', 'h1'), 'the task completes, and the page knows');
becomes(sub { scalar(() = $browser->all('.node.good')) }, 7, 'the graph has changed with it');
is(one($node, "select string_agg(distinct metadata ->> 'reason', ',') from pawl_dag.step_transitions_log where "
	. "task_uuid = '$task' and event = 'ResetForRetry'"), 'the card is good again', 'the reason is in the log');
picture('task_complete');

# Dead letters
$browser->click('nav a', 'Dead letters');
becomes(sub { scalar(() = $browser->all('table tbody tr')) }, 1, 'one task is left among the dead letters');
ok($browser->sees('pay: the card was declined', 'table'), 'with the step that failed and its error');
is($browser->run('return document.querySelector(".filters select").selectedOptions[0].textContent'), 'pending',
	'the filter says what is shown');
picture('dead_letters');

# By keyboard: the first stop skips the menu; a dialog keeps the focus, and Escape gives it back
$browser->run('document.body.focus(); document.activeElement.blur()');
page('#/tasks?state=blocked_by_failures');
$browser->click('td a', 'order');
$browser->find('.node.bad[data-name=pay]');
$browser->run('document.querySelector(".skip").focus()');
$browser->press('Enter');
is($browser->run('return document.activeElement.id'), 'main', 'the first stop skips to the content');
my @stops;
for (1 .. 12)
{
	$browser->press('Tab');
	push @stops, $browser->run('const e = document.activeElement; return (e.dataset.name ?? e.textContent).trim()');
	last if $stops[-1] =~ /^Cancel/;
}
like($stops[-1], qr/^Cancel/, 'Tab comes to the buttons') or diag(join(' | ', @stops));
isnt($browser->run('return getComputedStyle(document.activeElement).outlineStyle'), 'none',
	'what has the focus is seen');
$browser->press('Enter');
$browser->find('dialog[open]');
my @left = grep {
	$browser->press('Tab');
	!$browser->run('return document.activeElement === document.body || !!document.activeElement.closest("dialog")')
} 1 .. 6;
is("@left", '', 'a dialog keeps the focus');
$browser->press('Escape');
wait_until(sub { !$browser->all('dialog') }, 'the dialog to close');
like($browser->run('return document.activeElement.textContent.trim()'), qr/^Cancel/,
	'Escape closes it and gives the focus back');
is(one($node, q{select count(*) from pawl_dag.tasks where state = 'cancelled'}), 0, 'and nothing was cancelled');
$browser->run('document.querySelector(".node").focus()');
$browser->press('Enter');
ok($browser->sees('validate', '#step'), 'a step of the graph is chosen with Enter');

# Bulk operations
$browser->click('nav a', 'Bulk');
$browser->click('td a', 'devices');
ok($browser->sees($_), "the operation shows $_")
	for 'an IMEI has 15 digits', 'there is no such plan', 'Waits for a signal', 'cannot be retried', 'carrier-1';
picture('bulk');
$browser->click('#signals button', 'Complete');
ok($browser->sees('Row 1 will be complete at approval', 'dialog'), 'a signal asks first');
$browser->click('dialog button[type=submit]');
ok($node->poll_query_until('postgres', q{select state = 'Completed' from pawl_bulk.records where row_number = 1
	and step_index = 1}), 'the signal is answered');
becomes(sub { $browser->text('#signals') =~ /(carrier-1)\b/ ? $1 : '' }, '', 'and the row waits no more');
$browser->click('#signals button', 'Fail');
$browser->type('dialog input[name=reason]', 'the carrier rejects it');
$browser->click('dialog button[type=submit]');
ok($node->poll_query_until('postgres', q{select state = 'Failed' and error_message = 'the carrier rejects it'
	from pawl_bulk.records where row_number = 2 and step_index = 1}), 'or failed, with a reason');
page($browser->run('return location.hash.split("?")[0]') . '?row=7');
ok($browser->sees('there is no such plan', '#row'), 'a row tells what each step made of it');
picture('bulk_row');
my @waiting = map { [ split /\|/ ] } split /\n/,
	$node->safe_psql('postgres', 'select k.operation, k.key from pawl_bulk.signal_keys k join pawl_bulk.work w using '
		. '(operation, row_number, step_index)');
$node->safe_psql('postgres', join(';', map { "select pawl_bulk.signal('$_->[0]', '$_->[1]')" } @waiting));
ok($browser->sees('completed with errors', 'h1'), 'the operation ends while one looks on');
ok($browser->sees('can be retried'), 'it can be retried now');
picture('bulk_ended');
$browser->click('.head button', 'Retry');
ok($browser->sees('will start again at the step that failed', 'dialog'), 'which asks first');
$browser->click('dialog button[type=submit]');
ok($node->poll_query_until('postgres', 'select retry_count = 1 from pawl_bulk.operations'), 'and is done');

# Sagas
$browser->click('nav a', 'Sagas');
$browser->find('table tbody tr');
picture('sagas');
$browser->click('td a', 'full');
$browser->find('.node.off[data-name=flight]');
ok($browser->sees('no room'), 'a reverted flow tells what failed');
picture('saga_reverted');
$browser->click('nav a', 'Sagas');
$browser->click('td a', 'open end');
$browser->click('.head button', 'Suspend');
$browser->click('dialog button[type=submit]');
ok($browser->sees('suspended', 'h1'), 'a flow is suspended');
picture('saga_suspended');
$browser->click('.head button', 'Resume');
$browser->click('dialog button[type=submit]');
ok($browser->sees('running', 'h1'), 'the page shows an operation as running after it was resumed');

# Every page by axe-core, light and dark, wide and on a phone
my $flow = one($node, q{select flow_uuid from pawl_saga.flows where state = 'REVERTED'});
my $operation = one($node, 'select operation from pawl_bulk.operations');
my $blocked = one($node, q{select task_uuid from pawl_dag.tasks where state = 'blocked_by_failures'});
my $pay = one($node, "select step_uuid from pawl_dag.steps where task_uuid = '$blocked' and name = 'pay'");
my @pages = ([ '', 'Throughput' ], [ 'machines', 'Bound to' ], [ 'machines/ticket', 'Slowest states', '.mermaid svg' ],
	[ 'row?relation=shop.tickets&key=2', 'Possible transitions' ], [ 'tasks', 'order' ],
	[ "tasks/$blocked?step=$pay", 'Audit', '.node' ], [ 'dlq', 'declined' ], [ 'bulks', 'devices' ],
	[ "bulks/$operation?row=7", 'no such plan' ], [ 'flows', 'open end' ], [ "flows/$flow", 'no room', '.node' ],
	[ 'nowhere', 'no such page' ]);
$browser->each_look(sub {
	my ($theme, $width) = @_;
	for my $page (@pages)
	{
		page("#/$page->[0]");
		$browser->sees($page->[1]);
		$browser->find($page->[2]) if $page->[2];
		my $name = ($page->[0] =~ s/[^a-z].*//r || 'overview') . ($page->[0] =~ m{/|row=} ? '_one' : '');
		is(join("\n", $browser->inaccessible), '', "$name is accessible, $theme and $width wide");
		cmp_ok($browser->run('return document.documentElement.scrollWidth'), '<=', $width, "$name is not cut off");
		picture("access_${name}_${theme}_$width");
	}
	page('#/tasks/' . $blocked);
	$browser->click('.head button', 'Cancel');
	$browser->find('dialog[open]');
	is(join("\n", $browser->inaccessible), '', "a dialog is accessible, $theme and $width wide");
	$browser->press('Escape');
	wait_until(sub { !$browser->all('dialog') }, 'the dialog to close');
});

# In the dark, and on a phone
$browser->run('const s = document.querySelector(".theme select"); s.value = "dark"; s.dispatchEvent(new '
	. 'Event("change", { bubbles: true }))');
$browser->click('nav a', 'Overview');
$browser->sees('Throughput');
is($browser->run('return getComputedStyle(document.body).backgroundColor'), 'rgb(14, 18, 22)',
	'the switch makes it dark');
picture('dark_overview');
page("#/tasks/$task");
$browser->find('.node.good[data-name=thank]');
picture('dark_task');
page('#/machines/ticket');
$browser->find('.mermaid svg g.live');
picture('dark_machine');
$browser->run('const s = document.querySelector(".theme select"); s.value = "system"; s.dispatchEvent(new '
	. 'Event("change", { bubbles: true }))');
$browser->devtools('Emulation.setEmulatedMedia', features => [ { name => 'prefers-color-scheme', value => 'dark' } ]);
is($browser->run('return getComputedStyle(document.body).backgroundColor'), 'rgb(14, 18, 22)',
	'and so does the system');
$browser->devtools('Emulation.setEmulatedMedia', features => [ { name => 'prefers-color-scheme', value => 'light' } ]);
is($browser->run('return getComputedStyle(document.body).backgroundColor'), 'rgb(246, 247, 249)',
	'the console has a light theme');
$browser->devtools('Emulation.setDeviceMetricsOverride', width => 360, height => 740, deviceScaleFactor => 2,
	mobile => JSON::PP::true);
for my $where ([ '#/', 'overview', 'Throughput' ], [ '#/tasks', 'tasks', 'order' ],
	[ "#/tasks/$task", 'task', 'Steps' ], [ '#/bulks', 'bulks', 'devices' ], [ '#/flows', 'sagas', 'open end' ],
	[ '#/machines/ticket', 'machine', 'Diagram' ])
{
	page($where->[0]);
	$browser->sees($where->[2]);
	cmp_ok($browser->run('return document.documentElement.scrollWidth'), '<=', 360,
		"$where->[1] is no wider than a phone");
	picture("phone_$where->[1]");
}
$browser->devtools('Emulation.clearDeviceMetricsOverride');

# A role that only reads
$browser->click('button', 'Sign out');
$browser->type('input[name=token]', $reader);
$browser->press('Enter');
$browser->sees('(reads)', 'nav');
page('#/tasks?state=blocked_by_failures');
$browser->click('td a', 'order');
$browser->find('.node.bad[data-name=pay]');
is(scalar($browser->all('main button:not(.tool)')), 0, 'a reader has no buttons');

# A token that may operate, of a role that may not
$browser->click('button', 'Sign out');
$browser->type('input[name=token]', make_token($node, 'pawl_reader', 'rolf', '{read,operate}'));
$browser->press('Enter');
$browser->sees('Throughput');
page('#/tasks?state=blocked_by_failures');
$browser->click('td a', 'order');
$browser->find('.node.bad[data-name=pay]');
is(scalar($browser->all('main button:not(.tool)')), 0, 'nor has a role without the right');
page('#/row?relation=shop.tickets&key=1');
ok($browser->sees('the role may not update the row', 'table'), 'a row says why no event can be fired');
$browser->click('button', 'Sign out');
$browser->type('input[name=token]', $reader);
$browser->press('Enter');
$browser->sees('(reads)', 'nav');

# A token that is revoked
$node->safe_psql('postgres', q{update pawl_api.tokens set revoked_at = now() where person = 'rita'});
page('#/tasks');
ok($browser->sees('The token is no longer valid', 'main'), 'a token that was revoked leads back to the login page');

# What the browser has to say about all this
my @asked = map {
	$_->{request}{url}
} grep {
	defined
} map {
	my $m = decode_json($_->{message})->{message};
	$m->{method} eq 'Network.requestWillBeSent' ? $m->{params} : undef
} $browser->log_of('performance');
cmp_ok(scalar(@asked), '>', 50, 'the browser has counted requests');
is_deeply([ grep { !m{^\Q$root\E/(console|v1|api)/} && !/^data:/ && !m{^blob:\Q$root\E/} && !m{^chrome:} } @asked ], [],
	'and none went anywhere else');
my @complaints = grep { $_->{level} eq 'SEVERE' && $_->{message} !~ /status of (401|404)/
	|| $_->{message} =~ /Content Security Policy/i } $browser->log_of('browser');
is_deeply([ map { $_->{message} } @complaints ], [], 'no error was written to its console');
$whole = 1;
done_testing();
