#!/usr/bin/env perl
# JDBC by Debian's driver, which knows no Unix sockets: through pgbouncer in transaction mode, that listens on loopback.
# Java compiles the one file as it starts it.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use IO::Socket::INET;
use Time::HiRes qw(sleep time);

my $here = dirname(__FILE__);
my ($bouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
die "pgbouncer is not there; `make deps` installs it\n" unless $bouncer;
system('psql', '-X', '-q', '-d', 'pawl_clients', '-v', 'client=jdbc', '-f', "$here/../fixture.sql") == 0
	or die "the tables of the test could not be made\n";

sub listening
{
	my ($port) = @_;
	return defined IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp');
}

# A port that is free now.
my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => 0, Proto => 'tcp') or die $!;
my $port = $socket->sockport;
close($socket);

my $folder = tempdir(CLEANUP => 1);
open(my $ini, '>', "$folder/pgbouncer.ini") or die $!;
print $ini <<"INI";
[databases]
pawl_clients = host=$ENV{PGHOST} port=$ENV{PGPORT} user=$ENV{PGUSER} connect_query='set search_path = jdbc, public'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 1
ignore_startup_parameters = extra_float_digits
logfile = $folder/log
INI
close($ini) or die $!;
my @as = ();
if ($> == 0 && $ENV{PAWL_SERVER_USER})    # pgbouncer does not run as root
{
	my ($user, $group) = (getpwnam($ENV{PAWL_SERVER_USER}))[ 2, 3 ];
	chown($user, $group, $folder, "$folder/pgbouncer.ini") or die $!;
	@as = ('setpriv', "--reuid=$user", "--regid=$group", '--clear-groups');
}
my $pid = fork() // die $!;
if ($pid == 0)
{
	exec(@as, $bouncer, '-q', "$folder/pgbouncer.ini") or die $!;
}
END
{
	if ($pid)
	{
		local $?;
		kill('INT', $pid);
		waitpid($pid, 0);
	}
}
my $until = time + 30;
until (listening($port))
{
	die "pgbouncer did not start\n" if time > $until || waitpid($pid, 1) == $pid;
	sleep(0.05);
}
$ENV{POOLER_PORT} = $port;

sub slurp
{
	my ($path) = @_;
	open(my $in, '<', $path) or die "$path: $!";
	local $/;
	return scalar <$in>;
}

# The program with the example of the page.
my ($example) = slurp("$here/../../../docs/drivers.md") =~ /^### JDBC\n```java\n(.*?)^```/ms
	or die "docs/drivers.md has no example of JDBC\n";
my $program = slurp("$here/Jdbc.java") =~ s{^ *// EXAMPLE\n}{$example}mr;
my $sources = tempdir(CLEANUP => 1);
open(my $java, '>', "$sources/Jdbc.java") or die $!;
print $java $program;
close($java) or die $!;
my $status = system('java', '-cp', '/usr/share/java/postgresql.jar', "$sources/Jdbc.java");
exit($status == 0 ? 0 : 1);
