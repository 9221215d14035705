-- Stands in for the extension PGMQ, which is not in Debian: the functions that pawl calls, with the names, overloads,
-- arguments, results and tables of PGMQ 1.12.1.
create schema pgmq;
create type pgmq.message_record as (msg_id bigint, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz,
    vt timestamptz, message jsonb, headers jsonb);
create type pgmq.queue_record
    as (queue_name varchar, is_partitioned boolean, is_unlogged boolean, created_at timestamptz);
create table pgmq.meta (queue_name varchar unique not null, is_partitioned boolean not null,
    is_unlogged boolean not null, created_at timestamptz not null default now());

create function pgmq.create(queue_name text) returns void language plpgsql as $$
begin
    if length(queue_name) > 47 or queue_name !~ '^[a-z0-9_]+$' then
        raise exception 'queue name "%" is too long, or has characters that are not allowed', queue_name;
    end if;
    perform pg_advisory_xact_lock(hashtext('pgmq.queue_' || queue_name));
    execute format('create table if not exists pgmq.%I (msg_id bigint primary key generated always as identity,
    read_ct integer not null default 0,
        enqueued_at timestamptz not null default now(), last_read_at timestamptz, vt timestamptz not null,
        message jsonb, headers jsonb)', 'q_' || queue_name);
    execute format('create table if not exists pgmq.%I (msg_id bigint primary key, read_ct integer not null default 0,
    enqueued_at timestamptz not null default now(),
        last_read_at timestamptz, archived_at timestamptz not null default now(), vt timestamptz not null,
        message jsonb, headers jsonb)', 'a_' || queue_name);
    execute format('create index if not exists %I on pgmq.%I (vt)', 'q_' || queue_name || '_vt_idx',
        'q_' || queue_name);
    insert into pgmq.meta values ($1, false, false) on conflict do nothing;
end $$;

create function pgmq.drop_queue(queue_name text) returns boolean language plpgsql as $$
begin
    execute format('drop table pgmq.%I, pgmq.%I', 'q_' || queue_name, 'a_' || queue_name);
    delete from pgmq.meta m where m.queue_name = $1;
    return found;
end $$;

create function pgmq.list_queues() returns setof pgmq.queue_record
    language plpgsql as $$ begin return query select * from pgmq.meta; end $$;

create function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz) returns setof bigint
    language plpgsql as $$
begin
    if coalesce(cardinality(msgs), 0) = 0 or cardinality(headers) <> cardinality(msgs) then
        raise exception 'there must be messages, and as many headers, if there are any';
    end if;
    return query execute format('insert into pgmq.%I (vt, message, headers) select $1, m, h from unnest($2, $3) x(m, '
                'h) returning msg_id', 'q_' || queue_name)
        using delay, msgs, headers;
end $$;

create function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay timestamptz) returns setof bigint
    language sql as
    $$ select * from pgmq.send_batch(queue_name, array[msg], array[headers], delay) $$;

-- The shorter ones of both: which of them is meant, PostgreSQL decides by the types.
do $$
declare
    name text; message text; shape record;
begin
    foreach name in array '{send,send_batch}'::text[] loop
        message := case name when 'send' then 'jsonb' else 'jsonb[]' end;
        for shape in select * from (values ('', 'null, clock_timestamp()'),
            (', headers ' || message, 'headers, clock_timestamp()'), (', delay timestamptz', 'null, delay'),
            (', delay integer', 'null, clock_timestamp() + make_interval(secs => delay)'),
            (', headers ' || message || ', delay integer',
                'headers, clock_timestamp() + make_interval(secs => delay)')) v(more, given) loop
            execute format('create function pgmq.%1$s(queue_name text, msg %2$s%3$s) returns setof bigint language '
                'sql as $f$ select * from pgmq.%1$s(queue_name, msg, %4$s) $f$',
                name, message, shape.more, shape.given);
        end loop;
    end loop;
end $$;

create function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
    returns setof pgmq.message_record language plpgsql as $$
begin
    return query execute format('with picked as (select m.msg_id from pgmq.%1$I m
            where m.vt <= clock_timestamp() and ($3 = ''{}'' or m.message @> $3)
            order by m.msg_id limit $1 for update skip locked)
        update pgmq.%1$I m set vt = clock_timestamp() + make_interval(secs => $2), read_ct = m.read_ct + 1,
        last_read_at = clock_timestamp() from picked where m.msg_id = picked.msg_id
        returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers', 'q_' || queue_name)
        using qty, vt, conditional;
end $$;

create function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint language plpgsql as $$
begin
    return query execute format('delete from pgmq.%I where msg_id = any ($1) returning msg_id', 'q_' || queue_name)
        using msg_ids;
end $$;

create function pgmq.delete(queue_name text, msg_id bigint) returns boolean language sql as
    $$ select exists (select from pgmq.delete(queue_name, array[msg_id])) $$;

create function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint language plpgsql as $$
begin
    return query execute format('with gone as (delete from pgmq.%I where msg_id = any ($1) returning *)
        insert into pgmq.%I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
        select g.msg_id, g.read_ct, g.enqueued_at, g.last_read_at, g.vt, g.message, g.headers from gone g
        returning msg_id', 'q_' || queue_name, 'a_' || queue_name) using msg_ids;
end $$;

create function pgmq.archive(queue_name text, msg_id bigint) returns boolean language sql as
    $$ select exists (select from pgmq.archive(queue_name, array[msg_id])) $$;
