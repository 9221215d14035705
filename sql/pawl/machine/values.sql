-- Values of users' types. A cast (state::text) or an operator (queue = 'a') is looked up by name when a statement is
-- parsed. The owner of a type can create one that is preferred; it then runs as the caller, and returns what it likes.
-- So statements on users' tables use these functions, which call the type's input and output functions and its default
-- btree operators. The planner replaces a call by the operator itself, so indexes and joins work as usual. They are
-- PUBLIC, because they do nothing else.

CREATE FUNCTION pawl.value_text(value "any") RETURNS text
LANGUAGE c STABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_text';
COMMENT ON FUNCTION pawl.value_text("any") IS
'Returns a value as its type''s output function writes it; a cast to text can be replaced by the owner of a type.
value: of any type, null for null. Errors: those of the output function. Privileges: all roles. Example: SELECT
pawl.value_text(state) FROM orders';

CREATE FUNCTION pawl._value(value text, type anyelement) RETURNS anyelement
LANGUAGE c STABLE PARALLEL SAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_value';
COMMENT ON FUNCTION pawl._value(text, anyelement) IS
'internal: a value as its type''s input function reads it; type is null::type, and not a domain';

CREATE FUNCTION pawl._same_support(internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_same_support';
COMMENT ON FUNCTION pawl._same_support(internal) IS 'internal: planner support of pawl.same_value';
CREATE FUNCTION pawl.same_value(one "any", other "any") RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT SUPPORT pawl._same_support AS 'MODULE_PATHNAME', 'pawl_same';
COMMENT ON FUNCTION pawl.same_value("any", "any") IS
'Whether two values of one type are equal, by the type''s default operator class and not by an operator looked up by
name. one, other: of the same type; null if one of them is null. Errors: 42804 different types; 42883 a type without
equality. Privileges: all roles. Example: SELECT pawl.same_value(state, ''open''::text) FROM orders';

CREATE FUNCTION pawl._above_support(internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_above_support';
COMMENT ON FUNCTION pawl._above_support(internal) IS 'internal: planner support of pawl._above';
CREATE FUNCTION pawl._above(one "any", other "any") RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT SUPPORT pawl._above_support AS 'MODULE_PATHNAME', 'pawl_above';
COMMENT ON FUNCTION pawl._above("any", "any") IS
'internal: whether a value comes after another of its type, by the type''s default operator class';

CREATE FUNCTION pawl._among_support(internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE STRICT AS 'MODULE_PATHNAME', 'pawl_among_support';
COMMENT ON FUNCTION pawl._among_support(internal) IS 'internal: planner support of pawl._among';
CREATE FUNCTION pawl._among(value "any", labels text[]) RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE STRICT SUPPORT pawl._among_support AS 'MODULE_PATHNAME', 'pawl_among';
COMMENT ON FUNCTION pawl._among("any", text[]) IS
'internal: whether an enum is one of these labels, as value IN (...) is when no cast interferes';

-- A text as a value of a type. Users cannot replace the casts of PostgreSQL's own types; other types are read by their
-- input function, a domain as its base type.
CREATE FUNCTION pawl.value_expression(expression text, type oid, typmod integer) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    WITH RECURSIVE down(base, typmod, steps) AS (
        SELECT type, typmod, 0
        UNION ALL
        SELECT t.typbasetype, -1, d.steps + 1 FROM down d JOIN pg_type t ON t.oid = d.base AND t.typtype = 'd')
    SELECT CASE WHEN d.base < 16384 THEN format('(%s)::%s', expression, format_type(d.base, d.typmod))
                ELSE format('pawl._value(%s, NULL::%s)', expression, format_type(d.base, NULL)) END
      FROM down d ORDER BY d.steps DESC LIMIT 1
$function$;
COMMENT ON FUNCTION pawl.value_expression(text, oid, integer) IS
'Returns an expression that reads a text as a value of a type, for format() and EXECUTE. expression: one of type
text; type, typmod: of the value, as in pg_attribute. Errors: none. Privileges: all roles. Example: SELECT
pawl.value_expression(''$1'', ''integer''::regtype, -1)';

-- Code that a table's owner has attached to it runs as that owner. pawl._owner_statements builds the statements and
-- checks whether the caller may have them run, so no statement of the caller's runs.
CREATE FUNCTION pawl.read_as_owner(relation regclass, state_column name, what text) RETURNS SETOF record
LANGUAGE c STABLE PARALLEL UNSAFE STRICT ROWS 100 AS 'MODULE_PATHNAME', 'pawl_as_owner';
COMMENT ON FUNCTION pawl.read_as_owner(regclass, name, text) IS
'Reads a bound table as its owner, in a security-restricted operation, after a check that the caller can read it.
relation, state_column: the binding. what: claimable, other, owners, timers, states, stays, log, verify or
verify_work; the caller lists the columns of the result.
Errors: 42501 the caller cannot read the table; 42804 other columns. Privileges: all roles.
Example: SELECT * FROM pawl.read_as_owner(''orders'', ''state'', ''states'') r(state text, n bigint, estimated
boolean)';
