-- Redaction: values of the record are replaced by salted digests, and that they were is on the record, too.

CREATE TABLE pawl.redaction (
    redaction uuid NOT NULL DEFAULT pawl.uuid_v7() PRIMARY KEY,
    relation regclass NOT NULL,
    state_column name NOT NULL,
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
COMMENT ON COLUMN pawl.redaction.entries IS 'entries of the log with a value that was replaced; results: of the audit; events: of the outbox';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON pawl.redaction FOR EACH STATEMENT EXECUTE FUNCTION pawl.record_guard();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON pawl.redaction FOR EACH STATEMENT EXECUTE FUNCTION pawl.record_guard();

-- The values of one entry with those of the fields replaced. chained: the salts are those of the entry, and say which were replaced before.
CREATE FUNCTION pawl._redacted(fields text[], INOUT processor text, INOUT correlation_id text, INOUT metadata jsonb, INOUT salt bytea,
    INOUT salts jsonb, chained boolean, OUT changed boolean)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    present text[] := array_remove(ARRAY[CASE WHEN processor IS NOT NULL THEN 'processor' END, CASE WHEN correlation_id IS NOT NULL THEN 'correlation_id' END], NULL)
        || CASE WHEN metadata IS NULL THEN '{}'::text[]
                WHEN jsonb_typeof(metadata) = 'object' THEN ARRAY(SELECT 'metadata.' || k FROM jsonb_object_keys(metadata) k)
                ELSE ARRAY['metadata'] END;
    kept jsonb := '{}';
    field text;
    value text;
    digest text;
BEGIN
    changed := false;
    FOREACH field IN ARRAY present LOOP
        CONTINUE WHEN chained AND salt IS NULL AND NOT salts ? field;
        value := CASE field WHEN 'processor' THEN processor WHEN 'correlation_id' THEN correlation_id WHEN 'metadata' THEN metadata::text
                            ELSE (metadata -> substr(field, 10))::text END;
        IF field = ANY (fields) OR field ^@ 'metadata.' AND 'metadata' = ANY (fields) THEN
            CONTINUE WHEN NOT chained AND value ~ '^"?redacted:[0-9a-f]{64}"?$';
            digest := 'redacted:' || pawl._commitment(field, value, salt, salts);
            IF field = 'processor' THEN
                processor := digest;
            ELSIF field = 'correlation_id' THEN
                correlation_id := digest;
            ELSIF field = 'metadata' THEN
                metadata := to_jsonb(digest);
            ELSE
                metadata := jsonb_set(metadata, ARRAY[substr(field, 10)], to_jsonb(digest));
            END IF;
            changed := true;
        ELSIF chained THEN
            kept := kept || jsonb_build_object(field, encode(CASE WHEN salt IS NULL THEN decode(salts ->> field, 'hex')
                                                                  ELSE sha256(salt || convert_to(field, 'UTF8')) END, 'hex'));
        END IF;
    END LOOP;
    IF changed AND chained THEN
        salt := NULL;
        salts := kept;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._redacted(text[], text, text, jsonb, bytea, jsonb, boolean) IS 'internal: what an entry of the record becomes by pawl.redact';

-- The statements of pawl.redact. $1: the key; $2: the fields; $3 to $5: ids, processors and correlation ids of the entries that were changed.
CREATE FUNCTION pawl._redact_plan(relation oid, state_column name, OUT log oid, OUT audit oid, OUT find_row text, OUT redact_log text,
    OUT redact_results text, OUT redact_rest text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    bound pawl.binding;
    as_table pawl.binding;
    as_log pawl.binding;
    a pawl.audit_binding;
BEGIN
    SELECT b.* INTO bound FROM pawl.binding b WHERE b.relation = _redact_plan.relation AND b.state_column = _redact_plan.state_column;
    as_table := bound;
    as_table.history := bound.relation;
    as_table.log_key_columns := bound.key_columns;
    find_row := format('SELECT %s FROM %s l WHERE %s FOR NO KEY UPDATE', pawl._key_array('l', bound.key_columns), bound.relation, pawl._of_subject(as_table));
    log := bound.history;
    IF log IS NULL THEN
        RETURN;
    END IF;
    redact_log := format($statement$
        WITH changed AS (
            UPDATE %1$s l SET processor = r.processor, correlation_id = r.correlation_id, metadata = r.metadata %2$s
              FROM (SELECT l.tableoid AS part, l.ctid AS place, r.*
                      FROM %1$s l CROSS JOIN LATERAL pawl._redacted($2, l.processor, l.correlation_id, l.metadata, %3$s) r
                     WHERE %4$s AND r.changed) r
             WHERE l.tableoid = r.part AND l.ctid = r.place RETURNING l.id, l.processor, l.correlation_id, l.metadata)
        SELECT count(*), coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.processor), '{}'), coalesce(array_agg(c.correlation_id), '{}'),
               coalesce(array_agg(c.metadata), '{}') FROM changed c$statement$,
        bound.history, CASE WHEN bound.hash_chain THEN ', salt = r.salt, salts = r.salts' END,
        CASE WHEN bound.hash_chain THEN 'l.salt, l.salts, true' ELSE 'uuid_send(gen_random_uuid()), NULL, false' END, pawl._of_subject(bound));
    SELECT b.* INTO a FROM pawl.audit_binding b JOIN pg_class c ON c.oid = b.audit WHERE b.log = bound.history;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    audit := a.audit;
    as_log := bound;
    as_log.history := a.audit;
    as_log.log_key_columns := a.key_columns;
    redact_results := format($statement$
        WITH changed AS (
            UPDATE %s l SET worker = r.processor, correlation_id = r.correlation_id
              FROM unnest($3, $4, $5) r(id, processor, correlation_id)
             WHERE %s AND l.transition_id = r.id AND (l.worker, l.correlation_id) IS DISTINCT FROM (r.processor, r.correlation_id) RETURNING 1)
        SELECT count(*) FROM changed$statement$, a.audit, pawl._of_subject(as_log));
    -- of entries that were pruned
    redact_rest := format($statement$
        WITH changed AS (
            UPDATE %1$s l SET worker = r.processor, correlation_id = r.correlation_id
              FROM (SELECT l.tableoid AS part, l.ctid AS place, r.*
                      FROM %1$s l CROSS JOIN LATERAL pawl._redacted($2, l.worker, l.correlation_id, NULL, uuid_send(gen_random_uuid()), NULL, false) r
                     WHERE %2$s AND r.changed) r
             WHERE l.tableoid = r.part AND l.ctid = r.place RETURNING 1)
        SELECT count(*) FROM changed$statement$, a.audit, pawl._of_subject(as_log));
END
$function$;
COMMENT ON FUNCTION pawl._redact_plan(oid, name) IS 'internal: the statements of pawl.redact';

CREATE FUNCTION pawl._redact(relation oid, state_column name, key text[], fields text[], reason text) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_redact';
COMMENT ON FUNCTION pawl._redact(oid, name, text[], text[], text) IS 'internal: see pawl.redact';

CREATE FUNCTION pawl.redact(relation regclass, key anycompatible, fields text[], reason text, state_column name DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    unknown text;
BEGIN
    IF fields IS NULL OR array_position(fields, NULL) IS NOT NULL THEN
        PERFORM pawl._raise('22004', 'fields must not be null');
    ELSIF reason IS NULL THEN
        PERFORM pawl._raise('22004', 'reason must not be null');
    ELSIF btrim(reason) = '' THEN
        PERFORM pawl._raise('22023', 'reason must not be empty');
    ELSIF cardinality(fields) = 0 THEN
        PERFORM pawl._raise('22023', 'fields must not be empty');
    END IF;
    SELECT f INTO unknown FROM unnest(fields) f WHERE f NOT IN ('processor', 'correlation_id', 'metadata') AND NOT f ^@ 'metadata.' LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('22023', format('"%s" is no field that can be redacted', unknown),
            'These can: processor, correlation_id, metadata (all of it), metadata.<key> (one key of its top level).');
    END IF;
    PERFORM pawl._check_isolation('pawl.redact');
    IF bound.history IS NULL AND NOT bound.events THEN
        PERFORM pawl._raise('55000', format('table %s keeps no record of column "%s"', bound.relation, bound.state_column));
    ELSIF bound.hash_chain AND NOT pawl._is_salted(bound.history) THEN
        PERFORM pawl._raise('55000', format('the hash chain of %s has no salts', bound.history),
            'It was begun in version 0.0.1, and covers the values themselves.',
            format('begin another log: select pawl.enable_log(%L, %L, log_name => ...)', bound.relation, bound.state_column));
    END IF;
    RETURN pawl._redact(bound.relation, bound.state_column, pawl._key_text(bound.relation, key, bound.state_column), fields, reason);
END
$function$;
COMMENT ON FUNCTION pawl.redact(regclass, anycompatible, text[], text, name) IS
'replaces values that the record has of one row by salted digests, in log, audit and outbox, and keeps in pawl.redaction what was replaced, when, by whom and why. fields: processor, correlation_id, metadata (all of it) or metadata.<key>. The salts are thrown away; a hash chain verifies before and after. Returns how many log entries changed. For members of pawl_admin who own the table, its log and its audit, and superusers. 42501: neither; 22023: no such field, or no reason; 22004: a null; 25001: not READ COMMITTED; 55000: no record, or a hash chain without salts. Example: SELECT pawl.redact(''parcels'', 1, ''{metadata.customer}'', ''request 17'')';
