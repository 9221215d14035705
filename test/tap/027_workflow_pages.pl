# What docs/dag.md shows can be pasted, in the order of the page, and every public
# function of the pack has its entry there.
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
my $page = slurp_file("$FindBin::Bin/../../docs/dag.md");
my $out = gives_what_it_says(name => 'docs/dag.md', text => $page, psql => [ 'psql', '-d', $node->connstr('postgres') ],
    folder => PostgreSQL::Test::Utils::tempdir);
like($out, qr/pack\[1\]/, 'a mapped step is there');
is(one($node, "select string_agg(state, ' ' order by task_uuid) from pawl_dag.tasks"),
    'cancelled steps_in_process pending pending', 'and it ends as the page says');

my $missing = join "\n", grep { $page !~ /^`(?:call )?pawl_dag\.\Q$_\E\(/m } split /\n/,
  one($node,
      q{select distinct p.proname from pg_proc p where p.pronamespace = 'pawl_dag'::regnamespace and p.proname !~ '^_'
      and p.proname not in ('has_no_steps', 'has_ready_steps', 'has_no_open_steps', 'has_no_failures',
          'dependencies_satisfied', 'is_retryable', 'may_be_retried', 'forget_attempts', 'engine') order by 1});
is($missing, '', 'every public function has an entry');
done_testing();
