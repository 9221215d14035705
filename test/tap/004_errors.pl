# Errors of the kernel: what guards and effects raise, cancellation in the middle, ten thousand of them, memory that
# runs out, and what the shared library shows to the server.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
create table t (id int primary key, state text not null default 'new', mood text, n int not null default 0);
create table u (id int primary key, state text not null default 'new');
create function guard(old t, new t) returns boolean language plpgsql as $$
begin
    if new.mood = 'error' then
        raise exception using errcode = '23514', message = 'the guard broke', detail = 'its detail', hint = 'its hint',
            constraint = 'k';
    elsif new.mood = 'pw' then raise exception using errcode = 'PW001', message = 'a PW of its own';
    elsif new.mood = 'zero' then return 1 / new.n > 0;
    elsif new.mood = 'sleep' then perform pg_sleep(1000);
    elsif new.mood = 'write' then update u set state = 'used' where id = new.id;
    end if;
    return new.mood is distinct from 'no';
end$$;
create function effect(old t, new t) returns void language plpgsql as $$
begin
    if new.mood = 'effect' then
        raise exception using errcode = 'P0042', message = 'the effect broke', detail = 'its detail', hint = 'its hint';
    elsif new.mood = 'effect sleeps' then perform pg_sleep(1000);
    end if;
end$$;
select pawl.define('u', 'stateDiagram-v2
    [*] --> new
    new --> used : use
    used --> [*]');
select pawl.define('t', 'stateDiagram-v2
    [*] --> new
    new --> old : age [guard] / effect
    new --> odd : age
    new --> odd : sidestep
    old --> new : renew
    old --> [*]');
select pawl.enforce('t', 'state', 't'), pawl.enable_log('t', 'state');
select pawl.enforce('u', 'state', 'u'), pawl.enable_log('u', 'state');
insert into t select g from generate_series(1, 20) g;
insert into u select g from generate_series(1, 20) g;
SQL

# What guards and effects raise arrives as they said it.
my $err = rejected($node, "update t set state = 'old', mood = 'error' where id = 1", '23514',
	'a guard raises by UPDATE');
like($err,
	qr/the guard broke\nDETAIL:  its detail\nHINT:  its hint\nCONTEXT:  PL\/pgSQL function guard\(t,t\) line 4 at RAISE\nCONSTRAINT NAME:  k/,
	'everything it said');
$node->safe_psql('postgres', "update t set mood = case id when 2 then 'error' when 3 then 'pw' when 4 then 'no' when "
	. "5 then 'zero' when 6 then 'effect' end where id between 2 and 6");
rejected($node, "select pawl.fire('t', 2, 'age')", '23514', 'by fire');
rejected($node, "insert into t_transitions (subject_id, event) values (2, 'age')", '23514', 'by the log');
rejected($node, "select * from pawl.available('t', 2)", '23514', 'by available');
rejected($node, "select * from pawl.fire_many('t', array[1, 2, 7], 'age')", '23514',
	'by fire_many: an error inside a guard is no rejection');
rejected($node, "select pawl.fire('t', 3, 'age')", 'PW001', 'a guard that raises a PW code of its own');
rejected($node, "update t set state = 'old' where id = 5", '22012', 'a guard divides by zero');
$err = rejected($node, "update t set state = 'old' where id = 6", 'P0042', 'an effect raises');
like($err, qr/the effect broke\nDETAIL:  its detail\nHINT:  its hint\nCONTEXT:  PL\/pgSQL function effect\(t,t\)/,
	'everything it said');
rejected($node, "select pawl.fire('t', 6, 'age')", 'P0042', 'by fire');
rejected($node, "update t set state = 'old' where id = 4", 'PW003', 'a guard that says no is a rejection');
is(one($node, "select sum(sort_key), count(*) from t_transitions"), '20|20', 'nothing was logged of all this');

# A guard that raises a PW code below fire_many must leave the session whole: its frames were jumped over.
is(one($node, "select pawl.fire('t', 4, 'age')"), 'odd', 'fire takes the transition whose guard agrees');
$err = rejected($node, "select ok, sqlstate from pawl.fire_many('t', array[3, 7, 8], 'age')", 'PW001',
	'fire_many, too, passes on what a guard raises');
like($err, qr/a PW of its own/, 'as it was said');
is(one($node, "select key, ok, sqlstate, to_state from pawl.fire_many('t', array[4, 15, 999], 'renew')"),
	"4|f|PW001|\n15|f|PW001|\n999|f|P0002|",
	'rejections are results');
sound($node, 'after errors of guards');

# The settings and intents of a failed call do not leak into the next statement.
is(one($node, <<'SQL'), "new|old", 'the event of a rejected fire does not stay set');
\set ON_ERROR_STOP 0
select pawl.fire('t', 2, 'age');
update t set state = 'old', mood = null where id = 10;
select from_state, to_state from pawl.history('t', 10) where most_recent;
SQL

# Cancellation: in the middle of a long statement, of a guard, of an effect, of fire_many, of enforce.
$node->safe_psql('postgres', <<'SQL');
create table big (id int primary key, state text not null default 'new');
select pawl.enforce('big', 'state', 'u'), pawl.enable_log('big', 'state');
insert into big select g from generate_series(1, 100000) g;
create table unbound (id int primary key, state text not null default 'new');
insert into unbound select g from generate_series(1, 100000) g;
update t set mood = 'sleep' where id = 11;
update t set mood = 'effect sleeps' where id = 12;
update t set mood = null where id in (13, 14);
SQL
my %long = (
	'a long UPDATE' => "update big set state = 'used'",
	'a guard' => "update t set state = 'old' where id in (11, 13)",
	'an effect' => "update t set state = 'old' where id in (12, 13)",
	'fire_many' => "select * from pawl.fire_many('t', array[11, 13], 'age')",
	'fire' => "select pawl.fire('t', 12, 'age')",
	'INSERT into the log' => "insert into t_transitions (subject_id, to_state) values (11, 'old')",
	'enforce' => "select pawl.enforce('unbound', 'state', 'u'), pawl.enable_log('unbound', 'state')",
	'verify' => "select * from pawl.verify('big')");
for my $what (sort keys %long)
{
	my ($sleeps) = grep { $_ eq $what } ('a guard', 'an effect', 'fire_many', 'fire', 'INSERT into the log');
	if ($sleeps)
	{
		my $session = $node->background_psql('postgres', on_error_stop => 0);
		my $pid = $session->query('select pg_backend_pid()');
		$session->query_until(qr/started/, "\\echo started\n$long{$what};\n");
		$node->poll_query_until('postgres',
			"select count(*) = 1 from pg_stat_activity where pid = $pid and wait_event = 'PgSleep'");
		$node->safe_psql('postgres', "select pg_cancel_backend($pid)");
		is($session->query("update t set state = 'old' where id = 14 returning id"), 14,
			"$what: the session goes on after pg_cancel_backend");
		like($session->{stderr}, qr/canceling statement due to user request/, "$what: cancelled");
		$session->query("update t set state = 'new' where id = 14");
		$session->quit;
	}
	rejected($node, "set statement_timeout = '20ms'; $long{$what}", '57014', "$what: statement_timeout");
}
is(one($node, "select count(*) from big where state <> 'new'"), 0, 'a cancelled statement changed no row');
is(one($node, "select count(*) from pawl.binding where relation = 'unbound'::regclass"), 0,
	'nothing was half attached');
is(one($node, q(select count(*) from pg_trigger where tgrelid = 'unbound'::regclass)), 0, 'not even a trigger');
is(one($node, q(select to_regclass('unbound_transitions') is null)), 't', 'nor a log');
sound($node, 'after cancelled statements');

# Thousands of errors in one session (ten thousand with PAWL_LONG=1). Statements of their own, and exception blocks in a
# procedure. What may come and go is so little that a hundred bytes an error would show.
my $thousands = $ENV{PAWL_LONG} ? 10 : 3;
my $measure = q(insert into measured select (select sum(used_bytes) from pg_backend_memory_contexts),
    (select used_bytes from pg_backend_memory_contexts where name = 'TopMemoryContext'),
    (regexp_match(pg_read_file('/proc/self/status'), 'RssAnon:\s+(\d+)'))[1]::bigint;);
my $verdict = q(select case when max(used) - min(used) < 200000 and max(top) - min(top) < 50000
          and max(rss) - min(rss) < 6000 then 'flat'
    else string_agg(format('used %s top %s rss %s kB', used, top, rss), ', ') end from measured;);
sub many
{
	my ($name, $errors, @statements) = @_;    # errors: how many a statement makes
	my $round = join "\n", map { "$_;" } @statements;
	my $warm = $round x (1000 / @statements / $errors);
	my $all = $round x ($thousands * 1000 / @statements / $errors);
	my $out = '';
	$node->psql('postgres',
		"create temp table measured (used bigint, top bigint, rss bigint);\n$warm$measure\n$all$measure\n$verdict",
		stdout => \$out, stderr => \my $ignored, on_error_stop => 0);
	my ($last) = $out =~ /([^\n]*)\z/;
	is($last, 'flat', "$thousands,000 errors, memory as before: $name");
	return;
}
many('rejections', 1, "update t set state = 'odd' where state = 'odd' or id = 14 and 1 / 0 = 1",
	"update t set state = 'nowhere' where id = 14",
	"insert into t values (99, 'old')", "update t_transitions set event = ''",
	"update t set state = 'old', mood = 'no' where id = 14");
many('fire', 1, "select pawl.fire('t', 14, 'renew')", "select pawl.fire('t', 14, 'nonsense')",
	"select pawl.fire('t', 999, 'age')",
	"select pawl.fire('t', 2, 'age')", "insert into t_transitions (subject_id, to_state) values (14, 'nowhere')");
many('definitions', 1, "select pawl.define('x', 'stateDiagram-v2\n    [*] -> a')",
	"select pawl.define('x', 'stateDiagram-v2\n    a --> b')",
	"select pawl.define('x', 'stateDiagram-v2\n    [*] --> a\n    a --> b : go [no_such_guard]')",
	"select pawl.define('x', '')");
many('exception blocks in one transaction', 100,
	map { "do \$\$ begin for i in 1 .. 100 loop begin $_; exception when others then null; end; end loop; end \$\$" }
	  ("update t set state = 'nowhere' where id = 14", "perform pawl.fire('t', 14, 'renew')",
	  	"perform pawl.define('x', 'state')",
		"update t set state = 'old', mood = 'error' where id = 14"));
$node->safe_psql('postgres', <<'SQL');
create table s (id int primary key, state text not null default 'new', n int not null default 0);
create function sql_guard(old s, new s) returns boolean language sql as 'select 1 / new.n > 0';
create function sql_effect(old s, new s) returns void language sql as 'select 1 / (new.n - 1)';
select pawl.define('s', 'stateDiagram-v2
    [*] --> new
    new --> old : age [sql_guard] / sql_effect
    old --> [*]');
select pawl.enforce('s', 'state', 's'), pawl.enable_log('s', 'state');
insert into s (id, n) values (1, 0), (2, 1);
SQL
many('SQL guards and effects that fail', 1, "update s set state = 'old' where id = 1",
	"update s set state = 'old' where id = 2");
many('SQL guards and effects that fail in one transaction', 100,
	map { "do \$\$ begin for i in 1 .. 100 loop begin update s set state = 'old' where id = $_; exception when others "
			. "then null; end; end loop; end \$\$" } 1, 2);
many('lifecycles compiled anew each time', 1,
	"create or replace function elsewhere() returns int language sql as 'select 1'",
	"update t set state = 'nowhere' where id = 14");
many('exception blocks that undo a state change', 100,
	"do \$\$ begin for i in 1 .. 100 loop begin update t set state = 'old' where id = 14; perform 1 / 0; exception "
	. "when others then null; end; end loop; end \$\$");
sound($node, 'after tens of thousands of errors');

# Memory that runs out is an error.
rejected($node, q(select pawl.define('huge', repeat('x', 300 * 1024 * 1024))), '54000', 'a diagram of 300 MB');
rejected($node, q(select pawl.define(repeat('x', 100 * 1024 * 1024), 'stateDiagram-v2
    [*] --> a')), '42602', 'a name of 100 MB');
is(one($node, 'select 1'), 1, 'and the server is there');

# The library shows the server its functions, those of the packs among them, and nothing else.
one($node, "create extension $_ cascade")
	for split /\n/, one($node, "select name from pg_available_extensions where name like 'pawl\\_%' order by 1");
my %expected = map { $_ => 1 } ('_PG_init', 'Pg_magic_func');
for my $symbol (split /\n/, one($node, "select distinct prosrc from pg_proc where probin = '\$libdir/pawl'"))
{
	$expected{$symbol} = $expected{"pg_finfo_$symbol"} = 1;
}
my $library = one($node, "select setting || '/pawl.so' from pg_config where name = 'PKGLIBDIR'");
my %exported = map { $_ => 1 } grep { length } map { (split)[-1] } split /\n/, `nm -D --defined-only $library`;
is(join(' ', sort keys %exported), join(' ', sort keys %expected),
	'the module exports the functions of the install scripts, its magic and its start');
unlike(`ldd $library`, qr/libstdc\+\+/, 'the C++ runtime is inside');

no_crash($node);
done_testing();
