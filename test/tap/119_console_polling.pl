# Tabs of many users in one browser, which has six connections; and an event stream that a proxy cuts: pages go on by
# polling, and say so.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Browser;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('main', qw(pawl_dag));
define_template($node, '{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "wait", "handler": '
	. '"shop.nothing"}]}');
my $api = begin_api($node);
my $browser = Browser->new;
my $whole = 0;
END { local ($?, $@); diag($browser->tells) if $browser && !$whole }
my $console = "http://127.0.0.1:$api->{port}/console/";
$browser->go($console);

# Seven users, each in a tab of its own
my @tabs;
for my $n (1 .. 7)
{
	push @tabs, $n == 1 ? $browser->current_tab : $browser->tab($console);
	$browser->to_tab($tabs[-1]);
	$browser->run('sessionStorage.setItem("pawl.token", arguments[0]); location.reload()',
		make_token($node, 'pawl_reader', "reader $n", '{read}'));
	ok($browser->sees("reader $n", '.who') && $browser->sees('Queues'), "tab $n shows the overview to its user");
}
my %foot;
wait_until(sub {
	%foot = ();
	for (@tabs) { $browser->to_tab($_); $foot{ $browser->text('.live') }++ }
	($foot{live} // 0) == 3 && ($foot{polling} // 0) == 4
}, 'three tabs to be live and four to poll');
is_deeply(\%foot, { live => 3, polling => 4 }, 'three of them are live, the others say that they poll');
for my $n (0 .. $#tabs)
{
	$browser->to_tab($tabs[$n]);
	$browser->run('location.hash = "#/tasks"');
	ok($browser->sees($n ? 'order' : 'No task was started', 'main'), 'tab ' . ($n + 1) . ' loads another page');
	$node->safe_psql('postgres', q{select pawl_dag.start_task('order')});
	becomes(sub { $browser->run('return document.querySelectorAll("tbody tr").length') }, $n + 1,
		'and sees a new task, live or not');
}
for (@tabs[0 .. 4]) { $browser->to_tab($_); $browser->close_tab }
for (@tabs[5, 6])
{
	$browser->to_tab($_);
	ok($browser->sees('live', '.live'), 'a tab is live when there is a connection for it');
}
$browser->close_tab;
$browser->to_tab($tabs[5]);

# A proxy that lets no stream through
$browser->devtools('Network.enable');
$browser->devtools('Network.setBlockedURLs', urls => ['*/v1/events*']);
$browser->run('location.reload()');
ok($browser->sees('polling', '.live'), 'without the stream the foot says so');
$node->safe_psql('postgres', q{select pawl_dag.start_task('order')});
wait_until(sub { $browser->run('return document.querySelectorAll("tbody tr").length') == 8 }, 'the task by polling');
is($browser->text('.live'), 'polling', 'a new task is seen by polling');
like($browser->run('return document.querySelector(".live").title'), qr/every few seconds/, 'and the title explains it');
$browser->devtools('Network.setBlockedURLs', urls => []);
ok($browser->sees('live', '.live'), 'the stream is used again when it comes through');
$whole = 1;
done_testing();
