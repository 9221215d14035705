# A table is attached online while sessions write it; pawl.validate is killed at any point, with the server, and
# resumed, also after a dump: every row's history begins exactly once.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use IPC::Run;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = 8000;
my $barrier = 1200;    # rows that no writer takes, a multiple of this, stop a validation when they are locked
my $node = new_cluster('main', conf => "fsync = off\n");
my $dir = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', <<"SQL");
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> busy : start
    busy --> ready : fail
    busy --> done : finish
    done --> [*]');
create table plain (id bigint primary key, state text not null, note text);
create table parted (id bigint primary key, state text not null, note text) partition by range (id);
create table parted_1 partition of parted for values from (0) to (@{[ $rows / 2 ]});
create table parted_2 partition of parted for values from (@{[ $rows / 2 ]}) to (1000000);
insert into plain select n, case n % 3 when 0 then 'done' when 1 then 'busy' else 'ready' end
    from generate_series(1, $rows) n;
insert into parted select * from plain;
SQL

# Writers: state changes, other changes, deletions, and rows that come.
my $script = "$dir/write.pgbench";
append_to_file($script, <<"SQL");
\\set row random(1, $rows)
\\set row :row - case when :row % $barrier = 0 then 1 else 0 end
\\set what random(1, 10)
\\set fresh random($rows + 1, 900000)
\\if :what < 6
update TABLE set state = case state when 'ready' then 'busy' when 'busy' then 'ready' else state end where id = :row;
\\elif :what < 8
update TABLE set note = 'touched' where id = :row;
\\elif :what < 9
delete from TABLE where id = :row;
\\else
insert into TABLE values (:fresh, 'ready') on conflict do nothing;
\\endif
SQL

sub writers
{
	my ($table) = @_;
	my $own = "$script.$table";
	(my $text = slurp_file($script)) =~ s/TABLE/$table/g;
	unlink($own);
	append_to_file($own, $text);
	my $output = '';
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
	return IPC::Run::start([ 'pgbench', '-n', '-c', 3, '-T', 600, '-f', $own, 'postgres' ], '>&', \$output);
}

sub stop_writers
{
	my ($writers) = @_;
	$writers->kill_kill;
	return;
}

# Begins pawl.validate_all, and returns the process ID of its backend.
sub validating
{
	my ($table) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query('select pg_backend_pid()');
	$session->query_until(qr/started/, "\\echo started\ncall pawl.validate_all('$table', batch => 50);\n");
	return ($session, $pid);
}

my $checked = sub {
	return one($node, "select coalesce(sum(checked), 0) from pawl.validation where relation = '$_[0]'::regclass");
};
my $sound = sub {
	my ($table, $name, $database) = @_;
	is($node->safe_psql($database // 'postgres', "select * from pawl.verify('$table')"), '',
		"$name: rows and log agree");
	is($node->safe_psql($database // 'postgres', "select count(*) from (select subject_id from "
				. "${table}_transitions_log where event = 'pawl.attach' group by 1 having count(*) > 1) t"),
		0, "$name: no history begins twice");
	is($node->safe_psql($database // 'postgres', "select count(*) from $table r where not exists (select from "
				. "${table}_transitions_log l where l.subject_id = r.id and l.sort_key = 1)"),
		0, "$name: every row has one");
};

for my $table ('plain', 'parted')
{
	my $writers = writers($table);
	$node->safe_psql('postgres', "select pawl.enforce('$table', 'state', 'job', validate => false), "
			. "pawl.enable_log('$table', hash_chain => " . ($table eq 'plain' ? 'true' : 'false') . ")");
	my $stop = 0;
	for my $accident ('terminate', 'KILL', 'cancel', 'KILL', 'immediate')
	{
		# however slowly this program looks, the validation does not end before the accident
		my $locker = $node->background_psql('postgres', on_error_stop => 0);
		$stop += $barrier;
		$locker->query("begin; select from $table where id = $stop for update");
		my $before = $checked->($table);
		my ($session, $pid) = validating($table);
		my $seen;
		wait_until(sub {
			$seen = $checked->($table);
			$seen > $before + 300 || one($node, "select cardinality(pg_blocking_pids($pid))") > 0
		}, 'some batches');
		if ($accident eq 'immediate')
		{
			$node->stop('immediate');
			$node->start;
		}
		elsif ($accident eq 'KILL')
		{
			kill('KILL', $pid);
			wait_until(sub { slurp_file($node->logfile) =~ /\(PID $pid\) was terminated by signal 9/ },
				'the postmaster to notice');
			wait_until(sub { is_ready($node) }, 'the recovery');
		}
		else
		{
			$node->safe_psql('postgres', "select pg_${accident}_backend($pid)");
		}
		eval { $_->quit } for $session, $locker;
		cmp_ok($checked->($table), '>=', $seen, "$table, $accident: what was committed stays");
		stop_writers($writers);
		$writers = writers($table);
	}
	# two sessions at once, beside the writers; neither ends before the dump
	my $locker = $node->background_psql('postgres');
	$locker->query("begin; select from $table where id = $stop + $barrier for update");
	my ($one, $other) = map { (validating($table))[0] } 1 .. 2;

	if ($table eq 'plain')
	{
		# a dump of the middle goes on where it was
		$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/middle", $node->connstr('postgres') ],
			'a dump of the middle');
		$node->safe_psql('postgres', 'create database copy');
		$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('copy'), "$dir/middle" ], 'is restored');
		is($node->safe_psql('copy', "select validated from pawl.binding where relation = 'plain'::regclass"), 'f',
			'a restored binding is not validated');
		rejected($node, "insert into plain values (0, 'done')", 'PW002', 'but enforced', 'copy');
		cmp_ok($node->safe_psql('copy', "select checked from pawl.validation where relation = 'plain'::regclass"), '>',
			0, 'the position is restored');
		$node->safe_psql('copy', "call pawl.validate_all('plain')");
		$sound->('plain', 'restored', 'copy');
	}
	$locker->quit;
	$_->query('select 1') for $one, $other;
	is(one($node, "select validated from pawl.binding where relation = '$table'::regclass"), 't',
		"$table: two sessions end it");
	stop_writers($writers);
	$_->quit for $one, $other;
	$sound->($table, $table);
	is(one($node, "select count(*) from pawl.validation where relation = '$table'::regclass"), 0,
		"$table: no position is left");
}
sound($node, 'in the end');
done_testing();
