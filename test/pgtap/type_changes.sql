-- ALTER COLUMN ... TYPE on state columns and keys: where every value keeps its text, enforcement, policies and log go
-- on;
-- anything else is rejected.
\set QUIET 1
set client_min_messages to error;
select no_plan();
\ir include/jobs.psql

select pawl.define('order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> sent : send
    sent --> [*]$$) as version \gset
create type order_state as enum ('new', 'paid', 'sent', 'more');
create type other_state as enum ('sent', 'paid', 'new');
create type too_small as enum ('new', 'paid');
create domain short as varchar(2);
create domain shorter as short;
create domain roomy as varchar(20);
create domain checked_state as text check (value in ('new', 'paid', 'sent'));
create domain enum_state as order_state;

-- Everything of a binding but its version of when.
create function facts(target regclass) returns text language sql as $$
    select (to_jsonb(b) - '{enforced_at,history_view,managed_attnums}'::text[])::text from pawl.binding b
        where b.relation = target $$;
create function log_of(target regclass) returns text language plpgsql as $$
declare
    answer text;
begin
    execute format('select string_agg((to_jsonb(l) - ''most_recent'')::text, '','' order by l::text) from %s l',
        (select coalesce(history_view, history) from pawl.binding where relation = target)) into answer;
    return answer;
end $$;

-- Each type to each other, back and forth, on tables with each kind of log.
create table types (n int generated always as identity, type text, enum boolean);
insert into types (type) values ('text'), ('varchar'), ('varchar(10)'), ('order_state'), ('other_state'),
    ('checked_state'), ('enum_state');
create function make(name text, most_recent text, chain boolean) returns void language plpgsql as $$
begin
    execute format('create table %I (id int primary key, state text not null, owner varchar(20), note text)', name);
    execute format('insert into %I values (1, ''new''), (2, ''paid''), (3, ''sent'')', name);
    perform pawl.enforce(name::regclass, 'state', 'order', on_delete => 'terminal'),
        pawl.enable_log(name::regclass, most_recent => most_recent, hash_chain => chain);
    execute format('update %I set state = ''paid'' where id = 1', name);
end $$;
select make('t_derived', 'derived', false), make('t_stored', 'stored', false), make('t_chain', 'derived', true);
create table facts_before as select t as name, facts(t::regclass) as fact, log_of(t::regclass) as log
    from unnest('{t_derived,t_stored,t_chain}'::text[]) t;
create function changed(name text, type text, expression text) returns text language sql as $$
    select outcome(format('alter table %I alter column state type %s%s', name, type, expression)) $$;
select is(changed(b.name, t.type, format(' using state::%s%s', case when f.n % 2 = 0 then 'text::' else '' end,
    t.type)),
    'ok', format('%s: %s to %s', b.name, f.type, t.type)) from facts_before b, types f, types t
    where t.n = (f.n % (select count(*) from types)) + 1 order by b.name, f.n;
select is(changed(b.name, t.type, format(' using state::text::%s', t.type)), 'ok', format('%s: any to %s', b.name,
    t.type))
    from facts_before b, types t order by b.name, t.n desc;
select is(changed(name, 'varchar(10)', ' using state::text::varchar(20)::text::varchar(10)'), 'ok',
    name || ': also by a detour') from facts_before;
select is(changed(name, 'text', ''), 'ok', name || ': and back') from facts_before;
select is(facts(name::regclass), fact, name || ': the binding is what it was') from facts_before;
select is(log_of(name::regclass), log, name || ': so is the log') from facts_before;
select is_empty(format('select * from pawl.verify(%L)', name), name || ': rows and log agree') from facts_before;
select is(outcome(format('update %I set state = ''sent'' where id = 1', name)), 'ok', name || ': and goes on')
    from facts_before;
select alike(outcome(format('delete from %I where id = 2', name)), 'PW001%', name || ': with its policies')
    from facts_before;

-- What could change a text.
select is(outcome('alter table t_derived alter column state type ' || change), answer, change) from (values
    ('text using upper(state)', '2BP01 column "state" of table public.t_derived is a state column: its values '
    'cannot be '
        'rewritten | ALTER COLUMN ... TYPE ... USING would change states without a transition. | cast '
        'the column and no more in USING; or keep what pawl.definition('
        '''public.t_derived'', ''state'') returns, select pawl.release(''public.t_derived'', ''state''), alter it, '
    'and run '
        'that')) v(change, answer);
select alike(outcome('alter table t_derived alter column state type ' || change), '2BP01%', change) from (values
    ('text using ''sent'''), ('text using state || '''''), ('text using coalesce(state, ''new'')'),
    ('order_state using case when id = 1 then ''sent'' else ''new'' '
    'end::order_state'),
    ('text using id::text'), ('text using state::name::text'), ('text using state::char(2)'),
    ('text using state::varchar(2)::text'), ('varchar(9) using state::varchar(2)'), ('text using state::short'),
    ('varchar(20) using state::short::shorter::text'), ('roomy using state::varchar(8)'),
    ('order_state using (state::order_state::text || '''')::order_state')) v(change);
select alike(outcome('alter table t_derived alter column state type ' || change), '42804%cannot hold every state%',
    change)
    from (values ('varchar(3) using state::varchar(3)')) v(change);
select alike(outcome('alter table t_derived alter column state type too_small using state::too_small'), '22P02%',
    'a value that an enum lacks');
create function hijack(text) returns order_state language sql as $$ select 'sent'::order_state $$;
create cast (text as order_state) with function hijack(text);
select alike(outcome('alter table t_derived alter column state type order_state using state::order_state'), '2BP01%',
    'a cast of a user');
select is(outcome('alter table t_derived alter column state type order_state using state::varchar::order_state'),
    '2BP01 x', 'also by way of another type') where false;
drop cast (text as order_state);
select is(outcome('alter table t_derived alter column state type varchar(10) using state::varchar(10), alter column '
    'note '
    'type varchar(1) using left(note, 1)'), 'ok', 'what else is altered is not looked at');

-- Managed columns, and a key without a log.
create table plain (id int primary key, state text not null, owner text, lease timestamptz);
select pawl.define('owned', $$stateDiagram-v2
    [*] --> new
    new --> busy : start
    busy --> [*]
    class busy owned$$) as version \gset
select pawl.enforce('plain', 'state', 'owned'), pawl.enable_queue('plain', owner => 'owner', lease => 'lease'),
    pawl.set_claiming('plain', claim => '{start}');
insert into plain values (1, 'new'), (2, 'new');
select is(outcome('alter table plain alter column owner type varchar(30)'), 'ok', 'an owner gets a length');
select is(outcome('alter table plain alter column owner type varchar(40) using owner::varchar(40)'), 'ok',
    'a greater one');
select alike(outcome('alter table plain alter column owner type varchar(5) using owner::varchar(5)'), '2BP01%',
    'but none that could cut it');
select alike(outcome('alter table plain alter column lease type timestamptz using now()'), '2BP01%',
    'a lease is not written');
select is(outcome('alter table plain alter column id type bigint'), 'ok', 'a key without a log');
select is((select work_indexes('plain') order by 1 limit 1), 'plain_pawl_claim: (id) WHERE (state = ''new''::text)',
    'the claim index at first');
create type owned_state as enum ('new', 'busy');
alter table plain alter column state type owned_state using state::owned_state;
select is((select work_indexes('plain') order by 1 limit 1), 'plain_pawl_claim: (id) WHERE (state = '
    '''new''::owned_state)',
    'is made again for an enum');
select is((select status from pawl.health() where relation = 'plain'::regclass and check_name = 'work_indexes'), 'ok',
    'health recognises that index');
select is((select id from pawl.claim(null::plain, processor => 'a')), 1::bigint, 'rows are claimed');
begin;
alter table plain alter column state type text using state::text;
rollback;
select is((select work_indexes('plain') order by 1 limit 1), 'plain_pawl_claim: (id) WHERE (state = '
    '''new''::owned_state)',
    'what is rolled back leaves it');
select alike(outcome('alter table plain alter column state type text using upper(state::text)'), '2BP01%',
    'what is rejected');
select is((select work_indexes('plain') order by 1 limit 1), 'plain_pawl_claim: (id) WHERE (state = '
    '''new''::owned_state)',
    'and what is rejected does too');
alter table plain alter column state type text using state::text;
select is((select work_indexes('plain') order by 1 limit 1), 'plain_pawl_claim: (id) WHERE (state = ''new''::text)',
    'and again for text');

-- Keys: the log, its view with its rights, the audit and the pruned ends have the new type.
create table keyed (id integer primary key, code varchar(8) not null unique, state text not null);
create role reader_of_log;
grant select on keyed to reader_of_log;
insert into keyed values (1, 'a', 'new'), (2, 'b', 'paid');
select pawl.enforce('keyed', 'state', 'order'), pawl.enable_log('keyed', hash_chain => true),
    pawl.audit('keyed', '{"sent": true}');
update keyed set state = 'sent' where id = 2;
select pawl.prune_log('keyed', interval '0', only_terminal => false) as pruned \gset
create function types_of() returns setof text language sql as $$
    select format('%s.%s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod)) from pg_class c
    join pg_attribute a on a.attrelid = c.oid where c.relname ~ '^keyed' and c.relkind in ('r', 'v')
    and a.attname in ('id', 'subject_id', 'row_id') and format_type(a.atttypid, a.atttypmod) <> 'uuid' order by 1 $$;
create temp table had as select replace(t, 'integer', 'bigint') as t from types_of() t;
create temp table acl as select c.relacl::text, obj_description(c.oid) as comment, c.relowner from pg_class c
    where c.relname = 'keyed_transitions';
select is(outcome('alter table keyed alter column id type bigint'), 'ok', 'integer to bigint');
select set_eq('select types_of()', 'select t from had', 'in every table that has the key');
select cmp_ok((select count(*) from had), '>=', 4::bigint, 'which are several');
select results_eq($$select c.relacl::text, obj_description(c.oid), c.relowner from pg_class c
    where c.relname = 'keyed_transitions'$$, 'select * from acl', 'the view has its rights and its comment');
select is((select history_view::text from pawl.binding where relation = 'keyed'::regclass), 'keyed_transitions',
    'and the binding its view');
select is_empty('select * from pawl.verify(''keyed'')', 'rows, log, chain and audit agree');
insert into keyed values (3000000000, 'c', 'new');
insert into keyed_transitions (subject_id, event) values (3000000000, 'pay');
select is((select count(*) from pawl.history('keyed', 3000000000)), 2::bigint, 'and go on');
select is(outcome('alter table keyed alter column id type integer'), '22003 integer out of range', 'back if it fits');
delete from keyed where id > 3;
select alike(outcome('alter table keyed alter column id type numeric'),
    '55000 columns of table public.keyed and its log%',
    'a type with other texts');
select alike(outcome('alter table keyed alter column id type bigint using id + 1'), '2BP01%', 'or other values');
create view mine as select subject_id from keyed_transitions;
select alike(outcome('alter table keyed alter column id type text'), '55000%', 'numbers do not become texts');
select alike(outcome('alter table keyed alter column id type integer'), '2%', 'a view of a user is in the way');
drop view mine;

create table coded (id integer primary key, code varchar(8) not null unique, state text not null);
select pawl.enforce('coded', 'state', 'order', key => '{code}'), pawl.enable_log('coded', most_recent => 'stored');
insert into coded values (1, 'abc', 'new');
select is(outcome('alter table coded alter column code type varchar(20)'), 'ok', 'a longer text');
select is(outcome('alter table coded alter column code type text using code::text'), 'ok', 'a text of any length');
select alike(outcome('alter table coded alter column code type varchar(2) using code::varchar(2)'), '22001%',
    'none that is cut');
select is(outcome('alter table coded alter column code type varchar(20)'), 'ok', 'one that fits');
select is_empty('select * from pawl.verify(''coded'')', 'rows and log agree');

-- Partitions, inheritance children, and a role that owns the table and has no other rights.
create table parted (id int, state text not null, primary key (id)) partition by range (id);
create table parted_1 partition of parted for values from (0) to (10);
create table parent (id int primary key, state text not null);
-- 18 changes no type of a column that is a primary key on both sides, with or without pawl
create table child (unique (id)) inherits (parent);
select pawl.enforce(t::regclass, 'state', 'order'),
    pawl.enable_log(t::regclass) from unnest('{parted,parent}'::text[]) t;
insert into parted values (1, 'new');
insert into child values (2, 'new');
select is(outcome(format('alter table %s alter column state type order_state using state::order_state', t)), 'ok',
    t || ': with its members') from unnest('{parted,parent}'::text[]) t;
select is(outcome('alter table parent alter column id type bigint'), 'ok', 'a key of children');
select alike(outcome('update child set state = ''sent'''), 'PW001%', 'they are enforced');
select is_empty(format('select * from pawl.verify(%L)', t), t || ': rows and log '
    'agree') from unnest('{parted,parent}'::text[]) t;
create role only_owner;
grant create, usage on schema public to only_owner;
create table theirs (id int primary key, state text not null);
insert into theirs values (1, 'new');
select pawl.enforce('theirs', 'state', 'order'), pawl.enable_log('theirs');
alter table theirs owner to only_owner;
alter table theirs_transitions_log owner to only_owner;
alter view theirs_transitions owner to only_owner;
set role only_owner;
select is(outcome('alter table theirs alter column id type bigint, alter column state type varchar(9) using '
    'state::varchar(9)'),
    'ok', 'an owner without the role pawl_admin');
reset role;
select is((select history_view::text from pawl.binding where relation = 'theirs'::regclass), 'theirs_transitions',
    'keeps the view');
select is_empty('select * from pawl.verify(''theirs'')', 'and the log');

-- What pawl has made in users' schemas.
select is((select string_agg(format('%s %s', name, kind), ', ' order by name) from pawl.own_relations()
    where name ~ '^(keyed|plain)'), 'keyed_result_audit record, keyed_transitions view, keyed_transitions_log log, '
    'keyed_transitions_log_pruned record, plain_pawl_claim index, plain_pawl_owned index', 'own relations are listed');

-- A table that is released and bound again says what is missing.
select pawl.release('keyed');
select is((select definition from pawl.released where relation = 'keyed'::regclass) ~ 'enable_log.*audit', true,
    'a release keeps the definition');
alter table keyed rename to keyed_again;
select pawl.enforce('keyed_again', 'state', 'order'), pawl.enable_log('keyed_again', hash_chain => true,
    log_name => 'keyed_transitions');
select is_empty('select * from pawl.verify(''keyed_again'')', 'a renamed table goes on with its log');
drop table keyed_again;
select is_empty($$select * from pawl.released where definition ~ 'keyed'$$, 'a dropped table leaves nothing');
select * from finish();
