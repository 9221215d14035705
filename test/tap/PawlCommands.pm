# pawl, run to its end at the node that commands_at has named.
package PawlCommands;
use strict;
use warnings;
use Exporter 'import';
use PawlPrograms;
use Test::More;

our @EXPORT = qw(commands_at goes is_rejected pawl);

my $at;

sub commands_at { ($at) = @_; return }

# Its exit status, and all that it prints.
sub pawl
{
	my $run = begin_program($at, 'pawl', @_);
	my $status = end_program($run);
	return ($status, "$run->{out}$run->{err}");
}

# A test that it succeeds; returns what it prints.
sub goes
{
	my ($name, @arguments) = @_;
	my ($status, $said) = pawl(@arguments);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status, 0, $name) or diag($said);
	return $said;
}

# Two tests: that the server rejects what it asks for, and that the error is the expected one.
sub is_rejected
{
	my ($name, $expected, @arguments) = @_;
	my ($status, $said) = pawl(@arguments);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status, 3, $name);
	return like($said, $expected, "$name: the error says why");
}

1;
