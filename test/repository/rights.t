#!/usr/bin/env perl
# No setting decides about rights: they are asked of the current user. What the sources say of settings is read here.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;
# what a released version was is as it was
my @files = grep { !m{^sql/upgrades/pawl--0\.0\.1\.sql$} } split /\n/,
	`git ls-files sql src 2>/dev/null || find sql src -type f`;
@files = grep { -f && /\.(sql|cpp|hpp)$/ } @files;
cmp_ok(scalar @files, '>', 100, 'the sources are there');

# Where the depth of triggers is asked for, and why no right follows from it. Any role can have a trigger on a temporary
# table of its own, so a statement at depth 2 need not be one of ours.
my %depth_is_harmless = (
	'src/session/context.cpp' =>
	'a token counts for the statements of the client that shows it; it may show none anyway',
	'src/pg/noted_depth.hpp' => 'compared with the depth that C noted for the call of an owner-only function',
	'src/guard/decide.cpp' => 'an event is a preference in triggers; the rights of the transition are asked as ever',
	'src/guard/partition_moves.cpp' =>
	'tells the halves of a row that moves to another partition from other statements');

# The settings of the packs that are read, and why no trigger decides by them: what pawl.* says of a state change is
# recorded, and checked like the change itself.
my %setting_is_harmless = (
	'pawl_api.person' => 'written by pawl_api.begin_request and shown; the token of the request is in C',
	'pawl_api.scopes' => 'likewise',
	'pawl_api.expires_at' => 'likewise',
	'pawl_api.look_for_ms' => 'how long a list is looked through',
	'pawl_bulk.operation' => 'the default of a column, whose rows are checked as if it were written');

my %found;
for my $path (@files)
{
	open(my $in, '<', $path) or die "$path: $!";
	local $/;
	my $text = <$in>;
	$text =~ s{^\s*(--|//).*$}{}gm;
	push @{ $found{is_superuser} }, $path if $text =~ /is_superuser/;
	push @{ $found{restoring} }, $path if $text =~ /(current_setting|GetConfigOption\w*)\(\s*['"]pawl\.restoring/;
	push @{ $found{depth} }, $path
		if $text =~ /pg_trigger_depth|\bMyTriggerDepth\b/ && !delete $depth_is_harmless{$path};
	push @{ $found{token} }, $path if $text =~ /current_setting\(\s*'pawl_api\.token/;
	push @{ $found{settings}{$1} }, $path
		while $text =~ /\b(?:current_setting\(\s*'|DefineCustom\w+\(\s*")(pawl_\w+\.\w+)/g;
	while ($text =~ /(CREATE (?:CONSTRAINT )?TRIGGER\b.*?;)/gs)
	{
		my $trigger = $1;
		push @{ $found{condition} }, "$path: $trigger" if $trigger =~ /current_setting|session_user/i;
	}
}
is_deeply($found{is_superuser}, undef,
	'nothing reads is_superuser: it stays on in maintenance that runs the code of others');
is_deeply($found{restoring}, undef, 'pawl.restoring is asked of pawl.restoring(), which discards a placeholder');
is_deeply($found{token}, undef, 'the token of a request is no setting');
is_deeply($found{condition}, undef, 'no trigger condition reads a setting');
is_deeply($found{depth}, undef, 'nothing asks how deep triggers are nested');
is_deeply(\%depth_is_harmless, {}, 'but where it is harmless, and nothing else is named so');
is_deeply([ sort keys %{ $found{settings} } ], [ sort keys %setting_is_harmless ], 'a mark of a pack is no setting');

# Any role can acquire an advisory lock of PostgreSQL, and so make others wait for it.
my @places = grep { !m{^sql/upgrades/} && /\.(sql|cpp|hpp|py|ts)$/ } split /\n/,
	`git ls-files sql src client 2>/dev/null || find sql src client -type f`;
my @locks;
for my $path (@places)
{
	open(my $in, '<', $path) or next;
	for (<$in>)
	{
		push @locks, "$path: $_" if /\bpg_(try_)?advisory_(xact_)?(un)?lock(_shared)?\(/;
	}
}
is_deeply(\@locks, [], 'locks are those of pawl.acquire_lock');

# SQL that the library runs has the rights of the session's role, unless the library takes those of an owner: a function
# that is granted to no role then fails for every role but superusers.
my %runs_as_owner = map { $_ => 1 } qw(pawl._adopt pawl._adopt_missing pawl._distribution_checks
	pawl._distribution_steps pawl._newly_distributed pawl._prepare_spread pawl._redact_plan pawl_saga._is_decided);
my (%granted, %called);
for my $path (glob('sql/*/privileges'))
{
	my ($extension) = $path =~ m{^sql/(\w+)/};
	open(my $in, '<', $path) or die "$path: $!";
	/^(\w+)\s+\w/ and $granted{"$extension.$1"} = 1 while <$in>;
}
for my $path (grep { /\.cpp$/ } @files)
{
	open(my $in, '<', $path) or die "$path: $!";
	for (grep { !m{^\s*//} && !/is an event trigger function/ } <$in>)
	{
		$called{$1} = $path while /"[^"]*\b(pawl\w*\._\w+)\(/g;
	}
}
cmp_ok(scalar keys %called, '>', 20, 'the library runs functions of ours');
is_deeply([ map { "$called{$_}: $_" } grep { !$granted{$_} && !$runs_as_owner{$_} } sort keys %called ], [],
	'and those that it runs as the session are granted to roles');
is_deeply([ grep { $granted{$_} || !$called{$_} } sort keys %runs_as_owner ], [], 'and nothing else is named so');
done_testing();
