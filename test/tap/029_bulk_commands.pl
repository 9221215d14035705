# Bulk operations from the command line: files in, pawld at work and killed, errors, retries, signals, exports.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use JSON::PP;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_bulk' ]);
my $folder = PostgreSQL::Test::Utils::tempdir();

# What a command printed, decoded where it is JSON; its status.
sub pawl
{
	my (@arguments) = @_;
	my $run = begin_program($node, 'pawl', @arguments);
	my $status = end_program($run);
	my $out = (grep { $_ eq '--json' } @arguments) && $status < 2 ? decode_json($run->{out}) : $run->{out};
	return wantarray ? ($out, $status, $run->{err}) : $out;
}

sub file
{
	my ($name, $text) = @_;
	open my $handle, '>:raw', "$folder/$name" or die $!;
	print $handle $text;
	close $handle;
	return "$folder/$name";
}

sub run_duties { return end_program(begin_program($node, 'pawld', '--once')) }

$node->safe_psql('postgres', q{
	create table public.limits (most int);
	create function public.sums(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
		returns table (row_number bigint, message text)
	language sql as $$ select n, 'too much' from unnest(row_numbers, rows) u(n, data)
		where (data ->> 'amount')::int > coalesce((select max(most) from public.limits), 100) $$});
my $definition = file('definition.json', '{"name": "payments", "row_id": "id", "is_retryable": true, '
	. '"track_row_data": true, "row": {"required": ["id", "amount"], "properties": {"amount": {"type": "integer"}}}, '
	. '"steps": [{"name": "check", "handler": "sql:public.sums"}, {"name": "confirm", "kind": "signal", "timeout": "1 '
	. 'hour", "handler": "none", "signal_key": "paid-{data.id}"}]}');
is(pawl('--json', 'bulk', 'define', $definition)->{version}, 1, 'pawl bulk define returns version 1');

# Every way in
my $csv = file('payments.csv',
	qq{\xEF\xBB\xBFid,amount,note\na,1,"two\nlines"\nb,200,=1+1\nc,x,\n"d,4,open\ne,5,\xFFbad\n\nf,6,last});
my ($made, $status) =
	pawl('--json', 'bulk', 'submit', $csv, '--operation', 'payments', '--once', '--metadata', '{"by": "test"}');
is($status, 0, 'pawl bulk submit succeeds');
is("$made->{rows} $made->{malformed}", '6 2', 'rows, and those that could not be read');
my $operation = $made->{operation};
is(one($node, "select checksum from pawl_bulk.operations where operation = '$operation'"),
	one($node, "select encode(sha256(pg_read_binary_file('$csv')), 'hex')"), 'the checksum is the file\'s');
my $again = pawl('--json', 'bulk', 'submit', $csv, '--operation', 'payments', '--once');
is(join(' ', $again->{operation}, $again->{created} ? 1 : 0), "$operation 0",
	'the same file again is the same operation');
system("gzip -k $csv") == 0 or die;
is(pawl('--json', 'bulk', 'submit', "$csv.gz", '--operation', 'payments', '--once')->{operation}, $operation,
	'pawl bulk submit takes a compressed file for the same operation');
is(one($node, 'select count(*) from pawl_bulk.input'), '7', 'and nothing came in twice');
is(run_duties(), 0, 'pawld runs the duties and the SQL handler');
is(one($node, "select string_agg(row_number || ' ' || coalesce(row_id, '?') || ' ' || step_name || ' ' || state, ', ' "
	. "order by row_number) from pawl_bulk.latest_records where operation = '$operation'"),
	'1 a confirm WaitingForCompletion, 2 b check Failed, 3 c validation Failed, 4 ? validation Failed, 5 ? validation '
	. 'Failed, 6 f confirm WaitingForCompletion',
	'every row stands where it must');
is(one($node, "select string_agg(coalesce(line_number, row_number + 1)::text, ',' order by row_number) from "
	. "pawl_bulk.input where operation = '$operation' and row_number > 0"), '2,4,5,6,7,9', 'the lines are known');
is(one($node, "select raw from pawl_bulk.validations where operation = '$operation' and row_number = 5"),
	'e,5,\\xFFbad', 'the text of an invalid row');

my $shown = pawl('--json', 'bulk', 'status', $operation);
is("$shown->{status} $shown->{total_rows} $shown->{failed_rows}", 'Running 6 4',
	'pawl bulk status shows the state and the counted rows');
like(scalar pawl('bulk', 'status', $operation), qr/^status +Running$/m, 'for people, too');
is((pawl('bulk', 'signal', $operation, 'paid-a'))[1], 0, 'pawl bulk signal succeeds');
is((pawl('bulk', 'signal', $operation, 'paid-a'))[1], 1, 'twice changes nothing');
is(pawl('--json', 'bulk', 'pause', $operation)->{changed} ? 1
	: 0, 1, 'pawl bulk pause says that it changed the operation');
is((pawl('bulk', 'pause', $operation))[1], 1, 'twice changes nothing');
is((pawl('bulk', 'resume', $operation))[1], 0, 'pawl bulk resume succeeds');
is(pawl('--json', 'bulk', 'signal', $operation, 'paid-f', '--fail', '--message', 'no money')->{answer}, 'applied',
	'signal of a failure');
run_duties();
my (undef, $followed, $progress) = pawl('bulk', 'status', $operation, '--follow');
is($followed, 1, 'status --follow ends with 1 where rows failed');
like($progress, qr/100%  6 of 6 rows, 5 failed.*CompletedWithErrors/, 'and says how it went');
unlike($progress, qr/\033/, 'no colours where there is no terminal');

my ($errors, $any) = pawl('--json', 'bulk', 'errors', $operation);
is($any, 1, 'errors ends with 1');
is(join(', ', map { "$_->{step} " . ($_->{code} // $_->{error_type}) . " $_->{rows}" } @$errors),
	'validation malformed 2, validation type 1, check StepFailure 1, confirm SignalFailure 1',
	'errors by step and type');
is(scalar @{ pawl('--json', 'bulk', 'errors', $operation, '--each') }, 5, 'errors one by one');
my $report = pawl('bulk', 'export', $operation, '--error-type', 'StepFailure,SignalFailure');
is(scalar(my @lines = split /\n/, $report), 3, 'export: a header and two rows') or diag($report);
like($report, qr/,'=1\+1$/m, 'what a spreadsheet takes for a formula has an apostrophe');
is((pawl('bulk', 'export', $operation, '--output', "$folder/report.json", '--format', 'json'))[1], 0,
	'export to a file');
is(scalar @{ decode_json(PostgreSQL::Test::Utils::slurp_file("$folder/report.json")) }, 6, 'has every row');
is(scalar @{ pawl('--json', 'bulk', 'export', $operation, '--rows', '1,2', '--mode', 'data') }, 2, 'the rows alone');
$node->safe_psql('postgres', 'insert into public.limits values (1000)');
is(pawl('--json', 'bulk', 'retry', $operation, '--step', 'check')->{submitted}, 1, 'retry of a step');
run_duties();
is(pawl('--json', 'bulk', 'signal', $operation, 'paid-b')->{answer}, 'applied', 'the row goes on');
run_duties();
is(one($node, "select failed_rows from pawl_bulk.status where operation = '$operation'"), '4',
	'and is not failed any more');
is((pawl('bulk', 'retry', $operation, '--rows', '1'))[1], 1, 'a row that has not failed');
is((pawl('bulk', 'cancel', $operation))[1], 3, 'what has ended is not cancelled');

my $ndjson = pawl('--json', 'bulk', 'submit', file('p.ndjson', qq({"id": "x", "amount": 1}\n{"id": \n)), '--operation',
	'payments', '--key', 'k1');
my $array = pawl('--json', 'bulk', 'submit',
	file('p.json', qq([{"id": "x", "amount": 1},\n{"id": "y", "amount": tru}])), '--operation', 'payments');
my $tabs = pawl('--json', 'bulk', 'submit', file('p.tsv', "Nummer\tBetrag\nz\xE4\t3\n"), '--operation', 'payments',
	'--encoding', 'latin1', '--rename', 'Nummer=id', '--rename', 'Betrag=amount');
my $bare = pawl('--json', 'bulk', 'submit', file('p.txt', "q;3\nr;\n"), '--operation', 'payments', '--format', 'csv',
	'--delimiter', ';', '--no-header', '--columns', 'id,amount');
(my $broken, $status, my $why) =
	pawl('--json', 'bulk', 'submit', file('cut.json', '[{"id": "x", "amount": 1}, {"id"'), '--operation', 'payments');
is($status, 1, 'a file that cannot be read to its end ends with 1');
like($why, qr/the JSON array is not closed/, 'and says why');
system("gzip -c " . file('long.csv', "id,amount\n" . join('', map { "r$_,1\n" } 1 .. 50_000))
			. " | head -c 50000 > $folder/cut.csv.gz") == 0 or die;
my ($told, $cut, $err) = pawl('bulk', 'submit', "$folder/cut.csv.gz", '--operation', 'payments');
is($cut, 1, 'gzip data that end early') or diag($told, $err, -s "$folder/cut.csv.gz", ' bytes');
run_duties();
is(one($node, "select string_agg(coalesce(row_id, '?') || ' ' || state, ', ' order by row_number) from "
		. "pawl_bulk.latest_records where operation = '$_->[0]{operation}'"), $_->[1], $_->[2])
	for [ $ndjson, 'x WaitingForCompletion, ? Failed', 'NDJSON' ], [ $array, 'x WaitingForCompletion, ? Failed',
		'a JSON array' ], [ $tabs, "z\xC3\xA4 WaitingForCompletion", 'tabs, other names, another encoding' ],
	[ $bare, 'q WaitingForCompletion, r Failed', 'no header, semicolons' ];
is(one($node, "select status || ': ' || error_message from pawl_bulk.operations where operation = "
	. "'$broken->{operation}'"), 'Failed: the JSON array is not closed', 'the operation fails with the reason');
is((pawl('bulk', 'cancel', $array->{operation}))[1], 0, 'pawl bulk cancel succeeds');
is(scalar @{ pawl('--json', 'bulk', 'list', '--status', 'Cancelled') }, 1, 'list by state');

# What is rejected
is((pawl('bulk', 'submit', "$folder/p.txt", '--operation', 'payments'))[1], 2, 'an unknown format');
is((pawl('bulk', 'submit', "$folder/missing.csv", '--operation', 'payments'))[1], 2, 'a file that is not there');
is((pawl('bulk', 'submit', $csv, '--operation', 'nothing'))[1], 3, 'a definition that is not there');
is((pawl('bulk', 'submit', $csv, '--operation', 'payments', '--metadata', '{'))[1], 2, 'metadata that is no JSON');
is((pawl('bulk', 'status', '00000000-0000-0000-0000-000000000000'))[1], 3, 'an operation that is not there');
is((pawl('bulk'))[1], 2, 'pawl bulk without a command exits with 2');
is((pawl('--database', 'host=/nowhere', 'bulk', 'submit', $csv, '--operation', 'payments'))[1], 4,
	'a server that is not there');
is((pawl('bulk', 'submit', $csv, '--operation', 'payments', '--notify', '[{"channel": "mail"}]'))[1], 3,
	'an invalid target');
my $told_id = pawl('--json', 'bulk', 'submit', $csv, '--operation', 'payments', '--notify',
	'[{"channel": "mail", "target": "me", "triggers": ["cancelled"]}]')->{operation};
is((pawl('bulk', 'cancel', $told_id))[1], 0, 'an operation whose end is to be notified');
is(one($node, "select string_agg(target || ' ' || (payload ->> 'trigger'), ',') from pawl_bulk.notices where "
	. "operation = '$told_id'"), 'me cancelled', 'a notice is created');
one($node, "delete from pawl_bulk.operations where operation = '$told_id'");

# The daemon is killed again and again; the rows notice nothing.
$node->safe_psql('postgres', q{
	create table public.seen (row_number bigint);
	create function public.note(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
		returns table (row_number bigint, message text)
	language sql as $$ insert into public.seen select unnest(row_numbers);
		select n, 'odd' from unnest(row_numbers) n where n % 1000 = 7 $$;
	select pawl_bulk.define('{"name": "many", "steps": [{"name": "one", "handler": "sql:public.note"}, {"name": '
		'"two", "handler": "sql:public.note"}]}')});
my $many = pawl('--json', 'bulk', 'submit', file('many.csv', "id\n" . join('', map { "r$_\n" } 1 .. 20_000)),
	'--operation', 'many')->{operation};
for my $share (2_000, 12_000, 25_000)
{
	my $daemon = begin_program($node, 'pawld', '--batch', 100, '--longest-poll-ms', 50);
	$node->poll_query_until('postgres',
			"select count(*) > $share from pawl_bulk.record_transitions where operation = '$many'") or die;
	kill_program($daemon);
}
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 100);
$status = (pawl('bulk', 'status', $many, '--follow'))[1];
is($status, 1, 'the operation ends');
is(end_program($daemon, 'TERM'), 0, 'pawld ends well');
is(one($node,
		"select status || ' ' || total_rows || ' ' || failed_rows from pawl_bulk.status where operation = '$many'"),
	'CompletedWithErrors 20000 20', 'with every row');
is(one($node, 'select count(*) from public.seen'), 20_000 + 19_980, 'and every handler ran exactly once for each');

# Daemon and worker look by themselves every ten minutes: they are woken, by the work of any pack.
$node->safe_psql('postgres', q{create extension pawl_dag; create extension pawl_saga;
	select pawl_bulk.define('{"name": "woken", "steps": [{"name": "one", "handler": "sql:public.note"}, {"name": '
		'"register", "handler": "devices"}, {"name": "two", "handler": "sql:public.note"}]}')});
my @waiters = (begin_program($node, 'pawld', '--longest-poll-ms', 600_000),
	begin_program($node, 'example_devices', 60_000, 0, 600_000));
$node->poll_query_until('postgres', q{select count(*) >= 4 from pg_locks where locktype = 'advisory'
			and classid is not null and mode = 'ShareLock' and objsubid = 7101}) or die 'no program waits';
my $woken = pawl('--json', 'bulk', 'submit', file('woken.csv', "Assignment\nAAAAA1\nAAAAA2\n"), '--operation',
	'woken')->{operation};
ok($node->poll_query_until('postgres', "select count(*) = 2 from pawl_bulk.records where operation = '$woken' and "
	. "step_index = 2 and state = 'Completed'"), 'waiting programs are woken');
is(end_program($_, 'TERM'), 0, "$_->{name} ends well") for @waiters;
is(end_program(begin_program($node, 'pawld', '--once')), 0, 'the end is found');

is(one($node, 'select * from pawl_bulk.verify()'), '', 'verify of the pack finds nothing');
sound($node, 'after all of it');
no_crash($node);
done_testing();
