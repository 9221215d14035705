# A socket between a program and the server that knows where statements begin and end, and
# has an accident at one that it is told.
package FaultProxy;

use strict;
use warnings;
use IO::Select;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use Socket;

# target: the server's socket.
sub new
{
	my ($class, $target) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir_short();
	my $listener = IO::Socket::UNIX->new(Local => "$folder/.s.PGSQL.6000", Listen => 20)
		or die "cannot listen in $folder: $!";
	socketpair(my $ours, my $theirs, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!";
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		close $ours;
		$SIG{$_} = 'IGNORE' for qw(INT PIPE);
		eval { FaultProxy::Loop->new($listener, $theirs, $target)->run };
		require POSIX;
		POSIX::_exit(0);
	}
	close $theirs;
	$ours->autoflush(1);
	return bless { folder => $folder, pid => $pid, control => $ours, heard => '', statements => {}, fired => [],
		armed => 0 }, $class;
}

sub through { return [ $_[0]{folder}, 6000 ] }

# Accidents in this order: [text the statement begins with, before | after, cut | backend | a pid to kill]. After: the
# server has done it, and the program never hears of it; [text, 'after', 'hold']: it hears of it, and of what the server
# says since, when release() is called. When this returns the proxy knows of them, so that no statement
# which is sent from then on comes too early.
sub arm
{
	my ($self, @accidents) = @_;
	my $armed = $self->{armed};
	print { $self->{control} } join("\x1e", 'arm', map { join "\x1f", @$_ } @accidents), "\x1d";
	while ($self->{armed} == $armed)
	{
		$self->listen($PostgreSQL::Test::Utils::timeout_default) or die 'the proxy does not answer';
	}
	return;
}

# From now on the answers to statements that begin so are garbage of that kind (see
# garbage below); no kind: they are what the server says.
sub garble
{
	my ($self, $kind, $beginning) = @_;
	print { $self->{control} } join("\x1e", 'garble', $kind // '', $beginning // ''), "\x1d";
	return;
}

sub release { print { $_[0]{control} } "release\x1d"; return }

sub cut_all { print { $_[0]{control} } "cut\x1d"; return }

# How many accidents have happened; waits for news so many seconds.
sub fired { my ($self, $seconds) = @_; $self->listen($seconds); return scalar @{ $self->{fired} } }

# The statements that were seen.
sub statements { my ($self) = @_; $self->listen; return sort keys %{ $self->{statements} } }

# Reads the news of the proxy; waits for some so many seconds. Whether there were any.
sub listen
{
	my ($self, $seconds) = @_;
	my $select = IO::Select->new($self->{control});
	my $news = 0;
	while ($select->can_read($seconds // 0))
	{
		sysread($self->{control}, $self->{heard}, 65536, length $self->{heard}) or last;
		$seconds = 0;
		$news = 1;
	}
	while ($self->{heard} =~ s/^([^\x1d]*)\x1d//)
	{
		my ($what, $text) = split /\x1e/, $1;
		# accidents of the orders before are no longer counted
		if ($what eq 'armed') { ++$self->{armed}; $self->{fired} = [] }
		elsif ($what eq 'fired') { push @{ $self->{fired} }, $text }
		else { $self->{statements}{$text} = 1 }
	}
	return $news;
}

sub end { my ($self) = @_; close $self->{control}; waitpid $self->{pid}, 0; return }

package FaultProxy::Loop;

use strict;
use warnings;

sub new
{
	my ($class, $listener, $control, $target) = @_;
	$control->autoflush(1);
	return bless { listener => $listener, control => $control, target => $target,
		select => IO::Select->new($listener, $control), full => IO::Select->new,
		arms => [], seen => {}, of => {} }, $class;
}

# Never waits for one socket alone: a program that copies from one connection into another reads nothing while it waits
# for the other to be read. What a socket does not take yet is kept, and its peer is not read until it has.
sub run
{
	my ($self) = @_;
	while (1)
	{
		my ($readable, $writable) = IO::Select->select($self->{select}, $self->{full});
		$self->flush($_) for @{ $writable // [] };
		for my $socket (@{ $readable // [] })
		{
			if ($socket == $self->{listener}) { $self->meet }
			elsif ($socket == $self->{control}) { return unless $self->obey }
			else { $self->carry($socket) }
		}
	}
}

# Writes to that end of a pair.
sub give
{
	my ($self, $pair, $end, $message) = @_;
	$pair->{"to_$end"} .= $message;
	$self->flush($pair->{$end});
	return;
}

sub flush
{
	my ($self, $socket) = @_;
	my $pair = $self->{of}{$socket} or return;
	my ($end, $other) = $socket == $pair->{client} ? qw(client server) : qw(server client);
	my $waiting = \$pair->{"to_$end"};
	while (length $$waiting)
	{
		my $written = syswrite $socket, $$waiting;
		last if !defined $written && $!{EAGAIN};
		# an end that is gone is noticed when it is read
		substr $$waiting, 0, $written // length $$waiting, '';
	}
	if (length $$waiting) { $self->{full}->add($socket); $self->{select}->remove($pair->{$other}) }
	elsif ($self->{full}->exists($socket)) { $self->{full}->remove($socket); $self->{select}->add($pair->{$other}) }
	return;
}

sub meet
{
	my ($self) = @_;
	my $client = $self->{listener}->accept or return;
	my $server = IO::Socket::UNIX->new(Peer => $self->{target});
	return close $client unless $server;
	$_->blocking(0) for $client, $server;
	my $pair = { client => $client, server => $server, from_client => '', from_server => '', to_client => '',
		to_server => '', begun => 0 };
	$self->{of}{$_} = $pair for $client, $server;
	$self->{select}->add($client, $server);
	return;
}

sub obey
{
	my ($self) = @_;
	my $read = sysread($self->{control}, $self->{orders}, 65536, length($self->{orders} // ''));
	return 0 unless $read;
	while ($self->{orders} =~ s/^([^\x1d]*)\x1d//)
	{
		my ($what, @arms) = split /\x1e/, $1;
		if ($what eq 'garble') { @{$self}{qw(kind beginning)} = (@arms, '', '') }
		elsif ($what eq 'arm')
		{
			$self->{arms} = [ map { [ split /\x1f/ ] } @arms ];
			print { $self->{control} } "armed\x1d";
		}
		elsif ($what eq 'release')
		{
			for my $pair (grep { defined $_->{held} } values %{ { map { $_ => $_ } values %{ $self->{of} } } })
			{
				$self->give($pair, 'client', delete $pair->{held});
			}
		}
		else { $self->part($_) for values %{ { map { $_ => $_ } values %{ $self->{of} } } } }
	}
	return 1;
}

sub part
{
	my ($self, $pair) = @_;
	for my $socket (@$pair{qw(client server)})
	{
		$self->{$_}->remove($socket) for qw(select full);
		delete $self->{of}{$socket};
		close $socket;
	}
	return;
}

sub carry
{
	my ($self, $socket) = @_;
	my $pair = $self->{of}{$socket} or return;
	my ($from, $to) = $socket == $pair->{client} ? qw(client server) : qw(server client);
	sysread($socket, $pair->{"from_$from"}, 65536, length $pair->{"from_$from"}) or return $self->part($pair);
	while (defined(my $message = next_message(\$pair->{"from_$from"}, $from eq 'client' && !$pair->{begun})))
	{
		my $type = $from eq 'client' && !$pair->{begun}++ ? '' : substr $message, 0, 1;
		if ($from eq 'client' && $type =~ /^[PQ]$/)
		{
			my $text = substr $message, 5;
			my $name = $type eq 'P' && $text =~ s/^([^\0]*)\0// ? $1 : '';
			$text =~ s/\0.*//s;
			$pair->{prepared}{$name} = $text if $name ne '';
			return if $self->statement($pair, $text);
			$pair->{meant} = index($text, $self->{beginning} // '') == 0;
			print { $self->{control} } "fired\x1e$text\x1d" if $pair->{meant} && $self->{kind};
		}
		# a statement that was prepared before
		if ($from eq 'client' && $type eq 'B' && substr($message, 5) =~ /^[^\0]*\0([^\0]+)\0/)
		{
			my $text = $pair->{prepared}{$1};
			return if defined $text && $self->statement($pair, $text);
		}
		$pair->{kind} = $pair->{meant} ? $self->{kind} : '' if $from eq 'client' && $type =~ /^[PQB]$/;
		$pair->{backend} = unpack 'N', substr $message, 5, 4 if $from eq 'server' && $type eq 'K';
		if ($from eq 'server' && defined $pair->{held})
		{
			$pair->{held} .= $message;
			print { $self->{control} } "fired\x1ehold\x1d" if $type =~ /^[ZA]$/;
			next;
		}
		if ($from eq 'server' && $pair->{doomed})
		{
			# COPY FROM STDIN is answered by a G, and then the server waits
			return $self->accident($pair) if $type =~ /^[ZG]$/;
			next;
		}
		if ($from eq 'server' && $pair->{kind})
		{
			$message = garbage($pair->{kind}, $type, $message);
			if (!defined $message) { return $self->part($pair) }
		}
		$self->give($pair, $to, $message);
	}
	return;
}

sub framed { my ($type, $content) = @_; return $type . pack('N', 4 + length $content) . $content }

# What becomes of a message of the server; undef: the connection ends there.
sub garbage
{
	my ($kind, $type, $message) = @_;
	return $message if $type !~ /^[TDCE]$/;
	return $type eq 'T' ? framed('T', pack 'n', 0) : $type eq 'D' ? framed('D', pack 'n', 0) : $message
		if $kind eq 'no columns';
	return $type eq 'D' ? '' : $message if $kind eq 'no rows';
	return $type eq 'C' ? framed('E', "\0") : '' if $kind eq 'bare error';
	return $type eq 'C' ? framed('E', "SERROR\0C22000\0M" . "\xff%s%n" x 1000 . "\0\0") : ''
		if $kind eq 'strange error';
	return $type eq 'C' ? framed('I', '') : $type eq 'E' ? $message : '' if $kind eq 'nothing';
	return $type eq 'D' ? undef : $message if $kind eq 'cut';
	return $type eq 'T' ? '' : $message if $kind eq 'no description';
	return $type eq 'D' ? substr($message, 0, 5) . "\x7f\xff" . substr($message, 7) : $message
		if $kind eq 'too many values';
	return $message if $type ne 'D';
	my $value = { nulls => undef, words => "[[[ \xff\xc3( no", empty => '', deep => '[' x 100_000 . ']' x 100_000,
		numbers => '-99999999999999999999' }->{$kind};
	my $columns = unpack 'n', substr $message, 5, 2;
	return framed('D',
		pack('n', $columns) . (defined $value ? pack('N', length $value) . $value : pack 'N', 0xffffffff) x $columns);
}

# A whole message off the front, or nothing; the first of a client has no type.
sub next_message
{
	my ($buffer, $first) = @_;
	my $at = $first ? 0 : 1;
	return undef if length $$buffer < $at + 4;
	my $length = $at + unpack 'N', substr $$buffer, $at, 4;
	return undef if length $$buffer < $length;
	return substr $$buffer, 0, $length, '';
}

# True if the program is never to see the end of it.
sub statement
{
	my ($self, $pair, $text) = @_;
	print { $self->{control} } "saw\x1e$text\x1d" unless $self->{seen}{$text}++;
	my $arm = $self->{arms}[0];
	return 0 unless $arm && index($text, $arm->[0]) == 0;
	shift @{ $self->{arms} };
	$pair->{ $arm->[2] eq 'hold' ? 'held' : 'doomed' } = $arm->[2] eq 'hold' ? '' : $arm;
	return 0 if $arm->[1] eq 'after';
	$self->accident($pair);
	return 1;
}

sub accident
{
	my ($self, $pair) = @_;
	my ($text, undef, $victim) = @{ $pair->{doomed} };
	kill 'KILL', $victim eq 'backend' ? $pair->{backend} : $victim if $victim ne 'cut';
	# said first: a program that ends of it is not to be quicker than the news
	print { $self->{control} } "fired\x1e$text\x1d";
	$self->part($pair);
	return;
}

1;
