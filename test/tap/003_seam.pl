# The seam between C++ and PostgreSQL, by a test module that throws and raises through it: errors keep all they say in
# both directions, destructors run, nothing is lost when it happens ten thousand times.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $top = "$FindBin::Bin/../..";
my $pg_config = $ENV{PG_CONFIG} // 'pg_config';

sub config { my $answer = `$pg_config --$_[0]`; chomp $answer; return $answer }

my @compile = ('c++', '-std=c++20', '-O1', '-fPIC', '-shared', '-fvisibility=hidden', '-Wno-register',
	$node->pg_version >= 16 ? () : '-DPGDLLEXPORT=__attribute__((visibility("default")))',
	"-I$top/src", '-isystem', config('includedir-server'), '-isystem', config('includedir')
	. '/internal', '-D_GNU_SOURCE',
	'-o', "$dir/seam.so", "$top/test/seam/seam.cpp", "$top/src/pg/bridge.cpp",
	"$top/src/pg/error_context.cpp");
my ($out, $err) = ('', '');
ok(IPC::Run::run(\@compile, '>', \$out, '2>', \$err), 'the test module compiles') or BAIL_OUT($err);

for my $function ('seam_throw(kind text)', 'seam_call(query text)', 'seam_deep(query text)', 'seam_seen(query text)',
	'seam_alive()', 'seam_palloc()')
{
	my ($name) = $function =~ /(\w+)/;
	$node->safe_psql('postgres', "create function $function returns int language c as '$dir/seam', '$name'");
}
$node->safe_psql('postgres', <<'SQL');
create function fails(code text) returns int language plpgsql as $$
begin
    raise exception using errcode = code, message = 'said by plpgsql', detail = 'its detail', hint = 'its hint',
        schema = 's', table = 't', column = 'c', constraint = 'k', datatype = 'd';
end$$;
-- what an exception block learns of an error, and that nothing of C++ is left alive
create function caught(query text) returns text language plpgsql as $$
declare state text; message text; detail text; hint text; context text; k text;
begin
    execute query;
    return 'nothing';
exception when others then
    get stacked diagnostics state = returned_sqlstate, message = message_text, detail = pg_exception_detail,
        hint = pg_exception_hint, context = pg_exception_context, k = constraint_name;
    return concat_ws('|', state, message, detail, hint, k, seam_alive(),
        case when context ~ 'function caught' then 'context' end,
        case when context ~ 'function fails\(text\) line 3 at RAISE' then 'inner context' end);
end$$;
SQL

# Outwards: exceptions become errors.
my %thrown = (
	failure => "PW003|a message with %s and %d|a detail with %n|a hint||0|context",
	definition => 'PW007|a definition error|Why. Line 12, column 34.|What to do.||0|context',
	bad_alloc => '53200|out of memory|A C++ allocation failed.|||0|context',
	'real bad_alloc' => '53200|out of memory|A C++ allocation failed.|||0|context',
	length_error => '54000|value too large||||0|context',
	exception => 'XX000|a runtime error||||0|context',
	anything => 'XX000|unknown C++ exception||||0|context');
for my $kind (sort keys %thrown)
{
	is(one($node, "select caught('select seam_throw(''$kind'')')"), $thrown{$kind}, "thrown: $kind");
}
is(one($node, q(select length(split_part(c, '|', 2)), split_part(c, '|', 1), split_part(c, '|', 6)
	from caught('select seam_throw(''long'')') c)),
	'2046|XX000|0', 'a message too long is cut between characters');
my $report = rejected($node, "select seam_throw('failure')", 'PW003', 'and the client gets it');
like($report, qr/DETAIL:  a detail with %n\nHINT:  a hint/, 'with detail and hint');

# Inwards and out again: errors pass through C++ frames as they were.
for my $way (qw(seam_call seam_deep))
{
	is(one($node, "select caught(\$\$select $way('select fails(''22012'')')\$\$)"),
		'22012|said by plpgsql|its detail|its hint|k|0|context|inner context', "$way: all fields of an error survive");
	is(one($node, "select caught(\$\$select $way('select $way(''select $way(''''select "
		. "fails(''''''''PW008'''''''')'''')'')')\$\$)"),
		'PW008|said by plpgsql|its detail|its hint|k|0|context|inner context', "$way: through three layers of both");
	is(one($node, "select caught(\$\$select $way('select seam_throw(''failure'')')\$\$)"), $thrown{failure} ,
		"$way: an exception below");
	is(one($node, "select caught(\$\$select $way('selec 1')\$\$)"),
		'42601|syntax error at or near "selec"||||0|context', "$way: a syntax error");
}
is(one($node, "select seam_call('select 1'), seam_alive()"), '3|0', 'without an error, objects live while they should');
is(one($node, "select caught(\$\$select seam_seen('select 1/0')\$\$)"), 'P0001|seen: division by zero||||0|context',
	'C++ can look at an error');
is(one($node, "select caught(\$\$select seam_seen('select fails(''PW001'')')\$\$)"),
	'PW001|said by plpgsql|its detail|its hint|k|0|context|inner context', 'and send on what it does not know');
is(one($node, "select caught('select seam_palloc()')"),
	'XX000|invalid memory alloc request size 1099511627776||||0|context', 'a palloc too large');

# The warnings of a statement that goes through C++ arrive too.
(undef, $report) = sqlstate_of($node,
	q(select seam_call('do $x$ begin raise warning using errcode = ''01P01'', message = ''careful''; end $x$')));
like($report, qr/WARNING:  01P01: careful/, 'a warning raised in C++ reaches the client');

# A cancelled statement is cancelled, whatever C++ frames it is below.
for my $way (qw(seam_call seam_deep))
{
	rejected($node, "set statement_timeout = '50ms'; select $way('select pg_sleep(1000)')", '57014',
		"$way: statement_timeout");
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query('select pg_backend_pid()');
	$session->query_until(qr/started/,
		"\\echo started\nselect $way('select pg_sleep(1000)');\nselect 'alive: ' || seam_alive();\n");
	$node->poll_query_until('postgres',
		"select count(*) = 1 from pg_stat_activity where pid = $pid and wait_event = 'PgSleep'");
	$node->safe_psql('postgres', "select pg_cancel_backend($pid)");
	is($session->query('select 1') =~ /alive: 0/ ? 1
		: $session->{stdout}, 1, "$way: cancelled, and nothing is left alive");
	like($session->{stderr}, qr/canceling statement due to user request/, "$way: the session says so");
	$session->quit;
}

# Termination in the middle ends the session, not the server.
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query('select pg_backend_pid()');
$session->query_until(qr/started/, "\\echo started\nselect seam_deep('select pg_sleep(1000)');\n");
$node->poll_query_until('postgres',
	"select count(*) = 1 from pg_stat_activity where pid = $pid and wait_event = 'PgSleep'");
$node->safe_psql('postgres', "select pg_terminate_backend($pid)");
$node->poll_query_until('postgres', "select count(*) = 0 from pg_stat_activity where pid = $pid");
is(one($node, 'select 1'), 1, 'the server lives on after a termination below C++ frames');
eval { $session->quit };

# Ten thousand errors of every kind in one session, inside exception blocks: memory stays where it was.
my $measure = q(select sum(used_bytes) from pg_backend_memory_contexts
	where name in ('TopMemoryContext', 'CacheMemoryContext', 'ErrorContext', 'TopTransactionContext'));
my $growth = one($node, <<"SQL");
create temp table measured (used bigint, rss bigint);
create procedure pg_temp.many(n int) language plpgsql as \$p\$
begin
    for i in 1 .. n loop
        perform caught(
            (array['select seam_throw(''failure'')', 'select seam_throw(''definition'')',
                'select seam_throw(''real bad_alloc'')',
            'select seam_throw(''long'')', 'select seam_throw('''')',
            'select seam_deep(''select fails(''''22012'''')'')',
            'select seam_call(''select seam_throw(''''long'''')'')', 'select seam_palloc()'])[i % 8 + 1]);
        if i % 100 = 0 then commit; end if;
    end loop;
end\$p\$;
call pg_temp.many(1000);
insert into measured
    select ($measure), (regexp_match(pg_read_file('/proc/self/status'), 'VmRSS:\\s+(\\d+)'))[1]::bigint;
call pg_temp.many(10000);
insert into measured
    select ($measure), (regexp_match(pg_read_file('/proc/self/status'), 'VmRSS:\\s+(\\d+)'))[1]::bigint;
select max(used) - min(used) < 100000, max(rss) - min(rss) < 4000, seam_alive() from measured;
SQL
is($growth, 't|t|0', '10,000 errors leave no memory behind');

no_crash($node);
done_testing();
