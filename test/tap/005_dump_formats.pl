# Dump and restore: whatever way a database is carried over, everything in it is enforced again.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('dump');
$node->init;
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;
my $folder = PostgreSQL::Test::Utils::tempdir();

$node->safe_psql('postgres', 'create database source');
$node->safe_psql('source', <<'SQL');
create extension pawl;
select pawl.define('order', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> done : finish
    done --> [*]');
select pawl.define('order', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> done : finish
    new --> done : skip
    done --> [*]');

create schema "Odd schema";
create type "Odd schema".state as enum ('new', 'paid', 'done');
create table "Odd schema"."My orders" (id int primary key, state "Odd schema".state not null, second text default 'new');
insert into "Odd schema"."My orders" select i, 'new' from generate_series(1, 100) i;
select pawl.enforce('"Odd schema"."My orders"', 'state', 'order', version => 1, history => true, hash_chain => true, always => true);
select pawl.enforce('"Odd schema"."My orders"', 'second', 'order', version => 1, history => true, most_recent => 'derived');
update "Odd schema"."My orders" set state = 'paid' where id < 50;

create table tree (id int, state text, primary key (id, state)) partition by list (state);
create table tree_new partition of tree for values in ('new');
create table tree_rest partition of tree default;
insert into tree select i, 'new' from generate_series(1, 100) i;
select pawl.enforce('tree', 'state', 'order', version => 1, history => true);
update tree set state = 'paid' where id < 30;

create table parent (id int primary key, state text not null);
create table child (primary key (id)) inherits (parent);
insert into child select i, 'new' from generate_series(1, 10) i;
select pawl.enforce('parent', 'state', 'order', version => 1, history => true, most_recent => 'derived', on_delete => 'deny');
update child set state = 'paid' where id = 3;
SQL

my $bindings = 'select relation, state_column, machine, version, key_columns, history, history_view, log_key_columns, most_recent, hash_chain, '
  . 'on_delete, always from pawl.binding order by relation::text, state_column';
my $logs = 'select * from "Odd schema"."My orders_transitions" order by subject_id, sort_key';

sub refused {
    my ($database, $statement, $code, $name) = @_;
    my ($status, undef, $error) = $node->psql($database, "\\set VERBOSITY sqlstate\n$statement");
    like($error, qr/ERROR:  $code/, $name);
}

# Everything is there, nothing is wrong, and moves are judged, logged and refused as before.
sub check {
    my ($database, $how, $allowed) = @_;
    is($node->safe_psql($database, $bindings), $node->safe_psql('source', $bindings), "$how: bindings");
    is($node->safe_psql($database, $logs), $node->safe_psql('source', $logs), "$how: a log");
    is($node->safe_psql($database, 'select * from pawl.verify()'), '', "$how: nothing to verify");
    is($node->safe_psql($database, q{select distinct check_name from pawl.health() where status in ('warning', 'error') order by 1}),
        $allowed // '', "$how: health");
    refused($database, q{update tree set state = 'new' where id = 1}, 'PW001', "$how: no way back in a partition");
    refused($database, q{update "Odd schema"."My orders" set state = 'done' where id = 99}, 'PW001', "$how: no jump");
    refused($database, q{update parent set state = 'done' where id = 1}, 'PW001', "$how: no jump in a child");
    refused($database, q{delete from child where id = 1}, 'PW001', "$how: no deletion");
    refused($database, q{delete from tree_transitions where false}, 'PW006', "$how: the log is closed");
    $node->safe_psql($database, <<'SQL');
update tree set state = 'done' where id = 1;
update "Odd schema"."My orders" set state = 'done', second = 'paid' where id = 1;
insert into parent_transitions (subject_id, event) values (3, 'finish');
alter table parent rename column state to status;
create table tree_done (id int not null, state text not null);
select pawl.upgrade('parent');
SQL
    is($node->safe_psql($database, 'select * from pawl.verify()'), '', "$how: nothing to verify after moves");
}

sub fresh {
    my ($database) = @_;
    $node->safe_psql('postgres', "create database $database");
    return $database;
}

my @from = ('pg_dump', '-h', $node->host, '-p', $node->port);
my @into = ('pg_restore', '-h', $node->host, '-p', $node->port, '--exit-on-error');

command_ok([ @from, '-f', "$folder/plain.sql", 'source' ], 'pg_dump, plain');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-h', $node->host, '-p', $node->port, '-d', fresh('plain'), '-f', "$folder/plain.sql" ],
    'restored by psql');
check('plain', 'plain');

command_ok([ @from, '-Fc', '-f', "$folder/custom", 'source' ], 'pg_dump, custom');
command_ok([ @into, '-d', fresh('custom'), "$folder/custom" ], 'restored by pg_restore');
check('custom', 'custom');
command_ok([ @into, '-1', '-d', fresh('single'), "$folder/custom" ], 'restored in one transaction');
check('single', 'one transaction');

command_ok([ @from, '-Fd', '-j', '2', '-f', "$folder/directory", 'source' ], 'pg_dump, directory');
for my $round (1 .. 3) {    # jobs meet differently every time
    command_ok([ @into, '-j', '4', '-d', fresh("parallel_$round"), "$folder/directory" ], 'restored by four jobs');
    check("parallel_$round", "parallel $round");
}

# Schema first, data later.
command_ok([ @from, '-s', '-f', "$folder/schema.sql", 'source' ], 'pg_dump, schema only');
command_ok([ @from, '-a', '--disable-triggers', '-f', "$folder/data.sql", 'source' ], 'pg_dump, data only');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-h', $node->host, '-p', $node->port, '-d', fresh('two_steps'), '-f', "$folder/schema.sql" ],
    'restored the schema');
refused('two_steps', q{insert into tree values (1, 'new')}, 'PW008', 'triggers without a lifecycle refuse to write');
is($node->safe_psql('two_steps', q{select distinct check_name from pawl.health() where status <> 'ok'}), 'orphaned_triggers', 'health says so');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-h', $node->host, '-p', $node->port, '-d', 'two_steps', '-f', "$folder/data.sql" ],
    'restored the data');
is($node->safe_psql('two_steps', q{select distinct check_name from pawl.health() where status in ('warning', 'error') order by 1}),
    'always', 'what --disable-triggers has left is told');
$node->safe_psql('two_steps', 'select pawl._install(relation) from (select distinct relation from pawl.binding) b');
check('two_steps', 'schema, then data');

# DROP EXTENSION … CASCADE takes the triggers, and nothing of the user's.
$node->safe_psql('plain', 'drop extension pawl cascade');
is($node->safe_psql('plain', q{select count(*) from pg_trigger where tgname ~ 'pawl'}), '0', 'no trigger is left');
is($node->safe_psql('plain', q{select count(*) from pg_namespace where nspname = 'pawl'}), '0', 'nor the schema');
is($node->safe_psql('plain', q{select count(*) from tree}), '100', 'the rows are');
is($node->safe_psql('plain', q{select count(*) from tree_transitions}), '130', 'the log is');
$node->safe_psql('plain', q{update tree set state = 'new' where id = 1});

$node->stop;
done_testing();
