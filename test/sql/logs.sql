-- The log beside a table: its names, its shape, its grants; attached, released, taken up again; history and state_at.
CREATE SCHEMA t_logs;
SET search_path = t_logs;
\getenv tests PG_ABS_SRCDIR
\set says :tests '/sql/shared/says.psql'
\i :says

SELECT pawl.define('logs_order', $$stateDiagram-v2
    [*] --> new
    new --> paid : pay
    paid --> done : finish
    done --> [*]
$$);

-- the shape; a key column with a name of the log's own
CREATE TABLE orders (id bigint PRIMARY KEY, state text NOT NULL, "odd ""state" varchar NOT NULL DEFAULT 'new');
INSERT INTO orders VALUES (1, 'new'), (2, 'paid');
SELECT says($$SELECT pawl.enforce('orders', 'state', 'logs_order'),
    pawl.enable_log('orders', 'state', most_recent => 'stored', hash_chain => true)$$);
\d orders_transitions
SELECT subject_id, sort_key, from_state, to_state, event, processor, actor = current_user, correlation_id, metadata,
    machine_version, most_recent, id IS NOT NULL, length(hash) FROM orders_transitions ORDER BY 1, 2;
-- a second binding of the table names its column
SELECT says($$SELECT pawl.enforce('orders', 'odd "state', 'logs_order'), pawl.enable_log('orders', 'odd "state')$$);
SELECT state_column, history, history_view, log_key_columns FROM pawl.binding WHERE relation = 'orders'::regclass
    ORDER BY 1;
SELECT * FROM pawl.verify('orders');

-- moves, deletion and return
UPDATE orders SET state = 'paid' WHERE id = 1;
UPDATE orders SET state = 'done' WHERE id = 1;
DELETE FROM orders WHERE id = 2;
INSERT INTO orders VALUES (2, 'new');
SELECT sort_key, from_state, to_state, event, machine_version, most_recent FROM pawl.history('orders', 1, 'state');
SELECT sort_key, from_state, to_state, event, machine_version, most_recent FROM pawl.history('orders', '2', 'state');
SELECT sort_key, from_state, to_state, event, machine_version, most_recent
    FROM pawl.history('orders', 2::smallint, state_column => 'odd "state');
SELECT subject_id, sort_key, to_state, most_recent FROM "orders_odd ""state_transitions" ORDER BY 1, 2;
SELECT count(*) FROM pawl.history('orders', 99, 'state');
SELECT pawl.state_at('orders', 1, 'infinity', 'state'), pawl.state_at('orders', 1, '-infinity', 'state'),
    pawl.state_at('orders', 99, now(), 'state');
SELECT pawl.state_at('orders', 2, (SELECT created_at FROM orders_transitions WHERE subject_id = 2 AND sort_key = 2),
    'state');
SELECT * FROM pawl.verify('orders');
SELECT says($$SELECT pawl.history('orders', 1)$$);
SELECT says($$SELECT pawl.history('orders', NULL, 'state')$$);
SELECT says($$SELECT pawl.history('orders', 'one', 'state')$$);
SELECT says($$SELECT pawl.history(NULL, 1)$$);
SELECT says($$SELECT pawl.state_at('orders', 1, NULL, 'state')$$);
SELECT says($$SELECT pawl.state_at('orders', 1, now(), 'nothing')$$);

-- no role can change a log
SELECT says($$UPDATE orders_transitions SET actor = 'another'$$);
SELECT says($$UPDATE orders_transitions SET actor = 'another' WHERE false$$);
SELECT says($$DELETE FROM orders_transitions WHERE false$$);
SELECT says($$TRUNCATE orders_transitions$$);
SELECT says($$DELETE FROM "orders_odd ""state_transitions"$$);

-- DDL on it
SELECT says($$DROP TABLE orders_transitions$$);
SELECT says($$ALTER TABLE orders_transitions DROP COLUMN event$$);
SELECT says($$ALTER TABLE orders_transitions DROP CONSTRAINT orders_transitions_pkey$$);
SELECT says($$ALTER TABLE orders_transitions RENAME COLUMN event TO occasion$$);
SELECT says($$ALTER TABLE orders_transitions RENAME TO orders_past$$);
SELECT says($$ALTER TABLE orders_transitions ADD COLUMN comment_text text$$);
SELECT says($$ALTER TABLE orders_past ADD COLUMN comment_text text$$);
SELECT history FROM pawl.binding WHERE relation = 'orders'::regclass AND state_column = 'state';
SELECT says($$UPDATE orders SET state = 'paid' WHERE id = 2$$);
SELECT says($$ALTER TABLE orders_past DROP COLUMN comment_text$$);

-- released, the log stays closed; attached again, it goes on
SELECT says($$SELECT pawl.release('orders', 'state')$$);
SELECT tgname FROM pg_trigger WHERE tgrelid = 'orders_past'::regclass ORDER BY 1;
SELECT says($$DELETE FROM orders_past$$);
SELECT says($$SELECT pawl.history('orders', 1, 'state')$$);
DELETE FROM orders WHERE id = 1;
INSERT INTO orders VALUES (3, 'done', 'new');
UPDATE orders SET state = 'done' WHERE id = 2;
SELECT says($$SELECT pawl.enforce('orders', 'state', 'logs_order'),
    pawl.enable_log('orders', 'state', most_recent => 'stored', log_name => 'orders_past')$$);
SELECT says($$SELECT pawl.enforce('orders', 'state', 'logs_order'),
    pawl.enable_log('orders', 'state', most_recent => 'stored', hash_chain => true, log_name => 'orders_past')$$);
UPDATE orders SET state = 'paid' WHERE id = 2;
SELECT says($$SELECT pawl.enforce('orders', 'state', 'logs_order'),
    pawl.enable_log('orders', 'state', most_recent => 'stored', hash_chain => true, log_name => 'orders_past')$$);
SELECT subject_id, sort_key, from_state, to_state, event, most_recent FROM orders_past ORDER BY 1, 2;
SELECT key, problem, detail FROM pawl.verify('orders') WHERE state_column = 'state';
UPDATE orders SET state = 'done' WHERE id = 2;
SELECT key, problem, detail FROM pawl.verify('orders') WHERE state_column = 'state';
SELECT says($$SELECT pawl.enforce('orders', 'state', 'logs_order'),
    pawl.enable_log('orders', 'state', most_recent => 'stored')$$);

-- a log cannot serve two, and a table that is no log cannot serve one
CREATE TABLE other (id bigint PRIMARY KEY, state text NOT NULL);
SELECT says($$SELECT pawl.enforce('other', 'state', 'logs_order'),
    pawl.enable_log('other', 'state', most_recent => 'stored', hash_chain => true, log_name => 'orders_past')$$);
SELECT says($$SELECT pawl.enforce('other', 'state', 'logs_order'),
    pawl.enable_log('other', 'state', most_recent => 'stored', log_name => 'orders')$$);
SELECT says($$SELECT pawl.enforce('other', 'state', 'logs_order'),
    pawl.enable_log('other', 'state', most_recent => 'stored', log_name => repeat('x', 60)::name)$$);
CREATE VIEW other_transitions AS SELECT 1 AS one;
SELECT says($$SELECT pawl.enforce('other', 'state', 'logs_order'),
    pawl.enable_log('other', 'state', most_recent => 'stored')$$);
SELECT says($$SELECT pawl.enforce('other', 'state', 'logs_order'), pawl.enable_log('other', 'state')$$);
SELECT count(*) FROM pawl.binding WHERE relation = 'other'::regclass;

-- names that would be too long
CREATE TABLE a_table_whose_name_takes_all_the_room_that_there_is_for_names_x (id int PRIMARY KEY, state text NOT NULL);
CREATE TABLE "ein_Tischlein_mit_Umlauten_äöüäöüäöüäöüäöüäöüäöüäö" (id int PRIMARY KEY, state text NOT NULL);
SELECT says(
    $$SELECT pawl.enforce('a_table_whose_name_takes_all_the_room_that_there_is_for_names_x', 'state', 'logs_order'),
    pawl.enable_log('a_table_whose_name_takes_all_the_room_that_there_is_for_names_x', 'state')$$);
SELECT says($$SELECT pawl.enforce('"ein_Tischlein_mit_Umlauten_äöüäöüäöüäöüäöüäöüäöüäö"', 'state', 'logs_order'),
    pawl.enable_log('"ein_Tischlein_mit_Umlauten_äöüäöüäöüäöüäöüäöüäöüäö"', 'state', most_recent => 'stored')$$);
SELECT relation, history, history_view FROM pawl.binding WHERE relation::text ~ 'names_x|Tischlein' ORDER BY 1;

-- composite keys of types whose text hangs on the session
CREATE TABLE visits (at timestamptz, place char(5), state text NOT NULL, PRIMARY KEY (at, place));
SET timezone = 'Asia/Tokyo';
INSERT INTO visits VALUES ('2024-01-01 00:00Z', 'x', 'new'), ('2024-01-01 00:00Z', 'y"\', 'new');
SELECT says($$SELECT pawl.enforce('visits', 'state', 'logs_order'),
    pawl.enable_log('visits', 'state', most_recent => 'stored', hash_chain => true)$$);
SET timezone = 'America/New_York';
SET datestyle = 'German';
UPDATE visits SET state = 'paid';
SELECT key, problem, detail FROM pawl.verify('visits');
SELECT sort_key, from_state, to_state, event FROM pawl.history('visits', ROW('2024-01-01 00:00Z'::timestamptz, 'x'));
SELECT sort_key, from_state, to_state, event FROM pawl.history('visits', ARRAY['2024-01-01 00:00Z', 'y"\']);
RESET timezone;
RESET datestyle;

-- the text and the hash, to the letter
SELECT pawl._log_content(ARRAY['1', E'a "quoted" \\ \b\f\n\r\t\x01 / ä'], 3, NULL, 'new', 'pay', NULL, 'me', NULL,
    '{"b": 1, "a": [null]}', 7, '2024-02-29 12:34:56.789012Z');
SELECT encode(pawl._log_hash(NULL, 'abc'), 'hex') = encode(sha256('abc'), 'hex'),
    pawl._log_hash('\x0102', 'ä') = sha256('\x0102c3a4');

-- a dropped table leaves its log behind, closed
DROP TABLE other CASCADE;
DROP TABLE visits;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'visits_transitions'::regclass ORDER BY 1;
SELECT count(*) FROM pawl.binding WHERE history = 'visits_transitions'::regclass;
DROP TABLE visits_transitions;
DROP SCHEMA t_logs CASCADE;
DELETE FROM pawl.machine WHERE machine = 'logs_order';
