-- The hash chain, computed again by plain SQL as docs/internals/log.md defines it, and
-- logs that were changed around the triggers.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : "go", über
    b --> a : back
    a --> a : touch
    b --> c
    c --> [*]$$) \g /dev/null
create table t (code text, at timestamptz, n float8, state text not null, primary key (code, at, n));
select pawl.enforce('t', 'state', 'm', key => '{code,at,n}'),
    pawl.enable_log('t', 'state', most_recent => 'stored', hash_chain => true) \g /dev/null

-- All kinds of content: quotes, control characters, letters beyond ASCII, numbers and
-- times that sessions print differently.
insert into t select c, '2024-02-29 12:00:00.5+00', 0.1::float8 + 0.2, 'a' from unnest(array['plain',
    'quote " and \ backslash', E'tab\t newline\n bell\007 ', 'Zoë 日本 🐘', '', '/', E'\u2028']) c;
begin;
set local timezone = 'Asia/Kolkata'; set local datestyle = 'SQL, DMY'; set local extra_float_digits = 0;
select pawl.set_context(processor => E'who "ever"\n', correlation_id => '€',
        metadata => '{"z": 1.50, "a": "x\ty\u0001", "nested": [null, true], "in": {"er": {"~/": "x", "most": {}}, '
            '"er.most": 1, "er/most": [{"k": 2}]}}') \g /dev/null
update t set state = 'b';
commit;
update t set state = 'a' where code <> 'plain';
delete from t where code = '/';
insert into t values ('/', '2024-02-29 12:00:00.5+00', 0.1::float8 + 0.2, 'a');
insert into t_transitions (code, at, n, event, metadata)
    values ('/', '2024-02-29 12:00:00.5+00', 0.1::float8 + 0.2, 'touch', '"by insert"');

create function json_text(v text) returns text
    language sql immutable as $$ select coalesce(to_json(v)::text, 'null') $$;
create function committed(field text, value text, salt bytea) returns text language sql immutable as $$
    select case
        when value is not null
            then encode(sha256(sha256(salt || convert_to(field, 'UTF8')) || convert_to(value, 'UTF8')), 'hex') end $$;
create function member(field text, pointer text, value jsonb, salt bytea) returns text
    language plpgsql immutable as $$ begin
    return committed(field, case when jsonb_typeof(value) <> 'object' then value::text
        else (select coalesce(jsonb_object_agg(m.key,
                member(pointer || '/' || replace(replace(m.key, '~', '~0'), '/', '~1'),
                    pointer || '/' || replace(replace(m.key, '~', '~0'), '/', '~1'), m.value, salt)), '{}')::text
                from jsonb_each(value) m) end, salt); end $$;
create function committed(metadata jsonb, salt bytea) returns jsonb language sql immutable as $$
    select case when metadata is null then null when jsonb_typeof(metadata) <> 'object'
        then to_jsonb(committed('metadata', metadata::text, salt))
                else (select coalesce(jsonb_object_agg(m.key,
                member('metadata.' || m.key, 'metadata/'
                    || replace(replace(m.key, '~', '~0'), '/', '~1'), m.value, salt)), '{}')
        from jsonb_each(metadata) m) end $$;
create function content(l t_transitions) returns text language sql set timezone = 'UTC' set datestyle = 'ISO, YMD'
    set extra_float_digits = 1 as $$
    select format('[%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s]', json_text(l.code), json_text(l.at::text),
        json_text(l.n::text), l.sort_key, json_text(l.from_state),
        json_text(l.to_state), json_text(l.event), json_text(committed('processor', l.processor, l.salt)),
        json_text(l.actor), json_text(committed('correlation_id', l.correlation_id, l.salt)),
        json_text(committed(l.metadata, l.salt)::text),
        l.machine_version, (extract(epoch from l.created_at) * 1000000)::bigint) $$;
create view again as
    with recursive chain as (
        select l, sha256(convert_to(content(l), 'UTF8')) as hash from t_transitions l where sort_key = 1
        union all
        select next, sha256(c.hash || convert_to(content(next), 'UTF8')) from chain c
          join t_transitions next
          on (next.code, next.at, next.n, next.sort_key) = ((c.l).code, (c.l).at, (c.l).n, (c.l).sort_key + 1))
    select (l).code, (l).sort_key, (l).hash = hash as same from chain;
select is((select count(*) from again), (select count(*) from t_transitions),
    'every row is in the chain of its subject');
select is((select count(*) from again where same), 23::bigint, 'and every hash is what plain SQL computes');
select is_empty('select code, sort_key from again where not same', 'entries with the same content have the same hash');
select is_empty($$select * from pawl.verify('t')$$, 'verify recomputes the hashes and finds no difference');
set timezone = 'Asia/Kolkata'; set datestyle = 'SQL, DMY'; set extra_float_digits = 0;
select is_empty($$select * from pawl.verify('t')$$, 'in a session of other habits too');
reset timezone; reset datestyle; reset extra_float_digits;

-- Each column that tells something, changed in the middle of a chain; then made good again.
create table b (id int primary key, state text not null);
select pawl.enforce('b', 'state', 'm'),
    pawl.enable_log('b', 'state', most_recent => 'stored', hash_chain => true) \g /dev/null
insert into b values (1, 'a'), (2, 'a');
update b set state = 'b';
update b set state = 'a';
update b set state = 'b' where id = 2;
create table sound as select * from b_transitions;
create function tamper(change text) returns setof text language plpgsql as $$
begin
    set local session_replication_role = replica;
    execute 'update b_transitions set ' || change || ' where subject_id = 1 and sort_key = 2';
    set local session_replication_role = origin;
    return query select format('%s %s', v.key, v.problem) from pawl.verify('b') v order by 1;
    set local session_replication_role = replica;
    delete from b_transitions;
    insert into b_transitions select * from sound;
    set local session_replication_role = origin;
end $$;
select results_eq(format('select tamper(%L)', change), found, format('verify after %s', change)) from (values
    ('actor = ''innocent''', array['1 hash_mismatch']), ('processor = ''x''', array['1 hash_mismatch']),
        ('metadata = ''{}''', array['1 hash_mismatch']),
    ('correlation_id = ''x''', array['1 hash_mismatch']), ('event = ''back''', array['1 hash_mismatch']),
    ('created_at = created_at + ''1 us''::interval', array['1 hash_mismatch']),
    ('hash = ''\x00''', array['1 hash_mismatch', '1 hash_mismatch']),
    ('from_state = ''b''', array['1 chain_broken', '1 hash_mismatch', '1 illegal_transition']),
    ('to_state = ''c''', array['1 chain_broken', '1 hash_mismatch', '1 illegal_transition']),
    ('machine_version = 7', array['1 hash_mismatch', '1 unknown_version']),
    ('id = pawl.uuid_v7()', null)) c(change, found);
select is_empty($$select * from pawl.verify('b')$$, 'as it was, it is sound');

-- A row taken out, a row put in, the table changed instead of the log.
create function after(change text) returns setof text language plpgsql as $$
begin
    set local session_replication_role = replica;
    execute change;
    set local session_replication_role = origin;
    return query select distinct format('%s %s', v.key, v.problem) from pawl.verify('b') v order by 1;
    set local session_replication_role = replica;
    delete from b_transitions; insert into b_transitions select * from sound;
    delete from b; insert into b values (1, 'a'), (2, 'b');
    set local session_replication_role = origin;
end $$;
select results_eq(format('select after(%L)', change), found, format('verify after %s', change)) from (values
    ('delete from b_transitions where subject_id = 1 and sort_key = 2',
        array['1 chain_broken', '1 hash_mismatch', '1 sort_key_gap']),
    ('delete from b_transitions where subject_id = 1 and sort_key = 3', array['1 log_differs', '1 most_recent']),
    ('delete from b_transitions where subject_id = 1', array['1 log_missing']),
    ('delete from b where id = 1', array['1 row_missing']),
    ('insert into b values (3, ''a'')', array['3 log_missing']),
    ('update b set state = ''b'' where id = 1', array['1 log_differs']),
    ('update b set state = ''nonsense'' where id = 1', array['1 log_differs', '1 unknown_state']),
    ('update b_transitions set most_recent = false where subject_id = 2 and most_recent',
        array['2 most_recent'])) c(change, found);
alter table b disable trigger "~pawl_validate";
update b set state = 'c' where id = 2;
alter table b enable trigger "~pawl_validate";
select results_eq($$select format('%s %s', key, problem) from pawl.verify('b')$$, array['2 log_differs'],
    'what the owner let in by a disabled trigger is found');
select * from finish();
