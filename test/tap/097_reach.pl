# How programs come to the database: by TLS with libpq's own means, through a pooler of transactions, with clocks that
# jump, and to a server that falls silent.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use PawlApi;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir;
my $secret = 'hunter2secret';
my $node = api_cluster('reach', qw(pawl_dag));
my $port = $node->port;

subtest 'TLS' => sub {
	my @key = qw(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes);
	my $openssl = sub {
		my ($out, $err) = ('', '');
		IPC::Run::run([ 'openssl', @_ ], '>', \$out, '2>', \$err) or die "openssl @_: $err"
	};
	$openssl->('req', '-x509', @key, '-days', 1, '-subj', "/CN=$_", '-keyout', "$folder/$_.key", '-out',
			"$folder/$_.pem") for qw(ours strangers);
	$openssl->('req', @key, '-subj', '/CN=localhost', '-keyout', "$folder/server.key", '-out', "$folder/server.csr");
	append_to_file("$folder/names", "subjectAltName = DNS:localhost\n");
	$openssl->('x509', '-req', '-in', "$folder/server.csr", '-CA', "$folder/ours.pem", '-CAkey', "$folder/ours.key",
		'-CAcreateserial', '-days', 1, '-out', "$folder/server.pem", '-extfile', "$folder/names");
	chmod 0600, "$folder/server.key";
	$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\nssl = on\nssl_cert_file = "
		. "'$folder/server.pem'\nssl_key_file = '$folder/server.key'\n");
	unlink $node->data_dir . '/pg_hba.conf';
	$node->append_conf('pg_hba.conf', "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n");
	$node->restart;
	$node->safe_psql('postgres',
		"create role shipper login superuser password '$secret'; alter role pawl_authenticator password '$secret'");
	define_template($node,
		'{"name": "quick", "steps": [{"name": "a", "handler": "sleep", "handler_options": {"seconds": 0}}]}');
	start_tasks($node, 'quick', 5);
	append_to_file("$folder/pass", "*:*:*:*:$secret\n");
	append_to_file("$folder/services", "[shop]\nhost=localhost\nhostaddr=127.0.0.1\nport=$port\n"
		. "user=shipper\ndbname=postgres\nsslmode=verify-full\nsslrootcert=$folder/ours.pem\n");
	append_to_file("$folder/strangers", slurp_file("$folder/services") =~ s/ours/strangers/r);
	chmod 0600, "$folder/pass";
	local %ENV = (%ENV, PGPASSFILE => "$folder/pass", PGSSLMODE => 'verify-full', PGSSLROOTCERT => "$folder/ours.pem",
		PGSERVICEFILE => "$folder/services");
	local $PawlPrograms::through = [ 'localhost', $port ];
	local $PawlPrograms::as = 'shipper';

	my $api = begin_api($node, '--shortest-poll-ms', '5', '--longest-poll-ms', '100');
	my $worker = begin_program($node, 'example_worker', 'default', 4, 0.001, 600);
	ok(all_ended($node, 'quick'), 'daemon and worker do their work');
	is(one($node, q{select string_agg(distinct s.ssl::text, ',') from pg_stat_ssl s
		join pg_stat_activity a using (pid) where a.client_addr is not null}), 'true', 'every session is encrypted');
	is(one($node,
			q{select string_agg(distinct usename::text, ',') from pg_stat_activity where client_addr is not null}),
		'pawl_authenticator,shipper', 'those of worker and duties, and those of the API');
	is(end_program($_, 'TERM'), 0, "$_->{name} ends") for $worker, $api->{run};
	is(end_program(begin_program($node, 'pawl', 'verify')), 0, 'so does the command line, by the environment');
	{
		local %ENV = %ENV;
		delete @ENV{qw(PGSSLMODE PGSSLROOTCERT)};
		is(end_program(begin_program($node, 'pawl', '--database', 'service=shop', 'verify')), 0,
			'and by a service file');
	}
	my $unverified = qr/certificate verify failed/;
	my %wrong = ('another authority' => [ $unverified, { PGSSLROOTCERT => "$folder/strangers.pem" } ],
		'another authority by a service file' => [ $unverified, { PGSERVICEFILE => "$folder/strangers" }, '--database',
			'service=shop' ],
		'no file of authorities' => [ qr/root certificate file "\S+none\.pem" does not exist/,
			{ PGSSLROOTCERT => "$folder/none.pem" } ],
		'another name' => [ qr/server certificate for "localhost" .*does not match host name "127\.0\.0\.1"/, {},
			'--database', 'host=127.0.0.1' ],
		'no TLS' => [ qr/no pg_hba\.conf entry for .*, no encryption/, { PGSSLMODE => 'disable' } ]);
	for my $name (sort keys %wrong)
	{
		my ($message, $environment, @flags) = $wrong{$name}->@*;
		local %ENV = (%ENV, %$environment);
		my $run = begin_program($node, 'pawl', @flags, 'verify');
		is(end_program($run), 4, "$name is no connection");
		like($run->{err}, $message, 'with the reason of the server or of libpq');
		unlike($run->{out} . $run->{err}, qr/\Q$secret\E/, 'and without the password');
		next unless $name eq 'another authority';
		$run = begin_program($node, 'pawld');
		wait_until(sub { $run->{harness}->pump_nb; $run->{err} =~ /no connection.*certificate verify failed/ },
			'pawld to say it');
		unlike($run->{err}, qr/\Q$secret\E/, 'pawld does not print it either');
		is(end_program($run, 'TERM'), 0, 'and ends on SIGTERM');
		$run = begin_program($node, 'example_worker', 'default', 1, 0.001, 600);
		wait_until(sub {
			$run->{harness}->pump_nb;
			$run->{err} =~ /certificate verify failed/ || !$run->{harness}->pumpable
		}, 'the worker to say it');
		unlike($run->{out} . $run->{err}, qr/\Q$secret\E/, 'nor the worker');
		end_program($run, 'TERM');
	}
};

subtest 'two daemons, one with a clock that jumps' => sub {
	my ($faketime) = grep { -e } map { "$_/faketime/libfaketimeMT.so.1" } glob('/usr/lib/*-linux-gnu'), '/usr/lib',
		'/usr/lib64';
	BAIL_OUT('no libfaketime: run make deps') unless $faketime;
	$node->safe_psql('postgres', <<'SQL');
select pawl.define('bell', 'stateDiagram-v2
    [*] --> waiting
    waiting --> rung : ring after 1 hour
    waiting --> running : start
    running --> waiting : expire
    rung --> [*]
    class running owned');
create table bells (id int primary key, state text not null default 'waiting', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz);
select pawl.enforce('bells', 'state', 'bell'), pawl.enable_log('bells', 'state'),
    pawl.enable_queue('bells', 'state', owner => 'owner', lease => 'lease', token => 'token'),
    pawl.enable_timers('bells', 'state', due => 'due'),
    pawl.set_claiming('bells', 'state', claim => '{start}', on_expiry => 'expire');
SQL
	my $clock = "$folder/clock";
	my $set = sub {
		open my $out, '>', "$clock.new" or die $!;
		printf $out "%+d\n", $_[0];
		close $out;
		rename "$clock.new", $clock or die $!
	};
	$set->(0);
	my @daemons = begin_program($node, 'pawld', '--shortest-poll-ms', '5', '--longest-poll-ms', '50');
	{
		local %ENV = (%ENV, LD_PRELOAD => $faketime, FAKETIME_DONT_FAKE_MONOTONIC => 1, FAKETIME_NO_CACHE => 1,
			FAKETIME_TIMESTAMP_FILE => $clock);
		push @daemons, begin_program($node, 'pawld', '--shortest-poll-ms', '5', '--longest-poll-ms', '50');
	}
	for my $off (7200, -7200, 0)
	{
		my $first = 1000 * ($off + 7200);
		$node->safe_psql('postgres', <<"SQL");
insert into bells (id, due)
    select g, clock_timestamp() + case when g % 2 = 0 then interval '300 ms' else interval '1 hour' end
    from generate_series($first + 1, $first + 200) g;
SQL
		$set->($off);
		ok($node->poll_query_until('postgres', "select count(*) = 100 from bells where state = 'rung' and id between "
			. "$first + 1 and $first + 200"), "set to $off s: what is due is fired");
	}
	is(one($node, q{select count(*) || ' ' || count(distinct subject_id) from bells_transitions where event = 'ring'}),
		'300 300', 'each bell rings once');
	is(one($node, q{select count(*) from bells where state = 'rung' and id % 2 = 1}), 0,
		'and what has an hour left keeps it');
	is(end_program($_, 'TERM'), 0, 'a daemon ends') for @daemons;
	sound($node, 'with clocks that jumped');
};

subtest 'a server that falls silent' => sub {
	my $reader = make_token($node, 'pawl_reader', 'rita', '{read}');
	my $api = begin_api($node, '--sql-workers', '0', '--api-timeout-ms', '200', '--api-connections', '2');
	is(ask('GET', '/v1/session', token => $reader)->{status}, 200, 'a request is answered');
	my @sessions = split /\n/, one($node, q{select pid from pg_stat_activity where application_name = 'pawld api'
		and query ~ 'pawl_api\.session|begin_request|once' or usename = 'pawl_authenticator'});
	kill 'STOP', @sessions;
	my $got = ask('GET', '/v1/session', token => $reader);
	is($got->{status}, 504, 'a request to a session that is frozen ends');
	like($got->{json}{detail}, qr/did not answer in time/, 'with the reason');
	is(ask('GET', '/v1/session', token => $reader)->{status}, 200, 'the next one has another session');
	kill 'CONT', @sessions;
	is(ask('GET', '/v1/session', token => $reader)->{json}{daemon}{connections}{taken}, 0,
		'and all connections are back');
	is(end_program($api->{run}, 'TERM'), 0, 'the daemon ends');
};

no_crash($node);
done_testing();
