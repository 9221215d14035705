-- Work that is a SQL function: one call of a function with its repetitions, and the loop of a duty that claims, commits
-- and runs.

CREATE FUNCTION pawl.must_reraise(sqlstate text) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_must_reraise';
COMMENT ON FUNCTION pawl.must_reraise(text) IS
'Whether an exception handler must raise an error again, because it is no failure of what the handler called: the server
lacks something or is shutting down, or the transaction has one snapshot for all its statements and conflicts, so that
only its caller can repeat it.
sqlstate: the error; null gives null. Errors: none. Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl.must_reraise(''53200'')';

CREATE FUNCTION pawl.try_function(definer name, function text, VARIADIC arguments jsonb[],
    OUT result jsonb, OUT problem jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    types constant text := 'jsonb' || repeat(', jsonb', cardinality(arguments) - 1);
    listed text := '$1[1]';
    called regprocedure;
    said text;
    detail text;
    code text;
BEGIN
    IF cardinality(arguments) > 0 IS NOT TRUE THEN
        PERFORM pawl.raise('22023', 'a function of a definition has at least one argument', NULL,
            'pawl.try_function(definer, function, ''{}''::jsonb)');
    END IF;
    FOR n IN 2 .. cardinality(arguments) LOOP
        listed := listed || format(', $1[%s]', n);
    END LOOP;
    -- A conflict is repeated at once; one that always returns is the function's own error.
    FOR try IN 1 .. 6 LOOP
        problem := NULL;
        BEGIN
            -- the name must have a schema, because search_path is not the user's here
            called := to_regprocedure(format('%s(%s)', function, types));
            IF called IS NULL THEN
                PERFORM pawl.raise('42883', format('no function %s(%s)', function, types),
                    'Its name must include the schema.', format('create function %s(%s) ...', function, types));
            END IF;
            result := pawl.call_as_definer(definer, called,
                format('SELECT to_jsonb(%s(%s))', called::oid::regproc, listed), NULL::jsonb, arguments);
            RETURN;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl.must_reraise(SQLSTATE) THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
            problem :=
                jsonb_strip_nulls(jsonb_build_object('message', said, 'detail', nullif(detail, ''), 'sqlstate', code));
        END;
        EXIT WHEN NOT pawl.is_transient(code);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.try_function(name, text, jsonb[]) IS
'Calls a function that a role has named in a definition, with the rights that pawl.call_as_definer gives it, and returns
its result as JSON or the error that it raised. What a failed call has done is rolled back. A conflict (SQLSTATE 40...)
is tried again, six times in all.
definer: the role. function: its name with the schema. arguments: at least one; the function takes as many of type '
'jsonb.
Returns result, and problem: null, or {"message", "detail", "sqlstate"}; 42883 if there is no such function.
Errors: 22023 no argument; those for which pawl.must_reraise is true. Privileges: pawl_admin, pawl_operator.
Example: SELECT * FROM pawl.try_function(current_user, ''pg_catalog.jsonb_typeof'', ''[]'')';

-- It commits, so it cannot have settings for its whole run: each transaction begins with the search_path, and without
-- what a function before it has set for the session: its attribution is not that of other work.
CREATE PROCEDURE pawl.claim_and_run(claim text, run text, failed text, processor text, lease interval, batch integer,
    INOUT done integer DEFAULT NULL, duration interval DEFAULT '100 ms')
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
DECLARE
    -- work that would wait behind a long function is not claimed yet; a statement_timeout is meant for one function
    until timestamptz;
    work jsonb;
    did integer;
    failures integer := 0;
    said text;
    code text;
    names constant text[] := '{pawl.processor,pawl.event,pawl.events,pawl.token,pawl.correlation_id,pawl.metadata,'
        'pawl.delay,pawl.traceparent,pawl.tracestate}';
    context constant text[] := ARRAY(SELECT pg_catalog.current_setting(n, true) FROM pg_catalog.unnest(names) n);
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    done := 0;
    until := clock_timestamp() + duration;
    EXECUTE claim INTO work USING processor, lease, batch, work;
    COMMIT;
    WHILE work IS NOT NULL LOOP
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        code := NULL;
        BEGIN
            EXECUTE run INTO did USING work, processor;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            failures := failures + 1;
            IF failed IS NULL AND (failures > 5 OR NOT pawl.is_transient(code)) THEN
                RAISE;
            END IF;
        END;
        IF code IS NOT NULL THEN
            ROLLBACK;
            PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            -- not a failure of the work: it is repeated at once
            CONTINUE WHEN failures <= 5 AND pawl.is_transient(code);
            EXECUTE failed USING work, processor, code, said;
            COMMIT;
            PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            did := 0;
        END IF;
        done := done + coalesce(did, 0);
        failures := 0;
        IF done < batch AND clock_timestamp() < until THEN
            EXECUTE claim INTO work USING processor, lease, batch - done, work;
        ELSE
            work := NULL;
        END IF;
        COMMIT;
        PERFORM pg_catalog.set_config(names[n], coalesce(context[n], ''), false)
           FROM pg_catalog.generate_subscripts(names, 1) n
          WHERE coalesce(pg_catalog.current_setting(names[n], true), '') OPERATOR(pg_catalog.<>)
              coalesce(context[n], '');
    END LOOP;
END
$function$;
COMMENT ON PROCEDURE pawl.claim_and_run(text, text, text, text, interval, integer, integer, interval) IS
'Procedure, the loop of a duty that runs users'' functions: claims work, commits, runs it in the next transaction, and
so on. A session that is lost while it runs a function has used the attempt that it claimed.
claim, run, failed: statements, which run with the rights of the caller and search_path pg_catalog. claim returns the
next work as jsonb, or null; $1 is the processor, $2 the lease, $3 how much of batch is left, $4 the work before it. run
does the work $1 of the processor $2, reports it, and returns how much it did: 0 if the work is lost. If it raises an
error, the transaction is rolled back, and a transient error is tried again at once, five times. Then failed is called
with the work, the processor, the SQLSTATE and the message, in a transaction of its own; null: the error is raised.
processor, lease: for the statements. batch, duration: nothing is claimed after that much work, or that time; default
100 ms. Returns done: how much was done.
Errors: 2D000 inside a transaction; what claim and failed raise. Privileges: pawl_admin, pawl_operator.
Example: CALL pawl.claim_and_run(''SELECT to_jsonb(c) FROM pawl.claim(null::public.jobs, null, $1, $2) c'',
''SELECT public.run_job($1)'', null, ''worker 1'', ''60 s'', 10)';
