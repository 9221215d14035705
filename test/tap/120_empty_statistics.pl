# Plans that hold whatever the planner knows: all tables were analyzed while they were empty, and then an operation and
# a workflow have thousands of rows. No statement may compare the rows of two sets each with each, which auto_explain
# would show.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlPrograms;
use PawlTest;
use Test::More;

my $many = 2000;
my $node = new_cluster('main', with => [qw(pawl_dag pawl_bulk)], conf => <<'CONF');
session_preload_libraries = 'auto_explain'
auto_explain.log_min_duration = '2ms'
auto_explain.log_nested_statements = on
auto_explain.log_analyze = on
auto_explain.log_timing = off
autovacuum = off
CONF
$node->safe_psql('postgres', <<'SQL');
create function public.work(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
    $$ select n, 'odd' from unnest(row_numbers) n where n % 2 = 1 $$;
create function public.valid(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language sql as
    $$ select n, 'ten', 'a tenth' from unnest(row_numbers) n where n % 10 = 0 $$;
select pawl_bulk.define('{"name": "worked", "steps": [{"name": "activate", "handler": "external"}]}');
select pawl_bulk.define('{"name": "called", "is_retryable": true, "track_row_data": true,
    "validators": ["public.valid"], "steps": [{"name": "activate", "handler": "sql:public.work"}]}');
vacuum analyze;
SQL

# The plans in the server's log that compare more rows than any linear one does.
sub products
{
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
	my ($seen, @found) = 0;
	for my $plan (split /^(?=\S+ \S+ UTC .*LOG:  duration: )/m, $log)
	{
		$seen++ if $plan =~ /LOG:  duration: .*actual rows=/s;
		my $compared = 0;
		$compared += $1 while $plan =~ /Rows Removed by (?:Join )?Filter: (\d+)/g;
		$compared += $1 * $2 while $plan =~ /actual rows=([\d.]+) loops=(\d+)/g;
		push @found, substr($plan, 0, 1500) if $compared > 50 * $many;
	}
	return $seen ? join("\n", @found) : 'no plan was logged';
}
sub linear { my ($what) = @_; return is(products(), '', "$what: no plan compares each row with each") }

sub submit
{
	my ($definition) = @_;
	return one($node, "select operation from pawl_bulk.submit('$definition', rows => "
		. "(select jsonb_agg(jsonb_build_object('i', i)) from generate_series(1, $many) i))");
}
sub turns
{
	my ($operation, $status, @statements) = @_;
	wait_until(sub {
		$node->safe_psql('postgres', $_) for @statements;
		one($node, "select status from pawl_bulk.operations where operation = '$operation'") eq $status
	}, "the operation to be $status");
	return;
}

my $worked = submit('worked');
turns($worked, 'Completed', 'select * from pawl_bulk.advance()',
	q{with c as materialized (select * from pawl_bulk.claim('w', 'external', 1000))
		select count(*) from pawl_bulk.report((select coalesce(jsonb_agg(jsonb_build_object('operation', operation,
			'row_number', row_number, 'step_index', step_index, 'token', token, 'result', 'ok')), '[]') from c), 'w')});
linear('rows by workers');

my $called = submit('called');
turns($called, 'CompletedWithErrors', 'call pawl_bulk.work_operations()', 'call pawl_bulk.work_sql_rows()');
linear('rows by SQL');
$node->safe_psql('postgres', "select pawl_bulk.retry('$called')");
turns($called, 'CompletedWithErrors', 'call pawl_bulk.work_operations()', 'call pawl_bulk.work_sql_rows()');
linear('rows that are retried');
is(one($node, 'select * from pawl_bulk.verify()'), '', 'pawl_bulk.verify() finds nothing');
linear('verify');

# A map of as many steps
define_template($node, '{"name": "map", "identity_strategy": "always_unique", "steps": [{"name": "each", "handler": '
	. '"external", "map": "items"}, {"name": "join", "handler": "external", "dependencies": ["each"]}]}');
my $task = one($node, "select pawl_dag.start_task('map', jsonb_build_object('items', "
	. "(select jsonb_agg(g) from generate_series(1, $many) g)))");
my $got = '[]';
wait_until(sub {
	$got = one($node, "select coalesce(jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, "
		. "'step_uuid', c.step_uuid, 'token', c.token, 'result', 1)) filter (where c.ok is null), '[]')::text "
		. "from pawl_dag.report_and_claim('$got'::jsonb, '00000000-0000-4000-8000-000000000001', 'default', 500, "
		. "'60 s', 500) c");
	one($node, "select state from pawl_dag.tasks where task_uuid = '$task'") eq 'complete'
}, 'the map to be complete');
linear('a map');
done_testing();
