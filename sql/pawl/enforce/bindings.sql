-- Bindings: which machine guards which column of which table.

CREATE TABLE pawl.binding (
    relation regclass NOT NULL,
    state_column name NOT NULL,
    machine text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    key_columns name[] NOT NULL DEFAULT '{}',
    history regclass,
    most_recent text NOT NULL DEFAULT 'derived' CHECK (most_recent IN ('stored', 'derived')),
    hash_chain boolean NOT NULL DEFAULT false,
    on_delete text NOT NULL DEFAULT 'allow' CHECK (on_delete IN ('allow', 'terminal', 'deny')),
    always boolean NOT NULL DEFAULT false,
    enforced_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    enforced_by text NOT NULL DEFAULT CURRENT_USER,
    history_view regclass,
    log_key_columns name[] NOT NULL DEFAULT '{}',
    -- The attribute numbers of the names above. A number that has another name now shows a rename. They count only if
    -- relation_oid is the OID of relation; after a restore the names decide.
    relation_oid oid,
    state_attnum smallint,
    key_attnums smallint[],
    -- Owned work: the columns of the table that pawl maintains, and the rules for them.
    owner_column name,
    lease_column name,
    token_column name,
    due_column name,
    attempts_column name,
    max_attempts_column name,
    queue_column name,
    claim_events text[] NOT NULL DEFAULT '{}',
    claim_columns name[] NOT NULL DEFAULT '{}',
    claim_descending boolean[] NOT NULL DEFAULT '{}',
    lease_time interval NOT NULL DEFAULT '60 s',
    on_expiry text,
    on_expiry_else text,
    retry_events text[] NOT NULL DEFAULT '{}',
    backoff jsonb,
    backoff_column name,
    operator_events text[] NOT NULL DEFAULT '{}',
    events boolean NOT NULL DEFAULT false,
    wake boolean NOT NULL DEFAULT false,
    managed_attnums smallint[],
    extension name,
    events_since timestamptz,
    trace_columns name[] NOT NULL DEFAULT '{}',
    locked_after regclass,
    log_token boolean NOT NULL DEFAULT false,
    result_columns name[] NOT NULL DEFAULT '{}',
    calls text[],
    errors text NOT NULL DEFAULT 'pawl' CHECK (errors IN ('pawl', 'check_violation')),
    may_place boolean NOT NULL DEFAULT false,
    validated boolean NOT NULL DEFAULT true,
    PRIMARY KEY (relation, state_column),
    CHECK (history IS NULL OR pg_catalog.cardinality(key_columns) > 0),
    CHECK (history IS NULL
        OR pg_catalog.cardinality(log_key_columns) OPERATOR(pg_catalog.=) pg_catalog.cardinality(key_columns)),
    CONSTRAINT binding_claim_order
    CHECK (pg_catalog.cardinality(claim_columns) OPERATOR(pg_catalog.=) pg_catalog.cardinality(claim_descending))
);
COMMENT ON TABLE pawl.binding IS
'one row a machine bound to a column of a table; written by pawl.enforce, pawl.release, pawl.upgrade, and the '
'functions pawl.enable_... and pawl.set_...; pawl.definition shows the calls';
COMMENT ON COLUMN pawl.binding.relation IS
'the root: partitions and inheritance children are found through pg_inherits';
COMMENT ON COLUMN pawl.binding.enforced_at IS 'when it was attached, or its log began, whichever was later';
COMMENT ON COLUMN pawl.binding.key_columns IS
'the columns that identify a row, in the order of the key; empty when the table has no primary key';
COMMENT ON COLUMN pawl.binding.history IS 'the table the log is written to';
COMMENT ON COLUMN pawl.binding.history_view IS 'the view on the log that derives most_recent';
COMMENT ON COLUMN pawl.binding.log_key_columns IS
'the names of key_columns in the log: the same, or subject_... where the log has a column of that name itself';
COMMENT ON COLUMN pawl.binding.events_since IS 'when pawl.enable_events last switched events on or off; null: never';
COMMENT ON COLUMN pawl.binding.calls IS
'the functions of guards and effects, resolved when the machine was enforced: name(row, row) of the table''s own row '
'type, name(anyelement, anyelement) or name(record, record); null: enforced by an earlier version, looked up';
COMMENT ON COLUMN pawl.binding.trace_columns IS
'the columns with the W3C traceparent of each row, and its tracestate: a state change outside of a trace is '
'recorded in this one';
COMMENT ON COLUMN pawl.binding.locked_after IS
'the table whose row is locked before the rows whose key begins with its key; written by pawl.set_lock_order';
COMMENT ON COLUMN pawl.binding.result_columns IS
'the columns with the result of a row, and with its error: what they say of success and execution_time_ms goes to the '
'log, and so to the audit; written by pawl.set_result_columns';
COMMENT ON COLUMN pawl.binding.log_token IS
'metadata of log entries has token and transaction_id; written by pawl.set_log_token';
COMMENT ON COLUMN pawl.binding.validated IS
'false: rows that were there before may be in unknown states, or have no log entry yet; pawl.validate checks them';
COMMENT ON COLUMN pawl.binding.may_place IS 'pawl.place is allowed; written by pawl.set_placing';
COMMENT ON COLUMN pawl.binding.errors IS
'check_violation: what the machine does not allow is raised as 23514, with PW001 to PW003 in the DETAIL; '
'pawl: as these';
COMMENT ON COLUMN pawl.binding.claim_columns IS 'what is claimed first; the key follows';
COMMENT ON COLUMN pawl.binding.lease_time IS 'the length of a lease if pawl.claim is given none';
COMMENT ON COLUMN pawl.binding.on_expiry IS 'the event that an expired lease fires';
COMMENT ON COLUMN pawl.binding.on_expiry_else IS
'the event that it fires where on_expiry leads nowhere, because no attempt is left or a guard says no';
COMMENT ON COLUMN pawl.binding.backoff_column IS
'the column with the backoff of each row; null in a row: that of the binding';
COMMENT ON COLUMN pawl.binding.managed_attnums IS
'attribute numbers of owner, lease, token, due, attempts, max_attempts, queue, backoff_column (0: none), then of '
'claim_columns and trace_columns';

COMMENT ON COLUMN pawl.binding.extension IS
'the extension whose script attached it, and attaches it again after a restore; null: a user did';

SELECT pg_catalog.pg_extension_config_dump('pawl.binding', 'WHERE extension IS NULL');

CREATE TABLE pawl.released (
    relation regclass NOT NULL,
    state_column name NOT NULL,
    definition text NOT NULL,
    released_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY (relation, state_column)
);
COMMENT ON TABLE pawl.released IS
'what pawl.definition said of bindings when they were released; pawl.enforce compares a new binding with it';

-- A relation and its parents up to the root.
CREATE FUNCTION pawl._ancestors(relation oid) RETURNS SETOF oid
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE up(oid) AS (
        SELECT relation
        UNION
        SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.oid AND NOT i.inhdetachpending
    )
    SELECT up.oid FROM up;
END
$function$;
COMMENT ON FUNCTION pawl._ancestors(oid) IS 'internal: a relation and all it inherits from';

-- A relation with all its partitions and inheritance children.
CREATE FUNCTION pawl._members(relation oid) RETURNS SETOF oid
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE down(oid) AS (
        SELECT relation
        UNION
        SELECT i.inhrelid FROM down JOIN pg_inherits i ON i.inhparent = down.oid AND NOT i.inhdetachpending
    )
    SELECT down.oid FROM down;
END
$function$;
COMMENT ON FUNCTION pawl._members(oid) IS 'internal: a relation and all that inherit from it';

CREATE FUNCTION pawl._owns(relation oid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pg_has_role(current_user, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation
$function$;
COMMENT ON FUNCTION pawl._owns(oid) IS
'internal: whether the current user has the rights of the owner; null when there is no such relation';

CREATE FUNCTION pawl._owner_hint(relation oid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT CASE WHEN r.rolsuper THEN format('call it as role "%s"', r.rolname)
                ELSE format('grant %I to %I', r.rolname, current_user) END
      FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = relation
$function$;
COMMENT ON FUNCTION pawl._owner_hint(oid) IS
'internal: how the current user gets the rights of the owner, except that a superuser is granted to no role';

CREATE FUNCTION pawl._check_owner(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF NOT pawl._owns(relation) THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', relation), NULL, pawl._owner_hint(relation));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._check_owner(regclass) IS
'internal: 42501 if the current user lacks the rights of the owner; nothing for null, or a relation that is gone';

CREATE FUNCTION pawl._locked_binding(bound pawl.binding) RETURNS pawl.binding
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl._begin_distributed(bound.relation);
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', bound.relation);
    RETURN pawl._binding(bound.relation, bound.state_column);
END
$function$;
COMMENT ON FUNCTION pawl._locked_binding(pawl.binding) IS
'internal: locks the table of a binding against writers, and returns the binding as it is then';

-- The columns that are kept or read for work, in the order of managed_attnums; null where there is none.
CREATE FUNCTION pawl._managed_columns(bound pawl.binding) RETURNS name[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT ARRAY[bound.owner_column, bound.lease_column, bound.token_column, bound.due_column, bound.attempts_column,
                 bound.max_attempts_column, bound.queue_column, bound.backoff_column] || bound.claim_columns
        || bound.trace_columns
$function$;
COMMENT ON FUNCTION pawl._managed_columns(pawl.binding) IS
'internal: owner, lease, token, due, attempts, max_attempts, queue, backoff (null: none), claim and trace columns';

-- A role that loads this table (pawl_restore) can only insert rows for tables that it owns.
CREATE FUNCTION pawl._binding_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.binding');
    foreign_table regclass;
BEGIN
    -- The owner of a log can have changed since, so that the table's owner has no rights on it.
    SELECT r.relation INTO foreign_table
      FROM (SELECT CASE WHEN TG_OP <> 'INSERT' THEN OLD.relation END
            UNION ALL SELECT CASE WHEN TG_OP <> 'DELETE' THEN NEW.relation END
            UNION ALL SELECT CASE WHEN TG_OP = 'INSERT' OR TG_OP = 'UPDATE'
                AND NEW.history IS DISTINCT FROM OLD.history THEN NEW.history END
            UNION ALL SELECT CASE WHEN TG_OP = 'INSERT' OR TG_OP = 'UPDATE'
                AND NEW.history_view IS DISTINCT FROM OLD.history_view
                                  THEN NEW.history_view END) r(relation)
     WHERE NOT pawl._owns(r.relation) LIMIT 1;
    IF FOUND THEN
        PERFORM pawl.raise('42501', format('must be owner of table %s', foreign_table), NULL,
            pawl._owner_hint(foreign_table));
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    -- not for a superuser or a member of pawl_restore: a restore may fill this table before pawl.machine
    IF NOT pawl._has_role('pawl_restore')
       AND NOT EXISTS (SELECT FROM pawl.machine m WHERE m.machine = NEW.machine AND m.version = NEW.version) THEN
        PERFORM pawl.raise('PW008', format('machine "%s" has no version %s', NEW.machine, NEW.version));
    END IF;
    IF TG_OP = 'INSERT' AND NEW.extension IS NULL THEN
        NEW.extension := pawl._creating_extension();
    END IF;
    NEW.relation_oid := NEW.relation::oid;
    SELECT array_agg(coalesce(a.attnum, 0) ORDER BY m.n) INTO NEW.managed_attnums
      FROM unnest(pawl._managed_columns(NEW)) WITH ORDINALITY m(name, n)
      LEFT JOIN pg_attribute a ON a.attrelid = NEW.relation AND a.attname = m.name AND a.attnum > 0
          AND NOT a.attisdropped;
    SELECT a.attnum INTO NEW.state_attnum FROM pg_attribute a
     WHERE a.attrelid = NEW.relation AND a.attname = NEW.state_column AND a.attnum > 0 AND NOT a.attisdropped;
    SELECT array_agg(a.attnum ORDER BY k.n) INTO NEW.key_attnums
      FROM unnest(NEW.key_columns) WITH ORDINALITY k(name, n)
      LEFT JOIN pg_attribute a ON a.attrelid = NEW.relation AND a.attname = k.name AND a.attnum > 0
          AND NOT a.attisdropped;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._binding_check() IS
'internal: a binding can be written only by the owner of its table and log';

CREATE TRIGGER owner_only BEFORE INSERT OR UPDATE OR DELETE ON pawl.binding
    FOR EACH ROW EXECUTE FUNCTION pawl._binding_check();

-- The binding of a column; of the only bound column when none is named. The relation may be any member of the tree.
CREATE FUNCTION pawl._binding(relation regclass, state_column name) RETURNS pawl.binding
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one pawl.binding;
    bound_columns text;
    many boolean;
BEGIN
    IF relation IS NULL THEN
        PERFORM pawl.raise('22004', 'relation must not be null');
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation) THEN
        PERFORM pawl.raise('42P01', format('relation with OID %s does not exist', relation::oid));
    END IF;
    SELECT string_agg(quote_literal(b.state_column), ', ' ORDER BY b.state_column), count(*) > 1
        INTO bound_columns, many
      FROM pawl.binding b WHERE b.relation IN (SELECT a FROM pawl._ancestors(_binding.relation) a);
    IF bound_columns IS NULL THEN
        PERFORM pawl.raise('42704', format('no machine is enforced on table %s', relation), NULL,
            format('select pawl.enforce(%L, state_column, machine)', relation));
    END IF;
    IF many AND _binding.state_column IS NULL THEN
        PERFORM pawl.raise('22023', format('table %s has several bindings', relation),
            format('Their state columns are %s.', bound_columns),
            format('specify one: state_column => %s', split_part(bound_columns, ', ', 1)));
    END IF;
    SELECT b.* INTO found_one FROM pawl.binding b
     WHERE b.relation IN (SELECT a FROM pawl._ancestors(_binding.relation) a)
       AND (_binding.state_column IS NULL OR b.state_column = _binding.state_column);
    IF NOT FOUND THEN
        PERFORM pawl.raise('42704', format('no machine is enforced on column "%s" of table %s', state_column, relation),
            NULL, format('state_column => %s', bound_columns));
    END IF;
    RETURN found_one;
END
$function$;
COMMENT ON FUNCTION pawl._binding(regclass, name) IS
'internal: the binding of a column, or an error that says what there is';

-- The functions that write this table. Each checks that the caller owns the tables that the row names, and then reads
-- the row as sessions do, so that a wrong type, name or reference is rejected.
CREATE FUNCTION pawl._store_binding(bound pawl.binding) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_store_binding';
COMMENT ON FUNCTION pawl._store_binding(pawl.binding) IS
'internal: stores a new binding; 42501: not the owner of table and log; XX001: it does not fit them';

CREATE FUNCTION pawl._change_binding(bound pawl.binding) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_change_binding';
COMMENT ON FUNCTION pawl._change_binding(pawl.binding) IS
'internal: stores a changed binding; 42501: not the owner of the table or log; XX001: it does not match the table';

CREATE FUNCTION pawl._drop_binding(relation regclass, state_column name, definition text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_drop_binding';
COMMENT ON FUNCTION pawl._drop_binding(regclass, name, text) IS
'internal: deletes a binding, keeps the calls that made it, and returns whether there was one; 42501: not the owner of
the table';

CREATE FUNCTION pawl._number_binding(relation regclass) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_number_binding';
COMMENT ON FUNCTION pawl._number_binding(regclass) IS
'internal: stores the attribute numbers of the columns of a table''s bindings, after a restore without triggers';

CREATE FUNCTION pawl._check_binding(relation regclass, state_column name) RETURNS void
LANGUAGE c STABLE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_check_binding';
COMMENT ON FUNCTION pawl._check_binding(regclass, name) IS
'internal: reads a binding and its machine as a write does; XX001: damaged; other errors: a needed object is missing';

CREATE FUNCTION pawl._binding_problem(relation regclass, state_column name) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    message text;
    explanation text;
BEGIN
    PERFORM pawl._check_binding(relation, state_column);
    RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;  -- guards are in a schema that the caller may not use, which says nothing of the binding
WHEN data_corrupted OR syntax_error_or_access_rule_violation OR SQLSTATE 'PW008' THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, explanation = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(': ', message, nullif(explanation, ''));
END
$function$;
COMMENT ON FUNCTION pawl._binding_problem(regclass, name) IS
'internal: what is damaged in the catalog rows of a binding, or missing that they name; null: nothing';

CREATE FUNCTION pawl._is_sound(relation regclass, state_column name) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    problem text := pawl._binding_problem(relation, state_column);
BEGIN
    IF problem IS NOT NULL THEN
        RAISE WARNING USING ERRCODE = 'XX001',
            MESSAGE = format('the binding on column "%s" of table %s was skipped', state_column, relation),
            DETAIL = problem, HINT = 'select * from pawl.health()';
    END IF;
    RETURN problem IS NULL;
END
$function$;
COMMENT ON FUNCTION pawl._is_sound(regclass, name) IS
'internal: whether a binding can be worked on; where it cannot, a warning says why';
