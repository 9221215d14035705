# Backends killed in the middle of claims, reports, decisions, retries and signals, and the postmaster under a load of
# flows: nothing is half done, every flow ends, and what a SQL task wrote stands once. A job that is tied to a session
# comes back when the session is killed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', conf => "log_min_messages = log\n", with => [ 'pawl_saga' ]);
$node->safe_psql('postgres', <<'SQL');
-- Stops at the given place for as long as a session holds the lock.
create function stand() returns trigger language plpgsql as $$
begin
    if current_setting('test.stop', true) = tg_table_name || ' ' || tg_name then
        perform pg_advisory_xact_lock_shared(1);
    end if;
    return new;
end $$;
create trigger a_before before update on pawl_saga.tasks for each row execute function stand();
create trigger z_after after update on pawl_saga.tasks for each statement execute function stand();
create trigger z_after after update on pawl_saga.retries for each statement execute function stand();
create trigger z_after after update on pawl_saga.flows for each statement execute function stand();
create constraint trigger at_commit after update on pawl_saga.tasks deferrable initially deferred
    for each row execute function stand();
create function define(name text, steps text, more text default '', shape text default 'linear') returns uuid
    language sql as
$$ select pawl_saga.define(format('{"flow": "%s", "name": "%s"%s, "children": [%s]}', shape, name, more, steps)::jsonb)
$$;
select define('f', '{"task": "a"}, {"task": "b"}, {"task": "c", "signal": "go"}',
    ', "retry": {"retry": "Times", "name": "again", "attempts": 2}');
create view everything as
    select md5((select string_agg(t::text, '|' order by t.flow_uuid, t.node) from pawl_saga.tasks t)
        || (select string_agg(t::text, '|' order by t.flow_uuid, t.node) from pawl_saga.retries t)
    || (select string_agg(t::text, '|' order by t.flow_uuid) from pawl_saga.flows t)
            || (select string_agg(t::text, '|' order by t.flow_uuid, t.node) from pawl_saga.junctions t)) as rows,
    (select count(*) from pawl_saga.timeline) as records, (select count(*) from pawl_saga.signals) as signals,
    (select count(*) from pawl_saga.attempts) as attempts;
create function report(n int, how text) returns bool language sql as $$
    select ok from pawl_saga.tasks t, pawl_saga.report(
        jsonb_build_array(jsonb_build_object('flow_uuid', t.flow_uuid, 'node', t.node, 'token', t.token)
        || case how when 'ok' then '{"result": 1}' else '{"failure": {"message": "no"}}' end::jsonb), 'w')
        where t.worker = 'w' $$;
create function run_all() returns void language sql as $$ select pawl_saga.start('f') $$;
select pawl_saga.start('f');
SQL
my $rows = q(select rows, records, signals, attempts from everything);

sub killed
{
	my ($what, $statement, $place) = @_;
	killed_standing($node, $rows, $what, $statement, $place);
	is(one($node, 'select * from pawl_saga.verify()'), '', "$what in $place: and in order");
	return;
}

# Each step is killed in places where it has done some of its work, and then done.
my $claim = q(select count(*) from pawl_saga.claim('w'));
my $signal = q(select pawl_saga.signal(flow_uuid, 'go', '1') from pawl_saga.flows);
killed('claim', $claim, $_) for ('tasks a_before', 'tasks z_after', 'tasks at_commit');
is(one($node, $claim), 1, 'a task is claimed before the crash');
killed('report', q(select report(1, 'ok')), $_) for ('tasks z_after', 'tasks at_commit');
is(one($node, q(select report(1, 'ok'))), 't', 'the result of a task is stored before the crash');
is(one($node, $claim), 1, 'the next one');
killed('decision', q(select report(1, 'failure')), $_) for ('tasks z_after', 'retries z_after', 'tasks at_commit');
is(one($node, q(select report(1, 'failure'))), 't', 'a failure is reported after the crash');
is(one($node, $claim), 1, 'and is reverted');
is(one($node, q(select report(1, 'ok'))), 't', 'the revert of a task is reported after the crash');
is(one($node, $claim), 1, 'the first one too');
killed('retry', q(select report(1, 'ok')), $_) for ('tasks z_after', 'retries z_after', 'tasks at_commit');
is(one($node, q(select report(1, 'ok'))), 't', 'it is tried again');
is(one($node, q(select string_agg(name || ' ' || state, ', ' order by node) from pawl_saga.atoms)),
	'again SUCCESS, a PENDING, b PENDING, c PENDING', 'all from the beginning');
for (1 .. 2) { one($node, $claim); one($node, q(select report(1, 'ok'))) }
killed('signal', $signal, $_) for ('tasks a_before', 'tasks z_after', 'flows z_after', 'tasks at_commit');
one($node, $signal);
is(one($node, q(select state from pawl_saga.flows)), 'SUCCESS', 'a flow that was killed in every step succeeds');
sound($node, 'after the kills');

# A job is tied to the session that took it.
$node->safe_psql('postgres', q(select pawl_saga.post('tied'); select pawl_saga.post('other')));
my $owner = $node->background_psql('postgres');
my $owner_pid = $owner->query('select pg_backend_pid()');
$owner->query(q(begin; select pawl_saga.claim_job(job_uuid, 'me') from pawl_saga.jobs where name = 'tied';
	select pawl_saga.tie_job(job_uuid, 'me') from pawl_saga.jobs where name = 'tied'; rollback;));
$owner->query(q(select pawl_saga.claim_job(job_uuid, 'me') from pawl_saga.jobs));
$owner->query(q(select pawl_saga.tie_job(job_uuid, 'me') from pawl_saga.jobs));
is(one($node, q(select count(*) from pg_locks where locktype = 'advisory')), 1, 'one lock for any number of jobs');
is(one($node, 'select done from pawl_saga.release_jobs()'), 0, 'the session lives');
is($owner->query('select done from pawl_saga.release_jobs()'), 0, 'and does not take itself for dead');
rejected($node, q(select pawl_saga.tie_job(job_uuid, 'you') from pawl_saga.jobs), 'PW004',
	'a conductor cannot tie the jobs of others');
$owner->query(q(select pawl_saga.consume_job(job_uuid, 'me') from pawl_saga.jobs where name = 'other'));
is(one($node, q(select session_lock is null from pawl_saga.jobs where name = 'other')), 't',
	'what is consumed is not tied any more');
$node->psql('postgres', "select pg_terminate_backend($owner_pid)");
$node->poll_query_until('postgres', q(select done = 1 from pawl_saga.release_jobs()))
	or die 'the job does not come back';
eval { $owner->quit };
is(one($node, q(select state from pawl_saga.jobs where name = 'tied')), 'UNCLAIMED',
	'a killed session gives its job back');
is(one($node, q(select event || ' ' || processor from pawl_saga.job_transitions j join pawl_saga.jobs using (job_uuid)
	where name = 'tied' order by j.sort_key desc limit 1)), 'gone me', 'which is in the log');
is(one($node, q(select pawl_saga.claim_job(job_uuid, 'next') > 1 from pawl_saga.jobs where name = 'tied')), 't',
	'and the next one takes it');

# The postmaster under load: SQL tasks that write, workers that come and go, failures, suspensions.
$node->safe_psql('postgres', <<'SQL');
drop trigger a_before on pawl_saga.tasks;
create table public.done (trip int not null, what text not null, undone boolean not null default false);
create index on public.done (trip);
create function public.book(a jsonb) returns jsonb language plpgsql as $$
begin
    if a ->> 'what' = 'car' and (a ->> 'trip')::int % 3 = 0 then raise exception 'no car'; end if;
    insert into public.done values ((a ->> 'trip')::int, a ->> 'what');
    return '1';
end $$;
create function public.cancel(a jsonb, was jsonb) returns jsonb language plpgsql as $$
begin
    if was ->> 'failure' is null then
        update public.done set undone = true where trip = (a ->> 'trip')::int and what = a ->> 'what' and not undone;
        if not found then raise exception 'it was not booked'; end if;
    end if;
    return '1';
end $$;
select define('trip', string_agg(format('{"task": "%s", "execute": "sql:public.book", "revert": "sql:public.cancel", '
                '"requires": ["trip", "what"], "inject": {"what": "%1$s"}}', n), ', ' order by p),
    ', "retry": {"retry": "Times", "name": "again", "attempts": 2}')
    from unnest('{flight,hotel,car,seat}'::text[]) with ordinality n(n, p);
select count(pawl_saga.start('trip', jsonb_build_object('trip', g))) from generate_series(1, 600) g;
SQL
my $folder = PostgreSQL::Test::Utils::tempdir;
append_to_file("$folder/work.sql", "select done from pawl_saga.run_sql_tasks(3);\n");
append_to_file("$folder/call.sql", "call pawl_saga.work_sql_tasks(3, '200 ms');\n");
append_to_file("$folder/rest.sql", q(select pawl_saga.suspend(flow_uuid)
          from (select flow_uuid from pawl_saga.flows where state = 'RUNNING' limit 1) f;
select pawl_saga.resume(flow_uuid) from (select flow_uuid from pawl_saga.flows where state = 'SUSPENDED' limit 1) f;
));
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
my $complaints = '';
my $load = IPC::Run::start(['pgbench', '-n', '-f', "$folder/work.sql\@4", '-f', "$folder/call.sql\@4", '-f',
		"$folder/rest.sql\@1", '-c', '4', '-j', '2', '-T', '600', '--max-tries=0', 'postgres'],
	'>', '/dev/null', '2>', \$complaints);
$node->poll_query_until('postgres',
	"select count(*) > 60 from pawl_saga.flows where name = 'trip' and state in ('SUCCESS', 'REVERTED')")
	or do { IPC::Run::pump_nb($load); die "the load stands still: $complaints" };
kill_server($node);
$load->finish;
$node->start;
is(one($node, q(select count(*) > 0 from pawl_saga.flows where state not in ('SUCCESS', 'REVERTED', 'FAILURE'))), 't',
	'the postmaster was killed in the middle');
is(one($node, 'select * from pawl_saga.verify()'), '', 'all is in order after it');
sound($node, 'after the postmaster was killed');
my $tally = q(select count(*)
          from (select t.flow_uuid, (f.inputs ->> 'trip')::int as trip, t.name, t.state = 'SUCCESS' as stands
              from pawl_saga.tasks t join pawl_saga.flows f using (flow_uuid)
              where f.name = 'trip' and t.state <> 'REVERTING') t
	where (select count(*) from public.done d
		where d.trip = t.trip and d.what = t.name and not d.undone) <> t.stands::int);
is(one($node, $tally), 0, 'what was booked is what the states say');
# what was taken to be run is missed first, and what was to be suspended is so only then
wait_until(
	sub {
		$node->safe_psql('postgres',
			q(select pawl_saga.resume(flow_uuid) from pawl_saga.flows where state = 'SUSPENDED'; select
			from pawl.reap('pawl_saga.tasks'); select from pawl_saga.run_sql_tasks(10000)));
		return one($node,
			q(select count(*) from pawl_saga.flows where state not in ('SUCCESS', 'REVERTED', 'FAILURE'))) == 0;
	},
	'all flows to end');
is(one($node, q(select string_agg(state || ' ' || n, ', ' order by state)
		from (select state, count(*) n from pawl_saga.flows where name = 'trip' group by state) s)),
	'REVERTED 200, SUCCESS 400', 'every flow ends as it must');
is(one($node, $tally), 0, 'every booking stands once, or was cancelled');
is(one($node, q(select count(*) from public.done where trip % 3 = 0)), 200 * 4,
	'and was tried as often as its retry says');
is(one($node, 'select * from pawl_saga.verify()'), '', 'nothing is wrong in the end');
sound($node, 'in the end');
my @others = grep { /terminated by signal (?!9:|15)|PANIC:|TRAP:/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @others), '', 'no process died but those that were killed');
done_testing();
