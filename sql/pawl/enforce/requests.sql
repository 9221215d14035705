-- What pawl.log_upkeep and pawl.paused have in common: an INSERT is a request about a table, all roles can insert, and
-- a trigger decides whose heard. A request takes the place of the one before.

CREATE FUNCTION pawl._has_role(VARIADIC roles name[]) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN (SELECT coalesce(bool_or(pg_has_role(current_user, r.oid, 'USAGE')), false) FROM pg_roles r
            WHERE r.rolname = ANY (roles));
END
$function$;
COMMENT ON FUNCTION pawl._has_role(name[]) IS 'internal: whether the current user has the rights of one of these roles';

-- Null is a table that nothing is asked of.
CREATE FUNCTION pawl._hear(target regclass, roles name[], denied text, detail text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF NOT coalesce(pawl._owns(target), false) AND NOT pawl._has_role(VARIADIC roles) THEN
        PERFORM pawl.raise('42501', format(denied, target), detail, format('grant %I to %I', roles[1], current_user));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._hear(regclass, name[], text, text) IS
'internal: 42501 unless the current user owns the table or has one of the roles; the hint names the first';

-- Two requests about a table that are made at once come one after the other, and the later one finds the one before.
CREATE FUNCTION pawl._wait_turn(requests regclass, target regclass) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT pg_advisory_xact_lock(requests::oid::integer, target::oid::integer)
$function$;
COMMENT ON FUNCTION pawl._wait_turn(regclass, regclass) IS
'internal: requests of a kind about a table are made one at a time';
