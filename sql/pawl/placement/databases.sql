-- Which database a namespace is in, where the work of packs is divided among several databases. A task, an operation
-- or a flow is in one database, and so is its whole namespace. One database, the home, has the tables that count; the
-- other members have copies, which say which rows they take. A database that is not a member takes everything.

CREATE TABLE pawl.database (
    name text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    connection text COLLATE "C" NOT NULL,
    is_home boolean NOT NULL DEFAULT false,
    is_here boolean NOT NULL DEFAULT false,
    added_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE pawl.database IS 'the databases among which namespaces are divided; no rows: there is only this one';
COMMENT ON COLUMN pawl.database.connection IS 'a libpq connection string without a password';
COMMENT ON COLUMN pawl.database.is_home IS 'the database whose pawl.placement counts';
COMMENT ON COLUMN pawl.database.is_here IS 'this database';
CREATE UNIQUE INDEX database_home ON pawl.database (is_home) WHERE is_home;
CREATE UNIQUE INDEX database_here ON pawl.database (is_here) WHERE is_here;
SELECT pg_catalog.pg_extension_config_dump('pawl.database', '');

CREATE TABLE pawl.placement (
    kind text COLLATE "C" NOT NULL CHECK (kind <> ''),
    namespace text COLLATE "C" CHECK (namespace <> ''),
    database text COLLATE "C" NOT NULL REFERENCES pawl.database ON UPDATE CASCADE,
    placed_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (kind, namespace)
);
COMMENT ON TABLE pawl.placement IS 'which database a namespace is in';
COMMENT ON COLUMN pawl.placement.kind IS 'whose namespace it is: dag, bulk or saga, where the packs are installed';
COMMENT ON COLUMN pawl.placement.namespace IS 'null: each namespace of the kind that has no row of its own';
SELECT pg_catalog.pg_extension_config_dump('pawl.placement', '');

-- Every user can read connection strings, and a server's log may have them.
CREATE FUNCTION pawl._database_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.database');
BEGIN
    IF NEW.connection ~* '(^|[[:space:]&?])(ssl)?password[[:space:]]*='
        OR NEW.connection ~ '^[a-z]+://[^/@]*:[^/@]*@' THEN
        PERFORM pawl.raise('22023', format('the connection of database "%s" has a password', NEW.name),
            'Every user of this database can read it.',
            'put the password into ~/.pgpass, or the connection into pg_service.conf and give "service=..."');
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._database_check() IS 'internal: rejects connections with passwords';
CREATE TRIGGER checked BEFORE INSERT OR UPDATE ON pawl.database
    FOR EACH ROW EXECUTE FUNCTION pawl._database_check();

-- What the packs declare: the tables that have the rows of a namespace.
CREATE TABLE pawl.placed_table (
    kind text COLLATE "C" NOT NULL,
    ordinal integer NOT NULL,
    relation regclass NOT NULL,
    role text COLLATE "C" NOT NULL CHECK (role = ANY ('{unit,part,shared}')),
    namespace_column name,
    key_columns name[] NOT NULL DEFAULT '{}',
    parent regclass,
    parent_columns name[] NOT NULL DEFAULT '{}',
    only_if text,
    is_queue boolean NOT NULL DEFAULT false,
    local_queues text[] NOT NULL DEFAULT '{}',
    identity name[] NOT NULL DEFAULT '{}',
    content name[] NOT NULL DEFAULT '{}',
    id_column name,
    referring regclass[] NOT NULL DEFAULT '{}',
    referring_columns name[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (kind, ordinal),
    CHECK ((namespace_column IS NULL) = (parent IS NOT NULL)),
    CHECK (pg_catalog.cardinality(key_columns) = pg_catalog.cardinality(parent_columns)),
    CHECK (pg_catalog.cardinality(referring) = pg_catalog.cardinality(referring_columns))
);
COMMENT ON TABLE pawl.placed_table IS
'the tables whose rows belong to namespaces; written by pawl.declare_placed, read by moves of a namespace';
COMMENT ON COLUMN pawl.placed_table.role IS
'unit: the row has the namespace; part: it belongs to a row of parent; shared: a definition, which is copied and stays';
COMMENT ON COLUMN pawl.placed_table.key_columns IS 'the columns that equal parent_columns in a row of parent';
COMMENT ON COLUMN pawl.placed_table.only_if IS 'a condition on the row, which is r; null: none';
COMMENT ON COLUMN pawl.placed_table.is_queue IS 'the queues of the table are namespaces, but for local_queues';
COMMENT ON COLUMN pawl.placed_table.identity IS 'of shared rows: two databases have the same one if these are equal';
COMMENT ON COLUMN pawl.placed_table.content IS '... and then these must be equal, too';
COMMENT ON COLUMN pawl.placed_table.id_column IS
'of shared rows: their id, which may differ; columns referring_columns of the tables referring then get the other one';

-- ALWAYS: also in a restore, and where replication applies changes.
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pawl.database
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate_truncate AFTER TRUNCATE ON pawl.database
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pawl.placement
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate_truncate AFTER TRUNCATE ON pawl.placement
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pawl.placed_table
    FOR EACH STATEMENT EXECUTE FUNCTION pawl.invalidate();
ALTER TABLE pawl.database ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE pawl.database ENABLE ALWAYS TRIGGER invalidate_truncate;
ALTER TABLE pawl.placement ENABLE ALWAYS TRIGGER invalidate;
ALTER TABLE pawl.placement ENABLE ALWAYS TRIGGER invalidate_truncate;
ALTER TABLE pawl.placed_table ENABLE ALWAYS TRIGGER invalidate;

CREATE FUNCTION pawl.require_here(kind text, namespace text) RETURNS void
LANGUAGE c STABLE PARALLEL RESTRICTED STRICT AS 'MODULE_PATHNAME', 'pawl_require_here';
COMMENT ON FUNCTION pawl.require_here(text, text) IS
'Raises PW009 if a namespace is placed in another database than this one. Does nothing in a database that is not one of
several.
kind: dag, bulk or saga. namespace: its name; of bulk operations the name of their definition, of sagas the board.
Errors: PW009 it is placed elsewhere, and the message says where. Privileges: all roles.
Example: SELECT pawl.require_here(''dag'', ''billing'')';

CREATE FUNCTION pawl.check_placed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'pawl_check_placed';
COMMENT ON FUNCTION pawl.check_placed() IS
'trigger BEFORE INSERT OR UPDATE, FOR EACH ROW, with the kind and the column of the namespace: rejects rows of
namespaces that are placed in another database; PW009';

CREATE FUNCTION pawl.where_is(kind text, namespace text, OUT database text, OUT connection text, OUT here boolean)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT d.name, d.connection, d.is_here FROM pawl.placement p JOIN pawl.database d ON d.name = p.database
     WHERE p.kind = $1 AND (p.namespace = $2 OR p.namespace IS NULL) ORDER BY p.namespace NULLS LAST LIMIT 1
$function$;
COMMENT ON FUNCTION pawl.where_is(text, text) IS
'Returns the database that a namespace is placed in, as this database knows it: database, connection (a libpq string)
and here (whether it is this one). Null: it is placed in none, or this database is not one of several.
kind: dag, bulk or saga. namespace: its name; of bulk operations the name of their definition, of sagas the board.
Errors: none. Privileges: all roles. Example: SELECT * FROM pawl.where_is(''dag'', ''billing'')';

CREATE FUNCTION pawl.declare_placed(kind text, tables jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    declared record;
BEGIN
    PERFORM pawl._check_objects(tables, 'tables', '{"relation": "name", "role": "name"}',
        '[{"relation": "public.orders", "role": "unit", "namespace_column": "customer"}]');
    DELETE FROM pawl.placed_table p WHERE p.kind = declare_placed.kind;
    INSERT INTO pawl.placed_table (kind, ordinal, relation, role, namespace_column, key_columns, parent, parent_columns,
        only_if, is_queue, local_queues, identity, content, id_column, referring, referring_columns)
    SELECT declare_placed.kind, t.n, x.relation, x.role, x.namespace_column, coalesce(x.key_columns, '{}'), x.parent,
           coalesce(x.parent_columns, x.key_columns, '{}'), x.only_if, coalesce(x.is_queue, false),
           coalesce(x.local_queues, '{}'), coalesce(x.identity, '{}'), coalesce(x.content, '{}'), x.id_column,
           coalesce(x.referring, '{}'), coalesce(x.referring_columns, '{}')
      FROM jsonb_array_elements(tables) WITH ORDINALITY t(value, n)
     CROSS JOIN LATERAL jsonb_populate_record(NULL::pawl.placed_table, t.value) x;
    FOR declared IN
        SELECT p.relation, p.namespace_column, format('check_placed_%s', p.kind) AS trigger_name
          FROM pawl.placed_table p WHERE p.kind = declare_placed.kind AND p.role = 'unit' LOOP
        EXECUTE format('CREATE OR REPLACE TRIGGER %1$I BEFORE INSERT OR UPDATE OF %2$I ON %3$s '
            'FOR EACH ROW EXECUTE FUNCTION pawl.check_placed(%4$L, %2$L)',
            declared.trigger_name, declared.namespace_column, declared.relation, kind);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', declared.relation, declared.trigger_name);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl.declare_placed(text, jsonb) IS
'Declares the tables that have the rows of namespaces of a kind, for extensions that divide their work among databases.
Called again it replaces the declaration.
kind: a name of the kind. tables: an array of objects with the columns of pawl.placed_table, in the order in which rows
are copied: first the tables of role unit, whose rows have the namespace, with namespace_column; then those of role
part, with key_columns, parent and, if they have other names, parent_columns; and definitions, with role shared.
Errors: 22023 no array of objects; 42P01 no such table; 23514 a combination that means nothing. Privileges:
the owner of the extension, because moves read and write the tables with its rights.
Example: SELECT pawl.declare_placed(''shop'', ''[{"relation": "public.orders", "role": "unit",
"namespace_column": "customer"}]'')';
