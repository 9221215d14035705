# What the tests of the HTTP API share: a cluster whose daemon logs in as the authenticator, tokens, questions.
package PawlApi;

use strict;
use warnings;
use Exporter 'import';
use HTTP::Tiny;
use JSON::PP;
use PawlPrograms;
use PawlTest;
use Test::More;

our @EXPORT = qw(api_cluster make_token begin_api ask api_port);

my ($port, $http);

# A cluster with the packs, whose authenticator may log in and become what tokens are of.
sub api_cluster
{
	my ($name, @packs) = @_;
	my $node = new_cluster($name, with => [ @packs, 'pawl_api' ]);
	$node->safe_psql('postgres',
		'alter role pawl_authenticator login; grant pawl_reader, pawl_operator, pawl_admin to pawl_authenticator');
	return $node;
}

sub make_token
{
	my ($node, $role, $person, $scopes) = @_;
	return $node->safe_psql('postgres', "select pawl_api.create_token('$role', '$person', '$scopes')");
}

# pawld with the API on a free port, logging in as the authenticator.
sub begin_api
{
	my ($node, @more) = @_;
	my $run = begin_program($node, 'pawld', '--api', '127.0.0.1:0', '--api-database', 'user=pawl_authenticator', @more);
	wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /serving the API port=(\d+)/ ? ($port = $1) : 0 },
		'the API: ' . $run->{err});
	$http = HTTP::Tiny->new(keep_alive => 0, timeout => 60);
	wait_until(sub { ask('GET', '/readyz')->{status} == 200 }, 'the daemon to be ready');
	return { run => $run, port => $port };
}

sub api_port { return $port }

# method, path, then token, body (sent as JSON), headers, content (sent as it is). Gives
# status, content, json, type, headers.
sub ask
{
	my ($method, $path, %how) = @_;
	my %headers = %{ $how{headers} // {} };
	$headers{Authorization} = "Bearer $how{token}" if $how{token};
	my %options = (headers => \%headers);
	if (exists $how{body})
	{
		$headers{'Content-Type'} //= 'application/json';
		$options{content} = JSON::PP->new->utf8->allow_nonref->encode($how{body});
	}
	$options{content} = $how{content} if exists $how{content};
	my $got = $http->request($method, "http://127.0.0.1:$port$path", \%options);
	my $type = $got->{headers}{'content-type'} // '';
	my $json = $type =~ /json/ ? eval { JSON::PP->new->utf8->allow_nonref->decode($got->{content}) } : undef;
	return { status => $got->{status}, content => $got->{content}, json => $json, type => $type,
		headers => $got->{headers} };
}

1;
