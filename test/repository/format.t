#!/usr/bin/env perl
# C++ is formatted as .clang-format says.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;
my ($version) = (`clang-format --version 2>/dev/null` // '') =~ /version (\d+)\./;
plan skip_all => 'clang-format 14 is not there' if ($version // 0) != 14;

# What clang-format would change in these files, by file.
sub changes { my %of; /^(\S+?):\d+:\d+:/ and $of{$1}++ for `clang-format --dry-run @_ 2>&1`; return \%of }

my @files = grep { -f } split /\n/, `git ls-files '*.cpp' '*.hpp' '*.c' '*.h'`;
cmp_ok(scalar @files, '>', 100, 'there are sources');
my $found = changes(@files);
is(join(' ', sort keys %$found), '', 'no file is formatted otherwise (clang-format -i)');

my $folder = `mktemp -d`;
chomp $folder;
open(my $out, '>', "$folder/a.cpp") or die $!;
print $out "int  f( ){return 1;}\n";
close $out;
is(scalar(keys %{ changes("--style=file:.clang-format", "$folder/a.cpp") }), 1, 'one that is not is found');
system('rm', '-rf', $folder);
done_testing();
