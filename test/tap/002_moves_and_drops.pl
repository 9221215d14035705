# Renames, moves and drops of everything a lifecycle hangs on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', fixture('enforced.sql') . fixture('audited.sql') . fixture('owned.sql'));

# Renames and moves are followed, and the session that did them goes on at once.
$node->safe_psql('postgres', <<'SQL');
create schema elsewhere;
alter table app.tasks rename to duties;
alter table app.duties rename column state to condition;
alter table app.duties rename column id to duty_id;
alter table app.tasks_transitions rename to duty_log;
alter table app.duties set schema elsewhere;
alter table app.duty_log set schema elsewhere;
alter schema elsewhere rename to there;
alter table app.parcels rename column no to number;
alter table app.parcels set schema there;
alter table app.vehicles rename column id to plate;
alter view app.vehicles_transitions rename to vehicle_moves;
alter table app.vehicles_transitions_log rename to vehicle_book;
alter table app.jobs rename to works;
alter table app.works rename column lease to until;
alter table app.works rename column lane to line;
alter table app.works set schema there;
alter table app.pieces rename column owner to worker;
alter table app.chores rename column due to at;
alter index app.errands_pawl_due rename to errand_times_pawl_due;
update there.duties set condition = 'closed' where duty_id = 1;
SQL
sound($node, 'after renames');
rejected($node, "update there.duties set condition = 'dropped' where duty_id = 1", 'PW001',
	'renamed table, column, schema: validated');
rejected($node, "update there.parcels set state = 'packed' where number = 15", '23514',
	'moved partitioned table: validated');
rejected($node, "update app.parcels_live set state = 'packed' where number = 15", '23514',
	'and its partition, which stayed');
rejected($node, "update app.lorries set state = 'lost' where plate = 11", 'PW001',
	'child of a table whose key was renamed');
accepted($node, "update there.parcels set state = 'lost' where number = 15; update app.lorries set state = 'sent' "
	. "where plate = 11;", 'legal state changes');
is(one($node, <<'SQL'), "4|closed\n3|lost\n2|sent\n2|sent", 'logged in the renamed logs');
(select sort_key, to_state from there.duty_log where duty_id = 1 and most_recent)
union all (select sort_key, to_state from pawl.history('there.parcels', row('r0', 15)) where most_recent)
union all (select sort_key, to_state from app.vehicle_moves where plate = 11 and most_recent)
union all (select sort_key, to_state from pawl.history('app.lorries', 11) where most_recent)
SQL
is(one($node, "select pawl.fire('there.duties', 8, 'reopen', state_column => 'condition')"), 'open',
	'events find the renamed column');
accepted($node, "insert into there.duty_log (duty_id, event) values (8, 'drop')", "the renamed log accepts requests");

# A rename that another transaction takes back.
accepted($node, "begin; alter table there.duties rename column condition to state; rollback; update there.duties set "
	. "condition = 'open' where duty_id = 1",
	'a rename rolled back');

# The owner changes: state changes are validated as before, and the new owner may release
# the table if it may use pawl.enforce at all.
$node->safe_psql('postgres', <<'SQL');
create role keeper in role pawl_admin;
create role stranger in role pawl_admin;
grant usage on schema there, app to keeper, stranger;
grant create on schema there to keeper;
alter table new_home.works owner to keeper;
alter table new_home.works_moves owner to keeper;
grant usage, create on schema new_home to keeper;
SQL
rejected($node, "update new_home.works set state_now = 'packed' where name = 'a'", 'PW001', 'new owner: validated');
rejected($node, "set role keeper; update new_home.works set state_now = 'packed' where name = 'a'", 'PW001',
	'changes by the new owner are validated');
accepted($node, "set role keeper; update new_home.works set state_now = 'lost' where name = 'a'", 'and logged');
rejected($node, "set role keeper; delete from new_home.works_moves", 'PW006', 'even the owner cannot edit the log');
rejected($node, "set role stranger; select pawl.release('new_home.works')", '42501', 'no stranger releases it');
accepted($node, "set role keeper; alter table new_home.works rename column state_now to status",
	'the owner renames without rights on pawl.binding');
is(one($node, "select state_column from pawl.binding where relation = 'new_home.works'::regclass"), 'status',
	'and is followed');
sound($node, 'after the change of owner');

# DDL that would break a lifecycle is rejected.
rejected($node, 'alter table there.duties drop column condition', '2BP01', 'the state column cannot be dropped');
rejected($node, 'alter table there.duties drop column duty_id', '2BP01', 'the key cannot be dropped');
rejected($node, 'alter table there.duties alter column condition type int using 1', '42804',
	'the state column stays able to hold states');
rejected($node, 'drop table there.duty_log', '2BP01', 'the log cannot be dropped');
rejected($node, 'alter table there.duty_log drop column event', '2BP01', 'nor one of its columns');
rejected($node, 'alter table there.duty_log rename column event to happening', '55000', 'nor renamed');
rejected($node, 'alter table there.duty_log drop constraint tasks_transitions_pkey', '55000',
	'nor its primary key dropped');
rejected($node, "alter table there.works drop column $_", '2BP01', "the managed column $_ cannot be dropped")
	for qw(owner until token due attempts max_attempts line rank);
rejected($node, 'alter table there.works alter column until type date', '42804', 'a lease stays a time');
rejected($node, "create table app.pieces_c partition of app.pieces (worker not null) for values in ('c')", '22023',
	'an owner may be null in every partition');
is(one($node, "select string_agg(relation::text || ' ' || coalesce(queue, ''), ',' order by relation::text) "
	. "from pawl.paused"), 'app.pieces ,there.works slow', 'pauses follow their tables');
rejected($node, "alter type app.phase rename value 'doing' to 'working'", '2BP01',
	'a label of the state type keeps its name');
sound($node, 'after rejected changes');

# Dropping a table removes its lifecycle; its log stays, closed.
$node->safe_psql('postgres', 'drop table new_home.works');
is(one($node, "select count(*) from pawl.binding where relation::oid not in (select oid from pg_class)"), 0,
	'DROP TABLE removes the binding');
is(one($node, 'select count(*) > 0 from new_home.works_moves'), 't', 'the log outlives its table');
rejected($node, 'delete from new_home.works_moves', 'PW006', 'and it stays immutable');
sound($node, 'after DROP TABLE');

$node->safe_psql('postgres',
	'create schema short; create table short.t (id int primary key, state text default \'packed\')');
$node->safe_psql('postgres', "select pawl.enforce('short.t', 'state', 'parcel'), pawl.enable_log('short.t', 'state', "
	. "most_recent => 'stored'); insert into short.t values (1)");
$node->safe_psql('postgres', 'drop schema short cascade');
is(one($node, "select count(*) from pawl.binding"), 7, 'DROP SCHEMA CASCADE removes bindings');
sound($node, 'after DROP SCHEMA CASCADE');

# A lifecycle that is released leaves no index; a child that leaves takes none along.
my $ours = q(select string_agg(c.relname, ' ' order by c.relname) from pg_class c
	where c.relname ~ '_pawl_(claim|owned|due)$');
is(one($node, $ours), 'chores_pawl_due errand_times_pawl_due jobs_pawl_claim jobs_pawl_due jobs_pawl_owned '
	. 'pieces_pawl_claim pieces_pawl_owned', 'the indexes are there under their names');
$node->safe_psql('postgres', 'alter table app.errands no inherit app.chores');
$node->safe_psql('postgres', "select pawl.release('app.pieces')");
is(one($node, $ours), 'chores_pawl_due jobs_pawl_claim jobs_pawl_due jobs_pawl_owned',
	'a child that left, and a lifecycle released, have none');
sound($node, 'after the release');

# The extension goes: the users' data stays, our triggers do not; and it can come back and take the logs up again.
my $rows = <<'SQL';
select 'duties', count(*), md5(string_agg(t::text, '|' order by duty_id)) from there.duties t
union all select 'parcels', count(*), md5(string_agg(t::text, '|' order by number)) from there.parcels t
union all select 'lorries', count(*), md5(string_agg(t::text, '|' order by plate)) from app.lorries t
union all select 'duty_log', count(*), md5(string_agg(t::text, '|' order by id)) from there.duty_log t
union all select 'vehicle_book', count(*), md5(string_agg(t::text, '|' order by id)) from app.vehicle_book t
union all select 'vehicle_moves', count(*), md5(string_agg(t::text, '|' order by id)) from app.vehicle_moves t
union all select 'works_moves', count(*), md5(string_agg(t::text, '|' order by id)) from new_home.works_moves t
SQL
my $machines =
	one($node, q(select string_agg(format('select pawl.define(%L, %L)', machine, source), '; ') from pawl.machine));
rejected($node, 'drop extension pawl', '2BP01', 'DROP EXTENSION asks for CASCADE while tables are enforced');
# A session that has compiled the lifecycles sees them go too.
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query("update there.duties set condition = 'closed' where duty_id = 1");
my $before = one($node, $rows);
$node->safe_psql('postgres', 'drop extension pawl cascade');
is(one($node, $rows), $before, 'DROP EXTENSION CASCADE leaves rows and logs');
is(one($node, q(select count(*) from pg_trigger where tgname ~ 'pawl')), 0, 'and takes every trigger');
is(one($node, q(select count(*) from pg_event_trigger where evtname ~ 'pawl')), 0, 'and the event triggers');
is(one($node, q(select count(*) from pg_namespace where nspname = 'pawl')), 0, 'and the schema');
is($session->query("update there.duties set condition = 'whatever' where duty_id = 50 returning condition"), 'whatever',
	'nothing is validated any more');
$session->query("update there.duties set condition = 'open' where duty_id = 50");

$node->safe_psql('postgres', "create extension pawl; $machines");
$node->safe_psql('postgres', <<'SQL');
select pawl.enforce('there.duties', 'condition', 'task'),
    pawl.enable_log('there.duties', 'condition', most_recent => 'stored', hash_chain => true, log_name => 'duty_log');
select pawl.enforce('app.vehicles', 'state', 'parcel'),
    pawl.enable_log('app.vehicles', 'state', hash_chain => true, log_name => 'fresh_book');
select pawl.enforce('there.parcels', 'state', 'parcel'),
    pawl.enable_log('there.parcels', 'state', most_recent => 'stored');
select pawl.enforce('there.works', 'state', 'job'),
    pawl.enable_queue('there.works', 'state', owner => 'owner', lease => 'until'),
    pawl.enable_timers('there.works', 'state', due => 'due'),
    pawl.set_claiming('there.works', 'state', claim => '{start}', claim_order => 'rank', on_expiry => 'expire');
SQL
is(one($node, "select count(*), count(*) filter (where most_recent) from pawl.history('there.duties', 1)"), '6|1',
	'the log is continued, not started again');
$session->query("update there.duties set condition = 'dropped' where duty_id = 1");
like($session->{stderr}, qr/no transition from "closed" to "dropped"/, 'the session from before validates again');
$session->{stderr} = '';
$session->query("update there.duties set condition = 'open' where duty_id = 1");
is(one($node, "select to_state, sort_key from pawl.history('there.duties', 1) where most_recent"), 'open|7',
	'the log goes on where it was');
is(one($node, $ours), 'chores_pawl_due jobs_pawl_due jobs_pawl_owned works_pawl_claim',
	'indexes that were left behind are used again, or created again where they do not fit');
sound($node, 'after the extension came back');
$session->quit;

no_crash($node);
done_testing();
