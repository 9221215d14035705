# A client that is made of the OpenAPI document calls every operation, rightly and in each
# way that is wrong, and every answer fits the document.
use strict;
use warnings;
use FindBin;
use IPC::Run;
use JSON::PP;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('client', qw(pawl_dag pawl_bulk pawl_saga));
define_template($node, '{"name": "order", "identity_strategy": "always_unique", "steps": [{"name": "pack", "handler": '
	. '"shop.pack"}, {"name": "ship", "handler": "shop.ship", "dependencies": ["pack"]}]}');
$node->safe_psql('postgres', q{
	select
		pawl_bulk.define('{"name": "import", "is_retryable": true, "track_row_data": true, "row": {"required": ["id"],
    "properties": {"id": {"maxLength": 3}}},
	    "steps": [{"name": "ask", "kind": "signal", "handler": "none", "timeout": "1 h", "signal_key": "go-{row}"}]}');
	select pawl_saga.define('{"name": "trip", "flow": "linear", "children": [{"task": "hotel"}, {"task": "train"}]}');
	select pawl_dag.start_tasks('order', array_fill('{}'::jsonb, array[3]));
	create schema shop;
	create function shop.fails(context jsonb, inputs jsonb) returns jsonb
		language plpgsql as $$ begin raise exception 'never'; end $$;
	create function shop.does(a jsonb) returns jsonb language sql as $$ select jsonb_build_object() $$;
	create function shop.cannot(a jsonb) returns jsonb language plpgsql as $$ begin raise exception 'never'; end $$;
	create function shop.cannot_undo(a jsonb, done jsonb) returns jsonb
		language plpgsql as $$ begin raise exception 'never'; end $$;
	select pawl_dag.define_template('{"name": "failing", "identity_strategy": "always_unique", "steps": [{"name": '
		'"fail", "handler": "sql:shop.fails", "retry": {"max_attempts": 1}}]}');
	select pawl_dag.start_tasks('failing', array_fill('{}'::jsonb, array[8]));
	select pawl_saga.define('{"name": "good", "flow": "linear", "children": [{"task": "a", "execute": '
		'"sql:shop.does"}]}');
	select pawl_saga.define('{"name": "stuck", "flow": "linear", "children": [{"task": "a", "execute": '
		'"sql:shop.does", "revert": "sql:shop.cannot_undo"}, {"task": "b", "execute": "sql:shop.cannot"}]}');
	select pawl_saga.start(name) from unnest('{good,stuck,stuck}'::text[]) name;
});
my $token = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $api = begin_api($node, '--api-failed-logins', '1000000');

my $task = ask('POST', '/v1/tasks', token => $token, body => { name => 'order' })->{json};
my $bulk = $node->safe_psql('postgres', q{select operation from pawl_bulk.submit('import',
	rows => '[{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "long"}]')});
$node->poll_query_until('postgres',
		"select count(*) = 3 from pawl_bulk.work where operation = '$bulk' and kind = 'signal'") or die 'no row waits';
my $flow = ask('POST', '/v1/flows', token => $token, body => { name => 'trip' })->{json};
my $job = ask('POST', '/v1/jobs', token => $token, body => { name => 'later' })->{json};

# Things that stand where operators help: tasks whose step has failed, operations with failed rows, flows that have
# ended well or could not be reverted.
my @ended = map { $node->safe_psql('postgres',
		q{select operation from pawl_bulk.submit('import', rows => '[{"id": "x"}, {"id": "y"}]')}) } 1 .. 2;
$node->poll_query_until('postgres',
		"select count(*) = 4 from pawl_bulk.work where operation in ('$ended[0]', '$ended[1]') and kind = 'signal'")
	or die 'no row waits';
$node->safe_psql('postgres',
	join(';', map { "select pawl_bulk.signal('$_', 'go-1', 'fail', 'no'), pawl_bulk.signal('$_', 'go-2')" } @ended));
$node->poll_query_until('postgres',
		"select count(*) = 2 from pawl_bulk.operations where status = 'CompletedWithErrors'")
	or die 'no operation has ended';
$node->poll_query_until('postgres', q{select count(*) = 8 from pawl_dag.tasks t join pawl_dag.dlq d using (task_uuid)
			where t.state = 'blocked_by_failures' and d.resolution_status = 'pending'}) or die 'no task is blocked';
$node->poll_query_until('postgres', q{select string_agg(state, ' ' order by state) = 'FAILURE FAILURE SUCCESS'
			from pawl_saga.flows where name in ('good', 'stuck')}) or die 'no flow has ended';
my @blocked = split /\n/, $node->safe_psql('postgres',
	q{select task_uuid || ' ' || step_uuid from pawl_dag.steps where name = 'fail' order by task_uuid});
my %failed;
for (qw(retry_task requeue_task give_up_task resolve_task reset_task retry_step resolve_step
    complete_step)) { @failed{"$_.task", "$_.step"} = split / /, shift @blocked }
$node->safe_psql('postgres', "select pawl_dag.give_up('$failed{'reset_task.task'}', 'test')");
my ($good, @stuck) = split /\n/,
	$node->safe_psql('postgres',
		q{select flow_uuid from pawl_saga.flows where name in ('good', 'stuck') order by name});
my @fresh = split /\n/, $node->safe_psql('postgres',
	q{select task_uuid from pawl_dag.tasks where name = 'order' order by task_uuid limit 2});

# What no schema can know: what is there, and in which order it can still be done.
my %known = (task => $task->{task_uuid}, step => $task->{workflow_steps}[0]{step_uuid}, machine => 'pawl_dag.task',
	id => $bulk, flow => $flow->{flow_uuid}, atom => 'hotel', job => $job->{job_uuid},
	row => 1, relation => 'pawl_dag.tasks', key => $task->{task_uuid}, state_column => 'state', namespace => 'default',
	'relations' => 'pawl_dag.tasks', event => 'Cancel',
	'get_template.name' => 'order', 'get_template.version' => $task->{version}, 'definition_template.name' => 'import',
	version => 1,
	'list_tasks.state' => 'pending,complete', 'list_flows.state' => 'SUCCESS,REVERTED', 'list_jobs.state' => 'COMPLETE',
	'list_bulks.status' => 'Running', 'list_dlq.status' => 'pending',
	(map { ("$_.state" => 'Failed,Completed') } qw(bulk_rows export_bulk link_export)),
	'start_task.name' => 'order', 'start_task.version' => $task->{version}, 'start_flow.name' => 'trip',
	'start_flow.inputs' => {}, 'post_job.flow' => 'trip', 'post_job.inputs' => {}, 'post_job.board' => 'default',
	'signal_bulk.key' => 'go-1', 'fail_signal_bulk.key' => 'go-2', 'signal_bulk.attempt' => 0,
	'fail_signal_bulk.attempt' => 0,
	operationName => 'import', file => "id\na\nb\n", metadata => '{}', notifications => '[]',
	'submit_bulk.delimiter' => ',', 'validate_bulk.delimiter' => ',', priority => '5', 'start_task.priority' => 5,
	'post_job.priority' => 'HIGH', 'retry_bulk.error_types' => ['SignalFailure'], 'retry_bulk.steps' => ['ask'],
	%failed, 'retry_bulk.id' => $ended[0], 'retry_bulk_rows.id' => $ended[1], 'retry_bulk_rows.rowNumbers' => [1],
	'retry_bulk.rows' => [1],
	'reset_flow.flow' => $good, 'run_flow.flow' => $good, 'resolve_atom.flow' => $stuck[0],
	'retry_revert.flow' => $stuck[1], 'resolve_atom.atom' => 'a', 'retry_revert.atom' => 'a',
	'cancel_task.task' => $fresh[0], 'fire.key' => $fresh[1],
	'act_on_bulk_rows.rows' => [1],
	# either ids or a filter
	without => [ map { ("act_on_$_.filter", "act_on_$_.cursor") } qw(tasks dlq bulks bulk_rows) ],
	order =>
	[ qw(signal_bulk fail_signal_bulk pause_bulk resume_bulk retry_bulk_rows retry_bulk cancel_bulk suspend_flow
		resume_flow reset_flow run_flow resolve_atom retry_revert cancel_step complete_step resolve_step retry_step
		retry_task requeue_task give_up_task cancel_task resolve_task reset_task fire) ]);
my ($said, $err) = ('', '');
IPC::Run::run([ 'python3', "$FindBin::Bin/openapi_client.py", "$FindBin::Bin/../../client/http/openapi.json",
	'http://127.0.0.1:' . api_port(), $token, JSON::PP->new->utf8->encode(\%known) ],
	'>', \$said, '2>', \$err) or diag($err);
is($err, '', 'the client is made, and goes through');

my %calls;
my @misfits = grep { /^MISFIT/ } split /\n/, $said;
/^(\w+): (.*): (\d+)$/ and push @{ $calls{$1} }, [ $2, $3 ] for split /\n/, $said;
is(join("\n", @misfits), '', 'every answer fits the document');
my $document = decode_json(PostgreSQL::Test::Utils::slurp_file("$FindBin::Bin/../../client/http/openapi.json"));
my %method = map { my $ways = $_; map { $ways->{$_}{operationId} => $_ } keys %$ways } values %{ $document->{paths} };
is(join(' ', grep { !$calls{$_} } sort keys %method), '', keys(%method) . ' operations were called');

my (@bad, @good, @done);
for my $name (sort keys %calls)
{
	for (@{ $calls{$name} })
	{
		my ($how, $status) = @$_;
		push @bad, "$name: $how: $status"
			if $how =~ /^wrong/ ? $status !~ /^4/ : $method{$name} eq 'get' && $status !~ /^2/;
		push @bad, "$name: $how: $status" if $status >= 500;
	}
	push @done, $name if $method{$name} eq 'post' && grep { $_->[0] !~ /^wrong/ && $_->[1] =~ /^2/ } @{ $calls{$name} };
}
is(join("\n", @bad), '', 'valid requests are answered, invalid ones are rejected as the client\'s fault, '
	. (grep { /: wrong,/ } split /\n/, $said) . ' ways');
my %done = map { $_ => 1 } @done;
is(join(' ', grep { $method{$_} eq 'post' && !$done{$_} } sort keys %method), '',
	'and each operation that acts has acted');

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
