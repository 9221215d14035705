# Namespaces move whose logs were pruned, redacted or are hash chains, and flows that were altered while they ran: what
# arrives is verified there, goes on, and can go back.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlPrograms;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main', with => [qw(pawl_dag pawl_saga)]);
my %database = (a => 'postgres', b => 'b');
my $worker = '00000000-0000-7000-8000-00000000000a';
$node->safe_psql('postgres', <<"SQL");
create function work(namespace text, rounds int default 100) returns void language plpgsql as \$\$
declare looked int; reports jsonb;
begin
    for i in 1 .. rounds loop
        select o.tasks into looked from pawl_dag.orchestrate(1000) o;
        select jsonb_agg(jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token,
            'result', c.name)) into reports from pawl_dag.claim('$worker', namespace, 1000, '1 day') c;
        exit when reports is null and looked = 0;
        if reports is not null then perform from pawl_dag.report(reports, '$worker'); end if;
    end loop;
end \$\$;
create function work_on_flows(batch int default 100) returns bigint language sql as \$\$
    select count(*) from pawl_saga.report((select coalesce(jsonb_agg(jsonb_build_object('flow_uuid', c.flow_uuid,
        'node', c.node, 'token', c.token, 'result', c.name)), '[]') from pawl_saga.claim('w', 'default', batch) c), 'w')
\$\$;
create procedure prune(tables text[]) language plpgsql as \$\$
declare pruned text;
begin
    foreach pruned in array tables loop
        while (select more from pawl.prune_log(pruned, '0 s', only_terminal => false)) loop
        end loop;
    end loop;
end \$\$;
create table orders (id uuid primary key default pawl.uuid_v7(), customer text not null, state text not null);
select pawl.define('order', 'stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> new : again');
select pawl.enforce('orders', 'state', 'order');
select pawl.enable_log('orders', hash_chain => true);
select pawl.declare_placed('shop', '[
    {"role": "unit", "relation": "public.orders", "namespace_column": "customer"},
    {"role": "part", "relation": "public.orders_transitions_log", "parent": "public.orders",
     "key_columns": ["subject_id"], "parent_columns": ["id"]}]');
SQL
$node->safe_psql('postgres', 'create database b template postgres');

sub pawl
{
	my ($name, $status, @arguments) = @_;
	my $run = begin_program($node, 'pawl', @arguments);
	is(end_program($run), $status, $name) or diag($run->{err});
	return "$run->{out}$run->{err}";
}
sub at { my ($name, $sql) = @_; return $node->safe_psql($database{$name}, $sql) }
sub picture
{
	my ($kind, $namespace, $name) = @_;
	return at($name, "select pawl._placed_counts('$kind', '$namespace', pawl.uuid_v7())");
}

# Moves; everything that may be equal is, and both databases are sound.
sub moves
{
	my ($kind, $namespace, $from, $to, $name) = @_;
	my $was = picture($kind, $namespace, $from);
	pawl($name, 0, 'move', $namespace, $to, '--pack', $kind, '--drain', '0 s');
	is(picture($kind, $namespace, $to), $was, "$name: byte for byte");
	is(picture($kind, $namespace, $from), '{}', "$name: nothing is left");
	sound($node, "$name: $_", $database{$_}) for sort keys %database;
	return;
}
pawl('the first database', 0, qw(databases init a dbname=postgres));
pawl('another', 0, qw(databases add b dbname=b));

# Logs that were pruned -------------------------------------------------------------------------------------------
my $tables = 'pawl_dag.tasks,pawl_dag.steps';
my $define = q(select pawl_dag.define_template('{"name": "chain", "namespace": "%s", "identity_strategy":
    "always_unique", "steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}'));
at('a', sprintf $define, $_) for qw(billing other);
at('a', <<"SQL");
select pawl_dag.start_tasks('chain', array_fill('{}'::jsonb, array[5]), namespace => n)
  from unnest('{billing,other}'::text[]) n;
select work(n) from unnest('{billing,other}'::text[]) n;
select pawl_dag.start_tasks('chain', array_fill('{}'::jsonb, array[3]), namespace => 'billing');
select work('billing', 1);
call prune('{$tables}');
select pawl.prune_audit('pawl_dag.steps', '0 s');
select work('billing', 1);
SQL
my $ends = q(select (select anchors from pawl.pruned_log where log = 'pawl_dag.step_transitions_log'::regclass));
cmp_ok(at('a', 'select count(*) from ' . at('a', $ends)), '>', 0, 'the log was pruned');
sound($node, 'before');
moves('dag', 'billing', 'a', 'b', 'a namespace with pruned logs moves to where none was');
cmp_ok(at('b', 'select count(*) from ' . at('b', $ends)), '>', 0, 'the ends are there');
is(at('b', "select horizon > '-infinity' from pawl.pruned_log where log = 'pawl_dag.step_transitions_log'::regclass"),
	't', 'and up to when it was pruned');
is(at('b', "select work('billing'); select string_agg(distinct state, ' ') from pawl_dag.tasks") =~ s/\s//r,
	'complete', 'it goes on');
at('b', "call prune('{$tables}'); select pawl_dag.start_task('chain', namespace => 'billing'); select work('billing')");
sound($node, 'it is pruned again', 'b');
moves('dag', 'billing', 'b', 'a', 'and moves back to where others were');
my $before = picture('dag', 'billing', 'a');
my $left = at('a', "select move from pawl.depart(pawl.uuid_v7(), 'dag', 'billing', 'b', 'left')");
is(picture('dag', 'billing', 'a'), '{}', 'the namespace leaves again');
at('a', "select pawl.return_departed('$left')");
is(picture('dag', 'billing', 'a'), $before, 'and returns, byte for byte');
sound($node, 'after that');

# Logs that are hash chains, pruned and redacted ------------------------------------------------------------------
at('a', <<'SQL');
insert into orders (customer, state) select c, 'new' from unnest('{ann,ann,bob}'::text[]) c;
begin; set local pawl.processor = 'a clerk'; update orders set state = 'paid'; commit;
update orders set state = 'sent';
call prune('{orders}');
update orders set state = 'new';
begin; set local pawl.processor = 'a clerk'; update orders set state = 'paid'; commit;
select pawl.redact('orders', id::text, '{processor}', 'asked for') from orders;
SQL
cmp_ok(at('a', 'select count(*) from orders_transitions_log where salts is not null'), '>=', 3, 'entries are redacted');
sound($node, 'with a redacted hash chain');
moves('shop', 'ann', 'a', 'b', 'a namespace with a hash chain moves');
is(at('b', 'select count(*) from pawl.redaction'), 2, 'with what is known of its redactions');
at('b', "update orders set state = 'sent'; call prune('{orders}'); update orders set state = 'new'");
sound($node, 'the chain goes on', 'b');
moves('shop', 'ann', 'b', 'a', 'and back');
is(at('a', 'select count(*) from pawl.redaction'), 3, 'where the redactions are known already');
at('a', "update orders set state = 'paid' where customer = 'ann'");
sound($node, 'it goes on there');
my $forge = sub {
	my ($event) = @_;
	at('a', <<"SQL");
set session_replication_role = replica;
alter table orders_transitions_log disable trigger all;
update orders_transitions_log l set event = '$event' from orders o where o.id = l.subject_id and o.customer = 'bob'
   and l.sort_key = (select max(sort_key) from orders_transitions_log where subject_id = o.id);
alter table orders_transitions_log enable trigger all;
SQL
};
$forge->('another');
like(pawl('an entry that was changed is found', 3, qw(move bob b --pack shop)), qr/hash_mismatch/, 'when it arrives');
is(at('b', 'select count(*) from orders'), 0, 'and nothing has arrived');
pawl('the move is cancelled', 0, qw(move bob --cancel --pack shop));
is(at('a', "select count(*) from orders where customer = 'bob'"), 1, 'and the order is back');
$forge->('pay');
sound($node, 'when it is as it was');

# Flows that were altered --------------------------------------------------------------------------------------------
my $trip = sub { return sprintf q(select pawl_saga.define('{"flow": "linear", "name": "trip", "children": [%s]}')),
		join ', ', map { qq({"task": "$_"}) } @_ };
at('b', 'delete from pawl_saga.definitions');
at($_, $trip->(qw(flight hotel))) for qw(a b);
at('a', <<'SQL');
with begun as (select pawl_saga.post(n, 'trip', board => 'mail') as job from unnest('{going,waiting,done}'::text[]) n)
select pawl_saga.claim_job(b.job, 'conductor') from begun b;
update pawl_saga.jobs set flow_uuid = pawl_saga.start('trip') where board = 'mail';
SQL
my $flow = sub { my ($name) = @_; return "(select flow_uuid from pawl_saga.jobs where name = '$name')" };
my $states = q(select string_agg(j.name || ' ' || f.state || ': ' || (select string_agg(t.name || ' ' || t.state, ', '
    order by t.name) from pawl_saga.tasks t where t.flow_uuid = f.flow_uuid), '; ' order by j.name)
  from pawl_saga.jobs j join pawl_saga.flows f using (flow_uuid));
at('a', 'select work_on_flows()');
at('a', 'select pawl_saga.suspend(' . $flow->($_) . ')') for qw(going waiting);
at('a', 'select work_on_flows(); select work_on_flows()');
at($_, $trip->(qw(flight car hotel))) for qw(b a);
at('a', 'select pawl_saga.alter_flow(' . $flow->($_) . ')') for qw(going waiting);
at('a', 'select pawl_saga.resume(' . $flow->('going') . ')');
my $was = at('a', $states);
like($was, qr/waiting SUSPENDED: car PENDING/, 'flows are altered');
is(at('a', 'select * from pawl_saga.verify()'), '', 'and they are sound');
pawl('they move', 0, qw(move mail b --pack saga --drain), '0 s');
is(at('b', $states), $was, 'as they are');
is(at('b', 'select * from pawl_saga.verify()'), '', 'and sound there');
sound($node, "after that: $_", $database{$_}) for sort keys %database;
is(at('b', <<'SQL'), '2 2', 'each has its own definition, made from the version that is there');
select count(*) || ' ' || count(v.definition_uuid) from pawl_saga.flows f
  join pawl_saga.definitions d on d.definition_uuid = f.definition_uuid and d.flow_uuid = f.flow_uuid
  left join pawl_saga.definitions v on v.definition_uuid = d.made_from and v.flow_uuid is null and v.version = 2
SQL
at('b', 'select pawl_saga.resume(' . $flow->('waiting') . ')');
at('b', "select pawl_saga.$_(" . $flow->('done') . ')') for qw(alter_flow run);
at('b', 'select work_on_flows()') for 1 .. 4;
is(at('b', $states),
	join('; ', map { "$_ SUCCESS: car SUCCESS, flight SUCCESS, hotel SUCCESS" } qw(done going waiting)),
	'and they go on with what was added');
at('b', $trip->(qw(flight car hotel museum)));
at('b', 'select pawl_saga.alter_flow(' . $flow->('done') . ')');
at('a', $trip->(qw(flight car hotel museum)));
pawl('altered once more, they move back', 0, qw(move mail a --pack saga --drain), '0 s');
at('a', 'select pawl_saga.run(' . $flow->('done') . ')');
at('a', 'select work_on_flows()') for 1 .. 2;
like(at('a', $states), qr/done SUCCESS: car SUCCESS, flight SUCCESS, hotel SUCCESS, museum SUCCESS/, 'and go on');
is(at('a', 'select * from pawl_saga.verify()'), '', 'and they are sound again');
sound($node, "in the end: $_", $database{$_}) for sort keys %database;
done_testing();
