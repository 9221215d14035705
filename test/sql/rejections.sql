-- The words of rejections: code, message, DETAIL, HINT. Errors of the diagrams are at the
-- end, each with its line and column.
set client_min_messages to error;
create schema rejections;
set search_path = rejections, public;
create function say(statement text) returns setof text language plpgsql as $$
declare m text; d text; h text;
begin
    execute statement;
    return next 'ok';
exception when others then
    get stacked diagnostics m = message_text, d = pg_exception_detail, h = pg_exception_hint;
    return next sqlstate || ': ' || m;
    if d <> '' then return next '  DETAIL: ' || d; end if;
    if h <> '' then return next '  HINT: ' || h; end if;
end $$;
\pset format unaligned
\pset tuples_only on

create table orders (id int primary key, state text not null, amount int default 0);
create function affordable(o orders, n orders) returns bool language sql as $$ select n.amount < 100 $$;
select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay [affordable]
    new --> cancelled : cancel
    paid --> sent : send
    sent --> [*]
    cancelled --> [*]$$);
select pawl.enforce('orders', 'state', 'order', on_delete => 'terminal'), pawl.enable_log('orders', 'state');
insert into orders values (42, 'new', 500);
select say($$update orders set state = 'sent' where id = 42$$);
select say($$update orders set state = 'Paid' where id = 42$$);
select say($$update orders set state = 'paid' where id = 42$$);
select say($$insert into orders values (43, 'paid')$$);
select say($$insert into orders values (43, 'nonsense')$$);
select say($$update orders set state = null where id = 42$$);
select say($$delete from orders where id = 42$$);
select say($$truncate orders$$);
select say($$update orders set id = 44 where id = 42$$);
select say($$update orders_transitions set actor = 'x'$$);
select say($$select pawl.fire('orders', 42, 'pay')$$);
select say($$select pawl.fire('orders', 42, 'send')$$);
select say($$select pawl.fire('orders', 42, 'fly')$$);
select say($$select pawl.fire('orders', 1, 'pay')$$);
select say($$select pawl.fire('pg_class', 1, 'pay')$$);
select say($$insert into orders_transitions (subject_id) values (42)$$);
update orders set amount = 5 where id = 42;
select pawl.fire('orders', 42, 'pay');
select pawl.fire('orders', 42, 'send');
select say($$update orders set state = 'new' where id = 42$$);
create table strange (id int primary key, state text);
insert into strange values (1, 'new'), (2, 'nonsense'), (3, 'nonsense'), (4, null);
select say($$select pawl.enforce('strange', 'state', 'order')$$);
create table other (id int, state text);
select say($$select pawl.enforce('other', 'state', 'order')$$);
select pawl.define('plain', $$stateDiagram-v2
    [*] --> new$$);
select say($$select pawl.enforce('other', 'state', 'plain'), pawl.enable_log('other', 'state')$$);
select say($$select pawl.enforce('strange', 'state', 'plain')$$);
select say($$select pawl.enforce('orders', 'state', 'plain')$$);
select say($$select pawl.enforce('other', 'id', 'plain')$$);
select say($$select pawl.release('other')$$);
select say($$select pawl.define('bad', 'stateDiagram-v2
    [*] --> a
    a --> b : go [unknown, looks like prose] / nothing
    b --> c : on [legacy]')$$);

-- Diagrams.
create table diagrams (n int generated always as identity, what text, diagram text);
insert into diagrams (what, diagram) values
    ('empty', ''), ('one byte', 'x'), ('another kind of diagram', E'flowchart TD\n  a --> b'), ('no header', 'a --> b'),
    ('front matter left open', E'---\ntitle: x\nstateDiagram-v2'),
    ('nothing after the transition', E'stateDiagram-v2\n  [*] --> a\n  a -->\n'), ('nothing before it',
        E'stateDiagram-v2\n  --> a\n'), ('half a transition', E'stateDiagram-v2\n  [*] --> a\n  a -> b\n'),
    ('a transition with three states', E'stateDiagram-v2\n  a --> b --> c'),
    ('a lone start', E'stateDiagram-v2\n  [*]\n'), ('from start to end', E'stateDiagram-v2\n  [*] --> [*]\n'),
    ('an open composite', E'stateDiagram-v2\n  [*] --> a\n  state a {\n    [*] --> b\n'),
    ('a composite closed twice', E'stateDiagram-v2\n  [*] --> a\n  }\n'),
    ('a composite without the word', E'stateDiagram-v2\n  a {\n    b\n  }\n'),
    ('an open quotation', E'stateDiagram-v2\n  [*] --> "a\n'), ('an empty name', E'stateDiagram-v2\n  [*] --> ""\n'),
    ('a name of blanks around', E'stateDiagram-v2\n  [*] --> " a"\n'),
    ('state without a name', E'stateDiagram-v2\n  state\n'), ('state as nothing', E'stateDiagram-v2\n  state "x" as\n'),
    ('an unknown kind', E'stateDiagram-v2\n  state a <<spoon>>\n'),
    ('an open kind', E'stateDiagram-v2\n  state a <<choice\n'),
    ('an open note', E'stateDiagram-v2\n  [*] --> a\n  note right of a\n    words\n'), ('a note beside nothing',
        E'stateDiagram-v2\n  note right of\n'), ('a note nowhere', E'stateDiagram-v2\n  note above a : x\n'),
    ('a direction nowhere', E'stateDiagram-v2\n  direction UP\n'),
    ('classDef without a style', E'stateDiagram-v2\n  classDef x\n'),
    ('class without a class', E'stateDiagram-v2\n  class a\n'), ('a tag of nothing', E'stateDiagram-v2\n  a:::\n'),
    ('regions', E'stateDiagram-v2\n  [*] --> a\n  state a {\n    [*] --> b\n    --\n    [*] --> c\n  }\n'),
    ('regions outside', E'stateDiagram-v2\n  [*] --> a\n  --\n  b\n'),
    ('fork', E'stateDiagram-v2\n  [*] --> f\n  state f <<fork>>\n  f --> a\n  f --> b\n'),
    ('join', E'stateDiagram-v2\n  [*] --> a\n  state j <<join>>\n  a --> j\n'),
    ('no first state', E'stateDiagram-v2\n  a --> b\n'),
    ('a transition to a composite without a first child',
        E'stateDiagram-v2\n  [*] --> c\n  state c {\n    a --> b\n  }\n'),
    ('an empty choice', E'stateDiagram-v2\n  [*] --> a\n  state c <<choice>>\n  a --> c\n'),
    ('choices in a circle',
        E'stateDiagram-v2\n  [*] --> a\n  state c <<choice>>\n  state d <<choice>>\n  a --> c\n  c --> d\n  d --> c\n'),
    ('a reserved event', E'stateDiagram-v2\n  [*] --> a\n  a --> b : pawl.delete\n'),
    ('a composite inside itself', E'stateDiagram-v2\n  [*] --> a\n  state a {\n    state a {\n      b\n    }\n  }\n'),
    ('an interval too long', E'stateDiagram-v2\n  [*] --> a\n  a --> b : after 999999999999999 years\n'),
    ('letters beyond ASCII before the place', E'stateDiagram-v2\n  [*] --> größe\n  größe日本 -> b\n'),
    ('Windows lines', E'stateDiagram-v2\r\n  [*] --> a\r\n  a -->\r\n'), ('control characters', E'\x01\x02\x03');
select what || E'\n  ' || string_agg(s, E'\n  ' order by o) from diagrams d,
    say(format('select pawl.define(%L, %L)', 'bad', d.diagram)) with ordinality s(s, o) group by n, what order by n;
select count(*) from pawl.machine where machine = 'bad';
-- pawl.check says the same and goes on.
select severity, code, line, col, message from diagrams d, pawl.check(d.diagram)
    where what in ('regions', 'fork', 'half a transition', 'no first state', 'an empty choice');
\pset tuples_only off
\pset format aligned
set client_min_messages to warning;
drop table orders, strange, other, diagrams cascade;
drop schema rejections cascade;
