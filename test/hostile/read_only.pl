# A database that cannot be written: pawld says so once, waits longer and longer, is not
# ready, and goes on when it can be written again.
use strict;
use warnings;
use IPC::Run;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = api_cluster('primary', qw(pawl_dag pawl_bulk pawl_saga));
define_template($node,
	'{"name": "work", "identity_strategy": "always_unique", "steps": [{"name": "a", "handler": "sleep"}]}');
my $operator = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my @daemon = ('--http', '127.0.0.1:0', '--longest-poll-ms', '20', '--gauges-ms', '100', '--boards', 'default');

sub port_of
{
	my ($run) = @_;
	wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /listening port=\d+/ }, 'the daemon to listen');
	return ($run->{err} =~ /listening port=(\d+)/)[0]
}
# In three seconds, a daemon that looks fifty times a second says nothing twice.
sub is_quiet
{
	my ($run, $what) = @_;
	$run->{harness}->pump_nb;
	my $from = length $run->{err};
	for (1 .. 30) { select undef, undef, undef, 0.1; $run->{harness}->pump_nb }
	my @lines = map { s/^\S+ //r } split /\n/, substr $run->{err}, $from;
	my %said;
	is(join("\n", grep { $said{$_}++ } @lines), '', "$what: no line comes twice");
	cmp_ok(scalar @lines, '<', 100, "$what: few lines");
	return;
}

subtest 'made read-only' => sub {
	my $api = begin_api($node, @daemon);
	my $port = port_of($api->{run});
	wait_until(sub { (http_get($port, '/readyz'))[0] == 200 }, 'the daemon to be ready');
	# two packs have a duty of this name
	wait_until(sub { $api->{run}{harness}->pump_nb; 2 == (() = $api->{run}{err} =~ /duty="time_out_tasks"/g) },
		'the daemon to find its duties');
	$node->safe_psql('postgres', 'alter system set default_transaction_read_only = on');
	$node->reload;
	wait_until(sub { (http_get($port, '/readyz'))[0] == 503 }, 'the daemon not to be ready');
	like((http_get($port, '/readyz'))[1], qr/can write nothing: the database is read-only/, 'it says why');
	is((http_get($port, '/healthz'))[0], 200, 'and is alive');
	is_quiet($api->{run}, 'read-only');
	is(ask('POST', '/v1/tasks', token => $operator, body => { name => 'work' })->{status}, 503,
		'the API says that it cannot, too');
	is(ask('GET', '/v1/tasks', token => $operator)->{status}, 200, 'and what is there can be read');
	$node->safe_psql('postgres', 'set transaction_read_only = off; set default_transaction_read_only = off; alter '
		. 'system reset default_transaction_read_only');
	$node->reload;
	wait_until(sub { (http_get($port, '/readyz'))[0] == 200 }, 'the daemon to be ready again');
	is(ask('POST', '/v1/tasks', token => $operator, body => { name => 'work' })->{status} < 300, 1,
		'and so does the API');
	is(end_program($api->{run}, 'TERM'), 0, 'it ends');
};

subtest 'a standby that is promoted' => sub {
	$node->append_conf('postgresql.conf', "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on");
	$node->restart;
	$node->backup('copy');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'copy', has_streaming => 1);
	$standby->start;
	my $run = begin_program($standby, 'pawld', @daemon);
	my $port = port_of($run);
	wait_until(sub { (http_get($port, '/readyz'))[1] =~ /the server is a standby/ }, 'the daemon to know where it is');
	is_quiet($run, 'standby');
	$node->stop;
	$standby->promote;
	wait_until(sub { (http_get($port, '/readyz'))[0] == 200 }, 'the daemon to be ready');
	start_tasks($standby, 'work', 1);
	ok($standby->poll_query_until('postgres', "select exists (select from pawl_dag.steps where state = 'enqueued')"),
		'and to do its duties');
	is(end_program($run, 'TERM'), 0, 'it ends');
	$standby->stop;
};

# What is not of the type of its setting is no setting.
for my $wrong ('database=1', 'boards="x"', 'skip=[[["x"]]]', 'wake="true"', 'batch="5"', 'publish=[1]',
	'api_proxies=["x"]')
{
	my $file = PostgreSQL::Test::Utils::tempdir() . '/pawld.toml';
	append_to_file($file, "$wrong\n");
	my $run = begin_program_alone($file);
	is($run->[0], 2, "--check rejects $wrong");
	like($run->[1], qr/^pawld: .*\Q@{[ $wrong =~ s{=.*}{}r ]}\E/, 'by name');
}

sub begin_program_alone
{
	my ($file) = @_;
	my ($in, $out, $err) = ('', '', '');
	my $harness = IPC::Run::start([ program('pawld'), '--config', $file, '--check' ], \$in, \$out, \$err);
	$harness->finish;
	return [ $harness->result(0), $err ];
}
done_testing();
