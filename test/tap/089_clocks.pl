# Clocks that are wrong: workers, pawld and the command line ten minutes ahead, ten minutes behind, and set while they
# work. Only the database's clock counts, for leases, timers and retries; theirs measures
# their own intervals, which no setting of a clock changes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::Local 'timegm';

my ($faketime) = grep { -e } map { "$_/faketime/libfaketimeMT.so.1" } glob('/usr/lib/*-linux-gnu'), '/usr/lib',
	'/usr/lib64', '/usr/lib64/faketime/..';
BAIL_OUT('no libfaketime: run make deps') unless $faketime;
my %wrong = (LD_PRELOAD => $faketime, FAKETIME_DONT_FAKE_MONOTONIC => 1, FAKETIME_NO_CACHE => 1);

# Starts a program whose clock is off: by seconds, or by what a file says at each look.
sub begin_off
{
	my ($off, @program) = @_;
	local %ENV = (%ENV, %wrong, $off =~ m{^/} ? (FAKETIME_TIMESTAMP_FILE => $off) : (FAKETIME => sprintf('%+d', $off)));
	return begin_program($node::main, @program);
}

sub set_clock
{
	my ($file, $off) = @_;
	open my $out, '>', "$file.new" or die $!;
	printf $out "%+d\n", $off;
	close $out;
	rename "$file.new", $file or die $!
}

# How far a line of pawld's log is from now.
sub off_by
{
	my ($line) = @_;
	my ($y, $mo, $d, $h, $mi, $s) = $line =~ /"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)/ or die "no time in $line";
	return timegm($s, $mi, $h, $d, $mo - 1, $y) - time;
}

my $node = $node::main = new_cluster('main', with => [ 'pawl_dag' ]);
$node->safe_psql('postgres', <<'SQL');
select pawl.define('parcel', 'stateDiagram-v2
    [*] --> ready
    [*] --> waiting
    ready --> running : start
    running --> ready : expire
    running --> ready : fail
    waiting --> rung : ring after 5 minutes
    rung --> [*]
    class running owned');
create table parcels (id text primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz,
    attempts int not null default 0);
select pawl.enforce('parcels', 'state', 'parcel'), pawl.enable_log('parcels', 'state'),
    pawl.enable_queue('parcels', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.enable_timers('parcels', 'state', due => 'due'),
    pawl.set_claiming('parcels', 'state', claim => '{start}', on_expiry => 'expire', retry => '{fail}',
        backoff => '{"base": "5 minutes"}');
SQL
$node->safe_psql('postgres', fixture('../../examples/table_worker/table.sql'));
$node->safe_psql('postgres', q(select pawl.release('jobs'); drop table jobs_transitions_log cascade));
$node->safe_psql('postgres', <<'SQL');
select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs', 'state'),
    pawl.enable_queue('jobs', 'state', owner => 'worker', lease => 'lease_until', token => 'token',
        attempts => 'attempts', max_attempts => 'max_attempts'),
    pawl.enable_timers('jobs', 'state', due => 'due'),
    pawl.set_claiming('jobs', 'state', claim => array['start'], claim_order => 'id', on_expiry => 'fail',
        on_expiry_else => 'give_up', retry => array['fail'], backoff => '{"base": "300 ms", "jitter": "none"}'),
    pawl.enable_events('jobs', 'state', events => false, wake => true);
SQL
# Rows whose time was taken for past before it was.
$node->safe_psql('postgres', <<'SQL');
create table early (row text);
create function early() returns trigger language plpgsql as $$
begin
    if old.due > clock_timestamp() and new.due is null then insert into public.early values (old::text); end if;
    return null;
end $$;
create trigger early after update on parcels for each row execute function early();
create trigger early after update on jobs for each row execute function early();
SQL
# Steps that take longer than their lease: they live by heartbeats.
define_template($node,
	'{"name": "long", "steps": [{"name": "a", "handler": "sleep", "handler_options": {"seconds": 3500}}, '
	  . '{"name": "b", "handler": "sleep", "handler_options": {"seconds": 1}, "dependencies": ["a"]}]}');

my $round = 0;
sub start_long
{
	my ($count) = @_;
	++$round;
	$node->safe_psql('postgres', "select pawl_dag.start_tasks('long', array(select jsonb_build_object('round', "
		. "$round, 'n', g) from generate_series(1, $count) g))");
	return
}

# Times in the logs that are no times of the database's clock since then.
my $impossible = q(select count(*)
          from (select created_at from parcels_transitions union all select created_at from jobs_transitions union all
    select created_at from pawl_dag.step_transitions union all select created_at from pawl_dag.task_transitions) l
          where created_at not between '%s' and clock_timestamp());
my $ever = one($node, q(select clock_timestamp() - interval '1 minute'));

for my $off (600, -600)
{
	my $name = $off > 0 ? 'ahead' : 'behind';
	$node->safe_psql('postgres', <<"SQL");
insert into parcels (id, state) values ('$off kept', 'ready'), ('$off retried', 'ready'), ('$off set', 'waiting');
insert into parcels (id, state, due) values ('$off due', 'waiting', clock_timestamp() + interval '1 s');
select count(*) from pawl.claim_keys(null::parcels, array['$off kept'], processor => 'w', lease => '5 minutes');
select count(*) from pawl.claim_keys(null::parcels, array['$off retried'], processor => 'w');
select pawl.fire('parcels', '$off retried', 'fail', processor => 'w');
insert into parcels (id) values ('$off lost');
select count(*) from pawl.claim_keys(null::parcels, array['$off lost'], processor => 'w', lease => '500 ms');
insert into jobs (payload) select jsonb_build_object('n', g) from generate_series(1, 30) g;
SQL
	start_long(6);
	my $daemon = begin_off($off, 'pawld', '--log-format', 'json', '--longest-poll-ms', 200);
	my $worker = begin_off($off, 'example_worker', 'default', 8, 0.001, 2000);
	my $jobs = begin_off($off, 'example_table_worker');
	ok($node->poll_query_until('postgres',
		"select count(*) = 2 from parcels where (id, state) in (('$off lost', 'ready'), ('$off due', 'rung'))"),
		"$name: a lease and a timer that have run out are seen to");
	ok(all_ended($node, 'long'), "$name: every task ends");
	is(end_program($worker, 'TERM'), 0, "$name: a worker drains");
	like($worker->{out}, qr/^12 succeeded, 0 failed, 0 dropped/,
		"$name: leases that ran for less than their steps were kept by heartbeats");
	is(one($node, "select string_agg(distinct attempts::text, ',') from pawl_dag.steps"), '1',
		"$name: nothing was taken over");
	is(end_program($jobs), 0, "$name: a worker of a table ends when there is nothing left");
	is(one($node, "select string_agg(distinct state, ',') from jobs"), 'done,failed', "$name: all jobs have ended");
	is(one($node, 'select count(*) from early'), 0, "$name: retries and timers wait their time");
	cmp_ok(one($node, q(select count(*) from jobs_transitions where event = 'fail')), '>', 0, "$name: there were some");
	is(one($node, "select string_agg(substr(id, 1 + length('$off ')) || ' ' || state, ', ' order by id) from parcels "
		. "where id like '$off %'"),
		'due rung, kept running, lost ready, retried ready, set waiting',
		"$name: what has five minutes left keeps them");
	is(one($node, "select count(*) from pawl.claim(null::parcels, processor => 'v', batch => 10) c where c.id "
		. "like '$off %'"), 1, "$name: a retry is not claimable before its time");
	is(one($node, sprintf($impossible, $ever)), 0, "$name: the logs know the database's clock alone");
	is(end_program($daemon, 'TERM'), 0, "$name: pawld ends well") or diag($daemon->{err});
	my ($first) = split /\n/, $daemon->{err};
	cmp_ok(abs(off_by($first) - $off), '<', 120, "$name: and its clock was off indeed");
	$node->safe_psql('postgres', q(delete from jobs; select pawl.abandon('parcels', 'v')));
}

# Clocks that are set while programs work: forward and back again in the middle of steps, of sleep, and of a drain.
my $clock = PostgreSQL::Test::Utils::tempdir . '/clock';
set_clock($clock, 0);
my $daemon = begin_off($clock, 'pawld', '--log-format', 'json', '--longest-poll-ms', 200);
my $worker = begin_off($clock, 'example_worker', 'default', 8, 0.001, 2000);
for my $off (600, -600, 0)
{
	start_long(4);
	ok($node->poll_query_until('postgres',
			"select count(*) = 4 from pawl_dag.steps where name = 'a' and state = 'in_progress'"), 'steps are at work');
	set_clock($clock, $off);
	ok(all_ended($node, 'long'), "the clocks are set to $off s, and every task ends");
	$node->safe_psql('postgres', "insert into parcels (id) values ('jump $off'); select count(*) from "
		. "pawl.claim_keys(null::parcels, array['jump $off'], processor => 'w', lease => '1 ms')");
	ok($node->poll_query_until('postgres', "select state = 'ready' from parcels where id = 'jump $off'"),
		'and duties go on');
}
is(one($node, "select string_agg(distinct attempts::text, ',') from pawl_dag.steps"), '1', 'nothing was taken over');
start_long(4);
# a heartbeat shows that the handlers run: what was only claimed is given back
ok($node->poll_query_until('postgres', "select count(*) = 4 from pawl_dag.steps s where name = 'a' and "
	. "state = 'in_progress' and lease_until > (select max(created_at) from pawl_dag.step_transitions l "
	. "where l.step_uuid = s.step_uuid and to_state = 'in_progress') + interval '2.3 s'"), 'steps are at work again');
$worker->{harness}->signal('TERM');
wait_until(sub { $worker->{harness}->pump_nb; $worker->{err} =~ /draining/ }, 'the drain');
set_clock($clock, 600);
is(end_program($worker), 0, 'a drain whose clock is set forward ends well');
like($worker->{out}, qr/^28 succeeded, 0 failed, 0 dropped, 0 given back/, 'and finishes what ran');
is(one($node, "select count(*) from pawl_dag.steps where state = 'in_progress'"), 0, 'nothing stays behind');
set_clock($clock, -600);
is(end_program(begin_off($clock, 'pawld', '--once')), 0, 'pawld --once ends well');
is(end_program($daemon, 'TERM'), 0, 'and so does the other') or diag($daemon->{err});

# The command line says the same by every clock.
my $task = one($node, q(select task_uuid from pawl_dag.tasks where state = 'complete' order by 1 limit 1));
for my $command ([ 'list' ], [ 'show', $task ], [ 'history', $task ], [ 'audit', $task ],
	[ 'history', '--table', 'parcels', 'jump 600' ], [ 'verify' ])
{
	my @said = map { my $run = begin_off($_, 'pawl', '--json', @$command); end_program($run) . ' ' . $run->{out} } 600,
		0, -600;
	is($said[0], $said[1], "pawl @$command: the same ten minutes ahead");
	is($said[2], $said[1], 'the command prints the same with a clock that is ten minutes behind');
	like($said[1], qr/^0 /, 'and no error');
}
sound($node, 'in the end');
no_crash($node);
done_testing();
