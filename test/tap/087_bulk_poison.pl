# SQL functions over rows that end their transaction or their session: the run is on record, its rows are divided until
# the one that does it is alone, that one fails, and all others go on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PawlPrograms;
use Test::More;

my $node = new_cluster('main', conf => 'max_connections = 60', with => [ 'pawl_bulk' ]);
endless($node);
$node->safe_psql('postgres', <<'SQL');
create table public.done_with (operation uuid, row_number bigint, step text);
create table public.kept (id int unique deferrable initially deferred);
insert into public.kept values (1);
create function public.fine(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
    $$ insert into public.done_with select fine.operation, n, 'fine' from unnest(row_numbers) n;
            select null::bigint, null::text where false $$;
-- A row of {"is": "slow"} never ends, of "deadly" ends the session, of "late" fails at the commit.
create function public.touchy(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language plpgsql as $$
declare r jsonb;
begin
    foreach r in array rows loop
        if r ->> 'is' = 'slow' then perform public.endless(); end if;
        if r ->> 'is' = 'deadly' then perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(600); end if;
        if r ->> 'is' = 'late' then insert into public.kept values (1); end if;
    end loop;
    insert into public.done_with select touchy.operation, n, 'touchy' from unnest(row_numbers) n;
end $$;
select pawl_bulk.define('{"name": "first", "track_row_data": true, "max_takeovers": 1, "steps": [{"name": "touchy", '
    '"handler": "sql:public.touchy"}, {"name": "fine", "handler": "sql:public.fine"}]}');
select pawl_bulk.define('{"name": "second", "track_row_data": true, "max_takeovers": 1, "steps": [{"name": "fine", '
    '"handler": "sql:public.fine"}, {"name": "touchy", "handler": "sql:public.touchy"}]}');
SQL

sub submit
{
	my ($definition, $rows, %bad) = @_;
	my $of = join ' ', map { "when i = $_ then '$bad{$_}'" } keys %bad;
	return one($node, "select operation from pawl_bulk.submit('$definition', rows => (select "
		. "jsonb_agg(jsonb_build_object('is', case $of else 'fine' end)) from generate_series(1, $rows) i))");
}

# The duties by hand; each call in a session of its own, that may end. No backoff is waited for.
my %met;
sub turn
{
	my ($hurry) = @_;
	for my $statement ('select from pawl_bulk.advance()', q{call pawl_bulk.work_sql_rows(5000, '100 ms')},
		'select from pawl.fire_due()')
	{
		my ($state) = sqlstate_of($node, "set statement_timeout = '1 min'; $statement;");
		$met{$state}++ if $state;
	}
	$node->safe_psql('postgres', q{update pawl_bulk.work set due = clock_timestamp()
			where due < clock_timestamp() + interval '1 h'; update pawl_bulk.sql_runs set again_at = clock_timestamp()
			where again_at is not null}) if $hurry;
	return;
}
sub failed { my ($operation) = @_; return one($node, "select string_agg(row_number || ' ' || step_index || ' ' || "
	. "state || ' ' || error_type || ' ' || error_message, ', ' order by row_number) from pawl_bulk.records where "
	. "operation = '$operation' and state <> 'Completed'")
	}
sub at_rest
{
	my (@operations) = @_;
	return one($node, "select count(*) from pawl_bulk.operations where operation in ("
			. join(',', map { "'$_'" } @operations) . ') and completed_at is not null') == @operations
}

my @bad = map { submit($_, 20, 3 => 'slow', 12 => 'late', 20 => 'deadly') } qw(first second);
my $good = submit('first', 2000, 0 => 'none');
wait_until(sub { turn(); at_rest($good) }, 'the operation behind them');
wait_until(sub { turn('hurry'); at_rest(@bad) }, 'the bad ones to end');
is(one($node, "select status from pawl_bulk.operations where operation = '$good'"), 'Completed',
	'what is behind them is done');
for my $i (0, 1)
{
	is(failed($bad[$i]), join(', ', map { "$_ $i Failed StepFailure 2 workers were lost" } 3, 12, 20),
		'the rows that did it have lost their workers, and no other has failed') ;
	is(one($node, "select o.status || ' ' || c.successful || ' ' || c.failed from pawl_bulk.operations o, "
			. "pawl_bulk.recount('$bad[$i]') c where o.operation = '$bad[$i]'"),
		'CompletedWithErrors 17 3', 'and are counted');
	is(one($node, "select differs from pawl_bulk.recount('$bad[$i]')"), 'f', 'as a recount would');
}
is(one($node, q{select count(*) || ' ' || count(distinct (operation, row_number, step)) from public.done_with}),
	join(' ', (2 * 17 + 17 + 20 + 2 * 2000) x 2), 'every function has had every other row, once');
cmp_ok($met{$_} // 0, '>=', 2, "$_ was met on the way") for '57014', '57P01', '23505';
sound($node, 'after all of them');
is(one($node, 'select * from pawl_bulk.verify()'), '', 'and pawl_bulk.verify() finds nothing');

# Work whose session still runs is not reaped, however short its lease. When the session is gone it is, however long.
my $slow = submit('first', 1, 1 => 'slow');
wait_until(sub { one($node, 'select done from pawl_bulk.advance()') == 0 }, 'the row to be ready');
for my $loss ([ 1, '1 ms', '<' ], [ 2, '1 hour', '>' ])
{
	my ($losses, $lease, $ends) = @$loss;
	my $run = $node->background_psql('postgres', on_error_stop => 0);
	$run->query_until(qr/go/, "\\echo go\ncall pawl_bulk.work_sql_rows(10, '$lease');\n");
	$node->poll_query_until('postgres', qq{select count(*) = 1 from pawl_bulk.sql_runs r join pg_stat_activity a
		on a.pid = r.session where lease_until $ends clock_timestamp() and wait_event = 'PgSleep'}) or die;
	$node->safe_psql('postgres', 'call pawl_bulk.work_sql_rows()');
	is(one($node, 'select count(*) from pawl_bulk.sql_runs where lost_at is null'), 1,
		"lease of $lease: the run of a session at work is left to it");
	is(one($node, qq{select pg_terminate_backend(session) from pawl_bulk.sql_runs where operation = '$slow'}), 't',
		'which is ended');
	$node->poll_query_until('postgres', qq{select count(*) = 0 from pg_stat_activity a
		join pawl_bulk.sql_runs r on r.session = a.pid where r.operation = '$slow'}) or die;
	$node->safe_psql('postgres', 'call pawl_bulk.work_sql_rows()');
	is(one($node, qq{select coalesce(w.takeovers || ' workers were lost', r.error_message) from pawl_bulk.records r
		left join pawl_bulk.work w using (operation, row_number, step_index) where r.operation = '$slow'}),
		"$losses workers were lost", 'and then is missed');
	$run->{run}->kill_kill;
	$node->safe_psql('postgres', 'update pawl_bulk.work set due = clock_timestamp() where due is not null;
		select from pawl.fire_due()');
}
is(one($node, "select pawl_bulk.cancel('$slow')"), 't', 'it can be cancelled');

# Notices: one try each, and the others are delivered.
$node->safe_psql('postgres', <<'SQL');
create table public.told (key text);
create function public.tell(notice jsonb) returns void
    language sql as $$ insert into public.told values (notice ->> 'key') $$;
create function public.tell_slowly(notice jsonb) returns void
    language sql as $$ select public.endless() $$;
create function public.tell_deadly(notice jsonb) returns void
    language plpgsql as $$ begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(600); end $$;
select pawl_bulk.cancel(operation) from pawl_bulk.submit('first', rows => '[]',
    notifications => '[{"channel": "sql", "target": "public.tell_slowly", "triggers": ["cancelled"]},
    {"channel": "sql", "target": "public.tell_deadly", "triggers": ["cancelled"]},
        {"channel": "sql", "target": "public.tell", "triggers": ["cancelled"]}]');
update pawl_bulk.notices set max_tries = 2;
SQL
wait_until(sub {
	sqlstate_of($node, "set statement_timeout = '1 min'; $_;")
		for q{call pawl_bulk.work_sql_notices(10, '50 ms')}, 'select from pawl.reap()', 'select from pawl.fire_due()';
	$node->safe_psql('postgres', q{update pawl_bulk.notices set due = clock_timestamp() where due is not null});
	one($node, q{select count(*) from pawl_bulk.notices where ended_at is null and state <> 'failed'}) == 0
	}, 'the notices to end');
is(one($node,
		q{select string_agg(target || ' ' || state || ' ' || tries, ', ' order by target) from pawl_bulk.notices}),
	'public.tell delivered 1, public.tell_deadly failed 2, public.tell_slowly failed 2',
	'each notice has its tries, and the good one is delivered');
is(one($node, 'select count(*) from public.told'), 1, 'the good notice was delivered once');

rejected($node, 'begin; call pawl_bulk.work_sql_rows();', '2D000',
	'the duty commits, so it is not for inside a transaction');
rejected($node, 'call pawl_bulk.work_sql_rows(0)', '22023', 'nor for no row');
no_crash($node);
done_testing();
