# What the tests of the programs share: starting them, asking them over HTTP, ending them.
package PawlPrograms;

use strict;
use warnings;
use Exporter 'import';
use IO::Socket::INET;
use IPC::Run;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(program begin_program begin_through end_program kill_program http_get define_template
    start_tasks all_ended);

# One of ours by its name, any other by its path.
sub program
{
	my ($name) = @_;
	my $path = $name =~ m{^/} ? $name : "$ENV{PAWL_PROGRAMS}/$name";
	die "no program $path: run make programs" unless -x $path;
	return $path;
}

# A test that dies leaves no program behind.
my %running;
END { local $?; kill 'KILL', keys %running if %running }

# Where programs find the server instead, when not at its own socket: [folder, port].
our $through;

# The role that programs log in as instead of the superuser.
our $as;

# Starts a program against a node; {err} grows with what it says.
sub begin_program
{
	my ($node, $name, @arguments) = @_;
	my %run = (out => '', err => '', name => $name);
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres', PGUSER => 'postgres',
		PGOPTIONS => '');
	$ENV{PGUSER} = $as // getpwuid($>);
	@ENV{qw(PGHOST PGPORT)} = @$through if $through;
	$run{harness} = IPC::Run::start([ program($name), @arguments ], '<', \'', '>', \$run{out}, '2>', \$run{err},
		$run{limit} = IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
	$run{pid} = $run{harness}{KIDS}[0]{PID};
	$running{ $run{pid} } = 1;
	return \%run;
}

# The same, with a proxy between the program and the server.
sub begin_through
{
	my ($proxy, @program) = @_;
	local $through = $proxy->through;
	return begin_program(@program);
}

# SIGTERM, or waits for a program that ends by itself; its exit status as a shell would say it: 143 if the signal itself
# has ended it. Dies with what the program has said if it does not end.
sub end_program
{
	my ($run, $signal) = @_;
	$run->{harness}->signal($signal) if $signal;
	$run->{limit}->start(2 * $PostgreSQL::Test::Utils::timeout_default);
	eval { $run->{harness}->finish; 1 }
		or die "$run->{name} does not end: $@It has said:\n$run->{out}$run->{err}";
	delete $running{ $run->{pid} };
	my $status = $run->{harness}->full_result(0);
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

sub kill_program
{
	my ($run) = @_;
	$run->{harness}->signal('KILL');
	eval { $run->{harness}->finish };
	delete $running{ $run->{pid} };
	return;
}

# Status and body.
sub http_get
{
	my ($port, $path) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10) or return (0, "$!");
	print $socket "GET $path HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	my $answer = do { local $/; <$socket> } // '';
	my ($status) = $answer =~ m{^HTTP/\S+ (\d+)};
	return ($status // 0, $answer =~ s/^.*?\r\n\r\n//sr);
}

sub define_template
{
	my ($node, $json) = @_;
	return $node->safe_psql('postgres', "select pawl_dag.define_template('$json')");
}

sub start_tasks
{
	my ($node, $name, $count) = @_;
	$node->safe_psql('postgres', "select pawl_dag.start_tasks('$name', array(select jsonb_build_object('n', g) from "
		. "generate_series(1, $count) g))");
	return;
}

# Waits until no task of the template is open.
sub all_ended
{
	my ($node, $name) = @_;
	return $node->poll_query_until('postgres',
		"select not exists (select from pawl_dag.tasks where name = '$name' and state not in ('complete', 'error', "
		. "'cancelled', 'resolved_manually'))");
}

1;
