-- pawl.verify finds rows that bypassed the enforcement, pawl.health finds what let them;
-- pawl.upgrade takes a table to the newest version.
CREATE SCHEMA t_verify;
SET search_path = t_verify;
\getenv tests PG_ABS_SRCDIR
\set says :tests '/sql/shared/says.psql'
\i :says

SELECT pawl.define('verify_order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> done : finish
    done --> [*]
$$);
CREATE TABLE orders (id int PRIMARY KEY, state text);
INSERT INTO orders SELECT i, 'new' FROM generate_series(1, 12) i;
SELECT pawl.enforce('orders', 'state', 'verify_order'),
    pawl.enable_log('orders', 'state', most_recent => 'stored', hash_chain => true);
UPDATE orders SET state = 'paid';
UPDATE orders SET state = 'done' WHERE id > 6;
SELECT check_name, status, detail, hint FROM pawl.health() WHERE relation = 'orders'::regclass;
SELECT * FROM pawl.verify('orders');

-- what an owner can do: everything is found
ALTER TABLE orders DISABLE TRIGGER USER;
ALTER TABLE orders_transitions DISABLE TRIGGER USER;
SELECT check_name, status, detail, hint FROM pawl.health() WHERE relation = 'orders'::regclass AND status <> 'ok';
UPDATE orders SET state = 'lost' WHERE id = 1;
UPDATE orders SET state = NULL WHERE id = 2;
UPDATE orders SET state = 'new' WHERE id = 3;
DELETE FROM orders WHERE id = 4;
INSERT INTO orders VALUES (13, 'new');
DELETE FROM orders_transitions WHERE subject_id = 5 AND sort_key = 1;
UPDATE orders_transitions SET from_state = 'done' WHERE subject_id = 6 AND sort_key = 2;
UPDATE orders_transitions SET to_state = 'done' WHERE subject_id = 7 AND sort_key = 2;
UPDATE orders_transitions SET machine_version = 99 WHERE subject_id = 8 AND sort_key = 2;
UPDATE orders_transitions SET most_recent = false WHERE subject_id = 9 AND sort_key = 3;
UPDATE orders_transitions SET most_recent = true WHERE subject_id = 9 AND sort_key = 1;
UPDATE orders_transitions SET created_at = created_at - interval '1 day' WHERE subject_id = 10 AND sort_key = 3;
UPDATE orders_transitions SET actor = 'another role' WHERE subject_id = 11 AND sort_key = 1;
UPDATE orders_transitions SET to_state = 'done' WHERE subject_id = 12 AND sort_key = 1;
SELECT key, problem, regexp_replace(detail, 'its time is \S+( \S+)? before', 'its time is ... before')
    FROM pawl.verify('orders');
SELECT count(*) FROM pawl.verify() WHERE relation = 'orders'::regclass AND problem = 'unknown_state';

-- what health suggests, pasted
SELECT pawl.enforce('orders', 'state', 'verify_order');
SELECT pawl.enable_log('orders', 'state');
SELECT check_name, status, detail, hint FROM pawl.health() WHERE relation = 'orders'::regclass AND status <> 'ok';
DROP TRIGGER "~pawl_validate" ON orders;
ALTER TABLE orders ENABLE ALWAYS TRIGGER "!pawl_record";
DROP TRIGGER "!pawl_protect_truncate" ON orders_transitions;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER "~pawl_x_later" BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT check_name, status, detail, hint FROM pawl.health() WHERE relation = 'orders'::regclass AND status <> 'ok';
SELECT pawl.enforce('orders', 'state', 'verify_order');
DROP TRIGGER "~pawl_x_later" ON orders;
ALTER EVENT TRIGGER pawl_follow DISABLE;
ALTER TABLE orders RENAME COLUMN state TO status;
SELECT check_name, status, detail, hint FROM pawl.health()
    WHERE coalesce(relation = 'orders'::regclass, true) AND status <> 'ok';
ALTER EVENT TRIGGER pawl_follow ENABLE;
ALTER TABLE orders RENAME COLUMN status TO state;
SELECT check_name, status, detail, hint FROM pawl.health()
    WHERE coalesce(relation = 'orders'::regclass, true) AND status <> 'ok';
SELECT says($$SELECT pawl.verify('pg_class')$$);
SELECT says($$SELECT pawl.verify(1::oid::regclass)$$);

-- upgrade
CREATE TABLE ups (id int PRIMARY KEY, state text NOT NULL, other text NOT NULL DEFAULT 'new');
INSERT INTO ups VALUES (1, 'new'), (2, 'paid'), (3, 'paid'), (4, 'done');
SELECT pawl.enforce('ups', 'state', 'verify_order'),
    pawl.enable_log('ups', 'state', most_recent => 'stored', hash_chain => true);
SELECT pawl.enforce('ups', 'other', 'verify_order');
SELECT pawl.upgrade('ups', 'state');
SELECT says($$SELECT pawl.upgrade('ups', 'state', '{"paid": "new"}')$$);
SELECT says($$SELECT pawl.upgrade('ups')$$);
SELECT pawl.define('verify_order', $$stateDiagram-v2
    [*] --> new
    new --> settled : pay
    settled --> done : finish
    done --> [*]
$$);
SELECT check_name, status, detail, hint FROM pawl.health()
    WHERE relation = 'ups'::regclass AND state_column = 'state' AND status <> 'ok';
SELECT says($$SELECT pawl.upgrade('ups', 'state')$$);
SELECT says($$SELECT pawl.upgrade('ups', 'state', '[]')$$);
SELECT says($$SELECT pawl.upgrade('ups', 'state', '{"nothing": "new"}')$$);
SELECT says($$SELECT pawl.upgrade('ups', 'state', '{"paid": "nothing"}')$$);
SELECT says($$SELECT pawl.upgrade('ups', 'state', '{"paid": 1}')$$);
SELECT says($$SELECT pawl.upgrade('ups', 'state', '{"paid": null}')$$);
SELECT says($$SELECT pawl.upgrade('ups', 'nothing')$$);
SELECT version FROM pawl.binding WHERE relation = 'ups'::regclass AND state_column = 'state';
SELECT pawl.upgrade('ups', 'state', '{"paid": "settled"}');
SELECT * FROM ups ORDER BY id;
SELECT subject_id, sort_key, from_state, to_state, event, machine_version, most_recent FROM ups_transitions
    ORDER BY 1, 2;
SELECT says($$UPDATE ups SET state = 'paid' WHERE id = 1$$) LIKE 'PW0%';
SELECT says($$UPDATE ups SET state = 'settled' WHERE id = 1$$);
SELECT says($$UPDATE ups SET other = 'settled' WHERE id = 1$$) LIKE 'PW0%';
SELECT pawl.upgrade('ups', 'other');
SELECT says($$UPDATE ups SET other = 'settled' WHERE id = 1$$);
SELECT * FROM pawl.verify('ups');

-- versions are immutable, and stay while a log may speak of them
SELECT says($$UPDATE pawl.machine SET diagram = '' WHERE machine = 'verify_order'$$);
SELECT says($$UPDATE pawl.machine_state SET tags = '{owned}' WHERE machine = 'verify_order'$$);
SELECT says($$DELETE FROM pawl.machine_transition WHERE machine = 'verify_order'$$);
SELECT says($$DELETE FROM pawl.machine WHERE machine = 'verify_order' AND version = 1$$);
SELECT pawl.release('ups', 'state');
SELECT pawl.release('orders');
SELECT says($$DELETE FROM pawl.machine WHERE machine = 'verify_order' AND version = 2$$);
SELECT says($$DELETE FROM pawl.machine WHERE machine = 'verify_order' AND version = 1$$);

-- reading machines
SELECT state, kind, initial, terminal, tags FROM pawl.states('verify_order');
SELECT from_state, to_state, event FROM pawl.transitions('verify_order', 2);
SELECT pawl.diagram('verify_order');
SELECT says($$SELECT pawl.diagram('verify_order', format => 'png')$$);
SELECT says($$SELECT pawl.diagram('verify_order', format => NULL)$$);
SELECT says($$SELECT pawl.diagram('verify_order', 9)$$);
SELECT says($$SELECT pawl.diagram(NULL)$$);
SELECT says($$SELECT pawl.states('verify_nothing')$$) LIKE 'PW008: unknown machine "verify_nothing"%';
SELECT says($$SELECT pawl.transitions(NULL)$$);
SELECT left(pawl.diagram('verify_order', format => 'dot'), 7);

-- context lasts one transaction
BEGIN;
SELECT pawl.set_context(processor => 'worker-1', correlation_id => 'c1', metadata => '{"a": 1}');
SELECT pawl.set_context(event => 'pay', metadata => 'null');
SELECT current_setting('pawl.processor'), current_setting('pawl.event'), current_setting('pawl.correlation_id'),
    current_setting('pawl.metadata');
COMMIT;
SELECT current_setting('pawl.processor', true), current_setting('pawl.event', true),
    current_setting('pawl.correlation_id', true);

DROP SCHEMA t_verify CASCADE;
DELETE FROM pawl.machine WHERE machine = 'verify_order';
