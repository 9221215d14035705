# pawl sql: what it prints gives the same database as pawl apply, in each format, and can be run again. The locks that
# pawl plan names are those that the steps take.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LifecycleFiles;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
my $tables = <<'SQL';
create table orders (id integer primary key, state text not null);
insert into orders select g, case when g % 2 = 0 then 'cart' else 'paid' end from generate_series(1, 10) g;
create table jobs (id integer primary key, state text not null default 'ready', priority integer not null default 0,
    owner text, lease timestamptz, token bigint not null default 0, attempts integer not null default 0,
    due timestamptz);
create table old_jobs (like jobs including all);
SQL
my $order = orders_diagram("pawl:\n  machine: order\n  tables:\n    - {table: orders, column: state, log: true}\n");
my $job_body = "stateDiagram-v2\n    [*] --> ready\n    ready --> running : start\n    running --> done : finish\n"
	. "    running --> ready : fail\n    done --> [*]\n    class running owned\n"
	. "    done : it's \"done\" at 5:30 \\ :now\n";
my $job = orders_diagram(<<'YAML', $job_body);
pawl:
  machine: job
  tables:
    - table: jobs
      column: state
      log: {keep: 1 year}
      queue: {owner: owner, lease: lease, token: token, attempts: attempts}
      timers: {due: due}
      claiming: {claim: [start], retry: [fail], claim_order: priority desc}
      audit: {on_states: {done: true}}
      placing: true
    - {table: old_jobs, column: state}
YAML
# Later: a state goes, events get other names, a table is left out, policies change and go.
my $later_order = $order =~ s/paid/billed/gr =~ s/machine: order/machine: order\n  remap: {paid: billed}/r;
my $later_job = orders_diagram(<<'YAML', $job_body =~ s/start/begin/r);
pawl:
  machine: job
  tables:
    - table: jobs
      column: state
      on_delete: terminal
      log: {keep: 2 years, only_terminal: false}
      queue: {owner: owner, lease: lease}
      claiming: {claim: [begin]}
      events: {wake: true}
YAML

# A program that reads the migration as its tool does, and prints the statements, each with a line \g behind it.
sub statements_of
{
	my ($format, $text) = @_;
	return $text if $format =~ /psql|flyway/;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/migration';
	PostgreSQL::Test::Utils::append_to_file($file, $text);
	if ($format eq 'rails')
	{
		my $statements = '';
		$statements .= "$2\n;\n" while $text =~ /execute <<'(\w+)'\n(.*?)\n\1\n/sg;
		return $statements;
	}
	my ($out, $err) = PostgreSQL::Test::Utils::run_command([ 'python3', '-c', <<'PYTHON', $file ]);
import re, sys, types
class Operations:
    def RunSQL(self, statements):
        for sql, parameters in statements:
            assert parameters is None
            print(sql + '\n;')
    class Migration: pass
    def execute(self, sql):  # as sqlalchemy.text has it: \: is a colon, :name a parameter
        assert not re.search(r'(?<![:\w\\]):(\w+)(?!:)', sql), sql
        print(re.sub(r'\\(:[\w$]*)(?![:\w$])', r'\1', sql) + '\n;')
operations = Operations()
for module, names in {'django.db': {'migrations': operations}, 'alembic': {'op': operations}}.items():
    sys.modules[module.split('.')[0]] = types.ModuleType(module)
    sys.modules[module] = types.ModuleType(module)
    for name, value in names.items(): setattr(sys.modules[module], name, value)
space = {}
exec(open(sys.argv[1]).read(), space)
if 'upgrade' in space: space['upgrade']()
PYTHON
	diag($err) if $err ne '';
	return $out;
}

my %pictures;
for my $way ('apply', 'psql', 'flyway', 'rails', 'django', 'alembic')
{
	my $database = "by_$way";
	$node->safe_psql('postgres', "create database $database");
	$node->safe_psql($database, "create extension pawl; $tables");
	for my $folder (folder_with('order.mmd' => $order, 'job.mmd' => $job),
		folder_with('order.mmd' => $later_order, 'job.mmd' => $later_job))
	{
		my @where = ('--database', "dbname=$database");
		if ($way eq 'apply')
		{
			my ($out, $status, $err) = command($node, @where, 'apply', '--yes', $folder);
			is($status, 0, 'the folder is applied') or diag("$out$err");
			next;
		}
		my ($sql, $status, $err) = command($node, @where, 'sql', '--format', $way, $folder);
		is($status, 0, "$way: a migration is printed") or diag($err);
		my $statements = statements_of($way, $sql);
		for my $time ('once', 'again')
		{
			my ($state, $said) = sqlstate_of($node, $statements, $database);
			is($state, '', "$way: the migration is run $time") or diag($said);
		}
		is((command($node, @where, 'plan', '--exit-code', $folder))[1], 0, "$way: nothing is left to do");
	}
	$pictures{$way} = definitions($node, $database)
		. $node->safe_psql($database, q{select id, state from orders order by 1;
			select subject_id, sort_key, from_state, to_state, event, machine_version from orders_transitions
			 order by 1, 2;
			select relation::text, tgname from pawl.binding join pg_trigger on tgrelid = relation order by 1, 2});
	is($pictures{$way}, $pictures{apply}, "$way gives the database that apply gives");
	my $verified = $node->safe_psql($database, q{select count(*) from pawl.verify() where problem <> 'placed'});
	is($verified, '0', "$way: pawl.verify finds nothing");
}
like($pictures{apply}, qr/claim => '\{begin\}'/, 'the pictures show the later files');
is((command($node, '--database', 'dbname=by_psql', 'sql', '--format', 'liquibase',
	folder_with('a.mmd' => $order)))[1], 2,
	'an unknown format is a usage error');

# Locks: each step in a transaction after those before it, in a session of its own.
$node->safe_psql('postgres', 'create database locks');
$node->safe_psql('locks', "create extension pawl; $tables");
my @modes = ('ACCESS SHARE', 'ROW SHARE', 'ROW EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE', 'SHARE', 'SHARE ROW EXCLUSIVE',
	'EXCLUSIVE', 'ACCESS EXCLUSIVE');
my %strength = map { $modes[$_] => $_ } 0 .. $#modes;
my $measured = 0;
for my $folder (folder_with('order.mmd' => $order, 'job.mmd' => $job),
	folder_with('order.mmd' => $later_order, 'job.mmd' => $later_job))
{
	my $plan = json_of($node, '--database', 'dbname=locks', 'plan', $folder);
	for my $step (@{ $plan->{steps} })
	{
		my $taken = $node->safe_psql('locks', "begin;\n$step->{sql};\n" . <<'SQL');
select l.relation::regclass || '=' || upper(regexp_replace(replace(l.mode, 'Lock', ''), '(\w)([A-Z])', '\1 \2', 'g'))
  from pg_locks l where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.relation in ('orders'::regclass,
    'jobs'::regclass, 'old_jobs'::regclass);
commit;
SQL
		my %allowed = map { ($_->{table} =~ s/^public\.//r) => $strength{ $_->{mode} } } @{ $step->{locks} };
		my @stronger;
		for my $line (grep { /=/ } split /\n/, $taken)
		{
			my ($table, $mode) = $line =~ /^(\w+)=(.*)$/ or next;
			die "unknown lock $mode" unless exists $strength{$mode};
			$measured++;
			push @stronger, $line if $strength{$mode} > ($allowed{$table} // $strength{'ROW EXCLUSIVE'});
		}
		is("@stronger", '', "no stronger lock than planned: $step->{title}");
	}
}
cmp_ok($measured, '>', 20, 'locks were seen');

no_crash($node);
done_testing();
