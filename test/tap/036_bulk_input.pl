# Files of every kind become rows: encodings, dialects, headers, gzip, limits. Memory
# stays flat, and uploads are there whole or not at all.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Encode ();
use FaultProxy;
use IPC::Run;
use JSON::PP;
use PawlTest;
use PawlPrograms;
use POSIX ();
use Test::More;

my $node = new_cluster('main');
my $folder = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "create database $_->[0] encoding '$_->[1]' locale 'C' template template0")
	for [ 'wide', 'UTF8' ], [ 'narrow', 'LATIN1' ];
for my $database (qw(wide narrow))
{
	$node->safe_psql($database, q{create extension pawl_bulk cascade;
		create function public.nothing(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
			returns table (row_number bigint, message text)
			language sql as 'select null::bigint, null::text where false';
		select pawl_bulk.define('{"name": "rows", "track_row_data": true, "max_input_bytes": 0, "steps": [{"name": '
			'"one", "handler": "sql:public.nothing"}]}')});
}

sub file
{
	my ($name, $bytes) = @_;
	open my $handle, '>:raw', "$folder/$name" or die $!;
	print $handle $bytes;
	close $handle;
	return "$folder/$name";
}

# Submits; the answer of --json, and the exit status.
sub submit
{
	my ($database, @arguments) = @_;
	my $run = begin_program($node, 'pawl', '--json', '--database', "dbname=$database", 'bulk', 'submit', '--operation',
		'rows', @arguments);
	my $status = end_program($run);
	return ($run->{out} ? decode_json($run->{out}) : {}, $status, $run->{err});
}

# What the rows of an operation are: the line where each begins, and its data or what is wrong with it.
sub rows_of
{
	my ($database, $operation) = @_;
	local $ENV{PGCLIENTENCODING} = 'UTF8';
	my $rows = $node->safe_psql($database, "select coalesce(json_agg(
             json_build_array(coalesce(i.line_number,
                 i.row_number + (o.format = 'csv' and coalesce((o.dialect ->> 'header')::boolean, true))::int),
		coalesce((select string_agg(coalesce(f.key, '') || '=' || coalesce(f.value, ''), ',' order by f.key)
				from jsonb_each_text(d.data) f),
			i.raw || ' !' || coalesce(i.problem, pawl_bulk.csv_problem(i.raw, o.columns), '')))
		order by i.row_number), '[]') from pawl_bulk.operations o join pawl_bulk.input i using (operation),
         	lateral (select pawl_bulk.row_data(i.operation, i.row_number) as data) d
		where operation = '$operation' and i.row_number > 0");
	return join('; ', map { "$_->[0] $_->[1]" } @{ JSON::PP->new->decode(Encode::decode('UTF-8', $rows)) });
}

my $number = 0;
sub reads_as
{
	my ($name, $bytes, $options, $expected, $database) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $path = file('file' . ++$number . ($name =~ /\.(\w+(?:\.gz)?)$/ ? ".$1" : '.csv'), $bytes);
	my ($made, $status, $err) = submit($database // 'wide', $path, @$options);
	is($status, 0, "$name: submitted") or diag($err);
	is(Encode::encode('UTF-8', rows_of($database // 'wide', $made->{operation})), Encode::encode('UTF-8', $expected),
			$name) if $made->{operation};
	return $made;
}

# Dialects
reads_as('several lines in a field', qq{a,b\n1,"two\nlines\r\nand more"\n2,x\n}, [],
	"2 a=1,b=two\nlines\r\nand more; 5 a=2,b=x");
reads_as('semicolons and apostrophes', qq{a;b\n'1;1';'it''s'\n}, [ '--delimiter', ';', '--quote', q(') ],
	"2 a=1;1,b=it's");
reads_as('tabs.tsv', qq{a\tb\n1\t"2\t2"\n}, [], "2 a=1,b=2\t2");
reads_as('bars and no quotes', qq{a|b\n"1|5" disk\n"2|"x"\n}, [ '--delimiter', '|', '--quote', 'none' ],
	'2 a="1,b=5" disk; 3 a="2,b="x"');
reads_as('escapes', qq{a,b\n"say \\"yes\\"\nand \\\\",2\n"a ""b""",\\"\n}, [ '--escape', '\\' ],
	qq{2 a=say "yes"\nand \\,b=2; 4 a=a "b",b=\\"});
reads_as('CRLF', "a,b\r\n1,2\r\n\r\n3,\"4\"\r\n", [], '2 a=1,b=2; 4 a=3,b=4');
reads_as('one line without an end', 'a,b', [ '--no-header', '--columns', 'x,y' ], '1 x=a,y=b');
reads_as('a header alone', "a,b\n", [], '');
reads_as('columns instead of a header, and other names for some', "a,b\n1,2\n", [ '--columns', 'c,d' ], '2 c=1,d=2');
reads_as('other names', "a,b\n1,2\n", [ '--rename', 'a=alpha' ], '2 alpha=1,b=2');
reads_as('fields too many and too few', "a,b\n1\n1,2,3\n\"x\"y,2\n", [],
	'2 1 !1 fields where there are 2 columns; 3 1,2,3 !3 fields where there are 2 columns; 4 "x"y,2 !text follows a '
	. 'closing quote');
reads_as('an open quote', qq{a\n"1\n2\n}, [], qq{2 "1 !a quote is not closed; 3 a=2});

# Encodings
reads_as('a byte order mark', "\xEF\xBB\xBFa,b\n\xC3\xA9,2\n", [], "2 a=\x{E9},b=2");
reads_as('UTF-16, by its mark', "\xFF\xFE" . Encode::encode('UTF-16LE', "a,b\n\x{E9}\x{20AC},\x{1F600}\n"), [],
	"2 a=\x{E9}\x{20AC},b=\x{1F600}");
reads_as('UTF-16 the other way round', "\xFE\xFF" . Encode::encode('UTF-16BE', "a\n\x{E9}\n"), [], "2 a=\x{E9}");
reads_as('UTF-16 without a mark, half a pair and an odd byte', Encode::encode('UTF-16LE', "a\nx") . "\x00\xD8"
	. Encode::encode('UTF-16LE', "y\ngood\n") . 'z', [ '--encoding', 'utf-16le' ],
	"2 x\\xFFy !the row has bytes that are no characters; 3 a=good; 4 \\xFF !the row has bytes that are no characters");
reads_as('Latin-1', "a\nz\xE9\n", [ '--encoding', 'latin1' ], "2 a=z\x{E9}");
reads_as('bytes that are no UTF-8', "a\nz\xE9\nfine\n", [],
	'2 z\\xE9 !the row has bytes that are no characters; 3 a=fine');
reads_as('NUL', "a\nx\0y\nfine\n", [], '2 x\\x00y !the row has bytes that are no characters; 3 a=fine');
reads_as('what Latin-1 has, into a database in Latin-1', "a\nz\xC3\xA9\n", [], "2 a=z\x{E9}", 'narrow');
reads_as('what it does not have is an error of the row', "a\nz\xE2\x82\xAC\xC3\xA9\nfine\n", [],
	"2 z\\u{20AC}\x{E9} !the row has characters that the database's encoding, LATIN1, does not have; 3 a=fine",
	'narrow');

# JSON
reads_as('lines.jsonl', qq({"a": "1\\n"}\r\n\n{"a": 2}), [], "1 a=1\n; 3 a=2");
reads_as('array.json', qq(\xEF\xBB\xBF[{"a": 1},\n {"a": "],\\"",\n "b": [1, {}]}\n]\n), [],
	'1 a=1; 2 a=],",b=[1, {}]');
reads_as('no_rows.json', '[]', [], '');
reads_as('nothing.ndjson', '', [], '');
reads_as('nothing, with columns', '', [ '--no-header', '--columns', 'a' ], '');

# gzip of each, from a file and from standard input
for my $case ([ 'csv', "a,b\n1,\"x\ny\"\n", "2 a=1,b=x\ny" ], [ 'ndjson', qq({"a": 1}\n), '1 a=1' ],
	[ 'json', '[{"a": 1}]', '1 a=1' ])
{
	my ($format, $bytes, $expected) = @$case;
	my $path = file("zipped.$format", $bytes);
	system("gzip -kf $path && cat $path.gz $path.gz > $folder/twice.$format.gz") == 0 or die;
	my ($made) = submit('wide', "$path.gz");
	is(rows_of('wide', $made->{operation}), $expected, "$format by gzip");
	for my $source ($path, "$path.gz")
	{
		local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGUSER => one($node, 'select current_user'));
		my $out = '';
		IPC::Run::run([ program('pawl'), '--json', '--database', 'dbname=wide', 'bulk', 'submit', '-', '--format',
			$format, '--operation', 'rows' ], '<', $source, '>', \$out);
		is(rows_of('wide', decode_json($out)->{operation}), $expected, "$source from standard input");
	}
}
is(one($node, "select count(*) from pawl_bulk.input where raw like '1,\"x%'", 'wide'), '3', 'every one was counted');

# Limits: lines of 100 MB, elements as long
system(qq(perl -e 'print "a,b\\n1,2\\n"; print "y" x 1_000_000 for 1 .. 100; print "\\n3,4\\n\\"open,"; print "y" x )
			. qq(1_000_000 for 1 .. 100; print "\\n5,6\\n"' | gzip -1 > $folder/long.csv.gz)) == 0 or die;
my ($long) = submit('wide', "$folder/long.csv.gz");
my $many = 'y' x 1000;
is(rows_of('wide', $long->{operation}),
	'2 a=1,b=2; 3 ' . $many . ' !the row is longer than 1048576 bytes; 4 a=3,b=4; 5 "open,' . substr($many, 6)
		. ' !the row is longer than 1048576 bytes; 6 a=5,b=6',
	'a line of 100 MB is one malformed row, with its beginning');
reads_as('elements.json', '[{"a": 1}, {"a": "' . 'y' x 2000 . '"}, {"a": 3}]', [ '--longest-row', 1000 ],
	'1 a=1; 1 {"a": "' . 'y' x 993 . ' !the row is longer than 1000 bytes; 1 a=3');
reads_as('a long row that is allowed', "a\n" . 'y' x 2_000_000 . "\n", [ '--longest-row', 3_000_000 ],
	'2 a=' . 'y' x 2_000_000);

# Rejected input leaves nothing.
my $before = one($node, 'select count(*) from pawl_bulk.operations', 'wide');
for my $case (
	[ 'a map of a column that is not there', "a,b\n", [ '--rename', 'c=d' ], 3, qr/the header has no column "c"/ ],
	[ 'two columns of one name', "a,a\n1,2\n", [], 3, qr/duplicate column "a"/ ],
	[ 'an empty file without columns', '', [], 3, qr/the columns of the CSV are unknown/ ],
	[ 'the delimiter is the quote', "a\n", [ '--delimiter', '"' ], 3, qr/the delimiter must be neither/ ],
	[ 'a delimiter of two bytes', "a\n", [ '--delimiter', "\xC2\xA7" ], 2,
		qr/--delimiter must be one ASCII character/ ],
	[ 'an encoding that is none', "a\n", [ '--encoding', 'klingon' ], 2, qr/unknown encoding klingon/ ],
	[ 'gzip that is no more than its beginning', "\x1F\x8B\x08\x00\x00\x00", [], 2, qr/gzip|columns/ ])
{
	my ($name, $bytes, $options, $expected, $why) = @$case;
	my (undef, $status, $err) = submit('wide', file('rejected.csv', $bytes), @$options);
	is($status, $expected, $name) or diag($err);
	like($err, $why, "$name: why");
}
is(one($node, 'select count(*) from pawl_bulk.operations', 'wide'), $before, 'nothing was created');

# Memory does not grow with the file.
sub resident
{
	my ($pid, $what) = @_;
	open my $status, '<', "/proc/$pid/status" or return 0;
	return (map { /^$what:\s+(\d+)/ ? $1 : () } <$status>)[0] // 0
}
sub peaks
{
	my ($rows) = @_;
	open my $handle, '>', "$folder/many.csv" or die $!;
	print $handle "id,name,note\n", map { "$_,name of $_,\"a, b\"\n" } 1 .. $rows;
	close $handle;
	my $run = begin_program($node, 'pawl', '--json', '--database', 'dbname=wide', 'bulk', 'submit', '--operation',
		'rows', "$folder/many.csv");
	my ($client, $server, $backend) = (0, 0, 0);
	while ($run->{harness}->pumpable)
	{
		$run->{harness}->pump_nb;
		my $now = resident($run->{pid}, 'VmHWM');
		$client = $now if $now > $client;
		$backend ||= one($node, q{select coalesce(max(pid), 0) from pg_stat_progress_copy});
		$now = $backend ? resident($backend, 'RssAnon') : 0;
		$server = $now if $now > $server;
		select undef, undef, undef, 0.01;
	}
	is(end_program($run), 0, "$rows rows");
	my $made = decode_json($run->{out});
	is($made->{rows}, $rows, 'all of them');
	$node->safe_psql('wide', "select pawl_bulk.cancel('$made->{operation}')");
	return ($client, $server);
}
my @small = peaks(50_000);
my @large = peaks(500_000);
note("client $small[0] kB, then $large[0] kB; backend $small[1] kB, then $large[1] kB");
cmp_ok($large[0], '<', 48 << 10, 'the program needs less than 48 MB');
cmp_ok($large[0] - $small[0], '<', 4 << 10, 'and no more for ten times the rows');
cmp_ok($large[1] - $small[1], '<', 16 << 10, 'nor does its backend');

# An upload that is interrupted leaves nothing; one whose end was not heard is asked after.
$before = one($node, 'select count(*) from pawl_bulk.operations', 'wide');
my $inputs = one($node, 'select count(*) from pawl_bulk.input', 'wide');
POSIX::mkfifo("$folder/slow.csv", 0600) or die $!;
for my $accident ('the program is killed', 'its session is ended')
{
	my $run = begin_program($node, 'pawl', '--database', 'dbname=wide', 'bulk', 'submit', '--operation', 'rows',
		"$folder/slow.csv");
	open my $handle, '>', "$folder/slow.csv" or die $!;
	$handle->autoflush(1);
	print $handle "id\n", map { "row $_\n" } 1 .. 30_000;
	$node->poll_query_until('postgres', 'select count(*) = 1 from pg_stat_progress_copy where tuples_processed > 0')
		or die;
	if ($accident =~ /killed/) { kill_program($run) }
	else
	{
		local $SIG{PIPE} = 'IGNORE';
		$node->safe_psql('postgres', 'select pg_terminate_backend(pid) from pg_stat_progress_copy');
		print $handle map { "row $_\n" } 1 .. 30_000;
		close $handle;
		is(end_program($run), 4, "$accident: exit status");
	}
	$node->poll_query_until('postgres', 'select count(*) = 0 from pg_stat_progress_copy') or die;
	is(one($node, 'select count(*) from pawl_bulk.operations', 'wide') . ' '
		. one($node, 'select count(*) from pawl_bulk.input', 'wide'), "$before $inputs", "$accident: nothing is left");
}
my $proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
my $again = file('again.csv', "id\n1\n2\n");
sub submit_through { local $PawlPrograms::through = $proxy->through; return submit('wide', @_) }
$proxy->arm([ 'COMMIT', 'before', 'cut' ]);
is((submit_through($again, '--once'))[1], 4, 'cut before the commit');
is(one($node, 'select count(*) from pawl_bulk.operations', 'wide'), $before, 'nothing is there');
$proxy->arm([ 'COMMIT', 'after', 'cut' ]);
my ($first, $status) = submit_through($again, '--once');
is("$status $first->{rows}", '0 2', 'cut after the commit, and found again');
my ($second) = submit('wide', $again, '--once');
is(join(' ', $second->{operation}, $second->{created} ? 1 : 0), "$first->{operation} 0",
	'the same file once more is the same operation');
$proxy->end;

# A terminal shows one live line, cut to its width; a program that reads standard output gets the answer alone.
{
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGUSER => one($node, 'select current_user'),
		TERM => 'xterm');
	my ($out, $screen) = ('', '');
	my $waiting = (submit('wide', file('watched.csv', "id\n1\n2\n")))[0]{operation};
	my $harness = IPC::Run::start([ program('pawl'), '--database', 'dbname=wide', 'bulk', 'watch' ], '<pty<', \my $in,
		'>', \$out, '2>pty>', \$screen, IPC::Run::timeout(180));
	wait_until(sub { $harness->pump_nb; $screen =~ /Pending/ }, 'a line on the terminal');
	end_program(begin_program($node, 'pawld', '--database', 'dbname=wide', '--once'));
	wait_until(sub { $harness->pump_nb; $screen =~ /Completed/ }, 'the end on the terminal');
	$harness->finish;
	is($harness->result(0), 0, 'watch ends well');
	like($screen, qr/\r\033\[KPending  0 rows validated.*\r\033\[K\[#{40}\] 100%  2 of 2 rows, 0 failed.*Completed/s,
			'one line, written over') or diag($screen);
	is($out, '', 'and nothing else');

	# An export that fails leaves no file that looks like one.
	is(system(program('pawl') . " --database dbname=wide bulk export $waiting > /dev/full 2> $folder/full.err") >> 8, 2,
		'a full disk behind standard output is reported');
	is(system(program('pawl')
			. " --database dbname=wide bulk export $waiting --output /dev/full 2>> $folder/full.err") >> 8,
		2, 'and behind a file');
	file('report.csv', 'the one of yesterday');
	$proxy = FaultProxy->new($node->host . '/.s.PGSQL.' . $node->port);
	@ENV{qw(PGHOST PGPORT)} = @{ $proxy->through };
	$proxy->arm([ 'COPY', 'before', 'cut' ]);
	is(system(program('pawl') . " --database dbname=wide bulk export $waiting --output $folder/report.csv 2>> "
		. "$folder/full.err") >> 8, 4, 'an export that is cut off');
	is(PostgreSQL::Test::Utils::slurp_file("$folder/report.csv") . (-e "$folder/report.csv.part" ? ' and a part' : ''),
		'the one of yesterday', 'leaves what was there');
	is(system(program('pawl') . " --database dbname=wide bulk export $waiting --output $folder/report.csv") >> 8, 0,
		'pawl bulk export can be repeated into the same file');
	is(scalar(my @lines = split /\n/, PostgreSQL::Test::Utils::slurp_file("$folder/report.csv")), 3,
		'the new one is whole');
	$proxy->end;
}

is(end_program(begin_program($node, 'pawld', '--database', "dbname=$_", '--once')), 0, "$_: the duties run")
	for qw(wide narrow);
is(one($node, "select * from pawl_bulk.verify()", 'wide'), '', 'verify of the pack finds nothing');
sound($node, 'after all of it', 'wide');
no_crash($node);
done_testing();
