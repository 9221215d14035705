# /metrics, /healthz and /readyz of the daemon: text that a strict reader takes, numbers that are those of the database,
# answers that are true with the database gone, a duty stuck, a version that does not fit, and in a drain. The dashboard
# and docs/metrics.md know all of it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Exposition;
use HTTP::Tiny;
use JSON::PP;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

# the reader itself takes nothing wrong
my $good = "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"a\\\"b\\\\\\n\"} 1\n";
ok(eval { read_exposition($good); 1 }, 'the reader takes what is right') or diag($@);
my %wrong = (
	'a series twice' => $good . "a_total{l=\"a\\\"b\\\\\\n\"} 2\n",
	'a quote that is not escaped' => $good . "a_total{l=\"a\"b\"} 1\n",
	'no TYPE' => "# HELP b x\nb 1\n", 'another family' => $good . "c 1\n", 'a family twice' => $good . $good,
	'no number' => $good . "a_total x\n",
	'buckets that fall' =>
	"# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
	'no +Inf' => "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_sum 1\nh_count 2\n",
	'a count that is not +Inf' => "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 3\n");
for (sort keys %wrong) { ok(!eval { read_exposition($wrong{$_}); 1 }, "the reader rejects: $_") }

my ($node, $port);
sub scrape
{
	my ($status, $text) = http_get($port, '/metrics');
	is($status, 200, 'GET /metrics answers with status 200') unless $status == 200;
	return read_exposition($text);
}
sub daemon
{
	my @more = @_;
	my $run = begin_program($node, 'pawld', '--http', '127.0.0.1:0', '--gauges-ms', '100', '--longest-poll-ms', '200',
		@more);
	wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /listening port=(\d+)/ ? ($port = $1) : 0 },
		'the port: ' . $run->{err});
	return $run;
}
sub answers
{
	my ($path, $status, $name) = @_;
	return becomes(sub { (http_get($port, $path))[0] }, $status, $name // "$path says $status")
}

$node = new_cluster('main', conf => "shared_preload_libraries = 'pawl'\n", with => [ 'pawl_dag', 'pawl_api' ]);
$node->safe_psql('postgres', 'alter role pawl_authenticator login');
$node->safe_psql('postgres', <<'SQL');
select pawl.define('odd "name"\', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> ready : lost
    running --> ready : fail
    running --> done : finish
    ready --> late : wait
    late --> done : after 1 ms
    done --> [*]
    running:::owned');
create table jobs (id int primary key, state text not null default 'ready', worker text, lease timestamptz,
    token bigint, due timestamptz, attempts int default 0, max_attempts int default 9);
select pawl.enforce('jobs', 'state', 'odd "name"\'), pawl.enable_log('jobs', 'state'),
    pawl.enable_queue('jobs', 'state', owner => 'worker', lease => 'lease', token => 'token', attempts => 'attempts',
        max_attempts => 'max_attempts'),
    pawl.enable_timers('jobs', 'state', due => 'due'),
    pawl.set_claiming('jobs', 'state', claim => array['start'], on_expiry => 'lost', retry => array['fail'],
        backoff => '{"base": "0 s", "jitter": "none"}'),
    pawl.enable_events('jobs', 'state');
select pawl.create_consumer('reader');
insert into jobs select g from generate_series(1, 10) g;
select count(*) from pawl.claim(null::jobs, processor => 'w', batch => 3);
set pawl.processor = 'w';
update jobs set state = 'done' where id = 1;
select pawl.fire('jobs', 2, 'fail');
select count(*) from pawl.claim(null::jobs, processor => 'x', lease => '1 ms', batch => 1);
update jobs set state = 'late' where id = 10;
SQL
rejected($node, "update jobs set state = 'none' where id = 4", 'PW001', 'a rejection');
my $run = daemon('--api', '127.0.0.1:0', '--api-database', 'user=pawl_authenticator');
answers('/readyz', 200);
is((http_get($port, '/healthz'))[0], 200, 'GET /healthz answers with status 200');
$node->poll_query_until('postgres',
		"select count(*) = 2 from jobs_transitions where event = 'lost' or (from_state = 'late')")
	or die 'the duties do not do theirs';
my $seen;
wait_until(sub {
	$seen = scrape();
	sample($seen, 'pawl_lease_expiries_total') == 1 && sample($seen, 'pawl_timers_fired_total') == 1
}, 'counters');
my $machine = qr/machine="odd \\"name\\"\\\\"/;
is(sample($seen, 'pawl_counters_preloaded'), 1, 'moves are counted');
is(sample($seen, 'pawl_transitions_total', $machine), one($node, 'select count(*) from jobs_transitions'),
	'as many as the log has');
is(sample($seen, 'pawl_transitions_total', qr/$machine,version="1",from="ready",to="running",event="start"/), 4,
	'/metrics counts state changes by transition');
is(sample($seen, 'pawl_rejections_total', qr/$machine,sqlstate="PW001"/), 1, 'rejections by code');
is(sample($seen, 'pawl_retries_total', $machine), 1, '/metrics counts retries');
is(sample($seen, 'pawl_claim_latency_seconds_count', $machine), 4, 'the latency of every claim');
is(sample($seen, 'pawl_completion_latency_seconds_count', qr/event="(finish|fail)"/), 2, 'and of every result');
is(sample($seen, 'pawl_queue_claimable', qr/relation="jobs"/), 7, 'depth of a queue');
is(sample($seen, 'pawl_outbox_behind_events', qr/consumer="reader"/), one($node,
	"select behind from pawl.consumers where consumer = 'reader'"), 'a consumer that does not read is behind');
cmp_ok(sample($seen, 'pawl_outbox_lag_seconds'), '>', 0, 'and for how long');
is(sample($seen, 'pawld_api_connections_max'), 10, 'the pool of the API');
cmp_ok(sample($seen, 'pawld_duty_duration_seconds_count', qr/duty="reap jobs"/), '>', 0, 'durations of duties');
cmp_ok(sample($seen, 'pawld_duty_duration_seconds_count'), '>', 0, '/metrics has durations of the duties');

# what is told is documented, drawn where it can be, and nothing else is
my $root = "$FindBin::Bin/../..";
my $document = slurp_file("$root/docs/metrics.md");
my %documented = map { $_ => 1 } $document =~ /^\| `(pawld?_\w+)`/mg;
is_deeply([ sort keys %$seen ], [ sort keys %documented ], 'docs/metrics.md has every metric, and no other');
for my $name (sort keys %documented)
{
	my ($labels) = $document =~ /^\| `$name` \| [^|]* \| ([^|]*) \|/m;
	my @said = sort map { /`(\w+)`/g } $labels;
	my @told = sort keys %{ $seen->{$name}{labels} };
	next if !@told && !%{ $seen->{$name}{samples} };
	is("@said", "@told", "$name has the labels that are documented");
}
my $dashboard = decode_json(slurp_file("$root/docs/grafana-dashboard.json"));
my (%drawn, @strange);
for my $query (map { $_->{expr} } map { @{ $_->{targets} // [] } } @{ $dashboard->{panels} })
{
	for ($query =~ /\b(pawld?_\w+)/g)
	{
		my $family = $seen->{$_} ? $_ : s/_(?:bucket|sum|count)$//r;
		$seen->{$family} ? $drawn{$family} = 1 : push @strange, $_;
		my %may = (%{ ($seen->{$family} // {})->{labels} // {} }, le => 1, instance => 1, job => 1);
		my ($matchers) = $query =~ /\b\Q$_\E\{([^}]*)\}/;
		my @used = (($matchers // '') =~ /(\w+)\s*(?:=~|!~|!=|=)/g,
			map { split /\s*,\s*/ } $query =~ /\bby \(([^)]*)\)/g);
		push @strange, map { "$_ of $family" } grep { !$may{$_} } @used;
	}
}
is("@strange", '', 'the dashboard uses no metric that is not exported');
is_deeply([ grep { !$drawn{$_} } sort keys %$seen ], [], 'and draws everything');

# a trace: from a header over HTTP to the task, to the handler of a worker, and back into the log
my $api_port;
wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /serving the API port=(\d+)/ ? ($api_port = $1) : 0 },
	'the port of the API: ' . $run->{err});
define_template($node, '{"name": "traced", "steps": [{"name": "s", "handler": "sleep"}, {"name": "t", "handler": '
	. '"sleep", "dependencies": ["s"]}]}');
$node->safe_psql('postgres', 'grant pawl_operator to pawl_authenticator');
my $token = $node->safe_psql('postgres', "select pawl_api.create_token('pawl_operator', 'otto', '{read,operate}')");
my $begun = 0;
sub begin_task
{
	my ($parent, @states) = @_;
	my $answer = HTTP::Tiny->new->request('POST', "http://127.0.0.1:$api_port/v1/tasks",
		{ content => '{"name": "traced", "context": {"n": ' . ++$begun . '}}',
			headers => { 'Content-Type' => 'application/json',
		Authorization => "Bearer $token", traceparent => $parent, @states ? (tracestate => \@states) : () } });
	is($answer->{status}, 201, 'a task begins over HTTP') or diag($answer->{content});
	return decode_json($answer->{content})->{task_uuid};
}
my $trace = '0af7651916cd43dd8448eb211c80319c';
my $task = begin_task("00-$trace-b7ad6b7169203331-01", 'rojo=1', 'congo=2');
my $other = begin_task('00-XYZ-b7ad6b7169203331-01');
my $half = begin_task("00-$trace-b7ad6b7169203331-00", 'A=1');
is(one($node,
	"select traceparent || ' ' || tracestate || ' ' || (select correlation_id from pawl_dag.task_transitions l where "
	. "l.task_uuid = t.task_uuid and sort_key = 1) from pawl_dag.tasks t where task_uuid = '$task'"),
	"00-$trace-b7ad6b7169203331-01 rojo=1,congo=2 $trace", 'it belongs to the trace of the request');
is(one($node, "select coalesce(traceparent, 'none') from pawl_dag.tasks where task_uuid = '$other'"), 'none',
	'an invalid header is ignored');
is(one($node, "select traceparent || coalesce(tracestate, ' no state') from pawl_dag.tasks where task_uuid = '$half'"),
	"00-$trace-b7ad6b7169203331-00 no state", 'a wrong state is dropped, the parent holds');
my $worker = begin_program($node, 'example_worker', 'default', 2, 0, 60000);
ok(all_ended($node, 'traced'), 'a worker runs them');
is(end_program($worker, 'TERM'), 0, 'the worker ends with 0 after SIGTERM');
is(one($node, "select count(distinct result ->> 'traceparent') from pawl_dag.steps where task_uuid = '$task' and "
		. "result ->> 'traceparent' ~ '^00-$trace-[0-9a-f]{16}-01\$'"), 2,
	'each handler had a span of its own, that of the step which another made ready too');
is(one($node, "select count(*) from pawl_dag.steps s join pawl_dag.step_transitions l using (task_uuid, step_uuid)
         where s.task_uuid = '$task' and l.to_state = 'enqueued_for_orchestration'
	and l.metadata ->> 'traceparent' = s.result ->> 'traceparent' and l.metadata ->> 'tracestate' = 'rojo=1,congo=2'"),
	2, 'and its report is in that span');
is(one($node, "select count(*) from pawl_dag.steps where task_uuid = '$other' and result ? 'traceparent'"), 0,
	'where there is no trace none is made');

# a version that does not fit
$node->safe_psql('postgres', "update pg_extension set extversion = '0.0.1' where extname = 'pawl_dag'");
is(end_program($run, 'TERM'), 0, 'the daemon ends');
$run = daemon();
answers('/readyz', 503);
becomes(sub { (http_get($port, '/readyz'))[1] =~ /(installed is pawl_dag [\d.]*\d)/ ? $1 : '' },
	'installed is pawl_dag 0.0.1', '/readyz says which version does not fit');
is((http_get($port, '/healthz'))[0], 200, 'the daemon is alive all the same');
end_program($run, 'TERM');
$node->safe_psql('postgres', "update pg_extension set extversion = '0.1.0' where extname = 'pawl_dag'");

# a due row that another session has: the daemon polls in its growing intervals
$run = daemon();
answers('/readyz', 200);
$node->safe_psql('postgres', "insert into jobs (id) values (9000); update jobs set state = 'late' where id = 9000");
wait_until(sub { $node->safe_psql('postgres', "select state from jobs where id = 9000") eq 'done' }, 'a timer');
my $session = $node->background_psql('postgres');
$node->safe_psql('postgres', 'insert into jobs (id) values (9001)');
$session->query_safe("begin; update jobs set state = 'late' where id = 9001; commit;"
	. 'begin; select from jobs where id = 9001 for update');
my $turns = sub { sample(scrape(), 'pawld_duty_runs_total', qr/fire_due .*jobs/) };
my $before = $turns->();
$node->safe_psql('postgres', 'select pg_sleep(2)');
cmp_ok($turns->() - $before, '<', 100, 'it does not run the duty all the time');
$session->query_safe('commit');
$session->quit;
end_program($run, 'TERM');

# a duty that is stuck behind a lock, then a drain, then the database gone
$run = daemon('--stuck-after-ms', '500');
answers('/readyz', 200);
my $locker = $node->background_psql('postgres');
$locker->query_safe('begin; lock table pawl_dag.tasks in access exclusive mode');
answers('/healthz', 503);
like((http_get($port, '/healthz'))[1], qr/lane scheduling has not run for \d+ s: it runs \w[\w .]*$/,
	'/healthz says which duty is stuck');
$run->{harness}->signal('TERM');
becomes(sub { (http_get($port, '/readyz'))[1] =~ /(draining)/ ? $1 : '' }, 'draining', '/readyz says no in a drain');
is(sample(scrape(), 'pawld_draining'), 1, 'and /metrics says why');
$locker->query_safe('rollback');
$locker->quit;
is(end_program($run), 0, 'the daemon ends when its duty does');
$run = daemon('--stuck-after-ms', '60000');
answers('/readyz', 200);
$node->stop('immediate');
answers('/readyz', 503);
like((http_get($port, '/readyz'))[1], qr/has no connection/, '/readyz says that the database is gone');
is((http_get($port, '/healthz'))[0], 200, 'the daemon is alive: a restart would not help');
is(sample(scrape(), 'pawld_connected'), 0, 'no lane is connected');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->start;
answers('/readyz', 200, 'and that it is back');
wait_until(sub { exists scrape()->{pawl_counters_preloaded} }, 'gauges');
$seen = scrape();
is(sample($seen, 'pawl_counters_preloaded'), 0, 'without preload this is reported');
ok(!exists $seen->{pawl_transitions_total}, 'and no number is made up');
is(end_program($run, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
