-- What each role may do.
\pset null '(null)'
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE ROLE t_priv_admin;
CREATE ROLE t_priv_owner;
CREATE ROLE t_priv_clerk;
CREATE ROLE t_priv_reader;
CREATE ROLE t_priv_stranger;
GRANT pawl_admin TO t_priv_admin;
GRANT pawl_reader TO t_priv_reader;
CREATE SCHEMA t_privileges;
GRANT ALL ON SCHEMA t_privileges TO PUBLIC;
SET search_path = t_privileges;
CREATE FUNCTION says(statement text) RETURNS text LANGUAGE plpgsql AS $function$
DECLARE
    code text; message text;
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
    RETURN code || ': ' || message;
END
$function$;

-- what PUBLIC may execute, and what each role adds
SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'pawl'::regnamespace AND p.proname !~ '^_'
    AND has_function_privilege('t_priv_stranger', p.oid, 'EXECUTE') ORDER BY 1;
SELECT r.rolname, string_agg(p.proname, ', ' ORDER BY p.proname) FROM pg_proc p, pg_roles r
 WHERE p.pronamespace = 'pawl'::regnamespace
     AND r.rolname IN ('pawl_admin', 'pawl_operator', 'pawl_worker', 'pawl_reader') AND p.proname !~ '^_'
   AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
       AND NOT has_function_privilege('t_priv_stranger', p.oid, 'EXECUTE') GROUP BY 1 ORDER BY 1;
-- which roles may execute what of the packs
\set QUIET 1
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS pawl_dag;
CREATE EXTENSION IF NOT EXISTS pawl_bulk;
CREATE EXTENSION IF NOT EXISTS pawl_saga;
CREATE EXTENSION IF NOT EXISTS pawl_api;
SET client_min_messages = warning;
\set QUIET 0
SELECT n.nspname, p.proname,
       (SELECT string_agg(substr(r.role, 6), ' ' ORDER BY r.place)
          FROM unnest('{pawl_admin,pawl_operator,pawl_worker,pawl_reader,pawl_authenticator}'::text[])
              WITH ORDINALITY r(role, place) WHERE has_function_privilege(r.role, p.oid, 'EXECUTE')) AS roles
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname IN ('pawl_dag', 'pawl_bulk', 'pawl_saga', 'pawl_api') AND p.proname !~ '^_' ORDER BY 1, 2, 3;
DROP EXTENSION pawl_api, pawl_saga, pawl_bulk, pawl_dag;
-- SECURITY DEFINER only with a fixed search_path; every function says how it may run
SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'pawl'::regnamespace AND p.prosecdef ORDER BY 1;
SELECT p.proname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.pronamespace = 'pawl'::regnamespace AND l.lanname = 'plpgsql'
     AND p.prokind <> 'p'  -- one that commits sets it itself
     AND NOT coalesce(p.proconfig::text LIKE '%search_path=pg_catalog, pg_temp%', false) ORDER BY 1;
SELECT count(*) FROM pg_proc p
    WHERE p.pronamespace = 'pawl'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL;

-- only admins define machines, and only through the functions
SET ROLE t_priv_stranger;
SELECT says($$SELECT pawl.define('privileges_order', 'stateDiagram-v2')$$);
SELECT says($$INSERT INTO pawl.machine (machine, version, source, diagram) VALUES ('a', 1, '', '')$$);
SELECT says($$INSERT INTO pawl.binding (relation, state_column, machine, version)
    VALUES ('pg_class', 'relname', 'a', 1)$$);
SELECT says($$DELETE FROM pawl.binding$$);
SET ROLE t_priv_admin;
SELECT pawl.define('privileges_order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> done : finish
    done --> [*]
$$);
SELECT defined_by FROM pawl.machine WHERE machine = 'privileges_order';

-- an admin binds only the tables that it owns
SET ROLE t_priv_owner;
CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL, secret text);
INSERT INTO orders VALUES (1, 'new'), (2, 'new'), (3, 'paid');
GRANT UPDATE (state), SELECT ON orders TO t_priv_clerk;
GRANT SELECT ON orders TO t_priv_reader;
GRANT SELECT ON orders TO PUBLIC;
SELECT says($$SELECT pawl.enforce('orders', 'state', 'privileges_order')$$);
SET ROLE t_priv_admin;
SELECT says($$SELECT pawl.enforce('t_privileges.orders', 'state', 'privileges_order')$$);
SELECT says($$INSERT INTO pawl.binding (relation, state_column, machine, version)
    VALUES ('t_privileges.orders', 'state', 'privileges_order', 1)$$);
RESET ROLE;
GRANT t_priv_owner TO t_priv_admin;
SET ROLE t_priv_admin;
SELECT says($$SELECT pawl.enforce('t_privileges.orders', 'state', 'privileges_order'),
    pawl.enable_log('t_privileges.orders', 'state')$$);
RESET ROLE;
-- (since PostgreSQL 17 an owner has m, MAINTAIN, too)
SELECT c.relname, c.relowner::regrole, replace(array_to_string(c.relacl, ' '), 'arwdDxtm', 'arwdDxt') FROM pg_class c
 WHERE c.relname IN ('orders_transitions', 'orders_transitions_log') AND c.relnamespace = 't_privileges'::regnamespace
 ORDER BY 1;

-- the right to UPDATE the table is enough, for every way of changing a state
SET ROLE t_priv_clerk;
SELECT says($$UPDATE orders SET state = 'paid' WHERE id = 1$$);
SELECT says($$UPDATE orders SET state = 'new' WHERE id = 1$$);
SELECT says($$INSERT INTO orders_transitions (subject_id, to_state) VALUES (2, 'paid')$$);
SELECT says($$INSERT INTO orders_transitions_log (subject_id, event) VALUES (2, 'finish')$$);
SELECT says($$SELECT pawl.fire('orders', 1, 'finish')$$);
SELECT subject_id, sort_key, to_state, actor, most_recent FROM orders_transitions ORDER BY 1, 2;
SELECT says($$DELETE FROM orders_transitions$$);
SELECT says($$SELECT pawl.release('orders')$$);
SELECT says($$SELECT pawl.upgrade('orders')$$);
SELECT says($$SELECT pawl._remap('orders', 'state', '{"new": "done"}')$$);
SELECT says($$SELECT * FROM pawl.verify()$$);

-- a role that may only read can read the log
SET ROLE t_priv_reader;
SELECT count(*) FROM pawl.history('orders', 1);
SELECT count(*) FROM pawl.verify('orders');
SELECT count(*) > 0 FROM pawl.health();
SELECT says($$SELECT pawl.fire('orders', 3, 'finish')$$);
SELECT says($$INSERT INTO orders_transitions (subject_id, to_state) VALUES (3, 'done')$$);
SELECT says($$SELECT pawl.define('privileges_order', '')$$);

-- the log of a table that PUBLIC reads is not PUBLIC's
SET ROLE t_priv_stranger;
SELECT says($$SELECT * FROM orders_transitions$$);
SELECT says($$SELECT * FROM pawl.history('orders', 1)$$);
SELECT says($$SELECT * FROM pawl.available('orders', 3)$$);
SELECT says($$UPDATE orders SET state = 'done' WHERE id = 3$$);

-- a log that is given to another role is out of reach of the table's owner, and is still written
RESET ROLE;
ALTER TABLE orders_transitions_log OWNER TO t_priv_reader;
SET ROLE t_priv_clerk;
SELECT says($$UPDATE orders SET state = 'done' WHERE id = 3$$);
SET ROLE t_priv_owner;
SELECT says($$ALTER TABLE orders_transitions_log DISABLE TRIGGER USER$$);
SELECT says($$SELECT count(*) FROM orders_transitions_log$$);
SET ROLE t_priv_admin;
SELECT pawl.define('privileges_order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> done : finish
    new --> done : skip
    done --> [*]
$$);
SELECT pawl.upgrade('t_privileges.orders');
SELECT says($$SELECT pawl.release('t_privileges.orders')$$);

-- an owner that is no admin cannot release the binding, but can drop the table
SET ROLE t_priv_owner;
SELECT says($$SELECT pawl.release('orders')$$);
SELECT says($$DROP TABLE orders$$);
RESET ROLE;
SELECT count(*) FROM pawl.binding WHERE machine = 'privileges_order';

-- what a reader may not see is named, not passed over
SET ROLE t_priv_owner;
CREATE TABLE hidden (id int PRIMARY KEY, state text NOT NULL);
GRANT SELECT ON hidden TO t_priv_reader;
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
SET ROLE t_priv_admin;
SELECT says($$SELECT pawl.enforce('t_privileges.hidden', 'state', 'privileges_order'),
    pawl.enable_log('t_privileges.hidden', 'state')$$);
SET ROLE t_priv_reader;
SELECT says($$SELECT * FROM hidden_transitions$$);
SELECT relation, problem, detail FROM pawl.verify() WHERE relation = 'hidden'::regclass;

RESET ROLE;
DROP SCHEMA t_privileges CASCADE;
DELETE FROM pawl.machine WHERE machine = 'privileges_order';
DROP OWNED BY t_priv_admin, t_priv_owner, t_priv_clerk, t_priv_reader, t_priv_stranger;
DROP ROLE t_priv_admin, t_priv_owner, t_priv_clerk, t_priv_reader, t_priv_stranger;
