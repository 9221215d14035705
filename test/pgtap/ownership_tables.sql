-- The same story of a claimed row on every kind of table, with every type of owner, token
-- and state, and by which index each step goes.
\set QUIET 1
set client_min_messages to error;
select no_plan();

select pawl.define('story', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> done : finish
    running --> running : expire
    running --> ready : back
    running --> ready : seize
    ready --> late : time_out after 1 hour
    late --> done : drop
    done --> [*]
    class running owned$$);
create type story_state as enum ('late', 'running', 'done', 'ready');
create domain story_domain as story_state;
create domain worker_name as varchar(20) check (value ^@ 'w');
create domain worker_id as uuid;
create domain story_text as text;

create function build(kind text, state_type text, owner_type text, token_type text) returns void language plpgsql as $$
declare
    columns text := format('id int not null, state %s not null default ''ready'', owner %s, lease timestamptz, token '
        '%s not null default 0, due timestamptz, lane int not null default 0, rank int',
                           state_type, owner_type, token_type);
begin
    drop table if exists s cascade;
    drop table if exists s_transitions_log cascade;
    case kind
    when 'plain' then execute format('create table s (%s, primary key (id))', columns);
    when 'range' then
        execute format('create table s (%s, primary key (id)) partition by range (id)', columns);
        create table s_low partition of s for values from (0) to (50);
        execute format('create table s_high (gone int, rank int, lane int not null, due timestamptz, token %s not '
            'null default 0, lease timestamptz, owner %s, state %s not null, id int not null)',
                       token_type, owner_type, state_type);
        alter table s_high drop column gone;
        alter table s attach partition s_high for values from (50) to (1000);
    when 'list' then  -- every state change of a row moves it to another partition
        execute format('create table s (%s, primary key (id, state)) partition by list (state)', columns);
        create table s_ready partition of s for values in ('ready', 'late');
        create table s_running partition of s for values in ('running');
        create table s_done partition of s default;
    when 'lanes' then  -- a row moves to another partition without a state change
        execute format('create table s (%s, primary key (id, lane)) partition by list (lane)', columns);
        create table s_0 partition of s for values in (0);
        create table s_1 partition of s default;
    when 'inherited' then
        execute format('create table s (%s, primary key (id))', columns);
        create table s_child (extra text) inherits (s);
        alter table s_child add primary key (id);
    end case;
    perform pawl.enforce('s', 'state', 'story', key => '{id}'), pawl.enable_log('s', 'state'),
        pawl.enable_queue('s', 'state', owner => 'owner', lease => 'lease', token => 'token'),
        pawl.enable_timers('s', 'state', due => 'due'),
        pawl.set_claiming('s', 'state', claim => '{start}', claim_order => 'rank desc', on_expiry => 'expire',
            operator_events => '{seize}');
    execute format('insert into %s (id, rank) select g, g / 10 from generate_series(1, 49) g',
        case kind when 'inherited' then 's_child' else 's' end);
    insert into s (id, rank) select g, g / 10 from generate_series(50, 99) g;
    update s set due = null;  -- claimable at once
end $$;

create function now_is(id int) returns text language plpgsql as $$
begin
    return (select concat_ws(' ', state, coalesce(owner::text, '-'), token,
        round(extract(epoch from lease - clock_timestamp()) / 60),
        round(extract(epoch from due - clock_timestamp()) / 60))
      from s where s.id = now_is.id);
end $$;
create function code_of(statement text) returns text language plpgsql as $$
declare code text;
begin
    execute statement;
    return 'ok';
exception when others then
    get stacked diagnostics code = returned_sqlstate;
    return code;
end $$;
create function run_out(id int) returns void language plpgsql as $$
begin
    set local session_replication_role = replica;
    update s set lease = clock_timestamp() - interval '1 s' where s.id = run_out.id;
    set local session_replication_role = origin;
end $$;

-- How a call finds its rows in the table and its parts: by which of our indexes, or by reading all rows. Rows that it
-- holds are then found by their places or their keys, which is no matter here.
create function scan_counts() returns table (name text, scans bigint) language sql volatile as $$
    select case when c.relkind = 'i' then case when c.relname ~ '_(claim|rank_id_idx)$' then 'claim'
        when c.relname ~ '_(owned|owner_lease_idx)$' then 'owned'
        when c.relname ~ '_(due|due_id_idx)$' then 'due' else c.relname::text end else 'ALL ROWS' end,
        sum(pg_stat_get_xact_numscans(c.oid))::bigint
      from pg_class c where c.relname ~ '^s(_|$)' and c.relname !~ 'transitions|_pkey' and c.relkind in ('r', 'i')
      group by 1 $$;
create function scans(call text) returns text language plpgsql as $$
declare
    before jsonb;
    now_scanned text;
begin
    select coalesce(jsonb_object_agg(n.name, n.scans), '{}') into before from scan_counts() n;
    execute call;
    select string_agg(n.name, ' ' order by n.name) into now_scanned from scan_counts() n
        where n.scans > coalesce((before ->> n.name)::bigint, 0);
    return now_scanned;
end $$;

create function story(kind text, state_type text, owner_type text, token_type text) returns setof text
    language plpgsql as $$
declare
    about text := format(' (%s, state %s, owner %s, token %s)', kind, state_type, owner_type, token_type);
    by_uuid boolean := owner_type in ('uuid', 'worker_id');
    one text := case when by_uuid then '11111111-2222-3333-4444-55555555aaaa' else 'w1' end;
    two text := case when by_uuid then '11111111-2222-3333-4444-55555555bbbb' else 'w2' end;
    taken text;
begin
    perform build(kind, state_type, owner_type, token_type);
    select string_agg(concat_ws(' ', c.id, c.state, c.owner::text = one, c.token, c.due), ', ') into taken
      from pawl.claim(null::s, processor => one, batch => 3, lease => '5 min') c;
    return next is(taken, '90 running t 1, 91 running t 1, 92 running t 1', 'claimed in order' || about);
    return next is(now_is(90), format('running %s 1 5', one), 'the row says so' || about);
    return next is(code_of(format('update s set state = ''done'', owner = %L where id = 90', two)), 'PW004',
        'not for another' || about);
    return next is(code_of('update s set state = ''done'' where id = 90'), 'PW004', 'nor without a processor' || about);
    perform set_config('pawl.processor', 'cron job', true);
    return next is(code_of('update s set state = ''done'' where id = 90'), 'PW004',
        'nor for a name that no owner could have' || about);
    perform set_config('pawl.processor', '', true);
    return next is(code_of(format('select pawl.fire(''s'', 90, ''finish'', processor => %L, token => 7)', one)),
        'PW005', 'nor with an old token' || about);
    return next is(code_of(format('update s set owner = %L where id = 90', two)), 'PW004',
        'nor is it taken over' || about);
    if by_uuid then
        return next is(code_of('select pawl.claim(null::s, processor => ''cron job'')'), '22P02',
            'an owner must be what the column holds' || about);
        return next is(pawl.heartbeat('s', upper(one), '10 min'), 3::bigint, 'in whatever spelling' || about);
    elsif owner_type = 'worker_name' then
        return next is(code_of('select pawl.claim(null::s, processor => ''x'')'), '23514',
            'an owner must be what the column holds' || about);
    elsif owner_type = 'varchar(2)' then
        return next is(code_of('select pawl.claim(null::s, processor => ''w12'')'), '22001',
            'an owner must be what the column holds' || about);
    end if;
    return next is(pawl.heartbeat('s', one, '10 min'), 3::bigint, 'leases are extended' || about);
    return next is(now_is(91), format('running %s 1 10', one), 'all of them' || about);
    perform run_out(91);
    perform set_config('pawl.processor', 'reaper 1', true);
    return next is((select r.done from pawl.reap('s') r), 1::bigint, 'one is lost' || about);
    perform set_config('pawl.processor', '', true);
    return next is(now_is(91), 'running - 2', 'and stays where it is, without an owner' || about);
    return next is((select l.metadata ->> 'lost_owner' from s_transitions l where l.subject_id = 91
            order by sort_key desc limit 1), one, 'the log names the owner that lost it' || about);
    return next is(code_of('update s set state = ''done'' where id = 91'), 'PW004',
        'without an owner it cannot be completed' || about);
    perform set_config('pawl.processor', two, true);
    update s set lane = 1 where id = 91;
    return next is(now_is(91), 'running - 2', 'nor becomes its owner by writing something else' || about);
    perform set_config('pawl.processor', '', true);
    execute format('update s set owner = %L where id = 91', two);
    return next is(now_is(91), format('running %s 3 1', two), 'but by claiming it' || about);
    update s set lane = 0 where id = 91;
    return next is(now_is(91), format('running %s 3 1', two), 'its owner stays, in whichever partition' || about);
    perform pawl.fire('s', 91, 'finish', processor => two, token => 3);
    return next is(now_is(91), 'done - 3', 'its owner completes it' || about);
    return next is(pawl.abandon('s', one, 'back'), 2::bigint, 'the others are given back' || about);
    return next is(now_is(92), 'ready - 1 60', 'and their timer is set' || about);
    set local session_replication_role = replica;
    update s set due = clock_timestamp() where id in (90, 92);
    set local session_replication_role = origin;
    return next is((select r.done from pawl.fire_due('s') r), 2::bigint, 'timers are fired' || about);
    return next is(now_is(92), 'late - 1', 'as drawn' || about);
    return next is(pawl.fire('s', 92, 'drop'), 'done', 'and it ends' || about);
    execute format('update s set state = ''running'', owner = %L where id = 93', one);
    return next is(pawl.fire('s', 93, 'seize'), 'ready', 'a row is seized' || about);
    return next is((select l.metadata ->> 'lost_owner' from s_transitions l where l.subject_id = 93
            order by sort_key desc limit 1), one, 'the log names the owner that lost it' || about);
    update s set due = null where id = 93;
    return next is((select string_agg(l.event, ' ' order by sort_key) from s_transitions l where l.subject_id = 91),
        'start expire finish', 'the log has it all' || about);
    return next is((select string_agg(concat(v.key, ' ', v.problem), ', ') from pawl.verify('s') v
                where v.problem <> 'timer_missing'), null, 'and agrees' || about);
    -- the tables were never analyzed
    return next is(scans(format('select pawl.claim(null::s, processor => %L, batch => 2)', one)), 'claim',
        'claims go by their index' || about);
    return next is(scans(format('select pawl.heartbeat(''s'', %L, ''1 day'')', one)), 'owned',
        'heartbeats by theirs' || about);
    perform run_out(id) from s where owner is not null;
    return next is(scans('select pawl.reap(''s'')'), 'owned', 'so does reap' || about);
    set local session_replication_role = replica;
    update s set due = clock_timestamp() where id in (1, 2, 3, 98, 99);
    set local session_replication_role = origin;
    return next is(scans('select pawl.fire_due(''s'')'), 'due', 'and fire_due' || about);
    perform pawl.claim(null::s, processor => one, batch => 2);
    return next is(scans(format('select pawl.abandon(''s'', %L, ''back'')', one)), 'owned', 'and abandon' || about);
    create temp table whatever ();  -- changes the search_path
    return next is(scans(format('select pawl.claim(null::s, processor => %L, batch => 2)', one)), 'claim',
        'also when the search_path is another' || about);
    drop table whatever;
end $$;

select story('plain', 'text', 'text', 'bigint');
select story('plain', 'story_state', 'uuid', 'integer');
select story('plain', 'story_domain', 'worker_id', 'bigint');
select story('plain', 'varchar(10)', 'varchar(2)', 'integer');
select story('plain', 'story_text', 'worker_name', 'bigint');
select story('range', 'text', 'text', 'bigint');
select story('range', 'story_state', 'uuid', 'integer');
select story('list', 'text', 'worker_name', 'bigint');
select story('list', 'story_state', 'uuid', 'integer');
select story('lanes', 'text', 'text', 'bigint');
select story('inherited', 'text', 'worker_id', 'bigint');
select story('inherited', 'story_domain', 'varchar(2)', 'integer');

-- Many bindings on one table, each with columns of its own; one statement moves and keeps them all.
select format('create table many (id int primary key, %s)',
    string_agg(format('state%1$s text not null default ''ready'', owner%1$s text, lease%1$s timestamptz, token%1$s '
        'int not null default 0, '
    'due%1$s timestamptz, attempts%1$s int not null default 0', g), ', ')) from generate_series(1, 6) g \gexec
select pawl.enforce('many', ('state' || g)::name, 'story'),
    pawl.enable_queue('many', ('state' || g)::name, owner => ('owner' || g)::name, lease => ('lease' || g)::name,
        token => ('token' || g)::name, attempts => ('attempts' || g)::name),
    pawl.enable_timers('many', ('state' || g)::name, due => ('due' || g)::name),
    pawl.set_claiming('many', ('state' || g)::name, claim => '{start}', on_expiry => 'expire')
    from generate_series(1, 6) g;
insert into many (id) values (1), (2);
set pawl.processor = 'w';
select format('update many set %s where id = 1', string_agg(format('state%s = ''running''', g), ', '))
    from generate_series(1, 6) g \gexec
reset pawl.processor;
select format('select is((select concat_ws('' '', %s) from many where id = 1), %L, ''six lifecycles on a table are '
    'kept in one statement'')',
    string_agg(format('owner%1$s, token%1$s, attempts%1$s, due%1$s', g), ', '), string_agg('w 1 1', ' '))
    from generate_series(1, 6) g \gexec
select is((select count(*) from pawl.claim(null::many, processor => 'v', state_column => 'state2') c), 0::bigint,
    'a row with a timer is no claim''s');
update many set due2 = null, due1 = null where id = 2;
select is((select concat_ws(' ', state1, state2, owner1, owner2, due1) from pawl.claim(null::many, processor => 'v',
    state_column => 'state2') c), 'ready running v', 'a claim of one lifecycle leaves the others alone');
select throws_ok($$update many set state1 = 'running', owner1 = 'v', state2 = 'done', owner2 = 'x' where id = 2$$,
    'PW004', null, 'each is asked by itself');
update many set state1 = 'running', owner1 = 'u', state2 = 'done', owner2 = 'v' where id = 2;
select is((select concat_ws(' ', state1, owner1, state2, owner2) from many where id = 2), 'running u done',
    'and each has its own owner');
select is(pawl.heartbeat('many', 'u', state_column => 'state1'), 1::bigint, 'and its own leases');
select is((select string_agg(key || problem, ' ') from pawl.verify('many') where problem <> 'timer_missing'), null,
    'verify finds no difference in the table with many columns');
select * from finish();
