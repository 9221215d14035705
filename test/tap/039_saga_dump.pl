# What docs/saga.md shows can be pasted, in the order of the page. Flows under way are dumped and restored with all that
# belongs to them, and go on there as they do here. A server that crashes loses nothing that was committed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Page;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_saga' ]);
my $dir = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', <<'SQL');
-- Does what can be done; fails what is named.
create function work(failing text[] default '{}') returns void language plpgsql as $$
declare c record; did boolean := true;
begin
    while did loop
        did := false;
        for c in select * from pawl_saga.claim('w', 'default', 1) loop
            did := true;
            perform from pawl_saga.report(
                jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
                || case when c.action || ' '
                || c.name = any (failing) then '{"failure": {"message": "no"}}'::jsonb else '{"result": 1}' end), 'w');
        end loop;
    end loop;
end $$;
create function define(name text, steps text, more text default '') returns uuid language sql as
$$ select pawl_saga.define(format('{"flow": "linear", "name": "%s"%s, "children": [%s]}', name, more, steps)::jsonb) $$;
select define('leased', '{"task": "a"}, {"task": "held", "queue": "held"}, {"task": "b"}');
select define('waiting',
    '{"task": "a"}, {"task": "signal", "signal": "go", "provides": "word"}, {"task": "b", "requires": ["word"]}');
select define('backing off', '{"task": "a"}, {"task": "fails first"}',
    ', "retry": {"retry": "Times", "name": "again", "attempts": 2, "backoff": {"strategy": "linear", "base": "1 h"}}');
select define('broken', '{"task": "a"}, {"task": "stuck"}, {"task": "fails"}');
select define('suspended', '{"task": "a"}, {"task": "b"}');
select define('posted', '{"task": "a"}');
select pawl_saga.start(n) from unnest(array['leased', 'waiting', 'backing off', 'broken', 'suspended']) n;
select pawl_saga.suspend(flow_uuid) from pawl_saga.flows where name = 'suspended';
select work('{execute fails first,execute fails,revert stuck}');
select count(*) from pawl_saga.claim('claimer', 'held', 1, '1 day');
select pawl_saga.signal(flow_uuid, 'later') from pawl_saga.flows where name = 'waiting';
select define('suspended', '{"task": "a"}, {"task": "c"}');
select pawl_saga.alter_flow(flow_uuid) from pawl_saga.flows where name = 'suspended';
select pawl_saga.post('one', 'posted');
select pawl_saga.claim_job(pawl_saga.post('two'), 'conductor');
SQL
my $picture = join ' union all ',
	map { "select '$_', count(*), md5(string_agg(t::text, '|' order by t::text)) from pawl_saga.$_ t" }
  qw(definitions nodes edges votes parameters flows runs tasks retries junctions attempts
      intentions signals jobs flow_transitions_log task_transitions_log
      retry_transitions_log job_transitions_log);
my $original = one($node, $picture);
is(one($node, q(select string_agg(name || ' ' || state, ', ' order by name) from pawl_saga.flows)),
	'backing off RUNNING, broken FAILURE, leased RUNNING, suspended SUSPENDED, waiting RUNNING',
	'flows in several states');
is(one($node, 'select * from pawl_saga.verify()'), '', 'all is well before');

# Everything that was begun comes to its end, whichever worker does it.
sub goes_on
{
	my ($name, $database) = @_;
	is(one($node, $picture, $database), $original, "$name: everything is there");
	is(one($node, 'select * from pawl_saga.verify()', $database), '', "$name: and fits together");
	sound($node, $name, $database);
	rejected($node, "update pawl_saga.flows set state = 'SUCCESS' where state = 'SUSPENDED'", 'PW001',
		"$name: flows are validated", $database);
	rejected($node, "update pawl_saga.nodes set name = 'x'", 'PW006', "$name: definitions are immutable", $database);
	is(one($node, <<'SQL', $database), 't', "$name: the worker that had claimed the task reports");
select r.ok
    from pawl_saga.tasks t, pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', t.flow_uuid, 'node',
            t.node, 'token', t.token, 'result', 1)), 'claimer') r
    where t.worker = 'claimer'
SQL
	$node->safe_psql($database, <<'SQL');
select pawl_saga.signal(flow_uuid, 'go', '"now"') from pawl_saga.flows where name = 'waiting';
select pawl_saga.resume(flow_uuid) from pawl_saga.flows where name = 'suspended';
select pawl_saga.retry_revert(flow_uuid, 'stuck', 'again') from pawl_saga.flows where name = 'broken';
update pawl_saga.retries set due_at = clock_timestamp() where due_at is not null;
select done from pawl_saga.begin_attempts();
select done from pawl_saga.conduct();
select work();
select done from pawl_saga.conduct();
SQL
	is(one($node, q(select string_agg(name || ' ' || state, ', ' order by name) from pawl_saga.flows), $database),
		'backing off SUCCESS, broken REVERTED, leased SUCCESS, posted SUCCESS, suspended SUCCESS, waiting SUCCESS',
		"$name: all flows end");
	is(one($node, q(select string_agg(name || ' ' || state, ', ' order by name) from pawl_saga.jobs), $database),
		'one COMPLETE, two CLAIMED', "$name: as does the job");
	is(one($node, 'select * from pawl_saga.verify()', $database), '', "$name: nothing is wrong in the end");
	sound($node, "$name, in the end", $database);
	return;
}

local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
for my $way (['psql', 'plain'], ['pg_restore', 'custom'])
{
	my ($program, $format) = @$way;
	local $ENV{PGOPTIONS} = '-c pawl.restoring=on';
	$node->command_ok(['pg_dump', '-F', $format, '-f', "$dir/$format", 'postgres'], "pg_dump -F $format");
	$node->safe_psql('postgres', "create database $format template template0");
	my @command = $program eq 'psql'
		? ('psql', '-X', '-q', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-d', $format, '-f', "$dir/$format")
	  : ('pg_restore', '--exit-on-error', '-d', $format, "$dir/$format");
	$node->command_ok(\@command, "restored by $program");
	local $ENV{PGOPTIONS} = '';
	goes_on($format, $format);
}
$node->stop('immediate');
$node->start;
goes_on('after a crash', 'postgres');
accepted($node, 'drop extension pawl_saga cascade', 'the pack goes');
is(one($node, "select count(*) from pawl.binding where relation::text like 'pawl_saga%'"), 0, 'with its lifecycles');
accepted($node, 'create extension pawl_saga', 'and comes again');

# The page, in a database of its own.
$node->safe_psql('postgres', 'create database page');
my $page = slurp_file("$FindBin::Bin/../../docs/saga.md");
gives_what_it_says(name => 'docs/saga.md', text => $page, psql => [ 'psql', '-d', $node->connstr('page') ],
	folder => $dir);
is(one($node, q(select string_agg(coalesce(inputs ->> 'town', name) || ' ' || state, ', ' order by created_at)
	from pawl_saga.flows), 'page'),
	'Rome SUCCESS, Oslo REVERTED, letter RUNNING, order RUNNING, hard REVERTED, Bonn SUCCESS, Rome SUCCESS',
	'and they end as the page says');
is(one($node, q(select string_agg(what || ' ' || n, ', ' order by what)
		from (select what, count(*) n from bookings where not cancelled group by what) b), 'page'),
	'car 3, flight 3, hotel 3, letter 1', 'no booking of what was reverted stands');
my $reference = slurp_file("$FindBin::Bin/../../docs/reference.md");
my ($section) = $reference =~ /^(## Sagas.*?)^## /ms;
my $missing = join "\n", grep { $section !~ /\b\Q$_\E\(/ } split /\n/,
  one($node,
      q{select distinct p.proname from pg_proc p where p.pronamespace = 'pawl_saga'::regnamespace and p.proname !~ '^_'
      and p.proname not in ('may_execute', 'may_revert', 'may_lose_another', 'flow_begins_anew',
          'flow_of_retry_begins_anew', 'conductor') order by 1}, 'page');
is($missing, '', 'every public function is in the reference');
done_testing();
