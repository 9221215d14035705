-- Owned work in a binding: which columns of the table are managed, by which events rows are claimed, given back and
-- retried; and what is wrong with these.

-- The claim order, in the notation of ORDER BY.
CREATE FUNCTION pawl._claim_order(claim_order text, OUT names name[], OUT descending boolean[])
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    -- a quoted name or a plain one (ASCII letters, _ and all that is not ASCII; then also
    -- digits and $), ASC or DESC, NULLS ...
    item constant text := E'^\\s*("(?:[^"]|"")+"|[^\\u0001-\\u0040\\u005b-\\u005e\\u0060\\u007b-\\u007f]'
                          '[^\\u0001-\\u0023\\u0025-\\u002f\\u003a-\\u0040\\u005b-\\u005e\\u0060\\u007b-\\u007f]*)'
                          '(\\s+(?:asc|desc)\\M)?(\\s+nulls\\s+(?:first|last))?\\s*(,|$)';
    rest text := claim_order;
    found_one text[];
BEGIN
    names := '{}';
    descending := '{}';
    WHILE rest IS NOT NULL LOOP
        found_one := regexp_match(rest, item, 'i');
        IF found_one IS NULL THEN
            PERFORM pawl.raise('42601', 'claim_order must be a list of columns',
                format('Invalid from here: "%s".', left(ltrim(rest), 40)),
                'claim_order => ''priority desc, created_at''');
        END IF;
        IF found_one[3] IS NOT NULL THEN
            PERFORM pawl.raise('0A000', 'claim_order does not allow NULLS FIRST or NULLS LAST',
                'Nulls sort last in ascending and first in descending order, as in an index.',
                'make the column not null, or omit NULLS');
        END IF;
        names := names || (parse_ident(found_one[1]))[1]::name;
        descending := descending || coalesce(lower(btrim(found_one[2])) = 'desc', false);
        rest := CASE WHEN found_one[4] = ',' THEN regexp_replace(rest, item, '', 'i') END;
    END LOOP;
    IF (SELECT count(DISTINCT n) FROM unnest(names) n) < cardinality(names) THEN
        PERFORM pawl.raise('42701', 'claim_order contains a column twice');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._claim_order(text) IS
'internal: reads claim_order; 42601: invalid; 0A000: NULLS FIRST or LAST; 42701: a column twice';

CREATE FUNCTION pawl._owned_states(machine text, version integer) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(array_agg(s.state ORDER BY s.ordinal), '{}') FROM pawl.machine_state s
     WHERE s.machine = _owned_states.machine AND s.version = _owned_states.version AND s.kind = 'state'
         AND 'owned' = ANY (s.tags)
$function$;
COMMENT ON FUNCTION pawl._owned_states(text, integer) IS
'internal: the states of a machine in which a row has an owner';

-- The states from which rows can be claimed: a claim event leads from them into an owned state.
CREATE FUNCTION pawl._claimable_states(machine text, version integer, claim_events text[]) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(array_agg(s.state ORDER BY s.ordinal), '{}')
      FROM pawl.machine_state s, pawl._owned_states(machine, version) owned
     WHERE s.machine = _claimable_states.machine AND s.version = _claimable_states.version
       AND s.kind = 'state' AND s.state <> ALL (owned)
       AND EXISTS (SELECT FROM pawl.machine_transition t
                    WHERE t.machine = s.machine AND t.version = s.version AND t.from_state = s.state
                      AND t.event = ANY (claim_events) AND t.to_state = ANY (owned))
$function$;
COMMENT ON FUNCTION pawl._claimable_states(text, integer, text[]) IS
'internal: the states from which rows can be claimed, in the order of the diagram';

-- The requirements on each managed column.
CREATE FUNCTION pawl._work_columns(bound pawl.binding)
RETURNS TABLE (n integer, argument text, name name, types regtype[], allowed text, make text, is_written boolean,
    is_nullable boolean)
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 7
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT w.n, w.argument, w.name, w.types::regtype[], w.allowed, w.make, w.is_written, w.is_nullable
      FROM (VALUES
        (1, 'owner', bound.owner_column, '{text,varchar,uuid}', 'text, varchar, uuid, or a domain over one of them',
            'text', true, true),
        (2, 'lease', bound.lease_column, '{timestamptz}', 'timestamptz', 'timestamptz', true, true),
        (3, 'token', bound.token_column, '{bigint,integer}', 'bigint or integer', 'bigint', true, false),
        (4, 'due', bound.due_column, '{timestamptz}', 'timestamptz', 'timestamptz', true, true),
        (5, 'attempts', bound.attempts_column, '{integer,smallint}', 'integer or smallint',
            'integer not null default 0', true, false),
        (6, 'max_attempts', bound.max_attempts_column, '{integer,smallint}', 'integer or smallint', 'integer', false,
            false),
        (7, 'queue', bound.queue_column, '{text,varchar,uuid,integer,bigint}',
            'text, varchar, an enum, uuid, integer or bigint', 'text', false, false),
        (8, 'backoff_column', bound.backoff_column, '{jsonb}', 'jsonb', 'jsonb', false, false)
      ) w(n, argument, name, types, allowed, make, is_written, is_nullable)
     WHERE w.name IS NOT NULL
$function$;
COMMENT ON FUNCTION pawl._work_columns(pawl.binding) IS
'internal: the managed columns of a binding: allowed types, type to create, whether they are written, also null';

-- The first managed column that is missing or of the wrong kind; message is null when all
-- are right. Reads catalogs only.
CREATE FUNCTION pawl._work_column_problem(bound pawl.binding, OUT code text, OUT message text, OUT detail text,
    OUT hint text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    col record;
    member regclass;
    about text;
BEGIN
    FOR col IN
        SELECT w.*, a.attnum, a.attnotnull, a.attgenerated, a.attidentity, a.attrelid,
        format_type(a.atttypid, a.atttypmod) AS type_name,
               b.base, b.is_domain, b.rejects_null, b.is_enum
          FROM pawl._work_columns(bound) w
          LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = w.name AND a.attnum > 0
              AND NOT a.attisdropped
          LEFT JOIN LATERAL pawl._type_facts(a.atttypid) b ON true
         ORDER BY w.n
    LOOP
        about := format('column "%s" of table %s', col.name, bound.relation);
        IF col.attnum IS NULL THEN
            code := '42703';
            message := about || ' does not exist';
            hint := format('alter table %s add column %I %s', bound.relation, col.name, col.make);
        ELSIF col.base <> ALL (col.types) AND NOT (col.argument = 'queue' AND col.is_enum) OR col.is_domain
            AND col.argument <> 'owner' THEN
            code := '42804';
            message := format('%s is of type %s', about, col.type_name);
            hint := format('%s is a column of type %s', col.argument, col.allowed);
        ELSIF col.is_written AND (col.attgenerated <> '' OR col.attidentity <> '') THEN
            code := '0A000';
            message := format('%s cannot be written', about);
            detail := format('It is %s column.',
                CASE WHEN col.attgenerated <> '' THEN 'a generated' ELSE 'an identity' END);
            hint := format('name another column: %s => ...', col.argument);
        ELSIF col.is_nullable THEN
            SELECT m INTO member FROM pawl._members(bound.relation) m
              JOIN pg_attribute a ON a.attrelid = m AND a.attname = col.name AND NOT a.attisdropped
             WHERE a.attnotnull OR col.rejects_null ORDER BY m <> bound.relation, m LIMIT 1;
            IF FOUND THEN
                code := '22023';
                message := format('column "%s" of table %s must allow null', col.name, member);
                detail := format('A null value means that the row has no %s.',
                    CASE col.argument WHEN 'due' THEN 'due time' ELSE col.argument END);
                hint := CASE WHEN col.rejects_null
                    THEN format('alter table %s alter column %I type %s', member, col.name, col.make)
                             ELSE format('alter table %s alter column %I drop not null', member, col.name) END;
            END IF;
        END IF;
        IF message IS NOT NULL THEN
            RETURN;
        END IF;
    END LOOP;
    SELECT p.* INTO code, message, detail, hint FROM pawl._claim_column_problem(bound) p;
END
$function$;
COMMENT ON FUNCTION pawl._work_column_problem(pawl.binding) IS
'internal: the first managed column that is missing (42703), mistyped (42804), not null (22023) or generated (0A000)';

CREATE FUNCTION pawl._claim_column_problem(bound pawl.binding, OUT code text, OUT message text, OUT detail text,
    OUT hint text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    col record;
BEGIN
    SELECT c.name, a.attnum, format_type(a.atttypid, a.atttypmod) AS type_name INTO col
      FROM unnest(bound.claim_columns) WITH ORDINALITY c(name, n)
      LEFT JOIN pg_attribute a ON a.attrelid = bound.relation AND a.attname = c.name AND a.attnum > 0
          AND NOT a.attisdropped
     WHERE a.attnum IS NULL OR NOT pawl._is_sortable(a.atttypid)
     ORDER BY c.n LIMIT 1;
    IF FOUND AND col.attnum IS NULL THEN
        code := '42703';
        message := format('column "%s" of table %s, given in claim_order, does not exist', col.name, bound.relation);
    ELSIF FOUND THEN
        code := '42804';
        message := format('column "%s" of table %s, given in claim_order, is of type %s', col.name, bound.relation,
            col.type_name);
        detail := 'This type has no ordering operator.';
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._claim_column_problem(pawl.binding) IS
'internal: the first column of claim_order that is missing or has no order';

-- The base type of a domain; any other type is its own base.
CREATE FUNCTION pawl._type_facts(type oid, OUT base oid, OUT is_domain boolean, OUT rejects_null boolean,
    OUT is_enum boolean)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH RECURSIVE down(base, steps, rejects_null) AS (
        SELECT type, 0, false
        UNION ALL
        SELECT t.typbasetype, d.steps + 1, d.rejects_null OR t.typnotnull FROM down d
            JOIN pg_type t ON t.oid = d.base AND t.typtype = 'd')
    SELECT d.base, d.steps > 0, d.rejects_null, t.typtype = 'e' FROM down d JOIN pg_type t ON t.oid = d.base
    ORDER BY d.steps DESC LIMIT 1
$function$;
COMMENT ON FUNCTION pawl._type_facts(oid) IS 'internal: the type below a domain, and what the domain adds';

CREATE FUNCTION pawl._is_sortable(type oid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT EXISTS (
        SELECT FROM pawl._type_facts(type) b
          JOIN pg_type t ON t.oid = b.base
          JOIN pg_opclass o ON o.opcdefault AND o.opcmethod = (SELECT m.oid FROM pg_am m WHERE m.amname = 'btree')
         WHERE o.opcintype = t.oid
            OR o.opcintype = CASE t.typtype WHEN 'e' THEN 'anyenum'::regtype WHEN 'r' THEN 'anyrange'::regtype
                                            WHEN 'm' THEN 'anymultirange'::regtype WHEN 'c' THEN 'record'::regtype END
            OR o.opcintype = 'anyarray'::regtype AND t.typsubscript = 'array_subscript_handler'::regproc
            OR EXISTS (SELECT FROM pg_cast c WHERE c.castsource = t.oid AND c.casttarget = o.opcintype
                          AND c.castmethod = 'b' AND c.castcontext = 'i'))
$function$;
COMMENT ON FUNCTION pawl._is_sortable(oid) IS 'internal: whether an index can keep values of this type in order';
