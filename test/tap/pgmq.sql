-- Stands in for the extension PGMQ, which is not in Debian: the functions that pawl calls, with the names, arguments and results that PGMQ documents.
create schema pgmq;
create type pgmq.message_record as (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb);
create table pgmq.meta (queue_name text primary key, is_partitioned boolean not null, is_unlogged boolean not null, created_at timestamptz not null default now());

create function pgmq.create(queue_name text) returns void language plpgsql as $$
begin
    if length(queue_name) > 47 or queue_name !~ '^[a-z0-9_]+$' then
        raise exception 'queue name "%" is too long, or has characters that are not allowed', queue_name;
    end if;
    execute format('create table if not exists pgmq.%I (msg_id bigint primary key generated always as identity, read_ct integer not null default 0,
        enqueued_at timestamptz not null default clock_timestamp(), vt timestamptz not null, message jsonb)', 'q_' || queue_name);
    execute format('create table if not exists pgmq.%I (like pgmq.%I)', 'a_' || queue_name, 'q_' || queue_name);
    insert into pgmq.meta values ($1, false, false) on conflict do nothing;
end $$;

create function pgmq.list_queues() returns table (queue_name varchar, is_partitioned boolean, is_unlogged boolean, created_at timestamptz) language sql as
    $$ select m.queue_name, m.is_partitioned, m.is_unlogged, m.created_at from pgmq.meta m $$;

create function pgmq.send_batch(queue_name text, msgs jsonb[], delay integer default 0) returns setof bigint language plpgsql as $$
begin
    return query execute format('insert into pgmq.%I (vt, message) select clock_timestamp() + make_interval(secs => $2), unnest($1) returning msg_id', 'q_' || queue_name)
        using msgs, delay;
end $$;

create function pgmq.send(queue_name text, msg jsonb, delay integer default 0) returns setof bigint language sql as
    $$ select * from pgmq.send_batch(queue_name, array[msg], delay) $$;

create function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}') returns setof pgmq.message_record language plpgsql as $$
begin
    return query execute format('with picked as (select m.msg_id from pgmq.%1$I m where m.vt <= clock_timestamp() and ($3 = ''{}'' or m.message @> $3) order by m.msg_id limit $1 for update skip locked)
        update pgmq.%1$I m set vt = clock_timestamp() + make_interval(secs => $2), read_ct = m.read_ct + 1 from picked where m.msg_id = picked.msg_id
        returning m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message', 'q_' || queue_name) using qty, vt, conditional;
end $$;

create function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint language plpgsql as $$
begin
    return query execute format('delete from pgmq.%I where msg_id = any ($1) returning msg_id', 'q_' || queue_name) using msg_ids;
end $$;

create function pgmq.delete(queue_name text, msg_id bigint) returns boolean language sql as
    $$ select exists (select from pgmq.delete(queue_name, array[msg_id])) $$;

create function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint language plpgsql as $$
begin
    return query execute format('with gone as (delete from pgmq.%I where msg_id = any ($1) returning *) insert into pgmq.%I select * from gone returning msg_id',
        'q_' || queue_name, 'a_' || queue_name) using msg_ids;
end $$;

create function pgmq.archive(queue_name text, msg_id bigint) returns boolean language sql as
    $$ select exists (select from pgmq.archive(queue_name, array[msg_id])) $$;
