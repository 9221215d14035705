# A storm of terminated backends: pawld (lanes, API, event stream) and a worker connect again each time
# and do not grow with the kills.
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use Time::HiRes qw(sleep);
use lib $FindBin::Bin;
use PawlApi;
use PawlPrograms;
use PawlTest;
use Test::More;

my @marks = (100, 300);
my $kb_per_kill = 16;      # what a lost connection may cost; a session that is kept costs more than 50
my $allowance_kb = 4_096;  # what threads and their heaps may still come to

# Terminates sessions of the programs, of each only when it is old enough to do something, until there were so many.
my $killer = <<'SQL';
create procedure public.terminate_programs(kills int) language plpgsql as $$
declare
    began constant timestamptz := clock_timestamp();
    done int := 0;
begin
    while done < kills and clock_timestamp() < began + interval '3 minutes' loop
        perform pg_stat_clear_snapshot();
        done := done + (select count(*) from (
            select pg_terminate_backend(pid) as ended from pg_stat_activity
             where backend_type = 'client backend' and pid <> pg_backend_pid()
               and backend_start < clock_timestamp() - interval '100 ms')
            t where t.ended);
        perform pg_sleep(0.05);
        commit;
    end loop;
    if done < kills then raise exception 'only % sessions came back to be terminated', done; end if;
end $$;
SQL

sub resident
{
	my ($run) = @_;
	open my $status, '<', "/proc/$run->{pid}/status" or return 0;
	my ($kb) = map { /^VmRSS:\s+(\d+)/ ? $1 : () } <$status>;
	return $kb // 0;
}

sub listen_to_events
{
	my ($token) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => api_port(), Timeout => 10)
		or die "no listener: $!";
	print $socket "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\n\r\n";
	return $socket;
}

sub storm
{
	my $node = api_cluster('kills', 'pawl_dag');
	$node->safe_psql('postgres', $killer);
	$node->safe_psql('postgres', q{
		select pawl.define('ticket', E'stateDiagram-v2\n [*] --> open\n open --> done : finish\n done --> [*]\n');
		create table tickets (id bigint generated always as identity primary key, state text not null default 'open');
		select pawl.enforce('tickets', 'state', 'ticket'), pawl.enable_log('tickets', 'state'),
			pawl.enable_events('tickets', 'state');
		grant select on tickets to pawl_reader;
		create function public.called(context jsonb, inputs jsonb) returns jsonb language sql as 'select context'});
	# What a session claimed that was terminated before it could tell its program waits for the end of its lease.
	my $retry = '"timeout_seconds": 3, "retry": {"max_attempts": 1000, "backoff_base_ms": 20, "max_backoff_ms": 100}';
	define_template($node, qq({"name": "work", "steps": [
		{"name": "a", "handler": "sleep", "handler_options": {"seconds": 20}, $retry},
		{"name": "b", "handler": "sql:public.called", "dependencies": ["a"], $retry}]}));
	my $token = make_token($node, 'pawl_reader', 'rita', '{read}');
	my $api = begin_api($node, '--sql-workers', '16', '--longest-poll-ms', '50');
	my %program = (pawld => $api->{run}, worker => begin_program($node, 'example_worker', 'default', 4, 0.001, 600));
	my @listeners;
	my $tasks = 0;

	my $round = sub {
		my ($kills) = @_;
		close $_ for splice @listeners;
		push @listeners, listen_to_events($token) for 1 .. 3;
		$node->safe_psql('postgres', "insert into tickets default values");
		my $first = 20 * $tasks++;
		$node->safe_psql('postgres', "select pawl_dag.start_tasks('work',
			array(select jsonb_build_object('n', $first + g) from generate_series(1, 20) g))");
		ask('GET', '/v1/overview', token => $token) for 1 .. 3;
		$node->safe_psql('postgres', "call public.terminate_programs($kills)") if $kills;
		ask('GET', '/v1/overview', token => $token) for 1 .. 3;
		$_->{harness}->pump_nb for values %program;
	};
	# The lowest of a few looks, when the programs are at rest.
	my $measured = sub {
		ok(all_ended($node, 'work'), 'the tasks end');
		my %kb;
		for (1 .. 5)
		{
			sleep(0.1);
			for my $what (keys %program)
			{
				my $kb = resident($program{$what});
				$kb{$what} = $kb if $kb && $kb < ($kb{$what} // 1e12);
			}
		}
		return \%kb;
	};
	$round->(0);
	my %at = (0 => $measured->());
	for (my $kills = 0; $kills < $marks[-1]; )
	{
		$round->(100);
		$kills += 100;
		$at{$kills} = $measured->() if grep { $_ == $kills } @marks;
	}
	for my $what (sort keys %program)
	{
		my @kb = map { "$_: $at{$_}{$what} kB" } 0, @marks;
		note("$what, resident after kills: @kb");
		my $bound = $allowance_kb + $kb_per_kill * ($marks[-1] - $marks[-2]);
		cmp_ok($at{ $marks[-1] }{$what} - $at{ $marks[-2] }{$what}, '<', $bound,
			"$what does not grow with the kills (@kb)");
	}
	becomes(sub { ask('GET', '/readyz')->{status} }, 200, 'pawld is connected again') or diag($api->{run}{err});
	is(end_program($program{worker}, 'TERM'), 0, 'the worker ends well');
	is(end_program($api->{run}, 'TERM'), 0, 'pawld ends well');
	no_crash($node);
	return;
}

storm();
done_testing();
