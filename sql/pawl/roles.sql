CREATE SCHEMA pawl;
COMMENT ON SCHEMA pawl IS 'state machines enforced on tables: machines, bindings, and functions that change states';

CREATE FUNCTION pawl._check_library(version text) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME', 'pawl_check_library';
COMMENT ON FUNCTION pawl._check_library(text) IS 'internal: 55000 if the library is older than the SQL objects';
SELECT pawl._check_library(e.extversion) FROM pg_catalog.pg_extension e WHERE e.extname = 'pawl';

-- Roles belong to the cluster, so they may exist already; they are not dropped with the extension.
DO $roles$
DECLARE
    role_name text;
    about text;
BEGIN
    FOR role_name, about IN
        VALUES ('pawl_admin', 'pawl: defines machines, enforces them on tables it owns, releases and upgrades them'),
               ('pawl_operator', 'pawl: changes states by event, watches health and verifies logs'),
               ('pawl_worker', 'pawl: changes states by event and reads the logs'),
               ('pawl_reader', 'pawl: reads machines, histories, health'),
               ('pawl_restore',
                   'pawl: loads the data of pawl from a dump, for tables it owns; trusted with what the dump says')
    LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = role_name) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', role_name);
                EXECUTE pg_catalog.format('COMMENT ON ROLE %I IS %L', role_name, about);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- another database of the cluster creates the extension at this moment
            END;
        END IF;
    END LOOP;
END
$roles$;
