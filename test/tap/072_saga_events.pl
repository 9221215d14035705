# A consumer that watches flows reads every state change, in order, while daemons run them; a waiter is notified. What
# the guide shows of flows can be pasted.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Page;
use PawlTest;
use PawlPrograms;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');

# The guide's section, in a database of its own.
$node->safe_psql('postgres', 'create database page');
$node->safe_psql('page', 'create extension pawl');
my ($section) =
	slurp_file("$FindBin::Bin/../../docs/guide.md") =~ /^(## \d+\. Flows that are undone\n.*?)(?=^## |\z)/ms;
gives_what_it_says(name => 'the guide', text => $section, psql => [ 'psql', '-d', $node->connstr('page') ],
	folder => PostgreSQL::Test::Utils::tempdir);
is(one($node, q(select f.state || ': ' || string_agg(a.name || ' ' || a.state, ', ' order by a.node)
	from pawl_saga.flows f join pawl_saga.atoms a using (flow_uuid) group by f.state), 'page'),
	'REVERTED: flight REVERTED, another room REVERTED, hotel REVERTED, car REVERTED', 'and ends as it says');
is(one($node, 'select max(attempt) from pawl_saga.attempts', 'page'), 2, 'the hotel was tried twice');

# Watching.
$node->safe_psql('postgres', <<'SQL');
create extension pawl_saga;
create function public.ok(a jsonb) returns jsonb language sql as $$ select '1'::jsonb $$;
create function public.undo(a jsonb, done jsonb) returns jsonb language sql as $$ select done -> 'result' $$;
create function public.bad(a jsonb) returns jsonb language plpgsql as $$ begin raise exception 'no room'; end $$;
create function define(name text, last text) returns uuid language sql as $$
    select pawl_saga.define(format(
            '{"flow": "linear", "name": "%s", "retry": {"retry": "Times", "name": "again", "attempts": 2}, "children": [
        {"task": "flight", "execute": "sql:public.ok", "revert": "sql:public.undo"},
            {"task": "hotel", "execute": "sql:public.ok", "revert": "sql:public.undo"},
        {"task": "car", "execute": "sql:public.%s"}]}', name, last)::jsonb) $$;
select define('good', 'ok'), define('broken', 'bad');
select pawl.create_consumer('watch',
    relations => array['pawl_saga.flows', 'pawl_saga.tasks', 'pawl_saga.retries', 'pawl_saga.jobs']::regclass[]);
create table seen (n bigint generated always as identity, relation regclass, key text[], log_id uuid, to_state text);
SQL
my ($asked, $told) = ('', '');
my $watcher = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$asked, '>', \$told, '2>',
	\my $said, IPC::Run::timeout(300));
sub asks {
	my ($text, $answer) = @_;
	wait_until(sub { $asked .= "$text;\n"; $watcher->pump; $told =~ $answer }, "$answer");
	return
}
asks('select $$channel $$ || pawl.sleep()', qr/^channel (\S+)$/m);
my ($channel) = $told =~ /^channel (\S+)$/m;
one($node, q(select pawl_saga.start('good')));
asks('select 1', qr/Asynchronous notification/);
like($told, qr/^Asynchronous notification "\Q$channel\E" received/m, 'a waiter is notified of a state change');
$asked .= "\\q\n";
$watcher->finish;

# Read while it happens, by two readers of one consumer.
one($node,
	q(select count(pawl_saga.start(case when g % 2 = 0 then 'good' else 'broken' end)) from generate_series(1, 40) g));
one($node, q(select count(pawl_saga.post('job ' || g, 'good')) from generate_series(1, 5) g));
my @daemons = map { begin_program($node, 'pawld', '--sql-workers', 2) } 1 .. 2;
my $read = q(insert into seen (relation, key, log_id, to_state) select relation, key, log_id, to_state
	from pawl.read_events('watch', 50));
my $rest = q(select not exists (select from pawl_saga.flows where state not in ('SUCCESS', 'REVERTED'))
	and not exists (select from pawl_saga.jobs where state <> 'COMPLETE'));
ok(wait_until(sub { $node->safe_psql('postgres', "$read; $read"); one($node, $rest) eq 't' }, 'the end of all flows'),
	'every flow and job comes to its end');
is(end_program($_, 'TERM'), 0, 'pawld ends well') for @daemons;
my $more = -1;
until ($more == one($node, 'select count(*) from seen')) {
	$more = one($node, 'select count(*) from seen');
	$node->safe_psql('postgres', $read)
}

my $logs =
	q((select id from pawl_saga.flow_transitions union all select id from pawl_saga.task_transitions union all select id
          from pawl_saga.retry_transitions
	union all select id from pawl_saga.job_transitions));
is(one($node, 'select count(*) || $$ $$ || count(distinct log_id) from seen'),
	one($node, "select count(*) || ' ' || count(*) from $logs l"), 'an event for every transition, once');
is(one($node, "select count(*) from $logs l where not exists (select from seen s where s.log_id = l.id)"), 0,
	'none is missing');
cmp_ok(one($node, q(select count(*) from seen where relation = 'pawl_saga.jobs'::regclass)), '>=', 15,
	'jobs are among them');
is(one($node, <<'SQL'), 0, 'events of a flow come in the order of its timeline');
select count(*) from (
    select s.log_id, row_number() over (partition by t.flow_uuid order by s.n) as told,
    row_number() over (partition by t.flow_uuid order by t.created_at, t.id) as happened
      from seen s join pawl_saga.timeline t on t.id = s.log_id) x where told <> happened
SQL
is(one($node, q(select count(distinct story)
          from (select f.name, string_agg(t.subject || ' ' || t.to_state, ', ' order by s.n) as story
	from seen s join pawl_saga.timeline t on t.id = s.log_id join pawl_saga.flows f using (flow_uuid)
		group by f.flow_uuid, f.name) x)), 2, 'and flows of one kind tell one story');
sound($node, 'after all of it');
done_testing();
