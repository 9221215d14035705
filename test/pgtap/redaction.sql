-- pawl.redact: values go from log, audit and outbox, the hash chain holds, what was done is on the record, and nobody else may.
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
    execute format('set role owns; select pawl.enforce(''s.%1$I'', ''state'', ''m''), pawl.enable_log(''s.%1$I''%2$s); reset role', name, arguments);
end $$;
select made('chained', 'id int primary key, state text not null', ', hash_chain => true), pawl.enable_events(''s.chained'''),
       made('derived', 'id text, part int, state text not null, primary key (id, part)', ', hash_chain => true, log_partition => ''range (part)'''),
       made('plain', 'id int primary key, state text not null', '), pawl.enable_events(''s.plain''') \g /dev/null
set role owns;
select pawl.audit('s.chained', '{"b": true}'), pawl.audit('s.plain', '{"b": true}') \g /dev/null
create table if not exists s.derived_part partition of s.derived_transitions_log for values from (0) to (10);
reset role;

create view outbox as select * from pawl.outbox_1 union all select * from pawl.outbox_2 union all select * from pawl.outbox_3;
create function walks(relation text, keys text) returns void language plpgsql as $$
begin
    perform pawl.set_context(processor => 'Zoë Ω', correlation_id => 'order 17', metadata => '{"customer": {"name": "Secret", "x": [1, null]}, "n": 1.50, "ü": "kept", "execution_time_ms": 7}');
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
    return query execute format('select to_jsonb(l) from s.%I l where coalesce(to_jsonb(l) ->> ''subject_id'', to_jsonb(l) ->> ''id'') = %L order by sort_key', relation || '_transitions', id);
end $$;
select is((select count(*) from s.chained_transitions where length(salt) = 16 and salts is null), 9::bigint, 'every entry of a chain has a salt');
select is((select count(distinct salt) from s.chained_transitions), 9::bigint, 'of its own');
select hasnt_column('s', 'plain_transitions', 'salt', 'a log without a chain has none');

-- Arguments and rights.
select throws_ok(call, code, null, call) from (values
    ($$select pawl.redact('s.chained', 1, null, 'x')$$, '22004'), ($$select pawl.redact('s.chained', 1, array['metadata', null], 'x')$$, '22004'),
    ($$select pawl.redact('s.chained', 1, '{metadata}', null)$$, '22004'), ($$select pawl.redact('s.chained', 1, '{metadata}', '  ')$$, '22023'),
    ($$select pawl.redact('s.chained', 1, '{}', 'x')$$, '22023'), ($$select pawl.redact('s.chained', 1, '{actor}', 'x')$$, '22023'),
    ($$select pawl.redact('s.chained', 'one', '{metadata}', 'x')$$, '22P02')) bad(call, code);
set role other;
select throws_ok($$select pawl.redact('s.chained', 1, '{metadata}', 'x')$$, '42501', null, 'an admin who does not own the table may not');
select throws_ok($$select pawl._redact('s.chained'::regclass, 'state', '{1}', '{metadata}', 'x')$$, '42501', null, 'by no way');
reset role;
revoke pawl_admin from owns;
set role owns;
select throws_ok($$select pawl.redact('s.chained', 1, '{metadata}', 'x')$$, '42501', null, 'an owner who is no admin may not');
select throws_ok($$update s.chained_transitions set metadata = null$$, 'PW006', null, 'nor change the log');
reset role;
grant pawl_admin to owns;

-- One key of the metadata, of one row.
set role owns;
select is(pawl.redact('s.chained', 1, '{metadata.customer}', 'request 17'), 2::bigint, 'two entries have it');
reset role;
select is_empty($$select * from pawl.verify()$$, 'the chain holds');
select ok((select bool_and(l #>> '{metadata,customer}' ~ '^redacted:[0-9a-f]{64}$' and l #>> '{metadata,n}' = '1.50' and l #>> '{metadata,ü}' = 'kept'
                           and l ->> 'salt' is null and not l -> 'salts' ? 'metadata.customer' and l -> 'salts' ? 'processor') from log_of('chained', '1') l where l ->> 'sort_key' < '3'),
          'its values are digests, the others are as they were, its salt is gone');
select is((select l ->> 'metadata' from log_of('chained', '1') l where l ->> 'sort_key' = '3'), 'a Secret text', 'what the field does not name stays');
select is((select count(*) from s.chained_transitions where metadata::text ~ 'Secret' and subject_id <> 1), 6::bigint, 'and so do other rows');
select is((select count(*) from outbox e where e.relation = 's.chained'::regclass and e.key = '{1}' and metadata #>> '{customer}' ~ '^redacted:'), 2::bigint, 'the outbox says the same');
select is((select count(*) from outbox e join s.chained_transitions l on l.id = e.log_id
            where (e.metadata, e.processor, e.correlation_id) is distinct from (l.metadata, l.processor, l.correlation_id)), 0::bigint, 'digest for digest');
select is(pawl.redact('s.chained', 1, '{metadata.customer}', 'again'), 0::bigint, 'once more there is nothing to replace');

-- All of it, by a superuser.
select is(pawl.redact('s.chained', 1, '{processor,correlation_id,metadata}', 'request 18'), 3::bigint, 'all entries change');
select is_empty($$select * from pawl.verify()$$, 'the chain holds');
select is((select count(*) from s.chained_transitions l where subject_id = 1 and l::text ~ 'Zo|order 17|Secret|1[.]50|kept'), 0::bigint, 'nothing is left in the log');
select is((select count(*) from outbox e where e.relation = 's.chained'::regclass and e.key = '{1}' and e::text ~ 'Zo|order 17|Secret|1[.]50|kept'), 0::bigint, 'nor in the outbox');
select is((select count(*) from s.chained_result_audit l where subject_id = 1 and worker ~ '^redacted:' and correlation_id ~ '^redacted:'), 1::bigint, 'nor in the audit');
select is((select count(*) from s.chained_transitions where subject_id = 1 and salt is null and salts = '{}'), 3::bigint, 'all salts are gone');
update s.chained set state = 'b' where id = 1;
select is_empty($$select * from pawl.verify()$$, 'the row moves on, and the chain with it');

-- What a chain says of values that were not redacted, and of those that were, it says still.
create function forged(change text) returns bigint language plpgsql as $$
declare
    problems bigint;
begin
    alter table s.chained_transitions_log disable trigger user;
    execute 'update s.chained_transitions set ' || change;
    alter table s.chained_transitions_log enable trigger user;
    problems := (select count(*) from pawl.verify('s.chained') where problem = 'hash_mismatch');
    raise exception using errcode = 'P0042', message = problems;
exception when sqlstate 'P0042' then return sqlerrm;
end $$;
select is(forged(change), 1::bigint, 'a forgery is seen: ' || change) from (values
    ($$processor = 'redacted:' || repeat('0', 64) where subject_id = 1 and sort_key = 2$$), ($$processor = 'somebody' where subject_id = 1 and sort_key = 2$$),
    ($$metadata = metadata || '{"n": "redacted"}' where subject_id = 1 and sort_key = 2$$), ($$metadata = metadata - 'n' where subject_id = 1 and sort_key = 2$$),
    ($$metadata = metadata || '{"n": 2}' where subject_id = 2 and sort_key = 2$$), ($$salt = null, salts = null where subject_id = 2 and sort_key = 2$$),
    ($$salt = null, salts = '{}' where subject_id = 2 and sort_key = 2$$), ($$actor = 'me' where subject_id = 1 and sort_key = 2$$),
    ($$salts = '{"processor": "00"}' where subject_id = 1 and sort_key = 2$$)) f(change);

-- A partitioned log, a key of two columns.
set role owns;
select is(pawl.redact('s.derived', row('2', 2), '{metadata}', 'request 19'), 3::bigint, 'a partitioned log');
reset role;
select is_empty($$select * from pawl.verify()$$, 'its chain holds');
select is((select count(*) from s.derived_transitions where metadata::text ~ 'Secret'), 6::bigint, 'other rows keep theirs');

-- A log without a chain, a row that is gone, and a log that was pruned.
delete from s.plain where id = 3;
set role owns;
select is(pawl.redact('s.plain', 3, '{processor,metadata.n}', 'request 20'), 3::bigint, 'of a deleted row');
reset role;
select is((select count(*) from s.plain_transitions where subject_id = 3 and processor = 'Zoë Ω'), 0::bigint, 'the processor is gone');
select is((select count(*) from s.plain_transitions where subject_id = 3 and correlation_id = 'order 17' and sort_key <= 3), 3::bigint, 'the rest is there');
select is((select count(distinct processor) from s.plain_transitions where subject_id = 3 and sort_key <= 3), 3::bigint, 'digests of one value differ');
select is(pawl.redact('s.plain', 3, '{processor}', 'again'), 0::bigint, 'digests are not digested again');
select lives_ok($$select pawl.prune_log('s.plain', interval '0', only_terminal => false)$$, 'pruned');
select is(pawl.redact('s.plain', 1, '{processor}', 'request 21'), (select count(*) from s.plain_transitions where subject_id = 1), 'entries that are there are counted');
select is((select count(*) from s.plain_result_audit where subject_id = 1 and worker !~ '^redacted:'), 0::bigint, 'results of pruned entries are redacted');
select is((select count(*) from outbox where relation = 's.plain'::regclass and key = '{1}' and processor !~ '^redacted:'), 0::bigint, 'their events, too');

-- The record of redactions.
select is((select string_agg(format('%s %s %s %s %s %s %s', relation, key, fields, reason, entries, results, redacted_by), '; ' order by redaction) from pawl.redaction where reason ~ '^request 1[78]'),
    's.chained {1} {metadata.customer} request 17 2 0 owns; s.chained {1} {processor,correlation_id,metadata} request 18 3 1 ' || current_user, 'what, why, how much, by whom');
select throws_ok(change, 'PW006', null, change) from unnest(array['update pawl.redaction set reason = ''x''', 'delete from pawl.redaction', 'truncate pawl.redaction']) change;
set role owns;
select throws_ok($$insert into pawl.redaction select * from pawl.redaction$$, '42501', null, 'no role of pawl writes it');
reset role;
select ok('pawl.redaction'::regclass = any (extconfig), 'it is dumped') from pg_extension where extname = 'pawl';

-- A long log takes one pass.
begin;
select pawl.set_context(processor => 'Zoë Ω', metadata => '{"k": "v"}') \g /dev/null
insert into s.chained values (9, 'a');
do $$ begin for i in 1..1000 loop update s.chained set state = 'b' where id = 9; update s.chained set state = 'a' where id = 9; end loop; end $$;
commit;
select is(pawl.redact('s.chained', 9, '{metadata}', 'long'), 2001::bigint, '2,001 entries');
select is_empty($$select * from pawl.verify('s.chained')$$, 'of one chain');
select * from finish();
