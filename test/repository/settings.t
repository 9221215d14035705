#!/usr/bin/env perl
# The example file and the tables of settings in the documentation are what the programs print of their tables.
# ACCEPT=1 writes them.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;
my ($pawld, $pawl) = map { "build/programs/client/$_" } qw(pawld pawl);
plan skip_all => 'the programs are not built: make programs' unless -x $pawld && -x $pawl;

sub slurp { my ($file) = @_; open(my $in, '<', $file) or die "$file: $!"; local $/; return scalar <$in> }
sub put { my ($file, $text) = @_; open(my $out, '>', $file) or die "$file: $!"; print $out $text; return }

# What a program prints; it needs neither a database nor settings.
sub printed
{
	my (@command) = @_;
	local %ENV = map { $_ => $ENV{$_} } grep { !/^PAWLD?_/ } keys %ENV;
	open(my $program, '-|', @command) or die "@command: $!";
	my $text = do { local $/; <$program> };
	close($program);
	is($?, 0, "@command");
	return $text;
}

my $example = 'client/daemon/pawld.toml.example';
my $file    = printed($pawld, '--print', 'toml');
put($example, $file) if $ENV{ACCEPT};
is(slurp($example), $file, 'the example file is what pawld prints');

my %tables = (pawld => printed($pawld, '--print', 'markdown'));
for my $kind (qw(worker row_worker saga_worker conductor))
{
	$tables{$kind} = printed($pawl, 'settings', $kind) =~ s/\n+\z/\n/r;
	my $row = quotemeta('| `pooler` | text | `"none"` |  | none, session, transaction |');
	like($tables{$kind}, qr/^$row/m, "a table of $kind");
}

for my $page ('docs/daemon.md', 'docs/client.md')
{
	my $text = slurp($page);
	my @kinds = $text =~ /<!-- settings: (\w+) -->/g;
	ok(scalar @kinds, "$page has tables of settings");
	my $wanted = $text =~ s/(<!-- settings: (\w+) -->\n).*?(<!-- end of settings -->)/$1\n$tables{$2}\n$3/gsr;
	put($page, $wanted) if $ENV{ACCEPT};
	is(slurp($page), $wanted, "$page: they are what the programs print (@kinds)");
}

# Each setting is a flag of --help, with its default.
my $help = printed($pawld, '--help') =~ s/\s+/ /gr;
for my $row ($tables{pawld} =~ /^\| (`.*)$/mg)
{
	my ($name, undef, $default) = $row =~ /^`(\w+)` \| (\w+) \| `(.*?)` \|/ or die $row;
	my $flag = '--' . $name =~ tr/_/-/r;
	like($help, qr/\Q$flag\E TEXT [^-]*.*?default \Q$default\E\)/, "--help has $flag");
}
done_testing();
