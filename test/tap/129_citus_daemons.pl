# Duties of tables on Citus: a pawld for each node reaps leases and fires timers of the rows that the node has, also on
# a node that got its shards later; and consumers read the events of each node.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CitusCluster;
use PawlPrograms;
use PawlTest;
use Test::More;

need_citus();
my ($coordinator, @workers) = citus_cluster(2);
$coordinator->safe_psql('postgres', q(
    create role keeper login in role pawl_operator;
    select pawl.define('job', 'stateDiagram-v2
        [*] --> ready
        ready --> running : start
        running --> done : finish
        running --> ready : crashed
        done --> [*]
        class running owned');
    select pawl.define('visit', 'stateDiagram-v2
        [*] --> waiting
        waiting --> late : wait after 1 hour
        late --> [*]');
    create table jobs (id bigint primary key, state text not null default 'ready', owner text, lease timestamptz,
        token bigint);
    create table visits (id bigint primary key, state text not null default 'waiting', due timestamptz);
    select create_distributed_table('jobs', 'id'), create_distributed_table('visits', 'id');
    select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs');
    select pawl.enable_queue('jobs', owner => 'owner', lease => 'lease', token => 'token');
    select pawl.set_claiming('jobs', claim => array['start'], on_expiry => 'crashed');
    select pawl.enforce('visits', 'state', 'visit'), pawl.enable_log('visits');
    select pawl.enable_timers('visits', due => 'due');
    select pawl.enable_events('visits');
    grant select, update on jobs, visits to keeper;
    insert into jobs select g from generate_series(1, 40) g;
    insert into visits select g from generate_series(1, 40) g));
$_->safe_psql('postgres', q(select pawl.create_consumer('c', 'beginning'))) for @workers;

sub daemon
{
	my ($node, @options) = @_;
	local $PawlPrograms::as = 'keeper';
	return begin_program($node, 'pawld', '--longest-poll-ms', 100, @options);
}

# --- A daemon for each worker.
my $claimed = 0;
$claimed += $_->safe_psql('postgres', q(select count(*) from pawl.claim(null::jobs, processor => 'w', batch => 100,
    lease => '1 ms'))) for @workers;
is($claimed, 40, 'all rows are claimed');
my @daemons = map { daemon($_) } @workers;
becomes(sub { one($coordinator, q(select count(*) from jobs where state = 'ready')) }, 40,
	'daemons of the workers reap all leases');

# --- A node gets shards that were not written there yet; then its timers are due.
push @workers, citus_node('worker3');
add_node($coordinator, $workers[-1]);
push @daemons, daemon($workers[-1]);
$coordinator->safe_psql('postgres', q(select citus_rebalance_start()));
$coordinator->safe_psql('postgres', q(select citus_rebalance_wait()));
cmp_ok(scalar(placements($coordinator, 'visits', $workers[-1])), '>', 0, 'a node that joined has shards');
$workers[-1]->safe_psql('postgres', q(select pawl.create_consumer('c', 'beginning')));
for my $worker (@workers)
{
	$worker->safe_psql('postgres', "set citus.enable_manual_changes_to_shards to on; set session_replication_role = "
		. "replica; update $_ set due = now() - interval '1 s'") for placements($coordinator, 'visits', $worker);
}
becomes(sub { one($coordinator, q(select count(*) from visits where state = 'late')) }, 40,
	'timers of all nodes are fired');
for my $daemon (@daemons)
{
	is(end_program($daemon, 'TERM'), 0, 'a daemon ends');
	unlike($daemon->{err}, qr/ERROR|error/, 'and had no error');
}

# --- The events of each node.
my $events = 0;
for my $worker (@workers)
{
	$events += $worker->safe_psql('postgres', q(select count(*) from pawl.read_events('c')));
}
is($events, one($coordinator, 'select count(*) from visits_transitions_log'),
	'consumers of the nodes have read each event');
no_crash($_) for $coordinator, @workers;
done_testing();
