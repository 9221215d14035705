# Partitioned logs are dumped and restored in every form, pruned ends with them; partitions go while rows of others
# move, and a server that is killed in between keeps log and ends together.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
my $dir = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', <<'SQL');
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : complete
    done --> ready : again
    done --> [*]');
create table ranges (part int, id int, state text not null default 'ready', primary key (part, id));
create table hashes (id int primary key, state text not null default 'ready');
select pawl.enforce('ranges', 'state', 'job'),
    pawl.enable_log('ranges', 'state', most_recent => 'stored', hash_chain => true, log_partition => 'range (part)');
select pawl.enforce('hashes', 'state', 'job'),
    pawl.enable_log('hashes', 'state', log_partition => 'hash (id) partitions 3');
create table ranges_1 partition of ranges_transitions for values from (1) to (2);
create table ranges_2 partition of ranges_transitions for values from (2) to (3);
create table ranges_3 partition of ranges_transitions for values from (3) to (4);
select pawl.audit('ranges', '{"done": true}');
insert into ranges select p, i from generate_series(0, 3) p, generate_series(1, 20) i;
insert into hashes select generate_series(1, 50);
update ranges set state = 'running';
update ranges set state = 'done' where part in (1, 2) or id < 5;
update hashes set state = 'running';
delete from ranges where part = 1 and id > 10;
select pawl.prune_log('ranges', '0');
SQL
is(one($node, 'select count(*) from ranges_transitions_pruned where whole'), 30,
	'ends of rows whose partition is gone');
is(one($node, "select to_regclass('ranges_1') is null and to_regclass('ranges_2') is null"), 't', 'and gone they are');

my $picture = "select 'r', count(*), md5(string_agg(t::text, '|' order by part, subject_id, sort_key)) from "
	. "ranges_transitions t union all "
  . "select 'h', count(*), md5(string_agg(t::text, '|' order by subject_id, sort_key)) from hashes_transitions_log "
  . "t union all "
  . "select 'p', count(*), md5(string_agg(t::text, '|' order by part, subject_id)) from ranges_transitions_pruned "
  . "t union all "
  . "select 'a', count(*), md5(string_agg(t::text, '|' order by part, subject_id, transition_id)) from "
  . "ranges_result_audit t union all "
  . "select 'm', count(*), string_agg(m::regclass::text, ' ' order by m::regclass::text) from pawl.binding b, "
  . "pawl._members(b.history) m";
my $original = one($node, $picture);

sub goes_on
{
	my ($name, $database) = @_;
	is(one($node, $picture, $database), $original, "$name: everything is there");
	sound($node, $name, $database);
	rejected($node, 'delete from ranges_3', 'PW006', "$name: a partition is guarded", $database);
	rejected($node, 'truncate hashes_transitions_log_p1', 'PW006', "$name: another, too", $database);
	$node->safe_psql($database, <<'SQL');
update ranges set state = 'ready' where part in (1, 2);
insert into ranges_transitions (part, subject_id, event) values (1, 1, 'start');
insert into ranges_3 (part, subject_id, event) values (3, 15, 'complete');
update hashes set state = 'done';
create table ranges_4 partition of ranges_transitions for values from (4) to (5);
insert into ranges values (4, 1);
SQL
	is(one($node, "select string_agg(concat_ws(' ', sort_key, from_state, to_state), ', ' order by sort_key) from "
		. "pawl.history('ranges', row(1, 1))", $database),
		'4 done ready, 5 ready running', "$name: rows go on from the ends that are known");
	is(one($node, "select (pawl.prune_log('hashes', '0')).removed", $database), 150,
		"$name: whole partitions of a hash");
	is(one($node, "select (pawl.prune_log('ranges', '0')).removed > 0", $database), 't',
		"$name: and what has ended of ranges");
	sound($node, "$name, moved and pruned", $database);
	return;
}

for my $form (['plain', '-Fp'], ['custom', '-Fc'], ['by root', '-Fc', '--load-via-partition-root'],
	['inserts', '-Fp', '--column-inserts'])
{
	my ($name, @options) = @{$form};
	(my $database = "from_$name") =~ s/ /_/;
	$node->command_ok(['pg_dump', @options, '-f', "$dir/$database", 'postgres'], "$name: dumped");
	$node->safe_psql('postgres', "create database $database");
	if ($options[0] eq '-Fp')
	{
		$node->command_ok(['psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $database, '-f', "$dir/$database"],
			"$name: restored");
	}
	else { $node->command_ok(['pg_restore', '-e', '-d', $database, "$dir/$database"], "$name: restored"); }
	goes_on($name, $database);
}
$node->command_ok(['pg_dump', '-Fd', '-f', "$dir/folder", 'postgres'], 'folder: dumped');
$node->safe_psql('postgres', 'create database from_folder');
# In sections, because the log is partitioned: docs/operations.md.
$node->command_ok(['pg_restore', '-e', '-j2', "--section=$_", '-d', 'from_folder', "$dir/folder"],
	"folder: restored by two at once, $_") for qw(pre-data data post-data);
goes_on('folder', 'from_folder');

# Two sessions change states, each in its own partitions, and one prunes: the state
# changes never wait for it, and nothing is lost.
$node->safe_psql('postgres', <<'SQL');
create table busy (part int, id int, state text not null default 'ready', primary key (part, id));
select pawl.enforce('busy', 'state', 'job'), pawl.enable_log('busy', 'state', log_partition => 'range (part)');
select format('create table busy_%s partition of busy_transitions_log for values from (%1$s) to (%s)', n, n + 1)
    from generate_series(0, 19) n \gexec
SQL
$node->safe_psql('postgres', 'create sequence current_part');
my $script = "$dir/busy.sql";
append_to_file($script, <<'SQL');
\set part random(0, 3)
insert into busy select last_value + :part, :client_id * 1000000 + (random() * 999999)::int
    from current_part on conflict do nothing;
update busy set state = case state when 'ready' then 'running' else 'done' end
    where (part, id) in (select part, id from busy where state <> 'done' order by part limit 5 for update skip locked);
SQL
my ($removed, $rounds) = (0, 0);
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
my $load = IPC::Run::start(['pgbench', '-n', '-f', $script, '-c', '3', '-R', '400', '-T', '600', 'postgres'], '>',
	'/dev/null', '2>', "$dir/complaints");
while ($removed == 0 && $rounds < 1000 || $rounds < 30)
{
	$removed += one($node, "select removed from pawl.prune_log('busy', '0')");
	one($node, "select nextval('current_part')") if ++$rounds % 3 == 0;
}
$load->signal('TERM');
eval { $load->finish };
unlike(slurp_file("$dir/complaints"), qr/ERROR|aborted/, 'no state change failed');
cmp_ok($removed, '>', 0, 'entries were pruned meanwhile');
one($node, "select removed from pawl.prune_log('busy', '0')");
cmp_ok(one($node, "select count(*) from generate_series(0, 19) n where to_regclass('busy_' || n) is null"), '>', 0,
	'partitions are dropped when no session writes');
sound($node, 'after that');
$node->safe_psql('postgres', "update busy set state = 'ready' where state = 'done' and id % 2 = 0");
sound($node, 'rows whose log is gone go on');

# Killed while a partition is being emptied: log and ends are of one mind.
for my $round (1 .. 3)
{
	$node->safe_psql('postgres', "update busy set state = 'running' where state = 'ready'; update busy set state = "
		. "'done' where state = 'running'");
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query("begin; select pawl.prune_log('busy', '0')");
	$node->stop('immediate');
	eval { $session->{run}->finish };
	$node->start;
	sound($node, "killed, round $round");
}
cmp_ok(one($node, "select removed from pawl.prune_log('busy', '0')"), '>', 0, 'pruned after all');
sound($node, 'in the end');
done_testing();
