#!/usr/bin/env perl
# SQL tests share a server and run several at a time. Roles and names of prepared transactions belong to the server:
# each is made by one file. A file that asks about all sessions, or changes the server, has a line
# "-- Alone on the server: <reason>".
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;
my (%made, %prepared, @not_alone);
# Of all databases; pg_locks has the database in a column.
my $locks = qr/pg_locks\b(?![^;]*\bdatabase)/;
my $views = qr/pg_stat_activity|pg_prepared_xacts|pg_backend_memory_contexts|$locks/;
my $of_server = qr/\b(?:alter\s+system|pg_reload_conf|$views)\b/i;
for my $file (glob('test/pgtap/*.sql test/hostile/*.sql'))
{
	open(my $in, '<', $file) or die "$file: $!";
	local $/;
	my $text = <$in>;
	$made{$1}{$file} = 1 while $text =~ /create\s+(?:role|user)\s+([a-z_]\w*)/gi;
	$prepared{$1}{$file} = 1 while $text =~ /prepare\s+transaction\s+'(\w+)'/gi;
	push @not_alone, $file if $text =~ $of_server && $text !~ /^-- Alone on the server: \S/m;
}
cmp_ok(scalar keys %made, '>', 10, 'tests make roles');
for my $role (sort keys %made)
{
	my @files = sort keys %{ $made{$role} };
	is(scalar @files, 1, "$role is made by one test") or diag("@files");
}
for my $name (sort keys %prepared)
{
	my @files = sort keys %{ $prepared{$name} };
	is("@files", $files[0], "$name is prepared by one test");
}
is("@not_alone", '', 'files that need the whole server say so');
like('select * from pg_locks; select database', $of_server, 'all locks of the server are found');
unlike('select * from pg_locks where database = 1', $of_server, 'those of one database are none of its business');
done_testing();
