# What docs/http.md shows can be pasted: its SQL, and its commands of curl in the order of
# the page, which give what the page says.
use strict;
use warnings;
use FindBin;
use IPC::Run;
use JSON::PP;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = slurp_file("$FindBin::Bin/../../docs/http.md");
my $node = new_cluster('pages');
$node->safe_psql('postgres', q{
	create extension pawl_dag cascade; create extension pawl_bulk; create schema shop;
	select pawl_dag.define_template('{"name": "order", "steps": [{"name": "pack", "handler": "shop.pack"}]}');
	select pawl_bulk.define('{"name": "devices", "metadata": {"required": ["carrier"]}, "steps": [{"name": "load", '
		'"handler": "missing"}]}');
	select pawl.define('ticket', E'stateDiagram-v2\n[*] --> open\nopen --> answered : answer\nanswered --> [*]');
	create table shop.tickets (id integer primary key, state text not null default 'open');
	select pawl.enforce('shop.tickets', 'state', 'ticket'), pawl.enable_log('shop.tickets', 'state'),
		pawl.enable_events('shop.tickets', 'state');
	insert into shop.tickets values (1), (2);
});
my ($sql) = $page =~ /^```sql\n(.*?)^```/ms;
my $token = (grep { /^pawl_/ } split /\n/, $node->safe_psql('postgres', $sql))[0];
like($token, qr/^pawl_.{43}$/, 'the SQL of the beginning can be pasted, and tells a token');
$node->safe_psql('postgres', 'grant usage on schema shop to pawl_operator; grant select, update on shop.tickets to '
	. 'pawl_operator; grant select on shop.tickets_transitions, shop.tickets_transitions_log to pawl_operator');
my $api = begin_api($node);

my $folder = PostgreSQL::Test::Utils::tempdir;
append_to_file("$folder/devices.csv", "imei,plan\n1,basic\n2,basic\n");
my %given = (TOKEN => $token, URL => 'http://127.0.0.1:' . api_port(), ID => '');

# Each has what the other has, as far as that goes.
sub has
{
	my ($got, $shown) = @_;
	if (ref $shown eq 'HASH')
	{
		return ref $got eq 'HASH' && !grep { !exists $got->{$_} || !has($got->{$_}, $shown->{$_}) } keys %$shown
	}
	if (ref $shown eq 'ARRAY')
	{
		return ref $got eq 'ARRAY' && @$got == @$shown && !grep { !has($got->[$_], $shown->[$_]) } 0 .. $#$shown
	}
	return defined $got && "$got" eq "$shown";
}

my $count = 0;
while ($page =~ /^```sh\n(.*?)^```\n(?:```json\n(.*?)^```\n)?/msg)
{
	my ($commands, $shown) = ($1, $2);
	my $is_stream = $commands =~ /curl -N/;
	# a stream has no end of its own
	my $script = 'set -e; cd "$FOLDER"; ' . ($is_stream ? 'curl() { command curl -m 3 "$@" || [ $? -eq 28 ]; }; ' : '')
		. "\n$commands";
	my ($out, $err) = ('', '');
	my $good = do {
		local %ENV = (%ENV, %given, FOLDER => $folder);
		my $run = IPC::Run::start([ 'bash', '-c', $script ], '>', \$out, '2>', \$err);
		if ($is_stream)
		{
			wait_until(sub { $run->pump_nb; $out =~ /^: pawl/ }, 'the stream');
			$node->safe_psql('postgres', q{update shop.tickets set state = 'answered' where id = 2})
		}
		$run->finish;
		$run->result(0) == 0;
	};
	my ($what) = $commands =~ m{(?:\$URL)(/[^\s"?]*)};
	ok($good, "$what can be asked") or diag($err);
	my $json = eval { decode_json($out) };
	unlike($out, qr/"sqlstate": ?"/, "$what answers without an error") unless $shown && $shown =~ /sqlstate/;
	ok(has($json, decode_json($shown)), 'what the page says') or diag($out) if $shown;
	$given{ID} = $json->{operation} if ref $json eq 'HASH' && $json->{operation};
	like($out, qr/^event: transition\ndata: \{.*"to_state" ?: ?"answered".*\}$/m,
			'and tells of the transition that comes') if $is_stream;
	++$count;
}
is($count, 11, 'the page has its examples');
like(slurp_file("$folder/report.csv"), qr/^RowNumber/, 'the report is where it was asked for');
is((() = $page =~ /^curl /mg), (() = join('', $page =~ /^```sh\n(.*?)^```/msg) =~ /^curl /mg),
	'no command of the page was left out');

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
