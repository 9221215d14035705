# The work of the packs is divided among three databases by namespaces: what is placed elsewhere is rejected, and
# namespaces move with their work, logs and definitions.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlCommands;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', with => [qw(pawl_dag pawl_bulk pawl_saga)]);
commands_at($node);
$node->safe_psql('postgres', "create database $_ template postgres") for qw(b c);
my %database = (a => 'postgres', b => 'b', c => 'c');
my $worker = '00000000-0000-7000-8000-00000000000a';

# Rows of a namespace in a database, with the texts of all of them.
sub picture
{
	my ($kind, $namespace, $name) = @_;
	return one($node, "select pawl._placed_counts('$kind', '$namespace', pawl.uuid_v7())", $database{$name});
}

my $template = <<'JSON';
{"name": "diamond", "namespace": "NAMESPACE", "identity_strategy": "always_unique", "steps": [{"name": "a"},
 {"name": "b", "dependencies": ["a"]}, {"name": "c", "map": "items", "dependencies": ["a"]},
 {"name": "d", "dependencies": ["b", "c"]}]}
JSON

sub define_in
{
	my ($name, $namespace) = @_;
	return $node->safe_psql($database{$name},
		"select pawl_dag.define_template('" . ($template =~ s/NAMESPACE/$namespace/r) . "')");
}

# Works until nothing is left of a namespace, or so many rounds.
$node->safe_psql($_, <<"SQL") for values %database;
create function work(namespace text, failing text[] default '{}', rounds int default 100) returns void
language plpgsql as \$\$
declare looked int; reports jsonb;
begin
    for i in 1 .. rounds loop
        select o.tasks into looked from pawl_dag.orchestrate(1000) o;
        select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token)
            || case when c.name = any (failing) then '{"error": {"message": "no", "permanent": true}}'::jsonb
                else jsonb_build_object('result', c.name) end) into reports
          from pawl.claim(null::pawl_dag.steps, 'Start', '$worker', batch => 1000, queue => namespace) c;
        exit when reports is null and looked = 0;
        if reports is not null then perform from pawl_dag.report(reports, '$worker'); end if;
    end loop;
end \$\$;
SQL

# One database is as it always was.
define_in('a', $_) for qw(billing other);
is(one($node, "select coalesce((pawl.where_is('dag', 'billing')).database, 'none')"), 'none',
	'a database that is not one of several places nothing');
$node->safe_psql('postgres', "select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'other')");

goes('a database becomes the first of several', 'databases', 'init', 'a', 'dbname=postgres');
goes("database $_ is added", 'databases', 'add', $_, "dbname=$_") for qw(b c);
goes('it can be added again', 'databases', 'add', 'b', 'dbname=b');
my ($status, $said) = pawl('databases', 'add', 'd', 'dbname=b');
is($status, 3, 'not by another name') or diag($said);
like($said, qr/leads to database "b"/, 'and the error says what it is');
rejected($node, "insert into pawl.database (name, connection) values ('x', 'host=h password=secret')", '22023',
	'a connection with a password is rejected');
rejected($node, "insert into pawl.database (name, connection) values ('x', 'postgres://u:secret\@h/d')", '22023',
	'and so is a URI with one');
isnt((pawl('databases', 'add', 'x', 'host=h password=secret'))[0], 0, 'also by the command line');

# What is elsewhere is rejected, by every way.
define_in('b', 'billing');
my $elsewhere = sub {
	my ($sql, $name, $database, $there) = @_;
	my ($state, $err) = sqlstate_of($node, $sql, $database // 'b');
	is($state, 'PW009', $name);
	$there //= 'a';
	like($err, qr/is in database "$there".*DETAIL:  This is database "b".*HINT:  Connect there/s,
		"$name: it says where");
};
$elsewhere->("select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'billing')",
	'a task is not started');
$elsewhere->(<<'SQL', 'nor inserted');
insert into pawl_dag.tasks (template_uuid, namespace, name, version, identity_key)
select template_uuid, namespace, name, version, 'x' from pawl_dag.templates
SQL
$elsewhere->("select * from pawl_dag.claim('$worker', 'billing')", 'steps are not claimed');
$elsewhere->("select * from pawl.claim(null::pawl_dag.steps, 'Start', '$worker', queue => 'billing')",
	'nor by the function of the kernel');
$elsewhere->("select * from pawl.claim(null::pawl_saga.jobs, processor => 'conductor', queue => 'mail')",
	'jobs of another board are not claimed');
$elsewhere->("insert into pawl_saga.jobs (board, name) values ('mail', 'x')", 'nor posted');
$elsewhere->("insert into pawl_bulk.operations (definition, version, last_step, track_row_data) "
	. "values ('load', 1, 0, false)", 'an operation is not submitted');
accepted($node, "select * from pawl_dag.run_sql_steps()", 'SQL steps are those of the database', 'b');
is(one($node, "select database || here from pawl.where_is('dag', 'billing')", 'b'), 'afalse', 'it can be asked, too');

# A namespace with work of every kind moves.
$node->safe_psql('postgres', <<"SQL");
select pawl_dag.start_tasks('diamond', array_fill('{"items": [1, 2, 3]}'::jsonb, array[3]), namespace => 'billing');
select work('billing');
select pawl_dag.start_task('diamond', '{"items": [1]}', namespace => 'billing');
select work('billing', '{b}');
select pawl_dag.start_task('diamond', '{"items": []}', namespace => 'billing', priority => 4);
select work('billing', '{}', 1);
select pawl_dag.start_task('diamond', '{"items": [4, 5]}', namespace => 'billing');
select pawl_dag.orchestrate();
select pawl.claim(null::pawl_dag.steps, 'Start', '$worker', lease => '1 day', batch => 1, queue => 'billing');
select pawl_dag.start_task('diamond', '{"items": [6]}', namespace => 'billing');
select pawl_dag.start_task('diamond', '{"items": [6]}', namespace => 'other');
SQL
my $before = picture('dag', 'billing', 'a');
my $other = picture('dag', 'other', 'a');
my $in_flight = one($node, "select task_uuid, step_uuid, token from pawl_dag.steps where state = 'in_progress'");
cmp_ok(one($node, 'select count(*) from jsonb_object_keys($$' . $before . '$$)'), '>=', 6,
	'there are rows in every table');
my $theirs = one($node, "select template_uuid from pawl_dag.templates where namespace = 'billing'", 'b');
goes('the namespace moves', 'move', 'billing', 'b', '--drain', '0 s');
is(picture('dag', 'billing', 'a'), '{}', 'no row of it stays');
is(one($node, "select count(*) from pawl.transit"), 0, 'nor in transit');
is(one($node, "select count(*) from pawl.transit", 'b'), 0, 'nor in transit there');
is(picture('dag', 'other', 'a'), $other, 'those of another namespace do');
my $after = picture('dag', 'billing', 'b');
is(one($node, "select jsonb_object_agg(key, value -> 'rows') from jsonb_each(\$\$$after\$\$)"),
	one($node, "select jsonb_object_agg(key, value -> 'rows') from jsonb_each(\$\$$before\$\$)"), 'all rows are there');
is(one($node, "select (\$\$$after\$\$::jsonb - '1') = (\$\$$before\$\$::jsonb - '1')"), 't',
	'byte for byte, but for the template of tasks');
is(one($node, "select count(*) from pawl_dag.tasks where template_uuid <> '$theirs'", 'b'), 0,
	'which is the one that the other database had defined');
sound($node, 'where it came from');
sound($node, 'where it went', 'b');
is(one($node, "select state from pawl_move.moves"), 'done', 'the move is done');
is(one($node, "select string_agg(to_state, ' ' order by sort_key) from pawl_move.move_transitions_log"),
	'requested left arrived placed done', 'and its log says how');
is(one($node, "select (pawl.where_is('dag', 'billing')).database", $_), 'b', "$_ knows where it is")
  for values %database;
my ($task) = split /\|/, $in_flight;
is(one($node, "select database from pawl.left_for('dag', '$task')"), 'b', 'a task is found by its id');
my ($state, $err) = sqlstate_of($node,
	"select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'billing')");
is($state, 'PW009', 'new work is rejected where it was');
like($err, qr/is in database "b"/, 'with the new place');
($status, $said) = pawl('move', 'billing', 'b');
is($status, 3, 'it cannot move to where it is') or diag($said);

# The worker that had claimed a step reports: not there, but here, with its token.
my $report = sub {
	my ($database) = @_;
	my ($task_uuid, $step_uuid, $token) = split /\|/, $in_flight;
	return one($node, "select ok, left(problem, 5) from pawl_dag.report(jsonb_build_array(jsonb_build_object("
		. "'task_uuid', '$task_uuid', 'step_uuid', '$step_uuid', 'token', $token, 'result', 1)), '$worker')",
		$database);
};
is($report->('postgres'), 'f|PW009', 'a late report is rejected where it was, and the error says where to go');
is($report->('b'), 't|', 'and is taken where it is');
$node->safe_psql('b', "select work('billing'); select pawl_dag.retry_task(task_uuid) from pawl_dag.tasks "
	. "where state = 'blocked_by_failures'; select work('billing')");
is(one($node, "select string_agg(distinct state, ' ') from pawl_dag.tasks", 'b'), 'complete', 'all of it completes');
sound($node, 'after use', 'b');
goes('it moves on', 'move', 'billing', 'c');
goes('and back', 'move', 'billing', 'a');
sound($node, 'back');
is(one($node, "select string_agg(distinct state, ' ') from pawl_dag.tasks where namespace = 'billing'"), 'complete',
	'with all its tasks');
accepted($node, "select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'billing')",
	'new work is accepted again');

# What stands in the way is found before anything is stopped.
$node->safe_psql('c', "insert into pawl_dag.namespaces (namespace) values ('other')");
$node->safe_psql('c', "select pawl_dag.define_template('{\"name\": \"diamond\", \"namespace\": \"other\", "
	. "\"steps\": [{\"name\": \"a\"}]}')");
($status, $said) = pawl('move', 'other', 'c');
is($status, 3, 'a namespace does not move to where its template is another one') or diag($said);
like($said, qr/different definitions of "other diamond/, 'the error names it');
is(picture('dag', 'other', 'a'), $other, 'nothing has left');
accepted($node, "select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'other')", 'new work is taken');
($status, $said) = pawl('move', 'other', 'b');
is($status, 3, 'while it is open, it does not move elsewhere');
like($said, qr/is being moved to database "c"/, 'the error says where to');
goes('it is cancelled', 'move', 'other', '--cancel');
is((pawl('move', 'other', '--cancel'))[0], 3, 'a move that is cancelled cannot be cancelled again');

# A transaction that began before has started a task.
my $writer = $node->background_psql('postgres');
$writer->query_safe("begin; select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'other')");
my $tasks = one($node, "select count(*) from pawl_dag.tasks where namespace = 'other'");
my $move = begin_program($node, 'pawl', 'move', 'other', 'b');
becomes(sub { one($node, "select phase from pawl.departure where namespace = 'other' and phase <> 'returned'") },
	'leaving', 'the rows leave');
is((pawl('move', 'other', 'b'))[0], 3, 'a second process is rejected meanwhile');
accepted($node, "select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'billing')",
	'another namespace goes on');
is(scalar(sqlstate_of($node, "select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'other')")),
	'PW009',
	'a new task is rejected');
$writer->query_safe('commit');
$writer->quit;
is(end_program($move), 0, 'the move goes on when the transaction has ended') or diag($move->{err});
is(one($node, "select count(*) from pawl_dag.tasks where namespace = 'other'", 'b'), $tasks + 1, 'with its task');
is(picture('dag', 'other', 'a'), '{}', 'and nothing is left behind');

# A move that is stopped in the middle is cancelled.
$node->safe_psql('b', "select work('other', '{}', 2)");
$before = picture('dag', 'other', 'b');
$node->safe_psql('c', "drop database if exists nothing; alter table pawl_dag.dlq add column note text");
($status, $said) = pawl('move', 'other', 'c');
like($said, qr/databases differ: columns of pawl_dag.dlq/, 'tables that differ are found') or diag($said);
$node->safe_psql('c', "alter table pawl_dag.dlq drop column note");
goes('cancelled', 'move', 'other', '--cancel');
$node->safe_psql('c', "create function no() returns trigger language plpgsql as 'begin raise ''no''; end'; "
	. "create trigger no before insert on pawl_dag.edges for each row execute function no(); "
	. "alter table pawl_dag.edges enable always trigger no; "
	. "delete from pawl_dag.templates; delete from pawl_dag.namespaces");
($status, $said) = pawl('move', 'other', 'c');
is($status, 3, 'a trigger of the user stops an arrival') or diag($said);
is(picture('dag', 'other', $_), '{}', "the rows are in neither table ($_)") for qw(b c);
goes('cancelled, after the rows have left', 'move', 'other', '--cancel');
is(picture('dag', 'other', 'b'), $before, 'they are back, byte for byte');
sound($node, 'after a cancelled move', 'b');
$node->safe_psql('b', "select work('other')");
is(one($node, "select string_agg(distinct state, ' ') from pawl_dag.tasks", 'b'), 'complete', 'and go on');

# Bulk operations and job boards move in the same way.
$node->safe_psql('postgres', <<'SQL');
create function run(failing bigint[] default '{}') returns void language plpgsql as $$
declare did bigint; reports jsonb;
begin
    for i in 1 .. 100 loop
        select jsonb_agg((to_jsonb(c) - 'data') || jsonb_build_object('result',
            case when c.row_number = any (failing) then 'fail' else 'ok' end, 'message', 'no')) into reports
          from pawl_bulk.claim('w' || i, 'hands', 100) c;
        if reports is not null then perform from pawl_bulk.report(reports, 'w' || i); end if;
        select done into did from pawl_bulk.advance(1000);
        exit when did = 0 and reports is null;
    end loop;
end $$;
select pawl_bulk.define('{"name": "load", "is_retryable": true, "track_row_data": true, "steps": [{"name": "a", '
    '"handler": "hands"}, {"name": "b", "handler": "none", "kind": "signal", "timeout": "1 day"}]}');
select operation from pawl_bulk.submit('load', rows => '[{"n": 1}, {"n": 2}, {"n": 3}, 4]');
select run('{2}');
select operation from pawl_bulk.submit('load', rows => '[{"n": 1}, {"n": 2}]', file_name => 'leased');
select pawl_bulk.advance() from generate_series(1, 6);
select pawl_bulk.claim('worker', 'hands', 1, '1 day');
select pawl_bulk.submit('load', rows => '[{"n": 1}, {"n": 2}]', priority => 10,
    notifications => '[{"channel": "mail", "target": "a", "triggers": ["status_change"]}]');
select pawl_bulk.advance(1) from generate_series(1, 2);
select pawl_saga.define('{"flow": "linear", "name": "trip", "children": [{"task": "flight"}, {"task": "held",
    "queue": "held"}, {"task": "hotel", "signal": "go", "provides": "word"}, {"task": "car", "requires": ["word"]}]}');
select pawl_saga.post('one', 'trip', board => 'mail'), pawl_saga.post('two', 'trip', board => 'mail'),
    pawl_saga.post('of another board', 'trip');
with begun as (select j.job_uuid, pawl_saga.start('trip') as flow from pawl_saga.jobs j where j.name = 'one')
select pawl_saga.claim_job(b.job_uuid, 'conductor'), set_config('test.flow', b.flow::text, false) from begun b;
update pawl_saga.jobs set flow_uuid = current_setting('test.flow')::uuid where name = 'one';
select from pawl_saga.claim('w', 'default', 1) c,
    pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token,
        'result', 1)), 'w');
select count(*) from pawl_saga.claim('claimer', 'held', 1, '1 day');
SQL
for my $move (['bulk', 'load', 'pawl_bulk.operations'], ['saga', 'mail', 'pawl_saga.flows'])
{
	my ($kind, $namespace, $table) = @$move;
	my $rows = one($node, "select count(*) from $table");
	my $was = picture($kind, $namespace, 'a');
	goes("$kind: it moves", 'move', $namespace, 'b', '--pack', $kind, '--drain', '0 s');
	is(picture($kind, $namespace, 'b'), $was, "$kind: byte for byte");
	is(picture($kind, $namespace, 'a'), '{}', "$kind: nothing is left");
	cmp_ok($rows, '>', 0, "$kind: there were rows");
	is(one($node, "select count(*) from $table", 'b'), $rows, "$kind: and there they are");
	sound($node, "$kind: after the move", $_) for qw(postgres b);
	is(one($node, "select count(*) from pawl_$kind.verify()", $_), 0, "$kind: its own verification is clean ($_)")
	  for qw(postgres b);
}
is(one($node, 'select count(*) from pawl_saga.jobs'), 1, 'a job of another board stays');
$node->safe_psql('b', "select pawl_saga.signal(flow_uuid, 'go', '1') from pawl_saga.flows");
is(one($node, <<'SQL', 'b'), 't', 'the worker that had claimed a task reports with its token');
select r.ok from pawl_saga.tasks t, pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', t.flow_uuid,
    'node', t.node, 'token', t.token, 'result', 1)), 'claimer') r where t.worker = 'claimer'
SQL
is(scalar(sqlstate_of($node, "select pawl_bulk.submit('load', rows => '[]')")), 'PW009',
	'an operation is not submitted');

# What the members know is compared with the home.
like(goes('the copies agree', 'databases', 'check'), qr/^b: ok\nc: ok$/m, 'which each database says');
$node->safe_psql('c', "update pawl.placement set database = 'b' where namespace = 'billing'");
($status, $said) = pawl('databases', 'check');
is($status, 1, 'an outdated copy is found');
like($said, qr/^c: outdated, "billing" of dag: here b, in the home a$/m, 'with what is outdated');
like(goes('it is brought up to date', 'databases', 'check', '--update'), qr/^c: ok$/m, 'by the option --update');
$node->safe_psql('b', "update pawl.placement set database = 'a' where namespace = 'other'");
($status, $said) = pawl('databases', 'check', '--update');
is($status, 1, 'a namespace that neither takes is not decided by a copy');
like($said, qr/^b: conflict, "other" of dag: here a, in the home b$/m, 'but it is named');
$node->safe_psql('b', "update pawl.placement set database = 'b' where namespace = 'other'");

# The place of all namespaces without a place of their own changes, after an interruption too.
my $new = "select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'new')";
define_in('b', 'new');
$node->safe_psql('postgres', "select pawl_move.request('dag', 'unborn', 'c')");
$elsewhere->($new, 'a new namespace is in the first database');
is((pawl('databases', 'default', 'z'))[0], 3, 'a database that there is not takes none');
is((pawl('databases', 'default', 'b', '--pack', 'shop'))[0], 3, 'nor do namespaces of an unknown kind go anywhere');
my $reader = $node->background_psql('postgres');
$reader->query_safe('begin; select count(*) from pawl_dag.tasks');
my $change = begin_program($node, 'pawl', 'databases', 'default', 'b');
becomes(sub { one($node, "select database from pawl.placement where kind = 'saga' and namespace is null") }, 'b',
	'the old place is closed');
is((pawl('databases', 'default', 'c'))[0], 3, 'only one process changes it');
is(scalar(sqlstate_of($node, $new, $_)), 'PW009', "$_ takes no new namespace until older transactions have ended")
  for qw(postgres b);
kill_program($change);
$reader->query_safe('commit');
$reader->quit;
goes('it is continued', 'databases', 'default', 'b');
accepted($node, $new, 'the new place takes new namespaces', 'b');
is(scalar(sqlstate_of($node, $new, $_)), 'PW009', "$_ does not") for qw(postgres c);
accepted($node, "select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'billing')",
	'a namespace that has a place keeps it');
accepted($node, "select pawl_saga.post('stays', 'trip')", 'and one that had rows in the old place stays there');
is((pawl('move', 'unborn', 'c'))[0], 3, 'a namespace that was to leave the old place is not there any more');
goes('so the move is cancelled', 'move', 'unborn', '--cancel');
goes('all copies agree', 'databases', 'check');

# A database that has nothing is removed.
for my $case (['a', qr/cannot be removed here/], ['b', qr/namespaces are placed in database "b".*"load" of bulk/s])
{
	($status, $said) = pawl('databases', 'remove', $case->[0]);
	is($status, 3, "database $case->[0] is not removed");
	like($said, $case->[1], 'and the error says why');
}
$node->safe_psql('postgres', "select pawl_move.request('dag', 'billing', 'c')");
like((pawl('databases', 'remove', 'c'))[1], qr/namespace "billing" is being moved/, 'nor one that a move goes to');
goes('which is cancelled', 'move', 'billing', '--cancel');
goes('one that has nothing is removed', 'databases', 'remove', 'c');
is(one($node, "select string_agg(name, ' ' order by name) from pawl.database", $_), 'a b', "$_ knows it no more")
  for qw(postgres b);
is(scalar(sqlstate_of($node, "select pawl_bulk.submit('load', rows => '[]')", 'c')), 'PW009', 'it still takes nothing');
goes('it can be added again', 'databases', 'add', 'c', 'dbname=c');
$node->safe_psql('postgres', 'create database d');
$node->safe_psql('d', "create extension $_") for qw(pawl pawl_dag);
$database{d} = 'd';
for my $namespace (qw(guest new))
{
	define_in('d', $namespace);
	$node->safe_psql('d', "select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => '$namespace')");
}
($status, $said) = pawl('databases', 'add', 'd', 'dbname=d');
is($status, 3, 'a database with rows of a namespace that the default place has is not added');
like($said, qr/both databases have rows of namespace "new"/, 'which the error names');
$node->safe_psql('d', "delete from pawl_dag.tasks where namespace = 'new'");
goes('it is added without them', 'databases', 'add', 'd', 'dbname=d');
define_in('b', 'guest');
$elsewhere->("select pawl_dag.start_task('diamond', '{\"items\": []}', namespace => 'guest')",
	'the default place rejects what it has brought', 'b', 'd');

# A copy that is brought up to date opens nothing that is leaving.
$reader = $node->background_psql('b');
$reader->query_safe('begin; select count(*) from pawl_dag.tasks');
$move = begin_program($node, 'pawl', 'move', 'new', 'a', '--drain', '0 s');
becomes(sub { one($node, "select phase from pawl.departure where namespace = 'new'", 'b') }, 'leaving',
	'a namespace without a place of its own leaves');
goes('copies are brought up to date meanwhile', 'databases', 'check', '--update');
is(scalar(sqlstate_of($node, $new, 'b')), 'PW009', 'and is rejected as before');
$reader->query_safe('commit');
$reader->quit;
is(end_program($move), 0, 'so that it arrives') or diag($move->{err});
goes('and agrees', 'databases', 'check', '--update');

# Nothing of a pack is forgotten: each table with the key of its units is declared.
is(one($node, <<'SQL'), '', 'each table of the packs that has rows of a namespace is declared');
select string_agg(c.oid::regclass::text, ' ' order by 1) from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname in ('task_uuid', 'operation', 'flow_uuid', 'job_uuid')
 where c.relkind = 'r' and c.relnamespace in ('pawl_dag'::regnamespace, 'pawl_bulk'::regnamespace,
     'pawl_saga'::regnamespace)
   and not exists (select from pawl.placed_table p where p.relation = c.oid)
SQL
is(one($node, "select count(*) from pg_attribute a join pawl.placed_table p on p.relation = a.attrelid "
	. "where a.attidentity <> '' or a.attgenerated <> ''"), 0, 'none has an identity column or a generated one');

done_testing();
