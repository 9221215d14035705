#!/usr/bin/env perl
# The page of drivers and ORMs has an example for each client of its tables, of few lines, and a test runs each: none
# has a copy of it.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;

sub slurp {
    my ($path) = @_;
    open(my $in, '<', $path) or die "$path: $!";
    local $/;
    return scalar <$in>;
}

my $page = slurp('docs/drivers.md');
my ($table) = $page =~ /^\| client \| exception.*?\n((?:\|.*\n)+)/m or die 'no table of exceptions';
my @clients = map { /^\| ([^|]+?) \|/ } grep { !/^\|-/ } split /\n/, $table;
cmp_ok(scalar @clients, '>=', 13, 'the clients');
my %example;
$example{$1} = $2 while $page =~ /^### ([^\n]+)\n(?:(?!```)[^\n]*\n)*```\w+\n(.*?)^```/msg;
is_deeply([sort keys %example], [sort @clients], 'each has an example, and each example a client');

my %tests = map { $_ => slurp($_) } glob 'test/clients/*/*.{t,py}';
my %line_of = ('psycopg 2' => qr/"psycopg 2"/, 'psycopg 3' => qr/"psycopg 3"/, JDBC => qr/\^### JDBC/,
    ActiveRecord => qr/\^### ActiveRecord/);
for my $client (@clients) {
    my @lines = split /\n/, $example{$client} // '';
    cmp_ok(scalar @lines, '<=', $client eq 'ActiveRecord' ? 17 : 12, "$client: the example is short");
    my $call = $line_of{$client} // qr/\bexample\(["']\Q$client\E["']/;
    is(scalar(grep { $tests{$_} =~ $call } keys %tests), 1, "$client: one test runs it");
    my $condition = (grep { /_machine/ } @lines)[0] // '';
    my @copies = grep { index($tests{$_}, $condition =~ s/^\s+//r) >= 0 } sort keys %tests;
    is("@copies", '', "$client: and none copies it");
}
done_testing();
