# Nodes of Citus that are killed in a two-phase commit, at each point of it and under load. After Citus has recovered
# its prepared transactions, rows and logs of all nodes agree with each other and with what the clients were told.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CitusCluster;
use CitusWriters;
use PawlTest;
use Test::More;

need_citus();
my ($coordinator, @workers) = citus_cluster(2);
my @nodes = ($coordinator, @workers);
create_orders($coordinator);
$_->safe_psql('postgres', q(select pawl.create_consumer('c', 'beginning'))) for @workers;

# A row on each worker.
my %row;
for my $number (1 .. 60)
{
	my ($shard, $port) = shard_with($coordinator, 'orders', $number);
	$row{$port} //= $number;
}
my @rows = map { $row{ $_->port } // die 'a worker has no row' } @workers;

my %events;    # what the consumers have read, by the id of the log entry
sub read_events
{
	for my $worker (@workers)
	{
		++$events{$_} for split /\n/, $worker->safe_psql('postgres', q(select log_id from pawl.read_events('c')));
	}
	return;
}

sub all_sound
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(on_all(q(select string_agg(v::text, E'\n') from pawl.verify() v), @nodes), '  ',
		"$what: verify finds nothing on any node");
	return;
}

sub prepared { return on_all('select count(*) from pg_prepared_xacts', @_) }
sub kill_node { my ($node) = @_; $node->stop('immediate'); return; }

# A commit of this node waits when it is on disk, for a standby that does not exist.
sub hold
{
	my ($node) = @_;
	$node->safe_psql('postgres', q(alter system set synchronous_standby_names = 'nobody'));
	$node->reload;
	$node->poll_query_until('postgres', q(select current_setting('synchronous_standby_names') = 'nobody')) or die;
	return;
}
sub let_go { my ($node) = @_; $node->safe_psql('postgres', 'alter system reset synchronous_standby_names'); return; }

# A transaction over both workers that waits in its commit on one node; returns its session.
sub commit_that_waits
{
	my ($id, $node) = @_;
	hold($node);
	my $session = $coordinator->background_psql('postgres', on_error_stop => 0);
	$session->query("begin; select pawl.set_context(correlation_id => '$id')");
	$session->query("update orders set state = 'paid', version = version + 1 where number = $_") for @rows;
	$session->query_until(qr/committing/, "\\echo committing\ncommit;\n\\echo result :ERROR\n");
	$node->poll_query_until('postgres', q(select count(*) = 1 from pg_stat_activity where wait_event = 'SyncRep'))
		or die 'the commit does not wait';
	return $session;
}

# What the session was told: f for a commit, t for an error, '' if its server was lost.
sub told
{
	my ($session) = @_;
	my $said = '';
	eval { $said = $session->query_until(qr/result \w+/, "\\echo\n") };
	eval { $session->quit };
	return $said =~ /result (\w+)/ ? substr($1, 0, 1) : '';
}

sub states { return on_all('select string_agg(state, \' \' order by number) from orders where number in ('
		. join(', ', @rows) . ')', @nodes) }
sub entries
{
	my ($id) = @_;
	return one($coordinator, "select count(*) from orders_transitions_log where correlation_id = '$id'");
}
sub recover { return $coordinator->safe_psql('postgres', 'select recover_prepared_transactions()') }
sub reset_rows
{
	$coordinator->safe_psql('postgres', q(update orders set state = 'new' where state = 'paid'));
	return;
}

# --- A worker is killed when it has prepared, before the coordinator has learned it: nothing of it remains.
my $session = commit_that_waits('first', $workers[1]);
is(prepared(@workers), '1 1', 'both workers have prepared');
let_go($workers[1]);
kill_node($workers[1]);
is(told($session), 't', 'the client gets an error');
$workers[1]->start;
is(prepared($workers[1]), 1, 'the worker has its prepared transaction again');
all_sound('a transaction is in doubt');
read_events();
rejected($workers[1], "set lock_timeout = '100ms'; update orders set state = 'paid' where number = $rows[1]", '55P03',
	'its row is locked until Citus decides');
is(recover(), 1, 'Citus ends it');
is(states(), 'new new new new new new', 'the rows are as before on every node');
is(entries('first'), 0, 'and nothing is logged');
all_sound('a worker was killed before the commit');

# --- The coordinator is killed before it has decided.
$session = commit_that_waits('second', $workers[1]);
kill_node($coordinator);
is(told($session), '', 'the client does not learn what became of it');
let_go($workers[1]);
$workers[1]->reload;
is(prepared(@workers), '1 1', 'both workers have prepared');
$coordinator->start;
is(recover(), 2, 'Citus ends both');
is(states(), 'new new new new new new', 'the rows are as before');
is(entries('second'), 0, 'and nothing is logged');
all_sound('the coordinator was killed before the commit');

# --- The coordinator is killed when it has decided, and before a worker has learned it.
$session = commit_that_waits('third', $coordinator);
is(prepared(@workers), '1 1', 'both workers have prepared');
let_go($coordinator);
kill_node($coordinator);
is(told($session), '', 'the client does not learn what became of it');
read_events();
$coordinator->start;
is(states(), 'new new new new new new', 'a commit that no worker has heard of');
is(recover(), 2, 'is done by Citus');
is(states(), 'paid paid paid paid paid paid', 'the rows have changed on every node');
is(entries('third'), 2, 'and each change is logged');
all_sound('the coordinator was killed after the commit');
reset_rows();

# --- A worker is killed when the coordinator has decided, and the client learns of the commit.
$session = commit_that_waits('fourth', $coordinator);
kill_node($workers[1]);
let_go($coordinator);
$coordinator->reload;
is(told($session), 'f', 'the client is told of a commit');
is(one($workers[0], "select state from orders where number = $rows[0]"), 'paid', 'which one worker has done');
$workers[1]->start;
is(prepared($workers[1]), 1, 'the other has it prepared when it is back');
all_sound('a commit is done on one worker of two');
read_events();
is(recover(), 1, 'Citus does the rest');
is(states(), 'paid paid paid paid paid paid', 'the rows have changed on every node');
is(entries('fourth'), 2, 'and each change is logged');
all_sound('a worker was killed after the commit');
reset_rows();

# --- Clients write while nodes are killed one after the other.
start_writers($coordinator, 'w', 3);
for my $round (1 .. $ENV{PAWL_LONG} ? 10 : 2)
{
	for my $node (@nodes)
	{
		written_more(10);
		kill_node($node);
		$node->start;
		asked($coordinator, 'select recover_prepared_transactions()');
		read_events();
	}
}
written_more(10);
stop_writers();
becomes(sub { recover(); prepared(@workers) }, '0 0', 'no transaction is in doubt in the end');
my $fates = agrees_with_ledger($coordinator, 'after kills');
cmp_ok($fates->{committed}, '>', 100, 'clients have committed');
cmp_ok($fates->{rolled_back} // 0, '>', 0, 'and some have failed');
all_sound('nodes were killed while clients wrote');
is(one($coordinator, q(select string_agg(h::text, E'\n') from pawl.health() h where status <> 'ok')), '',
	'health finds nothing');

# --- Events of transactions that were in doubt are read, and once.
read_events();
is(scalar(keys %events), one($coordinator, 'select count(*) from orders_transitions_log'), 'each event is read');
is(join(' ', grep { $events{$_} > 1 } keys %events), '', 'and none twice');
no_crash($_) for @nodes;
done_testing();
