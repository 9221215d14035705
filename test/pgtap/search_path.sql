-- A user's schema stands first in a superuser's search_path and shadows functions, operators, tables and types of
-- pg_catalog. None of that may run when the superuser calls pawl, changes the state of a
-- row, or meets an event trigger of ours.
\set QUIET 1
set client_min_messages to warning;

create role pawl_test_attacker;
create schema evil authorization pawl_test_attacker;
create function evil.trap() returns bool
    language plpgsql as $$ begin raise exception 'trapped' using errcode = 'P0666'; end $$;

create type public.colour as enum ('a', 'b', 'c', 'd');
create table public.v (code varchar(20) primary key, state varchar(20) not null, note text default '');
create table public.e (id bigint, kind text, state public.colour not null, primary key (id, kind));
create table public.p (id int, state text not null, primary key (id, state)) partition by list (state);
create table public.p_rest partition of public.p default;
create table public.newcomer (state text not null, id int not null, primary key (id, state));
alter table public.newcomer add check (state = 'a');
insert into public.newcomer values ('a', 77);
create function public.yes(o public.v, n public.v) returns pg_catalog.bool language sql as $$ select true $$;

-- Runs one statement with that schema in front; 'ok', or the error.
create function public.under(statement pg_catalog.text) returns pg_catalog.text language plpgsql
    set search_path = evil, pg_catalog, public as $$
begin
    execute statement;
    return 'ok';
exception when others then
    return sqlstate OPERATOR(pg_catalog.||) ' '::pg_catalog.text OPERATOR(pg_catalog.||) sqlerrm;
end $$;
create table public.steps (n int generated always as identity, statement pg_catalog.text, result pg_catalog.text);
insert into public.steps (statement) values
    ($$select length('x'::pg_catalog.text)$$), ($$select 1 where 'a'::pg_catalog.varchar = 'b'::pg_catalog.varchar$$),
    ($$select * from pg_class$$), ($$select 'x'::text$$),
    ($$select pawl.define('m', 'stateDiagram-v2
        [*] --> a
        a --> b : go [public.yes] after 3 days
        b --> c : on
        a --> a : touch', unbound => 'note')$$),
    ($$select pawl.define('plain', 'stateDiagram-v2
        [*] --> a
        a --> b : go
        b --> c : on')$$),
    ($$select * from pawl.check('stateDiagram-v2')$$), ($$select pawl.diagram('m'), pawl.diagram('m', 1, 'dot')$$),
    ($$select * from pawl.states('m')$$), ($$select * from pawl.transitions('m', 1)$$),
    ($$select pawl.enforce('public.v', 'state', 'm'), pawl.enable_log('public.v', 'state', hash_chain => true)$$),
    ($$select pawl.enforce('public.e', 'state', 'plain'),
        pawl.enable_log('public.e', 'state')$$),
    ($$select pawl.enforce('public.p', 'state', 'plain'), pawl.enable_log('public.p', 'state')$$),
    ($$insert into public.v (code, state) values ('k1', 'a'), ('k2', 'a'), ('k3', 'a')$$),
    ($$insert into public.e values (1, 'x', 'a'), (2, 'x', 'a')$$), ($$insert into public.p values (1, 'a')$$),
    ($$update public.v set state = 'b' where code OPERATOR(pg_catalog.=) 'k1'$$),
    ($$delete from public.v where code OPERATOR(pg_catalog.=) 'k3'$$),
    ($$select pawl.fire('public.v', 'k2', 'go')$$),
    ($$select pawl.fire('public.v', 'k2'::pg_catalog.varchar, 'on', '{"x": 1}')$$),
    ($$select pawl.fire('public.e', row(1, 'x'), 'go')$$),
    ($$select * from pawl.fire_many('public.v', array['k1', 'k1', 'k9'], 'on')$$),
    ($$select * from pawl.fire_many('public.e', array[row(1, 'x'), row(2, 'x')], 'on')$$),
    ($$select * from pawl.fire_many('public.p', array[1], 'go')$$),
    ($$select * from pawl.available('public.v', 'k1')$$), ($$select * from pawl.available('public.e', '{1,x}')$$),
    ($$insert into public.v_transitions (code, event) select 'k4', 'go' where false$$),
    ($$insert into public.e_transitions (subject_id, kind, event) values (2, 'x', 'go')$$),
    ($$select * from pawl.history('public.v', 'k1')$$), ($$select * from pawl.history('public.e', row(1, 'x'))$$),
    ($$select pawl.state_at('public.e', row(1, 'x'), pg_catalog.now())$$),
    ($$select * from pawl.verify()$$), ($$select * from pawl.health()$$),
    ($$select pawl.set_context('p', '', 'c', '{}')$$), ($$select pawl.uuid_v7(), pawl.deferred()$$),
    ($$create table public.p_x partition of public.p for values in ('x')$$),
    ($$alter table public.p attach partition public.newcomer for values in ('a')$$),
    ($$alter table public.e rename column kind to sort$$),
    ($$alter table public.p detach partition public.p_x$$), ($$drop table public.p_x$$),
    ($$alter table public.v add column more pg_catalog.int4$$),
    ($$select pawl.define('m', 'stateDiagram-v2
        [*] --> a
        a --> d : go
        d --> c : on')$$),
    ($$select pawl.upgrade('public.v', remap => '{"b": "d"}')$$), ($$truncate public.v$$),
    ($$select pawl.release('public.v')$$), ($$select pawl.release('public.e', 'state')$$),
    ($$select pawl.enforce('public.v', 'state', 'm'), pawl.enable_log('public.v', 'state', hash_chain => true)$$),
    ($$alter type public.colour add value 'z'$$);

-- Each function and operator of pg_catalog over types of values, with a body that raises.
do $$
declare f record; made int := 0;
begin
    for f in select p.proname, p.prorettype::regtype as result, p.proretset,
                    (select string_agg(t.oid::regtype::text, ', ' order by a.n) from unnest(p.proargtypes)
                        with ordinality a(oid, n) join pg_type t on t.oid = a.oid) as arguments
               from pg_proc p
              where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.provariadic = 0
                  and p.pronargs between 0 and 4
                and not exists (select from unnest(p.proargtypes || p.prorettype) t(oid) join pg_type y on y.oid = t.oid
                    where y.typtype = 'p')
    loop
        begin
            execute format('create function evil.%I(%s) returns %s %s language plpgsql as ''begin perform '
                'evil.trap(); end''', f.proname, f.arguments, case when f.proretset then 'setof' else '' end, f.result);
            made := made + 1;
        exception when others then null;
        end;
    end loop;
    if made < 1000 then raise 'only % functions', made; end if;
    made := 0;
    for f in select o.oprname, o.oprleft::regtype as l, o.oprright::regtype as r, o.oprresult::regtype as result
        from pg_operator o
              where o.oprleft <> 0 and o.oprresult <> 0
                and not exists (select from unnest(array[o.oprleft, o.oprright, o.oprresult]) t(oid)
                    join pg_type y on y.oid = t.oid where y.typtype = 'p') loop
        begin
            execute format('create function evil."op %s"(%s, %s) returns %s language plpgsql as ''begin perform '
                'evil.trap(); end''', f.oprname, f.l, f.r, f.result);
            execute format('create operator evil.%s (leftarg = %s, rightarg = %s, function = evil."op %1$s")',
                f.oprname, f.l, f.r);
            made := made + 1;
        exception when others then null;
        end;
    end loop;
    if made < 500 then raise 'only % operators', made; end if;
    -- and what has no such form in pg_catalog, but would fit our calls better than the form that is there
    for f in select t from unnest(array['text', 'varchar', 'name', 'bigint', 'int', 'smallint', 'oid', 'boolean',
        'numeric', 'regclass', 'public.colour']) t loop
        begin
            execute format('create function evil.unnest(%s[]) returns setof %1$s language plpgsql as ''begin perform '
                    'evil.trap(); end''', f.t);
            execute format('create function evil.array_length(%s[], int) returns int language plpgsql as ''begin '
                    'perform evil.trap(); end''', f.t);
            execute format('create function evil.cardinality(%s[]) returns int language plpgsql as ''begin perform '
                    'evil.trap(); end''', f.t);
            execute format('create function evil.format(text, %s) returns text language plpgsql as ''begin perform '
                    'evil.trap(); end''', f.t);
        exception when undefined_object then null;
        end;
    end loop;
    for f in select o, l
        from unnest(array['=', '<>', '<', '>']) o, unnest(array['varchar', 'char(3)', 'regclass']) l loop
        execute format('create function evil."op2 %s"(%s, %2$s) returns bool language plpgsql as ''begin perform '
                'evil.trap(); end''', f.o, f.l);
        begin
            execute format('create operator evil.%s (leftarg = %s, rightarg = %2$s, function = evil."op2 %1$s")', f.o,
                f.l);
        exception when others then null;
        end;
    end loop;
    for f in select c.relname from pg_class c
        where c.relnamespace in ('pg_catalog'::regnamespace, 'pawl'::regnamespace) and c.relkind in ('r', 'v')
                and c.relname in ('pg_class', 'pg_attribute', 'pg_trigger', 'pg_inherits', 'pg_namespace', 'pg_proc',
                    'pg_type', 'pg_index', 'pg_enum', 'pg_depend', 'pg_constraint',
                                  'machine', 'machine_state', 'machine_transition', 'binding') loop
        execute format('create view evil.%I as select evil.trap()', f.relname);
        execute format('create temp view %I as select evil.trap()', f.relname);
    end loop;
    for f in select t
        from unnest(array['text', 'jsonb', 'name', 'regclass', 'uuid', 'bool', 'int4', 'regprocedure', 'oid']) t loop
        execute format('create domain evil.%I as %s check (evil.trap())', f.t, 'pg_catalog.' || quote_ident(f.t));
        execute format('create domain pg_temp.%I as %s check (evil.trap())', f.t, 'pg_catalog.' || quote_ident(f.t));
    end loop;
end $$;

do $$
declare s record;
begin
    for s in select * from public.steps order by n loop
        update public.steps set result = public.under(s.statement) where n = s.n;
    end loop;
end $$;
discard temp;
select no_plan();
select is(result, 'P0666 trapped', 'the trap works: ' || statement) from public.steps where n <= 4 order by n;
select is(result, 'ok', regexp_replace(statement, '\s+', ' ', 'g')) from public.steps where n > 4 order by n;
select is((select state from public.v where code = 'k1'), null, 'and all of it did what it says');
select is((select string_agg(sort_key || to_state, ' ' order by sort_key) from public.e_transitions
    where subject_id = 2), '1a 2b', 'in the logs too');
select is_empty('select * from pawl.verify()', 'nothing is wrong');
select * from finish();
