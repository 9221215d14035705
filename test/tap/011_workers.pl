# Eight workers on one table for 10 seconds (two minutes with PAWL_LONG=1), with leases that run out, workers that are
# killed and come back, sessions that are cut off, and processes of the server that die. Two of the workers are
# REPEATABLE READ, two SERIALIZABLE, two have clocks of other time zones. Each tells in an append-only table what it
# did, in the transaction that did it; SQL looks afterwards.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use PawlTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{PAWL_LONG} ? 120 : 10;
my $jobs = $ENV{PAWL_LONG} ? 28_000 : 1500;
my $seed = $ENV{PAWL_SEED} // 20;
srand($seed);

my $node = new_cluster('main');
$node->safe_psql('postgres', <<"SQL");
select pawl.define('job', 'stateDiagram-v2
    [*] --> ready
    ready --> running : start
    waiting --> running : start
    running --> done : finish
    running --> waiting : fail
    running --> dead : fail
    running --> ready : expire
    running --> ready : give_back
    waiting --> ready : wake after 1 hour
    done --> [*]
    dead --> [*]
    class running owned');
create table job (id int primary key, state text not null default 'ready', owner text, lease timestamptz,
    token bigint not null default 0, due timestamptz,
    attempts int not null default 0, priority int not null default 0);
select pawl.enforce('job', 'state', 'job'), pawl.enable_log('job', 'state', hash_chain => true),
    pawl.enable_queue('job', 'state', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'),
    pawl.enable_timers('job', 'state', due => 'due'),
    pawl.set_claiming(
        'job', 'state', claim => '{start}', claim_order => 'priority desc', on_expiry => 'expire', retry => '{fail}',
            backoff => '{"strategy": "exponential", "base": "50 ms", "cap": "400 ms", "jitter": "full", '
                '"max_attempts": 12}'),
    pawl.enable_events('job', 'state');
insert into job (id, priority) select g, g % 3 from generate_series(1, $jobs) g;
create table told (n bigserial, kind text not null, job int not null, token bigint not null, worker text not null,
    until timestamptz, at timestamptz not null default clock_timestamp());
create index on told (worker, job, token);
create table control (stop boolean not null);
insert into control values (false);

create procedure work(me text) language plpgsql as \$\$
declare
    mine record;
    held bigint;
begin
    while not (select stop from control) loop
        insert into told (kind, job, token, worker, until) select 'claim', c.id, c.token, me, c.lease
          from pawl.claim(null::job, processor => me, batch => 1 + (random() * 4)::int, lease => '300 ms') c;
        commit;
        for mine in select c.job, c.token from told c where c.worker = me and c.kind = 'claim'
                       and not exists (select from told e where e.worker = me and e.job = c.job and e.token = c.token
                           and e.kind in ('finish', 'fail', 'rejected')) order by c.n loop
            perform pg_sleep(case when random() < 0.06 then 0.45 else random() * 0.03 end);
            if random() < 0.3 then
                held := pawl.heartbeat('job', me, '300 ms');
                if held > 0 then
                    insert into told (kind, job, token, worker, until) select 'beat', j.id, j.token, me, j.lease
                        from job j where j.owner = me;
                end if;
                commit;
            end if;
            begin
                if random() < 0.15 then
                    perform pawl.fire('job', mine.job, 'fail', processor => me, token => mine.token);
                    insert into told (kind, job, token, worker) values ('fail', mine.job, mine.token, me);
                elsif random() < 0.5 then
                    perform pawl.fire('job', mine.job, 'finish', processor => me, token => mine.token);
                    insert into told (kind, job, token, worker) values ('finish', mine.job, mine.token, me);
                else  -- plain SQL
                    update job set state = 'done', owner = me, token = mine.token where id = mine.job;
                    insert into told (kind, job, token, worker) values ('finish', mine.job, mine.token, me);
                end if;
            exception when sqlstate 'PW004' or sqlstate 'PW005' then
                insert into told (kind, job, token, worker) values ('rejected', mine.job, mine.token, me);
            end;
            commit;
        end loop;
        if held is null then perform pg_sleep(0.01); end if;
    end loop;
end \$\$;
create procedure duties() language plpgsql as \$\$
begin
    while not (select stop from control) loop
        perform pawl.reap('job', 100);
        commit;
        perform pawl.fire_due('job', 100);
        commit;
        perform pg_sleep(0.02);
    end loop;
end \$\$;
SQL

my @options = ('', '', '-c default_transaction_isolation=repeatable\ read',
	'-c default_transaction_isolation=repeatable\ read',
	'-c default_transaction_isolation=serializable', '-c default_transaction_isolation=serializable',
	'-c timezone=Pacific/Kiritimati', '-c timezone=Etc/GMT+12');
my %count = map { $_ => 0 } qw(killed terminated crashed serialization other);
my @worker;

sub begin_worker
{
	my ($n, $name, $call) = @_;
	my %worker = (n => $n, name => $name, call => $call, err => '');
	local $ENV{PGOPTIONS} = $options[$n] // '';
	$worker{handle} = IPC::Run::start(['psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d',
		$node->connstr('postgres') . " application_name=$name", '-c', $call],
		'<', '/dev/null', '>', '/dev/null', '2>', \$worker{err});
	return \%worker;
}

# A worker that died is begun again: under a new name when it was killed, else it goes on under its own.
sub look_after
{
	for my $i (0 .. $#worker)
	{
		my $worker = $worker[$i];
		next if $worker->{handle}->pumpable && do { eval { $worker->{handle}->pump_nb }; $worker->{handle}->pumpable };
		eval { $worker->{handle}->finish };
		if ($worker->{err} =~ /40001|40P01/) { $count{serialization}++ }
		elsif ($worker->{err} =~ /ERROR/
			&& $worker->{err} !~ /57P0|XX000.*shut/) { $count{other}++; diag("$worker->{name}: $worker->{err}") }
		my $name = $worker->{name};
		$name =~ s/\.(\d+)$/'.' . ($1 + 1)/e if $worker->{renamed};
		my $call = $worker->{call} =~ /duties/ ? $worker->{call} : "call work('$name')";
		$worker[$i] = begin_worker($worker->{n}, $name, $call);
	}
	return;
}

push @worker, begin_worker($_, "w$_.1", "call work('w$_.1')") for 0 .. 7;
push @worker, begin_worker(8, "duties.$_", 'call duties()') for 1, 2;
my $end = time() + $seconds;
my $latest = time() + 10 * $seconds;
my $next_accident = time() + 1;
my $crash_at = time() + $seconds / 2;
# On a busy machine it takes longer until everything has happened that must.
sub enough
{
	return $count{killed} + $count{terminated} > $seconds / 4 && $count{crashed} && $count{serialization}
		&& asked($node, "select count(*) from told where kind = 'rejected'") > 0;
}
while (time() < $end || time() < $latest && !enough())
{
	look_after();
	if (time() > $next_accident)
	{
		my $victim = $worker[int(rand(8))];
		if (rand() < 0.5)
		{
			$victim->{renamed} = 1;
			kill('KILL', $victim->{handle}{KIDS}[0]{PID});
			$count{killed}++;
		}
		else
		{
			$node->psql('postgres',
				"select pg_terminate_backend(pid) from pg_stat_activity where application_name = '$victim->{name}'");
			$count{terminated}++;
		}
		$next_accident = time() + 0.3 + rand();
	}
	if (time() > $crash_at)
	{
		my $name = $worker[int(rand(8))]{name};
		my (undef, $pid) = $node->psql('postgres', "select pid from pg_stat_activity where application_name = '$name'");
		if ($pid && $pid =~ /^\d+$/ && kill('KILL', $pid)) { $count{crashed}++; $crash_at += $seconds; }
		wait_until(sub { is_ready($node) }, 'the recovery');
	}
	select(undef, undef, undef, 0.05);
}
wait_until(sub { is_ready($node) }, 'the recovery');

# No worker is killed any more; what is left is completed.
wait_until(sub { look_after(); one($node, "select count(*) from job where state not in ('done', 'dead')") eq '0' },
	'all jobs to end');
$node->safe_psql('postgres', 'update control set stop = true');
$_->{handle}->finish for @worker;
note(join(', ', map { "$_ $count{$_}" } sort keys %count));
note(one($node, q(select 'from the first claim to the last: ' || (max(at) - min(at)) from told where kind = 'claim')));
note(one($node,
	q(select string_agg(kind || ' ' || n, ', ' order by kind) from (select kind, count(*) n from told group by 1) x)));

cmp_ok($count{killed} + $count{terminated}, '>', $seconds / 4, 'workers were killed and cut off');
cmp_ok($count{crashed}, '>=', 1, 'and the server crashed');
is($count{other}, 0, 'workers met no errors but rejections and serialization failures');
cmp_ok($count{serialization}, '>', 0, 'workers with snapshots got serialization failures');

is(one($node, "select count(*) from job where state not in ('done', 'dead')"), 0, 'every job has ended');
is(one($node, "select count(*) from job where owner is not null or lease is not null or due is not null"), 0,
	'and has no owner');
is(one($node, <<'SQL'), 0, 'no two executions of a job have leases that overlap');
with execution as (
    select c.job, c.token, c.until - interval '300 ms' as began,
           coalesce((select min(e.at) from told e
               where e.job = c.job and e.token = c.token and e.kind in ('finish', 'fail')),
                    (select max(u.until) from told u
        where u.job = c.job and u.token = c.token and u.worker = c.worker and u.kind in ('claim', 'beat'))) as ended
      from told c where c.kind = 'claim')
select count(*) from (select *, lag(ended) over (partition by job order by token) as before from execution) x
where began < before
SQL
is(one($node, "select count(*) from (select job, token from told where kind = 'claim' group by 1, 2 having "
	. "count(*) > 1) x"), 0, 'no token was given twice');
is(one($node, "select count(*) from told t where kind = 'claim'
         and token <> (select count(*) from told u where u.job = t.job and u.kind = 'claim' and u.token < t.token) + 1
	+ (select count(*) from job_transitions l where l.subject_id = t.job and l.event = 'expire'
		and l.metadata ? 'lost_owner' and (l.metadata ->> 'token')::bigint < t.token)"),
	0, 'tokens grow by one with every owner taken and lost');
cmp_ok(one($node, "select count(*) from told where kind = 'rejected'"), '>', 0, 'late workers were rejected');
is(one($node, <<'SQL'), 0, 'and only workers that had lost the job: its lease had expired, or its token had changed');
select count(*) from told r where r.kind = 'rejected'
   and r.at <= (select max(u.until) from told u
       where u.job = r.job and u.token = r.token and u.kind in ('claim', 'beat'))
   and not exists (select from told c where c.job = r.job and c.token > r.token)
   and not exists (select from job_transitions l
       where l.subject_id = r.job and l.event = 'expire' and (l.metadata ->> 'token')::bigint = r.token)
SQL
is(one($node, <<'SQL'), 0, 'the worker that ended an execution is the one that began it, with nothing in between');
select count(*)
    from (select event, processor, lag(event) over w as event_before, lag(processor) over w as processor_before
                        from job_transitions window w as (partition by subject_id order by sort_key)) l
 where event in ('finish', 'fail')
     and (event_before is distinct from 'start' or processor_before is distinct from processor)
SQL
is(one($node, "select count(*) from (select job from told where kind = 'finish' group by 1 having count(*) > 1) x"), 0,
	'no job was finished twice');
is(one($node, "select count(*) from job j where state = 'done' and not exists (select from told t where t.job = j.id "
	. "and t.kind = 'finish' and t.token = j.token)"), 0, 'each by the owner of its last token');
is(one($node, "select count(*) from told where kind = 'claim'"),
	one($node, "select count(*) from job_transitions where event = 'start'"), 'every execution is in the log');
is(one($node, "select count(*) from job j where attempts <> (select count(*) from job_transitions l where "
	. "l.subject_id = j.id and l.event = 'start')"), 0, 'attempts match the log');
is(one($node, "select count(*) from job where state = 'dead' and attempts < 12"), 0, 'no job was given up too early');
is(one($node, "select count(distinct (id, token)) from job"), $jobs, 'all jobs are there');
sound($node, 'in the end');
done_testing();
