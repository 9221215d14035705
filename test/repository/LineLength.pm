# Lines over 120 columns: all but those that cannot be broken.
package LineLength;
use strict;
use warnings;
use utf8;
use Exporter qw(import);
our @EXPORT = qw(length_hits);

my $width = 120;

# Lines that cannot be broken without changing what they say: files, pattern, why.
my @unbreakable = (
	[ qr/\.(?:sql|psql)$/, qr/^\s*\\[a-z]/, 'psql reads a backslash command to the end of its line' ],
	[ qr/(?:^|\/)Makefile$/, qr/^[\w-]+:.* ## /, 'make help prints what stands behind ##' ],
	[ qr/\.control$/, qr/^comment = '/, 'a control file has one line for a value' ],
	[ qr/\.(?:cpp|hpp)$/, qr/^[^";]*(?:R")?\(?[{\[]+"[\w ]+":? .*["}\]]|^\s*"\w+": ["{\[]/, 'JSON in a raw literal' ],
	[ qr/\.tsx$/, qr/\{" "\}$/, 'a space between elements stays at the end of its line' ],
	[ qr/test\/tap\/022_examples\.pl$/, qr/^(?:SUCCESS|REVERTED): \d of \d tasks /,
		'what a program prints, line by line' ],
);

# Literals that a language cannot continue on the next line. Without its indentation and
# its longest literal, a line has 60 columns or fewer.
my $double = qr/"(?:[^"\\]|\\.)*"/;
my $single = qr/'(?:[^'\\]|\\.)*'/;
my @whole  = (
	[ qr/\.(?:sql|psql)$/, qr/\$\$(?!\s*(?:select|insert|update|delete|with|do|call)\b).*?\$\$|'[^' ]*'/i,
		'data, or one word' ],
	[ qr/\.(?:p[lm]|t)$/, qr{(?:qr|(?:=~|!~)\s*s?|split\s*)(?:/(?:[^/\\]|\\.)+/|\{.+\})\w*|(?<=!~ )/.+/\w*},
		'a regular expression' ],
	[ qr/\.awk$/, $double, 'a text that is printed' ],
	[ qr/\.(?:ts|tsx|mjs)$/, qr/`[^`]*`|$double/, 'a text of the console; its lines would be its own' ],
);

sub unbreakable
{
	my ($path, $row, $shell) = @_;
	return 1 if grep { $path =~ $_->[0] && $row =~ $_->[1] } @unbreakable;
	for my $literal ((map { $_->[1] } grep { $path =~ $_->[0] } @whole), $shell ? qr/$double|$single/ : ())
	{
		my ($longest) = sort { $b <=> $a } map { length } $row =~ /($literal)/g;
		return 1 if $longest && length($row =~ s/^ +//r) - $longest <= 60;
	}
	return 0;
}

sub length_hits
{
	my ($path, $text) = @_;
	my @hits;
	my $line  = 0;
	my $shell = $text =~ /^#!.*sh\b/;
	for my $row (split /\n/, $text)
	{
		$line++;
		1 while $row =~ s/^(\t*)\t/$1    /;
		next if length $row <= $width || unbreakable($path, $row, $shell);
		push @hits, [ length => $line, 'line length', length($row) . ' columns' ];
	}
	return @hits;
}
1;
