# Through pgbouncer in transaction mode: many clients on two sessions of the server, every transaction on whichever is
# free. What is said for one transaction counts for that one; what server sessions
# remember (plans, scan positions) serves any client.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use Pooler;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_cluster('main');
$node->safe_psql('postgres', <<'SQL');
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> waiting : fail
    running --> ready : expire
    waiting --> ready : wake after 1 hour
    done --> [*]
    class running owned');
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz, attempts int not null default 0);
select pawl.enforce('job', 'state', 'job'), pawl.enable_log('job', 'state'),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.enable_timers('job', 'state', due => 'due'),
    pawl.set_claiming('job', 'state', claim => '{start}', on_expiry => 'expire', retry => '{fail}',
        backoff => '{"strategy": "none"}');
insert into job (id) select generate_series(1, 3000);
SQL

my $pooler = Pooler->new($node, mode => 'transaction', size => 2);
my ($folder, $port) = ($pooler->folder, $pooler->port);
sub ask { return $pooler->ask(@_) }
wait_until(sub { scalar(ask('select 1')) eq '1' }, 'pgbouncer');

# One client after the other.
is(ask("begin; select pawl.set_context(processor => 'w1', correlation_id => 'r1'); select count(*) from "
	. "pawl.claim(null::job, batch => 3); commit;"), "\n3", 'claim with the context of a transaction');
my (undef, $error) = ask('select pawl.claim(null::job)');
like($error, qr/22004/, 'which the next transaction does not have, on whatever session it is');
is(ask("select pawl.heartbeat('job', 'w1', '1 hour')"), 3, 'heartbeat extends leases through a pooler');
(undef, $error) = ask("update job set state = 'done' where id = 1");
like($error, qr/PW004/, 'no processor is set');
(undef, $error) = ask("begin; select pawl.set_context(processor => 'w1', token => 99); update job set state = 'done' "
	. "where id = 1; commit;");
like($error, qr/PW005/, 'an old token, by the context');
is(ask("begin; select pawl.set_context(processor => 'w1', token => 1); update job set state = 'done' where id "
	. "= 1; commit;"), '', 'complete by plain SQL in one transaction');
is(ask("select pawl.fire('job', 2, 'finish', processor => 'w1', token => 1)"), 'done',
	'or by a function with all of it as arguments');
is(ask("select pawl.abandon('job', 'w1')"), 1, 'abandon returns a row through a pooler');

# What one client leaves in a session another one gets, unless only settings of the transaction count.
$node->safe_psql('postgres', "create table jot (id int primary key, state text not null default 'ready'); "
	. "select pawl.define('jot', 'stateDiagram-v2\n[*] --> ready\nready --> done : finish'), "
	. "pawl.enforce('jot', 'state', "
	. "'jot'), pawl.enable_log('jot'); insert into jot select generate_series(1, 9)");
my $signed = "select coalesce(string_agg(processor, ' ' order by subject_id), '') from jot_transitions where "
	. "event = 'finish'";
ask("set pawl.processor = 'left'") for 1 .. 20;    # on both sessions
ask("update jot set state = 'done' where id = 1");
is(ask($signed), 'left', 'a setting that another client has left signs a state change');
$node->safe_psql('postgres', 'alter database postgres set pawl.transaction_context = on');
$pooler->end;
$pooler->begin;
ask("set pawl.processor = 'left'") for 1 .. 20;
ask("update jot set state = 'done' where id = 2");
is(ask($signed), 'left', 'with transaction_context it does not');
ask("begin; select pawl.set_context(processor => 'mine'); update jot set state = 'done' where id = 3; commit;");
is(ask($signed), 'left mine', 'the context of the transaction does');
ask("begin; select pawl.set_context(processor => 'prepared'); update jot set state = 'done' where id = 4; "
	. "prepare transaction 'jot'");
ask("update jot set state = 'done' where id = 5");
is(ask($signed), 'left mine', 'that of a prepared transaction is of no other, also while it waits');
ask("commit prepared 'jot'");
is(ask($signed), 'left mine prepared', 'and signs its own state change');
ask("update jot set state = 'done' where id = 6");
ask("begin; savepoint s; set local pawl.processor = 'undone'; rollback to s; update jot set state = 'done' "
	. "where id = 7; commit");
is(ask($signed), 'left mine prepared', 'what a savepoint has undone is not recorded');
$node->safe_psql('postgres', q(do $$ begin
	execute format('alter role %I set pawl.processor = %L', current_user, 'role');
	end $$));
$pooler->end;
$pooler->begin;
ask("update jot set state = 'done' where id = 8");
is(ask($signed) . ' ' . ask('show pawl.processor'), 'left mine prepared role',
	'nor is what ALTER ROLE gives to each session');
$node->safe_psql('postgres', q(do $$ begin execute format('alter role %I reset pawl.processor', current_user); end $$;
	alter database postgres reset pawl.transaction_context));
$pooler->end;
$pooler->begin;

# Many clients at once.
my %script = (work => <<'SQL', lost => <<'SQL', beat => <<'SQL', duties => <<'SQL', late => <<'SQL');
begin;
select pawl.set_context(processor => 'c:client_id', correlation_id => 'c:client_id');
select count(*) from pawl.claim(null::job, batch => 5, lease => '10 min');
commit;
begin;
select pawl.set_context(processor => 'c:client_id', correlation_id => 'c:client_id');
select count(*)
    from pawl.fire_many('job', array(select id from job where owner = 'c:client_id' order by id limit 4), 'finish');
commit;
SQL
begin;
select pawl.set_context(processor => 'lost :client_id', correlation_id => 'lost :client_id');
select count(*) from pawl.claim(null::job, batch => 2, lease => '1 ms');
commit;
SQL
select pawl.heartbeat('job', 'c:client_id', '10 min');
SQL
select done from pawl.reap();
select done from pawl.fire_due('job');
SQL
begin;
select pawl.set_context(processor => 'c:client_id', correlation_id => 'c:client_id', delay => '1 ms');
select count(*)
    from pawl.fire_many('job', array(select id from job where owner = 'c:client_id' order by id limit 1), 'fail');
commit;
SQL
append_to_file("$folder/$_.sql", $script{$_}) for keys %script;
my ($out, $err) = ('', '');
ok(IPC::Run::run(['pgbench', '-n', '-h', $folder, '-p', $port, '-M', 'simple', '-f', "$folder/work.sql\@8", '-f',
	"$folder/lost.sql\@1", '-f', "$folder/beat.sql\@2", '-f', "$folder/duties.sql\@1", '-f',
	"$folder/late.sql\@1", '-c', '12', '-j', '2', '-t', '120', 'postgres'], '>', \$out, '2>', \$err),
	'twelve clients on two sessions') or diag($err);
cmp_ok(one($node, "select count(*) from job where state = 'done'"), '>', 1000, 'they get their work done');
is(one($node, "select count(distinct pid) <= 2 from pg_stat_activity where application_name = 'pgbench' and "
	. "backend_type = 'client backend'"), 't', 'by two sessions');
is(one($node, "select count(*) from job_transitions where event in ('start', 'finish', 'fail') and processor is "
		. "distinct from correlation_id and coalesce(correlation_id, '') not in ('', 'r1')"), 0,
	'no client acts as the processor of another');
is(one($node, <<'SQL'), 0, 'the client that ended a job is the one that began it');
select count(*)
    from (select event, processor, lag(event) over w as event_before, lag(processor) over w as processor_before
                        from job_transitions window w as (partition by subject_id order by sort_key)) l
 where event in ('finish', 'fail')
     and (event_before is distinct from 'start' or processor_before is distinct from processor)
SQL
ask("select pawl.abandon('job', 'c$_')") for 0 .. 11;
wait_until(sub { ask("select done = 0 and next_at is null from pawl.reap('job')") eq 't' }, 'all leases to end');
is(one($node, 'select count(*) from job where owner is not null'), 0, 'in the end everything is free');
sound($node, 'through the pooler');
is(scalar(grep { /FATAL|pool_error|closing because: server/ } split /\n/, $pooler->log), 0,
	'the pooler has nothing to complain of');
$pooler->end;
no_crash($node);
done_testing();
