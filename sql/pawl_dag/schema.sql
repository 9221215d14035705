CREATE SCHEMA pawl_dag;
COMMENT ON SCHEMA pawl_dag IS
'workflows: templates of steps and their dependencies, the tasks that run them, and the duties that advance them';

-- Every orchestrator is one logical processor: its work is a transaction, so it never
-- crashes half-way and leaves nothing behind.
CREATE FUNCTION pawl_dag.engine() RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
RETURN '019b0000-0000-7000-8000-00000000da90'::pg_catalog.uuid;
COMMENT ON FUNCTION pawl_dag.engine() IS
'Returns the processor under which the orchestrators of this database own tasks.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader. Example: SELECT pawl_dag.engine()';
