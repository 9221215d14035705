# Writers of every kind while consumers read and the outbox is pruned, a crash in the middle, and a restore elsewhere:
# every committed event comes exactly once, in the order of commits.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', conf => "synchronous_commit = off\nautovacuum_naptime = 1\n");
$node->safe_psql('postgres', <<'SQL');
select pawl.define('m', 'stateDiagram-v2
    [*] --> new
    new --> used : use
    used --> new : renew
    used --> worn : wear
    worn --> [*]');
create table logged (id int primary key, state text not null default 'new');
create table bare (id int primary key, state text not null default 'new', moves int not null default 0);
select pawl.enforce('logged', 'state', 'm'), pawl.enable_log('logged', 'state'), pawl.enable_events('logged', 'state');
select pawl.enforce('bare', 'state', 'm'), pawl.enable_events('bare', 'state');
insert into logged select g from generate_series(1, 20000) g;
insert into bare select g from generate_series(1, 400) g;
select pawl.create_consumer(c) from unnest(array['alone', 'together', 'late']) c;
create table sink (i bigint generated always as identity, consumer text, reader int, txid xid8, relation regclass,
    key int, sort_key int, to_state text, event text, metadata jsonb, at timestamptz);
create table control (stop bool);
insert into control values (false);
create procedure consume(consumer text, reader int, batch int) language plpgsql as $$
declare
    n bigint;
    done bool;
begin
    loop
        done := (select stop from control);
        commit;
        insert into sink (consumer, reader, txid, relation, key, sort_key, to_state, event, metadata, at)
        select consume.consumer, consume.reader, e.txid, e.relation, e.key[1]::int, e.sort_key, e.to_state, e.event,
        e.metadata, e.at from pawl.read_events(consume.consumer, batch) e;
        get diagnostics n = row_count;
        if reader = 2 and random() < 0.3 then  -- this one changes its mind at times
            rollback;
            continue;
        end if;
        commit;
        exit when done and n = 0;
        perform pg_sleep(0.01) where n = 0;
    end loop;
end $$;
SQL
my $before = one($node, 'select pg_current_xact_id()');

# Moves of one row, of two, of hundreds; savepoints, rollbacks, and transactions that were prepared.
# Each client numbers its transactions: what one client commits first comes first.
my $folder = PostgreSQL::Test::Utils::tempdir;
my %script = (
	short => <<'SQL',
\set seq :seq + 1
\set id random(1, 400)
begin;
select pawl.set_context(metadata => jsonb_build_object('client', :session * 100 + :client_id, 'seq', :seq));
update logged set state = case state when 'new' then 'used' else 'new' end where id = :id;
update bare set state = case state when 'new' then 'used' else 'new' end, moves = moves + 1 where id = :id;
commit;
SQL
	alone => <<'SQL',
\set id random(1, 400)
update bare set state = case state when 'new' then 'used' else 'new' end, moves = moves + 1 where id = :id;
SQL
	undone => <<'SQL',
\set seq :seq + 1
\set id random(1, 300)
begin;
select pawl.set_context(metadata => jsonb_build_object('client', :session * 100 + :client_id, 'seq', :seq));
savepoint a;
update logged set state = case state when 'new' then 'used' else 'new' end where id = :id;
savepoint b;
update logged set state = case state when 'new' then 'used' else 'new' end where id = :id + 50;
rollback to b;
update logged set state = case state when 'new' then 'used' else 'new' end where id = :id + 100;
release a;
savepoint c;
update logged set state = 'worn' where id between :id + 101 and :id + 110 and state = 'used';
rollback to c;
commit;
SQL
	vain => <<'SQL',
\set id random(1, 400)
begin;
update logged set state = case state when 'new' then 'used' else 'new' end where id = :id;
rollback;
SQL
	long => <<'SQL',
\set seq :seq + 1
\set first random(1, 8) * 2000
begin;
select pawl.set_context(metadata => jsonb_build_object('client', :session * 100 + :client_id, 'seq', :seq));
select id from logged where id > :first and id <= :first + 600 order by id for update;
update logged set state = case state when 'new' then 'used' else 'new' end where id > :first and id <= :first + 300;
update logged set state = case state when 'new' then 'used' else 'new' end
    where id > :first + 300 and id <= :first + 600;
commit;
SQL
	prune => "select pawl.prune_events();\n");
append_to_file("$folder/$_.sql", $script{$_}) for keys %script;
my ($session, @background) = (0);
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;

sub in_background
{
	my @command = @_;
	my $said = '';
	push @background, [ IPC::Run::start(\@command, '<', \undef, '>', '/dev/null', '2>', \$said), \$said ];
	return $background[-1];
}
sub pgbench { my ($transactions, $clients, @more) = @_; ++$session;
	return in_background('pgbench', '-n', '-D', 'seq=0', '-D', "session=$session", '-c', $clients, '-j', 2, '-t',
		$transactions, @more, 'postgres'); }
# Some forty events a transaction, as one of sixteen is long.
sub load { return pgbench($_[0], 6, map {
	('-f', "$folder/$_")
} 'short.sql@6', 'alone.sql@4', 'undone.sql@4', 'vain.sql@1', 'long.sql@1'); }
sub pruning { return pgbench($_[0], 1, '-R', 10, '-f', "$folder/prune.sql") }
my $enough = $ENV{PAWL_LONG} ? 1500 : 200;
sub consumers { return map {
	in_background('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'postgres', '-c', "call consume($_)")
} "'alone', 1, 500", "'together', 2, 100", "'together', 3, 700"; }
sub finished
{
	my ($started, $what) = @_;
	ok($started->[0]->finish, "$what came to its end") or diag(${ $started->[1] });
	return;
}

# Not committed yet: a transaction from before everything, and one that is prepared.
my $old = $node->background_psql('postgres', on_error_stop => 0);
$old->query("begin; update logged set state = 'used' where id = 19001; select pg_current_xact_id()");
$node->safe_psql('postgres', "begin; update logged set state = 'used' where id = 19002; savepoint s; update logged "
	. "set state = 'used' where id = 19003; rollback to s; prepare transaction 'one'");
my @reading = consumers();
my $pruning = pruning(30);
my $loading = load($enough);
my $sunk = q(select count(*) from sink where consumer = 'alone');
$node->poll_query_until('postgres', "select count(*) > 3000 from sink where consumer = 'alone'")
	or die 'the consumer stands still';
is(one($node, 'select count(*) from sink where key between 19001 and 19003 and txid >= ' . "'$before'"), 0,
	'nothing of what is not committed');
$old->query("update logged set state = 'worn' where id = 19001; commit");
my $late = q(select count(*) from sink where consumer = 'alone' and to_state <> 'new' and key = );
becomes(sub { one($node, $late . 19001) }, 2, 'a transaction from before everything comes as soon as it has committed');
$node->safe_psql('postgres', "commit prepared 'one'");
becomes(sub { one($node, $late . 19002) }, 1, 'and a prepared one');
$old->quit;
finished($loading, 'the load');
finished($pruning, 'pruning');

# The postmaster is killed while all of this goes on.
$loading = load(1_000_000);
$pruning = pruning(1_000_000);
my $so_far = one($node, $sunk);
$node->poll_query_until('postgres', "select count(*) > $so_far + 3000 from sink where consumer = 'alone'")
	or die 'the load stands still';
# a backend that waits for a lock whose owner has gone would wait for ever
kill_server($node, split /\n/, one($node, 'select pid from pg_stat_activity where pid <> pg_backend_pid()'));
eval { $_->[0]->finish } for @background;
$node->start;
@background = ();
@reading = consumers();
$pruning = pruning(30);
$loading = load($enough);
finished($loading, 'the load after the crash');
finished($pruning, 'pruning after the crash');
$node->safe_psql('postgres', 'update control set stop = true');
finished($_, 'a consumer') for @reading;
$node->safe_psql('postgres',
	'create index on sink (relation, key, sort_key); analyze sink; analyze logged_transitions_log');

cmp_ok(one($node, $sunk), '>', 10000, 'many events: ' . one($node, $sunk));
cmp_ok(one($node, q(select count(*) from (select txid from sink where consumer = 'alone'
	group by 1 having count(*) > 500) t)), '>', 0, 'some transactions are large');
for my $consumer ('alone', 'together')
{
	is(one($node, "select count(*) from (select l.subject_id, l.sort_key, count(s.i) from logged_transitions l
             left join sink s on s.consumer = '$consumer' and s.relation = 'logged'::regclass
		and s.key = l.subject_id and s.sort_key = l.sort_key and s.to_state = l.to_state and s.at = l.created_at
         		where l.event is distinct from 'pawl.attach' and not (l.sort_key = 1) group by 1, 2
         		having count(s.i) <> 1) wrong"),
		0, "$consumer: every row of the log came exactly once");
	is(one($node, "select count(*) from sink s where s.consumer = '$consumer' and s.relation = 'logged'::regclass
		and not exists (select from logged_transitions l where l.subject_id = s.key and l.sort_key = s.sort_key)"), 0,
		"$consumer: and none that is not in it");
	is(one($node, "select count(*) from bare b where b.moves <> (select count(*) from sink s where s.consumer = "
		. "'$consumer' and s.relation = 'bare'::regclass and s.key = b.id)"),
		0, "$consumer: without a log, as many as there were moves");
	is(one($node, "select count(*) from sink where consumer = '$consumer' and event = 'pawl.gap'"), 0,
		"$consumer: no gap");
}
# What two readers of one consumer wrote into the table is not in its order; the order of one is.
is(one($node, q(select count(*) from (select sort_key - lag(sort_key) over (partition by key order by i) as step
	from sink where consumer = 'alone' and relation = 'logged'::regclass) s where step <> 1)),
	0, 'the state changes of a row come in order, without a gap');
is(one($node, q(select count(*) from (select to_state = lag(to_state) over (partition by key order by i) as same
	from sink where consumer = 'alone' and relation = 'bare'::regclass) s where same)),
	0, 'also without a log');
is(one($node, q(select count(*) from (select (metadata ->> 'seq')::int < lag((metadata ->> 'seq')::int) over
	(partition by metadata ->> 'client' order by i) as back from sink where consumer = 'alone' and metadata ? 'client')
	s where back)),
	0, 'the transactions of a session come in their order');
is(one($node,
	q(select count(*) from (select txid, lag(txid) over (order by i) as last, row_number() over (partition by txid
	order by i) as n from sink where consumer = 'alone') s where n > 1 and txid <> last)),
	0, 'the events of a transaction come together');
is(one($node, 'select behind from pawl.consumers where consumer = $$alone$$'), 0, 'nothing is behind');
is(one($node, 'select behind > 10000 from pawl.consumers where consumer = $$late$$'), 't',
	'but a consumer that has not read is');
sound($node, 'after the load');

# A late consumer gets the same, in the same order.
$node->safe_psql('postgres', "call consume('late', 4, 10000)");
is(one($node, q(select count(*) from (select txid, relation, key, sort_key, to_state, at from sink
	where consumer = 'alone' except all select txid, relation, key, sort_key, to_state, at from sink
	where consumer = 'late') d)), 0, 'a late consumer gets the same');
$node->safe_psql('postgres', 'select pawl.prune_events()') for 1 .. 4;
is(one($node, 'select sum(pawl._slot_size(s)) < 1100000 from generate_series(1, 3) s'), 't',
	'and when all have read, the outbox is small');

# Restored into another cluster, where the numbers of transactions and of the write-ahead log begin anew.
$node->safe_psql('postgres',
	q(select pawl.create_consumer('half'); update bare set state = case state when 'new' then 'used' else 'new' end;
	update logged set state = 'used' where id between 18001 and 18010 and state = 'new'));
my $unread = one($node, 'select behind from pawl.consumers where consumer = $$half$$');
my $first = one($node, q(select count(*) from pawl.read_events('half', 150)));
is($first, 150, 'a consumer has read some of its events');
my $dump = "$folder/dump.sql";
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'a dump');
my $other = new_cluster('other', bare => 1, foreign => 1);
$other->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $other->connstr('postgres'), '-f', $dump ],
	'restored into another cluster');
cmp_ok(one($other, 'select pg_current_xact_id()::text::bigint'), '<',
	one($node, 'select pg_current_xact_id()::text::bigint'), 'whose transactions have smaller numbers');
$other->safe_psql('postgres', q(update bare set state = 'worn' where state = 'used' and id % 2 = 0; truncate sink));
my $rest = one($other, 'select behind from pawl.consumers where consumer = $$half$$');
my $new = one($other, q(select count(*) from bare where state = 'worn'));
is($rest, $unread - 150 + $new, 'what was unread is unread still, and the new besides');
$other->safe_psql('postgres', "update control set stop = true; call consume('half', 5, 100)");
is(one($other, 'select count(*) from sink'), $rest, 'all of it comes, nothing twice');
is(one($other, q(select max(i) filter (where to_state <> 'worn') < min(i) filter (where to_state = 'worn') from sink)),
	't', 'the old before the new');
is(one($node, 'select count(*) from pawl.outbox_epoch') . one($other, 'select count(*) from pawl.outbox_epoch'), '12',
	'in an epoch of its own');
$other->safe_psql('postgres', 'select pawl.prune_events()') for 1 .. 4;
is(one($other, "select count(*) from pawl.read_events('alone')"),
	one($other, "select count(*) from pawl.read_events('late')"), 'other consumers go on too');
sound($other, 'restored');
my @others = grep { /terminated by signal (?!9:)|PANIC:|TRAP:/ } map { split /\n/, slurp_file($_->logfile) } $node,
	$other;
is(join("\n", @others), '', 'no process died but those that were killed');
done_testing();
