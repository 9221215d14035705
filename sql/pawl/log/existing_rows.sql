-- Entries for rows that exist when a log begins, and for rows that were deleted while it was closed.

-- A query of the ends of logs: the newest entries (alias l) under a condition, and the anchors of subjects whose whole
-- log was pruned.
CREATE FUNCTION pawl._log_ends(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    anchors regclass := pawl._anchors(bound.history);
    keys text := pawl._columns('', bound.log_key_columns);
    hash text := CASE WHEN bound.hash_chain THEN 'hash' ELSE 'NULL::bytea AS hash' END;
    newest text := format('(SELECT DISTINCT ON (%1$s) %1$s, sort_key, to_state, created_at, %2$s FROM %3$s ORDER BY '
        '%1$s, sort_key DESC)', keys, hash, bound.history);
BEGIN
    RETURN CASE WHEN anchors IS NULL THEN newest ELSE
        format('(SELECT * FROM %s n UNION ALL SELECT %s, a.sort_key, a.to_state, a.created_at, a.hash FROM %s a WHERE '
            'a.whole AND NOT EXISTS (SELECT FROM %s l WHERE %s))',
               newest, pawl._columns('a.', pawl._anchor_keys(bound, anchors)), anchors, bound.history,
               pawl._same_key('l', bound.log_key_columns, 'a', pawl._anchor_keys(bound, anchors), bound.history)) END;
END
$function$;
COMMENT ON FUNCTION pawl._log_ends(pawl.binding) IS 'internal: a query for the last entry of each subject';

CREATE FUNCTION pawl._anchors(log regclass) RETURNS regclass
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT p.anchors FROM pawl.pruned_log p JOIN pg_class c ON c.oid = p.anchors WHERE p.log = _anchors.log);
END
$function$;
COMMENT ON FUNCTION pawl._anchors(regclass) IS 'internal: the table of anchors of a log; null if it was never pruned';

-- The columns and values of a log row, as the two lists of an INSERT. Settings of the
-- session apply as to all state changes.
CREATE FUNCTION pawl._log_row(bound pawl.binding, keys text, key_array text, from_state text, to_state text, event text,
    OUT columns text, OUT expressions text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    processor text := $$nullif(current_setting('pawl.processor', true), '')$$;
    correlation_id text := $$nullif(current_setting('pawl.correlation_id', true), '')$$;
BEGIN
    columns := 'id, ' || pawl._columns('', bound.log_key_columns)
        || ', sort_key, from_state, to_state, event, processor, actor, correlation_id, machine_version, created_at'
        || CASE WHEN bound.most_recent = 'stored' THEN ', most_recent' ELSE '' END
        || CASE WHEN bound.hash_chain THEN ', hash, salt' ELSE '' END;
    expressions :=
        format('pawl.uuid_v7(n.created_at), %s, n.sort_key, %s, %s, %L, %s, current_user, %s, $1, n.created_at',
                          keys, from_state, to_state, event, processor, correlation_id)
        || CASE WHEN bound.most_recent = 'stored' THEN ', true' ELSE '' END
        || CASE WHEN bound.hash_chain
                THEN format(', pawl._log_hash(o.hash, pawl._log_content(%1$s, n.sort_key, %2$s, %3$s, %4$L, '
                'pawl._commitment(''processor'', %5$s, n.salt, NULL), '
                            'current_user, pawl._commitment(''correlation_id'', %6$s, n.salt, NULL), NULL, $1, '
                            'n.created_at)), n.salt',
                            key_array, from_state, to_state, event, processor, correlation_id)
                ELSE '' END;
END
$function$;
COMMENT ON FUNCTION pawl._log_row(pawl.binding, text, text, text, text, text) IS
'internal: the columns and values of a log row that SQL writes';

-- The newest entry of a row (alias r), as a query: sort_key, to_state, created_at, and hash if there is a chain.
CREATE FUNCTION pawl._newest_of_row(bound pawl.binding) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    newest text :=
        format('SELECT l.sort_key, l.to_state, l.created_at%s FROM %s l WHERE %s ORDER BY l.sort_key DESC LIMIT 1',
                          CASE WHEN bound.hash_chain THEN ', l.hash' END, bound.history,
                          pawl._same_key('l', bound.log_key_columns, 'r', bound.key_columns, bound.history));
    anchors regclass := pawl._anchors(bound.history);
BEGIN
    IF anchors IS NULL THEN
        RETURN newest;
    END IF;
    -- of some subjects nothing but the end is known
    RETURN format('SELECT * FROM ((%s) UNION ALL SELECT a.sort_key, a.to_state, a.created_at%s FROM %s a WHERE '
        'a.whole AND %s) o ORDER BY sort_key DESC LIMIT 1',
                  newest, CASE WHEN bound.hash_chain THEN ', a.hash' END, anchors,
                  pawl._same_key('a', pawl._anchor_keys(bound, anchors), 'r', bound.key_columns, anchors));
END
$function$;
COMMENT ON FUNCTION pawl._newest_of_row(pawl.binding) IS 'internal: a query for the newest log entry of a row';

-- Rows without entries begin their log with pawl.attach; a newest entry that contradicts its row is an error. Source is
-- the tree, or `ONLY` one new member of it.
CREATE FUNCTION pawl._attach_rows(bound pawl.binding, source text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
DECLARE
    same text := pawl._same_key('l', bound.log_key_columns, 'r', bound.key_columns, bound.history);
    newest text := pawl._newest_of_row(bound);
    anchors regclass := pawl._anchors(bound.history);
    row_text record :=
        pawl._log_row(bound, pawl._columns('r.', bound.key_columns), pawl._key_array('r', bound.key_columns),
                                     'NULL', format('pawl.value_text(r.%I)', bound.state_column), 'pawl.attach');
    used boolean;
    wrong bigint;
    example text;
BEGIN
    IF pawl._is_distributed(bound.history) THEN
        PERFORM pawl._attach_distributed_rows(bound, row_text.columns, row_text.expressions);
        RETURN;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', bound.history) INTO used;
    used := used OR anchors IS NOT NULL;
    IF used THEN
        EXECUTE format(
            'SELECT count(*), min(format($$row %%s is in "%%s", its log ends with "%%s"$$, %s, r.%I, o.to_state)) '
                       'FROM %s r CROSS JOIN LATERAL (%s) o WHERE o.to_state COLLATE "C" <> pawl.value_text(r.%I)',
                       pawl._key_label('r', bound.key_columns), bound.state_column, source, newest, bound.state_column)
           INTO wrong, example;
        IF wrong > 0 THEN
            PERFORM pawl.raise('55000',
                format('the log %s does not match the rows of table %s', bound.history, bound.relation),
                format('%s: %s.', CASE wrong WHEN 1 THEN '1 row differs' ELSE wrong || ' rows differ' END, example),
                'change these rows to the state in which their log ends'
                || CASE WHEN source ^@ 'ONLY ' THEN '' ELSE ', or begin a new log: log_name => ...' END);
        END IF;
        IF bound.most_recent = 'stored' THEN
            EXECUTE format(
                'UPDATE %s l SET most_recent = false FROM %s r WHERE l.most_recent AND l.to_state IS NULL AND %s',
                           bound.history, source, same);
        END IF;
    END IF;
    EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM %s r LEFT JOIN LATERAL (%s) o ON true '
                   'CROSS JOIN LATERAL (SELECT coalesce(o.sort_key, 0) + 1 AS sort_key, greatest($2, o.created_at) AS '
                   'created_at, uuid_send(gen_random_uuid()) AS salt) n '
                   'WHERE o.to_state IS NULL', bound.history, row_text.columns, row_text.expressions, source, newest)
      USING bound.version, clock_timestamp();
EXCEPTION WHEN unique_violation THEN
    PERFORM pawl.raise('23505', format('the key (%s) does not identify one row of table %s',
                                        array_to_string(bound.key_columns, ', '), bound.relation),
        SQLERRM, 'name columns that do: key => array[...]');
END
$function$;
COMMENT ON FUNCTION pawl._attach_rows(pawl.binding, text) IS 'internal: writes the first log rows of existing rows';

-- The same for a new log of a distributed table. Citus cannot join each row with a query of its own, which the entries
-- of a new log do not need.
CREATE FUNCTION pawl._attach_distributed_rows(bound pawl.binding, columns text, expressions text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    expressions := replace(replace(replace(replace(expressions, 'n.sort_key', '1'), 'n.created_at', '$2'),
        'n.salt', 'r."pawl~salt"'), 'o.hash', 'NULL::bytea');
    EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM (SELECT x.*, uuid_send(gen_random_uuid()) AS "pawl~salt" '
                   'FROM %s x) r', bound.history, columns, expressions, bound.relation)
      USING bound.version, clock_timestamp();
END
$function$;
COMMENT ON FUNCTION pawl._attach_distributed_rows(pawl.binding, text, text) IS
'internal: writes the first log rows of the rows of a distributed table';

-- Rows that were deleted while the log was closed end with pawl.delete, so that they can be inserted again.
CREATE FUNCTION pawl._close_missing(bound pawl.binding) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $function$
DECLARE
    no_row text := format('NOT EXISTS (SELECT FROM %s r WHERE %s)', bound.relation,
                          pawl._same_key('r', bound.key_columns, 'o', bound.log_key_columns, bound.relation));
    row_text record :=
        pawl._log_row(bound, pawl._columns('o.', bound.log_key_columns), pawl._key_array('o', bound.log_key_columns),
                                     'o.to_state', 'NULL', 'pawl.delete');
BEGIN
    IF bound.most_recent = 'stored' THEN
        EXECUTE format('UPDATE %s o SET most_recent = false WHERE o.most_recent AND o.to_state IS NOT NULL AND %s',
            bound.history, no_row);
    END IF;
    EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM %5$s o '
                   'CROSS JOIN LATERAL (SELECT o.sort_key + 1 AS sort_key, greatest($2, o.created_at) AS created_at, '
                   'uuid_send(gen_random_uuid()) AS salt) n '
                   'WHERE o.to_state IS NOT NULL AND %4$s', bound.history, row_text.columns, row_text.expressions,
                       no_row, pawl._log_ends(bound))
      USING bound.version, clock_timestamp();
END
$function$;
COMMENT ON FUNCTION pawl._close_missing(pawl.binding) IS 'internal: ends the logs of rows that no longer exist';
