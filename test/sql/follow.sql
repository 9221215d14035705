-- DDL on enforced tables is followed or rejected.
CREATE SCHEMA t_follow;
SET search_path = t_follow;
\getenv tests PG_ABS_SRCDIR
\set says :tests '/sql/shared/says.psql'
\i :says
CREATE FUNCTION ours(relation regclass) RETURNS text LANGUAGE sql
RETURN (SELECT string_agg(format('%s %s', t.tgname, t.tgenabled), ', ' ORDER BY t.tgname) FROM pg_trigger t
    WHERE t.tgrelid = ours.relation AND t.tgname ~ 'pawl');

SELECT pawl.define('follow_order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> done : finish
    done --> [*]
$$);

-- renames: columns, table, schema
CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL, comment_text text);
INSERT INTO orders VALUES (1, 'new'), (2, 'new');
SELECT pawl.enforce('orders', 'state', 'follow_order'), pawl.enable_log('orders', 'state', most_recent => 'stored');
ALTER TABLE orders RENAME COLUMN state TO "Status";
SELECT state_column FROM pawl.binding WHERE relation = 'orders'::regclass;
UPDATE orders SET "Status" = 'paid' WHERE id = 1;
SELECT says($$UPDATE orders SET "Status" = 'done' WHERE id = 2$$);
ALTER TABLE orders RENAME COLUMN id TO number;
SELECT key_columns, log_key_columns FROM pawl.binding WHERE relation = 'orders'::regclass;
UPDATE orders SET "Status" = 'paid' WHERE number = 2;
SELECT number, sort_key, to_state FROM orders_transitions ORDER BY 1, 2;
ALTER TABLE orders RENAME COLUMN number TO hash;
SELECT key_columns, log_key_columns FROM pawl.binding WHERE relation = 'orders'::regclass;
ALTER TABLE orders RENAME COLUMN hash TO number;
ALTER TABLE orders RENAME TO purchases;
CREATE SCHEMA t_follow_elsewhere;
ALTER TABLE purchases SET SCHEMA t_follow_elsewhere;
ALTER TABLE orders_transitions SET SCHEMA t_follow_elsewhere;
SELECT says($$UPDATE t_follow_elsewhere.purchases SET "Status" = 'new' WHERE number = 2$$) LIKE 'PW001:%';
UPDATE t_follow_elsewhere.purchases SET "Status" = 'done' WHERE number = 2;
ALTER SCHEMA t_follow_elsewhere RENAME TO t_follow_moved;
SELECT sort_key, from_state, to_state, event FROM pawl.history('t_follow_moved.purchases', 2);
SELECT * FROM pawl.verify('t_follow_moved.purchases');
SELECT check_name, status, detail FROM pawl.health()
    WHERE relation = 't_follow_moved.purchases'::regclass AND status <> 'ok';

-- a renamed key of a derived log: the view follows too
CREATE TABLE derived (a int, b int, state text NOT NULL, PRIMARY KEY (a, b));
INSERT INTO derived VALUES (1, 2, 'new');
SELECT pawl.enforce('derived', 'state', 'follow_order'), pawl.enable_log('derived', 'state');
ALTER TABLE derived RENAME COLUMN b TO c;
SELECT a, c, to_state, most_recent FROM derived_transitions;

-- DDL that would break a binding is rejected
SELECT says($$ALTER TABLE t_follow_moved.purchases DROP COLUMN "Status"$$);
SELECT says($$ALTER TABLE t_follow_moved.purchases DROP COLUMN number$$);
SELECT says($$ALTER TABLE t_follow_moved.purchases DROP COLUMN comment_text$$);
SELECT says($$ALTER TABLE t_follow_moved.purchases ALTER COLUMN "Status" TYPE char(10)$$);
SELECT says($$ALTER TABLE t_follow_moved.purchases ALTER COLUMN "Status" TYPE varchar(3) USING 'new'$$);
SELECT says($$ALTER TABLE t_follow_moved.purchases ALTER COLUMN "Status" TYPE varchar(10)$$);
SELECT says($$ALTER TABLE t_follow_moved.purchases ALTER COLUMN number TYPE bigint$$);
SELECT says($$UPDATE t_follow_moved.purchases SET "Status" = 'done' WHERE number = 1$$);
DROP SCHEMA t_follow_moved CASCADE;
SELECT count(*) FROM pawl.binding WHERE machine = 'follow_order';

-- partitions that come and go
CREATE TABLE tree (id int PRIMARY KEY, state text NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (1) TO (10);
INSERT INTO tree VALUES (1, 'new');
SELECT pawl.enforce('tree', 'state', 'follow_order', always => true),
    pawl.enable_log('tree', 'state', most_recent => 'stored', hash_chain => true);
CREATE TABLE tree_2 PARTITION OF tree FOR VALUES FROM (10) TO (20);
SELECT ours('tree_2');
INSERT INTO tree VALUES (10, 'new');
CREATE TABLE tree_3 (id int PRIMARY KEY, state text NOT NULL);
INSERT INTO tree_3 VALUES (20, 'paid'), (21, 'odd'), (22, 'even');
SELECT says($$ALTER TABLE tree ATTACH PARTITION tree_3 FOR VALUES FROM (20) TO (30)$$);
SELECT ours('tree_3');
UPDATE tree_3 SET state = 'done' WHERE id > 20;
SELECT says($$ALTER TABLE tree ATTACH PARTITION tree_3 FOR VALUES FROM (20) TO (30)$$);
SELECT ours('tree_3');
SELECT id IS NOT NULL, subject_id, sort_key, from_state, to_state, event FROM tree_transitions ORDER BY 2, 3;
SELECT says($$UPDATE tree_3 SET state = 'new' WHERE id = 20$$) LIKE 'PW001:%';
SELECT says($$UPDATE tree_3 SET state = 'done' WHERE id = 20$$);
SELECT * FROM pawl.verify('tree_3');
ALTER TABLE tree DETACH PARTITION tree_3;
SELECT ours('tree_3');
SELECT key, problem, detail FROM pawl.verify('tree');
-- back again: rows as they left are taken in, others are not
SELECT says($$ALTER TABLE tree ATTACH PARTITION tree_3 FOR VALUES FROM (20) TO (30)$$);
ALTER TABLE tree DETACH PARTITION tree_3;
UPDATE tree_3 SET state = 'new' WHERE id = 20;
SELECT says($$ALTER TABLE tree ATTACH PARTITION tree_3 FOR VALUES FROM (20) TO (30)$$);
UPDATE tree_3 SET state = 'done' WHERE id = 20;
-- rows are not checked with an old snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT says($$ALTER TABLE tree ATTACH PARTITION tree_3 FOR VALUES FROM (20) TO (30)$$);
CREATE TABLE tree_9 PARTITION OF tree FOR VALUES FROM (90) TO (100);
DROP TABLE tree_9;
COMMIT;
-- a partition with partitions
CREATE TABLE tree_4 (id int PRIMARY KEY, state text NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE tree_4_1 PARTITION OF tree_4 FOR VALUES FROM (30) TO (35);
INSERT INTO tree_4 VALUES (30, 'nowhere');
SELECT says($$ALTER TABLE tree ATTACH PARTITION tree_4 FOR VALUES FROM (30) TO (40)$$);
UPDATE tree_4 SET state = 'new';
SELECT says($$ALTER TABLE tree ATTACH PARTITION tree_4 FOR VALUES FROM (30) TO (40)$$);
CREATE TABLE tree_4_2 PARTITION OF tree_4 FOR VALUES FROM (35) TO (40);
SELECT relid, ours(relid) FROM pg_partition_tree('tree') ORDER BY relid::text;
SELECT * FROM pawl.verify('tree');
ALTER TABLE tree DETACH PARTITION tree_4;
SELECT ours('tree_4'), ours('tree_4_1'), ours('tree_4_2');
SELECT says($$DROP TABLE tree_4$$);
-- foreign tables cannot be guarded
CREATE FOREIGN DATA WRAPPER t_follow_fdw;
CREATE SERVER t_follow_server FOREIGN DATA WRAPPER t_follow_fdw;
CREATE TABLE plain (id int, state text) PARTITION BY RANGE (id);
SELECT pawl.enforce('plain', 'state', 'follow_order');
SELECT says($$CREATE FOREIGN TABLE plain_1 PARTITION OF plain FOR VALUES FROM (1) TO (2) SERVER t_follow_server$$);
DROP FOREIGN DATA WRAPPER t_follow_fdw CASCADE;

-- inheritance children that come and go
CREATE TABLE parent (id int PRIMARY KEY, state text NOT NULL);
SELECT pawl.enforce('parent', 'state', 'follow_order'), pawl.enable_log('parent', 'state');
CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
SELECT ours('child');
INSERT INTO child VALUES (1, 'new');
SELECT says($$UPDATE parent SET state = 'done'$$) LIKE 'PW001:%';
CREATE TABLE grandchild (id int PRIMARY KEY, state text NOT NULL);
INSERT INTO grandchild VALUES (2, 'odd');
SELECT says($$ALTER TABLE grandchild INHERIT child$$);
UPDATE grandchild SET state = 'paid';
SELECT says($$ALTER TABLE grandchild INHERIT child$$);
SELECT ours('grandchild');
SELECT subject_id, sort_key, to_state, event FROM parent_transitions ORDER BY 1, 2;
ALTER TABLE child NO INHERIT parent;
SELECT ours('child'), ours('grandchild');
ALTER TABLE child INHERIT parent;
SELECT ours('child') = ours('grandchild');
CREATE TABLE bound_child (id int PRIMARY KEY, state text NOT NULL);
SELECT pawl.enforce('bound_child', 'state', 'follow_order');
SELECT says($$ALTER TABLE bound_child INHERIT parent$$);
SELECT says($$CREATE TEMP TABLE temporary_child () INHERITS (parent)$$) LIKE '0A000:%';

-- other people's DDL is none of our business
CREATE TABLE bystander (id int, state text);
ALTER TABLE bystander RENAME state TO status;
ALTER TABLE bystander DROP COLUMN status;
DROP TABLE bystander;
CREATE TYPE bystander_type AS (a int);
ALTER TYPE bystander_type ADD ATTRIBUTE b int;

-- a closed schema: DDL elsewhere goes on, an enforced tree takes nothing in unseen
CREATE ROLE t_follow_owner;
GRANT ALL ON SCHEMA t_follow TO t_follow_owner;
ALTER TABLE tree OWNER TO t_follow_owner;
ALTER TABLE tree_1 OWNER TO t_follow_owner;
ALTER TABLE tree_2 OWNER TO t_follow_owner;
ALTER TABLE tree_transitions OWNER TO t_follow_owner;
SET ROLE t_follow_owner;
CREATE TABLE tree_5 PARTITION OF tree FOR VALUES FROM (50) TO (60);
SELECT ours('tree_5');
CREATE TABLE tree_6 (id int PRIMARY KEY, state text NOT NULL);
INSERT INTO tree_6 VALUES (60, 'done');
ALTER TABLE tree ATTACH PARTITION tree_6 FOR VALUES FROM (60) TO (70);
SELECT actor FROM tree_transitions WHERE subject_id = 60;
ALTER TABLE tree RENAME COLUMN state TO status;
SELECT state_column FROM pawl.binding WHERE relation = 'tree'::regclass;
RESET ROLE;
REVOKE USAGE ON SCHEMA pawl FROM PUBLIC;
SET ROLE t_follow_owner;
CREATE TABLE mine (id int);
ALTER TABLE mine ADD COLUMN b int;
SELECT says($$CREATE TABLE tree_7 PARTITION OF tree FOR VALUES FROM (70) TO (80)$$);
ALTER TABLE tree RENAME COLUMN status TO state;
ALTER TABLE tree DETACH PARTITION tree_6;
SELECT ours('tree_6');
INSERT INTO tree VALUES (51, 'new');
RESET ROLE;
GRANT USAGE ON SCHEMA pawl TO PUBLIC;
SELECT state_column FROM pawl.binding WHERE relation = 'tree'::regclass;

DROP SCHEMA t_follow CASCADE;
DROP OWNED BY t_follow_owner;
DROP ROLE t_follow_owner;
SELECT count(*) FROM pawl.binding WHERE machine = 'follow_order';
DELETE FROM pawl.machine WHERE machine = 'follow_order';
