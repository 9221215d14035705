# pawld tends logs: those that were declared, and no others; with all that belongs to it a
# declaration is dumped and restored.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
select pawl.define('parcel', 'stateDiagram-v2
    [*] --> packed
    packed --> sent : send
    sent --> [*]');
create table asked (id int primary key, state text not null default 'packed');
create table silent (id int primary key, state text not null default 'packed');
create table months (id uuid primary key default pawl.uuid_v7(), state text not null default 'packed');
select pawl.enforce(t, 'state', 'parcel'),
    pawl.enable_log(t, 'state') from unnest(array['asked', 'silent']::regclass[]) t;
select pawl.enforce('months', 'state', 'parcel'), pawl.enable_log('months', 'state', log_partition => 'range (id)');
insert into asked (id) select generate_series(1, 2500);
insert into silent (id) select generate_series(1, 2500);
update asked set state = 'sent';
update silent set state = 'sent';
SQL
is(end_program(begin_program($node, 'pawld', '--once')), 0, 'pawld --once ends well');
is(one($node, 'select (select count(*) from asked_transitions) || $$ $$ || (select count(*) from silent_transitions)'),
    '5000 5000', 'and prunes nothing that was not declared');
$node->safe_psql('postgres',
    q(select pawl.keep_log('asked', '0'), pawl.keep_log('months', null, period => 'day', ahead => 2)));
my ($last) = split /\n/, one($node, q(select inhrelid::regclass from pg_inherits
    where inhparent = 'months_transitions_log'::regclass order by inhrelid desc));
$node->safe_psql('postgres', "drop table $last");
# A batch of 20 is 400 entries a transaction here.
is(end_program(begin_program($node, 'pawld', '--once', '--batch', 20)), 0, 'pawld --once ends well');
is(one($node, 'select (select count(*) from asked_transitions) || $$ $$ || (select count(*) from silent_transitions)'),
    '2500 5000', 'to the end, batch by batch, and of the declared log alone');
is(one($node, q(select count(*) from pg_inherits where inhparent = 'months_transitions_log'::regclass)), 4,
    'a partition of time to come is there again');

# The running daemon finds a declaration that comes later.
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 100);
$node->safe_psql('postgres', q(select pawl.keep_log('silent', '0')));
ok($node->poll_query_until('postgres', 'select count(*) = 2500 from silent_transitions'),
    'a daemon that runs already does it too');
is(end_program($daemon, 'TERM'), 0, 'it ends well') or diag($daemon->{err});

# Audits, and two lifecycles on a table: each is a duty with a name of its own.
$node->safe_psql('postgres', <<'SQL');
create table doubled (id int primary key, state text not null default 'packed', paid text not null default 'packed');
select pawl.enforce('doubled', c, 'parcel'),
    pawl.enable_log('doubled', c), pawl.audit('doubled', '{"sent": true}', state_column => c)
    from unnest(array['state', 'paid']::name[]) c;
insert into doubled (id) select generate_series(1, 100);
update doubled set state = 'sent', paid = 'sent';
select pawl.keep_audit('doubled', '0', c) from unnest(array['state', 'paid']::name[]) c;
SQL
$daemon = begin_program($node, 'pawld', '--http', '127.0.0.1:0', '--log-format', 'json', '--skip',
    'tend_logs doubled paid');
wait_until(sub { $daemon->{harness}->pump_nb; $daemon->{err} =~ /"port":(\d+)/ }, 'the port of pawld');
my ($port) = $daemon->{err} =~ /"port":(\d+)/;
my $metrics;
wait_until(sub {
    (undef, $metrics) = http_get($port, '/metrics');
    $metrics =~ /^pawld_duty_rows_total\{duty="tend_logs doubled state"\} 100$/m
}, 'the results of one lifecycle');
unlike($metrics, qr/tend_logs doubled(?: paid)?"/,
    'a duty of a table with two lifecycles is called by the column, and left by that name');
like($metrics, qr/"tend_logs asked"/, 'where there is one, the table will do');
is(end_program($daemon, 'TERM'), 0, 'it ends well') or diag($daemon->{err});
is(one($node, 'select (select count(*) from doubled_result_audit) || $$ $$ || (select count(*) from '
    . 'doubled_paid_result_audit)'), '0 100', 'results of one lifecycle were pruned');

# All at once by hand: what fails is told, and the others are done.
$node->safe_psql('postgres', q(insert into pawl.log_upkeep (log, period) values ('months_transitions_log', 'year')));
my ($status, $out, $err) = $node->psql('postgres', 'select done from pawl.tend_logs()');
is("$status $out", '0 100', 'one log cannot be tended, the others are');
like($err,
    qr/WARNING:  public.months_transitions_log was not maintained: partition .* would overlap.*tend_logs\('public.months'/s,
    'and the error names it');
is(one($node, 'select count(*) from doubled_paid_result_audit'), 0, 'what was done stays');
$node->safe_psql('postgres', q(select pawl.keep_log('months', null, period => 'day', ahead => 2)));
is(end_program(begin_program($node, 'pawld', '--once', '--skip', 'tend_logs')), 0, 'and can skip it');

$node->safe_psql('postgres', 'create database copy');
my $dump = PostgreSQL::Test::Utils::tempdir . '/dump';
$node->command_ok([ 'pg_dump', '-h', $node->host, '-p', $node->port, '-Fc', '-f', $dump, 'postgres' ], 'pg_dump');
$node->command_ok([ 'pg_restore', '-h', $node->host, '-p', $node->port, '--exit-on-error', '-d', 'copy', $dump ],
    'pg_restore');
my $declared = q(select string_agg(concat_ws(' ', log, keep, only_terminal, period, ahead), ', ' order by log::text)
    from pawl.log_upkeep);
is(one($node, $declared, 'copy'), 'asked_transitions_log 00:00:00 t 3, doubled_paid_result_audit 00:00:00 t 3, '
    . 'doubled_result_audit 00:00:00 t 3, months_transitions_log t day 2, silent_transitions_log 00:00:00 t 3',
    'what was declared is there');
is(one($node, 'select done from pawl.tend_logs()', 'copy'), 0, 'and can be done');
sound($node, 'the copy', 'copy');
sound($node, 'the original');
no_crash($node);
done_testing();
