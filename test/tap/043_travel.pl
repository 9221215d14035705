# The fifth act of the demo, with faster services: it kills a conductor and checks its own story.
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
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGUSER => one($node, 'select current_user'), PAWL_DEMO_MILLISECONDS => 40);
	delete $ENV{PGDATABASE};
	IPC::Run::run([ "$FindBin::Bin/../../examples/travel/demo" ], '<', \'', '>', \$out, '2>', \$err, IPC::Run::timeout(300));
}
is($?, 0, 'the act ends well') or diag("$out\n$err");
like($out, qr/cora, one of the conductors, is killed \(SIGKILL\) with [1-9]\d* trips in flight/, 'a conductor had trips in flight when it was killed');
like($out, qr/an operator has a trip rest.*\n +trip  SUSPENDED  4 tasks/, 'a trip was suspended');
like($out, qr/^    \d\d:\d\d:\d\d\.\d{3}  ✗ hotel  RUNNING → FAILURE\n(?:.*\n)*?    .* ↻ another room  SUCCESS → RETRYING\n(?:.*\n)*?    .* ✓ trip  RUNNING → SUCCESS$/m, 'the timeline is told');
is(scalar(() = $out =~ /✓$/mg), 16, 'everything holds that must');
like($out, qr/Every trip is whole, or nothing is left of it; the one that is neither says so\.$/m, 'and it says so');
unlike($out, qr/\033/, 'no colours where there is no terminal');
sound($node, 'after the act', 'travel');
no_crash($node);
done_testing();
