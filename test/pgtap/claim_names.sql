-- Claims of a table whose names need quotes, with a key of two columns, a dropped column, and columns named as
-- pawl's own statements name theirs.
\set QUIET 1
set client_min_messages to error;
select no_plan();

create domain short_name as varchar(20);
create table "My ""Jobs""" (gone int, "Tenant" short_name not null, k int not null,
    "State" text not null default 'ready', "Owner's" text, "Lease" timestamptz, "Token" int not null default 0,
    "Due" timestamptz, n int, "Rank ""1""" int, lane text not null, primary key ("Tenant", k));
alter table "My ""Jobs""" drop column gone;
select pawl.define('picked', $$stateDiagram-v2
    [*] --> ready
    ready --> running : start
    running --> ready : expire
    running --> done : finish
    running --> late : time_out after 1 day
    late --> [*]
    done --> [*]
    class running owned$$);
select pawl.enforce('"My ""Jobs"""', 'State', 'picked'), pawl.enable_log('"My ""Jobs"""', 'State'),
    pawl.enable_queue('"My ""Jobs"""', 'State', owner => 'Owner''s', lease => 'Lease', token => 'Token',
        queue => 'lane'), pawl.enable_timers('"My ""Jobs"""', 'State', due => 'Due'),
    pawl.set_claiming('"My ""Jobs"""', 'State', claim => '{start}', claim_order => '"Rank ""1""" desc',
        on_expiry => 'expire');
insert into "My ""Jobs""" ("Tenant", k, "Rank ""1""", lane) select t, g, g % 3, t
    from unnest(array['b', 'a']) t, generate_series(1, 4) g;
create temp table taken as select c.*
    from pawl.claim(null::"My ""Jobs""", processor => 'w', queue => 'a', batch => 3) c;
select is((select string_agg("Tenant" || k || ' ' || "Owner's" || "Token", ', ') from taken), 'a2 w1, a1 w1, a4 w1',
    'rows of a table with quoted names are claimed, each with its token');
select results_eq($$select * from taken order by k$$,
    $$select * from "My ""Jobs""" where "Owner's" is not null order by k$$, 'and returned as they are');
select is(pawl.heartbeat('"My ""Jobs"""', 'w', '1 hour'), 3::bigint,
    'heartbeat extends the leases in a table with quoted names');
select is(pawl.fire('"My ""Jobs"""', row('a', 2), 'finish', processor => 'w', token => 1), 'done',
    'fire completes a row of a table with quoted names and a key of two columns');
set pawl.processor = 'w';
update "My ""Jobs""" set "Lease" = clock_timestamp() where k = 1 and "Tenant" = 'a';
reset pawl.processor;
select is((select done from pawl.reap('"My ""Jobs"""')), 1::bigint,
    'reap returns an expired row of a table with quoted names');
update "My ""Jobs""" set "Due" = clock_timestamp() where k = 4 and "Tenant" = 'a';
select is((select done from pawl.fire_due('"My ""Jobs"""')), 1::bigint,
    'fire_due fires a timer of a table with quoted names');
select is((select string_agg("Tenant" || k || "State", ' ' order by "Tenant", k) from "My ""Jobs"""),
    'a1ready a2done a3ready a4late b1ready b2ready b3ready b4ready', 'each its own way');
select is((select k from pawl.claim(null::"My ""Jobs""", processor => 'w', queue => 'b')), 2, 'and the other queue');
select is(pawl.abandon('"My ""Jobs"""', 'w'), 1::bigint, 'abandon returns a row of a table with quoted names');
select is_empty($$select * from pawl.verify('"My ""Jobs"""')$$, 'verify finds no difference after the claims');
select * from finish();
