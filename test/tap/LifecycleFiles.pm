# What the tests of lifecycles as files share: folders of diagrams, and the commands that read them.
package LifecycleFiles;

use strict;
use warnings;
use Exporter 'import';
use JSON::PP;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(folder_with put command json_of orders_diagram definitions);

# Writes a file; returns its path.
sub put
{
	my ($folder, $name, $text) = @_;
	open(my $out, '>:raw', "$folder/$name") or die "$folder/$name: $!";
	print $out $text;
	close $out;
	return "$folder/$name";
}

# A new folder with these files: name => text.
sub folder_with
{
	my (%files) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir();
	put($folder, $_, $files{$_}) for sort keys %files;
	return $folder;
}

# Runs pawl to its end: output, status, what it said on standard error.
sub command
{
	my ($node, @arguments) = @_;
	my $run = begin_program($node, 'pawl', @arguments);
	my $status = end_program($run);
	diag($run->{err}) if $status >= 128 || $run->{err} =~ /terminate|Sanitizer/;
	return wantarray ? ($run->{out}, $status, $run->{err}) : $run->{out};
}

# The same with --json, decoded.
sub json_of
{
	my ($node, @arguments) = @_;
	my ($out, $status, $err) = command($node, '--json', @arguments);
	my $value = eval { decode_json($out) } // die "no JSON from @arguments: $out$err";
	return wantarray ? ($value, $status, $err) : $value;
}

# The orders of the README, with front matter around `tables`, or none.
sub orders_diagram
{
	my ($front, $body) = @_;
	$body //= <<'MERMAID';
stateDiagram-v2
    [*] --> cart
    cart --> paid : pay
    paid --> shipped : ship
    shipped --> delivered : deliver
    cart --> cancelled : cancel
    paid --> cancelled : cancel
    delivered --> [*]
    cancelled --> [*]
MERMAID
	return ($front // '') eq '' ? $body : "---\n$front---\n$body";
}

# Everything that files can say of a database: machines, and the calls that made the bindings.
sub definitions
{
	my ($node, $database) = @_;
	return $node->safe_psql($database // 'postgres', <<'SQL');
select machine, version, diagram from pawl.machine order by 1, 2;
select relation::text, state_column, version, pawl.definition(relation, state_column) from pawl.binding order by 1, 2;
select log::text, keep, only_terminal, period, ahead from pawl.log_upkeep order by 1;
SQL
}

1;
