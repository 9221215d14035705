# Abuse and mistakes: keys used twice, invalid cursors, guessing of tokens, garbage, clients that are slow on purpose.
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('abuse', qw(pawl_dag));
define_template($node,
	'{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "pack", "handler": "shop.pack"}]}');
my $operator = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $expired = one($node, "select pawl_api.create_token('pawl_reader', 'eve', valid => '-1 second')");
my $api = begin_api($node, '--sql-workers', '0');

sub raw
{
	my ($bytes) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port(), Timeout => 10) or return '';
	local $SIG{PIPE} = 'IGNORE';
	print $socket $bytes;
	shutdown($socket, 1);
	return do { local $/; <$socket> } // '';
}

subtest 'an idempotency key' => sub {
	my %how = (token => $operator, headers => { 'Idempotency-Key' => 'k1' });
	my $first = ask('POST', '/v1/tasks', %how, headers => { 'Idempotency-Key' => 'k1' }, body => { name => 'order' });
	my $again = ask('POST', '/v1/tasks', %how, headers => { 'Idempotency-Key' => 'k1' }, body => { name => 'order' });
	is($again->{json}{task_uuid}, $first->{json}{task_uuid}, 'gets the first answer again');
	is(one($node, 'select count(*) from pawl_dag.tasks'), 1, 'and starts one task');
	is(ask('POST', '/v1/tasks', token => $operator, headers => { 'Idempotency-Key' => 'k1' },
		body => { name => 'order', priority => 3 })->{status}, 422, 'is rejected with another request');
	is(ask('POST', '/v1/tasks', token => $operator, headers => { 'Idempotency-Key' => 'k2' },
		body => { name => 'none' })->{status}, 404, 'of a request that fails');
	is(one($node, "select count(*) from pawl_api.answers where key = 'k2'"), 0, 'is not kept');
	$node->safe_psql('postgres', 'create role mallory login in role pawl_operator');
	my $forged = "select set_config('pawl_api.token', (select token::text from pawl_api.tokens where person = "
		. "'otto'), false)";
	for my $call (q{pawl_api.once('k3', 'start_task', '{}', '{"name": "order"}')},
		q{pawl_api._first_answer('k3', 'start_task', '')}, q{pawl_api._keep_answer('k1', '{"task_uuid": null}')})
	{
		my ($status, undef, $error) = $node->psql('postgres',
			"$forged; set session authorization mallory; select $call", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		like($error, qr/42501: idempotency keys belong to requests/, "is not for sessions with plain SQL: $call");
	}
	is(one($node, 'select count(*) from pawl_api.answers'), 1, 'and nothing was kept');
	my %check = (token => $operator, headers => { 'Idempotency-Key' => 'k4' });
	is(ask('POST', '/v1/diagram/check', %check, headers => { 'Idempotency-Key' => 'k4' },
			body => { diagram => "stateDiagram-v2\n[*] --> $_" })->{status}, 200,
		'of a request that changes nothing is ignored') for qw(a b);
	is(one($node, "select pawl_api.prune_answers('0 s')"), 1, 'keys are pruned');
};

subtest 'pages' => sub {
	ask('POST', '/v1/tasks', token => $operator, body => { name => 'order' }) for 1 .. 6;
	my (@seen, $cursor);
	do
	{
		my $page = ask('GET', '/v1/tasks?limit=3' . (defined $cursor ? "&cursor=$cursor" : ''),
			token => $operator)->{json};
		push @seen, map { $_->{task_uuid} } @{ $page->{items} };
		$cursor = $page->{next};
	} while (defined $cursor && @seen < 50);
	is(join(' ', @seen),
		one($node, "select string_agg(task_uuid::text, ' ' order by task_uuid desc) from pawl_dag.tasks"),
		'show every task once, newest first');
	my $key = one($node, 'select identity_key from pawl_dag.tasks order by task_uuid offset 2 limit 1');
	my $named = ask('GET', "/v1/tasks?identity_key=$key", token => $operator)->{json};
	is_deeply([ map({ $_->{identity_key} } @{ $named->{items} }), $named->{next} ], [ $key, undef ],
		'a task is found by its key');
	is_deeply(ask('GET', "/v1/tasks?identity_key=$key&state=complete", token => $operator)->{json},
		{ items => [], next => undef }, 'if the other filters let it');
	is(ask('GET', "/v1/tasks?$_", token => $operator)->{status}, 400, "?$_ is rejected")
		for qw(cursor=nonsense cursor=WyJ4Il0 limit=0 limit=501 limit=x unknown=1 limit=1&limit=2);
	is(ask('GET', '/v1/tasks/nonsense', token => $operator)->{status}, 400, 'a task that is no uuid, too');
};

subtest 'other errors' => sub {
	is(ask('DELETE', '/v1/tasks', token => $operator)->{status}, 405, 'an invalid method');
	is(ask('GET', '/v1/flows', token => $operator)->{json}{hint}, 'create extension pawl_saga',
		'a pack that is not installed');
	is(ask('POST', '/v1/tasks', token => $operator, content => '{"name":',
			headers => { 'Content-Type' => 'application/json' })->{status}, 400,
		'a body that is not valid JSON is rejected with 400');
	is(ask('POST', '/v1/tasks', token => $operator, content => '{}',
		headers => { 'Content-Type' => 'text/plain' })->{status}, 415, 'an invalid type');
	is(ask('POST', '/v1/tasks', token => $operator, content => "--x\r\n\r\n--x--\r\n",
			headers => { 'Content-Type' => 'multipart/form-data; boundary=x' })->{status}, 415,
		'a form where none is taken');
	is(ask('POST', '/v1/tasks', token => $operator, content => '{}',
		headers => { 'Content-Type' => 'application/json', 'Content-Encoding' => $_ })->{status}, 415,
		"a body that is encoded ($_)") for qw(gzip br foo);
	$api->{run}{harness}->pump_nb;
	unlike($api->{run}{err}, qr/^\S+ error /m, 'and none of that is an error of the server');
	is(ask('POST', '/v1/tasks', token => $operator, content => ' ' x 1_100_000,
		headers => { 'Content-Type' => 'application/json' })->{status}, 413, 'a body that is too long');
	my $diagram = ask('GET', '/v1/machines/pawl_dag.task/diagram', token => $operator);
	like($diagram->{content}, qr/^stateDiagram-v2/, 'a diagram is Mermaid');
	is(ask('GET', '/v1/machines/pawl_dag.task/diagram', token => $operator,
		headers => { 'If-None-Match' => $diagram->{headers}{etag} })->{status}, 304, 'and not sent twice');
};

subtest 'garbage' => sub {
	my $auth = "Authorization: Bearer $operator\r\n";
	like(raw("GET /v1/tasks HTTP/1.1\r\nHost: x\r\n${auth}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
		qr{^HTTP/1.1 400}, 'a request with two lengths is rejected with 400');
	like(raw("GET /v1/tasks HTTP/1.1\r\nHost: x\r\nX: " . 'a' x 20_000 . "\r\n\r\n"), qr{^HTTP/1.1 431},
		'a header that is too long');
	srand(7);
	my $survived = 0;
	for (1 .. 300)
	{
		my $text = "POST /v1/tasks/%7b?limit=1 HTTP/1.1\r\nHost: x\r\n${auth}Content-Type: "
			. "application/json\r\nContent-Length: 9\r\n\r\n{\"a\": 12}";
		substr($text, int(rand(length $text)), 1 + int(rand(4))) = join '',
			map { chr(int(rand(256))) } 1 .. 1 + int(rand(6)) for 1 .. 1 + int(rand(5));
		my $said = raw($text);
		++$survived if $said eq '' || $said =~ m{^HTTP/1\.[01] [2-5]\d\d };
	}
	is($survived, 300, 'gets an answer or none, and the daemon lives');
	is(ask('GET', '/healthz')->{status}, 200, 'and is well');
};

subtest 'a slow client' => sub {
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port()) or die $!;
	local $SIG{PIPE} = 'IGNORE';
	print $socket "GET /healthz HTTP/1.1\r\nX: ";
	my $said = '';
	wait_until(sub { print $socket 'a'; $socket->blocking(0); sysread($socket, $said, 1000) },
		'the server to lose its patience');
	like($said, qr{^HTTP/1.1 408}, 'is sent away, byte after byte or not');
};

subtest 'guessing' => sub {
	is(ask('GET', '/v1/session', token => $expired)->{status}, 401, 'an expired token is rejected');
	my $last;
	$last = ask('GET', '/v1/session', token => "pawl_guess$_") for 1 .. 12;
	is($last->{status}, 429, 'too many guesses are not listened to');
	cmp_ok($last->{headers}{'retry-after'}, '>', 0, 'for a while');
	is(ask('GET', '/v1/session', token => $operator)->{status}, 200, 'a client that was known before is served');
	unlike($api->{run}{err}, qr/pawl_guess|\Q$operator\E/, 'no token is in the log');
};

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
