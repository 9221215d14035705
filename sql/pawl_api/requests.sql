-- How a request begins: with which token, as which role, with which scope. It is the
-- first statement of the request's transaction.

-- The token of a request is in the backend's memory, because any code that runs in the session could change a setting.
-- Only the owner may call this function.
CREATE FUNCTION pawl_api._noted_token() RETURNS uuid
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_api_noted_token';
COMMENT ON FUNCTION pawl_api._noted_token() IS
'internal: the token whose request this transaction is; null: it is none';

CREATE FUNCTION pawl_api._login(kind text, digest bytea, scope text) RETURNS name
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_api_login';
COMMENT ON FUNCTION pawl_api._login(text, bytea, text) IS
'internal: the role of a token, and stores its last use; 28000: unknown; 42501: it lacks the scope, or the session user
may not become the role';

CREATE FUNCTION pawl_api.begin_request(kind text, digest bytea, scope text, trace text DEFAULT NULL) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_api_begin_request';
COMMENT ON FUNCTION pawl_api.begin_request(text, bytea, text, text) IS
'Begins a request of the HTTP API and returns the role: until the end of the transaction the session acts as the
role and person of the token; with the scope read it is read-only.
kind: bearer or certificate. digest: the SHA-256 of the token or certificate. scope: read or operate. trace: a W3C
traceparent, optionally with its tracestate after a blank, or another text that becomes pawl.correlation_id; default
null.
Errors: 28000 no such token; 42501 it lacks the scope, or pawl_authenticator is not a member of the role; 22004 scope
is null.
Privileges: pawl_admin, pawl_authenticator.
Example: SELECT pawl_api.begin_request(''bearer'', sha256(''secret''), ''read'')';

CREATE FUNCTION pawl_api._token_of_request() RETURNS uuid
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    token constant uuid := pawl_api._noted_token();
BEGIN
    IF token IS NULL THEN
        PERFORM pawl.raise('42501', 'idempotency keys belong to requests of the HTTP API',
            format('Role "%s" has begun no request in this session.', session_user));
    END IF;
    RETURN token;
END
$function$;
COMMENT ON FUNCTION pawl_api._token_of_request() IS
'internal: the token of the request that this transaction is; 42501: it is none';

CREATE FUNCTION pawl_api._stored_answer(key text, route text, request bytea) RETURNS pawl_api.answers
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    first pawl_api.answers;
BEGIN
    SELECT a.* INTO first FROM pawl_api.answers a
        WHERE a.token = pawl_api._token_of_request() AND a.key = _stored_answer.key;
    IF first.route <> _stored_answer.route OR first.request <> _stored_answer.request THEN
        PERFORM pawl.raise('23514', 'the idempotency key belongs to another request',
            format('It was used at %s for %s.', first.at, first.route));
    END IF;
    RETURN first;
END
$function$;
COMMENT ON FUNCTION pawl_api._stored_answer(text, text, bytea) IS
'internal: the stored answer of a key; null: none; 23514: the key of another request; 42501: no request';

-- The first answer of a key, if the request is the same. A request that comes while it is
-- being carried out waits for it.
CREATE FUNCTION pawl_api._first_answer(key text, route text, request bytea) RETURNS pawl_api.answers
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    mine uuid := pawl_api._token_of_request();
BEGIN
    IF length(key) NOT BETWEEN 1 AND 255 THEN
        PERFORM pawl.raise('22023', 'an idempotency key has 1 to 255 characters');
    END IF;
    INSERT INTO pawl_api.answers (token, key, route, request)
        VALUES (mine, _first_answer.key, _first_answer.route, _first_answer.request) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    RETURN pawl_api._stored_answer(key, route, request);
END
$function$;
COMMENT ON FUNCTION pawl_api._first_answer(text, text, bytea) IS
'internal: the stored answer of a key; null: a new key; 23514: the key of another request; 42501: no request';

CREATE FUNCTION pawl_api._keep_answer(key text, answer jsonb) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    UPDATE pawl_api.answers a SET answer = _keep_answer.answer
        WHERE a.token = pawl_api._token_of_request() AND a.key = _keep_answer.key
$function$;
COMMENT ON FUNCTION pawl_api._keep_answer(text, jsonb) IS
'internal: stores the answer of a key; 42501: this session has begun no request';

CREATE FUNCTION pawl_api._digest(arguments jsonb, body jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN
pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.jsonb_build_array(arguments, body)::pg_catalog.text, 'UTF8'));
COMMENT ON FUNCTION pawl_api._digest(jsonb, jsonb) IS 'internal: by which a repeated request is recognized';

CREATE FUNCTION pawl_api.once(key text, route text, arguments jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
DECLARE
    first pawl_api.answers;
    answer pg_catalog.jsonb;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_proc p
                    WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pawl_api'::pg_catalog.regnamespace
                        AND p.proname OPERATOR(pg_catalog.=) route
                      AND pg_catalog.oidvectortypes(p.proargtypes) OPERATOR(pg_catalog.=) 'jsonb, jsonb') THEN
        PERFORM pawl.raise('42883', pg_catalog.format('there is no route "%s"', route));
    END IF;
    SELECT * INTO first FROM pawl_api._first_answer(key, route, pawl_api._digest(arguments, body));
    IF first.key IS NOT NULL THEN
        RETURN first.answer;
    END IF;
    EXECUTE pg_catalog.format('SELECT pawl_api.%I($1, $2)', route) INTO answer USING arguments, body;
    PERFORM pawl_api._keep_answer(key, answer);
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_api.once(text, text, jsonb, jsonb) IS
'Calls a route once for a key of the token; the next calls return the answer of the first. A request that fails
leaves no key.
key: 1 to 255 characters. route: the name of a function with a body. arguments: its q. body: its body.
Errors: 42883 no such route; 23514 the key was used for another request; 22023 an invalid key; 42501 the session has
begun no request; those of the route. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl_api.once(''key 1'', ''start_task'', ''{}'', ''{"name": "invoice"}'')';

CREATE FUNCTION pawl_api.prune_answers(older_than interval DEFAULT '1 day', batch integer DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    removed bigint;
BEGIN
    PERFORM pawl.check_batch(batch, 100000);
    DELETE FROM pawl_api.answers a WHERE (a.token, a.key) IN (
        SELECT x.token, x.key FROM pawl_api.answers x WHERE x.at < clock_timestamp() - older_than
        ORDER BY x.at LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$function$;
COMMENT ON FUNCTION pawl_api.prune_answers(interval, integer) IS
'Deletes old idempotency keys and returns how many. A duty of pawld.
older_than: default 1 day. batch: how many at most, 1 to 100000; default 1000.
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl_api.prune_answers(''1 day'')';
