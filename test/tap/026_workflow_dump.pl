# Workflows under way are dumped and restored, the pack is dropped with and without CASCADE and created again, and taken
# as it is by ALTER EXTENSION.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $worker = '00000000-0000-7000-8000-00000000000a';
$node->safe_psql('postgres', <<"SQL");
create extension if not exists pawl;
create extension pawl_dag;
create function work(failing text[] default '{}', rounds int default 100) returns void language plpgsql as \$\$
declare looked int; reports jsonb;
begin
    for i in 1 .. rounds loop
        select o.tasks into looked from pawl_dag.orchestrate(1000) o;
        select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token)
            || case when c.name = any (failing) then '{"error": {"message": "no", "permanent": true}}'::jsonb
                else jsonb_build_object('result', c.name) end) into reports
          from pawl.claim(null::pawl_dag.steps, 'Start', '$worker', batch => 1000, queue => 'default') c;
        exit when reports is null and looked = 0;
        if reports is not null then perform from pawl_dag.report(reports, '$worker'); end if;
    end loop;
end \$\$;
select pawl_dag.define_template('{"name": "diamond", "identity_strategy": "always_unique", "steps": [{"name": "a"},
    {"name": "b", "dependencies": ["a"]},
    {"name": "c", "map": "items", "dependencies": ["a"]}, {"name": "d", "dependencies": ["b", "c"]}]}');
select pawl_dag.start_task('diamond', '{"items": []}');
select work();
select pawl.prune_audit('pawl_dag.steps', '0 s');
select pawl_dag.start_tasks('diamond', array_fill('{"items": [1, 2, 3]}'::jsonb, array[3]));
select work();
select pawl_dag.start_task('diamond', '{"items": [1]}');
select work('{b}');
select pawl_dag.start_task('diamond', '{"items": []}');
select work('{}', 1);
select pawl_dag.start_task('diamond', '{"items": [4, 5]}');
select pawl_dag.orchestrate();
select pawl.claim(null::pawl_dag.steps, 'Start', '$worker', lease => '1 day', batch => 1, queue => 'default');
select pawl_dag.start_task('diamond', '{"items": [6]}', priority => 5);
SQL
my $picture = <<'SQL';
select 'tasks', count(*), md5(string_agg(t::text, '|' order by t.task_uuid)) from pawl_dag.tasks t
union all select 'steps', count(*), md5(string_agg(t::text, '|' order by t.step_uuid)) from pawl_dag.steps t
union all select 'edges', count(*), md5(string_agg(t::text, '|' order by t.parent_uuid, t.child_uuid))
from pawl_dag.edges t
union all select 'templates', count(*), md5(string_agg(t::text, '|' order by t.template_uuid)) from pawl_dag.templates t
union all select 'task log', count(*), md5(string_agg(t::text, '|' order by t.id)) from pawl_dag.task_transitions_log t
union all select 'step log', count(*), md5(string_agg(t::text, '|' order by t.id)) from pawl_dag.step_transitions_log t
union all select 'audit', count(*), md5(string_agg(t::text, '|' order by t.transition_id))
from pawl_dag.step_result_audit t
union all select 'cut', count(*), md5(string_agg(p::text, '|')) from pawl.pruned_audit p
union all select 'dead letters', count(*), md5(string_agg(t::text, '|' order by t.entry_uuid)) from pawl_dag.dlq t
SQL
my $original = one($node, $picture);
like($original, qr/^tasks\|8\|/, 'tasks in many states');
is(one($node, 'select string_agg(distinct state, \' \' order by state) from pawl_dag.tasks'),
	'blocked_by_failures complete pending steps_in_process', 'the tasks to be dumped are in four different states');

sub restored
{
	my ($name, $database) = @_;
	is(one($node, $picture, $database), $original, "$name: everything is there");
	sound($node, $name, $database);
	my $wrong = <<'SQL';
select count(*) from pawl_dag.tasks t, pawl_dag._count_steps(t.task_uuid) c
 where (t.steps_total, t.steps_blocked, t.steps_ready, t.steps_in_flight, t.steps_waiting, t.steps_failed,
     t.steps_satisfied, t.steps_cancelled)
    <> (c.total, c.blocked, c.ready, c.in_flight, c.waiting, c.failed, c.satisfied, c.cancelled)
SQL
	is(one($node, $wrong, $database), 0, "$name: the counters are right");
	rejected($node, "update pawl_dag.tasks set state = 'complete' where state = 'pending'",
		'PW001', "$name: tasks are validated", $database);
	rejected($node, 'delete from pawl_dag.step_result_audit', 'PW006', "$name: the audit is immutable", $database);
	# the worker that had claimed the step reports, with its old token
	is(one($node, <<"SQL", $database), 't', "$name: a worker's lease outlives the dump");
select r.ok from pawl_dag.steps s, pawl_dag.report(
        jsonb_build_array(jsonb_build_object('task_uuid', s.task_uuid, 'step_uuid', s.step_uuid, 'token', s.token,
            'result', 1)), '$worker') r
 where s.state = 'in_progress'
SQL
	$node->safe_psql($database, "select work(); select pawl_dag.retry_task(task_uuid) from pawl_dag.tasks where state "
		. "= 'blocked_by_failures'; select work()");
	is(one($node, "select count(*) from pawl_dag.tasks where state <> 'complete'", $database), 0,
		"$name: all tasks complete");
	is(one($node, $wrong, $database), 0, "$name: the counters stay right");
	is(one($node, "select count(*) - (select count(*) from pawl_dag.step_transitions_log where to_state ~ "
		. "'^enqueued_.*orchestration\$' and created_at >= (select pruned_before from pawl.pruned_audit)) from "
		. "pawl_dag.step_result_audit", $database),
		0, "$name: one row a result in the audit");
	sound($node, "$name, after use", $database);
	return;
}

local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
my $restoring = '-c pawl.restoring=on';
for my $way (['psql', 'plain'], ['pg_restore', 'custom'], ['pg_restore with jobs', 'directory'])
{
	my ($name, $format) = @$way;
	my @restore = ('pg_restore', '--exit-on-error', '-d', $format);
	# each: settings, and the command
	my %commands = (
		plain => [[$restoring, 'psql', '-X', '-q', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-d', $format, '-f']],
		custom => [[$restoring, @restore]],
		# foreign keys between the tables of a pack exist before their data, which jobs load in any order
		directory => [
			['', @restore, '--jobs=4', '--section=pre-data'],
			["$restoring -c session_replication_role=replica", @restore, '--jobs=4', '--section=data'],
			['', @restore, '--jobs=4', '--section=post-data'],
		]);
	$node->command_ok(['pg_dump', '-F', $format, '-f', "$dir/$format", 'postgres'], "pg_dump -F $format");
	$node->safe_psql('postgres', "create database $format template template0");
	for my $command (@{ $commands{$format} })
	{
		my ($settings, @words) = @$command;
		local $ENV{PGOPTIONS} = $settings;
		$node->command_ok([@words, "$dir/$format"], "restored by $name");
	}
	restored($name, $format);
}

# The pack goes, and comes again.
$node->safe_psql('postgres', 'create view mine as select task_uuid, state from pawl_dag.tasks');
rejected($node, 'drop extension pawl_dag', '2BP01', 'DROP EXTENSION while something needs it');
is(one($node, $picture), $original, 'nothing is gone');
rejected($node, 'drop extension pawl', '2BP01', 'nor does the kernel go while the pack is there');
accepted($node, 'drop extension pawl_dag cascade', 'DROP EXTENSION … CASCADE');
is(one($node, "select count(*) from pg_class where relname = 'mine' or relnamespace = to_regnamespace('pawl_dag')"), 0,
	'what needed it is gone');
is(one($node, 'select (select count(*) from pawl.binding) + (select count(*) from pawl.audit_binding)'), 0,
	'no lifecycle is bound any more');
accepted($node, 'create extension pawl_dag', 'created again');
accepted($node, 'drop extension pawl_dag', 'DROP EXTENSION while nothing needs it');
accepted($node, 'create extension pawl_dag', 'and again');
$node->safe_psql('postgres', q(select pawl_dag.define_template('{"name": "one", "steps": [{"name": "a"}]}');
	select pawl_dag.start_task('one'); select work()));
is(one($node, 'select state from pawl_dag.tasks'), 'complete', 'it works as before');
rejected($node, 'alter extension pawl_dag set schema public', '0A000', 'its schema is its name');
accepted($node, 'alter extension pawl_dag update', 'ALTER EXTENSION … UPDATE');
rejected($node, 'drop table pawl_dag.edges', '2BP01', 'its tables stay');
sound($node, 'in the end');
done_testing();
