-- The fourth act of the demo: a validator, two SQL handlers, and the same file read by
-- PostgreSQL itself, to compare with.
create extension pawl_bulk cascade;
create table oui ("Registry" text, "Assignment" text, "Organization Name" text, "Organization Address" text,
    line bigint generated always as identity);
create table filed (row_number bigint primary key, label text not null);
create table labels (row_number bigint primary key, label text not null);

create function public.has_a_name(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
returns table (row_number bigint, code text, message text) language sql stable as $$
    select n, 'no_owner', 'the owner wants to stay private' from unnest(row_numbers, rows) u(n, data)
        where data ->> 'Organization Name' = 'Private'
$$;

create function public.label(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
returns table (row_number bigint, message text) language sql as $$
    insert into public.labels select n, data ->> 'Assignment' || ' ' || (data ->> 'Organization Name')
        from unnest(row_numbers, rows) u(n, data);
    select null::bigint, null::text where false
$$;

-- The primary key says that no row comes here twice.
create function public.file(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
returns table (row_number bigint, message text) language sql as $$
    insert into public.filed select l.row_number, l.label from public.labels l where l.row_number = any (row_numbers);
    select null::bigint, null::text where false
$$;

-- The carrier answers for at most so many rows that wait, of even or of odd numbers; it rejects block addresses that
-- end with 7F, unless it is asked again.
create function public.carrier(most integer, part integer) returns bigint language sql as $$
    select count(*) from (
        select pawl_bulk.signal(w.operation, 'carrier-' || w.row_number,
            case when v.row_id like '%7F' and r.retry_attempt = 0 then 'fail' else 'complete' end,
                                case when v.row_id like '%7F' then 'the carrier rejects ' || v.row_id end)
        from (select * from pawl_bulk.work where kind = 'signal' and row_number % 2 = part
            order by row_number limit most) w
        join pawl_bulk.validations v using (operation, row_number)
        join pawl_bulk.records r using (operation, row_number, step_index)) s
$$;
