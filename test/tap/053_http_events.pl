# The event stream: what a role may see, in order, resumed by position, also at a daemon that remembers nothing.
use strict;
use warnings;
use FindBin;
use JSON::PP;
use lib $FindBin::Bin;
use EventStream;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = api_cluster('events');
$node->safe_psql('postgres', q{
	select pawl.define('ticket',
		E'stateDiagram-v2\n [*] --> open\n open --> done : finish\n done --> open : reopen\n done --> [*]\n');
	create table tickets (id bigint primary key, state text not null default 'open');
	create table secrets (id bigint primary key, state text not null default 'open');
	select pawl.enforce('tickets', 'state', 'ticket'), pawl.enable_log('tickets', 'state'),
		pawl.enable_events('tickets', 'state');
	select pawl.enforce('secrets', 'state', 'ticket'), pawl.enable_log('secrets', 'state'),
		pawl.enable_events('secrets', 'state');
	grant select on tickets to pawl_reader;
});
my $reader = make_token($node, 'pawl_reader', 'rita', '{read}');
my $api = begin_api($node, '--sql-workers', '0');

sub open_stream { return listen_to(token => $reader, @_) }
sub told { return join ' ', map { "$_->{key}[0]:$_->{to_state}" } @{ $_[0]{events} } }

my $first = open_stream();
$node->safe_psql('postgres', "insert into tickets values (1), (2); insert into secrets values (7); update tickets set "
	. "state = 'done' where id = 1");
wait_until(sub { pull($first); @{ $first->{events} } == 3 }, 'events');
is(told($first), '1:open 2:open 1:done', 'transitions of what the role may see, in order, and of nothing else');
is($first->{events}[2]{relation}, 'public.tickets', 'with the table');
wait_until(sub { pull($first); $first->{id} }, 'a position');
my $position = $first->{id};
close $first->{socket};

$node->safe_psql('postgres', "update tickets set state = 'done' where id = 2");
my $second = open_stream(after => $position);
wait_until(sub { pull($second); @{ $second->{events} } }, 'what came meanwhile');
is(told($second), '2:done', 'the stream goes on behind its position');

wait_until(sub { pull($second); $second->{id} }, 'a position');
subtest 'at another daemon' => sub {
	is(end_program($api->{run}, 'TERM'), 0, 'the first one ends, with a listener');
	$node->safe_psql('postgres', "update tickets set state = 'open' where id = 1");
	$api = begin_api($node, '--sql-workers', '0');
	$node->safe_psql('postgres', "insert into tickets values (3)");
	my $third = open_stream(after => $second->{id});
	wait_until(sub { pull($third); @{ $third->{events} } >= 2 }, 'what came since');
	$node->safe_psql('postgres', "insert into tickets values (4)");
	wait_until(sub { pull($third); @{ $third->{events} } >= 3 }, 'what comes');
	is(told($third), '1:open 3:open 4:open', 'nothing is missing and nothing comes twice');
	unlike($third->{text}, qr/event: gap/, 'without a gap');
};

subtest 'a crowd of writers and a listener that comes and goes' => sub {
	my $begin = open_stream();
	$node->safe_psql('postgres', 'insert into tickets values (100)');
	wait_until(sub { pull($begin); $begin->{id} }, 'a position');
	my ($at, %seen, $doubled) = ($begin->{id});
	my $script = "$ENV{TESTDATADIR}/tickets.pgbench";
	append_to_file($script, "\\set k random(1, 1000000000)\ninsert into tickets values (1000 + :k + :client_id * "
		. "1000000000::bigint) on conflict do nothing;\n");
	my $bench = IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-t', '500', '-f', $script, '-h', $node->host, '-p',
		$node->port, 'postgres' ], '>', \my $out, '2>', \my $err);
	my $wanted;
	for (1 .. 300)
	{
		my $stream = open_stream(after => $at);
		for (1 .. 3) { select undef, undef, undef, 0.1; pull($stream); }
		my @whole = $stream->{id} ? $stream->{text} =~ /^(.*^id: \Q$stream->{id}\E\n\n)/ms : ();
		$doubled += grep { $seen{$_}++ } map { decode_json($_)->{key}[0] }
			($whole[0] // '') =~ /^event: transition\ndata: (.*)$/mg;
		$at = $stream->{id} // $at;
		close $stream->{socket};
		$wanted //= do { $bench->finish; one($node, 'select count(*) from tickets where id >= 1000') }
			unless $bench->pumpable && $_ < 5;
		last if defined $wanted && keys(%seen) >= $wanted;
	}
	is(scalar(keys %seen), $wanted, "$wanted transitions of four writers all came");
	is($doubled // 0, 0, 'no event was sent twice to a client');
};

is((split / /, (split /\r\n/, open_stream(rejected => 1, query => '?relations=secrets')->{raw})[0])[1], 404,
	'a table that the role may not read has no events for it');
is((split / /, (split /\r\n/, open_stream(rejected => 1, after => 'nonsense')->{raw})[0])[1], 400,
	'an invalid position is rejected');

subtest 'a position of another history' => sub {
	my $stream = open_stream();
	$node->safe_psql('postgres', 'insert into tickets values (5)');
	wait_until(sub { pull($stream); $stream->{id} }, 'a position');
	my ($at, $xmax) = $stream->{id} =~ /^(\d+)-\d+:(\d+):/;
	# as a server gives it that has committed more before it was replaced by a backup, which then goes on
	my $ahead = $xmax + 300;
	my $other = open_stream(after => "$at-$ahead:$ahead:");
	wait_until(sub { pull($other); $other->{text} =~ /^event: gap/m && $other->{id} }, 'a gap and a position');
	is(told($other), '', 'is told as a gap, and the stream begins now');
	like($other->{id}, qr/^\d+-\d+:\d{1,@{[ length $xmax ]}}:/, 'at a position of this history');
	my ($here) = $other->{id} =~ /:(\d+):/;
	cmp_ok($here, '<', $ahead, 'and not at the one that was given');
	$node->safe_psql('postgres', "insert into tickets values ($_)") for 6 .. 8;
	wait_until(sub { pull($other); @{ $other->{events} } >= 3 }, 'what comes');
	is(told($other), '6:open 7:open 8:open', 'nothing that comes is taken for seen');
};

subtest 'a role that pawld may not become any more' => sub {
	my $stream = open_stream();
	$node->safe_psql('postgres', 'revoke pawl_reader from pawl_authenticator');
	is(ask('GET', '/v1/session', token => $reader)->{status}, 403, 'has no requests');
	is((split / /, (split /\r\n/, open_stream(rejected => 1)->{raw})[0])[1], 403, 'and no events');
	wait_until(sub { pull($stream); $stream->{raw} =~ /\r\n0\r\n\r\n$/ }, 'the end of the open stream');
	$node->safe_psql('postgres', 'insert into tickets values (9)');
	pull($stream);
	is(told($stream), '', 'and its open stream has ended');
	$node->safe_psql('postgres', 'grant pawl_reader to pawl_authenticator');
};
my $closing = open_stream();
is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends, though a client listens');
no_crash($node);
done_testing();
