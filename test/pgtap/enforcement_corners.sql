-- Corners of the enforcement that need a set-up of their own: logs that reject entries,
-- swallowed rows, generated columns, long statements.
\ir include/matrix.sql
SELECT no_plan();
SELECT mx.build('plain', 'text', 'stored');

-- A log that rejects entries ------------------------------------------------------------------------------------------
CREATE FUNCTION mx.reject() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.to_state = 'held' THEN RAISE EXCEPTION 'no rest'; END IF;
    RETURN NEW;
END$$;
CREATE TRIGGER reject BEFORE INSERT ON w.t_transitions FOR EACH ROW EXECUTE FUNCTION mx.reject();
SELECT mx.put(1, 2, 3, 4);
SELECT mx.trigger('zz', 'AFTER UPDATE ON %s', $$
BEGIN
    IF NEW.note = 'rest' THEN
        BEGIN
            UPDATE w.t SET state = 'held' WHERE id = 3 AND state = 'new';
        EXCEPTION WHEN raise_exception THEN
            UPDATE w.t SET state = 'cancelled' WHERE id = 3 AND state = 'new';
        END;
    END IF;
    RETURN NULL;
END$$);
UPDATE w.t SET state = 'paid', note = 'rest' WHERE id IN (1, 2);
SELECT mx.lived(1, 'new paid',
    'a log rejects an entry inside an exception block: entries pending outside it are written');
SELECT mx.lived(2, 'new paid', 'a log rejects an entry inside an exception block: the neighbour');
SELECT mx.lived(3, 'new cancelled', 'a log rejects an entry inside an exception block: the other branch');
SELECT throws_ok($$UPDATE w.t SET state = 'held' WHERE id = 4$$, 'P0001', 'no rest',
    'a log that rejects an entry rejects the state change');
SELECT mx.lived(4, 'new', 'a log that rejects an entry: the row stayed');
SELECT mx.drop_trigger('zz');
DROP TRIGGER reject ON w.t_transitions;

-- A log with triggers of its owner's ----------------------------------------------------------------------------------
SELECT mx.put(11, 12);
CREATE FUNCTION mx.react() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.to_state = 'paid' THEN UPDATE w.t SET state = 'shipped' WHERE id = NEW.subject_id; END IF;
    RETURN NULL;
END$$;
CREATE TRIGGER react AFTER INSERT ON w.t_transitions FOR EACH ROW EXECUTE FUNCTION mx.react();
UPDATE w.t SET state = 'paid' WHERE id IN (11, 12);
SELECT mx.lived(11, 'new paid shipped', 'a trigger on the log moves the row on');
SELECT mx.lived(12, 'new paid shipped', 'a trigger on the log moves the neighbour on');
DROP TRIGGER react ON w.t_transitions;

-- Statements of other forms -------------------------------------------------------------------------------------------
SELECT mx.put(21, 22, 23, 24, 25, 26, 27, 28, 29);
CREATE FUNCTION w.pay(id int) RETURNS void LANGUAGE sql AS $$ UPDATE w.t SET state = 'paid' WHERE t.id = pay.id;
    UPDATE w.t SET state = 'shipped' WHERE t.id = pay.id $$;
SELECT w.pay(21);
SELECT mx.lived(21, 'new paid shipped', 'an SQL function');
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) UPDATE w.t SET state = 'paid' WHERE id = 22 \g /dev/null
SELECT mx.lived(22, 'new paid', 'EXPLAIN ANALYZE');
PREPARE move(int, text) AS UPDATE w.t SET state = $2 WHERE id = $1;
EXECUTE move(23, 'held');
EXECUTE move(23, 'new');
SELECT throws_ok($$EXECUTE move(23, 'done')$$, 'PW001', NULL, 'a prepared statement, illegal');
SELECT mx.lived(23, 'new held new', 'a prepared statement');
DO $$ DECLARE r record; BEGIN FOR r IN UPDATE w.t SET state = 'held' WHERE id IN (24, 25) RETURNING id LOOP UPDATE w.t
    SET state = 'new' WHERE id = r.id; END LOOP; END $$;
SELECT mx.lived(24, 'new held new', 'a loop over UPDATE ... RETURNING that changes their states again');
SELECT mx.lived(25, 'new held new', 'a loop over UPDATE ... RETURNING, the neighbour');
CREATE VIEW w.ruled AS SELECT * FROM w.t;
CREATE RULE moves AS ON UPDATE TO w.ruled DO INSTEAD UPDATE w.t SET state = NEW.state WHERE id = OLD.id;
UPDATE w.ruled SET state = 'paid' WHERE id = 24;
SELECT mx.lived(24, 'new held new paid', 'a rule');
SELECT throws_ok($$UPDATE w.ruled SET state = 'new' WHERE id = 24$$, 'PW001', NULL, 'a rule, illegal');
CREATE VIEW w.served AS SELECT * FROM w.t;
CREATE FUNCTION w.serve() RETURNS trigger
    LANGUAGE plpgsql AS $$ BEGIN UPDATE w.t SET state = NEW.state WHERE id = OLD.id; RETURN NEW; END $$;
CREATE TRIGGER serve INSTEAD OF UPDATE ON w.served FOR EACH ROW EXECUTE FUNCTION w.serve();
UPDATE w.served SET state = 'paid' WHERE id IN (25, 26);
SELECT mx.lived(26, 'new paid', 'an INSTEAD OF trigger');
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT w.pay(27);
COMMIT;
SELECT mx.lived(27, 'new paid shipped', 'a function run at COMMIT by a cursor WITH HOLD');
CREATE FUNCTION w.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.state = 'paid' THEN UPDATE w.t
    SET state = 'shipped' WHERE id = NEW.id; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON w.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION w.late();
BEGIN;
UPDATE w.t SET state = 'paid' WHERE id IN (28, 29);
COMMIT;
SELECT mx.lived(28, 'new paid shipped', 'a deferred constraint trigger moves the row at COMMIT');
SELECT mx.lived(29, 'new paid shipped', 'a deferred constraint trigger moves the neighbour at COMMIT');
BEGIN;
INSERT INTO w.t (id) VALUES (30);
UPDATE w.t SET state = 'paid' WHERE id = 30;
PREPARE TRANSACTION 'pawl_corner';
COMMIT PREPARED 'pawl_corner';
SELECT mx.lived(30, 'new paid shipped', 'a deferred constraint trigger moves the row at PREPARE TRANSACTION');
DROP TRIGGER late ON w.t;

-- Long statements: more state changes than the entry buffer holds -----------------------------------------------------
SELECT mx.build('plain', 'text', 'stored');
INSERT INTO w.t (id) SELECT generate_series(10001, 15000);
SELECT is(mx.life(14000), 'new', 'INSERT of 5,000 rows');
UPDATE w.t SET state = 'paid' WHERE id > 10000;
UPDATE w.t SET state = CASE WHEN id % 2 = 0 THEN 'shipped' ELSE 'cancelled' END WHERE id > 10000;
SELECT is(mx.life(14000), 'new paid shipped', 'UPDATE of 5,000 rows');
SELECT throws_ok($$UPDATE w.t SET state = CASE id WHEN 14999 THEN 'new' ELSE 'done' END
        WHERE id > 10000 AND (id % 2 = 0 OR id = 14999)$$, 'PW001', NULL,
    'UPDATE of 5,000 rows, the last one illegal');
SELECT is(mx.life(14000), 'new paid shipped', 'UPDATE of 5,000 rows, rejected: nothing stays');
SELECT mx.trigger('zz', 'AFTER INSERT OR UPDATE ON %s', $$
BEGIN
    IF NEW.state = 'new' THEN UPDATE w.t SET state = 'paid' WHERE id = NEW.id; END IF;
    IF NEW.state = 'paid' AND NEW.id % 2 = 0 THEN
        BEGIN UPDATE w.t SET state = 'done' WHERE id = NEW.id; EXCEPTION WHEN OTHERS THEN UPDATE w.t
            SET state = 'shipped' WHERE id = NEW.id; END;
    END IF;
    RETURN NULL;
END$$);
INSERT INTO w.t (id) SELECT generate_series(20001, 25000);
SELECT is(mx.life(20001), 'new paid', 'INSERT of 5,000 rows that triggers move on');
SELECT is(mx.life(24000), 'new paid shipped',
    'INSERT of 5,000 rows that triggers change again, some after a rejection');
SELECT mx.drop_trigger('zz');
DELETE FROM w.t WHERE id > 10000;
SELECT is(mx.life(24000), 'new paid shipped -', 'DELETE of 15,000 rows');
SELECT mx.sound('long statements');

-- Guards and generated columns ----------------------------------------------------------------------------------------
CREATE TABLE w.priced (id int PRIMARY KEY, price int, amount int, total int GENERATED ALWAYS AS (price * amount) STORED,
    state text DEFAULT 'open', open boolean GENERATED ALWAYS AS (state = 'open') STORED);
CREATE FUNCTION w.worth(old w.priced, new w.priced) RETURNS boolean
    LANGUAGE sql AS $$ SELECT new.total >= 100 AND NOT new.open AND old.open $$;
CREATE FUNCTION w.cheap(old w.priced, new w.priced) RETURNS boolean
    LANGUAGE sql AS $$ SELECT new.total < 100 AND NOT new.open $$;
SELECT pawl.define('priced', $$
stateDiagram-v2
    [*] --> open
    open --> sold : sell [w.worth]
    open --> given : sell [w.cheap]
    sold --> [*]
    given --> [*]
$$) AS ignored \gset
SELECT pawl.enforce('w.priced', 'state', 'priced'), pawl.enable_log('w.priced', 'state');
INSERT INTO w.priced (id, price, amount) VALUES (1, 1, 1), (2, 10, 10), (3, 10, 10), (4, 1, 1);
SELECT lives_ok($$UPDATE w.priced SET amount = 100, state = 'sold' WHERE id = 1$$,
    'a guard sees generated columns as they will be stored: allowed');
SELECT throws_ok($$UPDATE w.priced SET amount = 1, state = 'sold' WHERE id = 2$$, 'PW003', NULL,
    'a guard sees generated columns as they will be stored: rejected');
SELECT is(pawl.fire('w.priced', 3, 'sell'), 'sold',
    'fire: guards that choose the destination see generated columns of that state');
SELECT is(pawl.fire('w.priced', 4, 'sell'), 'given', 'fire: guards that choose the other destination');
SELECT is((SELECT string_agg(event || ' ' || to_state || ' ' || allowed, ', ' ORDER BY to_state)
    FROM pawl.available('w.priced', 2)), 'sell given false, sell sold true',
    'available: guards see generated columns of the state they would lead to');
SELECT mx.sound('guards and generated columns');
DROP TABLE w.priced CASCADE;

-- Several machines on one table ---------------------------------------------------------------------------------------
SELECT mx.build('several', 'enum', 'stored', 'terminal');
INSERT INTO w.t (id) VALUES (1), (2), (3), (4);
UPDATE w.t SET state = 'paid', money = 'charged' WHERE id IN (1, 2);
SELECT mx.lived(1, 'new paid', 'several machines: one UPDATE moves both columns, the first');
SELECT mx.lived(1, 'none charged', 'several machines: one UPDATE moves both columns, the second', 'money');
SELECT mx.rejected($$UPDATE w.t SET state = 'shipped', money = 'none' WHERE id = 1$$, 'PW001',
    'several machines: the second is illegal');
SELECT mx.rejected($$UPDATE w.t SET state = 'new', money = 'returned' WHERE id = 1$$, 'PW001',
    'several machines: the first is illegal');
SELECT mx.rejected($$INSERT INTO w.t (id, state, money) VALUES (5, 'new', 'charged')$$, 'PW002',
    'several machines: INSERT, the second is not an initial state');
SELECT mx.rejected($$UPDATE w.t SET state = 'charged' WHERE id = 1$$, 'PW001',
    'several machines: a state of the other machine');
UPDATE w.t SET money = 'returned' WHERE id = 2;
SELECT mx.lived(2, 'new paid', 'several machines: a state change of one is none of the other');
SELECT mx.rejected('SELECT pawl.fire(''w.t'', 3, ''pay'')', '22023', 'several machines: fire asks which');
SELECT is(pawl.fire('w.t', 3, 'charge', state_column => 'money'), 'charged', 'several machines: fire on the second');
UPDATE w.t SET state = 'cancelled' WHERE id IN (2, 4);
SELECT mx.rejected('DELETE FROM w.t WHERE id = 4', 'PW001',
    'several machines, on_delete terminal: the second is not in a terminal state');
DELETE FROM w.t WHERE id = 2;
SELECT mx.lived(2, 'new paid cancelled -', 'several machines, on_delete terminal: both are, the first');
SELECT mx.lived(2, 'none charged returned -', 'several machines, on_delete terminal: both are, the second', 'money');
SELECT pawl.release('w.t', 'money');
UPDATE w.t SET money = 'none', state = 'shipped' WHERE id = 1;
SELECT mx.lived(1, 'new paid shipped', 'several machines: one released, the other goes on');
SELECT mx.rejected($$UPDATE w.t SET state = 'new' WHERE id = 1$$, 'PW001',
    'several machines: one released, the other still validates');

-- Replicated rows are validated where always => true ------------------------------------------------------------------
SELECT pawl.release('w.t', 'state');
SELECT pawl.enforce('w.t', 'state', 'order', always => true, key => '{id}');
SET session_replication_role = replica;
SELECT mx.rejected($$UPDATE w.t SET state = 'new' WHERE id = 1$$, 'PW001',
    'session_replication_role = replica with always: validated');
SELECT mx.rejected($$INSERT INTO w.t (id, state) VALUES (9, 'paid')$$, 'PW002',
    'session_replication_role = replica with always: INSERT is validated');
UPDATE w.t SET state = 'done' WHERE id = 1;
RESET session_replication_role;
SELECT is(mx.rows(1), '1:done', 'session_replication_role = replica with always: a legal state change');

-- Transitions from a state to itself, validated after their statements ------------------------------------------------
CREATE TABLE w.loop (id int PRIMARY KEY, state text DEFAULT 'idle', note text);
SELECT pawl.define('loop', $$
stateDiagram-v2
    [*] --> idle
    idle --> idle : touch
    idle --> busy : work
    busy --> idle : rest
$$) AS ignored \gset
SELECT pawl.enforce('w.loop', 'state', 'loop'), pawl.enable_log('w.loop', 'state');
INSERT INTO w.loop (id) VALUES (1), (2), (3);
CREATE FUNCTION w.stir() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.note = 'stir' THEN UPDATE w.loop SET state = 'busy', note = 'stirred' WHERE note = 'stir'; END IF;
    RETURN NULL;
END$$;
CREATE TRIGGER stir AFTER UPDATE ON w.loop FOR EACH ROW EXECUTE FUNCTION w.stir();
CREATE FUNCTION w.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
SELECT format('CREATE TRIGGER %I BEFORE UPDATE ON w.loop FOR EACH ROW EXECUTE FUNCTION w.nothing()',
    repeat('~', 63)) \gexec
SET pawl.event = 'touch';
UPDATE w.loop SET note = 'stir' WHERE id IN (1, 2, 3);
RESET pawl.event;
SELECT is((SELECT string_agg(subject_id || ': ' || events, ', ' ORDER BY subject_id)
    FROM (SELECT subject_id, string_agg(coalesce(event, 'begin'), ' ' ORDER BY sort_key) AS events
             FROM w.loop_transitions GROUP BY 1) l), '1: begin touch work, 2: begin touch work, 3: begin touch work',
    'state changes from a state to itself, validated after their statement, keep their order');
SELECT mx.sound('transitions from a state to itself');
DROP TABLE w.loop, w.loop_transitions_log CASCADE;

-- Keys ----------------------------------------------------------------------------------------------------------------
SELECT mx.build('plain', 'text', 'stored');
SELECT mx.put(41, 42);
SELECT throws_ok('UPDATE w.t SET id = 49 WHERE id = 41', '0A000', NULL, 'the key of a row with a log cannot change');
SELECT mx.lived(41, 'new', 'the key of a row with a log: the row stayed');
SELECT mx.build('range', 'text', 'stored');
SELECT mx.put(41);
SELECT throws_ok('UPDATE w.t SET id = 49, region = 50 WHERE id = 41', '0A000', NULL,
    'the key of a row with a log cannot change on the way to another partition');
SELECT mx.build('range', 'text', 'off');
SELECT mx.put_in('paid', 41) \g /dev/null
UPDATE w.t SET id = 49, region = 50 WHERE id = 41;
SELECT is(mx.rows(49), '49:paid', 'without a log a key may change on the way to another partition');
SELECT throws_ok($$UPDATE w.t SET id = 51, region = 150, state = 'new' WHERE id = 49$$, 'PW001', NULL,
    'without a log a key may change, but is no way round the machine');

-- A swallowed row, and what is inserted elsewhere ---------------------------------------------------------------------
SELECT mx.build('range', 'text', 'stored');
CREATE TABLE w.other (id int PRIMARY KEY, state text);
SELECT pawl.enforce('w.other', 'state', 'order'), pawl.enable_log('w.other', 'state');
SELECT mx.put(1, 2, 3);
SELECT mx.trigger('ins', 'BEFORE INSERT ON %s',
    $$ BEGIN IF NEW.note = 'swallow' THEN RETURN NULL; END IF; RETURN NEW; END $$);
SELECT throws_ok($$WITH gone AS (UPDATE w.t SET region = 50, note = 'swallow' WHERE id = 1) INSERT INTO w.other
        VALUES (1, 'paid')$$, 'PW002', NULL,
    'a row is swallowed, another inserted elsewhere by the same statement: that one is validated as new');
WITH gone AS (UPDATE w.t SET region = 50, note = 'swallow' WHERE id = 1) INSERT INTO w.other VALUES (1, 'new');
SELECT mx.lived(1, 'new -', 'a row is swallowed, another inserted elsewhere by the same statement: it is deleted');
SELECT is((SELECT string_agg(to_state, ' ') FROM w.other_transitions), 'new',
    'a row is swallowed, another inserted elsewhere by the same statement: the other is new');
-- the main query of a statement runs before its CTEs
SELECT throws_ok($$WITH added AS (INSERT INTO w.other VALUES (3, 'paid')) UPDATE w.t SET region = 50, note = 'swallow'
        WHERE id = 3$$, 'PW002', NULL,
    'a row is swallowed, another inserted elsewhere next: that one is validated as new');
WITH added AS (INSERT INTO w.other VALUES (3, 'new')) UPDATE w.t SET region = 50, note = 'swallow' WHERE id = 3;
SELECT mx.lived(3, 'new -', 'a row is swallowed, another inserted elsewhere next: it is deleted');
SELECT is((SELECT string_agg(subject_id || ' ' || to_state, ', ' ORDER BY subject_id) FROM w.other_transitions),
    '1 new, 3 new', 'a row is swallowed, another inserted elsewhere next: the other is new');
SELECT mx.drop_trigger('ins');
DROP TABLE w.other;

-- Rows that change partition in a circle, between their own halves ----------------------------------------------------
SELECT mx.build('list', 'text', 'stored');
SELECT mx.put(1, 2);
SELECT mx.trigger('zz', 'AFTER DELETE ON %s', $$
BEGIN
    IF OLD.note = 'on' AND OLD.state = 'new' THEN
        UPDATE w.t SET state = 'shipped' WHERE id = OLD.id AND state = 'paid';
    END IF;
    IF OLD.note = 'on' AND OLD.state = 'paid' THEN
        UPDATE w.t SET state = 'done' WHERE id = OLD.id AND state = 'shipped';
    END IF;
    RETURN NULL;
END$$);
UPDATE w.t SET note = 'on';
UPDATE w.t SET state = 'paid' WHERE id = 1;
SELECT mx.lived(1, 'new paid shipped', 'a row changes state again between the two halves of its state change');
UPDATE w.t SET state = 'paid' WHERE id = 2;
UPDATE w.t SET state = 'done' WHERE id = 2;
SELECT mx.lived(2, 'new paid shipped done', 'a row changes state twice between the two halves of its state change');
SELECT mx.drop_trigger('zz');

-- A table partitioned by its state has a primary key that does not keep the key unique (isolation test second_row) ----
SELECT mx.put_in('paid', 5) \g /dev/null
WITH gone AS (DELETE FROM w.t WHERE id = 5) INSERT INTO w.t (id, state) VALUES (5, 'new');
SELECT mx.lived(5, 'new paid - new', 'partition by state: DELETE and INSERT of a key in one statement');
BEGIN;
INSERT INTO w.t (id) VALUES (6);
UPDATE w.t SET state = 'paid' WHERE id = 6;
DELETE FROM w.t WHERE id = 6;
INSERT INTO w.t (id) VALUES (6);
COMMIT;
SELECT mx.lived(6, 'new paid - new', 'partition by state: INSERT, move, DELETE and INSERT in one transaction');

SELECT finish();
