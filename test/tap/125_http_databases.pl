# One HTTP API over three databases on two servers: lists of all of them, things found by their ids, work started where
# its namespace is; one server is stopped and comes back meanwhile.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use EventStream;
use JSON::PP;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my @packs = qw(pawl_dag pawl_bulk pawl_saga);
my $main = api_cluster('main', @packs);
my $far = api_cluster('far', @packs);
$main->safe_psql('postgres', 'create database b template postgres');
my %node = (a => $main, b => $main, c => $far);
my %base = (a => 'postgres', b => 'b', c => 'postgres');
my %namespace = (a => 'red', b => 'green', c => 'blue');
my $target = sub { my ($name) = @_;
	return 'host=' . $node{$name}->host . ' port=' . $node{$name}->port . " dbname=$base{$name}" };
sub in_database { my ($name, $sql) = @_; return $node{$name}->safe_psql($base{$name}, $sql) }

sub pawl
{
	my ($name, @arguments) = @_;
	my $run = begin_program($main, 'pawl', '-d', $target->('a'), @arguments);
	is(end_program($run), 0, $name) or diag($run->{err});
	return $run->{out};
}

pawl('the first database', 'databases', 'init', 'a', $target->('a'));
pawl("database $_ is added", 'databases', 'add', $_, $target->($_)) for qw(b c);
pawl("namespace $namespace{$_} is placed in $_", 'move', $namespace{$_}, $_, '--no-verify') for qw(b c);
pawl('bulk operations are placed', 'move', 'load', 'c', '--pack', 'bulk', '--no-verify');
pawl('a board is placed', 'move', 'mail', 'b', '--pack', 'saga', '--no-verify');
for my $name (sort keys %node)
{
	in_database($name, <<"SQL");
select pawl_dag.define_template('{"name": "order", "namespace": "$namespace{$name}", "identity_strategy":
    "always_unique", "steps": [{"name": "pack", "handler": "shop.pack"}]}');
select pawl.enable_events('pawl_dag.tasks', 'state');
SQL
}
in_database('c', q{select pawl_bulk.define('{"name": "load", "is_retryable": true, "steps": [{"name": "load",
	"kind": "sync", "handler": "shop.load"}]}')});

my $reader = make_token($main, 'pawl_reader', 'rita', '{read}');
my $operator = make_token($main, 'pawl_operator', 'otto', '{read,operate}');
my $api = begin_api($main, '--database', $target->('a'), '--all-databases', 'true', '--skip', 'orchestrate,advance',
	'--sql-workers', '0', '--api-timeout-ms', '3000', '--http', '127.0.0.1:0');
my ($metrics) = $api->{run}{err} =~ /listening port=(\d+)/;
sub read_api { my ($path, %how) = @_; return ask('GET', $path, token => $reader, %how) }
sub operate { my ($path, $body, %how) = @_; return ask('POST', $path, token => $operator, body => $body, %how) }
my $unavailable = sub {
	my ($got) = @_;
	return join ' ', map { "$_->{database}:$_->{problem}{status}" } @{ $got->{json}{unavailable} // [] };
};

subtest 'a token is of one database, until it is copied' => sub {
	my $got = read_api('/v1/tasks');
	is($unavailable->($got), 'b:401 c:401', 'a list is without the databases that do not know it');
	is(read_api('/v1/tasks?database=b')->{status}, 403, 'as such they reject it');
	is(ask('GET', '/v1/tasks', token => 'pawl_' . 'x' x 43)->{status}, 401, 'one that nothing knows is unknown');
	is(ask('GET', '/v1/tasks?database=zz', token => 'pawl_' . 'x' x 43)->{status}, 401,
		'and does not learn which databases there are');
	like(pawl('tokens are copied', 'databases', 'tokens'), qr/b: 2 tokens.*\nc: 2 tokens/, 'to all others');
	like(pawl('once', 'databases', 'tokens'), qr/b: 0 tokens.*\nc: 0 tokens/, 'only what has changed');
	is($unavailable->(read_api('/v1/tasks')), '', 'now they are all there');
	my $short = make_token($main, 'pawl_reader', 'sam', '{read}');
	pawl('another one is copied', 'databases', 'tokens');
	in_database('b', q{select pawl_api.revoke_token(token) from pawl_api.tokens where person = 'sam'});
	in_database('a', q{select pawl_api.revoke_token(token) from pawl_api.tokens where person = 'sam'});
	pawl('so are revocations', 'databases', 'tokens');
	is(read_api('/v1/session?database=c', token => $short)->{status}, 401, 'a revoked one is valid nowhere');
};

subtest 'databases' => sub {
	my $got = read_api('/v1/databases');
	is(join(' ', map { "$_->{database}" . ($_->{home} ? ' is home' : '') } @{ $got->{json}{items} }),
		'a is home b c', 'the databases are listed');
	becomes(sub { join ' ', map { $_->{ready} ? 1 : 0 } @{ read_api('/v1/databases')->{json}{items} } }, '1 1 1',
		'each can be worked in');
	my $one = read_api('/v1/session?database=b');
	is($one->{json}{database}, 'b', 'one can be asked');
	is($one->{headers}{'pawl-database'}, 'b', 'and the answer says which it was');
	my $none = read_api('/v1/tasks?database=z');
	is("$none->{status} $none->{json}{facts}", '404 Databases: a, b, c.', 'an unknown one is not found');
	is(read_api('/v1/overview')->{headers}{'pawl-database'}, 'a', 'an overview is that of the one pawld was given');
};

subtest 'work is started where its namespace is' => sub {
	for my $name (sort keys %node)
	{
		my $made = operate('/v1/tasks', { name => 'order', namespace => $namespace{$name} });
		is("$made->{status} " . ($made->{headers}{'pawl-database'} // ''), "201 $name", "a task of $namespace{$name}");
		is(in_database($name, "select count(*) from pawl_dag.tasks where task_uuid = '$made->{json}{task_uuid}'"), 1,
			'the task is there');
	}
	is(operate('/v1/jobs', { name => 'send', board => 'mail' })->{headers}{'pawl-database'}, 'b', 'a job on its board');
	my $wrong = operate('/v1/tasks?database=a', { name => 'order', namespace => 'green' });
	is("$wrong->{status} $wrong->{json}{sqlstate}", '409 PW009', 'not in a database that is named wrongly');
	like($wrong->{json}{hint}, qr/database=b/, 'and the error says where to go');
	my $form = "--XyZ\r\nContent-Disposition: form-data; name=\"operationName\"\r\n\r\nload\r\n--XyZ\r\n"
		. "Content-Disposition: form-data; name=\"file\"; filename=\"f.csv\"\r\n\r\nid\n1\n2\n\r\n--XyZ--\r\n";
	my %how = (token => $operator, content => $form,
		headers => { 'Content-Type' => 'multipart/form-data; boundary=XyZ' });
	my $bulk = ask('POST', '/api/bulks', %how);
	is("$bulk->{status} " . ($bulk->{headers}{'pawl-database'} // ''), '201 c', 'a file goes where its operation is')
		or diag($bulk->{content});
	is(ask('POST', '/api/bulks/validate', %how)->{headers}{'pawl-database'}, 'c', 'also to be validated');
	my $id = $bulk->{json}{operation};
	is(read_api("/api/bulks/$id/status")->{headers}{'pawl-database'}, 'c', 'and is found');
	is(read_api("/api/bulks/$id/file")->{content}, "id\n1\n2\n", 'and sent back');
	my $link = read_api("/api/bulks/$id/export/link");
	is($link->{status}, 200, 'there are links') or diag($link->{content});
	is(ask('GET', $link->{json}{href})->{status}, 200, 'which lead to it');
};

# Tasks of all databases in turns: 61 of each with the first.
in_database($_, "select pawl_dag.start_task('order', jsonb_build_object('n', g), namespace => '$namespace{$_}') from "
		. 'generate_series(1, 20) g')
	for (qw(a b c)) x 3;
my $all = sub {
	my ($where) = @_;
	my @rows = sort { $b cmp $a } map { my $name = $_;
		map { "$_ $name" } split /\n/, in_database($name, "select task_uuid from pawl_dag.tasks where $where") }
		qw(a b c);
	return join "\n", @rows;
};
my $pages = sub {
	my ($path) = @_;
	my ($next, @rows, %sizes);
	do
	{
		my $got = read_api($path . (defined $next ? "&cursor=$next" : ''));
		die $got->{content} if $got->{status} != 200;
		push @rows, map { "$_->{task_uuid} $_->{database}" } @{ $got->{json}{items} };
		$sizes{ @{ $got->{json}{items} } } = 1;
		$next = $got->{json}{next};
	} while (defined $next && @rows < 1000);
	return (join("\n", @rows), join ' ', sort keys %sizes);
};

subtest 'lists are of all databases' => sub {
	for my $limit (13, 50, 500)
	{
		my ($rows, $sizes) = $pages->("/v1/tasks?limit=$limit");
		is($rows, $all->('true'), "every task once, newest first, in pages of $limit");
		is($sizes, { 13 => '1 13', 50 => '33 50', 500 => '183' }->{$limit}, 'which are full');
	}
	is(($pages->('/v1/tasks?limit=7&namespace=blue'))[0], $all->("namespace = 'blue'"), 'with a filter');
	is(($pages->('/v1/tasks?limit=7&search=%22n%22%3A+17'))[0], $all->(q{context ->> 'n' = '17'}), 'or a search');
	is(join(' ', map { "$_->{namespace}:$_->{database}" } @{ read_api('/v1/templates')->{json}{items} }),
		'blue:c green:b red:a', 'templates are, too');
	is(join(' ', map { "$_->{definition}:$_->{database}" } @{ read_api('/api/bulks')->{json}{items} }), 'load:c',
		'and so are operations');
	is(join(' ', map { "$_->{name}:$_->{database}" } @{ read_api('/v1/jobs')->{json}{items} }), 'send:b',
		'and so are jobs');
	my $one = read_api('/v1/tasks?database=b&limit=2')->{json};
	my $ended = 'eyJhIjpudWxsLCJiIjpudWxsLCJjIjpudWxsfQ';  # of lists that have all ended
	is(read_api("/v1/tasks?cursor=$_")->{status}, 400, 'an invalid cursor is rejected')
		for 'x', '', $one->{next}, $ended;
	is(read_api('/v1/tasks?database=b&cursor=' . read_api('/v1/tasks?limit=2')->{json}{next})->{status}, 400,
		'also that of another list');
	is(read_api("/v1/tasks?limit=$_")->{status}, 400, "limit $_ is rejected") for qw(0 501 x +5);
};

my $task_of = sub { my ($name, $n) = @_;
	return in_database($name, "select task_uuid from pawl_dag.tasks order by 1 offset $n limit 1") };
subtest 'a task is found by its id' => sub {
	for my $name (sort keys %node)
	{
		my $task = $task_of->($name, 1);
		my $got = read_api("/v1/tasks/$task");
		is("$got->{status} $got->{headers}{'pawl-database'}", "200 $name", "in $name");
		my $step = $got->{json}{workflow_steps}[0]{step_uuid};
		is(read_api("/v1/tasks/$task/workflow_steps/$step")->{status}, 200, 'with its steps');
		is(read_api("/v1/tasks/$task/workflow_steps/$task")->{status}, 404, 'and no others');
		my %once = (headers => { 'Idempotency-Key' => "cancel $name" });
		my @cancelled = map { operate("/v1/tasks/$task/cancel", { reason => 'no' }, %once) } 1, 2;
		is(join(' ', map { "$_->{status} $_->{json}{moved}" } @cancelled), '200 1 200 1', 'it is cancelled once');
		is(in_database($name, "select state from pawl_dag.tasks where task_uuid = '$task'"), 'cancelled',
			'in its own database');
	}
	my $none = read_api('/v1/tasks/01234567-89ab-7def-8123-456789abcdef');
	is("$none->{status} $none->{json}{sqlstate}", '404 P0002', 'what is nowhere is not found');
	is(read_api('/v1/tasks/nonsense')->{status}, 400, 'what is no id is rejected');
	is(operate('/v1/tasks/01234567-89ab-7def-8123-456789abcdef/cancel', {})->{status}, 404, 'nor can it be changed');
};

subtest 'many are acted on where they are' => sub {
	my %task = map { $_ => $task_of->($_, 2) } qw(a b c);
	my $nowhere = '01234567-89ab-7def-8123-456789abcdef';
	my $order = { action => 'cancel', ids => [ values %task, $nowhere ] };
	my $dry = operate('/v1/tasks/actions', { %$order, dry_run => JSON::PP::true })->{json};
	is("$dry->{changed} $dry->{rejected}", '3 1', 'a dry run says how many');
	my $done = operate('/v1/tasks/actions', $order)->{json};
	is(join(' ', sort map { "$_->{database}:$_->{outcome}:" . ($_->{sqlstate} // '') } @{ $done->{items} }),
		'a:changed: a:rejected:P0002 b:changed: c:changed:', 'with given ids');
	is($done->{next}, undef, 'in one request');
	is(in_database($_, "select state from pawl_dag.tasks where task_uuid = '$task{$_}'"), 'cancelled', "in $_")
		for qw(a b c);
	my ($changed, $cursor, %by, $parts) = (0);
	do
	{
		my $part = operate('/v1/tasks/actions', { action => 'cancel', filter => { search => '"n": 3' }, limit => 2,
			$cursor ? (cursor => $cursor) : () })->{json};
		$changed += $part->{changed};
		$by{ $_->{database} } += $_->{changed} for @{ $part->{databases} };
		$cursor = $part->{next};
	} while ($cursor && ++$parts < 50);
	is("$changed $by{a} $by{b} $by{c}", '9 3 3 3', 'by a filter');
	is(operate('/v1/tasks/actions', { action => 'cancel', filter => {}, cursor => 'x' })->{status}, 400,
		'an invalid cursor is rejected');
	is(operate('/v1/tasks/actions', { action => 'nothing', filter => {} })->{json}{sqlstate}, '22023',
		'and an unknown action');
	is(ask('POST', '/v1/tasks/actions', token => $reader, body => { action => 'cancel', filter => {} })->{status}, 403,
		'a reader may not');
};

# In which databases tasks were started, as a stream tells it. A stream begins behind what the daemon has read, so it
# can have events of what was before.
my %started;
sub start_in
{
	my ($name) = @_;
	$started{ in_database($name, "select pawl_dag.start_task('order', namespace => '$namespace{$name}')") } = 1;
	return;
}
my $told = sub {
	my ($stream) = @_;
	pull($stream);
	return join ' ', sort map { $_->{database} }
		grep { $started{ $_->{key}[0] } && $_->{to_state} eq 'pending' } @{ $stream->{events} };
};
my $stream = listen_to(token => $reader);
start_in($_) for qw(a b c);
becomes(sub { $told->($stream) }, 'a b c', 'one stream has the events of all');
my $position = $stream->{id};
like($position, qr/^a=\S+;b=\S+;c=\S+$/, 'with a position in each');
close $stream->{socket};
start_in('c');
$stream = listen_to(token => $reader, after => $position);
becomes(sub { $told->($stream) }, 'c', 'it goes on behind its position');

subtest 'a namespace moves' => sub {
	my ($task, $other) = map { $task_of->('b', $_) } 5, 6;
	is(read_api("/v1/tasks/$_")->{headers}{'pawl-database'}, 'b', 'it was in b') for $task, $other;
	my %key = (headers => { 'Idempotency-Key' => 'first' });
	my $first = operate('/v1/tasks', { name => 'order', namespace => 'green' }, %key);
	pawl('it moves', 'move', 'green', 'c', '--drain', '0 s', '--no-verify');
	my $made = operate('/v1/tasks', { name => 'order', namespace => 'green' });
	is("$made->{status} " . ($made->{headers}{'pawl-database'} // ''), '201 c', 'new work follows it');
	is(operate("/v1/tasks/$task/cancel", {})->{headers}{'pawl-database'}, 'c', 'a task is found again');
	is(read_api("/v1/tasks/$other")->{headers}{'pawl-database'}, 'c', 'and so is another');
	my $again = operate('/v1/tasks', { name => 'order', namespace => 'green' }, %key);
	is($again->{json}{task_uuid}, $first->{json}{task_uuid}, 'a repeated request makes no second task');
	my $wrong = operate('/v1/tasks?database=b', { name => 'order', namespace => 'green' });
	like("$wrong->{status} $wrong->{json}{hint}", qr/^409 .*database=c/, 'an old place says which is the new one');
	is(($pages->('/v1/tasks?limit=50'))[0], $all->('true'), 'a list has each once');
};

subtest 'a server is down' => sub {
	my ($known, $unknown, $near) = ($task_of->('c', 7), $task_of->('c', 8), $task_of->('a', 7));
	read_api("/v1/tasks/$known");
	$far->stop('immediate');
	my $got = read_api('/v1/tasks?limit=500');
	is("$got->{status} " . $unavailable->($got), '200 c:503', 'lists are without it, and say so');
	is(scalar(grep { $_->{database} eq 'c' } @{ $got->{json}{items} }), 0, 'they have nothing of it');
	is($got->{json}{next}, undef, 'and they end');
	is(read_api("/v1/tasks/$near")->{status}, 200, 'tasks of others are found');
	is(read_api("/v1/tasks/$known")->{status}, 503, 'its own are not');
	my $maybe = read_api("/v1/tasks/$unknown");
	is($maybe->{status}, 503, 'what may be there is not said to be nowhere');
	like($maybe->{json}{detail}, qr/"c"/, 'and the error names it');
	is(operate('/v1/tasks', { name => 'order', namespace => 'red' })->{status}, 201, 'work of others is started');
	is(operate('/v1/tasks', { name => 'order', namespace => 'blue' })->{status}, 503, 'its own is not');
	my $part = operate('/v1/tasks/actions', { action => 'cancel', filter => { namespace => 'red' }, limit => 5 });
	is("$part->{status} $part->{json}{changed} " . $unavailable->($part), '200 5 c:503', 'actions are in part');
	$part = operate('/v1/tasks/actions', { action => 'cancel', ids => [ $near, $unknown ] })->{json};
	is(join(' ', sort map { ($_->{id} eq $near ? 'near:' : 'far:') . ($_->{sqlstate} // '') } @{ $part->{items} }),
		'far:08006 near:', 'each id has an outcome');
	my ($health) = grep { $_->{database} eq 'c' } @{ read_api('/v1/databases')->{json}{items} };
	ok(!$health->{ready} && $health->{reason} && !$health->{figures}, 'it is not ready, with the reason');
	start_in('a');
	becomes(sub { $told->($stream) }, 'a c', 'the stream goes on');
	my $late = listen_to(token => $reader, after => $position);
	becomes(sub { $told->($late) }, 'a', 'another begins meanwhile');
	$far->start;
	becomes(sub { my $list = read_api('/v1/tasks'); $list->{status} . $unavailable->($list) }, '200',
		'it comes back into lists');
	is(read_api("/v1/tasks/$unknown")->{status}, 200, 'its tasks are found');
	start_in('c');
	becomes(sub { $told->($_) }, 'a c c', 'and its events are told, also those of before')
		for $stream, $late;
};

subtest 'a server is silent' => sub {
	my @sessions = split /\n/,
		in_database('c', "select pid from pg_stat_activity where usename = 'pawl_authenticator'");
	ok(@sessions > 0, 'the daemon has connections to it');
	my $postmaster = one($far, "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)");
	kill 'STOP', $postmaster, @sessions;
	my $got = read_api('/v1/tasks');
	is("$got->{status} " . $unavailable->($got), '200 c:504', 'a list does not wait for it without end');
	my $began = time;
	$got = read_api('/v1/tasks') for 1 .. 10;
	is(join(' ', map { $_->{database} } @{ $got->{json}{unavailable} }), 'c', 'and then leaves it out');
	cmp_ok(time - $began, '<', 5, 'without waiting again');
	kill 'CONT', $postmaster, @sessions;
	becomes(sub { my $list = read_api('/v1/tasks'); $list->{status} . $unavailable->($list) }, '200',
		'until it is back');
};

subtest 'the database that pawld was given is down' => sub {
	$main->stop('immediate');
	is(read_api('/v1/session')->{headers}{'pawl-database'}, 'c', 'a client is still known');
	is($unavailable->(read_api('/v1/tasks')), 'a:503 b:503', 'the others are served');
	my $given = read_api('/v1/overview');
	is($given->{status}, 503, 'what is asked of it fails');
	like($given->{json}{hint}, qr/parameter database/, 'with a hint to the others');
	is(read_api('/v1/overview?database=c')->{status}, 200, 'which answer for themselves');
	$far->stop('immediate');
	is(read_api('/v1/tasks')->{status}, 503, 'without any there is no list');
	is(read_api('/v1/session')->{status}, 503, 'and no session');
	$_->start for $main, $far;
	becomes(sub { my $list = read_api('/v1/tasks'); $list->{status} . $unavailable->($list) }, '200', 'all come back');
};

subtest 'JSON that is nested deeper than pawld reads' => sub {
	my $deep = '{"name": "order", "namespace": "blue", "context": {"deep": ' . '[' x 600 . ']' x 600 . '}}';
	my %how = (token => $operator, headers => { 'Content-Type' => 'application/json' }, content => $deep);
	my $lost = ask('POST', '/v1/tasks', %how);
	is($lost->{status}, 400, 'does not say where it belongs');
	like($lost->{json}{detail}, qr/nested deeper than 512/, 'and the error says why');
	is(ask('POST', '/v1/tasks?database=c', %how)->{status}, 201, 'a database that is named takes it');
	is(ask('POST', '/v1/tasks', %how, content => '{"name": "order", "namespace": "blue", "priority": 1e400}')->{status},
		400, 'a number that is too large is rejected, too');
	my $job = '{"name": "send", "board": "mail", "details": {"deep": ' . '[' x 600 . ']' x 600 . '}}';
	is(ask('POST', '/v1/jobs?database=b', %how, content => $job)->{status}, 201, 'a job with such details is posted');
	my $list = read_api('/v1/jobs');
	is("$list->{status} " . $unavailable->($list), '200 b:503', 'a list is without the database that has it');
	like($list->{json}{unavailable}[0]{problem}{detail}, qr/nested deeper than 512/, 'and says why');
	is(read_api('/v1/jobs?database=b')->{status}, 200, 'which lists it alone');
};

subtest 'a database comes and goes' => sub {
	$main->safe_psql('postgres', 'create database d');
	$main->safe_psql('d', 'create extension pawl_dag cascade; create extension pawl_api');
	my $names = sub { join ' ', map { $_->{database} } @{ read_api('/v1/databases')->{json}{items} } };
	pawl('database d is added', 'databases', 'add', 'd', 'host=' . $main->host . ' port=' . $main->port . ' dbname=d');
	becomes($names, 'a b c d', 'it is found');
	is($unavailable->(read_api('/v1/tasks')), 'd:401', 'and asked, though it knows no token');
	my $text = (http_get($metrics, '/metrics'))[1];
	like($text, qr/^pawld_api_calls_total\{database="$_"\} [1-9]/m, "calls of $_ are counted") for qw(a b c d);
	in_database('a', q{delete from pawl.database where name = 'd'});
	becomes($names, 'a b c', 'it is given up');
	is($unavailable->(read_api('/v1/tasks')), '', 'and not asked any more');
};

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
unlike($api->{run}{err}, qr/duty failed[^\n]*conduct[^\n]*PW009/, 'no database conducts a board that another one has');
no_crash($_) for $main, $far;
done_testing();
