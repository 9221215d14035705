# What docs/bulk.md shows can be pasted, in the order of the page, gives what the page says, and every public function of the pack is there.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
my $page = slurp_file("$FindBin::Bin/../../docs/bulk.md");
my @blocks;
push @blocks, {query => $1, answer => $2} while $page =~ /^```sql\n(.*?)^```\n(?:```\n(.*?)^```\n)?/msg;
cmp_ok(scalar @blocks, '>', 9, 'the page has examples');
my $script = PostgreSQL::Test::Utils::tempdir . '/page.sql';
append_to_file($script, "$blocks[$_]{query}\n\\echo \@\@$_\n") for 0 .. $#blocks;
my ($out, $err) = ('', '');
IPC::Run::run(['psql', '-X', '-q', '-P', 'pager=off', '-P', 'footer=off', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', $script], '>', \$out, '2>', \$err);
is($err =~ s/^.*NOTICE:.*\n//mgr, '', 'all of them can be pasted');

# The widths of columns are the page's own.
sub cells {
	return join "\n", map { s/\s*\|\s*/|/gr } map { s/^\s+|\s+$//gr } grep { !/^\s*$|^[-+]+$/ } split /\n/, shift;
}
for my $number (0 .. $#blocks) {
	$out =~ s/\A(.*?)^\@\@$number\n//ms or do { fail("block $number was run"); next };
	my $got = $1;
	is(cells($got), cells($blocks[$number]{answer}), 'gives what the page says: ' . ($blocks[$number]{query} =~ /([^\n]*)/)[0]) if $blocks[$number]{answer};
}

my $missing = join "\n", grep { $page !~ /\b\Q$_\E(?:\(|`)/ } split /\n/,
  one($node, q{select distinct p.proname from pg_proc p where p.pronamespace = 'pawl_bulk'::regnamespace and p.proname !~ '^_'
      and p.proname not in ('rows_are_validated', 'all_rows_succeeded', 'some_rows_failed', 'may_be_retried', 'next_row', 'takes_rows') order by 1});
is($missing, '', 'every public function has an entry');
done_testing();
