-- What pawl.log_upkeep and pawl.paused have in common: every role can insert a request about a table, a trigger checks
-- whether it may, and a new request replaces the old one.

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

-- A null target needs no rights.
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
