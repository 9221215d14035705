# Functions on a table that Citus distributes: events fired through any node, history, verify and health, and work that
# is claimed on the node that has it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use CitusCluster;
use PawlTest;
use Test::More;

need_citus();
my ($coordinator, @workers) = citus_cluster(2);
my @nodes = ($coordinator, @workers);
$coordinator->safe_psql('postgres', q(
    create function may_pay(old jsonb, new jsonb) returns boolean language sql immutable as 'select true';
    select pawl.define('job', 'stateDiagram-v2
        [*] --> ready
        ready --> running : start
        running --> done : finish
        running --> ready : crashed
        running --> late : after 1 hour
        done --> [*]
        class running owned');
    create table jobs (tenant int, id int, state text not null default 'ready', owner text, lease timestamptz,
        token bigint, due timestamptz, dropped int, primary key (tenant, id));
    alter table jobs drop column dropped;
    alter table jobs add column note text;
    select create_distributed_table('jobs', 'tenant');
    insert into jobs (tenant, id) select g, 1 from generate_series(1, 24) g;
    select pawl.enforce('jobs', 'state', 'job');
    select pawl.enable_log('jobs', hash_chain => true);
    select pawl.enable_queue('jobs', owner => 'owner', lease => 'lease', token => 'token');
    select pawl.enable_timers('jobs', due => 'due');
    select pawl.set_claiming('jobs', claim => array['start'], on_expiry => 'crashed')));

# --- Events.
my $tenant = 0;
for my $node (@nodes)
{
	my $name = $node->name;
	++$tenant;
	accepted($node, "select pawl.fire('jobs', row($tenant, 1), 'start', '{\"by\": \"$name\"}', processor => 'p')",
		"an event is fired on $name");
	is(one($coordinator, "select concat_ws(' ', state, owner, token) from jobs where tenant = $tenant"),
		'running p 1', 'the row has its new state and its owner');
	is(one($node, "select string_agg(concat_ws(' ', event, processor, metadata->>'by'), ', ' order by sort_key) from "
		. "pawl.history('jobs', row($tenant, 1))"), "pawl.attach, start p $name", 'and its history says so');
	rejected($node, "select pawl.fire('jobs', row($tenant, 1), 'start', processor => 'q')", 'PW001',
		'an event that leads nowhere is rejected');
	rejected($node, "select pawl.fire('jobs', row($tenant, 1), 'finish', processor => 'q')", 'PW004',
		'a processor that does not own the row is rejected');
	rejected($node, "select pawl.fire('jobs', row($tenant, 1), 'finish', processor => 'p', token => 7)", 'PW005',
		'and a token that it does not have');
	accepted($node, "select pawl.fire('jobs', row($tenant, 1), 'finish', processor => 'p', token => 1)",
		'its owner completes it');
	is(one($node, "select pawl.state_at('jobs', row($tenant, 1), now())"), 'done', 'state_at says so');
}
accepted($coordinator, q(begin; select pawl.set_context(processor => 'context', correlation_id => 'c1');
    update jobs set state = 'running' where tenant in (10, 11, 12); commit), 'a context is set for a transaction');
is(one($coordinator, q(select string_agg(distinct concat_ws(' ', processor, correlation_id), ', ') from
    jobs_transitions_log where tenant in (10, 11, 12) and sort_key = 2)), 'context c1', 'and reaches all nodes');
is(one($coordinator, q(select string_agg(concat_ws(' ', ok, to_state, sqlstate), ', ' order by key) from
    pawl.fire_many('jobs', array[row(1, 1), row(13, 1), row(14, 1), row(99, 1)], 'start', processor => 'many'))),
	'f PW001, t running, t running, f P0002', 'events of many rows have a result each');

# --- Work is claimed on the node that has it.
rejected($coordinator, q(select * from pawl.claim(null::jobs, processor => 'c')), '0A000',
	'a node without shards claims nothing, and says so');
my %claimed;
for my $node (@workers)
{
	$claimed{ $node->name } = one($node,
		q(select count(*) from pawl.claim(null::jobs, processor => 'w', batch => 100, lease => '1 h')));
	cmp_ok($claimed{ $node->name }, '>', 0, 'a worker claims the rows of ' . $node->name);
}
is(one($coordinator, q(select count(*) from jobs where owner = 'w')), $claimed{worker1} + $claimed{worker2},
	'no row was claimed twice');
is(one($coordinator, q(select count(*) from jobs where state = 'ready')), 0, 'and none is left');
is(on_all(q(select pawl.heartbeat('jobs', 'w', '2 h')), @workers), "$claimed{worker1} $claimed{worker2}",
	'a heartbeat extends the leases of its node');
is(one($workers[0], q(select pawl.abandon('jobs', 'w'))), $claimed{worker1}, 'rows are given up per node');
is(one($workers[0], q(select count(*) from pawl.claim(null::jobs, processor => 'w', lease => '1 ms', batch => 100))),
	$claimed{worker1}, 'and claimed again');
becomes(sub { one($workers[0], q(select count(*) from jobs_transitions_log where event = 'crashed' and processor is
    null)) + $workers[0]->safe_psql('postgres', q(select done from pawl.reap())) }, $claimed{worker1},
	'expired leases are reaped on their node, without naming tables');

# --- Timers.
for my $node (@workers)
{
	$node->safe_psql('postgres', "set citus.enable_manual_changes_to_shards to on; "
		. "update $_ set due = now() - interval '1 s' where state = 'running'")
		for placements($coordinator, 'jobs', $node);
}
my $running = one($coordinator, q(select count(*) from jobs where state = 'running'));
is(one($workers[0], q(select done from pawl.fire_due('jobs'))) + one($workers[1], q(select done from pawl.fire_due())),
	$running, 'timers are fired on the node of their row');
is(one($coordinator, q(select count(*) from jobs where state = 'late')), $running, 'which is late then');

# --- Verify and health.
is(one($coordinator, q(select string_agg(v::text, E'\n') from pawl.verify('jobs') v)), '', 'verify finds nothing');
is(one($coordinator, q(select string_agg(h::text, E'\n') from pawl.health() h where status <> 'ok')), '',
	'health finds nothing');
my ($shard) = placements($coordinator, 'jobs', $workers[0]);
my $broken = $workers[0]->safe_psql('postgres', "set citus.enable_manual_changes_to_shards to on; "
	. "alter table $shard disable trigger user; update $shard set state = 'nowhere'; select count(*) from $shard");
is(one($coordinator, q(select count(*) from pawl.verify('jobs') where problem in ('unknown_state'))), $broken,
	'verify finds rows that were written behind a disabled trigger');
is(one($coordinator, q(select string_agg(check_name, ' ') from pawl.health() where status <> 'ok')), 'distributed',
	'health finds a shard whose triggers are disabled');

# --- What works on one node only.
rejected($coordinator, $_->[0], '0A000', "$_->[1] is rejected with its reason")
	for ([ q(select pawl.audit('jobs', '{"done": true}')), 'an audit' ],
	[ q(select * from pawl.prune_log('jobs', '1 day')), 'pruning' ],
	[ q(select pawl.set_placing('jobs')), 'placing' ],
	[ q(select pawl.pause('jobs')), 'a pause on the coordinator' ],
	[ q(select * from pawl.claim_keys(null::jobs, array[row(1, 1)], processor => 'c')), 'a claim by key' ]);
no_crash($_) for @nodes;
done_testing();
