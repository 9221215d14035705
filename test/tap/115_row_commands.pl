# The commands of tables and rows: enforce, upgrade, release, fire, available and history; diff and watch of diagrams.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LifecycleFiles;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Terminal;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
create table lines (shop text, line bigint, state text not null, primary key (shop, line));
create table parcels (id uuid primary key, state text not null, label text);
insert into parcels values ('00000000-0000-0000-0000-00000000000a', 'cart');
insert into lines values ('a "b", c', 7, 'cart'), ('x', 8, 'cart');
SQL
my $folder = folder_with('order.mmd' => orders_diagram(''));
my $file = "$folder/order.mmd";

is((command($node, 'define', 'order', $file))[1], 0, 'a machine is defined');
is(json_of($node, 'enforce', 'lines', 'state', 'order', '--on-delete', 'deny')->{machine}, 'order',
	'a table is enforced');
is((command($node, 'enforce', 'parcels', 'state', 'order', '--key', 'id', '--version', '1'))[1], 0, 'and another one');
is((command($node, 'enforce', 'parcels', 'state', 'nonsense'))[1], 3, 'an unknown machine is rejected');
is((command($node, 'enforce', 'parcels', 'state', 'order', '--version', 'x'))[1], 2, 'a version that is no number');
is(one($node, q{select on_delete from pawl.binding where relation = 'lines'::regclass}), 'deny',
	'options reach the function');
$node->safe_psql('postgres', q{select pawl.enable_log('lines'); select pawl.enable_log('parcels')});

# Keys of several columns, and of types that are no text
is(json_of($node, 'fire', 'lines', 'pay', 'a "b", c', '7', '--metadata', '{"by": "hand"}', '--processor',
	'anna')->{state},
	'paid', 'an event is fired for a key of two columns');
is(one($node, q{select metadata ->> 'by' || processor from lines_transitions where most_recent and line = 7}),
	'handanna',
	'metadata and processor are logged');
is(scalar command($node, 'fire', 'parcels', 'pay', '00000000-0000-0000-0000-00000000000A'), "paid\n",
	'a uuid is a key');
is(scalar command($node, 'fire', 'parcels', 'ship,deliver', '00000000-0000-0000-0000-00000000000a'), "delivered\n",
	'several events are taken in one write');
my (undef, $status, $err) = command($node, 'fire', 'lines', 'deliver', 'x', '8');
is($status, 3, 'an event that leads nowhere is rejected');
like($err, qr/\[PW001\]/, 'with its code');
is((command($node, 'fire', 'lines', 'pay', 'x', '9'))[1], 3, 'a row that is not there');
is((command($node, 'fire', 'lines', 'pay', 'x'))[1], 3, 'a key that is too short');
is((command($node, 'fire', 'lines', 'pay', 'x', 'y'))[1], 3, 'a key of the wrong type');
is((command($node, 'fire', 'lines', 'pay', 'x', '8', '--metadata', '{'))[1], 2, 'metadata that is no JSON');
is((command($node, 'fire', 'lines', 'pay'))[1], 2, 'an event without a key');

my $events = json_of($node, 'available', 'lines', 'x', '8');
is(join(' ', map { $_->{event} } @$events), 'pay cancel', 'the events of a row');
is((command($node, 'available', 'parcels', '00000000-0000-0000-0000-00000000000a'))[1], 1,
	'of a row that has none any more');
is(scalar @{ json_of($node, 'history', '--table', 'lines', 'a "b", c', '7') }, 2, 'history of a key of two columns');
is(scalar @{ json_of($node, 'history', '--table', 'parcels', '00000000-0000-0000-0000-00000000000a') }, 4,
	'history of a key of one column');
is((command($node, 'history', '--table', 'lines', 'x', '9'))[1], 3, 'history of a row that is not there');

# Upgrades
put($folder, 'order.mmd', orders_diagram('') =~ s/paid/billed/gr);
is(json_of($node, 'define', 'order', $file)->{version}, 2, 'a second version');
is((command($node, 'upgrade', 'lines'))[1], 3, 'rows in a state that goes reject an upgrade');
is(json_of($node, 'upgrade', 'lines', '--remap', '{"paid": "billed"}')->{version}, 2, 'with a remap it is done');
is((command($node, 'upgrade', 'lines', '--remap', '['))[1], 2, 'a remap that is no JSON');

# Differences
my $rows = json_of($node, 'diff', 'order@1', 'order@2');
is(join(' ', map { "$_->{change}:" . $_->{state} } grep { $_->{kind} eq 'state' } @$rows), 'removed:paid added:billed',
	'the states that differ');
my $same = one($node, q{select coalesce(jsonb_agg(to_jsonb(d)), '[]') from pawl.diff('order', 1, 2) d});
is_deeply($rows, JSON::PP::decode_json($same), 'pawl.diff gives the same rows as the command');
is(one($node, q{select count(*) from pawl.diff('order')}), scalar @$rows, 'by default the newest and the one before');
is(one($node, q{select count(*) filter (where change <> 'added') from pawl.diff('order', to_version => 1)}), '0',
	'of the first version everything is added');
rejected($node, q{select pawl.diff('nonsense')}, 'PW008', 'an unknown machine has no differences');
rejected($node, q{select pawl.diff('order', 1, 9)}, 'PW008', 'nor has an unknown version');
rejected($node, q{select pawl.diff(null)}, '22004', 'nor has null');
my $old = put($folder, 'old.mmd', orders_diagram(''));
my ($text, $quiet) = command($node, '--database', 'host=/nowhere', 'diff', $old, $file);
is($quiet, 0, 'two files are compared without a database');
like($text, qr/^- state paid\n\+ state billed$/m, 'the states are listed as text') or diag($text);
is((command($node, 'diff', '--exit-code', $old, $file))[1], 2, 'differences end with 2 by --exit-code');
is((command($node, 'diff', '--exit-code', $file, $file))[1], 0, 'no difference ends with 0');
is((command($node, 'diff', '--exit-code', $file, 'nonsense'))[1], 1, 'an error ends with 1');
is((command($node, 'diff', 'order@1', $file))[1], 0, 'a version is compared with a file');
like(scalar command($node, 'diff', $file), qr/No difference/, 'a file is compared with its machine');
is((command($node, 'diff', 'order'))[1], 2, 'a machine alone is a usage error');
is((command($node, 'diff', 'order@x', $file))[1], 2, 'a version that is no number is one, too');
my $drawn = command($node, 'diff', '--diagram', $old, $file);
like($drawn, qr/^    class paid diff_removed$/m, 'the diagram has its colours');
is((command($node, 'check', put($folder, 'drawn.txt', $drawn)))[1], 0, 'and is a valid diagram itself');

# While one draws
my $watched = put($folder, 'watched.mmd', orders_diagram(''));
my $watch = begin_program($node, 'pawl', '--database', 'host=/nowhere', 'watch', $watched);
sub prints
{
	my ($expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	becomes(sub { $watch->{harness}->pump_nb; $watch->{out} =~ $expected ? 1 : 0 }, '1', $name) or diag($watch->{out});
	$watch->{out} = '';
	return;
}
prints(qr/good: 5 states, 6 transitions/, 'watch checks the file at once');
PostgreSQL::Test::Utils::append_to_file($watched, "    shipped -- nonsense\n");
prints(qr/10:\d+ error /, 'an error is printed with its line and column');
put($folder, 'next.mmd', orders_diagram("pawl:\n  machin: x\n"));
rename("$folder/next.mmd", $watched) or die "rename: $!";
prints(qr/watched\.mmd:3:3: unknown key "machin"/, 'a file that is replaced is read again');
unlink $watched;
prints(qr/watched\.mmd: .*[Nn]o such file/, 'a file that is gone is said to be');
put($folder, 'watched.mmd', orders_diagram(''));
prints(qr/good: /, 'and when it is back it is checked');
is(end_program($watch, 'TERM'), 0, 'SIGTERM ends watch well');
$watch = begin_program($node, 'pawl', '--json', 'watch', $watched);
prints(qr/"findings":\[\]/, 'watch prints JSON, a line each time');
is(end_program($watch, 'INT'), 0, 'SIGINT ends watch well');
my $terminal = Terminal->new($node, 'pawl', 'watch', $watched);
like($terminal->shows(qr/good: /), qr/\033\[2J\033\[H/, 'a terminal is cleared');
kill 'TERM', $terminal->{pid};
is($terminal->status, 0, 'and watch ends there, too');

is(json_of($node, 'release', 'lines')->{released}, 'lines', 'a table is released');
is((command($node, 'release', 'lines'))[1], 3, 'a table that has no binding is rejected');
no_crash($node);
done_testing();
