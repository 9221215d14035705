#!/usr/bin/env perl
# A test asserts the thing itself. No test passes whatever happened, accepts two outcomes, skips for want of a file that
# belongs here, counts the examples of a page instead of comparing what they give, or refers to a document outside the
# repository.
use strict;
use warnings;
use File::Find;
use FindBin;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;

# What a line must not have, and what to write instead. Each comes with a line that has it, to show that it is found.
my @faults = (
	[ qr/(?<![\w.])(?<!# )pass\s*\(/, 'passes whatever happened: assert the value (after a wait: becomes)',
		q{pass('it came');} ],
	[ qr/\bok\s*\(\s*(?:1|true|'t')\s*[,)]/i, 'passes whatever happened', q{select ok(true, 'it came');} ],
	[ qr/\bSUCCEED\s*\(|\b(?:EXPECT|ASSERT)_TRUE\s*\(\s*true\b|\bassert True\b/, 'passes whatever happened',
		q{    SUCCEED();} ],
	[ qr/\bGTEST_SKIP\b/, 'a unit test needs nothing that could be absent', q{    GTEST_SKIP() << "no cases";} ],
	[ qr/\bcmp_ok\s*\(\s*(?:scalar\s*\(?\s*)?\@\w*blocks\b/, 'counts examples: compare what they give (Page.pm)',
		q{cmp_ok(scalar @blocks, '>', 3, 'examples');} ],
	[ qr/\bthrows_ok\s*\(.*(?:\$\$|'|\))\s*,\s*null\s*,\s*null\s*,/i, 'accepts any error: name the SQLSTATE',
		q{select throws_ok('delete from t', null, null, 'not by hand');} ],
	[ qr/\bisnt\s*\(\s*(?:end_program|outcome|code_of|says|said)\s*\(|\bisnt\s*\(\s*\$status\b/,
		'accepts any failure: name the one that is right', q{isnt(end_program($run), 0, 'it ends');} ],
	[ qr/\bok\s*\(.*\bin\s*\(\s*'[0-9A-Z]{5}'\s*,/i, 'accepts two outcomes: name the one that is right',
		q{select ok(code_of(s) in ('PW003', '42501'), 'rejected');} ],
	[ qr/\blike\s*\(.*qr\/\^?\((?:\?:)?\d{3}\|\d{3}/, 'accepts two outcomes: name the one that is right',
		q{like(status_of('/'), qr/^(403|415)$/, 'rejected');} ],
	[ qr/\bEXPECT_TRUE\s*\(.*==.*\|\|.*==/, 'accepts two outcomes: name the one that is right',
		q{    EXPECT_TRUE(code == "a" || code == "b");} ],
	[ qr/->psql\([^)]*'select 1'\)\s*==/, 'breaks when psql ends before it reads: is_ready of PawlTest.pm',
		q{wait_until(sub { $node->psql('postgres', 'select 1') == 0 }, 'the server');} ],
	[ qr/\bcount\(\*\) from pawl\w*\.verify\(.*,\s*'?0(?:::bigint)?'?\s*,/, 'hides what is wrong: compare the rows with none',
		q{is(one($node, 'select count(*) from pawl_saga.verify()'), 0, 'all is in order');} ],
	[ qr{\.\./shared\b(?!/\w+\.psql)|\bDESIGN(?:\.md)?\s+\d|\bSTYLE\.md\b|(?<![\w/.])reference/\w|\bseed-\w+\.txt},
		'refers to a document outside the repository', q{-- every path of DESIGN 3.2} ],
);
for my $fault (@faults)
{
	my ($pattern, $why, $example) = @$fault;
	like($example, $pattern, "found: $why");
}

my @files;
my $read = qr/\.(?:pl|pm|t|sql|psql|spec|cpp|hpp|py|md)$/;
find({ no_chdir => 1, wanted => sub { push @files, $File::Find::name if -f && /$read/ } }, 'test');
my @found;
for my $file (sort grep { $_ ne 'test/repository/proofs.t' } @files)
{
	open(my $in, '<', $file) or die "$file: $!";
	while (my $line = <$in>)
	{
		for my $fault (@faults) { push @found, "$file:$.: $fault->[1]: $line" if $line =~ $fault->[0] }
	}
}
cmp_ok(scalar @files, '>', 300, 'the tests are read');
is(join('', @found), '', 'every test proves something of its own');

# What test/slowest names is there.
open(my $in, '<', 'test/slowest') or die $!;
my @slow = grep { /^[^#]/ } map { s/\s+\z//r } <$in>;
is(join(' ', grep { !-e } @slow), '', 'test/slowest names files');
done_testing();
