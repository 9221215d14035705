# What docs/bulk.md shows can be pasted, in the order of the page, gives what the page
# says, and every public function of the pack is there.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Page;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
my $page = slurp_file("$FindBin::Bin/../../docs/bulk.md");
gives_what_it_says(name => 'docs/bulk.md', text => $page, psql => [ 'psql', '-d', $node->connstr('postgres') ],
    folder => PostgreSQL::Test::Utils::tempdir, exact => 1);

my $missing = join "\n", grep { $page !~ /\b\Q$_\E(?:\(|`)/ } split /\n/,
  one($node,
      q{select distinct p.proname from pg_proc p where p.pronamespace = 'pawl_bulk'::regnamespace and p.proname !~ '^_'
      and p.proname not in ('rows_are_validated', 'all_rows_succeeded', 'some_rows_failed', 'may_be_retried',
          'next_row', 'takes_rows') order by 1});
is($missing, '', 'every public function has an entry');
done_testing();
