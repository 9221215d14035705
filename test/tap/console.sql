-- What the console is looked at with: a workflow with a step that fails until the card is good, a bulk operation with
-- failures and rows that wait for a signal, flows that ended well and that were reverted, and a table of its own.
create schema shop;
create table shop.card (good boolean not null);
insert into shop.card values (false);
create function shop.done(context jsonb, inputs jsonb) returns jsonb
    language sql as $$ select jsonb_build_object('done', true, 'order', context -> 'order') $$;
create function shop.pay(context jsonb, inputs jsonb) returns jsonb language plpgsql as $$
begin
    if not (select good from shop.card) and (context ->> 'order')::int % 5 = 3 then
        raise exception 'the card was declined' using errcode = 'P0001';
    end if;
    return jsonb_build_object('paid', 42);
end $$;
select pawl_dag.define_template(
    $${"name": "order", "version": "1.0.0", "identity_strategy": "always_unique", "failure_policy": "continue",
    "steps": [
    {"name": "validate", "handler": "sql:shop.done"},
    {"name": "reserve", "handler": "sql:shop.done", "dependencies": ["validate"]},
    {"name": "pay", "handler": "sql:shop.pay", "dependencies": ["validate"], "retry": {"max_attempts": 1}},
    {"name": "gift wrap", "handler": "sql:shop.done", "dependencies": ["reserve"], "optional": true},
    {"name": "invoice", "handler": "sql:shop.done", "dependencies": ["pay"]},
    {"name": "ship", "handler": "sql:shop.done", "dependencies": ["reserve", "gift wrap", "pay"]},
    {"name": "thank", "handler": "sql:shop.done", "dependencies": ["ship", "invoice"]}]}$$);
select pawl_dag.start_tasks('order',
    array(select jsonb_build_object('order', g, 'customer', 'customer ' || g) from generate_series(1, 8) g));

create function shop.check_devices(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
returns table (row_number bigint, code text, message text) language sql as $$
    select n, 'imei', 'an IMEI has 15 digits' from unnest(row_numbers, rows) u(n, r)
        where r ->> 'imei' !~ '^[0-9]{15}$' $$;
create function shop.activate(operation uuid, metadata jsonb, row_numbers bigint[], rows jsonb[])
returns table (row_number bigint, message text) language sql as $$
    select n, 'there is no such plan' from unnest(row_numbers, rows) u(n, r) where r ->> 'plan' = 'none' $$;
select pawl_bulk.define('{"name": "devices", "row_id": "imei", "is_retryable": true, "track_row_data": true,
    "validators": ["shop.check_devices"],
    "steps": [{"name": "activate", "handler": "sql:shop.activate"},
              {"name": "approval", "kind": "signal", "handler": "none", "timeout": "1 day",
                  "signal_key": "carrier-{row}"}]}');
begin;
select operation from pawl_bulk.submit('devices', format => 'csv', file_name => 'devices.csv');
insert into pawl_bulk.input (raw) select 'imei,plan' union all
    select format('%s,%s', case when g % 10 = 4 then 'none' else lpad((356938035643800 + g)::text, 15, '0') end,
        case when g % 10 = 7 then 'none' else 'basic' end) from generate_series(1, 40) g;
select pawl_bulk.seal(current_setting('pawl_bulk.operation')::uuid);
commit;

create table shop.booked (id bigint generated always as identity, what text, undone boolean not null default false);
create function shop.book(a jsonb) returns jsonb language sql as $$ insert into shop.booked (what) values (a ->> 'trip')
    returning jsonb_build_object('booking', id) $$;
create function shop.unbook(a jsonb, done jsonb) returns jsonb
    language sql as $$ select jsonb_build_object('undone', true) $$;
create function shop.no_room(a jsonb) returns jsonb language plpgsql as $$ begin raise exception 'no room'; end $$;
select pawl_saga.define(
        format('{"flow": "linear", "name": %s, "children": [{"task": "flight", "execute": "sql:shop.book", "revert": '
'"sql:shop.unbook", "requires": ["trip"]},
    {"flow": "unordered", "name": "stay", "children": [{"task": "hotel", "execute": "sql:shop.book", "revert": '
    '"sql:shop.unbook", "requires": ["trip"]},
                                                        {"task": "car", "execute": "sql:shop.%s", "revert": '
                                                        '"sql:shop.unbook", "requires": ["trip"]}]}, %s]}',
    to_json(name), car, last)::jsonb)
  from (values ('trip', 'book', '{"task": "bill", "execute": "sql:shop.book", "requires": ["trip"]}'),
               ('full', 'no_room', '{"task": "bill", "execute": "sql:shop.book", "requires": ["trip"]}'),
               ('open end', 'book', '{"task": "bill", "execute": "by hand", "requires": ["trip"]}')) v(name, car, last);
select pawl_saga.start(name, jsonb_build_object('trip', 'Oslo')) from (values ('trip'), ('full'), ('open end')) v(name);

select pawl.define('ticket', E'stateDiagram-v2\n[*] --> open\nopen --> answered : answer\nanswered --> open : ask '
    'again\nanswered --> closed : close\nopen --> closed : close\nclosed --> [*]\nclass open waiting');
create table shop.tickets (id integer primary key, title text, state text not null default 'open');
select pawl.enforce('shop.tickets', 'state', 'ticket'), pawl.enable_log('shop.tickets', 'state'),
    pawl.enable_events('shop.tickets', 'state');
insert into shop.tickets select g, 'ticket ' || g from generate_series(1, 12) g;
update shop.tickets set state = 'answered' where id % 2 = 0;
update shop.tickets set state = 'closed' where id % 4 = 0;
grant usage on schema shop to pawl_reader, pawl_operator;
grant select on shop.tickets, shop.tickets_transitions, shop.tickets_transitions_log to pawl_reader;
grant select, update on shop.tickets to pawl_operator;
grant select on shop.tickets_transitions, shop.tickets_transitions_log to pawl_operator;
