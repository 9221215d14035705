-- pawl.redact: values go from log, audit and outbox, the hash chain holds, each redaction is recorded in
-- pawl.redaction, and only owners may redact.
\set QUIET 1
set client_min_messages to warning;
select no_plan();

select pawl.define('m', $$stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back$$) \g /dev/null
create role owns login;
grant pawl_admin to owns;
create role other login;
grant pawl_admin to other;
create schema s;
grant all on schema s to owns, public;
create function made(name text, columns text, arguments text) returns void language plpgsql as $$
begin
    execute format('create table s.%I (%s)', name, columns);
    execute format('alter table s.%I owner to owns', name);
    execute format('set role owns; select pawl.enforce(''s.%1$I'', ''state'', ''m''), '
            'pawl.enable_log(''s.%1$I''%2$s); reset role', name, arguments);
end $$;
select made('chained', 'id int primary key, state text not null',
    ', most_recent => ''stored'', hash_chain => true), pawl.enable_events(''s.chained'''),
       made('derived', 'id text, part int, state text not null, primary key (id, part)',
           ', hash_chain => true, log_partition => ''range (part)'''),
       made('plain', 'id int primary key, state text not null',
           ', most_recent => ''stored''), pawl.enable_events(''s.plain''') \g /dev/null
set role owns;
select pawl.audit('s.chained', '{"b": true}'), pawl.audit('s.plain', '{"b": true}') \g /dev/null
create table if not exists s.derived_part partition of s.derived_transitions_log for values from (0) to (10);
reset role;

create view outbox as select * from pawl.outbox_1 union all select * from pawl.outbox_2 union all select *
    from pawl.outbox_3;
create function walks(relation text, keys text) returns void language plpgsql as $$
begin
    perform pawl.set_context(processor => 'Zoë Ω', correlation_id => 'order 17',
        metadata => '{"customer": {"name": "Secret", "x": [1, null]}, "n": 1.50, "ü": "kept", "execution_time_ms": 7}');
    execute format('insert into s.%I select %s, ''a'' from generate_series(1, 3) g', relation, keys);
    execute format('update s.%I set state = ''b''', relation);
    perform pawl.set_context(metadata => '"a Secret text"');
    execute format('update s.%I set state = ''a''', relation);
end $$;
begin; select walks('chained', 'g') \g /dev/null
commit;
begin; select walks('derived', 'g::text, g') \g /dev/null
commit;
begin; select walks('plain', 'g') \g /dev/null
commit;
select is_empty($$select * from pawl.verify()$$, 'the chains hold before');
create function log_of(relation text, id text) returns setof jsonb language plpgsql as $$
begin
    return query execute format('select to_jsonb(l) from s.%I l where coalesce(to_jsonb(l) ->> ''subject_id'', '
                'to_jsonb(l) ->> ''id'') = %L order by sort_key', relation || '_transitions', id);
end $$;
select is((select count(*) from s.chained_transitions where length(salt) = 16 and salts is null), 9::bigint,
    'every entry of a chain has a salt');
select is((select count(distinct salt) from s.chained_transitions), 9::bigint, 'of its own');
select hasnt_column('s', 'plain_transitions', 'salt', 'a log without a chain has none');

-- Arguments and rights.
select throws_ok(call, code, null, call) from (values
    ($$select pawl.redact('s.chained', 1, null, 'x')$$, '22004'),
        ($$select pawl.redact('s.chained', 1, array['metadata', null], 'x')$$, '22004'),
    ($$select pawl.redact('s.chained', 1, '{metadata}', null)$$, '22004'),
    ($$select pawl.redact('s.chained', 1, '{metadata}', '  ')$$, '22023'),
    ($$select pawl.redact('s.chained', 1, '{}', 'x')$$, '22023'),
    ($$select pawl.redact('s.chained', 1, '{actor}', 'x')$$, '22023'),
    ($$select pawl.redact('s.chained', 'one', '{metadata}', 'x')$$, '22P02')) bad(call, code);
set role other;
select throws_ok($$select pawl.redact('s.chained', 1, '{metadata}', 'x')$$, '42501', null,
    'an admin who does not own the table may not');
select throws_ok($$select pawl._redact('s.chained'::regclass, 'state', '{1}', '{metadata}', 'x')$$, '42501', null,
    'by no way');
reset role;
revoke pawl_admin from owns;
set role owns;
select throws_ok($$select pawl.redact('s.chained', 1, '{metadata}', 'x')$$, '42501', null,
    'an owner that is no admin may not');
select throws_ok($$update s.chained_transitions set metadata = null$$, 'PW006', null, 'nor change the log');
reset role;
grant pawl_admin to owns;

-- One key of the metadata, of one row.
set role owns;
select is(pawl.redact('s.chained', 1, '{metadata.customer}', 'request 17'), 2::bigint, 'two entries have it');
reset role;
select is_empty($$select * from pawl.verify()$$, 'the chain holds');
select ok(
    (select bool_and(l #>> '{metadata,customer}' ~ '^redacted:[0-9a-f]{64}$' and l #>> '{metadata,n}' = '1.50'
        and l #>> '{metadata,ü}' = 'kept'
                           and l ->> 'salt' is null and not l -> 'salts' ? 'metadata.customer'
                    and l -> 'salts' ? 'processor') from log_of('chained', '1') l where l ->> 'sort_key' < '3'),
          'its values are digests, the others are as they were, its salt is gone');
select is((select l ->> 'metadata' from log_of('chained', '1') l where l ->> 'sort_key' = '3'), 'a Secret text',
    'what the field does not name stays');
select is((select count(*) from s.chained_transitions where metadata::text ~ 'Secret' and subject_id <> 1), 6::bigint,
    'and so do other rows');
select is((select count(*) from outbox e where e.relation = 's.chained'::regclass and e.key = '{1}'
    and metadata #>> '{customer}' ~ '^redacted:'), 2::bigint, 'the outbox says the same');
select is((select count(*) from outbox e join s.chained_transitions l on l.id = e.log_id
            where (e.metadata, e.processor, e.correlation_id) is distinct from (l.metadata, l.processor,
                l.correlation_id)), 0::bigint, 'digest for digest');
select is(pawl.redact('s.chained', 1, '{metadata.customer}', 'again'), 0::bigint,
    'once more there is nothing to replace');

-- All of it, by a superuser.
select is(pawl.redact('s.chained', 1, '{processor,correlation_id,metadata}', 'request 18'), 3::bigint,
    'all entries change');
select is_empty($$select * from pawl.verify()$$, 'the chain holds');
select is((select count(*) from s.chained_transitions l
    where subject_id = 1 and l::text ~ 'Zo|order 17|Secret|1[.]50|kept'), 0::bigint, 'nothing is left in the log');
select is((select count(*) from outbox e where e.relation = 's.chained'::regclass and e.key = '{1}'
    and e::text ~ 'Zo|order 17|Secret|1[.]50|kept'), 0::bigint, 'nor in the outbox');
select is((select count(*) from s.chained_result_audit l
    where subject_id = 1 and worker ~ '^redacted:' and correlation_id ~ '^redacted:'), 1::bigint, 'nor in the audit');
select is((select count(*) from s.chained_transitions where subject_id = 1 and salt is null and salts = '{}'),
    3::bigint, 'all salts are gone');
update s.chained set state = 'b' where id = 1;
select is_empty($$select * from pawl.verify()$$, 'the row moves on, and the chain with it');

-- What a chain says of values that were not redacted, and of those that were, it says still.
create function forged(change text) returns bigint language plpgsql as $$
declare
    problems bigint;
begin
    alter table s.chained_transitions disable trigger user;
    execute 'update s.chained_transitions set ' || change;
    alter table s.chained_transitions enable trigger user;
    problems := (select count(*) from pawl.verify('s.chained') where problem = 'hash_mismatch');
    raise exception using errcode = 'P0042', message = problems;
exception when sqlstate 'P0042' then return sqlerrm;
end $$;
select is(forged(change), 1::bigint, 'a forgery is seen: ' || change) from (values
    ($$processor = 'redacted:' || repeat('0', 64) where subject_id = 1 and sort_key = 2$$),
        ($$processor = 'other' where subject_id = 1 and sort_key = 2$$),
    ($$metadata = metadata || '{"n": "redacted"}' where subject_id = 1 and sort_key = 2$$),
    ($$metadata = metadata - 'n' where subject_id = 1 and sort_key = 2$$),
    ($$metadata = metadata || '{"n": 2}' where subject_id = 2 and sort_key = 2$$),
    ($$salt = null, salts = null where subject_id = 2 and sort_key = 2$$),
    ($$salt = null, salts = '{}' where subject_id = 2 and sort_key = 2$$),
    ($$actor = 'me' where subject_id = 1 and sort_key = 2$$),
    ($$salts = '{"processor": "00"}' where subject_id = 1 and sort_key = 2$$)) f(change);

-- Keys below the top level, by their JSON Pointer.
begin; select pawl.set_context(processor => 'p', metadata => '{"a": {"b": {"c": "Secret", "d": 1}, "b.c": "kept", '
        '"b/c": "Secret", "~1": "kept"}, "a.b": "kept", "a/b": {"c": "kept"}, "l": [{"m": 1}], "e": {}}') \g /dev/null
insert into s.chained values (5, 'a'); insert into s.plain values (5, 'a');
commit;
set role owns;
select throws_ok(format($$select pawl.redact('s.chained', 5, array[%L], 'x')$$, field), '22023', null,
    field || ' is no field')
  from unnest(array['metadata/a/~2', 'metadata/a/b~', 'meta/a', 'metadataa', 'audit.b', 'audit.worker', 'a']) field;
select is(pawl.redact('s.chained', 5, '{metadata/a/b/c,metadata/a/b~1c,metadata/nothing/there,metadata/l/0}',
    'pointers'), 1::bigint, 'nested keys of metadata are redacted by their JSON Pointers');
select is(pawl.redact('s.plain', 5, '{metadata/a/b/c,metadata/a/b~1c}', 'pointers'), 1::bigint, 'without a chain, too');
reset role;
select is_empty($$select * from pawl.verify()$$, 'the chain holds');
create function shown(l jsonb) returns text
    language sql as $$ select regexp_replace((l -> 'metadata')::text, 'redacted:[0-9a-f]{64}', 'gone', 'g') $$;
select is(shown(l), '{"a": {"b": {"c": "gone", "d": 1}, "~1": "kept", "b.c": "kept", "b/c": "gone"}, "e": {}, "l": '
    '[{"m": 1}], "a.b": "kept", "a/b": {"c": "kept"}}', r || ': what the pointers name is gone, and nothing else')
  from unnest('{chained,plain}'::text[]) r, log_of(r, '5') l;
select is((select count(*) from outbox e
    join (select id, metadata from s.chained_transitions union all select id, metadata from s.plain_transitions) l
        on l.id = e.log_id and l.metadata = e.metadata where e.key = '{5}'),
    2::bigint, 'the outbox says the same');
select is((select string_agg(k, ' ' order by k collate "C")
    from log_of('chained', '5') l, jsonb_object_keys(l -> 'salts') k),
    'metadata.a metadata.a.b metadata.a/b metadata.e metadata.l metadata/a/b metadata/a/b.c metadata/a/b/d '
    'metadata/a/~01 metadata/a~1b/c processor', 'the salts of what is left are kept');
create function forged_five(change text) returns bigint
    language sql as $$ select forged('metadata = ' || change || ' where subject_id = 5') $$;
select is(forged_five(change), 1::bigint, 'a forgery is seen: ' || change) from unnest(array[
    $$jsonb_set(metadata, '{a,b,d}', '2')$$, $$jsonb_set(metadata, '{a,b,c}', '"redacted"')$$,
    $$jsonb_set(metadata, '{a,b}', '"redacted"')$$, $$metadata #- '{a,b,d}'$$,
    $$jsonb_set(metadata, '{a,b,x}', '1')$$, $$jsonb_set(metadata, '{a/b,c}', '1')$$,
    $$jsonb_set(metadata, '{e}', '{"x": 1}')$$]) change;
select is(pawl.redact('s.chained', 5, '{metadata/a/b/c}', 'again'), 0::bigint, 'once more there is nothing to replace');
select is(pawl.redact('s.chained', 5, '{metadata/a/b}', 'with what is in it'), 1::bigint,
    'an object, part of which is redacted');
select is(pawl.redact('s.chained', 5, '{metadata/a}', 'one key of the top level'), 1::bigint, 'a pointer of one key');
select is((select fields from pawl.redaction where reason = 'one key of the top level'), '{metadata.a}',
    'is the field of that name');
select is(pawl.redact('s.chained', 5, '{metadata.a/b}', 'a slash in a key'), 1::bigint, 'in that a slash is a slash');
select is((select shown(l) from log_of('chained', '5') l),
    '{"a": "gone", "e": {}, "l": [{"m": 1}], "a.b": "kept", "a/b": "gone"}', 'all of it is gone');
select is_empty($$select * from pawl.verify()$$, 'the chain holds');

-- What was redacted and is not in pawl.redaction is reported.
create function unrecorded(change text) returns text language plpgsql as $$
declare
    problems text;
begin
    alter table pawl.redaction disable trigger append_only;
    execute change;
    alter table pawl.redaction enable trigger append_only;
    problems := (select string_agg(v.key || ' ' || v.detail, '; ' order by v.key, v.detail)
        from pawl.verify('s.chained') v where v.problem = 'redaction_missing');
    raise exception using errcode = 'P0042', message = coalesce(problems, 'none');
exception when sqlstate 'P0042' then return sqlerrm;
end $$;
select is(unrecorded($$delete from pawl.redaction where reason = 'request 17'$$), 'none',
    'a later redaction of all is in pawl.redaction');
select is(unrecorded($$delete from pawl.redaction where reason = 'one key of the top level'$$),
    '5 sort_key 1: pawl.redaction has no row for the redacted metadata.a', 'one field is not');
select is(unrecorded($$update pawl.redaction set key = '{6}' where relation = 's.chained'::regclass and key = '{5}'$$),
    '5 sort_key 1: pawl.redaction has no row for the redacted metadata.a, metadata.a/b', 'nor those of another row');
select is(unrecorded($$delete from pawl.redaction where relation = 's.chained'::regclass and key = '{1}'$$),
    '1 sort_key 1: pawl.redaction has no row for the redacted correlation_id, metadata.customer, '
    'metadata.execution_time_ms, metadata.n, metadata.ü, processor; '
    '1 sort_key 2: pawl.redaction has no row for the redacted correlation_id, metadata.customer, '
    'metadata.execution_time_ms, metadata.n, metadata.ü, processor; '
    '1 sort_key 3: pawl.redaction has no row for the redacted correlation_id, metadata, processor', 'all of a row');
-- the owner of the table removes a value by hand: the chain holds, and pawl.redaction has no row for it
begin;
do $$ begin
    alter table s.chained_transitions disable trigger user;
    update s.chained_transitions l
        set (processor, metadata, salt, salts) = (select r.processor, r.metadata, r.salt, r.salts
        from pawl._redacted('{processor}', l.processor, l.correlation_id, l.metadata, l.salt, l.salts, true) r)
            where subject_id = 2 and sort_key = 2;
    alter table s.chained_transitions enable trigger user;
end $$;
update pawl.outbox_1 e set processor = l.processor from s.chained_transitions l where l.id = e.log_id;
update pawl.outbox_2 e set processor = l.processor from s.chained_transitions l where l.id = e.log_id;
update pawl.outbox_3 e set processor = l.processor from s.chained_transitions l where l.id = e.log_id;
set role owns;
select results_eq($$select key, problem, detail from pawl.verify('s.chained') where problem not like 'audit%'$$,
    $$values ('2', 'redaction_missing', 'sort_key 2: pawl.redaction has no row for the redacted processor')$$,
    'a redaction by hand is not in pawl.redaction, and the owner sees that');
select is((select count(*) from pawl._redactions), (select count(*) from pawl.redaction where relation::text ^@ 's.'),
    'an owner sees the redactions of its logs');
set role other;
select is((select count(*) from pawl._redactions), 0::bigint, 'others do not');
rollback;

-- Columns that an audit copies from the row.
create table s.copied (id int, part text, name text, born date, state text not null, primary key (id, part));
alter table s.copied owner to owns;
set role owns;
select pawl.enforce('s.copied', 'state', 'm'), pawl.enable_log('s.copied', 'state', hash_chain => true),
    pawl.enable_events('s.copied', 'state') \g /dev/null
select pawl.audit('s.copied', '{"b": true}', parent => '{name,born,part}') \g /dev/null
insert into s.copied values (1, 'x', 'Secret', '1970-01-01', 'a'), (2, 'x', 'Secret', '1970-01-01', 'a');
update s.copied set state = 'b';
select throws_ok($$select pawl.redact('s.copied', row(1, 'x'), '{audit.part}', 'x')$$, '22023', null, 'a key stays');
select is(pawl.redact('s.copied', row(1, 'x'), '{audit.name,audit.born}', 'copies'), 0::bigint,
    'no entry of the log has them');
reset role;
select is((select string_agg(subject_id || ' ' || regexp_replace(name, '[0-9a-f]{64}', '#') || ' '
                || coalesce(born::text, 'none'), ', ' order by subject_id)
    from s.copied_result_audit), '1 redacted:# none, 2 Secret 1970-01-01',
    'text is a digest, what is no text is gone, and other rows are as they were');
select is((select results from pawl.redaction where reason = 'copies'), 1::bigint, 'one result was changed');
select is((select pawl.redact('s.copied', row(1, 'x'), '{audit.name,audit.born}', 'copies again')), 0::bigint,
    'columns that are redacted already are not redacted again');
select is((select results from pawl.redaction where reason = 'copies again'), 0::bigint,
    'pawl.redaction counts no results of the second redaction');
select is_empty($$select * from pawl.verify('s.copied')$$, 'nothing is wrong');
select set_config('pawl.processor', 'Secret', false) \g /dev/null
set role owns;
update s.copied set state = 'a';
update s.copied set state = 'b';
select lives_ok($$select pawl.redact('s.copied', row(2, 'x'), '{processor,audit.name}', 'both')$$,
    'the worker and a copied column are redacted together');
reset role;
select is((select results from pawl.redaction where reason = 'both'), 2::bigint,
    'pawl.redaction counts a result once, whatever is redacted of it');

-- An audit that has ended is redacted by auditing into it again.
set role owns;
select pawl.unaudit('s.copied') \g /dev/null
select throws_ok($$select pawl.redact('s.copied', row(1, 'x'), '{audit.name}', 'ended')$$, '22023', null,
    'an audit that has ended is not redacted');
select pawl.redact('s.copied', row(1, 'x'), '{processor}', 'ended'),
    pawl.audit('s.copied', '{"b": true}', 'copied_result_audit', '{name,born,part}') \g /dev/null
select lives_ok($$select pawl.redact('s.copied', row(1, 'x'), '{processor,audit.name}', 'again')$$,
    'auditing again makes it redactable');
select is_empty($$select * from pawl.verify('s.copied')$$, 'its digests are those of the log');
select pawl.unaudit('s.copied') \g /dev/null
reset role;
select is((select count(*) from s.copied_result_audit where subject_id = 1
    and (worker = 'Secret' or name = 'Secret')), 0::bigint, 'its values are gone');
reset pawl.processor;

-- A key that sessions write differently.
create table s.dated (at timestamptz primary key, state text not null);
alter table s.dated owner to owns;
set role owns;
select pawl.enforce('s.dated', 'state', 'm'), pawl.enable_log('s.dated', 'state', hash_chain => true),
    pawl.enable_events('s.dated', 'state') \g /dev/null
begin;
select pawl.set_context(processor => 'Secret', metadata => '{"a": {"b": "Secret"}}') \g /dev/null
insert into s.dated values ('2024-02-03 12:00+00', 'a'), ('2024-02-04 12:00+00', 'a');
commit;
delete from s.dated where at = '2024-02-04 12:00+00';
set timezone = 'Asia/Kolkata'; set datestyle = 'SQL, DMY';
select is(pawl.redact('s.dated', '03/02/2024 17:30', '{processor,metadata/a/b}', 'dated'), 1::bigint,
    'a key in the form of its session');
select is(pawl.redact('s.dated', '04/02/2024 17:30', '{processor}', 'dated'), 1::bigint, 'of a row that is gone');
reset timezone; reset datestyle;
reset role;
select is((select string_agg(key::text, ' ' order by key) from pawl.redaction where reason = 'dated'),
    '{"2024-02-03 12:00:00+00"} {"2024-02-04 12:00:00+00"}', 'is the key in pawl.redaction');
select is((select count(*) from outbox where relation = 's.dated'::regclass and processor = 'Secret'), 0::bigint,
    'its events are redacted');
select is_empty($$select * from pawl.verify('s.dated')$$, 'nothing is wrong');

-- A partitioned log, a key of two columns.
set role owns;
select is(pawl.redact('s.derived', row('2', 2), '{metadata}', 'request 19'), 3::bigint, 'a partitioned log');
reset role;
select is_empty($$select * from pawl.verify()$$, 'its chain holds');
select is((select count(*) from s.derived_transitions where metadata::text ~ 'Secret'), 6::bigint,
    'other rows keep theirs');

-- A log without a chain, a row that is gone, and a log that was pruned.
delete from s.plain where id = 3;
set role owns;
select is(pawl.redact('s.plain', 3, '{processor,metadata.n}', 'request 20'), 3::bigint, 'of a deleted row');
reset role;
select is((select count(*) from s.plain_transitions where subject_id = 3 and processor = 'Zoë Ω'), 0::bigint,
    'the processor is gone');
select is((select count(*) from s.plain_transitions
    where subject_id = 3 and correlation_id = 'order 17' and sort_key <= 3), 3::bigint, 'the rest is there');
select is((select count(distinct processor) from s.plain_transitions where subject_id = 3 and sort_key <= 3), 3::bigint,
    'digests of one value differ');
select is(pawl.redact('s.plain', 3, '{processor}', 'again'), 0::bigint, 'digests are not digested again');
select lives_ok($$select pawl.prune_log('s.plain', interval '0', only_terminal => false)$$,
    'a log with redacted entries can be pruned');
select is(pawl.redact('s.plain', 1, '{processor}', 'request 21'),
    (select count(*) from s.plain_transitions where subject_id = 1), 'entries that are there are counted');
select is((select count(*) from s.plain_result_audit where subject_id = 1 and worker !~ '^redacted:'), 0::bigint,
    'results of pruned entries are redacted');
select is((select count(*) from outbox where relation = 's.plain'::regclass and key = '{1}'
    and processor !~ '^redacted:'), 0::bigint, 'their events, too');

-- The table of redactions.
select is(
    (select string_agg(format('%s %s %s %s %s %s %s', relation, key, fields, reason, entries, results, redacted_by),
        '; ' order by redaction) from pawl.redaction where reason ~ '^request 1[78]'),
    's.chained {1} {metadata.customer} request 17 2 0 owns; s.chained {1} {processor,correlation_id,metadata} '
    'request 18 3 1 ' || current_user, 'what was redacted, why, how much, and by which role');
select throws_ok(change, 'PW006', null, change) from unnest(array['update pawl.redaction set reason = ''x''',
    'delete from pawl.redaction', 'truncate pawl.redaction']) change;
set role owns;
select throws_ok($$insert into pawl.redaction select * from pawl.redaction$$, '42501', null,
    'no role of pawl writes it');
reset role;
select ok('pawl.redaction'::regclass = any (extconfig), 'it is dumped') from pg_extension where extname = 'pawl';

-- Packs: their logs are logs, and what docs/operations.md says of their tables can be done.
create extension pawl_dag;
create extension pawl_bulk;
create extension pawl_saga;
select pawl_saga.define('{"flow": "linear", "name": "f", "children": [{"task": "a"}]}') \g /dev/null
select pawl_saga.start('f', '{"x": "Secret"}') as f \gset
select flow_uuid, node, token from pawl_saga.claim('Secret') \gset
select pawl_saga.report(jsonb_build_array(jsonb_build_object('flow_uuid', :'flow_uuid', 'node', :node, 'token', :token,
    'result', 'Secret')), 'Secret') \g /dev/null
select pawl_dag.define_template('{"name": "t", "steps": [{"name": "a"}]}') \g /dev/null
select pawl_dag.start_task('t', '{"x": "Secret"}') as task \gset
select pawl_bulk.define('{"name": "d", "handler": "h", "track_row_data": true}') \g /dev/null
select operation from pawl_bulk.submit('d', '{"x": "Secret"}', '[{"x": "Secret"}]') \gset
select pawl_bulk.advance() \g /dev/null
select is(pawl.redact('pawl_saga.tasks', row(:'flow_uuid'::uuid, :node), '{processor}', 'pack'), 2::bigint,
    'the log of a pack is redacted');
select lives_ok(format(change, :'f', :'task', :'operation'), change) from unnest(array[
    $$update pawl_saga.tasks set result = '"redacted"' where flow_uuid = '%1$s' and name = 'a'$$,
    $$update pawl_saga.flows set inputs = '{"x": "redacted"}' where flow_uuid = '%1$s'$$,
    $$update pawl_dag.tasks set context = '{"x": "redacted"}' where task_uuid = '%2$s'$$,
    $$update pawl_dag.steps set result = '"redacted"' where task_uuid = '%2$s' and name = 'a'$$,
    $$update pawl_bulk.input set data = '{}', raw = null where operation = '%3$s' and row_number = 1$$,
    $$update pawl_bulk.operations set metadata = '{}' where operation = '%3$s'$$]) change;
select is((select string_agg(x, '; ')
    from (select t::text from pawl_saga.tasks t union all select t::text from pawl_saga.flows t union all select t::text
        from pawl_dag.tasks t union all select t::text from pawl_dag.steps t
    union all select t::text from pawl_bulk.input t union all select t::text from pawl_bulk.operations t
        union all select t::text from pawl_saga.task_transitions_log t) t(x) where x ~ 'Secret'),
    null, 'and nothing is left in these tables');
select is_empty('select * from pawl.verify() where problem !~ ''^not_checked''', 'nothing is wrong');

-- A long log takes one pass.
begin;
select pawl.set_context(processor => 'Zoë Ω', metadata => '{"k": "v"}') \g /dev/null
insert into s.chained values (9, 'a');
do $$ begin for i in 1..1000 loop update s.chained set state = 'b' where id = 9; update s.chained set state = 'a'
    where id = 9; end loop; end $$;
commit;
select is(pawl.redact('s.chained', 9, '{metadata}', 'long'), 2001::bigint, 'the log has 2,001 entries');
select is_empty($$select * from pawl.verify('s.chained')$$, 'of one chain');
select * from finish();
