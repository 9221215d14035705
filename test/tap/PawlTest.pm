# What the TAP tests share: clusters of their own, rejections asserted by SQLSTATE, the
# two questions asked after every accident.
package PawlTest;

use strict;
use warnings;
use Exporter 'import';
use Fcntl qw(LOCK_EX);
use FindBin;
use KeptSession;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(new_cluster copy_of_installation one tried asked is_ready sqlstate_of rejected accepted sound
    no_crash fixture endless wait_until becomes kill_server server_life killed_standing);

# Every query of a background session told to the reader is too much to read. Its answer has no newline at its end,
# which early releases of PostgreSQL 16 left there.
{
	no warnings qw(redefine once);
	*PostgreSQL::Test::BackgroundPsql::note = sub { };
	my $query = \&PostgreSQL::Test::BackgroundPsql::query;
	*PostgreSQL::Test::BackgroundPsql::query = sub {
		my ($output, @rest) = wantarray ? $query->(@_) : scalar $query->(@_);
		chomp $output if defined $output;
		return wantarray ? ($output, @rest) : $output;
	};
}

# A data directory is made once and copied, as PostgreSQL does by itself since 17.
if ($ENV{INITDB_TEMPLATE})
{
	no warnings 'redefine';
	my $run = \&PostgreSQL::Test::Utils::system_or_bail;
	*PostgreSQL::Test::Utils::system_or_bail = sub {
		my (@command) = @_;
		my $template = $ENV{INITDB_TEMPLATE};
		return $run->($template && "@command" =~ /^initdb -D (\S+) -A trust -N$/ ? ('cp', '-RPp', $template, $1)
			: @command);
	};
}

# What a test dies of belongs before the reader, not only into a log that goes away.
$SIG{__DIE__} = sub { diag(substr($_[0], 0, 2000)) unless $^S // 1 };

# The clusters of this test, to be looked at when it waits in vain.
my @clusters;

# A running cluster with pawl in the database postgres, and with the packs that `with` names. `bare`: without any.
# Clusters are copies of one, with its system identifier, except those that are `foreign`.
sub new_cluster
{
	my ($name, %options) = @_;
	my @extensions = $options{bare} ? () : ('pawl', @{ $options{with} // [] });
	delete local $ENV{INITDB_TEMPLATE} if $options{foreign};
	my $node = PostgreSQL::Test::Cluster->new($name,
		$options{install_path} ? (install_path => $options{install_path}) : ());
	push @clusters, $node;
	my $copied = @extensions && $ENV{INITDB_TEMPLATE} && !$options{install_path};
	local $ENV{INITDB_TEMPLATE} = data_directory_with(@extensions) if $copied;
	$node->init(allows_streaming => $options{streaming} // 0);
	$node->append_conf('postgresql.conf', <<'CONF');
max_prepared_transactions = 10
max_connections = 40
shared_buffers = 32MB
log_statement = none
log_min_messages = warning
restart_after_crash = on
jit = off
CONF
	$node->append_conf('postgresql.conf', $options{conf}) if $options{conf};
	$node->start;
	$node->safe_psql('postgres', "create extension $_") for $copied ? () : @extensions;
	return $node;
}

# A data directory whose database postgres has these extensions: made by the first test that wants it, for all.
sub data_directory_with
{
	my (@extensions) = @_;
	my $made = join('+', $ENV{INITDB_TEMPLATE}, @extensions);
	open(my $lock, '>', "$made.lock") or die "$made.lock: $!";
	flock($lock, LOCK_EX) or die "$made.lock: $!";
	if (!-e $made)
	{
		my $folder = PostgreSQL::Test::Utils::tempdir_short();
		my $sql = join '; ', map { "create extension $_" } @extensions;
		for my $command ([ 'cp', '-RPp', $ENV{INITDB_TEMPLATE}, "$made.new" ],
			[ 'pg_ctl', '-w', '-s', '-D', "$made.new", '-l', "$made.log", '-o',
				"-k $folder -p 6000 -c listen_addresses= -c fsync=off -c full_page_writes=off", 'start' ],
			[ 'psql', '-Xq', '-h', $folder, '-p', 6000, '-v', 'ON_ERROR_STOP=1', '-d', 'postgres', '-c', $sql ],
			[ 'pg_ctl', '-w', '-s', '-D', "$made.new", '-m', 'fast', 'stop' ])
		{
			system(@$command) == 0 or die "no data directory with @extensions: @$command";
		}
		rename("$made.new", $made) or die "$made: $!";
	}
	return $made;
}

# A copy of the installation that the tests run, for a test that changes what is
# installed: (install path, extension folder, library).
sub copy_of_installation
{
	my ($to) = @_;
	chomp(my $bindir = `which postgres`);
	$bindir =~ s{/postgres$}{};
	my ($root, $path) = $bindir =~ m{^(.*)(/usr/.*)/bin$} or die "no private installation: $bindir";
	system('cp', '-a', $root, $to) == 0 or die "cp $root: $?";
	chomp(my $sharedir = `$to$path/bin/pg_config --sharedir`);
	chomp(my $libdir = `$to$path/bin/pg_config --pkglibdir`);
	return ("$to$path", "$sharedir/extension", "$libdir/pawl.so");
}

# The databases whose sessions stay: a test that drops none can add its own.
our %stays = (postgres => 1);

# What a query prints. A SELECT is asked in a session that stays, so it must leave no trace in its session.
sub one
{
	my ($node, $query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query) unless kept($query, $database);
	my ($answered, $out, $err);
	# a session that was there before may have lost its server
	for (1 .. 2)
	{
		my $session = KeptSession->of($node->connstr($database // 'postgres'));
		my $begun = $session->{asked} == 0;
		($answered, $out, $err) = $session->ask($query);
		return $out if $answered;
		last if $begun || $err !~ /connection to server was lost|terminating connection/;
	}
	die "error running SQL: '$err'\nwith '$query'";
}

# Whether a query can be asked in a session that stays: one SELECT, and of what is the same in every session.
sub kept
{
	my ($query, $database) = @_;
	return $stays{ $database // 'postgres' }
		&& $query =~ /^\s*select\b[^;]*;?\s*\z/i
		&& $query !~ /advisory|set_config|backend_pid|pg_stat_activity|current_setting|listen|dblink|terminate/;
}

# What became of a script: '' or the SQLSTATE of its first error, and everything psql had to say.
sub sqlstate_of
{
	my ($node, $sql, $database) = @_;
	my ($out, $err) = ('', '');
	$node->psql($database // 'postgres', "\\set VERBOSITY verbose\n$sql",
		stdout => \$out, stderr => \$err, on_error_stop => 1, on_error_die => 0);
	my ($state) = $err =~ /(?:ERROR|FATAL):  ([0-9A-Z]{5}):/;
	$state //= $err =~ /(?:ERROR|FATAL|server closed|could not)/ ? 'XXXXX' : '';
	return wantarray ? ($state, $err, $out) : $state;
}

sub rejected
{
	my ($node, $sql, $code, $name, $database) = @_;
	my ($state, $err) = sqlstate_of($node, $sql, $database);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($state, $code, $name) or diag($err);
	return $err;
}

sub accepted
{
	my ($node, $sql, $name, $database) = @_;
	my ($state, $err) = sqlstate_of($node, $sql, $database);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($state, '', $name) or diag($err);
	return;
}

# The rows and logs are right, and what keeps them so is in place.
sub sound
{
	my ($node, $name, $database) = @_;
	$database //= 'postgres';
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($database, 'select * from pawl.verify()'), '', "$name: pawl.verify() finds nothing");
	is($node->safe_psql($database, "select * from pawl.health() where status in ('error', 'warning')"),
		'', "$name: pawl.health() has no complaint");
	return;
}

# Nothing in the cluster's logs says that a process died of us.
sub no_crash
{
	my ($node, $name) = @_;
	my @died = grep { /terminated by signal|PANIC:|TRAP:/ } split /\n/, slurp_file($node->logfile);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join("\n", @died), '', $name // 'no process of the server died by a signal');
	return;
}

sub fixture
{
	my ($name) = @_;
	return slurp_file("$FindBin::Bin/$name");
}

# Waits for a condition in the test program itself; looks often at first, then ten times a second.
sub wait_until
{
	my ($condition, $what) = @_;
	my $end = time + 2 * $PostgreSQL::Test::Utils::timeout_default;
	for (my $pause = 0.01; time < $end; $pause = min(0.1, 1.5 * $pause))
	{
		return 1 if $condition->();
		sleep($pause);
	}
	tell_of($_) for @clusters;
	die "gave up waiting for $what";
}

# What a cluster does and what it said last: for the reader of a test that waited in vain.
sub tell_of
{
	my ($node) = @_;
	my @log = split /\n/, slurp_file($node->logfile);
	splice @log, 0, @log - 20 if @log > 20;
	my $name = $node->name;
	diag(join("\n", map { substr($_, 0, 300) } "the log of $name:", @log));
	my ($out, $err) = ('', '');
	eval { $node->psql('postgres', <<'SQL', stdout => \$out, stderr => \$err, on_error_die => 0, timeout => 10) };
select pid, backend_type, application_name, state, wait_event_type, wait_event, now() - xact_start as age,
    pg_blocking_pids(pid) as blocked_by, left(regexp_replace(query, '\s+', ' ', 'g'), 100)
  from pg_stat_activity where state is not null order by pid
SQL
	diag("the sessions of $name:\n$out$err");
	($out, $err) = ('', '');
	eval { $node->psql('postgres', <<'SQL', stdout => \$out, stderr => \$err, on_error_die => 0, timeout => 10) };
select format('select %L, to_jsonb(x) from %s x where %s limit 10', relation, relation, open)
  from (values ('pawl_bulk.operations', 'completed_at is null'), ('pawl_bulk.troubles', 'true'),
    ('pawl_bulk.validation_attempts', 'true'), ('pawl_bulk.unvalidated', 'true'), ('pawl_bulk.sql_runs', 'true'),
    ('pawl_bulk.work', 'true'), ('pawl_dag.tasks', 'completed_at is null'),
    ('pawl_dag.steps', $$state not in ('complete', 'resolved_manually', 'cancelled')$$),
    ('pawl_saga.jobs', $$state <> 'COMPLETE'$$), ('pawl_saga.flows', $$state not in ('SUCCESS', 'REVERTED')$$)
  ) v (relation, open) where to_regclass(relation) is not null \gexec
SQL
	diag("what has not ended in $name:\n$out$err");
	return;
}

# A test that waits: what the code returns becomes the expected value.
sub becomes
{
	my ($code, $expected, $name) = @_;
	my $seen;
	eval { wait_until(sub { $seen = $code->() // 'undef'; $seen eq $expected }, $name) };
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($seen, $expected, $name);
}

# Makes public.endless(), a function that ends as by statement_timeout where there is one, but at once: a slow machine
# then cancels nothing beside it.
sub endless
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{create function public.endless() returns void language plpgsql as $$
		begin
			if current_setting('statement_timeout') <> '0' then perform pg_cancel_backend(pg_backend_pid()); end if;
			perform pg_sleep(600);
		end $$});
	return;
}

# Whether the server did it, and what psql said of it. A psql that finds no server ends before it has read the query,
# and the write to it fails: no reason to die.
sub tried
{
	my ($node, $query, $database) = @_;
	return KeptSession->of($node->connstr($database // 'postgres'))->ask($query) if kept($query, $database);
	my ($out, $err) = ('', '');
	my $status = eval { $node->psql($database
			// 'postgres', $query, stdout => \$out, stderr => \$err, on_error_die => 0) } // 1;
	return ($status == 0, $out, $err);
}

# Whether the server takes connections. A psql that is rejected may end before it has read its query, which IPC::Run
# takes for an error of the test.
sub is_ready { my ($node) = @_; return system('pg_isready', '-q', '-d', $node->connstr('postgres')) == 0 }

# Asks until the server answers.
sub asked
{
	my ($node, $query, $database) = @_;
	my ($answered, $out, $err);
	eval {
		wait_until(sub { ($answered, $out, $err) = tried($node, $query, $database); $answered }, "an answer to $query")
	} or die "$@$err";
	return $out;
}

# As the one of the cluster, but for "true" one session asks, twenty times a second, instead of a psql each time. A
# server that is down, a query that fails and another answer are asked for as often as wait_until looks.
{
	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::poll_query_until = sub {
		my ($node, $database, $query, $expected) = @_;
		my ($answered, $out, $err);
		if (!defined $expected)
		{
			my $bare = $query =~ s/[\s;]+$//r;
			my $limit = "$PostgreSQL::Test::Utils::timeout_default seconds";
			return 1 if (tried($node, <<"SQL", $database))[0];
do \$poll\$ declare
	answer boolean;
	until constant timestamptz := clock_timestamp() + interval '$limit';
begin
	loop
		execute \$query\$$bare\$query\$ into answer;
		commit;
		exit when answer;
		assert clock_timestamp() < until, 'gave up';
		perform pg_sleep(0.05);
	end loop;
end \$poll\$;
SQL
		}
		return 1 if eval { wait_until(sub {
			($answered, $out, $err) = tried($node, $query, $database);
			$answered && $out eq ($expected // 't')
		}, $query) };
		diag("$@\nthe last answer: $out\n$err");
		return 0;
	};
}

# Kills the postmaster and the named processes; the server's other processes notice it and
# end. $node->start brings it back.
sub kill_server
{
	my ($node, @others) = @_;
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	$node->kill9;
	kill('KILL', @others);
	wait_until(sub { !kill(0, $postmaster)
			&& !grep { (readlink($_) // '') eq $node->data_dir } glob('/proc/[0-9]*/cwd') },
		'the last of the old processes to go');
	return;
}

# Changes when the server begins again after a crash, which is later than the end of the process that crashed.
sub server_life
{
	my ($node) = @_;
	my $pid = '';
	wait_until(sub { ($pid = asked($node, q{select pid from pg_stat_activity where backend_type = 'checkpointer'}))
			ne '' }, 'a checkpointer');
	return $pid;
}

# A session runs a statement in a transaction and is killed where a trigger of the test stands still (setting test.stop,
# advisory lock 1): what the query shows is as it was before.
sub killed_standing
{
	my ($node, $picture, $what, $statement, $place) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 2;
	my $before = one($node, $picture);
	my $gate = $node->background_psql('postgres', on_error_stop => 0);
	$gate->query('select pg_advisory_lock(1)');
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query('select pg_backend_pid()');
	$session->query_until(qr/started/, "\\echo started\nset test.stop = '$place'; begin; $statement; commit;\n");
	$node->poll_query_until('postgres',
		"select count(*) = 1 from pg_locks where pid = $pid and locktype = 'advisory' and not granted")
		or die "$what did not come to $place";
	is(kill('KILL', $pid), 1, "$what: killed in $place");
	wait_until(sub { slurp_file($node->logfile) =~ /\(PID $pid\) was terminated by signal 9/ },
		'the postmaster to notice');
	wait_until(sub { is_ready($node) }, 'the recovery');
	eval { $session->quit };
	eval { $gate->quit };
	is(one($node, $picture), $before, "$what in $place: all is as it was before");
	return;
}

1;
