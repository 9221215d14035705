-- Tokens and requests of the HTTP API, called as pawld calls them: which requests are accepted and as which role they
-- run; a key is answered once.
\set QUIET 1
set client_min_messages = warning;
select no_plan();
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
reset all;

begin;
select pawl_api.begin_request('bearer', digest_of(:'reading'), 'read') \g /dev/null
select current_user as role, current_setting('transaction_read_only') as only_reads,
    current_setting('pawl.processor') as person \gset
select said('create temporary table t ()') as temporary, said('insert into public.calls values (NULL)') as written \gset
commit;
select is(:'role'::text, 'api_request_operator', 'a request runs as the role of its token');
select is(:'person'::text, 'ada', 'and in the name of its person');
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
select * from finish();
