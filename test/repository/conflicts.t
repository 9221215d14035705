#!/usr/bin/env perl
# No file has the markers that git leaves in a merge with conflicts.
use strict;
use warnings;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;

# Seven of the same sign begin the line, then a blank or its end. Seven equals signs alone are a heading to Markdown.
my $marker = qr/^(?:<{7}|>{7}|\|{7})(?: |$)/m;
my (@found, $read);
for my $path (split /\n/, `git ls-files --cached --others --exclude-standard`)
{
	open(my $in, '<:raw', $path) or next;
	local $/;
	my $text = <$in> // '';
	$read++;
	push @found, $path if $text =~ $marker;
}
cmp_ok($read, '>', 700, 'the files of the repository are read');
is(join(' ', @found), '', 'no file has a marker of a conflict');
like("a\n" . '<' x 7 . " HEAD\nb\n", $marker, 'a marker is found');
unlike("a " . '<' x 7 . " b\n" . '>' x 8 . "\n", $marker, 'what only looks like one is not');
done_testing();
