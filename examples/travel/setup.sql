-- The fifth act of the demo: three services that have nothing to do with each other, and
-- the way they are going to answer.
create table fates (
    trip integer, service text, verb text, call integer, answer text not null,
    primary key (trip, service, verb, call)
);
comment on table fates is
'recorded: what a service says to the nth call for a trip that books or cancels; to all others it says yes';
create table calls (trip integer, service text, verb text, call integer, answer text,
    at timestamptz default clock_timestamp(), primary key (trip, service, verb, call));
create table bookings (
    service text, trip integer, times integer, code text not null,
    booked_at timestamptz not null default clock_timestamp(), cancelled_at timestamptz,
    primary key (service, trip, times)
);
create unique index one_at_a_time on bookings (service, trip) where cancelled_at is null;

-- What all three have in common: each call is noted, so a rejection is an answer and no error.
create function answer(service text, verb text, trip integer) returns text language plpgsql as $$
declare
    nth integer := (select count(*) + 1 from calls c
        where (c.trip, c.service, c.verb) = (answer.trip, answer.service, answer.verb));
    said text := coalesce((select f.answer from fates f
            where (f.trip, f.service, f.verb, f.call) = (answer.trip, answer.service, answer.verb, nth)), 'yes');
begin
    insert into calls values (trip, service, verb, nth, said);
    return said;
end
$$;

create function rejection(service text, said text) returns text language sql as $$
    select case said when 'FULL0' then 'is full for now' when 'SOLD0' then 'is sold out for the season'
        when 'SHUT0' then 'has shut its desk' else 'said ' || said end
$$;

-- Asked twice for the same, it books once.
create function book(service text, trip integer) returns text language plpgsql as $$
declare
    known text := (select b.code from bookings b
        where b.service = book.service and b.trip = book.trip and b.cancelled_at is null);
    said text;
    nth integer;
begin
    if known is not null then
        return known;
    end if;
    said := answer(service, 'book', trip);
    if said <> 'yes' then
        return said;
    end if;
    nth := (select count(*) + 1 from bookings b where b.service = book.service and b.trip = book.trip);
    insert into bookings values (service, trip, nth, format('%s-%s-%s', service, trip, nth));
    return format('%s-%s-%s', service, trip, nth);
end
$$;

create function cancel(service text, trip integer) returns text language plpgsql as $$
declare
    known text := (select b.code from bookings b
        where b.service = cancel.service and b.trip = cancel.trip and b.cancelled_at is null);
    said text;
begin
    if known is null then
        return 'nothing to cancel';
    end if;
    said := answer(service, 'cancel', trip);
    if said = 'yes' then
        update bookings b set cancelled_at = clock_timestamp() where b.code = known;
    end if;
    return said;
end
$$;

-- flight.book(trip), hotel.cancel(trip), …: what the world sees of a service.
do $$
declare
    service text;
begin
    foreach service in array array['flight', 'hotel', 'car'] loop
        execute format('create schema %I', service);
        execute format('create function %I.book(trip integer) returns text language sql as %L', service,
            format('select public.book(%L, trip)', service));
        execute format('create function %I.cancel(trip integer) returns text language sql as %L', service,
            format('select public.cancel(%L, trip)', service));
    end loop;
end
$$;

-- The last task of a trip is a SQL function: pawld runs it, its effect and its result are one transaction.
create table tickets (trip integer primary key, codes jsonb not null,
    printed_at timestamptz not null default clock_timestamp());
create function print_ticket(arguments jsonb) returns jsonb language sql as $$
    insert into public.tickets (trip, codes) values ((arguments ->> 'trip')::integer, arguments - 'trip')
        returning to_jsonb(trip)
$$;
