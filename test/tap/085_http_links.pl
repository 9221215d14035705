# Links to files, for browsers: good once, for what they were made for, for as long as the token behind them is.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('main', 'pawl_bulk');
$node->safe_psql('postgres', q{select pawl_bulk.define('{"name": "import", "track_row_data": true,
	"steps": [{"name": "ask", "kind": "signal", "handler": "none", "timeout": "1 h", "signal_key": "go-{row}"}]}')});
my @bulk = map { $node->safe_psql('postgres',
	"select operation from pawl_bulk.submit('import', rows => '[{\"id\": \"$_\"}, {\"id\": \"$_$_\"}]')") } 'a', 'b';
my $token = make_token($node, 'pawl_reader', 'rita', '{read}');
my $api = begin_api($node, '--api-failed-logins', '1000000');
$node->poll_query_until('postgres', q{select count(*) = 4 from pawl_bulk.work where kind = 'signal'})
	or die 'no row waits';

my @tickets;
sub made
{
	my ($bulk, $query, %how) = @_;
	my $got = ask('GET', "/api/bulks/$bulk/export/link$query", token => $token, %how);
	push @tickets, $1 if $got->{content} =~ /ticket=(\w+)/;
	return $got;
}

is(made($bulk[0], '', token => undef)->{status}, 401, 'a request without a token gets no link');
is(made($bulk[0], '', token => 'pawl_' . 'x' x 43)->{status}, 401, 'nor with a wrong one');
is(made('00000000-0000-0000-0000-000000000000', '')->{status}, 404, 'nor for what is not there');

my $link = made($bulk[0], '?mode=report&format=csv&state=WaitingForCompletion')->{json};
like($link->{href}, qr{^/api/bulks/$bulk[0]/export\?ticket=[0-9a-f]{64}$},
	'the link to an export has a ticket of 64 hexadecimal digits');
is(ask('HEAD', $link->{href})->{status}, 401, 'a HEAD does not follow it');
my $file = ask('GET', "$link->{href}&format=json");
is($file->{status}, 200, 'it needs no token');
is($file->{content}, ask('GET', "/api/bulks/$bulk[0]/export?mode=report&format=csv&state=WaitingForCompletion",
	token => $token)->{content}, 'and gives the file that it was made for, whatever else is asked');
like($file->{content}, qr/\ARowNumber,/, 'which is one');
is($file->{headers}{'content-disposition'}, qq{attachment; filename="$bulk[0]-report-waitingforcompletion.csv"},
	'as a file, with a name');
is(ask('GET', $link->{href})->{status}, 401, 'it is good once');

my ($first) = made($bulk[0], '')->{json}{href} =~ /ticket=(.*)/;
is(ask('GET', "/api/bulks/$bulk[1]/export?ticket=$first")->{status}, 401, 'it is not good for another operation');
is(ask('GET', "/api/bulks/$bulk[0]/export?ticket=$first")->{status}, 401, 'and the attempt has used it up');
is(ask('GET', "/api/bulks/$bulk[0]/export?ticket=" . 'a' x 64)->{status}, 401, 'a guessed ticket is rejected');
is(ask('GET', "/v1/tasks?ticket=$first")->{status}, 400, 'other routes know no links');
is(ask('GET', "/api/bulks/$bulk[0]/export?ticket=x", token => $token)->{status}, 200, 'a token counts before a link');

my %seen;
$seen{ made($bulk[1], '')->{json}{href} }++ for 1 .. 20;
is(scalar(keys %seen), 20, 'each link is another one');
my ($late) = keys %seen;
$node->safe_psql('postgres', q{select pawl_api.revoke_token(token) from pawl_api.tokens});
is(ask('GET', $late)->{status}, 401, 'when the token is revoked, its links are too');

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
is(join(' ', grep { index($api->{run}{err}, $_) >= 0 } @tickets), '', 'no link is in the log');

$token = make_token($node, 'pawl_reader', 'rudi', '{read}');
$api = begin_api($node, '--api-links', '3');
is(join(' ', map { made($bulk[1], '')->{status} } 1 .. 4), '200 200 200 503', 'the number of links is limited');
is(made($bulk[1], '')->{json}{detail}, 'too many links are open', 'and the answer says so');
is(ask('GET', "/api/bulks/$bulk[1]/export?ticket=$tickets[-1]")->{status}, 200, 'one is followed');
is(made($bulk[1], '')->{status}, 200, 'and there is room for another');
is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends again');
no_crash($node);
done_testing();
