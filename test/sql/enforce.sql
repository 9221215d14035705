-- pawl.enforce, pawl.release: what can be attached to what, and what is said when it cannot.
CREATE SCHEMA t_enforce;
SET search_path = t_enforce;
\getenv tests PG_ABS_SRCDIR
\set says :tests '/sql/shared/says.psql'
\i :says

SELECT pawl.define('enforce_order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> done : finish
    new --> dropped : drop
    done --> [*]
    dropped --> [*]
$$) AS version;

-- a table that has rows
CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL);
INSERT INTO orders VALUES (1, 'new'), (2, 'paid'), (3, 'done');
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order')$$);
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'orders'::regclass ORDER BY tgname;
SELECT relation, state_column, machine, version, key_columns, history, most_recent, hash_chain, on_delete, always,
    enforced_by = current_user AS mine
  FROM pawl.binding WHERE relation = 'orders'::regclass;
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.release('orders')$$);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'orders'::regclass;
SELECT says($$SELECT pawl.release('orders')$$);
SELECT says($$SELECT pawl.release('orders', 'state')$$);

-- rows in states that the machine does not have
CREATE TABLE strange (id int PRIMARY KEY, state text);
INSERT INTO strange VALUES (1, 'foo'), (2, 'foo'), (3, 'bar'), (4, NULL), (5, 'new');
SELECT says($$SELECT pawl.enforce('strange', 'state', 'enforce_order')$$);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'strange'::regclass;
DELETE FROM strange WHERE state <> 'new';
SELECT says($$SELECT pawl.enforce('strange', 'state', 'enforce_order'), pawl.enable_log('strange', 'state')$$);
SELECT to_regclass('strange_transitions');

-- NULL
SELECT says($$SELECT pawl.enforce(NULL, 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('orders', NULL, 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', NULL)$$);
SELECT says($$SELECT pawl.release(NULL)$$);
SELECT says($$SELECT pawl.upgrade(NULL)$$);

-- rows are not checked with an old snapshot
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order')$$);
COMMIT;

-- unknown names and values
SELECT says($$SELECT pawl.enforce('nowhere', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce(1::oid, 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('orders', 'nothing', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('orders', 'ctid', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order', version => 7)$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order'),
    pawl.enable_log('orders', most_recent => 'sometimes')$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order', on_delete => 'perhaps')$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order', key => '{nothing}')$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order', key => '{state}')$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order', key => '{id,id}')$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', 'enforce_order', key => ARRAY['id', NULL]::name[])$$);
SELECT says($$SELECT pawl.upgrade('orders')$$);
SELECT says($$SELECT pawl.upgrade('orders', 'state')$$);

-- what is no table, or not one of ours to guard
CREATE VIEW a_view AS SELECT * FROM orders;
CREATE MATERIALIZED VIEW a_matview AS SELECT * FROM orders;
CREATE SEQUENCE a_sequence;
CREATE TEMP TABLE a_temp (id int PRIMARY KEY, state text NOT NULL);
CREATE FOREIGN DATA WRAPPER t_enforce_fdw;
CREATE SERVER t_enforce_server FOREIGN DATA WRAPPER t_enforce_fdw;
CREATE FOREIGN TABLE a_foreign (id int, state text) SERVER t_enforce_server;
SELECT says($$SELECT pawl.enforce('a_view', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('a_matview', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('a_sequence', 'last_value', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('a_foreign', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('orders_pkey', 'id', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('a_temp', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('pg_catalog.pg_class', 'relname', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('information_schema.sql_features', 'comments', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('pawl.machine', 'unbound', 'enforce_order')$$);
DROP FOREIGN DATA WRAPPER t_enforce_fdw CASCADE;

-- types of the state column
CREATE TYPE short_enum AS ENUM ('new', 'paid');
CREATE TYPE full_enum AS ENUM ('new', 'paid', 'done', 'dropped', 'extra');
CREATE DOMAIN text_domain AS text;
CREATE DOMAIN nested_domain AS text_domain CHECK (VALUE <> '');
CREATE DOMAIN narrow_domain AS varchar(4);
CREATE DOMAIN picky_domain AS text CHECK (VALUE <> 'done');
CREATE DOMAIN enum_domain AS full_enum;
CREATE TABLE types (id int PRIMARY KEY, c_int int, c_char char(10), c_name name, c_json json, c_short short_enum,
    c_full full_enum,
    c_varchar varchar(7), c_tight varchar(6), c_text text_domain, c_nested nested_domain, c_narrow narrow_domain,
    c_picky picky_domain,
    c_enum_domain enum_domain, c_array text[], c_generated text GENERATED ALWAYS AS ('new') STORED,
    c_identity int GENERATED ALWAYS AS IDENTITY);
SELECT says($$SELECT pawl.enforce('types', 'c_int', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_char', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_name', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_json', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_array', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_generated', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_identity', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_short', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_tight', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_narrow', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', 'c_picky', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('types', c, 'enforce_order')
    FROM unnest('{c_full,c_varchar,c_text,c_nested,c_enum_domain}'::name[]) c$$);
SELECT state_column FROM pawl.binding WHERE relation = 'types'::regclass ORDER BY 1;
-- one set of triggers serves all of them
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'types'::regclass;
SELECT says($$SELECT pawl.release('types')$$);
SELECT says($$SELECT pawl.release('types', c) FROM unnest('{c_full,c_varchar,c_text,c_nested}'::name[]) c$$);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'types'::regclass;
SELECT says($$SELECT pawl.release('types')$$);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'types'::regclass;

-- an enum that loses a label in use
CREATE TABLE by_enum (id int PRIMARY KEY, state full_enum NOT NULL);
SELECT says($$SELECT pawl.enforce('by_enum', 'state', 'enforce_order')$$);
SELECT says($$ALTER TYPE full_enum RENAME VALUE 'extra' TO 'more'$$);
SELECT says($$ALTER TYPE full_enum RENAME VALUE 'paid' TO 'payed'$$);
ALTER TYPE full_enum ADD VALUE 'further';
DROP TABLE by_enum;

-- keys
CREATE TABLE keyless (id int, state text NOT NULL);
SELECT says($$SELECT pawl.enforce('keyless', 'state', 'enforce_order'), pawl.enable_log('keyless', 'state')$$);
SELECT says($$SELECT pawl.enforce('keyless', 'state', 'enforce_order')$$);
SELECT key_columns FROM pawl.binding WHERE relation = 'keyless'::regclass;
SELECT says($$SELECT pawl.release('keyless')$$);
INSERT INTO keyless VALUES (1, 'new'), (1, 'paid');
SELECT says($$SELECT pawl.enforce('keyless', 'state', 'enforce_order', key => '{id}'),
    pawl.enable_log('keyless', 'state')$$);
CREATE TABLE state_key (state text PRIMARY KEY);
SELECT says($$SELECT pawl.enforce('state_key', 'state', 'enforce_order'), pawl.enable_log('state_key', 'state')$$);
CREATE TABLE composite (b int, a text, state text, PRIMARY KEY (a, state, b));
SELECT says($$SELECT pawl.enforce('composite', 'state', 'enforce_order'), pawl.enable_log('composite', 'state')$$);
SELECT key_columns, log_key_columns FROM pawl.binding WHERE relation = 'composite'::regclass;

-- partitions and children
CREATE TABLE tree (id int, state text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (1) TO (10) PARTITION BY RANGE (id);
CREATE TABLE tree_1_1 PARTITION OF tree_1 FOR VALUES FROM (1) TO (10);
SELECT says($$SELECT pawl.enforce('tree_1_1', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('tree', 'state', 'enforce_order', always => true)$$);
SELECT tgrelid::regclass, tgname, tgenabled, tgparentid <> 0 AS cloned FROM pg_trigger
 WHERE tgrelid IN ('tree'::regclass, 'tree_1'::regclass, 'tree_1_1'::regclass) ORDER BY 1, 2;
SELECT says($$SELECT pawl.release('tree_1_1')$$);
SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('tree'::regclass, 'tree_1'::regclass, 'tree_1_1'::regclass);
CREATE TABLE parent (id int PRIMARY KEY, state text NOT NULL);
CREATE TABLE child () INHERITS (parent);
CREATE TABLE grandchild () INHERITS (child);
INSERT INTO grandchild VALUES (1, 'odd');
SELECT says($$SELECT pawl.enforce('parent', 'state', 'enforce_order')$$);
TRUNCATE grandchild;
SELECT says($$SELECT pawl.enforce('child', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('parent', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.release('child')$$);
SELECT says($$SELECT pawl.enforce('parent', 'state', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('grandchild', 'state', 'enforce_order')$$);
SELECT tgrelid::regclass, count(*) FROM pg_trigger
    WHERE tgrelid IN ('parent'::regclass, 'child'::regclass, 'grandchild'::regclass) GROUP BY 1 ORDER BY 1;
SELECT says($$SELECT pawl.release('parent')$$);
SELECT tgrelid::regclass, count(*) FROM pg_trigger
    WHERE tgrelid IN ('parent'::regclass, 'child'::regclass, 'grandchild'::regclass) GROUP BY 1 ORDER BY 1;

-- always is a matter of the table: it holds while one of its bindings asks for it
CREATE TABLE two (id int PRIMARY KEY, a text, b text);
SELECT says($$SELECT pawl.enforce('two', 'a', 'enforce_order')$$);
SELECT says($$SELECT pawl.enforce('two', 'b', 'enforce_order', always => true)$$);
SELECT DISTINCT tgenabled FROM pg_trigger WHERE tgrelid = 'two'::regclass;
SELECT says($$SELECT pawl.release('two', 'b')$$);
SELECT DISTINCT tgenabled FROM pg_trigger WHERE tgrelid = 'two'::regclass;

-- triggers that a schema-only restore has left without a binding
DELETE FROM pawl.binding WHERE relation = 'two'::regclass;
SELECT check_name, status, detail, hint FROM pawl.health() WHERE relation = 'two'::regclass;
SELECT says($$SELECT pawl.release('two')$$);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'two'::regclass;

DROP SCHEMA t_enforce CASCADE;
SELECT count(*) FROM pawl.binding WHERE machine = 'enforce_order';
DELETE FROM pawl.machine WHERE machine = 'enforce_order';
SELECT count(*) FROM pawl.machine_state WHERE machine = 'enforce_order';
