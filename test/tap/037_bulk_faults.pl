# An accident at each statement of row worker and daemon, in every phase of bulk operations: the connection is cut
# before the server hears of it or after it has done it, the program is killed, the backend is, the whole server is;
# other workers and daemons go on. Then every row is at rest, no step of a row counts twice, the counters are a recount,
# each rest has one terminal event. PAWL_LONG=1: every accident everywhere.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Accidents;
use FaultProxy;
use PawlTest;
use PawlPrograms;
use Test::More;
use Time::HiRes qw(time);

my $node = new_cluster('main', conf => 'max_connections = 60', with => [ 'pawl_bulk' ]);
$node->safe_psql('postgres', <<'SQL');
create table public.noted (operation uuid, row_number bigint, place text);
create function public.checked(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language sql as
    $$ select n, 'odd',
        'is no address' from unnest(row_numbers, rows) u(n, r) where r ->> 'Assignment' !~ '^[0-9A-F]{6}$' $$;
create function public.note(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
    $$ insert into public.noted select note.operation, unnest(row_numbers), 'note';
            select null::bigint, null::text where false $$;
create function public.file(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
    $$ insert into public.noted select file.operation, unnest(row_numbers), 'file';
            select null::bigint, null::text where false $$;
select pawl_bulk.define(
    '{"name": "faults", "row_id": "Assignment", "is_retryable": true, "track_row_data": true, "max_takeovers": 1000,
    "validators": ["public.checked"], "steps": [
    {"name": "note", "handler": "sql:public.note"},
    {"name": "register", "handler": "devices", "max_retries": 1, "backoff": {"base": "20 ms", "jitter": 0}},
    {"name": "activate", "kind": "poll", "handler": "devices", "poll_interval": "20 ms", "timeout": "10 min"},
    {"name": "approve", "kind": "signal", "handler": "none", "timeout": "10 min", "signal_key": "row-{row}"},
    {"name": "file", "handler": "sql:public.file"}]}');
SQL
# Good, busy at the first try, unknown until it is retried, invalid; the signals of the first rows come early.
my @rows = ('AAAA01', 'AAAA02', 'AAAA0F', 'AAAA00', 'nothing', 'AAAA03');
my $rows = '[' . join(',', map { qq({"Assignment": "$_"}) } @rows) . ']';
my $operations = 0;

# The server may be on its way back, and an answer may be lost: then the key tells that the operation is there.
sub begin_operation
{
	++$operations;
	asked($node, "select pawl_bulk.signal(operation, 'row-1') from pawl_bulk.submit('faults', rows => '$rows', "
		. "idempotency_key => '$operations')");
	return;
}

# What people outside do: signals for rows that wait, a retry of what failed. Each once more does no harm.
# A row that was lost with its session waits longer after each loss: not here.
sub attend
{
	tried($node, q{set session_replication_role = replica;
		update pawl_bulk.work set due = clock_timestamp() where due > clock_timestamp() + interval '1 s';
		update pawl_bulk.sql_runs set again_at = clock_timestamp()
			where again_at > clock_timestamp() + interval '1 s'});
	tried($node, q{select pawl_bulk.signal(k.operation, k.key) from pawl_bulk.signal_keys k join pawl_bulk.work w
                  using (operation, row_number, step_index) where w.kind = 'signal' order by k.operation, k.key;
		select pawl_bulk.retry(o.operation) from pawl_bulk.operations o
			where o.status = 'CompletedWithErrors' and o.retry_count = 0 and o.definition = 'faults'});
	return;
}

sub all_at_rest
{
	return wait_until(sub { attend(); asked($node, q{select count(*) from pawl_bulk.operations
		where completed_at is null or retry_count = 0}) eq '0' }, 'all operations to end');
}

# What the heartbeat asks when it has extended no lease: the batch was reported meanwhile, or another session has locked
# its rows.
my $look = qr/^SELECT FROM pawl_bulk\.work w WHERE w\.worker/;

my %program = (example_devices => [ 'example_devices', 600, 200 ],
	pawld => [ 'pawld', '--longest-poll-ms', 100, '--batch', 3 ]);
for my $name (qw(example_devices pawld))
{
	my @helpers = map { begin_program($node, @{ $program{$_} }) } qw(pawld example_devices);
	# events are pruned once a minute, and when the daemon begins
	my $accidents = Accidents->new(node => $node, program => $program{$name}, work => \&begin_operation,
		meanwhile => \&attend, at_start => qr/prune_events/, by_chance => $look);
	begin_operation() for 1 .. 3;
	ok(all_at_rest(), "$name works through a proxy");
	$accidents->proxy->arm([ $name eq 'pawld' ? 'SELECT done' : 'SELECT * FROM pawl_bulk.claim', 'after', 'cut' ]);
	begin_operation();
	ok(all_at_rest(), 'and lives through a cut');
	my $least = $name eq 'pawld' ? 6 : 3;
	my @telling = $accidents->learned($least, qr/pawl_bulk\.|heartbeat|pawl\.(reap|fire_due)/);
	cmp_ok(scalar @telling, '>=', $least, "the statements of $name are known");
	@telling = $accidents->learned(0) if $ENV{PAWL_LONG};
	diag("$name sends:\n" . join("\n", @telling)) if $ENV{PAWL_LONG};
	$accidents->happen_at_each('cut', @telling);
	is(join("\n", $accidents->missed(@telling)), '', "an accident at each statement of $name");
	@telling = grep { /claim|report|advance|work_sql_rows|pawl\.reap/ } @telling unless $ENV{PAWL_LONG};
	$accidents->happen_in_turns('program', @telling);
	$accidents->happen('after', 'backend', @telling);
	$accidents->happen('after', 'server', grep { $ENV{PAWL_LONG} || /claim|report|advance/ } @telling);
	ok(all_at_rest(), "every operation ends, after accidents at $name");
	is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for $accidents->run, @helpers;
	$accidents->proxy->end;
}

# A worker whose rows are locked while it handles them: an accident at the heartbeat's look whether it still has them.
{
	my $daemon = begin_program($node, @{ $program{pawld} });
	my $accidents = Accidents->new(node => $node, program => [ 'example_devices', 600, 200_000 ], work => sub { });
	my $locker = $node->background_psql('postgres');
	for my $when (qw(before after))
	{
		$accidents->proxy->arm([ 'SELECT FROM pawl_bulk.work w WHERE w.worker', $when, 'cut' ]);
		ok(wait_until(sub {
			begin_operation() if one($node, 'select count(*) from pawl_bulk.work where worker is not null') == 0;
			$locker->query_safe('begin; select from pawl_bulk.work where worker is not null for update');
			my $end = time + 1;
			1 until $accidents->proxy->fired(0.05) || time > $end;
			$locker->query_safe('commit');
			return $accidents->proxy->fired }, 'the look'), "a cut $when the heartbeat's look");
		ok(all_at_rest(), 'and every operation ends');
	}
	$locker->quit;
	is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for $accidents->run, $daemon;
	$accidents->proxy->end;
}

# Signals and retries that are cut off, from the command line; sent again, they get the answer that counts.
my @programs = map { begin_program($node, @{ $program{$_} }) } qw(pawld pawld example_devices example_devices);
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
sub pawl_through { my $run = begin_through($proxy, $node, 'pawl', @_); return (end_program($run), $run->{out}) }
for my $case ([ 'before', 'cut', 0, 0 ], [ 'after', 'cut', 1, 3 ], [ 'after', 'backend', 1, 3 ],
	[ 'after', 'server', 1, 3 ])
{
	my ($when, $what, $signalled, $retried) = @$case;
	begin_operation();
	my $operation = one($node, "select operation from pawl_bulk.operations where idempotency_key = '$operations'");
	$node->poll_query_until('postgres', "select count(*) = 1 from pawl_bulk.work where operation = '$operation' and "
			. "kind = 'signal' and row_number = 2") or die;
	for my $act ([ 'signal', $signalled, 'row-2' ], [ 'retry', $retried ])
	{
		my ($command, $again, @more) = @$act;
		wait_until(sub { $node->psql('postgres', qq{select pawl_bulk.signal(k.operation, k.key)
			from pawl_bulk.signal_keys k join pawl_bulk.work w using (operation, row_number, step_index)
			where w.kind = 'signal' and k.operation = '$operation'});
			one($node, "select status from pawl_bulk.operations where operation = '$operation'")
				eq 'CompletedWithErrors' }, 'rest') if $command eq 'retry';
		my $life = server_life($node);
		$proxy->arm([ $command eq 'signal' ? 'SELECT pawl_bulk.signal'
			: 'SELECT * FROM pawl_bulk.retry', $when, $what eq 'server' ? 'cut' : $what ]);
		is((pawl_through('bulk', $command, $operation, @more))[0], 4,
			"$command, cut off $when it was done ($what): exit status");
		ok(wait_until(sub { $proxy->fired == 1 }, 'the proxy to tell of it'), 'there was an accident');
		if ($what eq 'server') { kill_server($node); $node->start }
		wait_until(sub { server_life($node) ne $life }, 'the server to begin again') if $what eq 'backend';
		is((pawl_through('bulk', $command, $operation, @more))[0], $again, "$command, again");
	}
}
ok(all_at_rest(), 'every operation ends');
$proxy->end;
is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for @programs;

note("$operations operations");
is(one($node, q{select count(*) from pawl_bulk.operations}), $operations,
	'every operation that was begun is there, once');
is(one($node, q{select string_agg(distinct status || ' ' || retry_count || ' ' ||
	(select string_agg(l.state || ' ' || l.step_name, ',' order by l.row_number) from pawl_bulk.latest_records l
	where l.operation = o.operation), '; ') from pawl_bulk.operations o}),
	'CompletedWithErrors 1 ' . join(',', ('Completed file') x 4, 'Failed validation', 'Completed file'),
	'every row is where it must be');
is(one($node, q{select string_agg(distinct concat_ws(' ', total_rows, successful_rows, failed_rows), ',')
	from pawl_bulk.status}), '6 5 1', 'so say the counters');
is(one($node, q{select count(*) from pawl_bulk.operations o, pawl_bulk.recount(o.operation) c where c.differs}), 0,
	'which are a recount');
is(one($node, q{select count(*) from (select from pawl_bulk.record_transitions where to_state = 'Completed'
	group by operation, row_number, step_index having count(*) <> 1) x}), 0, 'no step of a row is complete twice');
is(one($node, q{select count(*) from pawl_bulk.record_transitions where to_state = 'Completed'}), 25 * $operations,
	'and each is once');
is(one($node,
		q{select count(*) from (select from pawl_bulk.record_transitions group by operation, row_number, step_index
	having count(*) filter (where to_state = 'Running') <> 1 + count(*) filter (where from_state = 'Failed')) x}),
	0, 'no attempt begins twice');
is(one($node, q{select string_agg(distinct row_number || ' ' || step_index || ' ' || attempt, ',') || ' ' || count(*)
	from pawl_bulk.retry_history}), "4 1 0 $operations", 'one retry, of one row');
is(one($node, q{select count(*) || ' ' || count(distinct (operation, row_number, place)) from public.noted}),
	join(' ', (10 * $operations) x 2), 'what SQL steps write is written exactly once');
is(one($node,
	q{select string_agg(distinct t, '; ') from (select string_agg(type, ',' order by event) as t from pawl_bulk.events
	where type in ('Completed', 'CompletedWithErrors', 'Failed', 'Cancelled', 'RetrySubmitted') group by operation) x}),
	'CompletedWithErrors,RetrySubmitted,CompletedWithErrors', 'one terminal event for each rest');
is(one($node, q{select count(*) from pawl_bulk.work}), 0, 'nothing is left to do');
is(one($node, 'select * from pawl_bulk.verify()'), '', 'verify of the pack finds nothing');
sound($node, 'after all accidents');
done_testing();
