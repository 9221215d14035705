# Lists whose filters no index answers find everything there is, however long they look; the console goes on by itself.
# And how long rows stayed in a state is known of slow ones too.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('main', qw(pawl_dag pawl_saga));
$node->safe_psql('postgres', q{
	alter database postgres set pawl_api.look_for_ms = '0';
	select pawl_dag.define_template(
		'{"name": "rare", "identity_strategy": "always_unique", "steps": [{"name": "one", "handler": "none"}]}');
	select pawl_dag.define_template(
		'{"name": "common", "identity_strategy": "always_unique", "steps": [{"name": "one", "handler": "none"}]}');
	select pawl_saga.define('{"name": "rare", "flow": "linear", "children": [{"task": "a"}]}');
	select pawl_saga.define('{"name": "common", "flow": "linear", "children": [{"task": "a"}]}')});
my @old = split /\n/,
	$node->safe_psql('postgres', q{select pawl_dag.start_tasks('rare', array_fill('{}'::jsonb, array[3]))});
$node->safe_psql('postgres',
	q{select count(*) from pawl_dag.start_tasks('common', array_fill('{}'::jsonb, array[4500]))});
my $last = $node->safe_psql('postgres', q{select pawl_dag.start_task('rare')});
my $flow = $node->safe_psql('postgres', q{select pawl_saga.start('rare')});
$node->safe_psql('postgres', q{select count(pawl_saga.start('common')) from generate_series(1, 2100)});
$node->safe_psql('postgres', q{update pawl_dag.tasks set state = 'cancelled' where name = 'rare'});

my $token = make_token($node, 'pawl_reader', 'rita', '{read}');
my $api = begin_api($node);

# Every page of a list, by its cursor.
sub whole
{
	my ($path) = @_;
	my (@items, $pages, $short, $cursor);
	do
	{
		my $page = ask('GET', $path . (defined $cursor ? "&cursor=$cursor" : ''), token => $token)->{json};
		push @items, @{ $page->{items} };
		$pages++;
		$short++ if !@{ $page->{items} } && defined $page->{next};
		$cursor = $page->{next};
	} while (defined $cursor && $pages < 100);
	return (\@items, $pages, $short // 0);
}

for my $filter ('name=rare', 'state=cancelled', 'name=rare&state=cancelled,complete')
{
	my ($items, $pages, $short) = whole("/v1/tasks?limit=2&$filter");
	is_deeply([ sort map { $_->{task_uuid} } @$items ], [ sort @old, $last ],
		"$filter: all of them are found, in $pages pages");
	cmp_ok($short, '>', 0, "$filter: pages without any said that they were not the last");
}
my ($common, $pages) = whole('/v1/tasks?limit=500&name=common');
is(scalar(@$common), 4500, 'a filter that nearly all fit finds all');
my %once = map { $_->{task_uuid} => 1 } @$common;
is(scalar(keys %once), 4500, 'pages list each task once');
my ($flows) = whole('/v1/flows?limit=5&name=rare');
is_deeply([ map { $_->{flow_uuid} } @$flows ], [ $flow ], 'pages of flows list the flow');
my $overview = ask('GET', '/v1/overview', token => $token)->{json};
ok(exists $overview->{rejected} && !defined $overview->{rejected},
	'rejections are not counted, and not 0, where pawl is not preloaded');
is_deeply(ask('GET', '/v1/session', token => $token)->{json}{operations}, [], 'a reader has no operations');
is_deeply(ask('GET', '/v1/tasks?limit=5&name=missing&state=complete', token => $token)->{json}{items}, [],
	'what is not there is not found');

# The console does not stop at a page that is empty.
my $browser = Browser->new;
$browser->go("http://127.0.0.1:$api->{port}/console/");
$browser->type('input[name=token]', $token);
$browser->press('Enter');
ok($browser->sees('Overview', 'h1'), 'the console shows its overview after the sign-in');
$browser->run('location.hash = arguments[0]', '#/tasks?state=cancelled');
ok($browser->sees('rare', 'tbody'), 'the console finds what lies beyond one page');
ok(wait_until(sub { $browser->run('return document.querySelectorAll("tbody tr").length') == 4 }, 'four rows'),
	'all of it, unasked');
mkdir "$ENV{TESTDIR}/pictures";
$browser->picture("$ENV{TESTDIR}/pictures/lists_found.png");
$browser->run('location.hash = arguments[0]', '#/tasks?state=error');
ok($browser->sees('No task matches these filters'), 'and says that there is nothing when it has seen the end');
$browser->run('location.hash = arguments[0]', '#/flows?name=rare');
ok($browser->sees('rare', 'tbody'), 'of flows as well');

$node->safe_psql('postgres', q{alter database postgres set pawl_api.look_for_ms = '60000';
	select pg_terminate_backend(pid) from pg_stat_activity where usename = 'pawl_authenticator'});
wait_until(sub { ask('GET', '/v1/session', token => $token)->{status} == 200 }, 'the API to be back');
is(scalar(@{ ask('GET', '/v1/tasks?limit=10&state=cancelled', token => $token)->{json}{items} }), 4,
	'with time to look, one page is enough');

# States in which rows stay for long: the entry before is far back in the log, behind more entries than are looked at.
$node->safe_psql('postgres', q{
	select pawl.define('stay',
		E'stateDiagram-v2\n[*] --> short\nshort --> long : go\nlong --> [*]\nlong --> short : back');
	create table stays (id int primary key, state text not null default 'short');
	create table parted (id int primary key, state text not null default 'short');
	select pawl.enforce('stays', 'state', 'stay'), pawl.enable_log('stays', 'state');
	select pawl.enforce('parted', 'state', 'stay'),
		pawl.enable_log('parted', 'state', log_partition => 'hash (id) partitions 3');
	grant select on stays, parted, stays_transitions_log, stays_transitions, parted_transitions,
		parted_transitions_log to pawl_reader;
	insert into stays select g from generate_series(1, 40000) g;
	insert into parted select g from generate_series(1, 3000) g});
$node->safe_psql('postgres', "update $_ set state = 'long'") for qw(stays parted);
$node->safe_psql('postgres', "update $_ set state = 'short' where id <= 10") for qw(stays parted);
my $expected = { 'public.stays short' => 300, 'public.stays long' => 10, 'public.parted short' => 300,
	'public.parted long' => 10 };
for my $reader ('a role that may read the log', 'a role that may read its partitions as well')
{
	my $answered = ask('GET', '/v1/machines/stay/slowest', token => $token);
	is_deeply({ map { ("$_->{relation} $_->{state}" => $_->{samples}) } @{ $answered->{json}{items} } }, $expected,
		"stays are measured, however many rows changed state meanwhile, in a partitioned log too: $reader")
		or diag($answered->{content});
	$node->safe_psql('postgres', q{grant select on all tables in schema public to pawl_reader});
}
my ($long) = grep { $_->{relation} eq 'public.stays' && $_->{state} eq 'long' }
	@{ ask('GET', '/v1/machines/stay/slowest', token => $token)->{json}{items} };
cmp_ok($long->{max_s}, '>', 0, 'and took time');
done_testing();
