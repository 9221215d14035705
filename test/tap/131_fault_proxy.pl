# The proxy of these tests carries each connection by itself: one whose messages are not read holds up no other, as
# where a program copies from one connection into another.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use FaultProxy;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use Test::More;

my $target = PostgreSQL::Test::Utils::tempdir_short() . '/target';
my $listener = IO::Socket::UNIX->new(Local => $target, Listen => 2) or die "cannot listen: $!";
my $proxy = FaultProxy->new($target);
my ($folder, $port) = @{ $proxy->through };

# The two ends of a connection through the proxy.
sub connect_both
{
	my $client = IO::Socket::UNIX->new(Peer => "$folder/.s.PGSQL.$port") or die "cannot connect: $!";
	return ($client, $listener->accept);
}

# Sends so many messages of 8 kB in a process of its own.
sub send_messages
{
	my ($socket, $count) = @_;
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	my $message = FaultProxy::Loop::framed('d', 'x' x 8_192);
	syswrite $socket, $message for 1 .. $count;
	require POSIX;
	POSIX::_exit(0);
}

sub read_messages
{
	my ($socket, $count) = @_;
	my $missing = $count * length FaultProxy::Loop::framed('d', 'x' x 8_192);
	local $SIG{ALRM} = sub { die "nothing arrives\n" };
	alarm $PostgreSQL::Test::Utils::timeout_default;
	while ($missing > 0) { $missing -= sysread($socket, my $bytes, 65_536) || last }
	alarm 0;
	return $missing;
}

my ($reader, $writer) = connect_both();
my ($client, $server) = connect_both();
my $unread = send_messages($writer, 500);
my $greeted = FaultProxy::Loop::framed('', 'hello');
syswrite $client, $greeted;
my $sending = send_messages($client, 500);
sysread $server, my $greeting, length $greeted;
is($greeting, $greeted, 'the first message of a client arrives');
is(eval { read_messages($server, 500) }, 0, 'messages arrive while another connection is not read') or diag($@);
is(eval { read_messages($reader, 500) }, 0, 'and those of the other when it is read') or diag($@);
close $_ for $reader, $writer, $client, $server;
waitpid $_, 0 for $unread, $sending;
$proxy->end;
done_testing();
