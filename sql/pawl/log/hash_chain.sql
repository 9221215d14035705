-- The hash chain of a log: what the hash of an entry covers, and how it is computed.

-- The text that a row's hash is made of, after its predecessor's hash: a JSON array in one line,
--   [key..., sort_key, from_state, to_state, event, processor, actor, correlation_id, metadata, machine_version,
--   created_at] and, if pawl.place has made the entry, the reason as a last element; its elements separated by a comma
--   and a space, nothing else between or around them. Each key value is
--   an element of its own. Key values and texts are JSON strings as to_json(text) prints them: in double quotes; \" \\
--   \b \f \n \r \t for these seven, \u00xx (lower case) for the other characters below U+0020, every other character as
--   it is, also / and what is not ASCII. NULL is null. sort_key and machine_version are plain decimal integers.
--   metadata is a JSON string that holds the output of jsonb. created_at is an integer: microseconds since 1970-01-01
--   00:00:00 UTC. Key values are in the form of their type's output function under datestyle 'ISO, YMD', intervalstyle
--   'postgres', timezone UTC, extra_float_digits 1, bytea_output hex, whatever the session has set. Its names are bound
--   when it is created; a search_path of its own would double what a call costs.
CREATE FUNCTION pawl._log_content(key text[], sort_key integer, from_state text, to_state text, event text,
    processor text,
    actor text, correlation_id text, metadata jsonb, machine_version integer, created_at timestamptz,
    placed text DEFAULT NULL) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN '[' || array_to_string(
    CASE WHEN cardinality(key) = 1 THEN ARRAY[to_json(key[1])::text]
         ELSE ARRAY(SELECT to_json(k.value)::text FROM unnest(key) WITH ORDINALITY k(value, n) ORDER BY k.n) END
    || ARRAY[sort_key::text, to_json(from_state)::text, to_json(to_state)::text, to_json(event)::text,
             to_json(processor)::text, to_json(actor)::text, to_json(correlation_id)::text,
             to_json(metadata::text)::text, machine_version::text,
             (extract(epoch FROM created_at) * 1000000)::bigint::text]
    || CASE WHEN placed IS NOT NULL THEN ARRAY[to_json(placed)::text] END,
    ', ', 'null') || ']';
COMMENT ON FUNCTION pawl._log_content(text[], integer, text, text, text, text, text, text, jsonb, integer,
    timestamptz, text) IS
'internal: the text of a log row that its hash is made of';

-- In place of processor, correlation_id and metadata the text has their commitments, sha256(sha256(salt || field) ||
-- value) in hexadecimal digits, so that a value can be taken away and the chain still holds; of an object, one for each
-- member, and below the top level the value of an object is the text of the commitments of its members. The salt is 16
-- random bytes. Where pawl.redact took values away the row keeps, instead of the salt, the sha256(salt || field) of
-- those that are left.
CREATE FUNCTION pawl._commitment(field text, value text, salt bytea, salts jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN CASE WHEN value IS NULL THEN NULL
            WHEN salt IS NULL
                AND NOT salts ? field THEN CASE WHEN value ^@ 'redacted:' THEN substr(value, 10) ELSE '' END
            ELSE encode(sha256(CASE WHEN salt IS NOT NULL THEN sha256(salt || convert_to(field, 'UTF8'))
                ELSE decode(salts ->> field, 'hex') END
                               || convert_to(value, 'UTF8')), 'hex') END;
COMMENT ON FUNCTION pawl._commitment(text, text, bytea, jsonb) IS
'internal: what a hash chain covers of a value that can be redacted';

-- A member of metadata is the field metadata.<key>, one below it metadata and its JSON Pointer (RFC 6901):
-- metadata/customer/email. No key makes two the same.
CREATE FUNCTION pawl._pointer(parent text, key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN parent || '/' || replace(replace(key, '~', '~0'), '/', '~1');
COMMENT ON FUNCTION pawl._pointer(text, text) IS 'internal: the JSON Pointer of a member';

-- field: of the member; pointer: its JSON Pointer.
CREATE FUNCTION pawl._member_commitment(field text, pointer text, value jsonb, salt bytea, salts jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF salt IS NULL AND NOT salts ? field THEN
        RETURN pawl._commitment(field, value #>> '{}', salt, salts);
    ELSIF jsonb_typeof(value) = 'object' THEN
        RETURN pawl._commitment(field, (SELECT coalesce(jsonb_object_agg(m.key,
                pawl._member_commitment(m.pointer, m.pointer, m.value, salt, salts)), '{}')::text
            FROM (SELECT j.key, j.value, pawl._pointer(_member_commitment.pointer, j.key) AS pointer
                FROM jsonb_each(value) j OFFSET 0) m), salt, salts);
    END IF;
    RETURN pawl._commitment(field, value::text, salt, salts);
END
$function$;
COMMENT ON FUNCTION pawl._member_commitment(text, text, jsonb, bytea, jsonb) IS
'internal: what a hash chain covers of a member of metadata';

CREATE FUNCTION pawl._metadata_commitment(metadata jsonb, salt bytea, salts jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN CASE WHEN metadata IS NULL THEN NULL
            WHEN jsonb_typeof(metadata) = 'object' THEN
                 (SELECT coalesce(jsonb_object_agg(m.key, CASE
                             WHEN jsonb_typeof(m.value) = 'object' THEN
                                  pawl._member_commitment('metadata.' || m.key, pawl._pointer('metadata', m.key),
                                      m.value, salt, salts)
                             ELSE pawl._commitment('metadata.' || m.key,
                                  CASE WHEN salt IS NULL
                             AND NOT salts ? ('metadata.' || m.key) THEN m.value #>> '{}' ELSE m.value::text END,
                         salt, salts) END), '{}')
                    FROM jsonb_each(metadata) m)
            ELSE to_jsonb(pawl._commitment('metadata',
        CASE WHEN salt IS NULL AND NOT salts ? 'metadata' THEN metadata #>> '{}' ELSE metadata::text END, salt, salts))
    END;
COMMENT ON FUNCTION pawl._metadata_commitment(jsonb, bytea, jsonb) IS 'internal: what a hash chain covers of metadata';

CREATE FUNCTION pawl._log_hash(previous bytea, content text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN pg_catalog.sha256(COALESCE(previous, ''::pg_catalog.bytea)
                         OPERATOR(pg_catalog.||) pg_catalog.convert_to(content, 'UTF8'));
COMMENT ON FUNCTION pawl._log_hash(bytea, text) IS
'internal: the hash of a log row; the first row of a subject has nothing before it';
