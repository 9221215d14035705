# Bulk operations under way are dumped and restored, with all that belongs to them, and go on. A server that crashes in
# the middle loses nothing that was committed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_bulk' ]);
my $dir = PostgreSQL::Test::Utils::tempdir;
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
select pawl_bulk.define('{"name": "t", "is_retryable": true, "track_row_data": true, "steps": [{"name": "a", '
    '"handler": "hands"}, {"name": "b", "handler": "none", "kind": "signal", "timeout": "1 day"}]}');
select operation from pawl_bulk.submit('t', rows => '[{"n": 1}, {"n": 2}, {"n": 3}, 4]', file_name => 'retried');
select run('{2}');
select pawl_bulk.signal(operation, 's1-r1') from pawl_bulk.operations where file_name = 'retried';
select from pawl_bulk.run_sql_rows();
select pawl_bulk.signal(operation, 's1-r3') from pawl_bulk.operations where file_name = 'retried';
select run();
select operation from pawl_bulk.submit('t', rows => '[{"n": 1}, {"n": 2}]', file_name => 'leased');
select pawl_bulk.advance() from generate_series(1, 6);
select pawl_bulk.claim('worker', 'hands', 1, '1 day');
select operation from pawl_bulk.submit('t', rows => '[{"n": 1}]', file_name => 'pending');
select pawl_bulk.signal(operation, 's1-r1') from pawl_bulk.operations where file_name = 'pending';
select pawl_bulk.retry(operation) from pawl_bulk.operations where file_name = 'retried';
select operation from pawl_bulk.submit('t', rows => '[{"n": 1}, {"n": 2}]', file_name => 'validating', priority => 10,
    notifications => '[{"channel": "mail", "target": "a", "triggers": ["status_change"]}, {"channel": "post", '
        '"target": "b", "triggers": ["status_change"]}]');
select pawl_bulk.advance(1) from generate_series(1, 2);
select pawl_bulk.claim_notices('mailer', 'mail', 1, '1 day');
SQL
my $picture = join ' union all ',
	map { "select '$_', count(*), md5(string_agg(t::text, '|' order by t::text)) from pawl_bulk.$_ t" }
  qw(definitions steps operations input unvalidated notices validations records work
      tallies retry_history signal_keys signals events operation_transitions_log
      record_transitions_log);
my $original = one($node, $picture);
is(one($node, 'select count(distinct status) from pawl_bulk.operations'), '4', 'operations in four states');
is(one($node, q{select (select string_agg(first_row || ' ' || last_row, ',') from pawl_bulk.unvalidated) || '; ' ||
		(select string_agg(channel || ' ' || state, ',' order by channel) from pawl_bulk.notices)}),
	'2 2; mail leased,post ready', 'one of them half validated, with notices');
is(one($node, 'select * from pawl_bulk.verify()'), '', 'all is well before');

# Everything that was begun comes to its end, whichever worker does it.
sub finished
{
	my ($name, $database) = @_;
	is(one($node, $picture, $database), $original, "$name: everything is there");
	is(one($node, 'select * from pawl_bulk.verify()', $database), '', "$name: and fits together");
	sound($node, $name, $database);
	rejected($node, "update pawl_bulk.operations set status = 'Completed' where status = 'Pending'", 'PW001',
		"$name: operations are validated", $database);
	is(one($node, <<'SQL', $database), 't', "$name: the worker that had claimed the row reports");
select r.ok from pawl_bulk.work w,
    pawl_bulk.report(jsonb_build_array(jsonb_build_object('operation', w.operation, 'row_number', w.row_number,
    'step_index', w.step_index, 'token', w.token, 'result', 'ok')), 'worker') r where w.worker = 'worker'
SQL
	is(one($node, q{select r.ok from pawl_bulk.notices n,
		pawl_bulk.report_notices(jsonb_build_array(jsonb_build_object('operation', n.operation, 'notice', n.notice,
		'token', n.token, 'result', 'ok')), 'mailer') r where n.worker = 'mailer'}, $database),
		't', "$name: so does the sender of a notice");
	$node->safe_psql($database, <<'SQL');
select run();
select from pawl_bulk.run_sql_rows();
select pawl_bulk.signal(operation, 's1-r' || row_number) from pawl_bulk.work where state = 'awaiting';
select run();
SQL
	is(one($node,
		"select string_agg(o.file_name || ' ' || s.status || ' ' || s.successful_rows || '/' || s.failed_rows, ', ' "
		. "order by o.file_name) from pawl_bulk.operations o join pawl_bulk.status s using (operation)", $database),
		'leased Completed 2/0, pending Completed 1/0, retried CompletedWithErrors 3/1, validating Completed 2/0',
		"$name: all operations end");
	is(one($node, 'select * from pawl_bulk.verify()', $database), '', "$name: nothing is wrong in the end");
	return;
}

local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
{
	local $ENV{PGOPTIONS} = '-c pawl.restoring=on';
	$node->command_ok(['pg_dump', '-F', 'custom', '-f', "$dir/dump", 'postgres'], 'pg_dump');
	$node->safe_psql('postgres', 'create database restored template template0');
	$node->command_ok(['pg_restore', '--exit-on-error', '-d', 'restored', "$dir/dump"], 'pg_restore');
}
finished('restored', 'restored');
$node->stop('immediate');
$node->start;
finished('after a crash', 'postgres');
accepted($node, 'drop extension pawl_bulk cascade', 'the pack goes');
is(one($node, "select count(*) from pawl.binding where relation::text like 'pawl_bulk%'"), 0, 'with its lifecycles');
accepted($node, 'create extension pawl_bulk', 'and comes again');
done_testing();
