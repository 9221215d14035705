# What the tests of poolers share: pgbouncer before a node, on a socket of its own, which only this user reaches.
package Pooler;

use strict;
use warnings;
use IPC::Run;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

# node, mode (transaction or session), size: sessions of the server for each role, roles: which may log in (all, and
# become the one that runs the test, where none are named), settings: more lines. Ends with the test.
sub new
{
	my ($class, $node, %how) = @_;
	my ($bouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
	BAIL_OUT('pgbouncer is not there; `make deps` installs it') unless $bouncer;
	my ($folder, $port) = (PostgreSQL::Test::Utils::tempdir_short(), $node->port);
	my $user = $how{roles} ? '' : 'user=' . one($node, 'select current_user');
	my $auth = $how{roles} ? "auth_type = trust\nauth_file = $folder/roles" : 'auth_type = any';
	append_to_file("$folder/roles", join('', map { qq("$_" ""\n) } @{ $how{roles} // [] }));
	append_to_file("$folder/pgbouncer.ini", <<"INI");
[databases]
postgres = host=@{[$node->host]} port=$port dbname=postgres $user
[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = $folder
$auth
pool_mode = $how{mode}
default_pool_size = $how{size}
max_client_conn = 50
ignore_startup_parameters = extra_float_digits
@{[ $how{settings} // '' ]}
pidfile = $folder/pid
logfile = $folder/log
INI
	my $self = bless { folder => $folder, port => $port, said => '', program => $bouncer }, $class;
	$self->begin;
	return $self;
}

# Again, after end.
sub begin
{
	my ($self) = @_;
	my ($folder, $port) = @$self{qw(folder port)};
	$self->{run} = IPC::Run::start([ $self->{program}, '-q', "$folder/pgbouncer.ini" ], '<', '/dev/null', '>',
		\$self->{said}, '2>', \$self->{said});
	wait_until(sub { -S "$folder/.s.PGSQL.$port" }, "pgbouncer: $self->{said}");
	return;
}

sub folder { return $_[0]{folder} }
sub port { return $_[0]{port} }

# Where PawlPrograms looks for the server.
sub through { return [ $_[0]{folder}, $_[0]{port} ] }

# What psql says through the pooler: output, errors.
sub ask
{
	my ($self, $sql, @options) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-h', $self->{folder}, '-p', $self->{port}, '-d', 'postgres', '-v',
		'VERBOSITY=sqlstate', @options, '-f', '-' ], '<', \$sql, '>', \$out, '2>', \$err);
	chomp $out;
	return wantarray ? ($out, $err) : $out;
}

sub log { return slurp_file("$_[0]{folder}/log") }

sub end
{
	my ($self) = @_;
	return unless $self->{run};
	$self->{run}->signal('INT');
	$self->{run}->finish;
	delete $self->{run};
	return;
}

sub DESTROY
{
	local ($?, $@);
	eval { $_[0]->end };
}

1;
