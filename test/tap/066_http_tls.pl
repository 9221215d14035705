# TLS: a certificate of our own authority, clients that show a certificate instead of a
# token, and clients that show a wrong one.
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use IPC::Run;
use JSON::PP;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = api_cluster('tls', qw(pawl_dag));
define_template($node,
	'{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "pack", "handler": "shop.pack"}]}');
my $folder = PostgreSQL::Test::Utils::tempdir;
my @key = qw(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes);

sub output_of
{
	my (@command) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run(\@command, '>', \$out, '2>', \$err) or die "@command: $err";
	return $out
}
sub openssl { return output_of('openssl', @_) }
sub authority
{
	my ($name) = @_;
	openssl('req', '-x509', @key, '-days', 1, '-subj', "/CN=$name", '-keyout', "$folder/$name.key", '-out',
		"$folder/$name.pem");
	return
}

# A certificate that an authority has signed; with negative $days one that ended some days ago.
sub certificate
{
	my ($name, $by, $days, @more) = @_;
	openssl('req', @key, '-subj', "/CN=$name", '-keyout', "$folder/$name.key", '-out', "$folder/$name.csr");
	# openssl makes none that has ended
	my @then = $days < 0 ? ('faketime', '-f', ($days - 1) . 'd') : ();
	output_of(@then, 'openssl', 'x509', '-req', '-in', "$folder/$name.csr", '-CA', "$folder/$by.pem", '-CAkey',
		"$folder/$by.key", '-CAcreateserial', '-days', abs $days, '-out', "$folder/$name.pem", @more);
	return;
}

sub fingerprint
{
	my ($name) = @_;
	return openssl('x509', '-noout', '-fingerprint', '-sha256', '-in', "$folder/$name.pem") =~ /=(\S+)/ ? $1 : die }

sub accept_cert
{
	my ($name, $role, $scopes, $more) = @_;
	return $node->safe_psql('postgres', sprintf(q{select pawl_api.accept_certificate('%s', '%s', '%s', '%s'%s)},
			fingerprint($name), $role, $name, $scopes, $more // ''));
}

authority($_) for qw(ours clients strangers);
append_to_file("$folder/names", "subjectAltName = IP:127.0.0.1\n");
certificate('server', 'ours', 1, '-extfile', "$folder/names");
certificate($_, 'clients', 1) for qw(robot watcher unknown late);
certificate('expired', 'clients', -1);
certificate('foreign', 'strangers', 1);
my $robot = accept_cert('robot', 'pawl_operator', '{read,operate}');
accept_cert('watcher', 'pawl_reader', '{read}');
accept_cert('late', 'pawl_reader', '{read}', q{, '-1 second'});
accept_cert($_, 'pawl_operator', '{read,operate}') for qw(expired foreign);

my $run = begin_program($node, 'pawld', '--api', '127.0.0.1:0', '--api-database', 'user=pawl_authenticator',
	'--sql-workers', '0',
	'--api-certificate', "$folder/server.pem", '--api-key', "$folder/server.key", '--api-client-ca',
	"$folder/clients.pem");
my $port;
wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /serving the API port=(\d+)/ ? ($port = $1) : 0 },
	'the API: ' . $run->{err});

# Asks with curl. shows: whose certificate. Gives the status, 0 where there was none, and the body.
sub https
{
	my ($path, %how) = @_;
	my @shown = $how{shows} ? ('--cert', "$folder/$how{shows}.pem", '--key', "$folder/$how{shows}.key") : ();
	my @token = $how{token} ? ('-H', "Authorization: Bearer $how{token}") : ();
	my @body = $how{body} ? ('-H', 'Content-Type: application/json', '-d', encode_json($how{body})) : ();
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'curl', '-sS', '--cacert', "$folder/" . ($how{trusts} // 'ours') . '.pem', @shown, @token, @body,
		@{ $how{more} // [] }, '-w', '\n%{http_code}', "https://127.0.0.1:$port$path" ], '>', \$out, '2>', \$err);
	my ($body, $status) = $out =~ /^(.*)\n(\d+)$/s;
	return { status => $status + 0, body => $body, json => scalar(eval { decode_json($body) }), err => $err };
}

is(https('/healthz')->{status}, 200, 'a client that trusts the authority is answered');
is(https('/healthz', trusts => 'strangers')->{status}, 0, 'a client that does not trust it ends the connection');
is(https('/healthz', more => [ '--tls-max', '1.1', '--ciphers', 'ALL:@SECLEVEL=0' ])->{status}, 0,
	'TLS 1.1 is too old');
is(https('/healthz', more => [ '--tls-max', '1.2' ])->{status}, 200, 'TLS 1.2 is not');
like(https('/healthz', more => ['-i'])->{body}, qr/^strict-transport-security: max-age=31536000/im,
	'browsers get the header to stay with TLS');
like(https('/healthz', more => ['-v'])->{err}, qr/SSL connection using TLSv1\.3/, 'TLS 1.3 is what is spoken');

subtest 'client certificates' => sub {
	is(https('/v1/tasks')->{status}, 401, 'none: a token is needed');
	my $reader = make_token($node, 'pawl_reader', 'rita', '{read}');
	is(https('/v1/tasks', token => $reader)->{status}, 200, 'which goes as well');
	my $session = https('/v1/session', shows => 'robot');
	is("$session->{json}{role} $session->{json}{person}", 'pawl_operator robot', 'the right one is its role and person')
		or diag($session->{body}, $session->{err});
	my $made = https('/v1/tasks', shows => 'robot', body => { name => 'order' });
	is($made->{status}, 201, 'a client with a certificate can operate (201)');
	is(one($node, "select processor || ' ' || actor from pawl_dag.task_transitions where task_uuid = "
		. "'$made->{json}{task_uuid}' and sort_key = 1"), 'robot pawl_operator', 'the log names it');
	is(https('/v1/tasks', shows => 'watcher')->{status}, 200, 'a reader\'s reads');
	is(https('/v1/tasks', shows => 'watcher', body => { name => 'order' })->{json}{sqlstate}, '42501',
		'and does not operate');
	my $unknown = https('/v1/tasks', shows => 'unknown');
	is("$unknown->{status} $unknown->{json}{sqlstate}", '401 28000',
		'a certificate that was not accepted identifies no role');
	is(https('/v1/tasks', shows => 'late')->{status}, 401, 'nor is one that was accepted for a time that is over');
	is(https('/v1/tasks', shows => 'unknown', token => $reader)->{status}, 200, 'beside a token it does not matter');
	is(https('/v1/tasks', shows => 'robot', token => 'pawl_wrong')->{status}, 401,
		'a wrong token is not mended by a right certificate');
	is(https('/healthz', shows => 'expired')->{status}, 0, 'an expired one is rejected by TLS, accepted or not');
	is(https('/healthz', shows => 'foreign')->{status}, 0, 'and so is one of another authority');
	$node->safe_psql('postgres', "select pawl_api.revoke_token('$robot')");
	is(https('/v1/tasks', shows => 'robot')->{status}, 401,
		'one that was revoked identifies no role from the next request on');
};

subtest 'no TLS' => sub {
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10) or die $!;
	print $socket "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
	my $answer = do { local $/; <$socket> } // '';
	unlike($answer, qr/^HTTP/, 'plain HTTP is not answered');
	is(https('/healthz')->{status}, 200, 'and other requests are answered');
};

# A client that resumes its session, if it is offered one: whether it was answered and resumed, each time.
sub resumed
{
	my ($version) = @_;
	return output_of('python3', '-c', <<'PYTHON', "$folder/ours.pem", $port, $version);
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
context.minimum_version = context.maximum_version = ssl.TLSVersion[sys.argv[3]]
session = None
for _ in range(3):
    with context.wrap_socket(socket.create_connection(('127.0.0.1', int(sys.argv[2]))), server_hostname='127.0.0.1',
            session=session) as client:
        client.sendall(b'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
        print(client.recv(12).decode(), client.session_reused)
        session = client.session
PYTHON
}
is(resumed($_), "HTTP/1.1 200 False\n" x 3, "$_: with client certificates each connection is a session of its own")
	for 'TLSv1_2', 'TLSv1_3';

# The fingerprint of the certificate that the server shows.
sub shown
{
	my ($certificate, $err) = ('', '');
	IPC::Run::run([ 'openssl', 's_client', '-connect', "127.0.0.1:$port" ], '<', \'', '>', \$certificate, '2>', \$err);
	PostgreSQL::Test::Utils::append_to_file("$folder/shown.pem", $certificate);
	my $print = fingerprint('shown');
	unlink "$folder/shown.pem";
	return $print;
}

# Tells pawld to read its files again; what it logs then.
sub reloaded
{
	my ($what) = @_;
	my $before = length $run->{err};
	kill 'HUP', $run->{pid};
	wait_until(sub { $run->{harness}->pump_nb; substr($run->{err}, $before) =~ $what }, "the log of SIGHUP: $what");
	return;
}
subtest 'certificates are read again' => sub {
	my $first = fingerprint('server');
	like($run->{err}, qr/the certificate of the API expires soon/, 'a certificate for a day is worth a warning');
	certificate('server', 'ours', 30, '-extfile', "$folder/names");
	is(shown(), $first, 'until SIGHUP the earlier certificate is shown');
	reloaded(qr/certificate read again/);
	is(shown(), fingerprint('server'), 'after it the new one');
	is(https('/healthz')->{status}, 200, 'requests are answered');
	my $good = fingerprint('server');
	rename "$folder/server.pem", "$folder/kept.pem" or die $!;
	PostgreSQL::Test::Utils::append_to_file("$folder/server.pem", "no certificate\n");
	reloaded(qr/certificate not read again, the earlier one stays.*server\.pem/);
	is(shown(), $good, 'if the files cannot be used the earlier certificate stays');
	certificate('server', 'ours', -1, '-extfile', "$folder/names");
	reloaded(qr/the certificate of the API has expired/);
	rename "$folder/kept.pem", "$folder/server.pem" or die $!;
};

is(end_program($run, 'TERM'), 0, 'the daemon ends');
my $without = begin_program($node, 'pawld', '--api', '127.0.0.1:0', '--api-certificate', "$folder/server.pem",
	'--api-key', "$folder/robot.key");
is(end_program($without), 1, 'a key of another certificate is rejected at the start');
like($without->{err}, qr/key/, 'the error names the missing key');

# Half of the settings is not plain HTTP, and --check looks at the files.
my ($certificate, $key, $authority) = map { "$folder/$_" } qw(server.pem server.key clients.pem);
certificate('server', 'ours', 1, '-extfile', "$folder/names");
append_to_file("$folder/open.key", slurp_file($key));
for my $case ([ qr/api_certificate needs api_key/, '--api-certificate', $certificate ],
	[ qr/api_key needs api_certificate/, '--api-key', $key ],
	[ qr/api_client_ca needs api_certificate and api_key/, '--api-client-ca', $authority ],
	[ qr/cannot use certificate.*missing/, '--api-certificate', "$folder/missing", '--api-key', $key ],
	[ qr/cannot use key.*missing/, '--api-certificate', $certificate, '--api-key', "$folder/missing" ],
	[ qr/cannot use key.*robot/, '--api-certificate', $certificate, '--api-key', "$folder/robot.key" ],
	[ qr/cannot use authority.*missing/, '--api-certificate', $certificate, '--api-key', $key, '--api-client-ca',
		"$folder/missing" ],
	map { [ qr/cannot use key.*group or others have access/, $_, '--api-certificate', $certificate, '--api-key',
		"$folder/open.key" ] } 0666, 0640, 0602)
{
	my ($said, @flags) = @$case;
	chmod shift @flags, "$folder/open.key" if $flags[0] =~ /^\d/;
	my $checked = begin_program($node, 'pawld', '--check', '--api', '127.0.0.1:0', @flags);
	is(end_program($checked), 2, "--check rejects: $said");
	like($checked->{err}, $said, 'with the reason');
}
my $checked = begin_program($node, 'pawld', '--check', '--api', '127.0.0.1:0', '--api-certificate', $certificate,
	'--api-key', $key, '--api-client-ca', $authority);
is(end_program($checked), 0, 'files that fit pass --check') or diag($checked->{err});
no_crash($node);
done_testing();
