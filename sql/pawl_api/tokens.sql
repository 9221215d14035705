CREATE SCHEMA pawl_api;
COMMENT ON SCHEMA pawl_api IS 'the HTTP API of pawld: who may call it, and one function a route';

-- pawld logs in as this role and becomes, for the length of a request, the role of a token. It inherits nothing of the
-- roles that it may become. It belongs to the cluster and stays when the extension goes.
DO $roles$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = 'pawl_authenticator') THEN
        CREATE ROLE pawl_authenticator NOLOGIN NOINHERIT;
        COMMENT ON ROLE pawl_authenticator IS
        'pawl: the HTTP API logs in as it and becomes the role of a token; grant it the roles that tokens may have';
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;  -- another database of the cluster creates the extension at this moment
END
$roles$;

CREATE TABLE pawl_api.tokens (
    token uuid PRIMARY KEY DEFAULT pawl.uuid_v7(),
    kind text NOT NULL DEFAULT 'bearer' CHECK (kind = ANY ('{bearer,certificate}')),
    digest bytea NOT NULL UNIQUE CHECK (pg_catalog.length(digest) = 32),
    role name NOT NULL,
    person text NOT NULL CHECK (person <> ''),
    scopes text[] NOT NULL CHECK (scopes <@ '{read,operate}' AND scopes <> '{}'),
    note text,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    created_by name NOT NULL DEFAULT SESSION_USER,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz
);
COMMENT ON TABLE pawl_api.tokens IS
'who may call the HTTP API; written by pawl_api.create_token, pawl_api.accept_certificate and pawl_api.revoke_token';
COMMENT ON COLUMN pawl_api.tokens.digest IS
'SHA-256 of the token, or of the client certificate in DER; the token itself is nowhere';
COMMENT ON COLUMN pawl_api.tokens.role IS 'the role that requests run as; pawl_authenticator must be a member of it';
COMMENT ON COLUMN pawl_api.tokens.person IS 'who acts: pawl.processor of the request, so logs and audits name it';
COMMENT ON COLUMN pawl_api.tokens.scopes IS
'read: GET; operate: the rest too. The role decides what is allowed, the scope only narrows it';
COMMENT ON COLUMN pawl_api.tokens.last_used_at IS 'to the minute';
SELECT pg_catalog.pg_extension_config_dump('pawl_api.tokens', '');

CREATE TABLE pawl_api.answers (
    token uuid NOT NULL REFERENCES pawl_api.tokens ON DELETE CASCADE,
    key text NOT NULL CHECK (pg_catalog.length(key) BETWEEN 1 AND 255),
    route text NOT NULL,
    request bytea NOT NULL,
    answer jsonb,
    at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (token, key)
);
COMMENT ON TABLE pawl_api.answers IS
'idempotency keys of requests that were carried out, with what was answered; one transaction writes both';
COMMENT ON COLUMN pawl_api.answers.request IS 'SHA-256 of the arguments: the same key with another request is rejected';
CREATE INDEX answers_at ON pawl_api.answers (at);

CREATE FUNCTION pawl_api._token_role(role name, person text, scopes text[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one pg_roles;
BEGIN
    SELECT r.* INTO found_one FROM pg_roles r WHERE r.rolname = role;
    IF role IS NULL THEN
        PERFORM pawl.raise('22004', 'role must not be null');
    ELSIF NOT FOUND THEN
        PERFORM pawl.raise('42704', format('there is no role "%s"', role), NULL,
            format('create role %I nologin in role pawl_reader', role));
    ELSIF found_one.rolsuper THEN
        PERFORM pawl.raise('42501', format('role "%s" is a superuser', role),
            'A token cannot be issued for a superuser.', 'pawl_operator or pawl_reader');
    ELSIF NOT pg_has_role('pawl_authenticator', role, 'MEMBER') THEN
        PERFORM pawl.raise('42501', format('pawl_authenticator is not a member of role "%s"', role), NULL,
            format('grant %I to pawl_authenticator', role));
    ELSIF coalesce(person, '') = '' THEN
        PERFORM pawl.raise('22023', 'person must not be empty');
    ELSIF scopes IS NULL OR scopes = '{}' OR NOT scopes <@ '{read,operate}' THEN
        PERFORM pawl.raise('22023', 'scopes must be a list of read and operate', NULL, 'array[''read'', ''operate'']');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_api._token_role(name, text, text[]) IS
'internal: rejects invalid roles, persons and scopes of tokens (22004, 42704, 42501, 22023)';

-- A time that is further from now is not a timestamp.
CREATE FUNCTION pawl_api._expiry(valid interval) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF valid NOT BETWEEN interval '-100 years' AND interval '100 years' THEN
        PERFORM pawl.raise('22023', 'valid must be at most 100 years', format('It is %s.', valid),
            'valid => ''90 days'', or null until it is revoked');
    END IF;
    RETURN clock_timestamp() + valid;
END
$function$;
COMMENT ON FUNCTION pawl_api._expiry(interval) IS 'internal: when a token expires; null: it does not';

CREATE FUNCTION pawl_api.create_token(role name, person text, scopes text[] DEFAULT '{read}',
        valid interval DEFAULT NULL, note text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    -- two random uuids: 244 bits of the server's own strong random numbers
    secret text := 'pawl_'
        || rtrim(translate(encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'base64'), '+/',
            '-_'), '=');
BEGIN
    PERFORM pawl_api._token_role(role, person, scopes);
    INSERT INTO pawl_api.tokens (digest, role, person, scopes, expires_at, note)
    VALUES (sha256(convert_to(secret, 'SQL_ASCII')), role, person, scopes, pawl_api._expiry(valid), note);
    RETURN secret;
END
$function$;
COMMENT ON FUNCTION pawl_api.create_token(name, text, text[], interval, text) IS
'Creates a token for the HTTP API and returns it, this once.
role: the role of its requests. person: the name of its user. scopes: read, operate; default read. valid: how
long, to 100 years; default null: until revoked. note: a text; default null.
Errors: 22004 role is null; 42704 no such role; 42501 a superuser, or pawl_authenticator is not a member of the role;
22023 invalid person, scopes or valid. Privileges: pawl_admin.
Example: SELECT pawl_api.create_token(''pawl_reader'', ''Ada'')';

CREATE FUNCTION pawl_api.accept_certificate(fingerprint text, role name, person text, scopes text[] DEFAULT '{read}',
        valid interval DEFAULT NULL, note text DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    digits text := replace(lower(fingerprint), ':', '');
    made uuid;
BEGIN
    PERFORM pawl_api._token_role(role, person, scopes);
    IF digits IS NULL OR digits !~ '^[0-9a-f]{64}$' THEN
        PERFORM pawl.raise('22023', 'fingerprint must have 64 hexadecimal digits', NULL,
            'openssl x509 -noout -fingerprint -sha256 -in client.pem');
    END IF;
    INSERT INTO pawl_api.tokens (kind, digest, role, person, scopes, expires_at, note)
    VALUES ('certificate', decode(digits, 'hex'), role, person, scopes, pawl_api._expiry(valid), note)
    RETURNING token INTO made;
    RETURN made;
END
$function$;
COMMENT ON FUNCTION pawl_api.accept_certificate(text, name, text, text[], interval, text) IS
'Accepts a client certificate for the HTTP API, as pawl_api.create_token creates a token, and returns its id; pawld
must trust the authority that signed it.
fingerprint: SHA-256, 64 hexadecimal digits. role: the role of its requests. person: the name of its user. scopes:
read, operate; default read. valid: how long, to 100 years; default null: until revoked. note: a text; default null.
Errors: 23505 it is already accepted; 22023 an invalid fingerprint, person, scopes or valid;
22004 role is null; 42704 no such role;
42501 a superuser, or pawl_authenticator is not a member of the role. Privileges: pawl_admin.
Example: SELECT pawl_api.accept_certificate(repeat(''ab'', 32), ''pawl_reader'', ''Ada'')';

CREATE FUNCTION pawl_api.revoke_token(token uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    UPDATE pawl_api.tokens t SET revoked_at = clock_timestamp()
        WHERE t.token = revoke_token.token AND t.revoked_at IS NULL;
    RETURN FOUND;
END
$function$;
COMMENT ON FUNCTION pawl_api.revoke_token(uuid) IS
'Revokes a token or certificate from the next request on; false: no such token, or it was already revoked. token:
its id.
Errors: none. Privileges: pawl_admin. Example: SELECT
pawl_api.revoke_token(''01890000-0000-7000-8000-000000000001'')';

-- A revocation counts wherever it was made: a token that is revoked here stays so.
CREATE FUNCTION pawl_api.accept_tokens(tokens jsonb) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    given pawl_api.tokens;
    changed bigint := 0;
    written bigint;
BEGIN
    IF EXISTS (SELECT FROM jsonb_array_elements(CASE jsonb_typeof(tokens) WHEN 'array' THEN tokens ELSE '[0]' END) e
            WHERE jsonb_typeof(e) <> 'object') THEN
        PERFORM pawl.raise('22023', 'tokens must be a JSON array of objects', NULL,
            'select jsonb_agg(t) from pawl_api.tokens t');
    END IF;
    FOR given IN SELECT x.* FROM jsonb_populate_recordset(NULL::pawl_api.tokens, tokens) x ORDER BY x.token LOOP
        IF given.revoked_at IS NULL THEN
            PERFORM pawl_api._token_role(given.role, given.person, given.scopes);
        END IF;
        INSERT INTO pawl_api.tokens AS t (token, kind, digest, role, person, scopes, note, created_at, created_by,
            expires_at, revoked_at)
        VALUES (given.token, given.kind, given.digest, given.role, given.person, given.scopes, given.note,
            given.created_at, given.created_by, given.expires_at, given.revoked_at)
        ON CONFLICT (digest) DO UPDATE SET role = excluded.role, person = excluded.person, scopes = excluded.scopes,
            note = excluded.note, expires_at = excluded.expires_at,
            revoked_at = least(t.revoked_at, excluded.revoked_at)
         WHERE (t.role, t.person, t.scopes, t.note, t.expires_at, t.revoked_at) IS DISTINCT FROM
            (excluded.role, excluded.person, excluded.scopes, excluded.note, excluded.expires_at,
            least(t.revoked_at, excluded.revoked_at));
        GET DIAGNOSTICS written = ROW_COUNT;
        changed := changed + written;
    END LOOP;
    RETURN changed;
END
$function$;
COMMENT ON FUNCTION pawl_api.accept_tokens(jsonb) IS
'Accepts tokens and certificates of another database, with their revocations, so that they are valid in both; returns
how many were new or have changed. What is revoked here stays revoked. pawl databases tokens calls it.
tokens: an array of rows of pawl_api.tokens as objects.
Errors: 42704 no such role; 42501 a superuser, or pawl_authenticator is not a member of the role; 22023 not an array of
objects, invalid person or scopes; 23505 another token has this id. Privileges: pawl_admin.
Example: SELECT pawl_api.accept_tokens(''[]'')';
