# Messages of the right form whose keys the table cannot have, as a change of its key leaves them in a queue, or another
# database that shares the broker: they are rejected one by one, and the messages beside them and the worker go on.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use lib $FindBin::Bin;
use Broker;
use Messages;
use Pgmq;
use PawlTest;
use PawlPrograms;
use Test::More;

BAIL_OUT('rabbitmq-server is not there; `make deps` installs it') unless Broker::there();
my $node = new_cluster('main', with => [ 'pawl_dag' ]);
workflows($node);
$node->safe_psql('postgres', fixture('../../../examples/table_worker/table.sql'));
$node->safe_psql('postgres', q{select pawl.enable_events('jobs')});
my $broker = Broker->new;
$broker->start;
install_pgmq($node);

# What a provider calls the queue of a table; how to send to it, and how many messages wait there.
my %provider = (
	rabbitmq => {
		settings => { PAWL_PROVIDER => 'rabbitmq', PAWL_BROKER => $broker->url },
		name => sub { return $_[0] eq 'jobs' ? 'pawl.public.jobs' : 'pawl.pawl_dag.steps.default' },
		send => sub {
			my ($queue, $body) = @_;
			$body =~ s/(["\\])/\\$1/g;
			$broker->control('eval', 'rabbit_basic:publish(rabbit_misc:r(<<"work">>, exchange, <<>>), <<"'
				. qq{$queue">>, [], <<"$body">>).});
		},
		waiting => sub { return $broker->messages($_[0]) } },
	pgmq => {
		settings => { PAWL_PROVIDER => 'pgmq' },
		name => sub {
			return one($node, "select queue_name from pgmq.list_queues() where queue_name like 'pawl%$_[0]%'")
		},
		send => sub { $node->safe_psql('postgres', "select pgmq.send('$_[0]', \$m\$$_[1]\$m\$::jsonb)") },
		waiting => sub { return one($node, "select count(*) from pgmq.q_$_[0]") } });

my @wrong = ([ 'x', 'y' ], ['00000000-0000-7000-8000-00000000000a'], [ '1', '2', '3', '4' ], [''], [ '{', '"\\' ],
	[ 'x' x 3_000, 'y' ]);
sub rejections { my ($run) = @_; my $text = $run->{err}; return scalar(() = $text =~ /rejected a message whose row/g) }
for my $name ('pgmq', 'rabbitmq')
{
	my ($settings, $send, $waiting) = @{ $provider{$name} }{qw(settings send waiting)};
	my $daemon = publisher($node, $settings,
		flags => [ '--publish', 'pawl_dag.steps,jobs', '--publisher', $name ]);
	my $worker = told_worker($node, $settings);
	my $queue = $provider{$name}{name}->('steps');
	begin_tasks($node, 5);
	all_done($node, "$name, before");

	# steps: the messages come alone, and among others
	my $sent = 0;
	for my $key (@wrong)
	{
		$send->($queue, encode_json({ relation => 'pawl_dag.steps', key => $key }));
		++$sent;
		wait_until(sub { $worker->{harness}->pump_nb; rejections($worker) == $sent }, 'the rejection');
		begin_tasks($node, 2);
		all_done($node, "$name, a key of " . @$key . ' parts');
	}
	unlike($worker->{err}, qr/.{500}/, "$name: a long key does not fill the log");
	is(end_program($worker, 'TERM'), 0, "$name: the worker ends well") or diag($worker->{err});
	begin_tasks($node, 6);
	wait_until(sub { $waiting->($queue) == 6 }, 'messages that wait for a worker');
	$send->($queue, encode_json({ relation => 'pawl_dag.steps', key => $wrong[0] })) for 1 .. 3;
	$worker = told_worker($node, $settings);
	begin_tasks($node, 6);
	all_done($node, "$name, bad messages among good ones");
	once($node, "$name, bad messages among good ones");
	wait_until(sub { $waiting->($queue) == 0 }, 'no message waits any more');
	is(end_program($worker, 'TERM'), 0, "$name: the worker ends well") or diag($worker->{err});
	is(rejections($worker), 3, "$name: each bad message is rejected once") or diag($worker->{err});
	is(one($node, "select count(*) from pgmq.a_$queue"), @wrong + 3, 'PGMQ archives what is rejected')
		if $name eq 'pgmq';

	# rows of a table, whose worker ends when it is idle
	my @jobs = (program => 'example_table_worker', alone => 1, fallback => 300);
	is(end_program(told_worker($node, $settings, @jobs)), 0, "$name: a worker on a table makes its queue");
	my $table_queue = $provider{$name}{name}->('jobs');
	$send->($table_queue, encode_json({ relation => 'public.jobs', key => [$_] })) for 'x', '99999999999999999999';
	$node->safe_psql('postgres', q{insert into jobs (payload) select '{"n": 1}' from generate_series(1, 20)});
	my $jobs = told_worker($node, $settings, @jobs);
	is(end_program($jobs), 0, "$name: a worker on a table outlives bad keys") or diag($jobs->{err});
	is(one($node, q{select count(*) from jobs where state <> 'done'}), 0, "$name: every job is done");
	wait_until(sub { $waiting->($table_queue) == 0 }, 'no message waits any more');
	is(end_program($daemon, 'TERM'), 0, "$name: pawld ends well") or diag($daemon->{err});
}

# A right that the worker lacks is the fault of no message.
my %settings = (PAWL_PROVIDER => 'pgmq');
$node->safe_psql('postgres', 'create role helper login in role pawl_worker; grant usage on schema pgmq to pawl_worker;
	grant select on pgmq.meta to pawl_worker');
my $queue = $provider{pgmq}{name}->('steps');
my $worker = told_worker($node, \%settings, as => 'helper');
my $daemon = publisher($node, \%settings, flags => [ '--publisher', 'pgmq' ]);
$node->safe_psql('postgres', 'revoke update on pawl_dag.steps from pawl_worker');
begin_tasks($node, 2);
is(end_program($worker), 1, 'a worker without its rights ends');
like($worker->{err}, qr/permission denied/, 'the error names the missing right');
unlike($worker->{err}, qr/rejected a message/, 'it rejects no message');
$node->safe_psql('postgres', 'grant update on pawl_dag.steps to pawl_worker');
$worker = told_worker($node, \%settings, as => 'helper');
all_done($node, 'with the right');
is(end_program($worker, 'TERM'), 0, 'the worker ends well') or diag($worker->{err});
is(end_program($daemon, 'TERM'), 0, 'pawld ends well') or diag($daemon->{err});

sound($node, 'after all of it');
$broker->stop;
no_crash($node);
done_testing();
