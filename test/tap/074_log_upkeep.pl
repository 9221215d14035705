# pawld tends logs: those that somebody has declared, and no others; with all that belongs to it a declaration is dumped and restored.
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
select pawl.enforce(t, 'state', 'parcel', history => true) from unnest(array['asked', 'silent']::regclass[]) t;
select pawl.enforce('months', 'state', 'parcel', history => true, log_partition => 'range (id)');
insert into asked (id) select generate_series(1, 2500);
insert into silent (id) select generate_series(1, 2500);
update asked set state = 'sent';
update silent set state = 'sent';
SQL
is(end_program(begin_program($node, 'pawld', '--once')), 0, 'pawld --once ends well');
is(one($node, 'select (select count(*) from asked_transitions) || $$ $$ || (select count(*) from silent_transitions)'), '5000 5000', 'and prunes nothing that nobody asked for');
$node->safe_psql('postgres', q(select pawl.keep_log('asked', '0'), pawl.keep_log('months', null, period => 'day', ahead => 2)));
my ($last) = split /\n/, one($node, q(select inhrelid::regclass from pg_inherits where inhparent = 'months_transitions'::regclass order by inhrelid desc));
$node->safe_psql('postgres', "drop table $last");
# A batch of 20 is 400 entries a transaction here.
is(end_program(begin_program($node, 'pawld', '--once', '--batch', 20)), 0, 'pawld --once ends well');
is(one($node, 'select (select count(*) from asked_transitions) || $$ $$ || (select count(*) from silent_transitions)'), '2500 5000', 'to the end, batch by batch, and of the declared log alone');
is(one($node, q(select count(*) from pg_inherits where inhparent = 'months_transitions'::regclass)), 4, 'a partition of time to come is there again');

# The running daemon finds a declaration that comes later.
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 100);
$node->safe_psql('postgres', q(select pawl.keep_log('silent', '0')));
ok($node->poll_query_until('postgres', 'select count(*) = 2500 from silent_transitions'), 'a daemon that runs already does it too');
is(end_program($daemon, 'TERM'), 0, 'it ends well') or diag($daemon->{err});
is(end_program(begin_program($node, 'pawld', '--once', '--skip', 'tend_logs')), 0, 'and can be told to leave it');

$node->safe_psql('postgres', 'create database copy');
my $dump = PostgreSQL::Test::Utils::tempdir . '/dump';
$node->command_ok([ 'pg_dump', '-h', $node->host, '-p', $node->port, '-Fc', '-f', $dump, 'postgres' ], 'pg_dump');
$node->command_ok([ 'pg_restore', '-h', $node->host, '-p', $node->port, '--exit-on-error', '-d', 'copy', $dump ], 'pg_restore');
my $declared = q(select string_agg(concat_ws(' ', log, keep, only_terminal, period, ahead), ', ' order by log::text) from pawl.log_upkeep);
is(one($node, $declared, 'copy'), 'asked_transitions 00:00:00 t 3, months_transitions t day 2, silent_transitions 00:00:00 t 3', 'what was declared is there');
is(one($node, 'select done from pawl.tend_logs()', 'copy'), 0, 'and can be done');
sound($node, 'the copy', 'copy');
sound($node, 'the original');
no_crash($node);
done_testing();
