# Guessing of tokens, floods of connections, and invalid arguments: a client that guesses is slowed and locks out no
# other client, threads end after a flood, no argument gives 500.
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('logins', qw(pawl_dag pawl_bulk pawl_saga));
my %token = map { $_ => make_token($node, 'pawl_operator', $_, '{read,operate}') } qw(anna bert carl dora emil);
my $api = begin_api($node, '--sql-workers', '0', '--api-proxies', '127.0.0.0/8,10.1.0.0/16');

sub session
{
	my ($token, @proxies) = @_;
	return ask('GET', '/v1/session', token => $token, headers => @proxies ? { 'X-Forwarded-For' => join ', ', @proxies }
		: {})->{status}
}

subtest 'guessing' => sub {
	is(session("pawl_$_" . 'x' x 30), 401, 'a wrong token') for 1 .. 10;
	is(session('pawl_z' . 'x' x 30), 429, 'the eleventh is too many');
	is(session($token{anna}), 200, 'a token that was never seen is good all the same');
	is(session($token{anna}), 200, 'and stays so');
	my $prefix = substr $token{bert}, 0, 13;
	session($prefix . $_) for 1 .. 10;
	is(session($token{bert}), 429, 'a token whose rest is guessed waits at that address');
	is(session($token{bert}, '192.0.2.1'), 200, 'and is good at another one');
	is(session($token{bert}), 200, 'and, being known, at the first');
	is(session($token{carl}), 200, 'other tokens are good there');
};

subtest 'behind proxies' => sub {
	session("pawl_f$_" . 'y' x 30, '192.0.2.7', '10.1.2.3') for 1 .. 10;
	is(session('pawl_fz' . 'y' x 30, '192.0.2.7', '10.1.2.3'), 429, 'the client before the known proxies is counted');
	is(session('pawl_fz' . 'z' x 30, '192.0.2.8', '10.1.2.3'), 401, 'and not its neighbour');
	is(session('pawl_fz' . 'z' x 30, '192.0.2.8', '192.0.2.7'), 429, 'what a client claims does not count');
	is(session('pawl_gz' . 'z' x 30, '2001:db8::7:1'), 401, 'IPv6');
	session("pawl_g$_" . 'z' x 30, "2001:db8::$_") for 1 .. 9;
	is(session('pawl_gx' . 'z' x 30, '2001:db8:0:0:ffff::1'), 429, 'is counted by networks of 64 bits');
	is(session($token{dora}, '2001:db8::1'), 200, 'where a good token is good, too');
	cmp_ok(scalar(() = $api->{run}{err} =~ /login failed/g), '<', 60, 'the log is not flooded');
};

sub threads { my ($count) = slurp_status() =~ /^Threads:\s+(\d+)/m; return $count }
sub slurp_status { open my $file, '<', "/proc/$api->{run}{pid}/status" or die $!; local $/; return <$file> }

subtest 'a flood' => sub {
	my @flood = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port(), Timeout => 10) } 1 .. 300;
	wait_until(sub { threads() >= 300 }, 'a thread for each connection');
	close $_ for @flood;
	wait_until(sub { threads() < 60 }, 'the threads to end');
	is(ask('GET', '/healthz')->{status}, 200, 'and requests are answered');
};

subtest 'arguments' => sub {
	my $document = ask('GET', '/openapi.json')->{json};
	my @garbage = ('a.b.c.d', '.', '..;', '"', q{'}, ' ', 'pg_class', 'pg_class_oid_index', 'x' x 300, '-1',
		'99999999999999999999', '{}', '{{', '[[', 'NaN', '%25', "\xc3\xa9", '1e400', 'infinity', '"a', 'a"b.c',
		'00000000-0000-0000-0000-000000000000',
		'2024-13-45', "a\tb", '0', 'pg_catalog.pg_authid', '$1', 'null', '(select 1)', '8000-01-01 BC');
	# A third of it for each parameter, each time another one; all of it in a full run.
	my $turn = 0;
	my $of = sub { my $n = ++$turn; return $ENV{PAWL_FULL} ? @_ : @_[ grep { ($_ + $n) % 3 == 0 } keys @_ ] };
	my (@wrong, $asked);
	my $encoded = sub {
		my ($text) = @_;
		return $text eq '..;' || $text eq '.' ? $text : $text =~ s/([^A-Za-z0-9_-])/sprintf '%%%02X', ord $1/ger
	};
	my $try = sub {
		my ($method, $path, %how) = @_;
		my $got = ask($method, $path, token => $token{emil}, %how);
		++$asked;
		push @wrong, "$method $path " . ($how{body} ? encode_json($how{body}) : '') . ": $got->{status} $got->{content}"
			if $got->{status} == 500 || $got->{status} == 599;
	};
	for my $path (sort keys $document->{paths}->%*)
	{
		for my $method (grep { /^(get|post)$/ } sort keys $document->{paths}{$path}->%*)
		{
			my $route = $document->{paths}{$path}{$method};
			next if $route->{operationId} =~ /events|openapi|healthz|readyz/;
			my @parameters = map { $_->{'$ref'} ? $document->{components}{parameters}{ $_->{'$ref'} =~ s{.*/}{}r }
				: $_ } ($route->{parameters} // [])->@*;
			my @query = map { $_->{name} } grep { $_->{in} eq 'query' && $_->{name} ne 'ticket' } @parameters;
			my @asked = $method eq 'get' ? @garbage : @garbage[ 0 .. 7 ];
			if ($path =~ /\{/)
			{
				$try->(uc $method, $path =~ s/\{\w+\}/$encoded->($_)/ger, $method eq 'post' ? (body => {}) : ())
					for $of->(@asked)
			}
			for my $name ($method eq 'get' ? @query : ())
			{
				my $good = $path =~ s/\{\w+\}/1/gr;
				my $others = join '', map { "&$_=" . ($_ eq 'relation' ? 'pawl_dag.tasks' : 1) }
					grep { $_ ne $name && /^(relation|key)$/ } @query;
				$try->('GET', "$good?$name=" . $encoded->($_) . $others) for $of->(@garbage);
			}
			next unless $method eq 'post' && $route->{requestBody}{content}{'application/json'};
			my $schema = $route->{requestBody}{content}{'application/json'}{schema};
			$schema = $document->{components}{schemas}{ $schema->{'$ref'} =~ s{.*/}{}r } if $schema->{'$ref'};
			my @names = sort keys %{ $schema->{properties} // {} };
			my $plain = $path =~ s/\{\w+\}/00000000-0000-0000-0000-000000000000/gr;
			$try->('POST', $plain, body => $_) for [], 1, 'x', {}, undef, [ [] ], { map { $_ => undef } @names };
			for my $value (
				$of->(1, -1, 1e300, 'a.b.c.d', '"', '', [], {}, [ {} ], { a => [] }, JSON::PP::true, 'x' x 300))
			{
				$try->('POST', $plain, body => { map { $_ => $value } @names });
				$try->('POST', $plain,
						body => { relation => 'pawl_dag.tasks', key => 1, event => 'cancel', $_ => $value }) for @names;
			}
		}
	}
	is(join("\n", @wrong), '', 'none is answered with 500');
	cmp_ok($asked, '>', 1000, 'of many');
	is(ask('GET', '/v1/history?relation=a.b.c.d&key=1', token => $token{emil})->{status}, 400,
		'a relation that is malformed is 400');
};

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
