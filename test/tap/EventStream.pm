# Listeners of the event stream of the HTTP API, which a test pulls at when it looks.
package EventStream;

use strict;
use warnings;
use Exporter 'import';
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use PawlApi;
use PawlTest;

our @EXPORT = qw(listen_to pull);

# A listener: {text} grows as bytes come; {events} and {id} are what was understood. token, after (a position), query,
# rejected: it need not begin.
sub listen_to
{
	my (%how) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port(), Timeout => 10) or die $!;
	my $last = $how{after} ? "Last-Event-ID: $how{after}\r\n" : '';
	print $socket 'GET /v1/events' . ($how{query} // '') . " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
		. "$how{token}\r\n$last\r\n";
	my $stream = { socket => $socket, raw => '', select => IO::Select->new($socket) };
	wait_until(sub { pull($stream); $stream->{raw} =~ /\r\n\r\n/ }, 'the stream to begin');
	die "the stream is rejected: $stream->{raw}" unless $how{rejected} || $stream->{raw} =~ m{^HTTP/1.1 200};
	return $stream;
}

sub pull
{
	my ($stream) = @_;
	while ($stream->{select}->can_read(0))
	{
		last unless sysread($stream->{socket}, my $bytes, 1 << 16);
		$stream->{raw} .= $bytes;
	}
	my $body = $stream->{raw} =~ s/^.*?\r\n\r\n//sr;
	my $text = '';
	while ($body =~ s/^([0-9a-f]+)\r\n//)
	{
		my $length = hex $1;
		last if length($body) < $length + 2;
		$text .= substr($body, 0, $length);
		$body = substr($body, $length + 2);
	}
	$stream->{text} = $text;
	$stream->{events} = [ map { decode_json($_) } $text =~ /^event: transition\ndata: (.*)$/mg ];
	($stream->{id}) = $text =~ /.*^id: (\S+)\n\n/ms;
	return $stream;
}

1;
