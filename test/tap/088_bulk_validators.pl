# Validators that end their session, run into statement_timeout, or fail at the commit: the attempt is on record, the
# row that does it fails alone, or the operation where it is the metadata, and the other
# operations go on meanwhile. By hand, and by pawld.
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
create table public.called (what text);
create table public.kept (id int unique deferrable initially deferred);
insert into public.kept values (1);
create function public.touch(what text) returns void language plpgsql as $$
begin
    insert into public.called values (what);
    if what = 'slow' then perform public.endless(); end if;
    if what = 'deadly' then perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(600); end if;
    if what = 'late' then insert into public.kept values (1); end if;
    if what = 'shutdown' then raise exception 'no shutdown' using errcode = '57P01'; end if;
    if what = 'cancel' then raise exception 'no cancel' using errcode = '57014'; end if;
end $$;
create function public.valid(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, code text, message text) language plpgsql as $$
begin
    perform public.touch(r ->> 'is') from unnest(rows) r;
end $$;
create function public.valid(metadata jsonb) returns table (code text, message text) language plpgsql as $$
begin
    perform public.touch(metadata ->> 'is');
end $$;
create function public.work(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
    returns table (row_number bigint, message text) language sql as
    $$ select null::bigint, null::text where false $$;
select pawl_bulk.define('{"name": "checked", "track_row_data": true, "metadata_validators": ["public.valid"],
    "validators": ["public.valid"],
    "steps": [{"name": "work", "handler": "sql:public.work"}]}');
create role helper login in role pawl_operator;
grant usage on schema public to helper;
grant insert on public.called, public.kept to helper;
SQL

# priority 9: the poisoned ones come first
sub submit
{
	my ($rows, %given) = @_;
	my $bad = $given{bad} // {};
	my $of = join ' ', map { "when i = $_ then '$bad->{$_}'" } 0, keys %$bad;
	$of =~ s/when i = 0 then ''//;
	$of ||= 'when false then null';
	return one($node, "select operation from pawl_bulk.submit('checked', jsonb_build_object('is', '"
		. ($given{metadata} // 'fine') . "'), "
		. "rows => (select jsonb_agg(jsonb_build_object('is', case $of else 'fine' end) order by i) from "
					. "generate_series(1, $rows) i), priority => " . ($given{priority} // 0) . ')');
}

my %met;
sub turn
{
	my (%how) = @_;
	for my $statement (@{$how{duties} // ['call pawl_bulk.work_operations()', 'call pawl_bulk.work_sql_rows()']})
	{
		my $error;
		# a session of the role itself, which may end its own session only
		$node->psql('postgres', "set statement_timeout = '1 min'; $statement;", stderr => \$error,
			extra_params => ['-U', $how{role} // 'postgres', '-v', 'VERBOSITY=sqlstate']);
		$met{$1}++ if $error =~ /(?:ERROR|FATAL):  (\w{5})/;
	}
	$node->safe_psql('postgres', 'update pawl_bulk.troubles set again_at = clock_timestamp()') if $how{hurry};
	return;
}
sub at_rest
{
	return one($node, 'select count(*) from pawl_bulk.operations where operation in (' . join(',', map { "'$_'" } @_)
			. ') and completed_at is not null') == @_
}
sub outcome
{
	my ($operation) = @_;
	return one($node, "select concat_ws(' ', o.status, c.successful, c.failed,
             (select string_agg(v.row_number || ' ' || (v.errors -> 0 ->> 'sqlstate'), ', ' order by v.row_number)
		from pawl_bulk.validations v where v.operation = o.operation and v.errors is not null))
         	from pawl_bulk.operations o, pawl_bulk.recount(o.operation) c where o.operation = '$operation'");
}
sub behind_them { my ($what, %how) = @_; my @good = map {
	submit(50)
} 1 .. 3; wait_until(sub { turn(%how); at_rest(@good) }, "those behind $what"); return @good }

my @kinds = qw(deadly slow late shutdown cancel);
my %code = (deadly => '57P01', slow => '57014', late => q(57P01), shutdown => '57P01', cancel => '57014');
my @rows = map { submit(7, bad => {4 => $_}, priority => 9) } @kinds;
my @metadata = map { submit(2, metadata => $_, priority => 9) } @kinds;
# Each duty tries each of them once at the most, and the sixth loss is one too many.
turn() for 1 .. 2;
is(one($node, "select count(*) from pawl_bulk.operations where status = 'Failed'"), 0,
	'none of them fails for the loss of one session');
my @good = behind_them('ten that end their session or transaction');
is(outcome($_), 'Completed 50 0', 'an operation behind them is done') for @good;
isnt(one($node, q{select count(*) from pawl_bulk.troubles where sqlstate = '57P01'}), 0, 'losses are on record');

wait_until(sub { turn(hurry => 1); at_rest(@rows, @metadata) }, 'the poisoned ones to end');
is(outcome($rows[$_]), "CompletedWithErrors 6 1 4 $code{$kinds[$_]}", "the row that is $kinds[$_] fails alone")
	for 0 .. $#kinds;
for my $i (0 .. $#kinds)
{
	like(one($node,
			"select status || ' ' || error_message from pawl_bulk.operations where operation = '$metadata[$i]'"),
		qr/^Failed .+/, "metadata that are $kinds[$i] fail the operation, and say why");
}
like(one($node, "select error_message from pawl_bulk.operations where operation = '$metadata[0]'"),
	qr/the metadata could not be validated: the session or transaction that validated was lost/,
	'the error of an operation says that the validating session was lost');
cmp_ok($met{$_} // 0, '>=', 2, "$_ was met on the way") for '57014', '57P01', '23505';
is(one($node, q{select count(*) from pawl_bulk.validation_attempts}), 0, 'no attempt is left');
is(one($node, q{select count(*) from public.called where what <> 'fine'}), 0, 'nothing of what they did remains');
is(one($node, 'select count(*) from pawl_bulk.troubles'), 0, 'nor of their troubles');
is(one($node, 'select * from pawl_bulk.verify()'), '', 'and pawl_bulk.verify() finds nothing');
sound($node, 'after all of them');

# The session that helps to validate is lost in the same way.
my $helped = submit(3, bad => {2 => 'deadly'});
$node->safe_psql('postgres', "update pawl_bulk.operations set status = 'Validating' where operation = '$helped'; "
	. "select pawl_bulk._lay_unvalidated('$helped')");
turn(duties => ['call pawl_bulk.work_sql_rows()']);
is(one($node, "select count(*) from pawl_bulk.validation_attempts where operation = '$helped'"), 1,
	'a helper that is lost leaves its attempt');
turn(duties => ['call pawl_bulk.work_sql_rows()']);
is(one($node, "select failures || ' ' || sqlstate from pawl_bulk.troubles where operation = '$helped'"), '1 57P01',
	'which the next one counts');
wait_until(sub { turn(hurry => 1, role => 'helper'); at_rest($helped) }, 'the helped one to end, by a worker');
is(outcome($helped), 'CompletedWithErrors 2 1 2 57P01', 'its row fails alone, and a worker may do all this');

# An attempt under way is not lost, however short its lease.
my $long = submit(1, bad => {1 => 'slow'});
wait_until(sub {
	turn(duties => ['call pawl_bulk.work_operations(10)']);
	one($node, "select count(*) from pawl_bulk.unvalidated where operation = '$long'") == 1
}, 'the block to be there');
$node->safe_psql('postgres', 'delete from pawl_bulk.troubles');
my $run = $node->background_psql('postgres', on_error_stop => 0);
$run->query_until(qr/go/, "\\echo go\ncall pawl_bulk.work_operations(10, '1 ms');\n");
$node->poll_query_until('postgres', q{select count(*) = 1 from pawl_bulk.validation_attempts r
		join pg_stat_activity a on a.pid = r.session where lease_until < clock_timestamp() and wait_event = 'PgSleep'})
	or die 'it does not run';
turn();
is(one($node,
		'select count(*) || $$ $$ || (select count(*) from pawl_bulk.troubles) from pawl_bulk.validation_attempts'),
	'1 0', 'an attempt whose session is at work is not counted as lost');
my $other = submit(5);
wait_until(sub { turn(); at_rest($other) }, 'another operation beside it');
is(one($node, 'select pg_cancel_backend(session) from pawl_bulk.validation_attempts'), 't', 'it is cancelled');
$node->poll_query_until('postgres', 'select count(*) = 0 from pawl_bulk.validation_attempts')
	or die 'the attempt stays';
is(one($node, "select failures || ' ' || sqlstate from pawl_bulk.troubles where operation = '$long'"), '1 57014',
	'a cancelled attempt is counted once');
$run->{run}->kill_kill;
is(one($node, "select pawl_bulk.cancel('$long')"), 't', 'it can be cancelled');

rejected($node, 'begin; call pawl_bulk.work_operations();', '2D000',
	'the duty commits, so it is not for inside a transaction');
rejected($node, 'call pawl_bulk.work_operations(0)', '22023', 'nor for no row');
rejected($node, q{call pawl_bulk.work_operations(1, '0')}, '22023', 'nor without a lease');
rejected($node, 'set role pawl_reader; call pawl_bulk.work_operations()', '42501', 'nor for a reader');
rejected($node,
	"set role helper; insert into pawl_bulk.validation_attempts (operation, lease_until) values ('$long', now())",
	'42501', 'a worker does not forge losses');

# pawld sees it in the same way.
my @poison = map { submit(2, bad => {1 => 'deadly'}, priority => 9),
	submit(1, metadata => 'deadly', priority => 9) } 1 .. 2;
@good = map { submit(20) } 1 .. 10;
my $daemon = begin_program($node, 'pawld', '--longest-poll-ms', 100, '--sql-workers', 1);
wait_until(sub { at_rest(@good) }, 'the good ones');
# Where a loss is on record: while it is tried again, and after the last try.
sub was_lost
{
	my ($operation) = @_;
	return one($node, "select exists (select from pawl_bulk.troubles t where t.operation = o.operation
		and t.sqlstate = '57P01') or exists (select from pawl_bulk.validations v where v.operation = o.operation
		and v.errors -> 0 ->> 'sqlstate' = '57P01')
		or coalesce(o.error_message, '') ~ 'transaction that validated was lost'
		from pawl_bulk.operations o where o.operation = '$operation'") eq 't';
}
becomes(sub { scalar grep { was_lost($_) } @poison }, 4, 'pawld counts the losses of its own sessions');
is(end_program($daemon, 'TERM'), 0, 'pawld is still there and ends with 0 after SIGTERM');
no_crash($node);
done_testing();
