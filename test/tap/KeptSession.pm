# A psql that stays connected between the questions of a test. To look ten times a second with a psql of its own each
# time costs more than most of what is looked at.
package KeptSession;

use strict;
use warnings;
use IO::Handle;
use IO::Select;

# By process, connection: sessions that stay. A process that a test forks has sessions of its own.
my %kept;

# The session of this connection string; begun when there is none.
sub of
{
	my ($class, $connection) = @_;
	return $kept{$$}{$connection} //= $class->begin($connection);
}

sub begin
{
	my ($class, $connection) = @_;
	pipe(my $theirs, my $in) or die "pipe: $!";
	pipe(my $out, my $their_out) or die "pipe: $!";
	pipe(my $err, my $their_err) or die "pipe: $!";
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		open(STDIN, '<&', $theirs) && open(STDOUT, '>&', $their_out) && open(STDERR, '>&', $their_err)
			or die "cannot redirect: $!";
		exec('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $connection) or die "psql: $!";
	}
	$in->autoflush(1);
	return bless { connection => $connection, pid => $pid, in => $in, out => $out, err => $err, asked => 0 }, $class;
}

# Whether the server did it, what psql printed and complained. After an error the next question gets another session.
sub ask
{
	my ($self, $query) = @_;
	my $mark = "-- answered $$ " . ++$self->{asked};
	local $SIG{PIPE} = 'IGNORE';
	print { $self->{in} } "$query\n;\n\\echo $mark\n\\warn $mark\n";
	my %said = (out => '', err => '');
	my %open = (out => 1, err => 1);
	while (%open)
	{
		for my $handle (IO::Select->new(map { $self->{$_} } keys %open)->can_read)
		{
			my ($name) = grep { $self->{$_} == $handle } qw(out err);
			if (!sysread($handle, $said{$name}, 65536, length $said{$name})) { return $self->end(%said) }
			delete $open{$name} if $said{$name} =~ s/^\Q$mark\E\n\z//m;
		}
	}
	chomp(@said{qw(out err)});
	return (1, @said{qw(out err)});
}

# Nothing more comes: psql has ended, after an error or because there is no server.
sub end
{
	my ($self, %said) = @_;
	delete $kept{$$}{ $self->{connection} };
	close $self->{in};
	for my $name (qw(out err)) { 1 while sysread($self->{$name}, $said{$name}, 65536, length $said{$name}) }
	local $?;
	waitpid($self->{pid}, 0);
	chomp(@said{qw(out err)});
	return (0, @said{qw(out err)});
}

1;
