# Makes version 0.0.9, an older version for tests, of the current install script: perl older.pl pawl--0.1.0.sql FOLDER
# It lacks a column, a function with its grant and comment, and a comment of a table; FOLDER gets its install script and
# the part of the update that a person would write.
use strict;
use warnings;

my ($current, $folder) = @ARGV;
local $/;
open(my $in, '<', $current) or die "$current: $!";
my $script = <$in>;
my ($definition, $comment);
# the last column of pawl.redaction
$script =~ s/(CREATE TABLE pawl\.redaction \(.*?),\n(?:\s*--[^\n]*\n)*\s*([^\n]*)\n\);/$definition = $2; "$1\n);"/se
	or die 'no column';
$script =~ s/^CREATE FUNCTION pawl\.child_span\(.*?^\$function\$;\nCOMMENT ON FUNCTION [^']*'(?:[^']|'')*';\n//sm
	or die 'no function';
$script =~ s/^ +\('child_span', [^\n]*\n//m or die 'no grant';
$script =~ s/^COMMENT ON TABLE pawl\.redaction IS\s+'(?:[^']|'')*';\n//m or die 'no comment';
$definition =~ s/ NOT NULL$//;

sub write_to
{
	my ($name, $text) = @_;
	open(my $out, '>', "$folder/$name") or die "$folder/$name: $!";
	print $out $text;
	close($out) or die $!;
}

write_to('pawl--0.0.9.sql', $script);
write_to('by_hand.sql', "ALTER TABLE pawl.redaction ADD COLUMN $definition NOT NULL;\n");
