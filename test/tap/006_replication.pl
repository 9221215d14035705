# Logical replication, streaming replication, and a session that plays a replica.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $quick = "max_logical_replication_workers = 16\nmax_worker_processes = 20\nwal_retrieve_retry_interval = "
	. "100ms\nlog_error_verbosity = verbose\n";
my $publisher = new_cluster('publisher', streaming => 'logical', conf => $quick);
my $subscriber = new_cluster('subscriber', streaming => 'logical', conf => $quick);

# Each table plays one part: free (not enforced there), validated (always => true there), mirrored (its log comes
# along), ignoring (enforced there, but not always).
my $machine = q(select pawl.define('m', 'stateDiagram-v2
    [*] --> new
    new --> used : use
    used --> worn : wear
    worn --> [*]'););
my @tables = qw(free validated mirrored ignoring own_log);
for my $table (@tables)
{
	$_->safe_psql('postgres', "create table $table (id int primary key, state text not null default 'new')")
		for $publisher, $subscriber;
}
$publisher->safe_psql('postgres', $machine);
$publisher->safe_psql('postgres', "select pawl.enforce('$_', 'state', 'm'), pawl.enable_log('$_', 'state')")
	for grep { $_ ne 'validated' } @tables;
$subscriber->safe_psql('postgres', <<"SQL");
$machine
select pawl.enforce('validated', 'state', 'm', always => true), pawl.enable_log('validated', 'state');
select pawl.enforce('mirrored', 'state', 'm', always => true), pawl.enable_log('mirrored', 'state');
select pawl.enforce('ignoring', 'state', 'm'), pawl.enable_log('ignoring', 'state');
select pawl.enforce('own_log', 'state', 'm', always => true), pawl.enable_log('own_log', 'state', hash_chain => true);
SQL
# Results: the subscriber that keeps a log of its own audits it, the one that receives the log receives the audit.
$subscriber->safe_psql('postgres', q(select pawl.audit('own_log', '{"used": true}')));
$_->safe_psql('postgres', q(select pawl.audit('mirrored', '{"used": true}'))) for $publisher, $subscriber;
my $source = $publisher->connstr . ' dbname=postgres';
for my $table (@tables)
{
	my $with = $table eq 'mirrored' ? 'mirrored, mirrored_transitions_log, mirrored_result_audit' : $table;
	$publisher->safe_psql('postgres', "create publication $table for table $with");
	$subscriber->safe_psql('postgres', "create subscription $table connection '$source' publication $table");
}
$subscriber->wait_for_subscription_sync($publisher, $_) for @tables;
my @subscriptions = @tables;
sub catch_up { $publisher->wait_for_catchup($_) for @subscriptions; return }

# Legal changes arrive.
for my $table (@tables)
{
	$publisher->safe_psql('postgres', "insert into $table select g from generate_series(1, 5) g; update $table set "
		. "state = 'used' where id <= 3; delete from $table where id = 5");
}
catch_up();
for my $table (@tables)
{
	is(one($subscriber, "select string_agg(id || state, ' ' order by id) from $table"), '1used 2used 3used 4new',
		"$table: legal changes arrive");
}
is(one($subscriber, 'select count(*), sum(sort_key), count(*) filter (where most_recent) from validated_transitions'),
	'9|13|5', 'validated: the subscriber keeps a log of its own');
is(one($subscriber, 'select count(*), sum(sort_key), count(*) filter (where most_recent) from own_log_transitions'),
	'9|13|5', 'own_log: with a hash chain, too');
is(one($subscriber, 'select md5(string_agg(t::text, $$|$$ order by id)) from mirrored_transitions t'),
	one($publisher, 'select md5(string_agg(t::text, $$|$$ order by id)) from mirrored_transitions t'),
	'mirrored: the log is the one of the publisher, written once');
is(one($subscriber, 'select count(*), count(distinct subject_id) from own_log_result_audit'), '3|3',
	'own_log: what is logged here is audited here');
is(one($subscriber, 'select md5(string_agg(t::text, $$|$$ order by transition_id)) from mirrored_result_audit t'),
	one($publisher, 'select md5(string_agg(t::text, $$|$$ order by transition_id)) from mirrored_result_audit t'),
	'mirrored: so is the audit');
is(one($subscriber, 'select count(*) from mirrored_result_audit'), 3, 'mirrored: with all results');
is(one($subscriber, 'select count(*) from ignoring_transitions'), 0,
	'ignoring: without always, what arrives is neither validated nor logged');
is(one($subscriber, "select string_agg(distinct relation || ' ' || problem, ', ') from pawl.verify()"),
	'ignoring log_missing', 'verify says so of that table only');

# State changes of a subscriber's own clients are validated where it enforces.
rejected($subscriber, "update validated set state = 'worn' where id = 4", 'PW001',
	'a state change by a client of the subscriber is validated');
rejected($subscriber, "update mirrored set state = 'worn' where id = 4", 'PW001', 'also beside a mirrored log');

# An illegal change arrives: it is rejected, the worker says why, the others go on; then the cause is removed.
$publisher->safe_psql('postgres',
	"update validated set state = 'worn' where id = 4; update free set state = 'used' where id = 4");
my $log_start = -s $subscriber->logfile;
becomes(sub { slurp_file($subscriber->logfile) =~ /ERROR:  (PW001: no transition from "new" to "worn")/ ? $1 : '' },
	'PW001: no transition from "new" to "worn"',
	'validated: an illegal change is rejected, and the server log says why');
$publisher->wait_for_catchup('free');
is(one($subscriber, 'select state from free where id = 4'), 'used', 'free: the other subscription goes on');
is(one($subscriber, 'select state from validated where id = 4'), 'new', 'validated: the row stays where it was');
is(one($subscriber, "select * from pawl.verify('validated')"), '', 'validated: row and log agree');
$subscriber->safe_psql('postgres', "update validated set state = 'used' where id = 4");
catch_up();
is(one($subscriber, "select state, (select sort_key from validated_transitions where subject_id = 4 and most_recent) "
	. "from validated where id = 4"),
	'worn|3', 'validated: once the row is where the change is legal, it is applied and logged');

# Many rows in one transaction, several state changes in one transaction.
$publisher->safe_psql('postgres', <<'SQL');
insert into own_log select g from generate_series(100, 3000) g;
update own_log set state = 'used' where id >= 100;
begin; update own_log set state = 'worn' where id between 100 and 200; delete from own_log where id = 100;
insert into own_log values (100); commit;
update mirrored set state = 'worn' where id <= 3;
SQL
catch_up();
is(one($subscriber, "select count(*), count(*) filter (where most_recent) from own_log_transitions where "
	. "subject_id >= 100"), '5905|2901', 'own_log: all of it is logged');
is(one($subscriber, "select string_agg(distinct relation || ' ' || problem, ', ') from pawl.verify()"),
	'ignoring log_missing', 'rows and logs agree on the subscriber');
is(one($publisher, 'select * from pawl.verify()'), '', 'and on the publisher');

# A session that plays a replica.
$publisher->safe_psql('postgres',
	"create table always_on (id int primary key, state text not null default 'new'); select pawl.enforce('always_on', "
	. "'state', 'm', always => true), pawl.enable_log('always_on', 'state'); insert into always_on values (1)");
rejected($publisher, "set session_replication_role = replica; update always_on set state = 'worn'", 'PW001',
	'always validates a session in the replica role');
accepted($publisher, "set session_replication_role = replica; update always_on set state = 'used'",
	'and accepts legal state changes');
is(one($publisher, 'select count(*) from always_on_transitions'), 2, 'with their log');
accepted($publisher, "set session_replication_role = replica; update free set state = 'new' where id = 1",
	'without always, a replica is believed');
is(one($publisher, "select relation, key, problem from pawl.verify()"), 'free|1|log_differs',
	'and verify finds what it did');
accepted($publisher, "set session_replication_role = replica; update free set state = 'used' where id = 1", 'put back');
is(one($subscriber, "select count(*) from pawl.health() where status = 'error'"), 0, 'the subscriber is healthy');

# A streaming standby answers questions about the past.
$publisher->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($publisher, 'base', has_streaming => 1);
$standby->start;
$publisher->safe_psql('postgres', "update free set state = 'worn' where id = 2");
$publisher->wait_for_catchup($standby, 'replay', $publisher->lsn('flush'));
is(one($standby, "select string_agg(to_state, ' ' order by sort_key) from pawl.history('free', 2)"), 'new used worn',
	'pawl.history works on a standby');
is(one($standby, "select pawl.state_at('free', 2, now()), pawl.state_at('free', 2, '-infinity') is null"), 'worn|t',
	'pawl.state_at works on a standby');
is(one($standby, "select * from pawl.verify()"), '', 'pawl.verify works on a standby');
is(one($standby, "select count(*) from pawl.health() where status = 'error'"), 0, 'pawl.health works on a standby');
is(one($standby, "select event, to_state, allowed from pawl.available('free', 1)"), 'wear|worn|t',
	'pawl.available works on a standby');
is(one($standby, "select count(*) from pawl.states('m')"), 3, 'pawl.states works on a standby');
like(one($standby, "select pawl.diagram('m')"), qr/new --> used : use/, 'pawl.diagram works on a standby');
rejected($standby, "update free set state = 'worn' where id = 1", '25006', 'standby: it is read-only');
rejected($standby, "select pawl.fire('free', 1, 'wear')", '25006', 'standby: fire says so too');
# Promoted, it validates.
$standby->promote;
rejected($standby, "update free set state = 'new' where id = 1", 'PW001',
	'promoted: an illegal state change is rejected');
accepted($standby, "update free set state = 'worn' where id = 1", 'promoted: legal is done');
is(one($standby, "select sort_key from pawl.history('free', 1) where most_recent"), 3, 'promoted: and logged');
sound($standby, 'promoted');

no_crash($_) for $publisher, $subscriber, $standby;
done_testing();
