# The console's own unit tests, and the OpenAPI document against the official meta-schema: both run by Node, with the
# packages of the console's lock file.
use strict;
use warnings;
use FindBin;
use File::Temp;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $work = "$top/build/programs/client/console/work";
plan skip_all => 'pawld was built without its console' unless -d "$work/node_modules/esbuild";

my $units = `cd $work && node scripts/test.mjs --test-reporter=tap 2>&1`;
is($?, 0, 'the unit tests of the console pass') or diag($units);
my ($passed) = $units =~ /^# pass (\d+)$/m;
cmp_ok($passed // 0, '>', 10, 'and there are some') or diag($units);

sub validated
{
	my ($file) = @_;
	my $said = `node $work/node_modules/\@seriousme/openapi-schema-validator/bin/validate-api-cli.js $file 2>&1`;
	return ($said =~ /"valid": true/ && $? == 0 ? 'valid' : 'not valid', $said);
}

my $document = "$top/client/http/openapi.json";
my ($answer, $said) = validated($document);
is($answer, 'valid', 'the OpenAPI document is one by the official meta-schema of 3.1') or diag($said);

open(my $in, '<', $document) or die $!;
my $text = do { local $/; <$in> };
my %broken = (
	'a response without a description' => sub { $_[0] =~ s/"200": \{"description": "done", /"200": {/r },
	'a parameter in no place' => sub { $_[0] =~ s/"in": "query"/"in": "nowhere"/r },
	'a reference to nothing' => sub { $_[0] =~ s{"#/components/parameters/cursor"}{"#/components/parameters/curser"}r },
	'no version' => sub { $_[0] =~ s/"openapi": "3.1.0",//r });
for my $what (sort keys %broken)
{
	my $changed = $broken{$what}->($text);
	isnt($changed, $text, "$what can be made");
	my $file = File::Temp->new(SUFFIX => '.json');
	print $file $changed;
	close $file;
	is((validated($file->filename))[0], 'not valid', "$what is noticed");
}
done_testing();
