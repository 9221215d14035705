-- Rows that were there before a binding or its log, and that nothing has read yet: pawl.validate checks them and begins
-- their histories, batch by batch, as VALIDATE CONSTRAINT does for a constraint that is NOT VALID.

-- What pawl.enforce checks of all rows, at once.
CREATE FUNCTION pawl._reject_rows(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $function$
DECLARE
    found_one text;
    example text;
    wrong bigint;
BEGIN
    found_one := pawl._strange_rows(bound.relation::text, bound.state_column,
        pawl._atoms(bound.machine, bound.version));
    IF found_one IS NOT NULL THEN
        PERFORM pawl.raise('PW008', format('table %s has rows that are in no state of machine "%s"',
            bound.relation, bound.machine), found_one,
            format('update %s set %I = %L where ...: such a row can enter an initial state, or be deleted',
                bound.relation, bound.state_column,
                (SELECT s.state FROM pawl.machine_state s WHERE s.machine = bound.machine
                    AND s.version = bound.version AND s.initial AND s.kind = 'state' ORDER BY s.ordinal LIMIT 1)));
    END IF;
    IF bound.history IS NOT NULL THEN
        EXECUTE format('SELECT count(*), min(format($$row %%s is in "%%s", its log ends with "%%s"$$, %s, '
            'pawl.value_text(r.%I), o.to_state)) FROM %s r CROSS JOIN LATERAL (%s) o '
            'WHERE o.to_state COLLATE "C" <> pawl.value_text(r.%2$I) COLLATE "C"',
            pawl._key_label('r', bound.key_columns), bound.state_column, bound.relation, pawl._newest_of_row(bound))
           INTO wrong, example;
        IF wrong > 0 THEN
            PERFORM pawl.raise('55000',
                format('the log %s does not match the rows of table %s', bound.history, bound.relation),
                format('%s: %s.', CASE wrong WHEN 1 THEN '1 row differs' ELSE wrong || ' rows differ' END, example),
                format('select * from pawl.verify(%L)', bound.relation));
        END IF;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._reject_rows(pawl.binding) IS
'internal: rejects rows in unknown states (PW008) and rows that are not where their log ends (55000)';

CREATE FUNCTION pawl._reject_wrong_owners(bound pawl.binding) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    found_one text := pawl._wrongly_owned_rows(bound.relation::text, bound);
BEGIN
    IF found_one IS NOT NULL THEN
        PERFORM pawl.raise('55000',
            format('table %s has rows with an owner or a lease in states that are not owned', bound.relation),
            found_one, pawl._disown_hint(bound.relation, bound));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._reject_wrong_owners(pawl.binding) IS
'internal: rejects rows with an owner in states that are not owned; 55000';

-- A log that is taken up again is compared with all rows under the lock, so the binding is validated by it.
CREATE FUNCTION pawl._validate_now(bound pawl.binding, reason text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF bound.validated AND (SELECT b.validated FROM pawl.binding b
                             WHERE b.relation = bound.relation AND b.state_column = bound.state_column) THEN
        RETURN;
    END IF;
    RAISE NOTICE USING MESSAGE = 'rows are validated now', DETAIL = reason || '.';
    PERFORM pawl._reject_rows(bound), pawl._reject_wrong_owners(bound);
    PERFORM pawl._end_validation(bound.relation, bound.state_column);
END
$function$;
COMMENT ON FUNCTION pawl._validate_now(pawl.binding, text) IS
'internal: validates all rows of a binding at once, with a notice that says why';

-- The next member to read: a table that has rows and is not done.
CREATE FUNCTION pawl._next_member(bound pawl.binding) RETURNS regclass
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT c.oid FROM pawl._members(bound.relation) m
      JOIN pg_class c ON c.oid = m AND c.relkind = 'r'
      LEFT JOIN pawl.validation v ON v.relation = bound.relation AND v.state_column = bound.state_column
           AND v.member = c.oid
     WHERE NOT coalesce(v.done, false) ORDER BY v.member IS NULL, c.oid LIMIT 1
$function$;
COMMENT ON FUNCTION pawl._next_member(pawl.binding) IS 'internal: the member that pawl.validate reads next';

-- After the last batch: true if all rows were found legal, or were made legal since and have been read again.
CREATE FUNCTION pawl._finish_validation(bound pawl.binding) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    wrong record;
BEGIN
    IF bound.key_columns = '{}' OR EXISTS (SELECT FROM pawl.validation v WHERE v.relation = bound.relation
            AND v.state_column = bound.state_column AND v.illegal > 0) THEN
        PERFORM pawl._reject_rows(bound);
    END IF;
    PERFORM pawl._reject_wrong_owners(bound);
    FOR wrong IN SELECT v.relation, v.state_column, v.member, v.checked, v.begun
                   FROM pawl.validation v WHERE v.relation = bound.relation
                    AND v.state_column = bound.state_column AND v.illegal > 0 LOOP
        PERFORM pawl._store_validation(wrong.relation, wrong.state_column, wrong.member, NULL, wrong.checked,
            wrong.begun, 0, false);
    END LOOP;
    IF FOUND THEN
        RETURN false;
    END IF;
    PERFORM pawl._end_validation(bound.relation, bound.state_column);
    IF EXISTS (SELECT FROM pawl._work_index_state(bound) s WHERE s.found_one IS NULL OR NOT s.is_valid) THEN
        RAISE NOTICE USING MESSAGE = format('table %s lacks indexes for claims, leases or timers', bound.relation),
            HINT = format('select statement from pawl.missing_indexes(%L, %L)', bound.relation, bound.state_column);
    END IF;
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl._finish_validation(pawl.binding) IS
'internal: marks a binding as validated; PW008, 55000: rows are not legal; false: some have to be read again';

CREATE FUNCTION pawl.validate(relation regclass, state_column name DEFAULT NULL, batch integer DEFAULT 1000,
    OUT member regclass, OUT checked bigint, OUT begun bigint, OUT illegal bigint, OUT validated boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._own_binding(relation, state_column);
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    PERFORM pawl._check_isolation('pawl.validate');
    checked := 0;
    begun := 0;
    illegal := 0;
    PERFORM pawl._wait_turn('pawl.validation', bound.relation);
    bound := pawl._own_binding(bound.relation, bound.state_column);
    validated := bound.validated;
    IF validated THEN
        RETURN;
    END IF;
    member := CASE WHEN bound.key_columns <> '{}' THEN pawl._next_member(bound) END;
    IF member IS NULL THEN
        validated := pawl._finish_validation(bound);
    ELSE
        SELECT m.checked, m.begun, m.illegal INTO checked, begun, illegal
          FROM pawl._validate_member(bound, member, batch) m;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.validate(regclass, name, integer) IS
'Checks the next rows of a binding that was made with validate => false, and begins their histories. Call it until
validated is true, each time in a transaction of its own; it goes on where the last call ended, also after a crash,
and any number of sessions may call it.
relation: the enforced table. state_column: null: the only bound column. batch: how many rows at most, 1 to 10000;
default 1000. The rows whose histories it begins are locked until the transaction ends, FOR NO KEY UPDATE.
Returns member (the table that it read; null: none is left), checked (rows), begun (histories), illegal (rows of these
that are in no state of the machine), and validated (whether all rows are).
Errors: PW008, after the last row: rows are in no state of the machine, counted by state; change or delete them, and
call it again; 55000 rows that are owned or not where their log ends, or no index on the key; 23502 rows without a
key; 22004, 22023 batch; 42704 no binding; 42501 not the owner; 25001 not READ COMMITTED. Privileges: pawl_admin that
owns the table.
Example: SELECT * FROM pawl.validate(''orders'')';

CREATE PROCEDURE pawl.validate_all(relation regclass, state_column name DEFAULT NULL, batch integer DEFAULT 1000)
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
DECLARE
    is_done boolean := false;
BEGIN
    LOOP
        -- it commits, so it can set nothing for its whole run
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        SELECT v.validated INTO is_done FROM pawl.validate(relation, state_column, batch) v;
        COMMIT;
        EXIT WHEN is_done;
    END LOOP;
END
$function$;
COMMENT ON PROCEDURE pawl.validate_all(regclass, name, integer) IS
'Procedure: calls pawl.validate until all rows of a binding are validated, and commits after each call. It can be
stopped at any time and called again.
relation: the enforced table. state_column: null: the only bound column. batch: how many rows in a transaction, 1 to
10000; default 1000.
Errors: those of pawl.validate; 2D000 inside a transaction. Privileges: pawl_admin that owns the table.
Example: CALL pawl.validate_all(''orders'')';
