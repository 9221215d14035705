#!/usr/bin/env perl
# Words, lines and comments keep to one style (Language.pm): no word outside the glossary, no line over 120 columns, no
# incomplete comment of a public function, no hard line break in Markdown, no ordinal in a file's name.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Language;
use Test::More;

chdir "$FindBin::Bin/../.." or die $!;
binmode $_, ':encoding(UTF-8)' for Test::More->builder->output, Test::More->builder->failure_output;

# First the checker itself: what it must find, and what it must leave alone.
sub found
{
	my ($path, $text) = @_;
	return join '|', map { $_->[2] } Language::word_hits($path, $text, Language::language_of($path, $text))
}
is(found('src/a.cpp', "// he waits\nint x = 1;"), 'he, him, his', 'a comment in C++');
is(found('src/a.cpp', 'const char* he = "1";  // "he"'), 'name he|he, him, his',
	'a variable, and a comment with quotes');
is(found('src/a.cpp', 'int lastHop; auto x = std::move(y);'), 'name hop', 'a part of an identifier; std::move is none');
is(found('src/a.cpp', 'throw Error("nobody is named who claims");'), 'nobody|who', 'a message');
is(found('src/a.cpp', 'say("nobody");'), '', 'one word in quotes is a value');
is(found('src/a.cpp', 'R"(select 1 -- an arrow)"'), 'arrow', 'a raw string');
is(found('sql/pawl/a.sql', "COMMENT ON TABLE t IS 'the journal\nof rows'; -- one hop\nSELECT 'door';"), 'journal|hop',
	'COMMENT ON, a comment, and a value');
is(found('sql/pawl/a.sql', "CREATE FUNCTION f() AS \$\$ DECLARE who text; BEGIN RAISE EXCEPTION 'nobody is "
	. "there'; END \$\$;"), 'name who|nobody', 'a variable and a message in a body');
is(found('sql/pawl/a.sql', "SELECT \$\$ a --> b : hop \$\$;"), 'name hop', 'a transition of a diagram is no comment');
is(found('test/pgtap/a.sql', "select is(1, 1, 'the rows that nobody has seen'); -- refused"), 'nobody|refuse, refusal',
	'what a test is called');
is(found('test/pgtap/a.sql', "select 'delete from t where owner = ''nobody'''; set role nobody;"), '',
	'data of a test');
is(found('test/pgtap/a.sql', 'create role nobody; create or replace function mx.refuse() returns int'),
	'name nobody|name refuse', 'what a test declares');
is(found('test/pgtap/a.sql', "select is(a, b, 'UPDATE of a row that nobody owns');"), 'nobody',
	'a description that looks like SQL');
is(found('test/tap/a.pl', "ok(\$x, 'after DELETE of the hop') or diag('x');"), 'hop', 'a description in Perl');
is(found('test/pgtap/a.sql', "select is(1, 1, 'the rows that no'\n    'body has seen');"), 'nobody',
	'a literal on two lines');
is(found('docs/a.md', "The door.\n\n```sql\nselect door;\n```\nAnd `door`.\n"), 'door', 'Markdown without its code');
is(found('docs/a.md', "Users who read it by hand, on the other hand.\n"), '', 'people are who, and have hands');
is(found('docs/a.md', "The row who waits.\n"), 'who', 'rows are not');
is(found('client/a.tsx', "// an edge\nconst f = () => 'edge';"), 'edge', 'a comment in TypeScript');
is(found('sql/pawl_x/a.mmd', "%% What nobody has begun.\n    a --> b : hop\n"), 'nobody',
	'a comment in a diagram, and none of its names');
is(found('scripts/a.py', "x = 1  # his\n"), 'he, him, his', 'a comment in Python');
is(scalar(Language::wrap_hits("One sentence. Another.\n")), 1, 'two sentences on a line of Markdown');
is(scalar(Language::wrap_hits("One sentence that\nends here.\n")), 1, 'a sentence on two lines');
is(join('|', map { $_->[2] } Language::decision_hits("### Why\nBecause.\n### How\n*2026-11-20.*\nSo.\n")), 'no date',
	'a decision without a date');
sub too_long { return scalar(my @hits = Language::length_hits(@_)) }
is(too_long('a.sql', 'x' x 121), 1, 'a line that is too long');
is(too_long('a.sql', "\t" . 'x' x 116), 0, 'a tab has four columns');
is(too_long('a.sql', "\t" . 'x' x 117), 1, 'and counts');
is(too_long('a.sql', '\\set x ' . 'x ' x 70), 0, 'a command of psql, which has one line');
is(too_long('a.sql', "select '" . 'x ' x 70 . "'"), 1, 'a literal of SQL can be continued');
is(too_long('a.sql', "    '" . 'x' x 130 . "'"), 0, 'not where it is one word');
is(too_long('a.pl', "like(\$x, qr/" . 'x ' x 60 . "/, 'name');"), 0, 'a regular expression');
is(too_long('a.pl', "is(\$x, '" . 'x ' x 60 . "', 'name');"), 1, 'a literal of Perl can be continued');
is(too_long('a', "#!/bin/sh\necho \"" . 'x ' x 60 . '"'), 0, 'a text that a script prints');
is(too_long('a', "#!/bin/sh\n" . 'word ' x 25 . '"' . 'x ' x 10 . '"'), 1, 'but not the words before it');
my $function = "CREATE FUNCTION pawl.f(a integer) RETURNS TABLE (b integer)\nLANGUAGE sql AS 'select a';\n";
my $complete = "a: how many. b: the same. Errors: none. Privileges: public. Example: select * from pawl.f(1)";
is(scalar(my @a = Language::comment_hits('sql/pawl/a.sql', $function, {})), 1, 'a public function without a comment');
is(scalar(my @b = Language::comment_hits('sql/pawl/a.sql', $function, { 'pawl.f' => [$complete] })), 0,
	'a complete comment');
for my $part ('a: how', 'b: the', 'Errors:', 'Privileges:', 'pawl.f\\(')
{
	my $less = $complete =~ s/$part//r =~ s/\ba\b/one/r;
	is(scalar(my @c = Language::comment_hits('sql/pawl/a.sql', $function, { 'pawl.f' => [$less] })), 1,
		"a comment without \"$part\"");
}

my $hits = Language::hits();
my @found;
for my $path (sort keys %$hits)
{
	push @found, map { "$path:$_->[1]: $_->[2]: $_->[3]" } @{ $hits->{$path} };
}
is(scalar @found, 0, 'every file is clean') or diag(join "\n", @found[ 0 .. ($#found < 50 ? $#found : 50) ]);
done_testing();
