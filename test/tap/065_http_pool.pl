# The connections to the database: slow requests leave connections to others, and every waiting request is answered.
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my $node = api_cluster('pool', qw(pawl_dag));
my $reader = make_token($node, 'pawl_reader', 'rita', '{read}');
my $api = begin_api($node, '--api-connections', '4');
is(ask('GET', '/v1/tasks', token => $reader)->{status}, 200, 'a list is answered');

# Asks and does not wait for the answer.
sub begin_asking
{
	my ($path) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port(), Timeout => 30) or die $!;
	print $socket "GET $path HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $reader\r\nConnection: close\r\n\r\n";
	return $socket;
}

sub status_of { my ($socket) = @_; my $line = <$socket> // ''; return (split / /, $line)[1] }

sub hanging { return one($node, q{select count(*) from pg_stat_activity where usename = 'pawl_authenticator'
	and wait_event_type = 'Lock'}) }

my $locker = $node->background_psql('postgres', on_error_stop => 1);
$locker->query_safe('begin; lock table pawl_dag.tasks');
my @slow = map { begin_asking('/v1/tasks') } 1 .. 3;
wait_until(sub { hanging() == 3 }, 'three requests to hang');
is(ask('GET', '/v1/session', token => $reader)->{status}, 200, 'a quick request has the fourth connection');
push @slow, map { begin_asking('/v1/tasks') } 1 .. 20;
wait_until(sub { hanging() == 4 }, 'a fourth to hang');
is(ask('GET', '/readyz')->{status}, 200, 'the daemon is ready, though requests hang');
$locker->query_safe('commit');
is(join(' ', map { status_of($_) } @slow), join(' ', (200) x 23),
	'all are answered in the end, those that waited for a connection too');
is(ask('GET', '/v1/session', token => $reader)->{json}{daemon}{connections}{taken}, 0, 'and all connections are back');
$locker->quit;

is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
no_crash($node);
done_testing();
