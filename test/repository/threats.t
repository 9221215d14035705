#!/usr/bin/env perl
# docs/threats.md and the tests are one: each test that the page names is there, and each attack is a row of the page.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;
open(my $in, '<', 'docs/threats.md') or die $!;
my $page = do { local $/; <$in> };
close $in;

my %folder = (regress => 'sql', isolation => 'isolation/specs');
my %named = map { $_ => 1 } $page =~ m{`((?:hostile|pgtap|tap|regress|isolation|conformance|repository|unit)/\w+)`}g;
cmp_ok(scalar keys %named, '>', 20, 'the page names tests');
for my $name (sort keys %named)
{
	my ($section, $file) = split m{/}, $name;
	my @there = glob("test/" . ($folder{$section} // $section) . "/$file.*");
	ok(@there || -e "test/$name", "$name is a test");
}
for my $file (sort glob('test/hostile/*.{sql,pl}'))
{
	my ($name) = $file =~ m{test/(hostile/\w+)\.};
	ok($named{$name}, "$name is a row of docs/threats.md");
}
for my $page ('README.md', 'SECURITY.md')
{
	open(my $in, '<', $page) or die $!;
	my $text = do { local $/; <$in> };
	like($text, qr{docs/threats\.md}, "$page leads to it");
}
done_testing();
