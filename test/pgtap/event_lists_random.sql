-- A list of events leaves what its events leave when they are fired one by one, or nothing: random lists, tried on two
-- tables of the same kind, for every way in which the kernel stores a row and its log.
\set QUIET 1
set client_min_messages to error;
select no_plan();
create extension if not exists pawl;
select setseed(0.25);

select pawl.define('pair', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start [is_small] / note_it
    ready --> held : start
    held --> ready : free
    running --> checking : check / note_it
    running --> done : finish [is_small]
    running --> ready : give_up
    running --> pausing : pause
    pausing --> running : resume
    pausing --> ready : after 1 h
    checking --> running : redo / note_it
    checking --> done : finish
    running --> running : touch
    held --> done : give_up
    done --> ready : again
    class running,checking owned$$, unbound => 'note') as version \gset
create table noted (kind text, id int, what text, n serial);
create function is_small(old anyelement, new anyelement) returns boolean language plpgsql as
    'begin return new.size < 7; end';
create function note_it(old anyelement, new anyelement) returns void language plpgsql as $$
begin
    insert into noted (kind, id, what) values (pg_typeof(new)::text, new.id, format('%s>%s', old.state, new.state));
end $$;
create function noted_of(name text) returns text language sql as
    $$ select string_agg(id || ':' || what, ' ' order by n) from noted where kind = name $$;
select pawl.define('pair', pawl.diagram('pair')) as version \gset
create type pair_state as enum ('done', 'ready', 'held', 'running', 'checking', 'pausing');

-- A late trigger makes the kernel validate rows after they are written; a list partitioned by the state moves them.
create function late() returns trigger language plpgsql as 'begin return new; end';
create function make(name text, variant text) returns void language plpgsql as $$
declare
    type text := case when variant ~ 'enum' then 'pair_state' else 'text' end;
    managed boolean := variant ~ 'managed';
begin
    execute format(
        'create table %I (kind text, id int, state %s not null default ''ready'', size int not null, owner text, '
        'lease timestamptz, token bigint not null default 0, attempts int not null default 0, due timestamptz, '
        'label text generated always as (kind || ''-'' || size) stored, primary key (id%s)) %s', name, type,
        case when variant ~ 'partitioned' then ', state' end,
            case when variant ~ 'partitioned' then 'partition by list (state)' end);
    if variant ~ 'partitioned' then
        execute format('create table %I partition of %I for values in (''ready'', ''held'', ''done'')',
            name || '_1', name);
        execute format('create table %I partition of %I default', name || '_2', name);
    end if;
    perform pawl.enforce(name::regclass, 'state', 'pair', key => '{id}');
    perform pawl.enable_log(name::regclass, 'state',
        most_recent => case when variant ~ 'stored' then 'stored' else 'derived' end,
        hash_chain => variant ~ 'hash');
    if managed then
        perform pawl.enable_queue(name::regclass, 'state', owner => 'owner', lease => 'lease', token => 'token',
            attempts => 'attempts');
        perform pawl.set_claiming(name::regclass, 'state', claim => '{start}');
        perform pawl.enable_timers(name::regclass, 'state', due => 'due');
    end if;
    if variant ~ 'late' then
        execute format('create trigger "~~late" before update on %I for each row execute function late()', name);
    end if;
    if variant ~ 'skips' then
        execute format('create trigger a before insert on %s for each row execute function late()',
            (select b.history from pawl.binding b where b.relation = name::regclass));
    end if;
    if variant ~ 'events' then perform pawl.enable_events(name::regclass, 'state'); end if;
end $$;

-- Runs something, and returns the SQLSTATE that it ends with, null for none.
create function outcome(statements text[]) returns text language plpgsql as $$
declare statement text;
begin
    foreach statement in array statements loop execute statement; end loop;
    return null;
exception when others then return sqlstate;
end $$;
create function row_is(name text, id int) returns text language plpgsql as $$
declare answer text;
begin
    execute format(
        'select concat_ws('' '', state, owner, lease is null, token, attempts, due is null) from %I where id = %s',
        name, id)
       into answer;
    return answer;
end $$;
create function log_is(name text, id int) returns text language plpgsql as $$
declare answer text;
begin
    execute format(
        'select string_agg(concat_ws('':'', sort_key, coalesce(from_state, ''-''), to_state, event, '
        'coalesce(processor, ''-''), '
        'metadata, most_recent), '' '' order by sort_key) from %I where subject_id = %s', name || '_transitions',
            id) into answer;
    return answer;
end $$;

create function try(variant text, rounds int) returns setof text language plpgsql as $$
declare
    listed text := 'listed_' || variant;
    single text := 'single_' || variant;
    events text[];
    id int;
    target text;
    way int;
    processor text;
    first text;
    second text;
    wrong text[] := '{}';
    moved int := 0;
    rejected int := 0;
begin
    perform make(listed, variant), make(single, variant);
    execute format('insert into %I (kind, id, size) select ''k'', g, g from generate_series(1, 10) g', listed);
    execute format('insert into %I (kind, id, size) select ''k'', g, g from generate_series(1, 10) g', single);
    for round in 1 .. rounds loop
        id := 1 + floor(random() * 10);
        way := floor(random() * 3);
        processor := case when random() < 0.15 then 'v' else 'w' end;
        -- Mostly a way that the machine has, so that many lists go through.
        execute format('select state from %I where id = %s', single, id) into target;
        events := '{}';
        for i in 1 .. 1 + floor(random() * 5) loop
            select events || e.event, e.to_state into events, target
              from (select t.event, t.to_state from pawl.transitions('pair') t
                     where t.event is not null and (t.from_state = target or random() < 0.02)
                     order by random() limit 1) e;
        end loop;
        continue when events is null or array_position(events, null) is not null;
        perform set_config('pawl.processor', processor, true);
        second := outcome((select array_agg(format('select pawl.fire(%L, %s, %L)', single, id, e) order by n)
                             from unnest(events) with ordinality u(e, n)));
        execute format('select state from %I where id = %s', single, id) into target;
        if way = 0 then
            first := outcome(array[format('select pawl.fire(%L, %s, events => %L)', listed, id, events)]);
        elsif way = 1 then
            execute format('select f.sqlstate from pawl.fire_many(%L, array[%s], events => %L) f', listed, id, events)
                into first;
        elsif second is null then
            perform set_config('pawl.events', events::text, true);
            first := outcome(array[format('update %I set state = %L where id = %s', listed, target, id)]);
            perform set_config('pawl.events', '', true);
        else
            first := outcome(array[format('select pawl.fire(%L, %s, events => %L)', listed, id, events)]);
        end if;
        if second is null then moved := moved + 1; else rejected := rejected + 1; end if;
        if first is distinct from second or row_is(listed, id) is distinct from row_is(single, id)
            or log_is(listed, id) is distinct from log_is(single, id)
            or noted_of(listed) is distinct from noted_of(single) then
            wrong := wrong || format('round %s, row %s, way %s, %s: %s, %s; %s, %s; %s, %s; %s, %s', round, id,
                way, events,
                first, second, row_is(listed, id), row_is(single, id), log_is(listed, id), log_is(single, id),
                right(noted_of(listed), 100), right(noted_of(single), 100));
            exit;
        end if;
    end loop;
    return next is(wrong, '{}', variant || ': the same rows, logs and rejections');
    return next ok(moved > rounds / 4 and rejected > rounds / 20,
        format('%s: %s lists went through, %s were rejected', variant,
        moved, rejected));
    return next is_empty(format('select * from pawl.verify(%L)', listed),
        variant || ': verify finds nothing');
    return next ok(noted_of(listed) <> '', variant || ': effects have run');
end $$;

select try(variant, 60)
  from unnest(array['plain', 'managed', 'managed_stored', 'hash', 'managed_stored_hash', 'managed_enum_events',
          'managed_late',
    'late_hash', 'managed_partitioned', 'partitioned_stored', 'managed_skips_hash', 'managed_skips_stored']) variant;
select * from finish();
