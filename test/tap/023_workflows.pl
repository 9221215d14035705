# The third act of the demo, faster and with Montage alone: it kills a worker and checks its own story.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main');
program('pawl');
my ($out, $err) = ('', '');
{
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGUSER => one($node, 'select current_user'), PAWL_DEMO_SECONDS => 4,
		PAWL_WORKFLOWS => PostgreSQL::Test::Utils::tempdir());
	delete $ENV{PGDATABASE};
	IPC::Run::run([ "$FindBin::Bin/../../examples/workflows/demo" ], '<', \'', '>', \$out, '2>', \$err, IPC::Run::timeout(300));
}
is($?, 0, 'the act ends well') or diag("$out\n$err");
like($out, qr/ben is killed \(SIGKILL\) with [1-9]\d* steps in flight/, 'a worker had steps in flight when it was killed');
is(scalar(() = $out =~ /✓$/mg), 11, 'everything holds that must');
like($out, qr/Every step ran to completion exactly once, in an order that respects every edge\.$/m, 'and it says so');
unlike($out, qr/\033/, 'no colours where there is no terminal');
is(one($node, 'select string_agg(distinct state, $$,$$) from pawl_dag.steps', 'workflows'), 'complete', 'every step is complete');
sound($node, 'after the act', 'workflows');
no_crash($node);
done_testing();
