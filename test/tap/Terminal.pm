# A program on a terminal of its own, and what came over the wire so far.
package Terminal;

use strict;
use warnings;
use IO::Pty;
use PawlPrograms;
use PawlTest;
use POSIX ();

# A test that dies leaves no program behind.
my %running;
END { local $?; kill 'KILL', keys %running if %running }

sub new
{
	my ($class, $node, $name, @arguments) = @_;
	my $pty = IO::Pty->new;
	my $user = one($node, 'select current_user');
	my $pid = fork // die "no fork: $!";
	if (!$pid)
	{
		$pty->make_slave_controlling_terminal;
		my $slave = $pty->slave;
		open STDIN, '<&', $slave;
		open STDOUT, '>&', $slave;
		open STDERR, '>&', $slave;
		delete $ENV{NO_COLOR};
		@ENV{qw(PGHOST PGPORT PGDATABASE PGUSER TERM)} = ($node->host, $node->port, 'postgres', $user, 'xterm');
		exec program($name), @arguments or POSIX::_exit(127);
	}
	$running{$pid} = 1;
	$pty->close_slave;
	$pty->blocking(0);
	return bless { pty => $pty, pid => $pid, seen => '' }, $class;
}

# Waits for the text; all that was seen so far.
sub shows
{
	my ($self, $text) = @_;
	wait_until(sub { sysread $self->{pty}, $self->{seen}, 4096, length $self->{seen}; $self->{seen} =~ $text },
		"the terminal shows $text");
	return $self->{seen};
}

# The exit status of a program that ends by itself.
sub status
{
	my ($self) = @_;
	waitpid $self->{pid}, 0;
	delete $running{ $self->{pid} };
	return $? >> 8 || $?;
}

1;
