# The fourth act of the demo with a quarter of its file: it kills a worker and checks its own story.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use PawlTest;
use PawlPrograms;
use Test::More;

my $all = '/usr/share/ieee-data/oui.csv';
plan skip_all => 'the package ieee-data is not installed' unless -r $all;
my $node = new_cluster('main');
program('pawl');
my $file = PostgreSQL::Test::Utils::tempdir() . '/oui.csv';
system("head -n 8001 $all > $file") == 0 or die;
my ($out, $err) = ('', '');
{
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGUSER => one($node, 'select current_user'), PAWL_OUI => $file, PAWL_DEMO_MICROSECONDS => 400);
	delete $ENV{PGDATABASE};
	IPC::Run::run([ "$FindBin::Bin/../../examples/devices/demo" ], '<', \'', '>', \$out, '2>', \$err, IPC::Run::timeout(300));
}
is($?, 0, 'the act ends well') or diag("$out\n$err");
like($out, qr/bob is killed \(SIGKILL\) with [1-9]\d* rows in flight/, 'a worker had rows in flight when it was killed');
is(scalar(() = $out =~ /✓$/mg), 15, 'everything holds that must');
like($out, qr/What could be done was done exactly once;/, 'and it says so');
unlike($out, qr/\033/, 'no colours where there is no terminal');
sound($node, 'after the act', 'devices');
no_crash($node);
done_testing();
