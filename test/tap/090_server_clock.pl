# The server's own clock is set, forward and back: timers fire once, leases and fencing tokens hold, logs do not run
# backwards, events come once, and what sessions remember of an index that is full of dead
# rows does not outlive the times it was remembered by.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($faketime) = grep { -e } map { "$_/faketime/libfaketimeMT.so.1" } glob('/usr/lib/*-linux-gnu'), '/usr/lib',
	'/usr/lib64';
BAIL_OUT('no libfaketime: run make deps') unless $faketime;
my $clock = PostgreSQL::Test::Utils::tempdir . '/clock';
chmod 0755, PostgreSQL::Test::Utils::tempdir;

sub set_clock {
	my ($off) = @_;
	open my $out, '>', "$clock.new" or die $!;
	printf $out "%+d\n", $off;
	close $out;
	rename "$clock.new", $clock or die $!;
	return
}
set_clock(0);
my $node = do {
	local %ENV = (%ENV, LD_PRELOAD => $faketime, FAKETIME_DONT_FAKE_MONOTONIC => 1, FAKETIME_NO_CACHE => 1,
		FAKETIME_TIMESTAMP_FILE => $clock);
	new_cluster('main', conf => "autovacuum = off\n");
};
sub off_by { return one($node, 'select round((extract(epoch from clock_timestamp()) - ' . time . ') / 60)::int') }

$node->safe_psql('postgres', <<'SQL');
select pawl.define('alarm', 'stateDiagram-v2
    [*] --> set
    set --> rung : ring after 5 minutes
    rung --> set : wind
    rung --> [*]');
select pawl.define('work', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> ready : expire
    done --> [*]
    class running owned');
create table alarm (id int primary key, state text not null default 'set', due timestamptz);
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0);
select pawl.enforce('alarm', 'state', 'alarm'), pawl.enable_log('alarm', 'state', hash_chain => true),
    pawl.enable_timers('alarm', 'state', due => 'due'), pawl.enable_events('alarm', 'state');
select pawl.enforce('job', 'state', 'work'), pawl.enable_log('job', 'state'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.set_claiming('job', 'state', claim => '{start}', on_expiry => 'expire'), pawl.enable_events('job', 'state');
select pawl.create_consumer('c');
SQL
my $fired = 'select done from pawl.fire_due($$alarm$$)';
my $reaped = 'select done from pawl.reap($$job$$)';

# Timers
is(off_by(), 0, 'the clock is right');
$node->safe_psql('postgres', 'insert into alarm (id) select generate_series(1, 100)');
is(one($node, $fired), 0, 'nothing is due');
set_clock(600);
is(off_by(), 10, 'the clock is set forward');
is(one($node, $fired), 100, 'five minutes have passed for all of them');
is(one($node, $fired), 0, 'a timer that was fired is not fired again');
set_clock(0);
is(off_by(), 0, 'the clock is set back');
is(one($node, $fired), 0, 'and they do not ring again');
is(one($node, 'select count(*) from pawl.fire_many($$alarm$$, array(select generate_series(1, 10)), $$wind$$) '
	. 'f where f.ok'), 10, 'ten are wound');
is(one($node, $fired), 0, 'they wait five minutes from now');
set_clock(600);
is(one($node, $fired), 10, 'ten timers fire once the clock is set forward again');
set_clock(0);
is(one($node, q(select string_agg(n || ' ' || c, ', ' order by n)
	from (select n, count(*) as c from (select count(*) as n from alarm_transitions where event = 'ring'
	group by subject_id) x group by n) y)),
	'1 90, 2 10', 'each as often as it was set');

# Leases
sub claim { my ($processor, $lease) = @_; return one($node, "select string_agg(c.id || ' ' || c.token, ',') from "
	. "pawl.claim(null::job, processor => '$processor', lease => '$lease') c") }
$node->safe_psql('postgres', 'insert into job (id) select generate_series(1, 3)');
is(claim('slow', '60 s'), '1 1', 'claimed for a minute');
set_clock(600);
is(one($node, $reaped), 1, 'which is over when the clock is set forward');
set_clock(0);
is(claim('other', '60 s'), '1 3', 'another takes it when it is set back');
my $late = sqlstate_of($node,
	q(set pawl.processor = 'slow'; set pawl.token = 1; update job set state = 'done' where id = 1));
is($late, 'PW005', 'and the first is rejected, though its minute is not over by this clock');
is(sqlstate_of($node, q(set pawl.processor = 'other'; set pawl.token = 3; update job set state = 'done' where id = 1)),
	'', 'the other is not');
set_clock(600);
is(claim('early', '60 s'), '2 1', 'claimed ten minutes ahead');
set_clock(0);
is(one($node, $reaped), 0, 'the job keeps its owner for eleven minutes');
is(one($node, q(select pawl.heartbeat('job', 'early'))), 1, 'the owner may extend the lease');
is(sqlstate_of($node, q(set pawl.processor = 'early'; update job set state = 'done' where id = 2)), '',
	'and finish it');

# What a session remembers: dead leases lie before those that have run out.
my $old = $node->background_psql('postgres');
$old->query_safe('begin isolation level repeatable read; select 1');
my $reaper = $node->background_psql('postgres');
set_clock(600);
$node->safe_psql('postgres', <<'SQL');
insert into job (id) select generate_series(1001, 41000);
select count(*)
    from generate_series(1, 4) g, pawl.claim(null::job, processor => 'mass', lease => '1 s', batch => 9999 + g * 0) c;
set session_replication_role = replica;
update job set state = 'ready', owner = null, lease = null where owner = 'mass' and id > 2000;
SQL
$node->safe_psql('postgres', 'set session_replication_role = replica; update job set lease = clock_timestamp() + $$1 '
	. 'hour$$ where owner = $$mass$$');
$reaper->query_safe($reaped) for 1 .. 2;
set_clock(0);
$node->safe_psql('postgres', q(set session_replication_role = replica; update job
	set lease = clock_timestamp() - interval '1 ms' where owner = 'mass' and id between 1001 and 1100));
is($reaper->query_safe($reaped), 100, 'a session that has read dead leases reaps by the clock as it is now');
$reaper->quit;
$old->quit;

# Events, each once; and logs
is(one($node,
	q(select count(*) || ' ' || count(distinct (e.relation, e.key, e.sort_key)) from pawl.read_events('c', 100000) e)),
	one($node, q(select n || ' ' || n from (select (select count(*) from alarm_transitions) + (select count(*)
	from job_transitions) as n) x)), 'every entry has one event');
is(one($node, q(select count(*) from (select created_at < lag(created_at) over (partition by subject_id
		order by sort_key) as back from alarm_transitions) x where back)), 0,
	'no log runs backwards');
is(one($node, q(select * from pawl.verify('alarm'))), '', 'the log of the timers is whole');
no_crash($node);
done_testing();
