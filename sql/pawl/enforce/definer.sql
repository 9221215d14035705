-- Calls functions that a role has named in a definition, from sessions of other roles.

CREATE FUNCTION pawl.may_act_as(role name) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_may_act_as';
COMMENT ON FUNCTION pawl.may_act_as(name) IS
'Whether the current user can SET ROLE to a role. role: its name; true for a superuser, also if there is no such role.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl.may_act_as(''pawl_admin'')';

-- It grants nothing: the statement runs as the caller, or as a role that the caller can become.
CREATE FUNCTION pawl.call_as_definer(definer name, function regprocedure, statement text, result anyelement,
    VARIADIC arguments "any") RETURNS anyelement
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_call_as_definer';
COMMENT ON FUNCTION pawl.call_as_definer(name, regprocedure, text, anyelement, "any") IS
'Runs a statement that calls a function which a role has named in a definition, and returns its value. It runs as the
current user if the definer can SET ROLE to it, else as the definer if the current user can SET ROLE to that; if both
are superusers, as the owner of the function, if that is none. As another role it runs in a security-restricted
operation, and the settings that it changes are restored; as the current user those that pawl.set_context sets are,
until the transaction ends. enable_... settings that are off and plan_cache_mode are those with which the session began.
definer: the role. function: what it named. statement: returns one row with one column; $1, $2 are the arguments.
result: a value of the type of the result, like NULL::jsonb. arguments: any.
Errors: 42501 neither role can become the other; 42704 no such role; 42804 another result; and what the function
raises. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl.call_as_definer(current_user, ''pg_catalog.upper(text)'', ''SELECT pg_catalog.upper($1)'',
NULL::text, ''x''::text)';
