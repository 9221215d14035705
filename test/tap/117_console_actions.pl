# The console on many rows at a time: ticked, or all that match; what a dry run says, and each with its own outcome.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('main', qw(pawl_dag pawl_bulk));
define_template($node, '{"name": "idle", "identity_strategy": "always_unique", "steps": [{"name": "wait", "handler": '
	. '"shop.nothing"}]}');
define_template($node, '{"name": "stuck", "identity_strategy": "always_unique", "steps": [{"name": "pay", "handler": '
	. '"shop.nothing", "retry": {"max_attempts": 1}}]}');
$node->safe_psql('postgres', q{
	select count(*) from pawl_dag.start_tasks('idle', array_fill('{}'::jsonb, array[300]));
	select count(*) from pawl_dag.start_tasks('stuck', array_fill('{}'::jsonb, array[3]));
	select pawl_bulk.define('{"name": "import", "steps": [{"name": "one", "handler": "shop.one"}]}');
	select operation from pawl_bulk.submit('import', rows => '[{"id": 1}]');
	select pawl_bulk.define('{"name": "signed", "is_retryable": true, "track_row_data": true, "steps": [{"name": "ask",
		"kind": "signal", "handler": "none", "timeout": "1 day", "signal_key": "go-{row}"}]}')});
my $api = begin_api($node);
my $kept = one($node, q{select min(task_uuid::text) from pawl_dag.tasks where name = 'idle'});
$node->safe_psql('postgres', qq{create function keep() returns trigger language plpgsql as \$\$ begin
	if new.state = 'cancelled' then raise 'the customer has paid'; end if; return new; end \$\$;
	create trigger keep before update on pawl_dag.tasks for each row when (old.task_uuid = '$kept')
		execute function keep()});
ok($node->poll_query_until('postgres', q{select count(*) = 3 from pawl_dag.steps s
	join pawl_dag.tasks t using (task_uuid) where t.name = 'stuck' and s.state = 'enqueued'}), 'there is work');
$node->safe_psql('postgres', q{select from pawl_dag.report((select jsonb_agg(jsonb_build_object('task_uuid',
	c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token,
	'error', '{"message": "the card was declined", "permanent": true}'::jsonb))
	from pawl.claim(null::pawl_dag.steps, 'Start', '00000000-0000-7000-8000-00000000000a', batch => 1000,
		queue => 'default') c join pawl_dag.tasks t using (task_uuid) where t.name = 'stuck'),
	'00000000-0000-7000-8000-00000000000a')});
ok($node->poll_query_until('postgres', q{select count(*) = 3 from pawl_dag.dlq where resolution_status = 'pending'}),
	'and there are dead letters');

my $browser = Browser->new;
my $whole = 0;
END { local ($?, $@); diag($browser->tells) if $browser && !$whole }
sub picture { my ($name) = @_; $browser->picture("$ENV{TESTDIR}/pictures/actions_$name.png"); return }
sub page { my ($path) = @_; $browser->run('location.hash = arguments[0]', $path); return }
sub closed { wait_until(sub { !$browser->all('dialog') }, 'the dialog to close'); return }
mkdir "$ENV{TESTDIR}/pictures";
$browser->go("http://127.0.0.1:$api->{port}/console/");
$browser->type('input[name=token]', make_token($node, 'pawl_operator', 'otto', '{read,operate}'));
$browser->press('Enter');
ok($browser->sees('Overview', 'h1'), 'an operator signs in');

# All that match, one of which fails
page('#/tasks?template=idle');
$browser->click('td.tick input');
ok($browser->sees('1 task', '.ticked'), 'a task is ticked');
$browser->click('th.tick input');
ok($browser->sees('50 tasks', '.ticked'), 'or all that are shown');
$browser->click('.ticked button', 'choose all');
ok($browser->sees('All tasks that match these filters', '.ticked'), 'or all that match');
picture('ticked');
$browser->click('.ticked button', 'Cancel');
ok($browser->sees(qr/300 will change\s+0 stay as they are\s+0 will be rejected/, 'dialog .tally'),
	'a dry run says how many would change');
is(one($node, q{select count(*) from pawl_dag.tasks where state = 'cancelled'}), 0, 'and changes none');
$browser->each_look(sub {
	my ($theme, $width) = @_;
	is(join("\n", $browser->inaccessible), '', "the dialog is accessible, $theme and $width wide");
	cmp_ok($browser->run('return document.querySelector("dialog").scrollWidth'), '<=', $width, 'and not cut off');
	picture("asks_${theme}_$width");
});
$node->safe_psql('postgres', q{select pawl_dag.start_task('idle')});  # not one of those that were counted
$browser->type('dialog input[name=reason]', 'sent twice');
$browser->click('dialog button[type=submit]');
ok($browser->sees(qr/299 changed\s+0 were so already\s+1 rejected/, 'dialog .tally'),
	'a task that fails stops no other, and a task that is new is not cancelled');
ok($browser->sees('Done.', 'dialog') && $browser->sees('the customer has paid', 'dialog'), 'its reason is shown');
$browser->click('dialog summary');
ok($browser->sees('SQLSTATE P0001', 'dialog .rejected'), 'with its SQLSTATE');
$browser->each_look(sub {
	my ($theme, $width) = @_;
	is(join("\n", $browser->inaccessible), '', "the summary is accessible, $theme and $width wide");
	picture("done_${theme}_$width");
});
is(one($node, q{select count(*) from pawl_dag.task_transitions where to_state = 'cancelled' and processor = 'otto'
	and metadata ->> 'reason' = 'sent twice'}), 299, 'the log has person and reason');
$browser->click('dialog .buttons button', 'Close');
closed();
ok($browser->sees('to act on them', '.ticked'), 'nothing is ticked after it');

# A text of a payload
$node->safe_psql('postgres', q{select pawl_dag.start_task('idle', '{"customer": "Ada Lovelace"}')});
page('#/tasks?template=idle');
$browser->type('.filters label:last-of-type input', 'lovelace');
ok(wait_until(sub { $browser->run('return document.querySelectorAll("tbody tr").length') == 1 }, 'one task'),
	'a task is found by a text of its context');
like($browser->run('return location.hash'), qr/search=lovelace/, 'and the address keeps the search');
$browser->click('.ticked button', 'choose all');
$browser->click('.ticked button', 'Cancel');
ok($browser->sees('1 will change', 'dialog'), 'an action on all that match honours it');
$browser->click('dialog .buttons button', 'Leave it');
closed();

# Dead letters and operations
page('#/dlq?search=declined');
$browser->sees('declined', 'tbody');
picture('letters');
$browser->click('td.tick input');
$browser->click('.ticked button', 'Give up');
ok($browser->sees('1 will change', 'dialog'), 'a dead letter is given up');
$browser->click('dialog button[type=submit]');
is($browser->run('return document.querySelector("dialog input[name=reason]").validity.valueMissing'), JSON::PP::true,
	'which needs a reason');
$browser->click('dialog .buttons button', 'Leave it');
closed();
$browser->click('.ticked button', 'choose all');
$browser->click('.ticked button', 'Retry');
ok($browser->sees('3 will change', 'dialog'), 'all are retried');
$browser->click('dialog button[type=submit]');
ok($browser->sees('Done.', 'dialog'), 'by one action');
is(one($node, q{select count(*) from pawl_dag.dlq where resolution_status = 'pending'}), 0, 'and none is left');
$browser->click('dialog .buttons button', 'Close');
closed();
page('#/bulks');
$browser->click('td.tick input');
$browser->click('.ticked button', 'Retry');
ok($browser->sees('Nothing would change', 'dialog') && $browser->sees('not CompletedWithErrors', 'dialog'),
	'an operation that cannot be retried says why');
$browser->press('Escape');
closed();

# Rows of an operation
my $signed = one($node, q{select operation from pawl_bulk.submit('signed',
	rows => (select jsonb_agg(jsonb_build_object('id', g)) from generate_series(1, 6) g))});
ok($node->poll_query_until('postgres', "select count(*) = 6 from pawl_bulk.work where operation = '$signed' "
	. "and kind = 'signal'"), 'rows wait for a signal');
sub rows_that
{
	my ($condition) = @_;
	return one($node, "select string_agg(row_number::text, ' ' order by row_number) from pawl_bulk.latest_records "
		. "where operation = '$signed' and $condition") // '';
}
page("#/bulks/$signed");
$browser->click('td.tick input[aria-label="Tick 1"]');
$browser->click('td.tick input[aria-label="Tick 2"]');
ok($browser->sees('2 rows', '.ticked'), 'rows of an operation are ticked');
$browser->each_look(sub {
	my ($theme, $width) = @_;
	is(join("\n", $browser->inaccessible), '', "rows with ticks are accessible, $theme and $width wide");
	cmp_ok($browser->run('return document.documentElement.scrollWidth'), '<=', $width, 'and not cut off');
	picture("rows_${theme}_$width");
});
$browser->click('.ticked button', 'Fail');
ok($browser->sees('2 will change', 'dialog'), 'a dry run says how many would fail');
is(rows_that("state = 'Failed'"), '', 'and fails none');
$browser->type('dialog input[name=reason]', 'no answer');
$browser->click('dialog button[type=submit]');
ok($browser->sees('Done.', 'dialog'), 'the signals are sent');
is(rows_that("state = 'Failed' and error_message = 'no answer'"), '1 2', 'to the ticked rows, and no others');
$browser->click('dialog .buttons button', 'Close');
closed();
page("#/bulks/$signed?state=WaitingForCompletion");
$browser->click('.ticked button', 'choose all');
$browser->click('.ticked button', 'Complete');
ok($browser->sees('4 will change', 'dialog'), 'all that match are completed');
$browser->click('dialog button[type=submit]');
ok($browser->sees('Done.', 'dialog'), 'by one action');
$browser->click('dialog .buttons button', 'Close');
closed();
ok($browser->sees('completed with errors', 'h1'), 'so the operation ends');
page("#/bulks/$signed");
$browser->click('td.tick input[aria-label="Tick 2"]');
$browser->click('td.tick input[aria-label="Tick 3"]');
$browser->click('.ticked button', 'Retry');
ok($browser->sees('1 will change', 'dialog') && $browser->sees('it has not failed', 'dialog'),
	'a row that has not failed stays as it is, and says so');
picture('rows_retry');
$browser->click('dialog button[type=submit]');
ok($browser->sees('Done.', 'dialog'), 'the other one is retried');
is(rows_that("state not in ('Completed', 'Failed')"), '2', 'and no other row');
$browser->click('dialog .buttons button', 'Close');
closed();
$browser->each_look(sub {
	my ($theme, $width) = @_;
	page('#/tasks');
	$browser->find('td.tick input');
	is(join("\n", $browser->inaccessible), '', "a list with ticks is accessible, $theme and $width wide");
	cmp_ok($browser->run('return document.documentElement.scrollWidth'), '<=', $width, 'and not cut off');
	picture("list_${theme}_$width");
});
$whole = 1;
done_testing();
