# A setting that is set before the library is loaded is a placeholder that any role can write. It decides about nothing:
# not in a fresh session, not by the options of a connection, not by ALTER ROLE. A role
# that may set pawl.restoring can restore.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_dag', 'pawl_bulk' ]);
$node->safe_psql('postgres', <<'SQL');
create role worker login in role pawl_worker;
create role clerk login in role pawl_operator;
grant insert on pawl_bulk.operations to clerk;  -- more than pawl gives to any role
create role restorer login in role pawl_operator;
grant set on parameter pawl.restoring to restorer;
select pawl_bulk.define('{"name": "t", "steps": [{"name": "a", "handler": "hands"}]}');
select pawl_dag.define_template('{"name": "two", "identity_strategy": "always_unique", "steps": [{"name": "a", '
    '"handler": "h"}, {"name": "b", "handler": "h"}]}');
create view deciding as
select t.tgrelid::regclass as relation, t.tgname as name from pg_trigger t join pg_class c on c.oid = t.tgrelid
 where c.relnamespace::regnamespace::text ^@ 'pawl'
     and pg_get_triggerdef(t.oid) ~* 'current_setting|is_superuser|session_user'
union all
select null, p.oid::regprocedure::text from pg_proc p
 where p.pronamespace::regnamespace::text ^@ 'pawl' and case when p.prosqlbody is null then p.prosrc
     else pg_get_functiondef(p.oid) end ~* 'current_setting\(''(pawl\.restoring|is_superuser|pawl_api\.token)';
SQL
is($node->safe_psql('postgres', 'select * from deciding'), '',
	'no trigger condition reads a setting, and no function one that decides about rights');

# What psql prints and says, in a session of its own.
sub session
{
	my ($role, $sql, %environment) = @_;
	local %ENV = (%ENV, %environment);
	my ($status, $out, $error) = $node->psql('postgres', $sql, extra_params => [ '-U', $role ]);
	return "$out\n$error";
}

like(session('worker', 'set pawl.restoring = on; select pawl.restoring()'),
	qr/^f\n.*permission denied to set parameter "pawl.restoring"/s,
	'a placeholder is discarded when the library comes');
like(session('worker', 'select pawl.restoring()', PGOPTIONS => '-c pawl.restoring=on'), qr/^f\n/,
	'so is an option of the connection');
like(session('worker', 'select pawl.restoring(); set pawl.restoring = on'), qr/permission denied to set parameter/,
	'later it cannot be set at all');
like(session('worker', 'alter role worker set pawl.restoring = on'), qr/permission denied/, 'nor for sessions to come');
like(session('worker', q{create function pg_temp.f() returns boolean language sql
		set pawl.restoring = 'on' as 'select pawl.restoring()'; select pg_temp.f()}),
	qr/permission denied/, 'nor by a function');
like(session('restorer', 'set pawl.restoring = on; select pawl.restoring()'), qr/^t\n$/,
	'a role with SET on the parameter restores');
like(session('restorer', 'select pawl.restoring()', PGOPTIONS => '-c pawl.restoring=on'), qr/^t\n$/,
	'by an option, too');
is($node->safe_psql('postgres', 'set pawl.restoring = on; select pawl.restoring()'), 't', 'so does a superuser');

# Every trigger whose condition or body asks: it does what it does without the placeholder.
session('clerk', <<'SQL');
set pawl.restoring = on;
insert into pawl_bulk.operations (definition, version, created_by, last_step, track_row_data, file_name, notifications,
    notified_by)
values ('t', 1, 'me', 0, false, 'forged', '[{"channel": "sql", "target": "public.f", "triggers": ["completion"]}]',
    'postgres');
SQL
is(one($node, q(select notified_by from pawl_bulk.operations where file_name = 'forged'))
	// '', 'clerk', 'a forged notified_by is replaced by the role that wrote it');
session('clerk', q{insert into pawl_bulk.operations (definition, version, created_by, last_step, track_row_data,
	file_name) values ('t', 1, 'me', 0, false, 'plain')});
session('clerk', q{set pawl.restoring = on; insert into pawl_bulk.operations (definition, version, created_by,
	last_step, track_row_data, file_name) values ('t', 1, 'me', 0, false, 'hidden')});
is(one($node, q(select count(*) from pawl_bulk.events e join pawl_bulk.operations o using (operation)
	where o.file_name = 'hidden')),
	one($node, q(select count(*) from pawl_bulk.events e join pawl_bulk.operations o using (operation)
	where o.file_name = 'plain')), 'an operation that comes is noted');
isnt(one($node, q(select count(*) from pawl_bulk.events e join pawl_bulk.operations o using (operation)
		where o.file_name = 'plain')), 0, 'as others are');
my $task = one($node, q(select pawl_dag.start_task('two')));
session('worker', "set pawl.restoring = on; insert into pawl_dag.steps (task_uuid, step_uuid, name, handler) values "
	. "('$task', gen_random_uuid(), 'c', 'h')");
is(one($node, "select steps_total = (select count(*) from pawl_dag.steps s where s.task_uuid = t.task_uuid) from "
	. "pawl_dag.tasks t where task_uuid = '$task'"), 't', 'steps that come are counted');
$node->safe_psql('postgres', q(select pawl_dag.orchestrate() from generate_series(1, 3)));
my ($a, $b) = split /\n/,
	one($node, "select step_uuid from pawl_dag.steps where task_uuid = '$task' order by name limit 2");
like(session('worker', "set pawl.restoring = on; insert into pawl_dag.edges (task_uuid, parent_uuid, child_uuid) "
	. "select '$task', a.step_uuid, b.step_uuid from pawl_dag.steps a, pawl_dag.steps b where a.task_uuid = "
	. "'$task' and "
	. "b.task_uuid = '$task' and a.name = 'a' and b.name = 'b'"),
	qr/can no longer get an unsatisfied parent/, 'a dependency of a step that is under way is rejected');

# The token of an HTTP request is what pawl_api.begin_request has found, whatever the setting of its name says.
$node->safe_psql('postgres', q{
create extension pawl_api;
create role boss login in role pawl_admin;
create role api_login login in role pawl_authenticator;
create role tenant in role pawl_operator;
grant tenant to pawl_authenticator});
my ($mine, $other) = map { one($node, "select pawl_api.create_token('tenant', '$_', '{read,operate}')") }
	qw(mine other);
my $forged = q(select set_config('pawl_api.token', (select token::text from pawl_api.tokens
	where person = 'other'), false));
like(session('boss', "$forged; select pawl_api.once('k', 'start_task', '{}', '{\"name\": \"two\"}')"),
	qr/idempotency keys belong to requests/, 'a session that is no request has no token');
my $token = one($node, "select token from pawl_api.tokens where person = 'other'");
my $said = session('api_login', "begin; select pawl_api.begin_request('bearer', sha256('$mine'), 'operate'); select "
		. "set_config('pawl_api.token', '$token', true); " .
	q(select pawl_api.once('k', 'start_task', '{}', '{"name": "two"}'); commit));
is(one($node, q(select string_agg(t.person, ' ') from pawl_api.answers a join pawl_api.tokens t using (token))), 'mine',
		'a request has the token that it began with') or diag($said);
like(session('api_login', "begin; select pawl_api.begin_request('bearer', sha256('$mine'), 'operate'); commit; select "
	. "pawl_api._first_answer('k', 'start_task', '')"),
	qr/permission denied|idempotency keys belong to requests/, 'and only until its transaction ends');
done_testing();
