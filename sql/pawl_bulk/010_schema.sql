CREATE SCHEMA pawl_bulk;
COMMENT ON SCHEMA pawl_bulk IS 'bulk operations: their definitions, the rows that come in, their records step by step, and the duties that move them on';

-- A dump brings what followed from its rows along; nothing is to follow from them again. pawl lets superusers alone set this.
CREATE FUNCTION pawl_bulk._restoring() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SECURITY INVOKER
RETURN coalesce(pg_catalog.current_setting('pawl.restoring', true), '') IN ('on', 'true', '1');
COMMENT ON FUNCTION pawl_bulk._restoring() IS 'internal: a dump is being loaded';
