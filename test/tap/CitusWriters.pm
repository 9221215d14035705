# Clients that write through a coordinator while nodes are killed, leave or are updated, and the ledger of what they
# were told: test/tap/citus_writer.py. The table is orders (number, state, version).
package CitusWriters;

use strict;
use warnings;
use Exporter 'import';
use FindBin;
use IPC::Run;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(create_orders start_writers stop_writers written_more agrees_with_ledger);

my $rows = 60;
my (@writers, @ledger);

# The table in a schema (public), enforced and logged, and its rows. Citus distributes a table of a distributed schema
# by itself.
sub create_orders
{
	my ($coordinator, $schema) = @_;
	my $distribute = defined $schema ? '' : "select create_distributed_table('orders', 'number');";
	$schema //= 'public';
	$coordinator->safe_psql('postgres', <<"SQL");
set search_path = $schema, public;
select pawl.define('order', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> new : refund
    paid --> sent : send
    sent --> [*]');
create table orders (number bigint primary key, state text not null default 'new', version int not null default 0);
$distribute
select pawl.enforce('orders', 'state', 'order'), pawl.enable_log('orders', hash_chain => true),
    pawl.enable_events('orders');
insert into orders select g from generate_series(1, $rows) g;
SQL
	return;
}

sub start_writers
{
	my ($coordinator, $name, $n, $schema) = @_;
	my $connection = $coordinator->connstr('postgres') . sprintf " options='-csearch_path=%s'", $schema // 'public';
	for my $writer (1 .. $n)
	{
		my %one = (out => '', err => '');
		$one{run} = IPC::Run::start([ 'python3', "$FindBin::Bin/citus_writer.py", $connection,
			"$name$writer", $rows ], '>', \$one{out}, '2>', \$one{err});
		push @writers, \%one;
	}
	return;
}

sub committed
{
	my ($writer) = @_;
	$writer->{run}->pump_nb;
	die "a writer has ended: $writer->{err}" if !$writer->{run}->pumpable;
	return scalar(() = $writer->{out} =~ / committed /g);
}

# Waits until each writer has committed so many transactions more.
sub written_more
{
	my ($more) = @_;
	my @before = map { committed($_) } @writers;
	for my $i (0 .. $#writers)
	{
		wait_until(sub { committed($writers[$i]) >= $before[$i] + $more }, "writer $i to commit $more transactions");
	}
	return;
}

sub stop_writers
{
	for my $writer (@writers)
	{
		$writer->{run}->signal('TERM');
		$writer->{run}->finish;
		is($writer->{err}, '', 'a writer has nothing to complain of');
		push @ledger, split /\n/, $writer->{out};
	}
	@writers = ();
	return;
}

# The log has what clients were told: all of each committed transaction, nothing of one that was rolled back, and all or
# nothing of one whose answer was lost. Returns the ledger's totals by fate.
sub agrees_with_ledger
{
	my ($coordinator, $name, $schema) = @_;
	$schema //= 'public';
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/ledger';
	open(my $out, '>', $file) or die "$file: $!";
	print $out join("\t", split / /), "\n" for @ledger;
	close $out;
	my $wrong = $coordinator->safe_psql('postgres', <<"SQL");
set search_path = $schema;
create temp table ledger (id text primary key, fate text, n int, sqlstate text);
\\copy ledger from '$file'
create temp table entries as select correlation_id as id, count(*) as n from orders_transitions_log
    where correlation_id like '%-%' group by correlation_id;
select format('%s %s %s: %s of %s', coalesce(e.id, l.id), fate, sqlstate, coalesce(e.n, 0), l.n)
  from ledger l full join entries e using (id)
 where case fate when 'committed' then e.n is distinct from l.n when 'rolled_back' then e.n is not null
            when 'unknown' then e.n not in (0, l.n) else true end
    or sqlstate ~ '^(PW|22|23|42)' order by 1 limit 10;
SQL
	is($wrong, '', "$name: the log has exactly what clients were told");
	is(one($coordinator, "select (select sum(version) from $schema.orders) - (select count(*) from "
		. "$schema.orders_transitions_log where correlation_id is not null)"), 0,
		"$name: each change of a row has one entry");
	my %fates;
	++$fates{ (split / /)[1] } for @ledger;
	note(join ', ', map { "$_ $fates{$_}" } sort keys %fates);
	@ledger = ();
	return \%fates;
}

1;
