#!/usr/bin/env perl
# Roles belong to the server, which all SQL tests share: each role is made by one file.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;
my %made;
for my $file (glob('test/pgtap/*.sql test/hostile/*.sql'))
{
	open(my $in, '<', $file) or die "$file: $!";
	local $/;
	my $text = <$in>;
	$made{$1}{$file} = 1 while $text =~ /create\s+(?:role|user)\s+([a-z_]\w*)/gi;
}
cmp_ok(scalar keys %made, '>', 10, 'tests make roles');
for my $role (sort keys %made)
{
	my @files = sort keys %{ $made{$role} };
	is(scalar @files, 1, "$role is made by one test") or diag("@files");
}
done_testing();
