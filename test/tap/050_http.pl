# The HTTP API: what each role may do, on the routes of tasks; errors, idempotency, pages.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('http', qw(pawl_dag));
define_template($node, '{"name": "order", "steps": [{"name": "pack", "handler": "shop.pack"}, {"name": "ship", '
	. '"handler": "shop.ship", "dependencies": ["pack"]}]}');
my $reader = make_token($node, 'pawl_reader', 'rita', '{read}');
my $operator = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $narrow = make_token($node, 'pawl_operator', 'nora', '{read}');
# Tasks stay as they are made: the daemon does not orchestrate.
my $api = begin_api($node, '--skip', 'orchestrate');

subtest 'without a token' => sub {
	is(ask('GET', '/healthz')->{status}, 200, 'learns that the daemon is alive');
	is(ask('GET', '/readyz')->{status}, 200, 'GET /readyz answers 200 while the database is there');
	is(ask('GET', '/openapi.json')->{json}{openapi}, '3.1.0', 'and gets the document');
	is(ask('GET', '/v1/tasks')->{status}, 401, 'but nothing else');
};

subtest 'a task' => sub {
	my $made = ask('POST', '/v1/tasks', token => $operator, body => { name => 'order', context => { n => 1 } });
	is($made->{status}, 201, 'an operator starts it') or diag($made->{content});
	is(scalar @{ $made->{json}{workflow_steps} }, 2, 'it has its steps');
	my $task = $made->{json}{task_uuid};
	my $got = ask('GET', "/v1/tasks/$task", token => $reader);
	is($got->{json}{state}, 'pending', 'a reader sees it');
	is(ask('POST', '/v1/tasks', token => $reader, body => { name => 'order' })->{status}, 403,
		'a reader does not start any');
	is(ask('POST', '/v1/tasks', token => $narrow, body => { name => 'order' })->{json}{sqlstate}, '42501',
		'nor does an operator whose token is for reading');
	is(one($node, "select processor || ' ' || actor from pawl_dag.task_transitions where task_uuid = '$task' and "
		. "sort_key = 1"), 'otto pawl_operator', 'the log names the person and the role');
	my $missing = ask('GET', '/v1/tasks/01234567-89ab-7def-8123-456789abcdef', token => $reader);
	is($missing->{status}, 404, 'what is not there is not found');
	is($missing->{type}, 'application/problem+json', 'as a problem');
};

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
