-- Redaction: recorded values are replaced by salted digests, and pawl.redaction records that.

CREATE TABLE pawl.redaction (
    redaction uuid NOT NULL DEFAULT pawl.uuid_v7() PRIMARY KEY,
    relation regclass NOT NULL,
    state_column name NOT NULL,
    log regclass,
    key text[] NOT NULL,
    fields text[] NOT NULL,
    reason text NOT NULL,
    entries bigint NOT NULL,
    results bigint NOT NULL,
    events bigint NOT NULL,
    redacted_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    -- a name, not a regrole: a dump must load where that role does not exist
    redacted_by text NOT NULL
);
SELECT pg_catalog.pg_extension_config_dump('pawl.redaction', '');
COMMENT ON TABLE pawl.redaction IS 'what pawl.redact has replaced, and why; nothing in it can be changed';
COMMENT ON COLUMN pawl.redaction.log IS 'the log whose entries were changed; null: the table kept none';
COMMENT ON COLUMN pawl.redaction.entries IS
'entries of the log with a value that was replaced; results: of the audit; events: of the outbox';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON pawl.redaction
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.protect_record();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON pawl.redaction
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.protect_record();

-- For pawl.verify, which reads a table as its owner.
CREATE VIEW pawl._redactions WITH (security_barrier = true) AS
    SELECT x.log, x.key, x.fields FROM pawl.redaction x WHERE pawl._owns(x.log);
COMMENT ON VIEW pawl._redactions IS 'internal: what was redacted in the logs that you own';

-- A field as pawl.redaction has it, null where it is none: processor, correlation_id, metadata, metadata.<key>,
-- metadata and a JSON Pointer of two keys or more, or audit.<column>.
CREATE FUNCTION pawl._redact_field(field text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN field IN ('processor', 'correlation_id', 'metadata') OR field ^@ 'metadata.'
        OR field ^@ 'audit.' THEN field
                WHEN NOT field ^@ 'metadata/' OR field ~ '~([^01]|$)' THEN NULL
                WHEN strpos(substr(field, 10), '/') > 0 THEN field
                ELSE 'metadata.' || replace(replace(substr(field, 10), '~1', '/'), '~0', '~') END
$function$;
COMMENT ON FUNCTION pawl._redact_field(text) IS
'internal: the canonical form of a field that can be redacted; null: it cannot';

-- A member of metadata in which the fields are replaced. kept: the salts of the remaining fields.
CREATE FUNCTION pawl._redact_member(field text, pointer text, fields text[], salt bytea, salts jsonb, chained boolean,
    INOUT value jsonb, OUT kept jsonb, OUT changed boolean)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    inner_member record;
    redacted record;
BEGIN
    changed := false;
    kept := '{}';
    IF chained AND salt IS NULL AND NOT salts ? field THEN
        RETURN;  -- it was redacted before
    ELSIF field = ANY (fields) THEN
        changed := chained OR NOT coalesce(value #>> '{}' ~ '^redacted:[0-9a-f]{64}$', false);
        IF changed THEN
            value := to_jsonb('redacted:' || pawl._member_commitment(field, pointer, value, salt, salts));
        END IF;
        RETURN;
    ELSIF chained THEN
        kept := pawl._kept_salt(field, salt, salts);
    END IF;
    IF jsonb_typeof(value) = 'object' THEN
        FOR inner_member IN SELECT m.key, m.value, pawl._pointer(_redact_member.pointer, m.key) AS pointer
            FROM jsonb_each(value) m LOOP
            redacted := pawl._redact_member(inner_member.pointer, inner_member.pointer, fields, salt, salts, chained,
                inner_member.value);
            kept := kept || redacted.kept;
            IF redacted.changed THEN
                value := value || jsonb_build_object(inner_member.key, redacted.value);
                changed := true;
            END IF;
        END LOOP;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._redact_member(text, text, text[], bytea, jsonb, boolean, jsonb) IS
'internal: what a member of metadata becomes by pawl.redact';

CREATE FUNCTION pawl._kept_salt(field text, salt bytea, salts jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT jsonb_build_object(field,
        CASE WHEN salt IS NULL THEN salts ->> field ELSE encode(sha256(salt || convert_to(field, 'UTF8')), 'hex') END)
$function$;
COMMENT ON FUNCTION pawl._kept_salt(text, bytea, jsonb) IS
'internal: the salt of a field that remains when others are redacted';

-- The values of one entry in which the fields are replaced. chained: the salts are those of the entry, and show what
-- was replaced before.
CREATE FUNCTION pawl._redacted(fields text[], INOUT processor text, INOUT correlation_id text, INOUT metadata jsonb,
    INOUT salt bytea, INOUT salts jsonb, chained boolean, OUT changed boolean)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    is_object constant boolean := coalesce(jsonb_typeof(metadata) = 'object', false);
    targets constant text[] := fields || CASE WHEN is_object
        AND 'metadata' = ANY (fields) THEN ARRAY(SELECT 'metadata.' || k FROM jsonb_object_keys(metadata) k) END;
    kept jsonb := '{}';
    field text;
    value text;
    digest text;
    member record;
    redacted record;
BEGIN
    changed := false;
    FOREACH field IN ARRAY '{processor,correlation_id,metadata}'::text[] LOOP
        value := CASE field WHEN 'processor' THEN processor WHEN 'correlation_id' THEN correlation_id
            WHEN 'metadata' THEN CASE WHEN NOT is_object THEN metadata::text END END;
        CONTINUE WHEN value IS NULL OR chained AND salt IS NULL AND NOT salts ? field;
        IF field = ANY (fields) THEN
            CONTINUE WHEN NOT chained AND value ~ '^"?redacted:[0-9a-f]{64}"?$';
            digest := 'redacted:' || pawl._commitment(field, value, salt, salts);
            CASE field WHEN 'processor' THEN processor := digest;
                       WHEN 'correlation_id' THEN correlation_id := digest;
                       ELSE metadata := to_jsonb(digest); END CASE;
            changed := true;
        ELSIF chained THEN
            kept := kept || pawl._kept_salt(field, salt, salts);
        END IF;
    END LOOP;
    IF is_object THEN
        FOR member IN SELECT m.key, m.value FROM jsonb_each(metadata) m LOOP
            redacted := pawl._redact_member('metadata.' || member.key, pawl._pointer('metadata', member.key), targets,
                salt, salts, chained, member.value);
            kept := kept || redacted.kept;
            IF redacted.changed THEN
                metadata := metadata || jsonb_build_object(member.key, redacted.value);
                changed := true;
            END IF;
        END LOOP;
    END IF;
    IF changed AND chained THEN
        salt := NULL;
        salts := kept;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._redacted(text[], text, text, jsonb, bytea, jsonb, boolean) IS
'internal: what a log entry becomes by pawl.redact';

-- The fields of a chained entry that were redacted without a row in pawl.redaction.
CREATE FUNCTION pawl._unrecorded(processor text, correlation_id text, metadata jsonb, salts jsonb, recorded text[])
    RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH RECURSIVE part(field, pointer, value) AS (
        SELECT f.field, NULL, f.value
        FROM (VALUES ('processor', to_jsonb(processor)), ('correlation_id', to_jsonb(correlation_id)),
               ('metadata', CASE WHEN jsonb_typeof(metadata) <> 'object' THEN metadata END)) f(field, value)
        WHERE f.value IS NOT NULL
        UNION ALL
        SELECT 'metadata.' || m.key, pawl._pointer('metadata', m.key), m.value
          FROM jsonb_each(CASE WHEN jsonb_typeof(metadata) = 'object' THEN metadata ELSE '{}' END) m
        UNION ALL
        SELECT i.pointer, i.pointer, i.value
          FROM part p CROSS JOIN LATERAL (SELECT pawl._pointer(p.pointer, m.key) AS pointer, m.value
              FROM jsonb_each(CASE WHEN jsonb_typeof(p.value) = 'object'
            AND p.pointer IS NOT NULL THEN p.value ELSE '{}' END) m) i
         WHERE salts ? p.field)
    SELECT coalesce(array_agg(p.field ORDER BY p.field COLLATE "C"), '{}') FROM part p
     WHERE NOT salts ? p.field
       AND (p.field = ANY (recorded) OR p.field ^@ 'metadata.' AND 'metadata' = ANY (recorded)) IS NOT TRUE
$function$;
COMMENT ON FUNCTION pawl._unrecorded(text, text, jsonb, jsonb, text[]) IS
'internal: what was redacted in an entry of a hash chain by none of these fields';

-- How columns that an audit copies from the row are redacted, and where that changes something: a text becomes a
-- digest, other types have none and become null. Null: none of the fields is such a column.
CREATE FUNCTION pawl._redact_copies(a pawl.audit_binding, fields text[], OUT assignments text, OUT changed text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT format('(%s) = ROW(%s)', string_agg(quote_ident(x.attname), ', ' ORDER BY x.attnum),
               string_agg(CASE WHEN x.atttypid = 'text'::regtype THEN format(
                   'CASE WHEN l.%1$I ~ %2$L THEN l.%1$I '
                   'ELSE ''redacted:'' || pawl._commitment(%3$L, l.%1$I, uuid_send(gen_random_uuid()), NULL) END',
                   x.attname, '^redacted:[0-9a-f]{64}$', 'audit.' || x.attname) ELSE 'NULL' END, ', '
                   ORDER BY x.attnum)),
           string_agg(CASE
               WHEN x.atttypid = 'text'::regtype THEN format('l.%I !~ %L', x.attname, '^redacted:[0-9a-f]{64}$')
               ELSE format('l.%I IS NOT NULL', x.attname) END, ' OR ' ORDER BY x.attnum)
      FROM pg_attribute x
     WHERE x.attrelid = a.audit AND x.attname = ANY (a.audit_parent_columns) AND x.attname <> ALL (a.key_columns)
       AND NOT x.attisdropped AND 'audit.' || x.attname = ANY (fields)
    HAVING count(*) > 0
$function$;
COMMENT ON FUNCTION pawl._redact_copies(pawl.audit_binding, text[]) IS
'internal: how copied columns of an audit are redacted; null: there are none';

-- The statements of pawl.redact. find_row and find_entry return the place of the row and of one of its entries; key_at
-- and key_in the key at a place as the log entry has it. $1: the key; $2: the fields; $3 to $5: ids, processors and
-- correlation ids of the entries as they are in the log now.
CREATE FUNCTION pawl._redact_plan(relation oid, state_column name, fields text[], OUT log oid, OUT audit oid,
    OUT find_row text, OUT key_at text,
    OUT find_entry text, OUT key_in text, OUT redact_log text, OUT redact_results text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding;
    as_table pawl.binding;
    as_log pawl.binding;
    a pawl.audit_binding;
    copies record;
BEGIN
    SELECT b.* INTO bound FROM pawl.binding b
        WHERE b.relation = _redact_plan.relation AND b.state_column = _redact_plan.state_column;
    as_table := bound;
    as_table.history := bound.relation;
    as_table.log_key_columns := bound.key_columns;
    find_row := format('SELECT l.tableoid, l.ctid FROM %s l WHERE %s FOR NO KEY UPDATE', bound.relation,
        pawl._of_subject(as_table));
    key_at := format('SELECT %s FROM %s l WHERE l.tableoid = $1 AND l.ctid = $2',
        pawl._key_array('l', bound.key_columns), bound.relation);
    log := bound.history;
    IF log IS NULL THEN
        RETURN;
    END IF;
    find_entry := format('SELECT l.tableoid, l.ctid FROM %s l WHERE %s LIMIT 1', bound.history,
        pawl._of_subject(bound));
    key_in := format('SELECT %s FROM %s l WHERE l.tableoid = $1 AND l.ctid = $2',
        pawl._key_array('l', bound.log_key_columns), bound.history);
    redact_log := format($statement$
        WITH changed AS (
            UPDATE %1$s l SET processor = r.processor, correlation_id = r.correlation_id, metadata = r.metadata %2$s
              FROM (SELECT l.tableoid AS part, l.ctid AS place, r.*
                      FROM %1$s l
                      CROSS JOIN LATERAL pawl._redacted($2, l.processor, l.correlation_id, l.metadata, %3$s) r
                     WHERE %4$s AND r.changed) r
             WHERE l.tableoid = r.part AND l.ctid = r.place RETURNING l.id, l.processor, l.correlation_id, l.metadata),
        kept AS (
            SELECT c.id, c.processor, c.correlation_id FROM changed c
            UNION ALL
            SELECT l.id, l.processor, l.correlation_id
              FROM %1$s l WHERE %4$s AND NOT EXISTS (SELECT FROM changed c WHERE c.id = l.id))
        SELECT count(*), coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.processor), '{}'),
               coalesce(array_agg(c.correlation_id), '{}'), coalesce(array_agg(c.metadata), '{}'),
               ARRAY(SELECT k.id FROM kept k ORDER BY k.id), ARRAY(SELECT k.processor FROM kept k ORDER BY k.id),
               ARRAY(SELECT k.correlation_id FROM kept k ORDER BY k.id) FROM changed c$statement$,
        bound.history, CASE WHEN bound.hash_chain THEN ', salt = r.salt, salts = r.salts' END,
        CASE WHEN bound.hash_chain THEN 'l.salt, l.salts, true' ELSE 'uuid_send(gen_random_uuid()), NULL, false' END,
        pawl._of_subject(bound));
    SELECT b.* INTO a FROM pawl.audit_binding b JOIN pg_class c ON c.oid = b.audit WHERE b.log = bound.history;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    audit := a.audit;
    as_log := bound;
    as_log.history := a.audit;
    as_log.log_key_columns := a.key_columns;
    SELECT c.* INTO copies FROM pawl._redact_copies(a, fields) c;
    -- a result has the digests of its entry, and its own if that was pruned
    redact_results := format($statement$
        WITH changed AS (
            UPDATE %1$s l SET worker = r.processor, correlation_id = r.correlation_id %2$s
              FROM (SELECT l.tableoid AS part, l.ctid AS place, r.processor, r.correlation_id
                      FROM %1$s l LEFT JOIN unnest($3, $4, $5) e(id, processor, correlation_id)
                          ON e.id = l.transition_id
                      CROSS JOIN LATERAL pawl._redacted($2, CASE WHEN e.id IS NULL THEN l.worker ELSE e.processor END,
                          CASE WHEN e.id IS NULL THEN l.correlation_id ELSE e.correlation_id END, NULL,
                          uuid_send(gen_random_uuid()), NULL, false) r
                     WHERE %3$s AND ((l.worker, l.correlation_id) IS DISTINCT FROM (r.processor, r.correlation_id)
                         OR %4$s)) r
             WHERE l.tableoid = r.part AND l.ctid = r.place RETURNING 1)
        SELECT count(*) FROM changed$statement$, a.audit, ', ' || copies.assignments, pawl._of_subject(as_log),
        coalesce(copies.changed, 'false'));
END
$function$;
COMMENT ON FUNCTION pawl._redact_plan(oid, name, text[]) IS 'internal: the statements of pawl.redact';

CREATE FUNCTION pawl._redact(relation oid, state_column name, key text[], fields text[], reason text) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_redact';
COMMENT ON FUNCTION pawl._redact(oid, name, text[], text[], text) IS 'internal: see pawl.redact';

CREATE FUNCTION pawl._redact_by_key(relation regclass, key anycompatible, fields text[], reason text,
        state_column name) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    unknown text;
    named text[];
BEGIN
    PERFORM pawl._reject_distributed(bound.relation, 'pawl.redact');
    fields := pawl._check_list(fields, 'fields', '{metadata}');
    IF fields IS NULL OR array_position(fields, NULL) IS NOT NULL THEN
        PERFORM pawl.raise('22004', 'fields must not be null');
    ELSIF reason IS NULL THEN
        PERFORM pawl.raise('22004', 'reason must not be null');
    ELSIF btrim(reason) = '' THEN
        PERFORM pawl.raise('22023', 'reason must not be empty');
    ELSIF cardinality(fields) = 0 THEN
        PERFORM pawl.raise('22023', 'fields must not be empty');
    END IF;
    SELECT array_agg(pawl._redact_field(f.field) ORDER BY f.n),
        min(f.field) FILTER (WHERE pawl._redact_field(f.field) IS NULL
               OR f.field ^@ 'audit.' AND NOT EXISTS (SELECT FROM pawl.audit_binding a WHERE a.log = bound.history
                   AND substr(f.field, 7) = ANY (a.audit_parent_columns) AND substr(f.field, 7) <> ALL (a.key_columns)))
      INTO named, unknown FROM unnest(fields) WITH ORDINALITY f(field, n);
    IF unknown IS NOT NULL THEN
        PERFORM pawl.raise('22023', format('"%s" is not a field that can be redacted', unknown),
            'Fields are processor, correlation_id, metadata (all of it), metadata.<key> (one key of its top level), '
            'metadata/<key>/<key> (one below it, as a JSON Pointer), '
            'audit.<column> (a column that the audit copies from the row, and that is not of the key).');
    END IF;
    PERFORM pawl._check_isolation('pawl.redact');
    IF bound.history IS NULL AND NOT bound.events THEN
        PERFORM pawl.raise('55000', format('table %s has no log of column "%s"', bound.relation, bound.state_column));
    END IF;
    RETURN pawl._redact(bound.relation, bound.state_column, pawl._key_text(bound.relation, key, bound.state_column),
        named, reason);
END
$function$;
COMMENT ON FUNCTION pawl._redact_by_key(regclass, anycompatible, text[], text, name) IS
'internal: pawl.redact, for keys that are no array of records';

CREATE FUNCTION pawl.redact(relation regclass, key anycompatible, fields text[], reason text,
        state_column name DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
AS 'MODULE_PATHNAME', 'pawl_by_key';
COMMENT ON FUNCTION pawl.redact(regclass, anycompatible, text[], text, name) IS
'Replaces recorded values of one row by salted digests, in log, audit and outbox, and writes to pawl.redaction what
was replaced, when, why and by which role. The salts are not kept; a hash chain verifies before and after. Returns
how many log entries changed.
relation: the enforced table. key: a value, row(a, b) or an array of texts. fields: processor, correlation_id,
metadata (all of it), metadata.<key>, metadata/<key>/<key> (a JSON Pointer) or audit.<column> (a column that the
audit copies). reason: a text. state_column: null: the only bound column.
Errors: 22023 unknown field or no reason; 22004 null; 55000 no log; 42704 no binding;
42501 not the owner; 25001 not READ COMMITTED.
Privileges: pawl_admin that owns the table, its log and its audit.
Example: SELECT pawl.redact(''orders'', 1, ''{metadata.customer}'', ''request 17'')';
