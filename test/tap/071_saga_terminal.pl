# `pawl saga follow` on a terminal: moves scroll by above a bar that is written over, and its last word stays.
use strict;
use warnings;
use utf8;
use Encode qw(decode_utf8);
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Terminal;
use Test::More;

my $node = new_cluster('main', with => [ 'pawl_saga' ]);
$node->safe_psql('postgres', <<'SQL');
create function step(how jsonb) returns void language plpgsql as $$
begin
    perform from pawl_saga.claim('w', 'default', 1) c,
        pawl_saga.report(
                    jsonb_build_array(jsonb_build_object('flow_uuid', c.flow_uuid, 'node', c.node, 'token', c.token)
                || how), 'w');
end $$;
select pawl_saga.define('{"flow": "linear", "name": "trip", "children": [{"task": "flight"}, {"task": "hotel"}]}');
SQL
my $flow = one($node, q(select pawl_saga.start('trip')));

my $terminal = Terminal->new($node, 'pawl', 'saga', 'follow', $flow);
$terminal->shows(qr{ 0/2  RUNNING});
$node->safe_psql('postgres', q(select step('{"result": 1}')));
$terminal->shows(qr{ 1/2  RUNNING});
$node->safe_psql('postgres', q(select step('{"failure": {"message": "full"}}')));
$terminal->shows(qr{hotel.*FAILURE.* \d/2  RUNNING}s);
$node->safe_psql('postgres', q(select step('{}') from generate_series(1, 2)));
my $seen = decode_utf8($terminal->shows(qr{ \d/2  REVERTED\r\n}));
is($terminal->status, 1, 'follow ends with 1 for a flow that was reverted');
# What a terminal shows in the end: a carriage return begins the line anew, the sequence after it wipes it.
my $screen = join "\n", map { s/.*\r//sr } split /\n/, $seen =~ s/\r\n/\n/gr =~ s/\r\033\[K/\r/gr;
$screen =~ s/\033\[[0-9;]*m//g;
like($screen, qr{\A(?:\d\d:\d\d:\d\d\.\d{3}  . [a-z]+  [A-Z_]+ → [A-Z_]+\n)+\[[#.]{40}\] \d/2  REVERTED\z},
		'moves, and one bar below them') or diag($seen);
is(join(', ', map { s/^\S+  . (\S+)  \S+ → (\S+)$/$1 $2/r } grep { /→/ } split /\n/, $screen),
	'trip RUNNING, flight RUNNING, flight SUCCESS, hotel RUNNING, hotel FAILURE, hotel REVERTING, hotel REVERTED, '
	. 'flight REVERTING, flight REVERTED, trip REVERTED',
	'each state change once, in order') or diag($seen);
like($seen, qr/\033\[\d+m✗ hotel/, 'in colours');
cmp_ok(scalar(() = $seen =~ /\r\033\[K/g), '>=', 4, 'the bar was written over');
done_testing();
