-- Tokens and requests of the HTTP API, called as pawld calls them: which requests are accepted and as which role they
-- run; a key is answered once.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
create extension if not exists pawl_bulk cascade;
create extension if not exists pawl_api cascade;
create role api_request_operator in role pawl_operator;
create role api_request_other in role pawl_operator;
create role api_request_super superuser;
create role api_request_apart;
grant api_request_operator, api_request_super to pawl_authenticator;

create function public.digest_of(secret text) returns bytea
    language sql as $$ select sha256(convert_to(secret, 'SQL_ASCII')) $$;
-- Its SQLSTATE, or ok.
create function public.said(command text) returns text language plpgsql as $$
begin
    execute command;
    return 'ok';
exception when others then
    return sqlstate;
end $$;
create table public.calls (body jsonb);
grant insert, select on public.calls to api_request_operator;
create function pawl_api.count_calls(q jsonb, body jsonb) returns jsonb language sql as $$
    insert into public.calls values (body);
    select to_jsonb(count(*)) from public.calls $$;

select throws_ok($$select pawl_api.create_token('api_request_super', 'ada')$$, '42501', NULL,
    'no token makes a superuser');
select throws_ok($$select pawl_api.create_token('api_request_apart', 'ada')$$, '42501', NULL,
    'no token is for a role that pawld may not become');
select throws_ok($$select pawl_api.create_token('api_request_operator', '')$$, '22023', NULL, 'a token names a person');
select throws_ok($$select pawl_api.create_token('api_request_operator', 'ada', '{admin}')$$, '22023', NULL,
    'there are two scopes');
select pawl_api.create_token('api_request_operator', 'ada', '{operate}') as operating \gset
select pawl_api.create_token('api_request_operator', 'bob', '{operate}') as second \gset
select pawl_api.create_token('api_request_operator', 'ada') as reading \gset
select pawl_api.create_token('api_request_operator', 'ada', '{read,operate}', '-1 s') as expired \gset
select pawl_api.create_token('api_request_operator', 'ada', '{read,operate}') as revoked \gset
select repeat('a7', 32) as fingerprint \gset
select pawl_api.accept_certificate(:'fingerprint', 'api_request_operator', 'eve', '{read}') \g /dev/null

select is(said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'revoked')), 'ok',
    'a token is let in');
select pawl_api.revoke_token(t.token) from pawl_api.tokens t where t.digest = digest_of(:'revoked') \g /dev/null
select is(said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'revoked')), '28000',
    'a revoked token is not');
select is(said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'expired')), '28000',
    'an expired token is not');
select is(said($$select pawl_api.begin_request('bearer', digest_of('pawl_guess'), 'read')$$), '28000',
    'an unknown token is not');

-- Tokens of another database, as their rows.
create function public.row_of(secret text, changes jsonb default '{}') returns jsonb language sql as $$
    select jsonb_build_array(jsonb_build_object('token', pawl.uuid_v7(), 'kind', 'bearer', 'digest', digest_of(secret),
        'role', 'api_request_operator', 'person', 'far', 'scopes', '{read}'::text[],
        'created_at', clock_timestamp(), 'created_by', 'admin') || changes) $$;
select row_of('pawl_far') as far \gset
select is(pawl_api.accept_tokens(:'far'), 1::bigint, 'a token of another database is accepted');
select is(pawl_api.accept_tokens(:'far'), 0::bigint, 'again it changes nothing');
select is(said($$select pawl_api.begin_request('bearer', digest_of('pawl_far'), 'read')$$), 'ok', 'it is valid here');
select is(pawl_api.accept_tokens(jsonb_set(:'far', '{0,revoked_at}', '"2026-01-01"')), 1::bigint,
    'its revocation is accepted, too');
select is(said($$select pawl_api.begin_request('bearer', digest_of('pawl_far'), 'read')$$), '28000',
    'then it is not valid any more');
select is(pawl_api.accept_tokens(:'far'), 0::bigint, 'and an older row does not bring it back');
select is(pawl_api.accept_tokens(jsonb_set(:'far', '{0,note}', '"moved"')), 1::bigint, 'nor does one with a new note');
select is((select note || (revoked_at is not null) from pawl_api.tokens where digest = digest_of('pawl_far')),
    'movedtrue',
    'whose note is accepted');
select throws_ok($$select pawl_api.accept_tokens(row_of('x', '{"role": "api_request_super"}'))$$, '42501', NULL,
    'a token of a superuser is not accepted');
select throws_ok($$select pawl_api.accept_tokens(row_of('x', '{"role": "api_request_apart"}'))$$, '42501', NULL,
    'nor one for a role that pawld may not become');
select throws_ok($$select pawl_api.accept_tokens(row_of('x', '{"role": "api_request_none"}'))$$, '42704', NULL,
    'nor one for a role that is not there');
select throws_ok($$select pawl_api.accept_tokens(row_of('x', '{"scopes": ["admin"]}'))$$, '22023', NULL,
    'nor one with other scopes');
select is(said(format($$select pawl_api.begin_request('bearer', decode(%L, 'hex'), 'read')$$, :'fingerprint')), '28000',
          'the fingerprint of a certificate is no token');
select is(said(format($$select pawl_api.begin_request('certificate', digest_of(%L), 'read')$$, :'reading')), '28000',
    'a token is no certificate');
select is(said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'operate')$$, :'reading')), '42501',
    'a reading token does not operate');
select is(said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'operating')), '42501',
    'an operating token does not read');
select is(said(format($$select pawl_api.begin_request('certificate', decode(%L, 'hex'), 'read')$$, :'fingerprint')),
    'ok', 'a certificate is let in');
select is(said(format('select pawl_api.begin_request(%s)', v.arguments)), v.code, 'null is ' || v.what)
  from (values ($$null, digest_of('x'), 'read'$$, '28000', 'no kind of token'),
      ($$'bearer', null, 'read'$$, '28000', 'no token'),
      ($$'bearer', digest_of('x'), null$$, '22004', 'no scope')) v(arguments, code, what);
reset all;

-- A role that becomes a superuser afterwards.
alter role api_request_operator superuser;
select is(said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'reading')), '28000',
    'a token is not valid while its role is a superuser');
alter role api_request_operator nosuperuser;

-- Tokens that lack what the table's constraints demand.
begin;
alter table pawl_api.tokens alter person drop not null, alter role drop not null, alter scopes drop not null,
    alter kind drop not null;
create function public.without(columns text[], secret text) returns text language plpgsql as $$
declare
    said_of text := '';
    name text;
    before pawl_api.tokens;
begin
    select * into before from pawl_api.tokens where digest = digest_of(secret);
    foreach name in array columns loop
        execute format('update pawl_api.tokens set %I = null where token = %L', name, before.token);
        said_of := said_of
            || said(format('select pawl_api.begin_request(''bearer'', digest_of(%L), ''read'')', secret));
        execute format('update pawl_api.tokens set %1$I = ($1).%1$I where token = %2$L', name, before.token)
            using before;
    end loop;
    return said_of;
end $$;
select without('{person,role,scopes,kind}', :'reading') as got \gset
rollback;
select is(:'got'::text, '28000280002800028000', 'a token whose row lacks a value is not valid');

-- The last use.
select coalesce(last_used_at::text, '') as used from pawl_api.tokens where digest = digest_of(:'reading') \gset
select is(:'used'::text, '', 'a rejected request is no use of a token');
begin transaction read only;
select said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'reading')) as got \gset
rollback;
select is(:'got'::text, 'ok', 'a request may begin where nothing can be written');
select said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'reading')) \g /dev/null
select coalesce(last_used_at::text, '') as used from pawl_api.tokens where digest = digest_of(:'reading') \gset
select isnt(:'used'::text, '', 'the last use is stored');
select said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'reading')) \g /dev/null
select is((select last_used_at::text from pawl_api.tokens where digest = digest_of(:'reading')), :'used',
    'and a use in the same minute writes nothing');
update pawl_api.tokens set last_used_at = last_used_at - interval '61 s' where digest = digest_of(:'reading');
select said(format($$select pawl_api.begin_request('bearer', digest_of(%L), 'read')$$, :'reading')) \g /dev/null
select ok((select last_used_at > :'used'::timestamptz from pawl_api.tokens where digest = digest_of(:'reading')),
    'but one in the next minute does');

-- The trace: one of W3C, another text, and none in a session that another program has left one in.
select '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' as parent \gset
create function public.trace_after(secret text, trace text) returns text language plpgsql as $$
begin
    perform pawl_api.begin_request('bearer', public.digest_of(secret), 'read', trace);
    return concat_ws('|', current_setting('pawl.correlation_id'), current_setting('pawl.traceparent'),
        current_setting('pawl.tracestate'));
end $$;
set pawl.correlation_id = 'left';
set pawl.traceparent = :'parent';
set pawl.tracestate = 'left=1';
select trace_after(:'reading', :'parent' || ' a=1') as w3c \gset
select trace_after(:'reading', :'parent' || ' nothing') as no_state \gset
select trace_after(:'reading', 'req-7 a') as other \gset
select trace_after(:'reading', null) as without \gset
reset all;
select is(:'w3c'::text, '0af7651916cd43dd8448eb211c80319c|' || :'parent' || '|a=1',
    'a W3C trace gives its three parts');
select is(:'no_state'::text, '0af7651916cd43dd8448eb211c80319c|' || :'parent' || '|', 'an invalid state is dropped');
select is(:'other'::text, 'req-7 a||', 'another text is the correlation id');
select is(:'without'::text, '||', 'and without a trace there is none, whatever the session had');

begin;
select pawl_api.begin_request('bearer', digest_of(:'reading'), 'read') \g /dev/null
select current_user as role, current_setting('transaction_read_only') as only_reads,
    current_setting('pawl.processor') as person, current_setting('pawl_api.scopes') as scopes,
    coalesce(current_setting('pawl_api.expires_at', true), '') as expires \gset
select said('create temporary table t ()') as temporary, said('insert into public.calls values (NULL)') as written \gset
commit;
select is(:'role'::text, 'api_request_operator', 'a request runs as the role of its token');
select is(:'person'::text, 'ada', 'and in the name of its person');
select is(:'scopes'::text, 'read', 'with its scopes');
select is(:'expires'::text, '', 'which do not expire');
begin;
select pawl_api.create_token('api_request_operator', 'ada', '{read,operate}', '1 day') as short \gset
select pawl_api.begin_request('bearer', digest_of(:'short'), 'operate') \g /dev/null
select current_setting('pawl_api.scopes') as scopes,
    current_setting('pawl_api.expires_at')::timestamptz as expires \gset
rollback;
select is(:'scopes'::text, 'read,operate', 'several scopes are listed');
select ok(:'expires'::timestamptz between now() + '23 hours' and now() + '25 hours', 'with when they expire');
select is(:'only_reads'::text, 'on', 'a reading request reads only');
select is(:'written'::text, '25006', 'it writes nothing, whatever its role may');
select is(current_user::text, 'postgres', 'the role ends with the transaction');

begin;
select pawl_api.begin_request('bearer', digest_of(:'operating'), 'operate') \g /dev/null
select pawl_api.once('k', 'count_calls', '{}', '{"a": 1}') as first \gset
commit;
select is((select count(*) from public.calls), 1::bigint, 'a route is called');
begin;
select pawl_api.begin_request('bearer', digest_of(:'operating'), 'operate') \g /dev/null
select pawl_api.once('k', 'count_calls', '{}', '{"a": 1}') as again,
    said($$select pawl_api.once('k', 'count_calls', '{}', '{"a": 2}')$$) as other,
       said($$select pawl_api.once('k', 'no_route', '{}', '{"a": 1}')$$) as unknown \gset
commit;
select is(:'again'::text, :'first', 'the second time its key is answered as the first time');
select is((select count(*) from public.calls), 1::bigint, 'and nothing is called');
select is(:'other'::text, '23514', 'a key belongs to one request');
select is(:'unknown'::text, '42883', 'and to a route that there is');
begin;
select pawl_api.begin_request('bearer', digest_of(:'second'), 'operate') \g /dev/null
select pawl_api.once('k', 'count_calls', '{}', '{"a": 1}') as theirs \gset
commit;
select is(:'theirs'::text, '2', 'another token has keys of its own');
select is(said($$select pawl_api.once('k', 'count_calls', '{}', '{"a": 1}')$$), '42501',
    'after its transaction a request is over');

-- keys of uploads
select pawl_bulk.define('{"name": "keyed", "steps": [{"name": "load", "kind": "sync", "handler": "missing"}]}')
    \g /dev/null
select '{"operationName": "keyed", "format": "ndjson"}' as form \gset
begin;
select pawl_api.begin_request('bearer', digest_of(:'operating'), 'operate') \g /dev/null
select operation as first from pawl_api._begin_upload(:'form', 'u') \gset
select pawl_api._end_upload(:'first', null, 'aa'), pawl_api._keep_answer('u',
    jsonb_build_object('operation', :'first', 'created', true, 'rows', 7, 'checksum', 'aa')) \g /dev/null
commit;
begin;
select pawl_api.begin_request('bearer', digest_of(:'operating'), 'operate') \g /dev/null
select operation as again, created from pawl_api._begin_upload(:'form', 'u') \gset
select pawl_api._repeat_upload(:'form', 'u', :'again', 'aa') as answer,
    said(format($$select pawl_api._repeat_upload(%L, 'u', %L, 'bb')$$, :'form', :'again')) as file,
    said(format($$select pawl_api._begin_upload(%L || '{"priority": "3"}'::jsonb, 'u')$$, :'form')) as fields \gset
rollback;
begin;
select pawl_api.begin_request('bearer', digest_of(:'second'), 'operate') \g /dev/null
select created as other_created from pawl_api._begin_upload(:'form', 'u') \gset
rollback;
select is(:'again'::text || :'created', :'first' || 'f', 'an upload that comes again is the first one');
select is(:'answer'::jsonb, jsonb_build_object('operation', :'first', 'created', false, 'rows', 7, 'malformed', 0,
    'checksum', 'aa', 'input_error', null), 'and gets the first answer');
select is(:'file'::text, '23514', 'unless it is another file');
select is(:'fields'::text, '23514', 'or has other fields');
select is(:'other_created'::boolean, true, 'another token has keys of its own for uploads');

-- parameters
select is((select string_agg(pawl_api._uuid(jsonb_build_object('t', given), 't')::text, ',') from unnest(array[
        '01890000-0000-7000-8000-00000000000a', '01890000-0000-7000-8000-00000000000A',
        '{01890000-0000-7000-8000-00000000000a}', '0189000000007000800000000000000a']) given),
    repeat('01890000-0000-7000-8000-00000000000a,', 3) || '01890000-0000-7000-8000-00000000000a',
    'a uuid is read in every form that PostgreSQL reads');
select is(array(select pawl_api._uuid(q::jsonb, 't') from unnest(array['{}', '{"t": null}', '[]', '"t"', '1']) q),
    array_fill(null::uuid, array[5]), 'a parameter that is missing is null');
select throws_ok(format('select pawl_api._uuid(%L, %L)', q, 't'), '22023', 't must be a uuid', q || ' is no uuid')
  from unnest(array['{"t": "01890000-0000-7000-8000-00000000000"}', '{"t": ""}', '{"t": 1}', '{"t": true}', '{"t": {}}',
    '{"t": " 01890000-0000-7000-8000-00000000000a"}', '{"t": "01890000-0000-7000-8000-00000000000a0"}']) q;
select lives_ok($$select pawl_api._need('pawl_api')$$, 'a pack that is here can be asked for');
select throws_ok($$select pawl_api._need('pawl_none')$$, '0A000', 'pawl_none is not installed in this database',
    'one that is not here cannot');
select * from finish();
