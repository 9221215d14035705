# Placed rows in a dump: the marks in the logs, the view that shows them, the hash chain over them, and what the binding
# allows, come back; also into a log that was closed, and into databases where the extension was there before.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
my $dir = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', <<'SQL');
select pawl.define('parcel', 'stateDiagram-v2
    [*] --> packed
    packed --> sent : send
    sent --> delivered : deliver
    delivered --> [*]');
create table derived (id int primary key, state text not null default 'packed');
create table stored (a int, b text, state text not null default 'packed', primary key (a, b));
create table closed (id int primary key, state text not null default 'packed');
select pawl.enforce('derived', 'state', 'parcel'), pawl.enable_log('derived', hash_chain => true),
    pawl.enforce('stored', 'state', 'parcel'), pawl.enable_log('stored', most_recent => 'stored'),
    pawl.enforce('closed', 'state', 'parcel'), pawl.enable_log('closed');
select pawl.set_placing(t) from unnest('{derived,stored,closed}'::regclass[]) t;
insert into derived values (1), (2);
insert into stored values (1, 'x'), (1, 'y');
insert into closed values (1);
select pawl.place('derived', 1, 'delivered', 'a "quoted" reason'), pawl.place('stored', '(1,y)', 'sent', 'é'),
    pawl.place('closed', 1, 'sent', 'kept');
update stored set state = 'delivered' where b = 'y';
select pawl.set_placing('closed', false);
SQL

my $seen = <<'SQL';
select 'derived', sort_key, to_state, event, placed from pawl.history('derived', 1)
union all select 'view', sort_key, to_state, event, placed from derived_transitions where placed is not null
union all select 'stored', sort_key, to_state, event, placed from pawl.history('stored', '(1,y)')
union all select 'closed', sort_key, to_state, event, placed from pawl.history('closed', 1)
union all select relation || ' may', null, null, may_place::text, null from pawl.binding
union all select relation || ' ' || key, null, null, problem, detail from pawl.verify()
union all select kind, taken::int, to_state, event, placed::text from pawl.paths('parcel')
order by 1, 2, 3
SQL
my $original = one($node, "select string_agg(x::text, E'\\n') from ($seen) x");
like($original, qr/placed.*a ""quoted"" reason/s, 'rows are placed');
is(() = $original =~ /"placed"|,placed,/g, 3, 'verify lists the three of them, and nothing else');

local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
my %restore = (
	custom => sub { system('pg_dump', '-Fc', '-f', "$dir/custom", 'postgres') == 0
		and system('pg_restore', '-j2', '-d', $_[0], "$dir/custom") == 0 },
	plain => sub { system("pg_dump postgres | psql -Xq -v ON_ERROR_STOP=1 -o /dev/null -d $_[0]") == 0 },
	inserts => sub {
		system("pg_dump --column-inserts postgres | psql -Xq -v ON_ERROR_STOP=1 -o /dev/null -d $_[0]") == 0 },
);
for my $way (sort keys %restore)
{
	$node->safe_psql('postgres', "create database $way template template0");
	ok($restore{$way}->($way), "$way: dump and restore");
	is(one($node, "select string_agg(x::text, E'\\n') from ($seen) x", $way), $original, "$way: all is as it was");
	rejected($node, "select pawl.place('closed', 1, 'packed', 'r')", '55000', "$way: placing is off where it was",
		$way);
	rejected($node, q(update derived_transitions_log set placed = 'another'), 'PW006', "$way: marks are immutable",
		$way);
	accepted($node, "select pawl.place('derived', 2, 'delivered', 'after'), pawl.place('stored', '(1,x)', 'sent', "
		. "'after')", "$way: and on where it was on", $way);
	is(one($node, q(select string_agg(distinct problem, ' ') from pawl.verify()), $way), 'placed',
		"$way: the chain goes on");
	accepted($node, "update stored set state = 'delivered' where b = 'x'", "$way: a placed row takes transitions",
		$way);
}
no_crash($node);
done_testing();
