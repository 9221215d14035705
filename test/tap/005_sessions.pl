# One session uses a table while another changes its machine: from its next statement on,
# it is validated by the new version.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
create table t (id int primary key, state text not null default 'a', n int not null default 0);
create function guard(old t, new t) returns boolean language plpgsql as 'begin return true; end';
create function sql_guard(old t, new t) returns boolean language sql as 'select true';
select pawl.define('m', 'stateDiagram-v2
    [*] --> a
    a --> b : go [guard]
    b --> c : on [sql_guard]
    c --> a : round
    a --> [*]');
select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state');
insert into t select g from generate_series(1, 20) g;
create type phase as enum ('x', 'y');
create table e (id int primary key, state phase not null default 'x');
select pawl.define('e', 'stateDiagram-v2
    [*] --> x
    x --> y
    y --> [*]');
select pawl.enforce('e', 'state', 'e'), pawl.enable_log('e', 'state');
insert into e select g from generate_series(1, 20) g;
create table p (id int, state text default 'x', region int, primary key (id, region)) partition by list (region);
create table p1 partition of p for values in (1);
select pawl.enforce('p', 'state', 'e', key => array['id']), pawl.enable_log('p', 'state');
insert into p select g, 'x', 1 from generate_series(1, 10) g;
SQL

my $a = $node->background_psql('postgres', on_error_stop => 0);
$a->query('\set VERBOSITY sqlstate');
# answer_to_a(sql): what session A gets, an SQLSTATE or its rows
sub answer_to_a
{
	my ($sql) = @_;
	$a->{stderr} = '';
	my $out = $a->query($sql);
	my ($code) = $a->{stderr} =~ /ERROR:\s+(\w+)/;
	return $code // $out;
}
sub other { $node->safe_psql('postgres', $_[0]); return }

my $next = 0;
sub row { return ++$next }
is(answer_to_a("update t set state = 'b' where id = " . row() . ' returning state'), 'b', 'session A changes a state');
is(answer_to_a("update t set state = 'c' where id = $next returning state"), 'c',
	'the other session sees a second new version');
is(answer_to_a("update e set state = 'y' where id = 1 returning state"), 'y', 'and one of an enum');

# Guard functions
other("create or replace function guard(old t, new t) returns boolean language plpgsql as 'begin return false; end'");
is(answer_to_a("update t set state = 'b' where id = " . row()), 'PW003', 'a guard replaced');
other("create or replace function guard(old t, new t) returns boolean language sql as 'select true'");
is(answer_to_a("update t set state = 'b' where id = $next returning state"), 'b',
	'replaced by one of another language');
other("create or replace function sql_guard(old t, new t) returns boolean language sql as 'select false'");
is(answer_to_a("update t set state = 'c' where id = $next"), 'PW003', 'a SQL guard replaced');
other("drop function sql_guard; create function sql_guard(old t, new t) returns boolean language sql security definer "
	. "set search_path = '' as 'select true'");
is(answer_to_a("update t set state = 'c' where id = $next returning state"), 'c',
	'a guard that is dropped and created again');
other('drop function guard');
is(answer_to_a("update t set state = 'b' where id = " . row()), '42883', 'a guard dropped: nothing passes unasked');
other("create function guard(old t, new t) returns boolean language plpgsql as 'begin return new.n = 0; end'");
is(answer_to_a("update t set state = 'b' where id = $next returning state"), 'b', 'and created again');
is(answer_to_a("update t set state = 'b', n = 1 where id = " . row()), 'PW003', 'it is the new one that is asked');

# In a transaction that is open: the statement decides.
$a->query('begin');
is(answer_to_a("update t set state = 'b' where id = $next returning state"), 'b', 'in a transaction');
other("create or replace function guard(old t, new t) returns boolean language plpgsql as 'begin return false; end'");
is(answer_to_a("update t set state = 'b' where id = " . row()), 'PW003',
	'the next statement of the same transaction sees the new guard');
$a->query('rollback');
other("create or replace function guard(old t, new t) returns boolean language plpgsql as 'begin return true; end'");

# The machine
is(answer_to_a("update t set state = 'c' where id = " . row()), 'PW001', 'no such transition yet');
other("select pawl.define('m', 'stateDiagram-v2
    [*] --> a
    a --> b : go [guard]
    a --> c : jump
    b --> c : on
    b --> d : part
    d --> [*]')");
is(answer_to_a("update t set state = 'c' where id = $next"), 'PW001', 'defined, but not enforced');
other("select pawl.upgrade('t')");
is(answer_to_a("update t set state = 'c' where id = $next returning state"), 'c',
	'a session that was open before an upgrade uses the new version');
is(answer_to_a("update t set state = 'a' where id = $next"), 'PW001', 'a removed transition is rejected');
is(answer_to_a("select machine_version from pawl.history('t', $next) where most_recent"), 2,
	'logged under the new version');
is(answer_to_a("select pawl.fire('t', 10, 'jump')"), 'c', 'fire knows the new events');
$a->query("prepare move as update t set state = 'd' where id = \$1 returning state");
is(answer_to_a('execute move(10)'), 'PW001', 'a prepared statement');
other("select pawl.define('m', 'stateDiagram-v2
    [*] --> a
    a --> b
    c --> d
    b --> d
    d --> [*]'); select pawl.upgrade('t')");
is(answer_to_a('execute move(10)'), 'd', 'is validated by the new version');

# Released and enforced again
other("select pawl.release('t')");
is(answer_to_a("update t set state = 'c' where id = 11 returning state"), 'c', 'released: nothing is validated');
other("update t set state = 'a' where id = 11; select pawl.enforce('t', 'state', 'm'), pawl.enable_log('t', 'state')");
is(answer_to_a("update t set state = 'd' where id = 11"), 'PW001',
	'the other session enforces the machine that was bound again');
is(answer_to_a("update t set state = 'b' where id = 11 returning state"), 'b', 'by the newest version');
is(answer_to_a("select sort_key from pawl.history('t', 11) where most_recent"), 2,
	'the other session logs to the new log');
other("select pawl.release('t'); select pawl.enforce('t', 'state', 'm')");
is(answer_to_a("update t set state = 'd' where id = 11 returning state"), 'd', 'enforced without a log');
other("select pawl.release('t'); update t set state = 'd'; select pawl.enforce('t', 'state', 'm'), "
	. "pawl.enable_log('t', 'state', log_name => 'fresh_log')");
is(answer_to_a("delete from t where id = 11 returning id"), 11, 'with another log');
is(answer_to_a("select event from fresh_log where subject_id = 11 and most_recent"), 'pawl.delete', 'which is written');
other("alter table t add column second text not null default 'a'; select pawl.enforce('t', 'second', 'm'), "
	. "pawl.enable_log('t', 'second', log_name => 'second_log')");
is(answer_to_a("update t set second = 'd' where id = 12"), 'PW001', 'a second machine on the table');
is(answer_to_a("update t set second = 'b' where id = 12 returning second"), 'b', 'moves rows too');

# Enum labels
other("alter type phase add value 'z'");
is(answer_to_a("update e set state = 'z' where id = 2"), 'PW001', 'a new label is no state yet');
other("select pawl.define('e', 'stateDiagram-v2
    [*] --> x
    x --> y
    x --> z
    y --> [*]
    z --> [*]'); select pawl.upgrade('e')");
is(answer_to_a("update e set state = 'z' where id = 2 returning state"), 'z', 'until a version has it');

# Triggers that sort later, and what they change
is(answer_to_a("update e set state = 'y' where id = 3 returning state"), 'y', 'before a later trigger');
other("create function meddle() returns trigger language plpgsql as 'begin new.state := ''y''; return new; end'; "
	. "create trigger \"~~~late\" before update on e for each row execute function meddle()");
is(answer_to_a("update e set state = state where id = 2"), 'PW001',
	'a later trigger that rewrites the state is validated');
is(answer_to_a("update e set state = 'z' where id = 4 returning state"), 'y', 'by what it makes of the row');
is(answer_to_a("select to_state from pawl.history('e', 4) where most_recent"), 'y', 'and so it is logged');
other('drop trigger "~~~late" on e');
is(answer_to_a("update e set state = 'z' where id = 5 returning state"), 'z', 'and gone again');

# Names and shapes
other('alter table t rename column state to condition; alter table t rename to things');
is(answer_to_a("update things set condition = 'a' where id = 13"), 'PW001',
	'a session that was open before a rename goes on enforcing');
other('alter table things drop column n; alter table things add column extra int; alter table things alter column '
	. 'condition type varchar(10)');
is(answer_to_a("update things set condition = 'a', extra = 1 where id = 13"), 'PW001', 'of another shape');
is(answer_to_a("insert into things (id) values (30) returning condition"), 'a', 'with a default');
is(answer_to_a("update things set condition = 'b' where id = 30 returning condition"), 'b',
	'the other session can change a state after the rename');

# Partitions
is(answer_to_a("update p set state = 'y' where id = 1 returning state"), 'y', 'a partition known to the session');
other("create table p2 partition of p for values in (2); create table p3 (region int not null, id int not null, note "
	. "text, state text); insert into p3 values (3, 50, '', 'x'); alter table p3 drop column note; alter "
	. "table p attach "
	. "partition p3 for values in (3)");
is(answer_to_a("insert into p values (20, 'y', 2)"), 'PW002', 'a new partition validates');
is(answer_to_a("update p set state = 'gone' where id = 50"), 'PW001', 'an attached one, of another layout, too');
is(answer_to_a("update p set state = 'y', region = 2 where id = 50 returning state"), 'y', 'a row moves across');
other('alter table p detach partition p1');
is(answer_to_a("update p1 set state = 'whatever' where id = 2 returning state"), 'whatever',
	'a detached partition is free')
  or diag($a->{stderr});
$a->quit;

# Databases of other encodings
for my $encoding (qw(LATIN1 EUC_JP))
{
	$node->safe_psql('postgres', "create database in_$encoding encoding '$encoding' locale 'C' template template0");
	is($node->safe_psql(lc "in_$encoding", "create extension pawl_dag cascade; create extension pawl_bulk; create "
			. "extension pawl_saga; select check_name from pawl.health() where status = 'error'"),
		'', "installed in $encoding");
}
is(one($node, "select string_agg(distinct relation || ' ' || problem, ', ') from pawl.verify()"), 'p row_missing',
	'only the rows that were detached are missing');
no_crash($node);
done_testing();
