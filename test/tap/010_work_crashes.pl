# Backends killed in the middle of claim, complete and reap, and the postmaster under a load of them: nothing is lost,
# nothing is half done, and work goes on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', conf => "log_min_messages = log\n");
$node->safe_psql('postgres', <<'SQL');
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz,
    attempts int not null default 0, note text);
-- Stops at the given place for as long as a session holds the lock.
create function stand(place text) returns boolean language plpgsql as $$
begin
    if current_setting('test.stop', true) = place then perform pg_advisory_xact_lock_shared(1); end if;
    return true;
end $$;
create function stand_in_guard(old job, new job) returns boolean language sql as $$ select stand('guard') $$;
create function stand_in_trigger() returns trigger
    language plpgsql as $$ begin perform stand(tg_name); return new; end $$;
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start [stand_in_guard]
    running --> done : finish [stand_in_guard]
    running --> ready : expire [stand_in_guard]
    done --> [*]
    class running owned');
create trigger before_row before update on job for each row execute function stand_in_trigger();
create trigger after_row after update on job for each row execute function stand_in_trigger();
create trigger after_statement after update on job for each statement execute function stand_in_trigger();
create constraint trigger at_commit after update on job deferrable initially deferred
    for each row execute function stand_in_trigger();
select pawl.enforce('job', 'state', 'job'), pawl.enable_log('job', 'state'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.enable_timers('job', 'state', due => 'due'),
    pawl.set_claiming('job', 'state', claim => '{start}', on_expiry => 'expire'), pawl.enable_events('job', 'state');
insert into job (id) select generate_series(1, 50);
select pawl.claim(null::job, processor => 'w1', batch => 20, lease => '1 day');
select pawl.claim(null::job, processor => 'w2', batch => 10, lease => '1 ms');
-- What must be as it was: rows, records, events.
create view everything as select md5(string_agg(j::text, ',' order by j.id)) as rows,
    (select count(*) from job_transitions) as records, (select count(*) from pawl.outbox_1) as events from job j;
SQL
my $rows = q(select rows, records, events from everything);

# Owners, leases and counters agree with the states and the log.
sub in_order
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(one($node, q(select count(*) from job where (state = 'running') <> (owner is not null)
		or (owner is null) <> (lease is null))), 0, "$name: owners and leases are where they belong");
	is(one($node, q(select count(*) from job j where attempts <> (select count(*) from job_transitions l
			where l.subject_id = j.id and l.event = 'start'))), 0,
		"$name: attempts are those in the log");
	sound($node, $name);
	return;
}

sub killed
{
	my ($what, $statement, $place) = @_;
	killed_standing($node, $rows, $what, $statement, $place);
	sound($node, "$what in $place");
	return;
}

my %statement = (
	claim => "select count(*) from pawl.claim(null::job, processor => 'w3', batch => 5)",
	complete => "select count(*) from pawl.fire_many('job', array[1, 2, 3, 4], 'finish', processor => 'w1', tokens => "
	. "array[1, 1, 1, 1])",
	reap => "select * from pawl.reap('job', 5)");
killed('claim', $statement{claim}, $_) for qw(guard before_row after_row after_statement at_commit);
killed('complete', $statement{complete}, $_) for qw(before_row at_commit);
killed('reap', $statement{reap}, $_) for qw(guard after_row at_commit);
is(one($node, $statement{claim}), 5, 'afterwards: rows are claimed');
is(one($node, $statement{complete}), 4, 'claimed rows can be completed after the crash');
is(one($node, 'select done from pawl.reap(\'job\')'), 10, 'expired rows can be reaped after the crash');
is(one($node, "select pawl.abandon('job', 'w1') + pawl.abandon('job', 'w3')"), 21, 'afterwards: given up');
in_order('afterwards');

# The postmaster under load: every completed job is told of in the transaction that completes it.
$node->safe_psql('postgres', <<'SQL');
create table told (job int not null, token bigint not null, worker text not null, primary key (job, token));
insert into job (id) select generate_series(1001, 21000);
SQL
my $folder = PostgreSQL::Test::Utils::tempdir;
my %script = (
	work => <<'SQL', lost => <<'SQL', duties => <<'SQL', beat => <<'SQL');
select pawl.set_context() \gset
begin;
select count(*) from pawl.claim(null::job, processor => 'c:client_id', batch => 10, lease => '4 s');
commit;
begin;
insert into told select id, token, 'c:client_id' from job where owner = 'c:client_id'
    and lease > clock_timestamp() + interval '3 s' order by id limit 8 for update;
select count(*)
    from pawl.fire_many('job', array(select t.job from told t join job j on j.id = t.job and j.token = t.token
        where j.owner = 'c:client_id' and j.state = 'running'), 'finish', processor => 'c:client_id');
delete from told t using job j where j.id = t.job and j.state <> 'done' and t.worker = 'c:client_id';
commit;
SQL
select count(*) from pawl.claim(null::job, processor => 'lost', batch => 2, lease => '1 ms');
SQL
select done from pawl.reap('job', 50);
insert into job (id) select g from (select coalesce(max(id), 0) + 1 as next from job) m,
    generate_series(m.next, m.next + 4) g on conflict do nothing;
SQL
select pawl.heartbeat('job', 'c:client_id', '4 s');
SQL
append_to_file("$folder/$_.sql", $script{$_}) for keys %script;
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
my $complaints = '';
my $load = IPC::Run::start(['pgbench', '-n', '-f', "$folder/work.sql\@8", '-f', "$folder/lost.sql\@1", '-f',
	"$folder/duties.sql\@1", '-f', "$folder/beat.sql\@2", '-c', '6', '-j', '2', '-T', '600',
	'--max-tries=0', 'postgres'], '>', '/dev/null', '2>', \$complaints);
$node->poll_query_until('postgres', "select count(*) > 1000 from job where state = 'done'")
	or do { IPC::Run::pump_nb($load); die "the load stands still: $complaints" };
kill_server($node);
$load->finish;
$node->start;
is(one($node, "select count(*) > 1000 from job where state = 'done'"), 't', 'the postmaster was killed under load');
in_order('after the postmaster was killed');
is(one($node, q(select count(*) from job j where state = 'done' and id > 1000
		and not exists (select from told t where t.job = j.id and t.token = j.token))), 0,
	'every completed job was reported by the worker that completed it');
is(one($node, q(select count(*) from told t where not exists (select from job j where j.id = t.job
	and j.token = t.token and j.state = 'done'))), 0, 'and no worker reported another');
$node->poll_query_until('postgres', "select done = 0 and next_at is null from pawl.reap('job', 10000)")
	or diag('leases are left');
is(one($node, q(select count(*) from job where owner is not null)), 0, 'what the dead had taken comes back');
is(one($node, "select count(*) from pawl.claim(null::job, processor => 'last', batch => 1000)"), 1000,
	'and is claimed again');
in_order('in the end');

my @others = grep { /terminated by signal (?!9:)|PANIC:|TRAP:/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @others), '', 'no process died but those that were killed');
done_testing();
