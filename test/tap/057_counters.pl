# Counters of state changes and rejections: what is committed counts, what is rolled back does not, rejections always
# do. With the library loaded with the server and without.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use Test::More;

my $schema = <<'SQL';
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> ready : lost
    running --> waiting : fail
    waiting --> running : start
    running --> done : finish
    done --> [*]
    running:::owned');
select pawl.define('light', 'stateDiagram-v2
    [*] --> red
    red --> green : go
    green --> red : stop');
create table jobs (id int primary key, state text not null default 'ready', worker text, lease timestamptz,
    token bigint, due timestamptz, attempts int default 0, max_attempts int default 3);
select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs', 'state'),
    pawl.enable_queue('jobs', 'state', owner => 'worker', lease => 'lease', token => 'token', attempts => 'attempts',
        max_attempts => 'max_attempts'),
    pawl.enable_timers('jobs', 'state', due => 'due'),
    pawl.set_claiming('jobs', 'state', claim => array['start'], on_expiry => 'lost', retry => array['fail'],
        backoff => '{"base": "0 s", "jitter": "none"}');
create table lights (id int primary key, state text not null default 'red');
select pawl.enforce('lights', 'state', 'light');
insert into lights select g from generate_series(1, 10) g;
SQL

# The transitions of a machine: from>to=count.
my $moves = q{select coalesce(string_agg(format('%s>%s=%s', from_state, to_state, n), ' '
                  order by from_state nulls first, to_state), '') from
    (select from_state, to_state, sum(count) n from pawl.counters()
        where kind = 'transition' and machine = '%s' and count > 0 group by 1, 2) c};
sub moves {
	my ($node, $machine, $database) = @_;
	return one($node, sprintf($moves =~ s/%s>%s=%s/%%s>%%s=%%s/r, $machine), $database)
}
sub rejections {
	my ($node, $where) = @_;
	return one($node, "select coalesce(sum(count), 0) from pawl.counters() where kind = 'rejection' and $where")
}

my $without = new_cluster('without');
$without->safe_psql('postgres', $schema);
$without->safe_psql('postgres', "update lights set state = 'green'");
rejected($without, "update lights set state = 'blue'", 'PW001', 'a rejection where nothing is counted');
is(one($without, 'select pawl.counted_since() is null'), 't',
	'nothing is counted where pawl is not loaded with the server');
is(one($without, 'select count(*) from pawl.counters()'), '0', 'and there are no counters');
rejected($without, 'select pawl.reset_counters()', '55000', 'nothing to reset');
no_crash($without);
$without->stop;

my $node = new_cluster('main', conf => "shared_preload_libraries = 'pawl'\npawl.counter_slots = 40\n");
$node->safe_psql('postgres', $schema);
is(one($node, "select pawl.counted_since() between pg_postmaster_start_time() - interval '10 s' and now()"), 't',
	'counted since the start');
is(moves($node, 'light'), '>red=10', 'first states of rows are counted');

$node->safe_psql('postgres', "update lights set state = 'green' where id <= 4");
is(moves($node, 'light'), '>red=10 red>green=4', 'the state changes of one statement are counted');
$node->safe_psql('postgres', "begin; update lights set state = 'red' where id <= 4; rollback");
is(moves($node, 'light'), '>red=10 red>green=4', 'nothing that is rolled back');
$node->safe_psql('postgres', <<'SQL');
begin;
update lights set state = 'red' where id = 1;
savepoint a;
update lights set state = 'red' where id = 2;
savepoint b;
update lights set state = 'red' where id = 3;
release b;
update lights set state = 'green' where id = 3;
savepoint c;
update lights set state = 'red' where id = 4;
rollback to c;
release a;
savepoint d;
update lights set state = 'green' where id = 5;
rollback to d;
update lights set state = 'green' where id = 6;
commit;
SQL
is(moves($node, 'light'), '>red=10 green>red=3 red>green=6', 'savepoints: what was released, not what was rolled back');
is(one($node, "select count(*) filter (where state = 'green') from lights"), 3, 'which is what the rows say');

$node->safe_psql('postgres', "begin; update lights set state = 'green' where id = 7; prepare transaction 'yes'");
$node->safe_psql('postgres', "begin; update lights set state = 'green' where id = 8; prepare transaction 'no'");
is(moves($node, 'light'), '>red=10 green>red=3 red>green=6', 'a prepared transaction is not counted yet');
$node->safe_psql('postgres', "commit prepared 'yes'");
$node->safe_psql('postgres', "rollback prepared 'no'");
is(moves($node, 'light'), '>red=10 green>red=3 red>green=7', 'it is when it commits, and not when it is rolled back');

$node->safe_psql('postgres', <<'SQL');
do $$ begin
    for i in 1..200 loop
        begin
            update lights set state = case state when 'red' then 'green' else 'red' end where id = 9;
            if i % 2 = 0 then raise exception 'no'; end if;
        exception when raise_exception then null;
        end;
    end loop;
end $$;
SQL
is(moves($node, 'light'), '>red=10 green>red=53 red>green=57', 'two hundred subtransactions, half of them rolled back');
$node->safe_psql('postgres', 'delete from lights where id = 10');
is(moves($node, 'light'), '>red=10 green>red=53 red>green=57 red>=1', 'a deletion is counted');

# rejections
rejected($node, "update lights set state = 'blue' where id = 1", 'PW001', 'an unknown state');
rejected($node, "begin; insert into lights values (20, 'green'); commit", 'PW002', 'no first state');
is(rejections($node, "sqlstate = 'PW001' and machine = 'light'"), 1,
	'a rejection counts, though its transaction is rolled back');
is(rejections($node, "sqlstate = 'PW002' and machine = 'light'"), 1, 'by code and machine');
is(one($node, "select count(*) from pawl.fire_many('lights', array[1, 7], 'stop') where not ok"), '1',
	'one of two keys is rejected');
is(rejections($node, "sqlstate = 'PW001' and machine = 'light'"), 2, 'a rejection in a result counts too');
$node->safe_psql('postgres',
	"do \$\$ begin update lights set state = 'blue' where id = 1; exception when sqlstate 'PW001' then null; end \$\$");
is(rejections($node, "sqlstate = 'PW001' and machine = 'light'"), 3, 'and one that was caught');
rejected($node, "select pawl.define('wrong', 'no diagram')", 'PW007', 'an invalid diagram');
rejected($node, "select pawl.fire('lights', 1, 'fly')", 'PW008', 'an unknown event');
is(rejections($node, "sqlstate = 'PW007'"), 1, 'errors of definitions are counted as PW007');
is(rejections($node, "sqlstate = 'PW008'"), 1, 'unknown events are counted as PW008');
rejected($node, "select pawl.raise('PW004', 'not yours')", 'PW004', 'SQL raises');
is(rejections($node, "sqlstate = 'PW004'"), 1, 'what SQL raises');

# times
$node->safe_psql('postgres', <<'SQL');
insert into jobs select g from generate_series(1, 4) g;
select count(*) from pawl.claim(null::jobs, processor => 'w', lease => '1 hour', batch => 3);
set pawl.processor = 'w';
update jobs set state = 'done' where id = 1;
update jobs set state = 'waiting' where id = 2;
SQL
$node->safe_psql('postgres',
	"select count(*) from pawl.claim(null::jobs, processor => 'w', lease => '1 ms', batch => 10)");
$node->poll_query_until('postgres',
		"select (pawl.reap('jobs')).done >= 0 and not exists (select from jobs where lease < now())") or die;
my $by_role = q{select coalesce(sum(count), 0) || ' ' || coalesce(sum(timed), 0) from pawl.counters()
	where machine = 'job' and '%s' = any (roles)};
is(one($node, sprintf($by_role, 'claim')), '5 5', 'claims, each with the time its row had waited');
is(one($node, sprintf($by_role, 'completion')), '2 2', 'a result and a failure, each with the time its row was owned');
is(one($node, sprintf($by_role, 'retry')), '1 1', 'a retry is counted with its role');
is(one($node, sprintf($by_role, 'expiry')),
	one($node, "select format('%s %s', n, n) from (select count(*) n from jobs_transitions where event = 'lost') x"),
	'leases that ran out');
is(one($node, "select bool_and((select sum(b) from unnest(buckets) b) = timed and cardinality(buckets) = "
	. "cardinality(pawl.counter_bounds()) + 1) from pawl.counters()"), 't', 'buckets hold all times');
is(one($node, "select bool_and(abs(c.seconds - t.seconds) < 0.001) from pawl.counters() c
         join (select from_state, to_state, event, extract(epoch from sum(lasted)) seconds
	from (select *, created_at - lag(created_at) over (partition by id_ order by sort_key) lasted
		from (select subject_id id_, * from jobs_transitions) e) d
	where from_state is not null group by 1, 2, 3) t using (from_state, to_state, event) where c.machine = 'job'"), 't',
	'times are those of the log');

# other databases, machines that go and come again
$node->safe_psql('postgres', 'create database second');
$node->safe_psql('second', "create extension pawl; $schema");
is(moves($node, 'light', 'second'), '>red=10', 'each database has its own');
$node->safe_psql('postgres', "select pawl.release('lights'); delete from pawl.machine where machine = 'light'");
$node->safe_psql('postgres', "select pawl.define('light', 'stateDiagram-v2
    [*] --> off
    off --> red : on
    red --> off : cut'); create table lamps (id int primary key, state text not null default 'off');
     select pawl.enforce('lamps', 'state', 'light');
	insert into lamps values (1); update lamps set state = 'red'");
is(moves($node, 'light'), '>off=1 >red=10 green>red=54 off>red=1 red>green=57 red>=1',
	'transitions of a new version are counted apart');
$node->safe_psql('postgres', "begin; set local pawl.restoring = on; insert into lamps values (2, 'red'); commit");
is(moves($node, 'light'), '>off=1 >red=10 green>red=54 off>red=1 red>green=57 red>=1', 'a restore moves nothing');
is(one($node, "select count(*) from pawl.counters() where machine is null and sqlstate is null and count > 0"), '0',
	'all had room so far');
my $many = join "\n", map { "s$_ --> s" . ($_ + 1) . " : e$_" } 1 .. 60;
$node->safe_psql('second', "select pawl.define('long', 'stateDiagram-v2\n[*] --> s1\n$many');
     create table longs (id int primary key, state text default 's1'); select pawl.enforce('longs', 'state', 'long');
	insert into longs values (1);
	do \$\$ begin for i in 1 .. 60 loop perform pawl.fire('longs', 1, 'e' || i); end loop; end \$\$");
is(one($node, "select (select sum(count) from pawl.counters() where machine = 'long') + (select count from "
	. "pawl.counters() where kind = 'transition' and machine is null)", 'second'),
	61, 'what has no room is counted as other');
cmp_ok(one($node, "select count from pawl.counters() where kind = 'transition' and machine is null", 'second'), '>', 20,
	'and that was much');

$node->safe_psql('postgres', 'select pawl.reset_counters()');
is(moves($node, 'light'), '', 'counters are empty after a reset');
is(moves($node, 'light', 'second'), '>red=10', 'for this database alone');
is(one($node, 'select pawl.counted_since() is not null'), 't', 'and there is a beginning');
$node->safe_psql('postgres', "begin; update lamps set state = 'off' where id = 1; prepare transaction 'over'");
$node->restart;
$node->safe_psql('postgres', "commit prepared 'over'");
is(moves($node, 'light'), '', 'a restart begins at zero, for what was prepared before too');
sound($node, 'counted');
no_crash($node);
done_testing();
