# Random sessions under kills, crashes, a failover: their history, checked offline by a program that shares nothing with
# pawl (test/history), keeps the three promises. PAWL_LONG=1: 10,000 kills. PAWL_SEED: another history.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $programs = "$FindBin::Bin/../history";
my $first = $ENV{PAWL_SEED} // 1;
my $kills_wanted = $ENV{PAWL_LONG} ? 10_000 : 0;
my $requests = $ENV{PAWL_LONG} ? 60_000 : 4_000;
my ($pause, $crashes) = $ENV{PAWL_LONG} ? ('0.01', '0.002') : ('0.05', '0.1');
my $conf = "max_prepared_transactions = 64\nmax_connections = 60\nrestart_after_crash = "
	. "on\nwal_receiver_status_interval = 100ms\n"
	. "wal_retrieve_retry_interval = 50ms\nlog_min_messages = panic\n";

my ($kills, $rounds) = (0, 0);
while ($rounds < 2 || $kills < $kills_wanted)
{
	my $seed = $first + $rounds++;
	$kills += round_of($seed, $seed % 2 ? 'stored' : 'derived');
}
note("$kills kills in $rounds rounds");
done_testing();

# Sessions at work on a primary that has a synchronous standby; the primary dies in the middle, the standby is promoted.
sub round_of
{
	my ($seed, $log) = @_;
	my $primary = new_cluster("primary$seed", conf => $conf, streaming => 1);
	$primary->backup('copy');
	my $standby = PostgreSQL::Test::Cluster->new("standby$seed");
	$standby->init_from_backup($primary, 'copy', has_streaming => 1);
	$standby->start;
	$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'");
	$primary->reload;
	my ($history, $final, $until) = map { "$PostgreSQL::Test::Utils::tmp_check/$_.$seed" } qw(history final until);
	my $dsn = sprintf 'host=%s,%s port=%d,%d dbname=postgres target_session_attrs=read-write', $primary->host,
		$standby->host, $primary->port, $standby->port;
	my @run = ('/usr/bin/python3', "$programs/run.py");
	my @same = ('--dsn', $dsn, '--seed', $seed);
	PostgreSQL::Test::Utils::system_or_bail(@run, 'setup', @same, '--log', $log);

	my ($told, $out, $err) = ('', '', '');
	my $sessions = IPC::Run::start([ @run, 'sessions', @same, '--history', $history, '--until', $until, '--pause',
		$pause, '--crashes', $crashes ], '<', \'', '>', \$told, '2>', \$err);
	# sessions that all ended would be waited for in vain
	my $lines = sub {
		die "the sessions ended: $told$err" unless $sessions->pumpable;
		return -e $history ? 0 + `wc -l < '$history'` : 0;
	};
	wait_until(sub { $lines->() > $requests }, 'the sessions to work');
	$primary->stop('immediate');
	$standby->promote;
	wait_until(sub { $lines->() > 2 * $requests }, 'the sessions to work after the failover');
	open(my $flag, '>', $until) or die "$until: $!";
	close $flag;
	$sessions->finish;
	is($sessions->result(0), 0, "seed $seed, $log log: the sessions ended") or diag($err);
	like($told, qr/^\d+ kills, \d+ of them crashes$/, "seed $seed: $told" =~ s/\n//r);
	my $finished = IPC::Run::run([ @run, 'finish_all', @same, '--history', $history, '--final', $final ], '<', \'', '>',
		\$out, '2>', \$err);
	ok($finished, "seed $seed: what was left open is finished") or diag($err);

	IPC::Run::run([ '/usr/bin/python3', "$programs/check.py", $seed, $history, $final ], '>', \my $verdict);
	is($? >> 8, 0, "seed $seed: the history keeps the three promises: " . ($verdict =~ /([^\n]*)\n\z/)[0])
		or diag($verdict);
	IPC::Run::run([ '/usr/bin/python3', "$programs/plant.py", $seed, $history, $final ], '>', \my $planted);
	is($? >> 8, 0, "seed $seed: the checker finds the faults that are planted in it") or diag($planted);
	note("seed $seed: $verdict$told");
	is(one($standby, 'select * from pawl.verify()'), '', "seed $seed: and pawl.verify agrees");
	$standby->stop;
	return $told =~ /^(\d+) kills/ ? $1 : 0;
}
