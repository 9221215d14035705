#!/usr/bin/env perl
# No setting decides about rights: they are asked of the current user. What the sources say of settings is read here.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;
# what a released version was is as it was
my @files = grep { !m{^sql/upgrades/pawl--0\.0\.1\.sql$} } split /\n/, `git ls-files sql src 2>/dev/null || find sql src -type f`;
@files = grep { -f && /\.(sql|cpp|hpp)$/ } @files;
cmp_ok(scalar @files, '>', 100, 'the sources are there');

my (%found, $files_read);
for my $path (@files)
{
	open(my $in, '<', $path) or die "$path: $!";
	local $/;
	my $text = <$in>;
	$text =~ s{^\s*(--|//).*$}{}gm;
	push @{ $found{is_superuser} }, $path if $text =~ /is_superuser/;
	push @{ $found{restoring} }, $path if $text =~ /(current_setting|GetConfigOption\w*)\(\s*['"]pawl\.restoring/;
	push @{ $found{token} }, $path if $text =~ /current_setting\(\s*'pawl_api\.token/;
	while ($text =~ /(CREATE (?:CONSTRAINT )?TRIGGER\b.*?;)/gs)
	{
		my $trigger = $1;
		push @{ $found{condition} }, "$path: $trigger" if $trigger =~ /current_setting|session_user/i;
	}
}
is_deeply($found{is_superuser}, undef, 'nothing reads is_superuser: it stays on in maintenance that runs the code of others');
is_deeply($found{restoring}, undef, 'pawl.restoring is asked of pawl._restoring(), which discards a placeholder');
is_deeply($found{token}, undef, 'the token of a request is no setting');
is_deeply($found{condition}, undef, 'no trigger condition reads a setting');
done_testing();
