# Requests inside of bodies, and heads that two readers understand differently: what is answered is what was sent, also
# behind a proxy that keeps its connections.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use IPC::Run;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

local $SIG{PIPE} = 'IGNORE';
my $node = api_cluster('smuggling', qw(pawl_dag));
define_template($node,
	'{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "pack", "handler": "shop.pack"}]}');
start_tasks($node, 'order', 1);
my $task = one($node, 'select task_uuid from pawl_dag.tasks');
my $operator = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $api = begin_api($node, '--sql-workers', '0', '--http', '127.0.0.1:0');
my ($metrics) = $api->{run}{err} =~ /listening port=(\d+)/;
my $auth = "Authorization: Bearer $operator\r\n";
my $next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
my $smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

# Everything that comes until the server closes, or until /healthz is answered, which is asked for last.
sub talk
{
	my ($port, $bytes) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10) or return '';
	print $socket $bytes;
	my ($said, $ready) = ('', IO::Select->new($socket));
	while ($ready->can_read($PostgreSQL::Test::Utils::timeout_default))
	{
		last unless sysread($socket, $said, 65536, length $said);
		last if $said =~ /\r\n\r\nok\n\z/ && $bytes =~ /\Q$next\E\z/;
	}
	return $said;
}

sub statuses { return join ' ', $_[0] =~ m{HTTP/1\.1 (\d{3}) [A-Z]}g }
sub chunked { return sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", length $_[0], $_[0]) }
sub counted { return sprintf("Content-Length: %d\r\n\r\n%s", length $_[0], $_[0]) }

# That a body belongs to the request before it, whatever is answered to that: one answer and the end, or two.
sub holds
{
	my ($name, $port, $head, $status) = @_;
	for my $framing ([ counted => \&counted ], [ chunked => \&chunked ])
	{
		my ($called, $write) = @$framing;
		my $said = talk($port, "$head\r\nHost: x\r\n" . $write->($smuggled) . $next);
		my $all = statuses($said);
		ok($all =~ /^$status( 200)?$/ && ($all =~ / / || $said =~ /^Connection: close\r$/m), "$name, $called")
			or diag($said);
	}
	return;
}

subtest 'a body is no request' => sub {
	my $console = ask('GET', '/console/', headers => { 'Accept-Encoding' => 'identity' })->{status};
	for my $method (qw(GET HEAD OPTIONS DELETE PUT PATCH POST TRACE FROB))
	{
		my $read = $method =~ /GET|HEAD/;
		# what is no method of HTTP is not looked at any further
		my $status = sub { my ($read_gets, $post_gets, $others_get) = @_;
			return $method eq 'FROB' ? 400 : $read ? $read_gets : $method eq 'POST' ? $post_gets : $others_get };
		holds("$method of nothing", api_port(), "$method /none HTTP/1.1", $status->(404, 404, 404));
		holds("$method of what is there", api_port(), "$method /healthz HTTP/1.1", $status->(200, 405, 405));
		holds("$method without a token", api_port(), "$method /v1/tasks HTTP/1.1", $status->(401, 401, 405));
		holds("$method with one", api_port(), "$method /v1/tasks HTTP/1.1\r\n${auth}Content-Type: application/json",
			$status->(200, 400, 405));
		holds("$method with a type that is none", api_port(),
			"$method /v1/tasks HTTP/1.1\r\n${auth}Content-Type: text/plain", $status->(200, 415, 405));
		holds("$method of a file without a form", api_port(),
			"$method /api/bulks HTTP/1.1\r\n${auth}Content-Type: text/plain", $status->(404, 415, 405));
		holds("$method of an address that is none", api_port(), "$method /v1/%zz HTTP/1.1", 400);
		holds("$method with an unknown parameter", api_port(), "$method /v1/tasks?frob=1 HTTP/1.1\r\n$auth" . 'X: y',
			$status->(400, 400, 405));
		holds("$method of the console", api_port(), "$method /console/ HTTP/1.1", $status->($console, 404, 404));
		# a body, and a method that it has no page for, are answered by the HTTP library, whose versions differ
		holds("$method of the metrics", $metrics, "$method /metrics HTTP/1.1", $read ? '(?:200|413)' : '4(00|04|13)');
		holds("$method of no metrics", $metrics, "$method /none HTTP/1.1", $read ? '4(?:04|13)' : '4(00|04|13)');
	}
	my $tag = ask('GET', '/v1/machines/pawl_dag.task/diagram', token => $operator)->{headers}{etag};
	holds('what has not changed', api_port(),
		"GET /v1/machines/pawl_dag.task/diagram HTTP/1.1\r\n${auth}If-None-Match: $tag", 304);
	my $long = talk(api_port(), "POST /v1/tasks HTTP/1.1\r\nHost: x\r\n${auth}Content-Type: application/json\r\n"
		. counted(' ' x 1_100_000 . $smuggled) . $next);
	is(statuses($long), 413, 'a body that is too long ends the connection');
	my $none = talk(api_port(), "POST /v1/tasks HTTP/1.1\r\nHost: x\r\n${auth}\r\n$next");
	is(statuses($none), '400 200', 'a POST that gives no length has no body') or diag($none);
};

subtest 'a head has one meaning' => sub {
	my $body = "5\r\nhello\r\n0\r\n\r\n";
	my %heads = (
		'a blank before the colon of the length' => "Host: x\r\nContent-Length : 5\r\n",
		'a tab before it' => "Host: x\r\nContent-Length\t: 5\r\n",
		'a blank before the colon of the encoding' => "Host: x\r\nTransfer-Encoding : chunked\r\n",
		'two lengths' => "Host: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
		'the same length twice' => "Host: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
		'a list of lengths' => "Host: x\r\nContent-Length: 5, 5\r\n",
		'a signed length' => "Host: x\r\nContent-Length: +5\r\n",
		'a negative length' => "Host: x\r\nContent-Length: -5\r\n",
		'a hexadecimal length' => "Host: x\r\nContent-Length: 0x5\r\n",
		'a length with a blank' => "Host: x\r\nContent-Length: 5 0\r\n",
		'an empty length' => "Host: x\r\nContent-Length:\r\n",
		'an immense length' => "Host: x\r\nContent-Length: 99999999999999999999\r\n",
		'a length and an encoding' => "Host: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		'an encoding and a length' => "Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
		'two encodings' => "Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		'chunks of another encoding' => "Host: x\r\nTransfer-Encoding: gzip, chunked\r\n",
		'chunks twice' => "Host: x\r\nTransfer-Encoding: chunked, chunked\r\n",
		'an encoding and none' => "Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
		'an unknown encoding' => "Host: x\r\nTransfer-Encoding: xchunked\r\n",
		'an encoding in quotes' => "Host: x\r\nTransfer-Encoding: \"chunked\"\r\n",
		'an encoding in percents' => "Host: x\r\nTransfer-Encoding: %63hunked\r\n",
		'an encoding with a control character' => "Host: x\r\nTransfer-Encoding: \x0bchunked\r\n",
		'a folded header' => "Host: x\r\nTransfer-Encoding:\r\n chunked\r\n",
		'a folded first header' => " Host: x\r\nContent-Length: 5\r\n",
		'a bare line feed' => "Host: x\r\nX: y\nContent-Length: 5\r\n",
		'a bare carriage return' => "Host: x\r\nX: y\rContent-Length: 5\r\n",
		'a zero byte' => "Host: x\r\nX: y\0z\r\n",
		'a header without a name' => "Host: x\r\n: 5\r\n",
		'a header without a colon' => "Host: x\r\nContent-Length 5\r\n",
		'two hosts' => "Host: x\r\nHost: y\r\n",
		'no host' => "Accept: */*\r\n",
	);
	for my $name (sort keys %heads)
	{
		for my $line ('POST /v1/tasks HTTP/1.1', 'GET /healthz HTTP/1.1')
		{
			my $said = talk(api_port(), "$line\r\n$auth$heads{$name}\r\n$body$smuggled$next");
			ok(statuses($said) eq '400' && $said =~ /^Connection: close\r$/m, "$name, $line") or diag($said);
		}
	}
	for my $line ('GET  /healthz HTTP/1.1', 'GET /healthz  HTTP/1.1', 'GET /healthz HTTP/1.1 ',
		"GET\t/healthz HTTP/1.1", 'GET /healthz', 'GET /a b HTTP/1.1',
		'GET /healthz HTTP/1.2', 'GET /healthz HTTP/2.0', 'G(T /healthz HTTP/1.1', 'GET /healthz http/1.1',
		"GET /healthz\nX: HTTP/1.1", "GET /health\x01z HTTP/1.1")
	{
		my $said = talk(api_port(), "$line\r\nHost: x\r\n\r\n$next");
		ok(statuses($said) eq '400' && $said =~ /^Connection: close\r$/m, 'the line ' . $line =~ s/[^ -~]/?/gr)
			or diag($said);
	}
	is(statuses(talk(api_port(), "POST /v1/tasks HTTP/1.0\r\nHost: x\r\n${auth}Transfer-Encoding: "
		. "chunked\r\n\r\n$body$next")), '400', 'HTTP/1.0 has no chunks');
};

subtest 'connections that stay' => sub {
	my $order = '{"name":"order"}';
	my $said = talk(api_port(), "GET /v1/tasks HTTP/1.1\r\nHost: x\r\n$auth\r\nPOST /v1/tasks HTTP/1.1\r\nHost: "
		. "x\r\n${auth}Content-Type: application/json\r\n" . counted($order) . $next);
	is(statuses($said), '200 201 200', 'requests that come together are answered one by one') or diag($said);
	like($said, qr/^Keep-Alive: timeout=30, max=10000\r$/m, 'and the answer says what the documentation says');
};

subtest 'behind nginx' => sub {
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	mkdir "$folder/tmp";
	append_to_file("$folder/nginx.conf", <<"CONF");
daemon off; master_process off; worker_processes 1; pid $folder/pid; error_log $folder/error.log;
events { worker_connections 64; }
http {
    access_log off; client_body_temp_path $folder/tmp; proxy_temp_path $folder/tmp;
    fastcgi_temp_path $folder/tmp; uwsgi_temp_path $folder/tmp; scgi_temp_path $folder/tmp;
    upstream pawld { server 127.0.0.1:@{[ api_port() ]}; keepalive 1; }
    server { listen 127.0.0.1:$port;
        location / {
            proxy_pass http://pawld; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_request_buffering off;
        }
    }
}
CONF
	local $ENV{PATH} = "$ENV{PATH}:/usr/sbin";
	my ($out, $err) = ('', '');
	my $nginx = IPC::Run::start([ 'nginx', '-p', $folder, '-e', "$folder/error.log", '-c', "$folder/nginx.conf" ], '<',
		\'', '>', \$out, '2>', \$err,
		IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
	wait_until(sub { (http_get($port, '/healthz'))[0] == 200 }, 'nginx');
	my $victim = "GET /v1/session HTTP/1.1\r\nHost: x\r\n${auth}Connection: close\r\n\r\n";
	my $cancel = "POST /v1/tasks/$task/cancel HTTP/1.1\r\nHost: x\r\nX-Rest: ";
	my $state = one($node, "select state from pawl_dag.tasks where task_uuid = '$task'");
	is($state, 'steps_in_process', 'a task that can be cancelled');
	my ($own, $rounds) = (0, 0);
	for my $line ('GET /none', 'GET /healthz', 'HEAD /none', 'OPTIONS /none', 'GET /v1/tasks', 'POST /none',
		'POST /v1/tasks', 'DELETE /v1/tasks', 'PUT /none', 'GET /console/')
	{
		for my $write (\&counted, \&chunked)
		{
			++$rounds;
			talk($port, "$line HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" . $write->($cancel));
			my $said = talk($port, $victim);
			$own += statuses($said) eq '200' && $said =~ /"person": ?"otto"/ ? 1 : 0;
		}
	}
	is($own, $rounds, 'the next client gets its own answer');
	is(one($node, "select state from pawl_dag.tasks where task_uuid = '$task'"), $state, 'and cancels nothing');
	$nginx->kill_kill;
};

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
