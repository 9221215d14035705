# Logical replication in the forms that show a state change as something else: between partitions, in streamed and
# prepared transactions, in both directions, as rows that were there before.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = <<'CONF';
max_logical_replication_workers = 24
max_worker_processes = 30
max_replication_slots = 20
max_wal_senders = 20
wal_retrieve_retry_interval = 100ms
logical_decoding_work_mem = 64kB
log_error_verbosity = verbose
CONF
my $publisher = new_cluster('publisher', streaming => 'logical', conf => $conf);
my $version = one($publisher, 'show server_version_num');
# Since 18 a setting of its own, which follows from that of the slots before.
$conf .= "max_active_replication_origins = 20\n" if $version >= 180000;
my $subscriber = new_cluster('subscriber', streaming => 'logical', conf => $conf);
my $source = $publisher->connstr . ' dbname=postgres';

$_->safe_psql('postgres', q(select pawl.define('m', 'stateDiagram-v2
    [*] --> new
    new --> used : use
    used --> new : clean
    used --> worn : wear
    worn --> [*]');)) for $publisher, $subscriber;

sub plain { my ($table) = @_; return "create table $table (id int, state text not null default 'new', place int not "
	. "null default 1, primary key (id, state, place));" }

sub parted
{
	my ($table) = @_;
	return plain($table) =~ s/;$/ partition by list (state);/r
	  . "create table ${table}_1 partition of $table for values in ('new', 'worn'); create table ${table}_2 partition "
	  . "of $table default;";
}

sub placed
{
	my ($table) = @_;
	return plain($table) =~ s/;$/ partition by list (place);/r
	  . "create table ${table}_1 partition of $table for values in (1); create table ${table}_2 partition of "
	  . "$table default;";
}

sub replicate
{
	my ($table, $there, $here, %options) = @_;
	my $enforce = "select pawl.enforce('$table', 'state', 'm', key => '{id}', on_delete => '"
		. ($options{on_delete} // 'allow')
	  . "', always => true), pawl.enable_log('$table')";
	$publisher->safe_psql('postgres', $there->($table) . $enforce);
	$subscriber->safe_psql('postgres', $here->($table) . $enforce);
	$publisher->safe_psql('postgres', "create publication $table for table $table with (publish_via_partition_root = "
		. ($options{root} // 'false') . ')');
	my $with = $options{with} // 'copy_data = true';
	$subscriber->safe_psql('postgres',
		"create subscription $table connection '$source' publication $table with ($with)");
	$subscriber->wait_for_subscription_sync($publisher, $table);
	return;
}

# Each row's life, by the log that the node keeps itself.
sub lives
{
	my ($node, $table) = @_;
	return one($node, "select string_agg(life, ', ' order by life collate
             pg_catalog.\"C\")
             from (select subject_id || ':' || string_agg(coalesce(to_state, '-'), ' ' order by sort_key) as life
		from ${table}_transitions group by subject_id) l");
}

# The worker of a subscription that has stopped never catches up: then this gives up, and the server's log says why.
sub same_lives
{
	my ($table, $lives, $name) = @_;
	$publisher->wait_for_catchup($table);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(lives($publisher, $table), $lives, "$name: on the publisher");
	is(lives($subscriber, $table), $lives, "$name: the subscriber's own log says the same");
	is(one($subscriber, "select string_agg(id || state, ' ' order by id) from $table"),
		one($publisher, "select string_agg(id || state, ' ' order by id) from $table"), "$name: so do the rows");
	return;
}

# --- rows that move between partitions, there, here, or on both sides
for my $case (['list_here', \&plain, \&parted], ['list_there', \&parted, \&parted],
	['list_root', \&parted, \&plain, root => 'true'],
	['list_alike', \&parted, \&parted, root => 'true', on_delete => 'deny'])
{
	my ($table, @rest) = @$case;
	replicate($table, @rest);
	$publisher->safe_psql('postgres', <<"SQL");
insert into $table select g from generate_series(1, 4) g;
update $table set state = 'used' where id <= 3;
update $table set state = case id when 1 then 'worn' else 'new' end where id <= 2;
begin; update $table set state = 'used' where id = 4; update $table set state = 'worn' where id = 4; commit;
SQL
	same_lives($table, '1:new used worn, 2:new used new, 3:new used, 4:new used worn',
		"$table: moves between partitions");
}
$publisher->safe_psql('postgres', <<'SQL');
delete from list_here where id = 3;
delete from list_there where id in (2, 3);
delete from list_root where id = 3;
begin; delete from list_root where id = 1; insert into list_root values (1); commit;
begin; delete from list_here where id = 2; insert into list_here values (2); commit;
SQL
same_lives('list_here', '1:new used worn, 2:new used new - new, 3:new used -, 4:new used worn',
	'list_here: rows end and start again as on the publisher');
same_lives('list_there', '1:new used worn, 2:new used new -, 3:new used -, 4:new used worn',
	'list_there: what ends, ends');
same_lives('list_root', '1:new used worn - new, 2:new used new, 3:new used -, 4:new used worn',
	'list_root: rows end and start again as on the publisher');

# a row that changes its partition, and not its state, has not been deleted
replicate('place_root', \&placed, \&plain, root => 'true', on_delete => 'terminal');
replicate('place_here', \&plain, \&placed, on_delete => 'terminal');
for my $table (qw(place_root place_here))
{
	$publisher->safe_psql('postgres', "insert into $table select g from generate_series(1, 2) g; update $table set "
		. "place = 2; update $table set place = 1, state = 'used' where id = 1");
	same_lives($table, '1:new used, 2:new', "$table: another place, the same state");
}

# an illegal state change is rejected, in whichever form it comes, and the row stays
$publisher->safe_psql('postgres', "alter table list_there disable trigger user");
$publisher->safe_psql('postgres', "update list_there set state = 'new' where id = 1");
wait_until(sub { slurp_file($subscriber->logfile)
		=~ /ERROR:  PW00\d: .*\n.*DETAIL:  Row \(id\)=\(1\) of public\.list_there/ }, "the worker's error");
is(one($subscriber, "select string_agg(state, ' ') from list_there where id = 1"), 'worn',
	'an illegal state change between partitions is rejected');
$subscriber->safe_psql('postgres', 'drop subscription list_there');

# --- a transaction that is streamed while it runs, with savepoints
$publisher->append_conf('postgresql.conf', 'debug_logical_replication_streaming = immediate') if $version >= 170000;
$publisher->reload;
my @streams = $version >= 160000 ? qw(on parallel) : qw(on);
for my $streaming (@streams)
{
	my $table = "stream_$streaming";
	replicate($table, \&parted, \&parted, with => "streaming = $streaming");
	$publisher->safe_psql('postgres', <<"SQL");
begin;
insert into $table select g from generate_series(1, 3000) g;
savepoint a;
update $table set state = 'used';
savepoint b;
update $table set state = 'worn' where id <= 2000;
rollback to b;
update $table set state = 'new' where id <= 1000;
release a;
delete from $table where id > 2990;
delete from $table where id = 2990;
savepoint c;
insert into $table values (2990);
rollback to c;
delete from $table where id = 2989;
savepoint d;
delete from $table where id = 2988;
rollback to d;
commit;
SQL
	$publisher->wait_for_catchup($table);
	cmp_ok(one($publisher, "select stream_txns from pg_stat_replication_slots where slot_name = '$table'"), '>', 0,
		"$table: it was streamed");
	is(one($subscriber, "select string_agg(life || ' ' || n,
             ', ' order by life collate
                 pg_catalog.\"C\")
                 from (select life, count(*) as n
                 from (select string_agg(coalesce(to_state, '-'), ' ' order by sort_key) as life
		from ${table}_transitions group by subject_id) l group by life) c"),
		'new used 1988, new used - 12, new used new 1000', "$table: the branch that was taken, row by row");
}

$publisher->append_conf('postgresql.conf', 'debug_logical_replication_streaming = buffered') if $version >= 170000;
$publisher->reload;

# --- a prepared transaction
replicate('prepared', \&plain, \&parted, with => 'two_phase = true');
$publisher->safe_psql('postgres', "insert into prepared select g from generate_series(1, 2) g; begin; update prepared "
	. "set state = 'used'; delete from prepared where id = 2; prepare transaction 'first'");
$publisher->wait_for_catchup('prepared');
is(one($subscriber, 'select count(*) from pg_prepared_xacts'), 1, 'prepared: it is prepared on the subscriber, too');
is(lives($subscriber, 'prepared'), '1:new, 2:new', 'prepared: nothing is to be seen yet');
$publisher->safe_psql('postgres', "commit prepared 'first'");
same_lives('prepared', '1:new used, 2:new used -', 'prepared: with the commit it is');

# --- rows that were there before: they are in the middle of their lives, so a copy comes
# first, the lifecycle afterwards
$_->safe_psql('postgres', plain('older')) for $publisher, $subscriber;
$publisher->safe_psql('postgres',
	"select pawl.enforce('older', 'state', 'm', key => '{id}'), pawl.enable_log('older', 'state');
     insert into older values (1), (2); update older set state = 'used' where id = 1;
	create publication older for table older");
$subscriber->safe_psql('postgres', "create subscription older connection '$source' publication older");
$subscriber->wait_for_subscription_sync($publisher, 'older');
$subscriber->safe_psql('postgres',
	"select pawl.enforce('older', 'state', 'm', key => '{id}', always => true), pawl.enable_log('older', 'state')");
$publisher->safe_psql('postgres',
	"update older set state = 'worn' where id = 1; update older set state = 'used' where id = 2");
$publisher->wait_for_catchup('older');
is(lives($subscriber, 'older'), '1:used worn, 2:new used',
	'older: a table enforced after it was copied goes on from where it is');

# --- a log and its triggers are its owner's, whichever role owns the subscription
replicate('owned', \&parted, \&parted);
$subscriber->safe_psql('postgres', <<'SQL');
create role log_owner;
grant create on schema public to log_owner;
create table seen (acting name, restricted boolean);
alter table seen owner to log_owner;
select pawl.audit('owned', '{"worn": true}');
alter table owned owner to log_owner;
alter table owned_transitions_log owner to log_owner;
select format('alter table %s owner to log_owner', audit) from pawl.audit_binding
    where relation = 'owned'::regclass \gexec
create function note_role() returns trigger language plpgsql as $$
begin
    begin create temp table left_behind (); exception when insufficient_privilege then insert into public.seen
        values (current_user, true); return null; end;
    insert into public.seen values (current_user, false);
    return null;
end $$;
create trigger note_role after insert on owned_transitions_log for each row execute function note_role();
alter table owned_transitions_log enable always trigger note_role;
SQL
$publisher->safe_psql('postgres',
	"insert into owned values (1); update owned set state = 'used'; update owned set state = 'worn'");
same_lives('owned', '1:new used worn', 'owned');
is(one($subscriber, 'select acting, restricted, count(*) from seen group by 1, 2'), 'log_owner|t|3',
	'owned: code on the log runs with the rights of its owner, and leaves nothing behind');
is(one($subscriber, 'select count(*) from owned_result_audit'), 1, 'owned: its results are audited');

# --- both directions: what came from elsewhere is validated and logged, and not sent back
SKIP:
{
	skip 'origin = none is of PostgreSQL 16', 4 if $version < 160000;
	replicate('shared', \&parted, \&parted, with => 'origin = none, copy_data = false');
	$subscriber->safe_psql('postgres', 'create publication back for table shared');
	$publisher->safe_psql('postgres', "create subscription back connection '" . $subscriber->connstr
		. " dbname=postgres' publication back with (origin = none, copy_data = false)");
	$publisher->wait_for_subscription_sync($subscriber, 'back');
	$publisher->safe_psql('postgres',
		"insert into shared values (1), (2); update shared set state = 'used' where id = 1");
	$publisher->wait_for_catchup('shared');
	$subscriber->safe_psql('postgres',
		"update shared set state = 'worn' where id = 1; update shared set state = 'used' where id = 2");
	$subscriber->wait_for_catchup('back');
	same_lives('shared', '1:new used worn, 2:new used', 'shared: moves of both sides');
	rejected($publisher, "update shared set state = 'new' where id = 1", 'PW001',
		'shared: and both sides reject illegal state changes');
}

is(one($_, "select string_agg(v::text, ' ') from pawl.verify() v where v.relation <> 'list_there'::regclass"), '',
			'rows and logs agree') for $publisher, $subscriber;
no_crash($_) for $publisher, $subscriber;
done_testing();
