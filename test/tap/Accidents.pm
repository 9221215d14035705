# Accidents at the statements of a program, one after the other. The program speaks through a proxy; before the server
# hears of a statement or after it has done it the connection is cut, or the program is
# killed, or its backend, or the whole server.
package Accidents;

use strict;
use warnings;
use FaultProxy;
use PawlPrograms;
use PawlTest;
use Time::HiRes qw(time);

# node, program => [name, argument, ...], work => begins one more piece of work; optional: meanwhile => what people do
# all the time, at_start => what statements look like that a program sends when it begins, and seldom later,
# by_chance => what statements look like that it sends only when two things happen to meet: no work can ask for one.
sub new
{
	my ($class, %how) = @_;
	my $self = bless { meanwhile => sub { }, at_start => qr/(?!)/, by_chance => qr/(?!)/, %how,
		reached => {} }, $class;
	$self->{proxy} = FaultProxy->new($self->{node}->host . '/.s.PGSQL.' . $self->{node}->port);
	$self->begin;
	return $self;
}

sub begin
{
	my ($self) = @_;
	$self->{run} = begin_through($self->{proxy}, $self->{node}, @{ $self->{program} });
	return;
}

sub proxy { return $_[0]{proxy} }
sub run { return $_[0]{run} }

# The statements that the program sends, of those that look so, without those of by_chance. Some are sent now and then,
# so it has work until there are so many.
sub learned
{
	my ($self, $least, $like) = @_;
	my (@seen, $looks);
	eval { wait_until(sub {
		@seen = grep { (!$like || $_ =~ $like) && $_ !~ $self->{by_chance} } $self->{proxy}->statements;
		return 1 if @seen >= $least;
		$self->{work}->() if $looks++ % 10 == 0;
		return 0 }, 'the statements') };
	return @seen;
}

# Those of the statements at which there was no accident so far.
sub missed
{
	my ($self, @statements) = @_;
	return grep { !$self->{reached}{$_} } @statements;
}

# when: before | after; what: cut | program | backend | server.
sub happen
{
	my ($self, $when, $what, @statements) = @_;
	for my $statement (@statements)
	{
		next if $what eq 'program' && $statement =~ $self->{at_start};
		my $life = $what eq 'backend' ? server_life($self->{node}) : '';
		$self->{proxy}->arm([ $statement, $when, $what eq 'program' ? $self->{run}{pid} : $what eq 'server' ? 'cut'
			: $what ]);
		my $happened = $self->await($statement);
		$self->{reached}{$statement}++ if $happened;
		$self->recover($what, $happened, $life);
	}
	$self->{proxy}->arm();
	return;
}

# Before each and after it with PAWL_LONG=1, else before one and after the next.
sub happen_in_turns
{
	my ($self, $what, @statements) = @_;
	my @when = qw(before after);
	for my $i (0 .. $#statements)
	{
		$self->happen($_, $what, $statements[$i]) for $ENV{PAWL_LONG} ? @when : $when[$i % 2];
	}
	return;
}

# The same until none is left. What is sent seldom may not have come in time on a machine that is busy: it gets more
# chances.
sub happen_at_each
{
	my ($self, $what, @statements) = @_;
	$self->happen_in_turns($what, @statements);
	for (1 .. 30)
	{
		my @missed = $self->missed(@statements) or last;
		$self->happen('before', $what, @missed);
	}
	return;
}

# Whether the accident happens, with work to do: some statements are sent in a new session
# only, others only when there is more to do.
sub await
{
	my ($self, $statement) = @_;
	if ($statement =~ $self->{at_start})
	{
		end_program($self->{run}, 'TERM');
		$self->begin;
	}
	my $end = time + 5;
	my $round = 0;
	while (time < $end)
	{
		$self->{work}->() if $round % 20 == 0;
		$self->{meanwhile}->() if $round % 5 == 0;
		return 1 if $self->{proxy}->fired(0.02);
		$self->{run}{harness}->pump_nb;
		$self->{proxy}->cut_all if ++$round % 40 == 20;
	}
	return 0;
}

sub recover
{
	my ($self, $what, $happened, $life) = @_;
	if ($what eq 'server' && $happened)
	{
		kill_server($self->{node});
		$self->{node}->start;
	}
	wait_until(sub { server_life($self->{node}) ne $life }, 'the server to begin again')
		if $what eq 'backend' && $happened;
	return unless $what eq 'program';
	kill_program($self->{run});
	$self->begin;
	return;
}

1;
