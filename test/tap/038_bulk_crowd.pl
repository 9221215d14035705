# Three daemons and four row workers on files of some thousand rows; again and again one of them is killed, a backend,
# the server, while the counters are compared with a recount. 1,600 rows; 40,000 with PAWL_LONG.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', conf => 'max_connections = 60', with => [ 'pawl_bulk' ]);
$node->safe_psql('postgres', <<'SQL');
create table public.noted (operation uuid, row_number bigint, place text);
create table public.opened (at timestamptz);
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
    $$ insert into public.noted select file.operation, n, 'file' from unnest(row_numbers) n
        where n % 2 = 0 or exists (select from public.opened);
       select n, 'the file is closed' from unnest(row_numbers) n
            where n % 2 = 1 and not exists (select from public.opened) $$;
select pawl_bulk.define(
    '{"name": "crowd", "row_id": "Assignment", "is_retryable": true, "track_row_data": true, "max_takeovers": 1000,
    "validators": ["public.checked"], "steps": [
    {"name": "note", "handler": "sql:public.note"},
    {"name": "register", "handler": "devices", "max_retries": 1, "backoff": {"base": "20 ms", "jitter": 0}},
    {"name": "activate", "kind": "poll", "handler": "devices", "poll_interval": "20 ms", "timeout": "1 hour"},
    {"name": "approve", "kind": "signal", "handler": "none", "timeout": "1 hour", "signal_key": "row-{row}"},
    {"name": "file", "handler": "sql:public.file"}]}');
SQL

my $rows = $ENV{PAWL_LONG} ? 20_000 : 800;
my @invalid = grep { $_ % 100 == 50 } 1 .. $rows;
my @unknown = grep { $_ % 100 != 50 && sprintf('%06X', $_) =~ /00$/ } 1 .. $rows;
my @files = map {
	my $path = PostgreSQL::Test::Utils::tempdir() . "/crowd$_.csv";
	open my $handle, '>', $path or die $!;
	print $handle "Assignment,file\n", map { ($_ % 100 == 50 ? 'none' : sprintf '%06X', $_) . ",$path\n" } 1 .. $rows;
	close $handle;
	$path } 1, 2;

my @crowd;
my @kinds = ([ 'pawld', '--longest-poll-ms', 100, '--batch', 20 ]) x 3;
push @kinds, ([ 'example_devices', 3000, 500 ]) x 4;
sub begin_one { my ($i) = @_; $crowd[$i] = begin_program($node, @{ $kinds[$i] }); return }
begin_one($_) for 0 .. $#kinds;

# Stops a worker with claimed rows, as long as there is work and rows are claimed; returns its number and that of its
# rows. Signals go on coming, so that rows can be claimed.
sub stopped_worker
{
	my ($fallback) = @_;
	for (1 .. 400)
	{
		last if asked($node, 'select count(*) from pawl_bulk.operations where completed_at is null') eq '0';
		for my $i (3 .. $#crowd)
		{
			kill 'STOP', $crowd[$i]{pid};
			$crowd[$i]{harness}->pump_nb;
			my ($name) = $crowd[$i]{err} =~ /.*works as (\S+)/s;
			my $rows = $name ? asked($node, "select count(*) from pawl_bulk.work where worker = '$name'") : 0;
			return ($i, $rows) if $rows;
			kill 'CONT', $crowd[$i]{pid};
		}
		send_signals();
	}
	return ($fallback, 0);
}

my ($killed, $found, $looks, $turn, $in_flight) = (0, '', 0, 0, 0);
sub accident
{
	++$killed;
	my $what = $turn % 5;
	if ($turn++ % 9 == 8)
	{
		kill_server($node);
		$node->start;
	}
	elsif ($what == 4)
	{
		my $pid = asked($node, q{select pid from pg_stat_activity where backend_type = 'client backend'
			and pid <> pg_backend_pid() and query ~ 'pawl_bulk' order by state, random() limit 1});
		my $life = server_life($node);
		# The server begins again, unless the backend had ended by itself just now.
		my $rounds = $pid && kill('KILL', $pid) ? 50 : 0;
		for (1 .. $rounds)
		{
			last if server_life($node) ne $life;
			select undef, undef, undef, 0.1;
		}
	}
	else
	{
		my $i = $what % 2 ? $turn % 3 : 3 + $turn % 4;
		($i, my $claimed) = $i > 2 ? stopped_worker($i) : ($i, 0);
		$in_flight += $claimed;
		kill_program($crowd[$i]);
		begin_one($i);
	}
	return;
}

# No process ends that was not killed.
sub alive
{
	for my $run (@crowd) { eval { $run->{harness}->pump_nb; 1 } or die "$run->{name} ended by itself: $run->{err}" }
	return;
}

# Signals come from outside.
sub send_signals
{
	asked($node, q{select count(pawl_bulk.signal(k.operation, k.key)) from (select k.operation, k.key
              from pawl_bulk.signal_keys k join pawl_bulk.work w using (operation, row_number, step_index)
		where w.kind = 'signal' order by k.operation, k.key limit 500) k});
	return;
}

# A checker verifies everything in one statement, so of one moment.
sub look
{
	send_signals();
	$found .= asked($node, 'select * from pawl_bulk.verify()');
	++$looks;
	alive();
	return;
}

sub phase
{
	my ($name, $more, $kills) = @_;
	my $count = 'select count(*) from pawl_bulk.record_transitions_log';
	my $open = q{select count(*) from pawl_bulk.operations where completed_at is null};
	my $begun = asked($node, $count);
	for my $i (1 .. $kills)
	{
		# No look before: it takes long on a busy machine, and the work would be done before the accident.
		wait_until(sub {
			send_signals();
			asked($node, $count) > $begun + $more * $i / ($kills + 1) || asked($node, $open) eq '0'
		}, "work in $name");
		accident();
		look();
	}
	wait_until(sub { look(); asked($node, $open) eq '0' }, "the end of $name");
	return;
}

for my $path (@files)
{
	my $run = begin_program($node, 'pawl', 'bulk', 'submit', $path, '--operation', 'crowd', '--once');
	is(end_program($run), 0, "$path comes in") or diag($run->{err});
}
# Validation has its accidents too; rows are validated in batches of --batch.
wait_until(sub { asked($node, q{select count(*) from pawl_bulk.validations}) > $rows / 4 }, 'validation');
accident() for 1 .. 2;
my $valid = $rows - @invalid;
phase('the first run', 2 * 11 * $valid, $ENV{PAWL_LONG} ? 13 : 9);
my $half = grep { $_ % 2 == 1 } 1 .. $rows;
is(one($node,
	q{select string_agg(distinct concat_ws(' ', status, total_rows, failed_rows), ',') from pawl_bulk.status}),
	join(' ', 'CompletedWithErrors', $rows, @invalid + @unknown + $half - grep({ $_ % 2 == 1 } @unknown)),
	'both operations end, with what failed');
asked($node, q{insert into public.opened values (now())});
asked($node, q{select pawl_bulk.retry(operation) from pawl_bulk.operations where status = 'CompletedWithErrors'
	order by operation});
phase('the retry', 3 * $half, $ENV{PAWL_LONG} ? 7 : 4);
is($found, '', "verify found nothing while everything moved, $looks times");
cmp_ok($killed, '>=', 10, "$killed accidents");
cmp_ok($in_flight, '>', 0, "$in_flight rows were claimed by workers that were killed");
wait_until(sub { alive(); asked($node, q{select count(*) from pawl_bulk.work}) eq '0' }, 'nothing to do');
is(end_program($_, 'TERM'), 0, "$_->{name} ends well") or diag($_->{err}) for @crowd;

is(one($node, q{select string_agg(distinct concat_ws(' ', status, total_rows, successful_rows, failed_rows,
	retry_count), ',') from pawl_bulk.status}),
	join(' ', 'CompletedWithErrors', $rows, $valid, scalar @invalid, 1), 'every valid row is done');
is(one($node, q{select count(*) from pawl_bulk.operations o, pawl_bulk.recount(o.operation) c where c.differs}), 0,
	'the counters are a recount');
is(one($node, q{select count(*) || ' ' || count(distinct (operation, row_number, step_index))
		from pawl_bulk.record_transitions where to_state = 'Completed'}),
	join(' ', (2 * 5 * $valid) x 2), 'no step of a row counts twice');
is(one($node,
		q{select count(*) from (select from pawl_bulk.record_transitions group by operation, row_number, step_index
	having count(*) filter (where to_state = 'Running') <> 1 + count(*) filter (where from_state = 'Failed')) x}),
	0, 'no attempt begins twice');
is(one($node, q{select count(*) || ' ' || count(distinct (operation, row_number, place)) from public.noted}),
	join(' ', (2 * 2 * $valid) x 2), 'what SQL steps write is written exactly once');
is(one($node, q{select count(*) from pawl_bulk.retry_history}), 2 * (@unknown + $half - grep { $_ % 2 == 1 } @unknown),
	'each failed row was retried once');
is(one($node,
	q{select string_agg(distinct t, '; ') from (select string_agg(type, ',' order by event) as t from pawl_bulk.events
	where type in ('Completed', 'CompletedWithErrors', 'Failed', 'Cancelled', 'RetrySubmitted') group by operation) x}),
	'CompletedWithErrors,RetrySubmitted,CompletedWithErrors', 'one terminal event for each rest');
is(one($node, 'select * from pawl_bulk.verify()'), '', 'verify of the pack finds nothing');
sound($node, 'after all of it');
done_testing();
