# The console over two databases: rows of both in one list, one of them chosen, and one that does not answer.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('main', qw(pawl_dag pawl_bulk pawl_saga));
$node->safe_psql('postgres', 'create database b template postgres');
my $target = 'host=' . $node->host . ' port=' . $node->port . ' dbname=';
my $run = begin_program($node, 'pawl', 'databases', 'init', 'a', $target . 'postgres');
is(end_program($run), 0, 'a is the first database') or diag($run->{err});
for ([ 'databases', 'add', 'b', $target . 'b' ], [ 'move', 'green', 'b', '--no-verify' ])
{
	$run = begin_program($node, 'pawl', @$_);
	is(end_program($run), 0, "pawl @$_[0, 1]") or diag($run->{err});
}
for (['postgres', 'red'], ['b', 'green'])
{
	my ($base, $namespace) = @$_;
	$node->safe_psql($base, qq{select pawl_dag.define_template('{"name": "order", "namespace": "$namespace",
		"identity_strategy": "always_unique", "steps": [{"name": "pack", "handler": "shop.pack"}]}');
		select count(*) from pawl_dag.start_tasks('order', array_fill('{}'::jsonb, array[3]),
			namespace => '$namespace')});
}
my $token = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
$run = begin_program($node, 'pawl', 'databases', 'tokens');
is(end_program($run), 0, 'the token is valid in both') or diag($run->{err});
my $api = begin_api($node, '--all-databases', 'true', '--skip', 'orchestrate', '--sql-workers', '0');

my $browser = Browser->new;
my $whole = 0;
END { local ($?, $@); diag($browser->tells) if $browser && !$whole }
sub picture { my ($name) = @_; $browser->picture("$ENV{TESTDIR}/pictures/databases_$name.png"); return }
sub page { my ($path) = @_; $browser->run('location.hash = arguments[0]', $path); return }
sub choose
{
	my ($database) = @_;
	$browser->run('const s = document.querySelector(".databases select"); s.value = arguments[0]; '
		. 's.dispatchEvent(new Event("change", { bubbles: true }))', $database);
	return;
}
my $rows = sub { scalar(() = $browser->all('tbody tr')) };
my $everywhere = sub {
	my ($name) = @_;
	$browser->each_look(sub {
		my ($theme, $width) = @_;
		is(join("\n", $browser->inaccessible), '', "$name is accessible, $theme and $width wide");
		cmp_ok($browser->run('return document.documentElement.scrollWidth'), '<=', $width, 'and not cut off');
		picture("${name}_${theme}_$width");
	});
};
mkdir "$ENV{TESTDIR}/pictures";
$browser->go("http://127.0.0.1:$api->{port}/console/");
$browser->type('input[name=token]', $token);
$browser->press('Enter');
ok($browser->sees('Overview', 'h1'), 'an operator signs in');

# All of them
$browser->find('.databases select');
ok($browser->sees(qr/a\s+ready.*home.*b\s+ready/s, 'main'), 'the overview says how each is');
ok($browser->sees('Of database a', 'main'), 'and of which it has the details');
$everywhere->('overview');
page('#/tasks');
becomes($rows, 6, 'tasks of both are one list');
ok($browser->sees('b', 'td[data-head=Database]'), 'with their databases');
$everywhere->('tasks');
$browser->click('th.tick input');
$browser->click('.ticked button', 'Cancel');
ok($browser->sees(qr/6 will change/, 'dialog .tally'), 'an action is for both');
$browser->click('dialog button[type=submit]');
ok($browser->sees('Done', 'dialog'), 'it is carried out');
is(one($node, q{select count(*) from pawl_dag.tasks where state = 'cancelled'}, $_), 3, "in $_") for 'postgres', 'b';
$browser->click('dialog button', 'Close');
wait_until(sub { !$browser->all('dialog') }, 'the dialog to close');
my $there = one($node, q{select task_uuid from pawl_dag.tasks limit 1}, 'b');
page("#/tasks/$there");
ok($browser->sees(qr/\Q$there\E.*database b/, '.sub'), 'a task is found in either, and says where it is');
$browser->click('.note a', 'whole timeline');
ok($browser->sees('cancelled', '.timeline'), 'its timeline is read there');

# A task that is started goes where its namespace is
page('#/tasks');
$browser->click('.head button', 'Start');
$browser->find('dialog');
$browser->run('const s = document.querySelector("dialog select"); s.value = [...s.options].find(o => '
	. 'o.value.startsWith("green")).value; s.dispatchEvent(new Event("change", { bubbles: true }))');
$browser->click('dialog button[type=submit]');
becomes(sub { one($node, 'select count(*) from pawl_dag.tasks', 'b') }, 4, 'a task is started in its database');

# One of them
page('#/tasks');
choose('b');
becomes($rows, 4, 'with a database chosen, tasks are those of it');
is($browser->run('return location.hash'), '#/tasks?database=b', 'which the address says');
is(scalar(() = $browser->all('td[data-head=Database]')), 0, 'the column is not needed');
$browser->click('nav a', 'Machines');
ok($browser->sees('Of database b', 'main'), 'the choice stays from page to page');
page('#/tasks?database=a');
becomes($rows, 3, 'an address leads to a database');
$browser->click('nav a', 'Dead letters');
ok($browser->sees('None. Nothing waits', 'main'), 'there are no dead letters in it');

# One that does not answer
choose('');
page('#/tasks');
becomes($rows, 7, 'all are shown again');
$node->safe_psql('postgres', q{alter database b allow_connections false;
	select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = 'b'});
ok($browser->sees('Database b is missing', '.banner'), 'a list says what is missing');
becomes($rows, 3, 'and has the rows of the other');
$everywhere->('missing');
page('#/');
ok($browser->sees(qr/b\s+not ready/s, 'main'), 'the overview says which is not ready');
picture('not_ready');
$node->safe_psql('postgres', 'alter database b allow_connections true');
ok($browser->sees(qr/b\s+ready/s, 'main'), 'until it is again');

$whole = 1;
$browser->end;
is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
