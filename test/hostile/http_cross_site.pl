# Requests that another site makes a browser send: with a client's certificate, which a browser sends for every site,
# nothing acts that a form or a script of another origin can send; nor is anything
# answered under a host that is none of ours.
use strict;
use warnings;
use IPC::Run;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = api_cluster('sites', qw(pawl_dag pawl_bulk));
define_template($node,
	'{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "pack", "handler": "shop.pack"}]}');
my $token = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $folder = PostgreSQL::Test::Utils::tempdir;
my @key = qw(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes);

sub openssl
{
	my (@arguments) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'openssl', @arguments ], '>', \$out, '2>', \$err) or die "openssl @arguments: $err";
	return $out
}

openssl('req', '-x509', @key, '-days', 1, '-subj', '/CN=authority', '-keyout', "$folder/authority.key", '-out',
	"$folder/authority.pem");
append_to_file("$folder/names", "subjectAltName = IP:127.0.0.1\n");
for my $name (qw(server robot))
{
	openssl('req', @key, '-subj', "/CN=$name", '-keyout', "$folder/$name.key", '-out', "$folder/$name.csr");
	openssl('x509', '-req', '-in', "$folder/$name.csr", '-CA', "$folder/authority.pem", '-CAkey',
		"$folder/authority.key", '-CAcreateserial', '-days', 1, '-out', "$folder/$name.pem",
		$name eq 'server' ? ('-extfile', "$folder/names") : ());
}
my ($print) = openssl('x509', '-noout', '-fingerprint', '-sha256', '-in', "$folder/robot.pem") =~ /=(\S+)/;
$node->safe_psql('postgres',
	"select pawl_api.accept_certificate('$print', 'pawl_operator', 'robot', '{read,operate}')");

my ($run, $port);
sub begin
{
	my (@more) = @_;
	$run = begin_program($node, 'pawld', '--api', '127.0.0.1:0', '--api-database', 'user=pawl_authenticator',
		'--sql-workers', '0', '--api-certificate', "$folder/server.pem", '--api-key',
		"$folder/server.key", '--api-client-ca', "$folder/authority.pem", @more);
	wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /serving the API port=(\d+)/ ? ($port = $1) : 0 },
		'the API: ' . $run->{err});
	return;
}

# The status of a request with the certificate, unless it has a token.
sub status_of
{
	my ($path, @more) = @_;
	my @shown = "@more" =~ /Bearer/ ? () : ('--cert', "$folder/robot.pem", '--key', "$folder/robot.key");
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'curl', '-sS', '--cacert', "$folder/authority.pem", @shown, @more, '-o', '/dev/null', '-w',
		'%{http_code}', "https://127.0.0.1:$port$path" ], '>', \$out, '2>', \$err);
	return $out;
}

sub tasks { return one($node, 'select count(*) from pawl_dag.tasks') }

my $order = '{"name": "order"}';
my @json = ('-H', 'Content-Type: application/json', '-d', $order);
begin();
my $own = "https://127.0.0.1:$port";
my %foreign = (
	'a form' => [ '-d', $order ],
	'a form of text' => [ '-H', 'Content-Type: text/plain', '-d', $order ],
	'a form of several parts' => [ '-F', "x=$order" ],
	'nothing at all' => [ '-X', 'POST', '-H', 'Content-Type:', '-d', '' ],
	'a type that only begins so' => [ '-H', 'Content-Type: application/jsonp', '-d', $order ],
	'JSON from another origin' => [ '-H', 'Origin: https://evil.example', @json ],
	'JSON from another port' => [ '-H', 'Origin: https://127.0.0.1:1', @json ],
	'JSON from no origin' => [ '-H', 'Origin: null', @json ],
	'JSON from an origin that begins so' => [ '-H', "Origin: $own.evil.example", @json ],
	'JSON from another site' => [ '-H', 'Sec-Fetch-Site: cross-site', @json ],
	'JSON from a neighbour' => [ '-H', 'Sec-Fetch-Site: same-site', @json ],
	'JSON from another site that claims to be this origin' => [ '-H', 'Sec-Fetch-Site: cross-site', '-H',
		"Origin: $own", @json ],
);
for my $name (sort keys %foreign)
{
	is(status_of('/v1/tasks', $foreign{$name}->@*), $name =~ /^JSON/ ? 403 : 415, $name);
}
is(tasks(), 0, 'nothing has happened');
my @file = ('-F', 'operationName=devices', '-F', 'file=a;filename=a.csv');
is(status_of('/api/bulks', '-H', 'Sec-Fetch-Site: cross-site', @file), 403, 'a file from another site');
is(status_of('/api/bulks', '-H', 'Origin: https://evil.example', @file), 403, 'a file from another origin');
is(status_of('/api/bulks', @file), 404, 'a file from a program is accepted, and its operation is unknown');
is(status_of('/v1/tasks', @json), 201, 'a program acts');
is(status_of('/v1/tasks', '-H', "Origin: $own", @json), 201, 'this origin acts');
is(status_of('/v1/tasks', '-H', "Origin: $own", '-H', 'Sec-Fetch-Site: same-origin', @json), 201, 'this site acts');
is(status_of('/v1/tasks', '-H', "Authorization: Bearer $token", '-d', $order), 415, 'a token makes no form JSON');
is(status_of('/v1/tasks', '-H', "Authorization: Bearer $token", @json), 201, 'and acts with JSON');
is(status_of('/v1/tasks', '-H', 'Host: evil.example'), 200, 'any host is served where none is configured');
is(tasks(), 4, 'four tasks');
is(end_program($run, 'TERM'), 0, 'the daemon ends');

begin('--api-hosts', 'pawl.example,127.0.0.1');
is(status_of('/v1/tasks', '-H', "Host: $_"), 200, "host $_ is served")
	for 'pawl.example', 'PAWL.example', "pawl.example:$port", '127.0.0.1';
is(status_of('/v1/tasks', '-H', "Host: $_"), 421, "host $_ is not")
	for 'evil.example', 'pawl.example.evil.example', 'evil.example:443';
is(status_of('/console/', '-H', 'Host: evil.example', '--compressed'), 421, 'nor is the console there');
is(status_of('/healthz', '-H', 'Host: 10.0.0.1'), 200, 'health checks may use an address as the host');
is(status_of('/v1/tasks', '-H', 'Origin: https://pawl.example', @json), 201,
	'a proxy may have another host than the browser');
is(end_program($run, 'TERM'), 0, 'the daemon ends again');
no_crash($node);
done_testing();
