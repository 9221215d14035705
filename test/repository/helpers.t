#!/usr/bin/env perl
# An internal function is executable by the roles that need it and no others: each role that a line of
# sql/<extension>/privileges names has a caller there. Callers are functions with the caller's rights that this role may
# execute, and what PostgreSQL runs with the caller's rights by itself: views, defaults,
# conditions of triggers, C code, statements of the programs.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;

sub slurp
{
	my ($path) = @_;
	open(my $in, '<', $path) or die "$path: $!";
	local $/;
	return scalar <$in>;
}

my @everybody = qw(public pawl_admin pawl_operator pawl_worker pawl_reader pawl_authenticator pawl_restore);
my (%roles, %callers, %reach);
for my $extension (qw(pawl pawl_dag pawl_bulk pawl_saga pawl_api pawl_test pawl_move))
{
	for my $line (split /\n/, slurp("sql/$extension/privileges"))
	{
		next if $line =~ /^\s*(#|$)/;
		my ($name, $roles) = $line =~ /^(\w+)(?:\(.*?\))?\s+(\S.*)$/ or die "sql/$extension/privileges: $line";
		my @roles = $roles =~ /\bpublic\b/ ? @everybody : split ' ', $roles;
		$roles{"$extension.$name"}{$_} = 1 for @roles;
	}
}

# Callers for which only the rights of the caller count.
my $outside = join "\n", map { slurp($_) } split /\n/,
	`git ls-files 'src/*.cpp' 'src/*.hpp' 'client/*.cpp' 'client/*.hpp'`;
for my $file (split /\n/, `git ls-files 'sql/*.sql'`)
{
	my $text = slurp($file) =~ s/--(?!>)[^\n]*//gr;
	# each function is a caller of its own; what is left is everybody's
	while ($text
		=~ s/CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) (pawl\w*)\.(\w+)\(([^;]*?AS '[^;]*|[^;]*?AS (\$\w*\$).*?\g{4});//s)
	{
		my ($caller, $body) = ("$1.$2", $3);
		push @{ $callers{$caller} }, { text => $body, definer => scalar($body =~ /SECURITY DEFINER/),
			trigger => scalar($body =~ /RETURNS (?:event_)?trigger/) };
	}
	$text =~ s/COMMENT ON [^;']*'(?:[^']|'')*';//gs;
	$outside .= $text;
}

# C calls these without asking for EXECUTE, for a role that may execute the C function
my %by_c = ('pawl_dag._turn' => 'pawl_dag._take_turn', 'pawl_dag._turns_apart' => 'pawl_dag._take_turns_apart',
	 'pawl_dag._insert_tasks' => 'pawl_dag._start_tasks',
	'pawl_bulk._validate_next_block' => 'pawl_bulk._validate_block',
	'pawl_bulk._fail_next_row' => 'pawl_bulk._fail_row',
	map { ("pawl._${_}_by_key" => "pawl.$_") } qw(history state_at audit_of redact));

# the roles with whose rights a text is run
my @texts = ({ text => $outside, roles => { map { $_ => 1 } @everybody } });
for my $caller (sort keys %callers)
{
	for my $one (@{ $callers{$caller} })
	{
		next if $one->{definer};
		# a trigger is fired by any role that writes
		# statements of pawl.verify that read a log are run as its owner, which may be any role
		my $roles = $caller eq 'pawl._verify_log' ? { map { $_ => 1 } @everybody } : $by_c{$caller}
			? $roles{$by_c{$caller}} : $one->{trigger} ? { map { $_ => 1 } @everybody } : $roles{$caller} // {};
		push @texts, { text => $one->{text}, roles => $roles, name => $caller };
	}
}
for my $text (@texts)
{
	my %seen;
	while ($text->{text} =~ /\b(?:(pawl(?:_\w+)?)\s*\.\s*)?(_\w+)\b/g)
	{
		for my $extension ($1 // qw(pawl pawl_dag pawl_bulk pawl_saga pawl_api pawl_test pawl_move))
		{
			my $name = "$extension.$2";
			next if !$roles{$name} || ($text->{name} // '') eq $name || $seen{$name}++;
			$reach{$name}{$_} = 1 for keys %{ $text->{roles} };
		}
	}
}

my @idle;
for my $name (sort grep { /\._/ } keys %roles)
{
	my @without = grep { !$reach{$name}{$_} } sort keys %{ $roles{$name} };
	push @idle, "$name: @without" if @without;
}
cmp_ok(scalar(grep { /\._/ } keys %roles), '>', 100, 'there are internal functions');
is(join("\n", @idle), '', 'each role of an internal function has a caller');
done_testing();
