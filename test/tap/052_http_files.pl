# Files that come and go over HTTP: uploads, validation, exports; memory does not grow with them.
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('files', qw(pawl_bulk));
$node->safe_psql('postgres', q{
	select pawl_bulk.define(
		'{"name": "devices", "row_id": "imei", "is_retryable": true, "track_row_data": true, "max_input_bytes": 0,
    "row": {"required": ["imei"], "properties": {"imei": {"maxLength": 6}}},
	    "metadata": {"required": ["carrier"]}, "steps": [{"name": "ask", "kind": "signal", "handler": "none",
	        "timeout": "1 h", "signal_key": "go-{row}"}]}');
	select pawl_bulk.define(
		'{"name": "numbered", "row_id": "a", "steps": [{"name": "load", "kind": "sync", "handler": "missing"}]}');
	select pawl_bulk.define('{"name": "many", "track_row_data": true, "max_input_bytes": 0, "steps": [{"name": '
		'"load", "kind": "sync", "handler": "missing"}]}');
});
my $operator = make_token($node, 'pawl_operator', 'otto', '{read,operate}');
my $api = begin_api($node);
my $memory = sub {
	open my $status, '<', "/proc/$api->{run}{pid}/status" or die $!;
	my ($kb) = join('', <$status>) =~ /VmHWM:\s+(\d+)/;
	$kb
};

# Fields in order; the file is [name, text].
sub form
{
	my (@fields) = @_;
	my $text = '';
	while (my ($name, $value) = splice @fields, 0, 2)
	{
		$text .= "--XyZ\r\nContent-Disposition: form-data; name=\"$name\""
			. (ref $value ? "; filename=\"$value->[0]\"\r\nContent-Type: text/csv" : '') . "\r\n\r\n"
			. (ref $value ? $value->[1] : $value) . "\r\n";
	}
	return (content => "$text--XyZ--\r\n", headers => { 'Content-Type' => 'multipart/form-data; boundary=XyZ' },
		token => $operator);
}

my $csv = "imei,plan\n111,a\n222,=b\n1234567,c\n";
my $metadata = '{"carrier": "x"}';
subtest 'an upload' => sub {
	my $made = ask('POST', '/api/bulks',
		form(operationName => 'devices', metadata => $metadata, file => ['d.csv', $csv]));
	is($made->{status}, 201, 'the upload of a file creates an operation (201)') or return diag($made->{content});
	is($made->{json}{rows}, 3, 'its rows are counted');
	my $id = $made->{json}{operation};
	$node->poll_query_until('postgres',
			"select status = 'Running' and total_rows = 3 and failed_rows = 1 and (select count(*) = 2 from "
			. "pawl_bulk.work where operation = '$id' and kind = 'signal') from pawl_bulk.status where "
			. "operation = '$id'")
		or die;
	my $got = ask('GET', "/api/bulks/$id", token => $operator)->{json};
	is_deeply([ @$got{qw(created_by file_name source failed_rows)} ], [ 'otto', 'd.csv', 'http', 1 ],
		'the person of the token has submitted it');
	is(ask('GET', "/api/bulks/$id/file", token => $operator)->{content}, $csv, 'the file comes back as it was');
	my $waiting = ask('GET', "/api/bulks/$id/signals/waiting", token => $operator)->{json}{items};
	is(join(' ', map { $_->{key} } @$waiting), 'go-1 go-2', 'two rows wait');
	my $answered = ask('POST', "/api/bulks/$id/signal/go-1", token => $operator);
	is($answered->{json}{answer}, 'applied', 'a signal completes one') or diag($answered->{content});
	is(ask('POST', "/api/bulks/$id/signal/go-2/fail", token => $operator,
		body => { errorMessage => 'no' })->{json}{failed}, JSON::PP::true, 'and fails the other');
	$node->poll_query_until('postgres',
			"select status = 'CompletedWithErrors' from pawl_bulk.status where operation = '$id'") or die;
	my $export = ask('GET', "/api/bulks/$id/export?mode=report&format=csv", token => $operator);
	like($export->{content}, qr/^RowNumber.*\n1,111,Completed.*\n2,222,Failed,ask,0,SignalFailure,no/s,
		'the report has every row');
	like($export->{content}, qr/'=b/, 'and no formula');
	is($export->{headers}{'content-disposition'}, "attachment; filename=\"$id-report.csv\"", 'under its name');
	is(scalar @{ ask('GET', "/api/bulks/$id/export?mode=data&format=json", token => $operator)->{json} }, 3,
		'as JSON it is an array');
	is(ask('GET', "/api/bulks/$id/export?mode=nothing", token => $operator)->{status}, 400,
		'an unknown mode is rejected before the first byte');
	is(ask('GET', "/api/bulks/$id/retry/eligibility", token => $operator)->{json}{eligible}, JSON::PP::true,
		'it can be retried');
	is(ask('POST', "/api/bulks/$id/retry/rows", token => $operator,
		body => { rowNumbers => [ 1, 2, 3, 9 ] })->{json}{submitted}, 1, 'the row that failed is retried');
	# an event is listed when nothing that began before it is still under way: a duty that
	# is being run hides it for that moment
	my $told = '';
	wait_until(sub {
		$told = join(' ',
			map { $_->{type} } grep { $_->{type} =~ /Created|Retry/ }
				@{ ask('GET', "/api/bulks/$id/events", token => $operator)->{json}{items} });
		$told =~ /Retry/
	},
		'the event of the retry');
	is($told, 'Created RetrySubmitted', 'events tell it');
};

subtest 'an upload that is none' => sub {
	my $count = one($node, 'select count(*) from pawl_bulk.operations');
	is(ask('POST', '/api/bulks', form(operationName => 'nothing', file => ['d.csv', $csv]))->{status}, 404,
		'of an unknown definition');
	is(ask('POST', '/api/bulks', form(file => ['d.csv', $csv]))->{status}, 400,
		'an upload that names no definition is rejected with 400');
	is(ask('POST', '/api/bulks', form(operationName => 'devices'))->{status}, 400, 'without a file');
	is(ask('POST', '/api/bulks', form(file => ['d.csv', $csv], operationName => 'devices'))->{status}, 400,
		'that says too late what it is');
	is(ask('POST', '/api/bulks', form(operationName => 'devices', metadata => '{', file => ['d.csv', $csv]))->{status},
		400, 'with metadata that are no JSON');
	is(ask('POST', '/api/bulks', token => $operator, body => {})->{status}, 415, 'that is no form');
	is(one($node, 'select count(*) from pawl_bulk.operations'), $count, 'a rejected upload creates no operation');
};

subtest 'the same upload twice' => sub {
	my %form = form(operationName => 'devices', metadata => $metadata, file => ['d.csv', $csv]);
	$form{headers}{'Idempotency-Key'} = 'once';
	my $first = ask('POST', '/api/bulks', %form)->{json};
	my $again = ask('POST', '/api/bulks', %form)->{json};
	is($again->{operation}, $first->{operation}, 'is one operation');
	is($again->{created}, JSON::PP::false, 'and says so');
	is($again->{rows}, $first->{rows}, 'with the first answer');
	my $with = sub {
		my ($token, @fields) = @_;
		my %other = form(@fields);
		$other{headers}{'Idempotency-Key'} = 'once';
		return ask('POST', '/api/bulks', %other, token => $token);
	};
	my @usual = (operationName => 'devices', metadata => $metadata);
	my $file = $with->($operator, @usual, file => ['d.csv', "imei,plan\n333,x\n"]);
	is("$file->{status} $file->{json}{sqlstate}", '422 23514', 'another file is another request');
	my $fields = $with->($operator, operationName => 'devices', metadata => '{"carrier": "y"}',
		file => ['d.csv', $csv]);
	is($fields->{status}, 422, 'so are other metadata');
	is($with->($operator, operationName => 'many', metadata => $metadata, file => ['d.csv', $csv])->{status}, 422,
		'so is another operation');
	my $bob = make_token($node, 'pawl_operator', 'bob', '{read,operate}');
	my $other_token = $with->($bob, @usual, file => ['d.csv', $csv])->{json};
	is($other_token->{created}, JSON::PP::true, 'the key of another token is another key');
	isnt($other_token->{operation}, $first->{operation}, 'and its operation another one');
	$node->safe_psql('postgres', "select pawl_api.prune_answers('0 s')");
	my $later = ask('POST', '/api/bulks', %form)->{json};
	is("$later->{operation} $later->{rows}", "$first->{operation} $first->{rows}",
		'a day later it is still one');
	$node->safe_psql('postgres', "select pawl_api.prune_answers('0 s')");
	is($with->($operator, @usual, file => ['d.csv', "imei,plan\n333,x\n"])->{status}, 422, 'of this file');
};

subtest 'a form that is none' => sub {
	my $count = one($node, 'select count(*) from pawl_bulk.operations');
	my $usual = sub { form(operationName => 'devices', metadata => $metadata, @_, file => ['d.csv', $csv]) };
	is(ask('POST', '/api/bulks', $usual->(createdBy => 'x' x 600_000, notifications => 'y' x 600_000))->{status}, 413,
		'fields of more than 1 MiB together are rejected');
	is(ask('POST', '/api/bulks', $usual->(map { ("f$_" => '') } 1 .. 200))->{status}, 413, 'so are 200 fields');
	is(ask('POST', '/api/bulks', $usual->(operationName => 'many'))->{status}, 400, 'a field that is given twice');
	for my $field (qw(quote header))
	{
		my $got = ask('POST', '/api/bulks', $usual->($field => 'x'));
		is($got->{status}, 400, "field $field has no effect, so it is rejected");
		like($got->{content}, qr/$field/, 'by its name');
	}
	my %form = $usual->();
	for my $head ('Content-Disposition: form-data', 'X-Any: y')
	{
		my %other = (%form, content => "--XyZ\r\n$head\r\n\r\nevil\r\n$form{content}");
		is(ask('POST', '/api/bulks', %other)->{status}, 400, "a part without a name is rejected ($head)");
	}
	my $before = $memory->();
	my %long = (%form, content => "--XyZ\r\nX: " . 'a' x 40_000_000 . "\r\n\r\n");
	isnt(ask('POST', '/api/bulks', %long)->{status}, 201, 'a head of a part that does not end is rejected');
	cmp_ok($memory->() - $before, '<', 16 * 1024, 'and not kept in memory');
	is(one($node, 'select count(*) from pawl_bulk.operations'), $count, 'and no operation is created');
};

subtest 'a validation' => sub {
	my $count = one($node, 'select count(*) from pawl_bulk.operations');
	my $said = ask('POST', '/api/bulks/validate',
		form(operationName => 'devices', metadata => $metadata, file => ['d.csv', $csv]));
	is($said->{status}, 200, 'POST /api/bulks/validate answers 200') or diag($said->{content});
	is($said->{json}{valid}, JSON::PP::false, 'that the file is not valid');
	is_deeply([ map { $_->{row_number} } @{ $said->{json}{file_errors} } ], [3],
		'the answer names the row that cannot be read');
	is(scalar @{ ask('POST', '/api/bulks/validate', form(operationName => 'devices',
		file => ['d.csv', $csv]))->{json}{metadata_errors} }, 1, 'what the metadata lack');
	is(ask('POST', '/api/bulks/validate', form(operationName => 'devices', metadata => $metadata,
		file => ['d.csv', "imei\n1\n"]))->{json}{valid}, JSON::PP::true, 'or that it is');
	is(one($node, 'select count(*) from pawl_bulk.operations'), $count, 'and keeps nothing');
};

subtest 'filters of a long list' => sub {
	my $file = "a\n" . join("\n", 1 .. 12_000) . "\n";
	my $id = ask('POST', '/api/bulks', form(operationName => 'numbered', file => ['n.csv', $file]))->{json}{operation};
	$node->poll_query_until('postgres', "select count(*) = 12000 from pawl_bulk.latest_records where operation = '$id'")
		or die;
	my ($pages, $cursor, @found) = (0, '');
	do
	{
		my $page = ask('GET', "/api/bulks/$id/rows?rowId=11999$cursor", token => $operator)->{json};
		push @found, map { $_->{row_number} } @{ $page->{items} };
		$cursor = $page->{next} ? "&cursor=$page->{next}" : undef;
	} while (++$pages < 10 && $cursor);
	is("@found", '11999', 'look at so many rows a page, and go on where they stopped');
	is(scalar @{ ask('GET', "/api/bulks/$id/rows?limit=7&state=NoState", token => $operator)->{json}{items} }, 0,
		'or find nothing');
};

subtest 'a large file' => sub {
	my $before = $memory->();
	my $row = join(',', 'x' x 90, 'y' x 90) . "\n";
	my $rows = 400_000;
	my $head = "--XyZ\r\nContent-Disposition: form-data; "
		. "name=\"operationName\"\r\n\r\nmany\r\n--XyZ\r\nContent-Disposition: form-data; name=\"file\"; "
		. "filename=\"l.csv\"\r\n\r\na,b\n";
	my $closing = "\r\n--XyZ--\r\n";
	my $length = length($head) + $rows * length($row) + length($closing);
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port(), Timeout => 30) or die $!;
	print $socket "POST /api/bulks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $operator\r\nContent-Type: "
		. "multipart/form-data; boundary=XyZ\r\nContent-Length: $length\r\nConnection: close\r\n\r\n$head";
	my $block = $row x 1000;
	print $socket $block for 1 .. $rows / 1000;
	print $socket $closing;
	my $answer = do { local $/; <$socket> };
	like($answer, qr/^HTTP\/1.1 201/, 'of 73 MB is taken');
	my ($id) = $answer =~ /"operation":"([^"]+)/;
	my $export = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port(), Timeout => 30) or die $!;
	print $export "GET /api/bulks/$id/file HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $operator\r\n\r\n";
	my ($read, $end) = (0, '');
	while (sysread($export, my $bytes, 1 << 16)) { $read += length $bytes; $end = substr($end . $bytes, -20); }
	cmp_ok($read, '>', $rows * length($row), 'and comes back');
	like($end, qr/0\r\n\r\n$/, 'to its end');
	cmp_ok($memory->() - $before, '<', 32 * 1024, 'memory has not grown with it');
};

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');

subtest 'a database that does not go on' => sub {
	$api = begin_api($node, '--api-timeout-ms', '1000');
	my $id = one($node, "select operation from pawl_bulk.operations where definition = 'devices' limit 1");
	my $waiting = sub { one($node, "select count(*) from pg_stat_activity where usename = 'pawl_authenticator' "
		. "and wait_event_type = 'Lock'") };
	my $begin = sub {
		my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port(), Timeout => 30) or die $!;
		print $socket "GET /api/bulks/$id/export HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $operator\r\n\r\n";
		return $socket;
	};
	my $locker = $node->background_psql('postgres', on_error_stop => 1);
	# which every request reads, and no duty
	$locker->query_safe('begin; lock table pawl_api.tokens');
	is(ask('GET', "/api/bulks/$id/export", token => $operator)->{status}, 504, 'an export ends with 504');
	is(ask('GET', "/api/bulks/$id/export/link", token => $operator)->{status}, 504, 'so does a link to one');
	is(ask('POST', '/api/bulks', form(operationName => 'devices', metadata => $metadata,
		file => ['d.csv', $csv]))->{status}, 504, 'and an upload');
	end_program($api->{run}, 'TERM');
	$api = begin_api($node, '--api-timeout-ms', '600000');
	my @clients = map { $begin->() } 1 .. 16;
	wait_until(sub { $waiting->() == 16 }, '16 exports to wait');
	close $_ for splice @clients;
	wait_until(sub { $waiting->() == 0 }, 'the exports of clients that are gone to end');
	@clients = ($begin->());
	wait_until(sub { $waiting->() == 1 }, 'one more to wait');
	is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends, though an export waits');
	becomes($waiting, 0, 'and its session with it');
	$locker->quit;
};
no_crash($node);
done_testing();
