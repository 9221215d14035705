-- Paths to a row: more than one state change in a transaction, savepoints, prepared transactions, DELETE then INSERT.

-- two state changes in one transaction --------------------------------------------------------------------------------
SELECT mx.put(401, 402, 403, 404, 405, 406);
BEGIN;
UPDATE w.t SET state = 'paid' WHERE id = 401;
UPDATE w.t SET state = 'shipped', region = 151 - region WHERE id = 401;
INSERT INTO w.t (id) VALUES (407);
UPDATE w.t SET state = 'held' WHERE id = 407;
UPDATE w.t SET state = 'new' WHERE id = 407;
COMMIT;
SELECT mx.lived(401, 'new paid shipped', 'two state changes in one transaction');
SELECT mx.lived(407, 'new held new', 'inserted and moved twice in one transaction');
SELECT mx.rejected($x$DO $do$ BEGIN
    UPDATE w.t SET state = 'paid' WHERE id = 402;
    UPDATE w.t SET state = 'held' WHERE id = 402;
END $do$ $x$, 'PW001', 'two state changes in one transaction, the second validated from the state after the first');
UPDATE w.t SET state = 'paid' WHERE id = 402\; UPDATE w.t SET state = 'cancelled' WHERE id = 402;
SELECT mx.lived(402, 'new paid cancelled', 'two state changes in one query string');
DO $$ BEGIN FOR i IN 1..3 LOOP UPDATE w.t SET state = 'held' WHERE id = 403; UPDATE w.t SET state = 'new'
    WHERE id = 403; END LOOP; END $$;
SELECT mx.lived(403, 'new held new held new held new', 'six state changes in one function');

-- savepoints ----------------------------------------------------------------------------------------------------------
BEGIN;
SAVEPOINT a;
UPDATE w.t SET state = 'paid' WHERE id = 404;
UPDATE w.t SET state = 'shipped' WHERE id = 404;
ROLLBACK TO a;
UPDATE w.t SET state = 'cancelled' WHERE id = 404;
COMMIT;
SELECT mx.lived(404, 'new cancelled', 'savepoint rolled back and another branch taken');
BEGIN;
UPDATE w.t SET state = 'held' WHERE id = 405;
SAVEPOINT a;
UPDATE w.t SET state = 'new', region = 151 - region WHERE id = 405;
SAVEPOINT b;
UPDATE w.t SET state = 'cancelled' WHERE id = 405;
ROLLBACK TO b;
UPDATE w.t SET state = 'paid' WHERE id = 405;
RELEASE b;
UPDATE w.t SET state = 'shipped', region = 151 - region WHERE id = 405;
RELEASE a;
COMMIT;
SELECT mx.lived(405, 'new held new paid shipped', 'nested savepoints, some rolled back, some released');
BEGIN;
SAVEPOINT a;
DELETE FROM w.t WHERE id = 406;
INSERT INTO w.t (id) VALUES (406);
ROLLBACK TO a;
UPDATE w.t SET state = 'paid' WHERE id = 406;
ROLLBACK;
SELECT mx.lived(406, 'new', 'savepoint and transaction rolled back: nothing stays');
BEGIN;
SAVEPOINT a;
INSERT INTO w.t (id) VALUES (408);
ROLLBACK TO a;
INSERT INTO w.t (id) VALUES (408);
UPDATE w.t SET state = 'held' WHERE id = 408;
COMMIT;
SELECT mx.lived(408, 'new held', 'an INSERT rolled back to a savepoint and done again');
DO $$
BEGIN
    UPDATE w.t SET state = 'paid' WHERE id = 406;
    BEGIN
        UPDATE w.t SET state = 'shipped' WHERE id = 406;
        UPDATE w.t SET state = 'new' WHERE id = 406;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    UPDATE w.t SET state = 'cancelled' WHERE id = 406;
END $$;
SELECT mx.lived(406, 'new paid cancelled', 'an exception block rolled back and another branch taken');

-- prepared transactions -----------------------------------------------------------------------------------------------
SELECT mx.put(411, 412, 413);
BEGIN;
UPDATE w.t SET state = 'paid' WHERE id IN (411, 412);
UPDATE w.t SET state = 'shipped', region = 151 - region WHERE id = 411;
\set transaction pawl_matrix_1_ :kind
PREPARE TRANSACTION :'transaction';
COMMIT PREPARED :'transaction';
SELECT mx.lived(411, 'new paid shipped', 'PREPARE TRANSACTION, COMMIT PREPARED');
BEGIN;
UPDATE w.t SET state = 'paid' WHERE id = 413;
DELETE FROM w.t WHERE id = 412;
\set transaction pawl_matrix_2_ :kind
PREPARE TRANSACTION :'transaction';
ROLLBACK PREPARED :'transaction';
SELECT mx.lived(413, 'new', 'PREPARE TRANSACTION, ROLLBACK PREPARED');
UPDATE w.t SET state = 'cancelled' WHERE id = 413;
SELECT mx.lived(413, 'new cancelled', 'another branch after ROLLBACK PREPARED');

-- procedures that commit, cursors that outlive a commit ---------------------------------------------------------------
SELECT mx.put(414);
DO $$ BEGIN UPDATE w.t SET state = 'held' WHERE id = 414; COMMIT; UPDATE w.t SET state = 'new'
    WHERE id = 414; ROLLBACK; UPDATE w.t SET state = 'new' WHERE id = 414; END $$;
SELECT mx.lived(414, 'new held new', 'COMMIT and ROLLBACK inside a procedure');

-- DELETE then INSERT --------------------------------------------------------------------------------------------------
SELECT mx.put(421, 422, 423, 424);
UPDATE w.t SET state = 'paid' WHERE id = 421;
DELETE FROM w.t WHERE id = 421;
SELECT mx.lived(421, 'new paid -', 'DELETE: the log outlives the row');
INSERT INTO w.t (id) VALUES (421);
SELECT mx.lived(421, 'new paid - new', 'DELETE then INSERT: the log goes on');
SELECT mx.rejected($$WITH d AS (DELETE FROM w.t WHERE id = 421) INSERT INTO w.t (id, state) VALUES (425, 'paid')$$,
    'PW002', 'DELETE and INSERT in one statement, not an initial state');
BEGIN;
DELETE FROM w.t WHERE id = 422;
INSERT INTO w.t (id) VALUES (422);
UPDATE w.t SET state = 'held' WHERE id = 422;
DELETE FROM w.t WHERE id = 422;
COMMIT;
SELECT mx.lived(422, 'new - new held -', 'DELETE, INSERT, move and DELETE in one transaction');
DELETE FROM w.t WHERE id IN (423, 424);
SELECT mx.lived(423, 'new -', 'DELETE of many rows');

-- fire and INSERT into the log, beside plain SQL ----------------------------------------------------------------------
SELECT mx.put(431, 432);
SELECT pawl.fire('w.t', 431, 'pay', state_column => 'state') \g /dev/null
SELECT mx.lived(431, 'new paid', 'pawl.fire');
SELECT mx.rejected($$SELECT pawl.fire('w.t', 431, 'hold', state_column => 'state')$$, 'PW001', 'pawl.fire, illegal');
SELECT count(*) FROM pawl.fire_many('w.t', array[431, 432, 439], 'cancel', state_column => 'state') \g /dev/null
SELECT mx.lived(431, 'new paid cancelled', 'pawl.fire_many');
SELECT mx.lived(432, 'new cancelled', 'pawl.fire_many, from another state');
\if :logged
SELECT mx.put(433);
SELECT format('INSERT INTO %s (%I, to_state) VALUES (433, %L)', coalesce(b.history_view, b.history),
    b.log_key_columns[1], 'paid')
  FROM pawl.binding b WHERE b.state_column = 'state' \gexec
SELECT mx.lived(433, 'new paid', 'INSERT into the log is a request to move');
SELECT mx.rejected(format('INSERT INTO %s (%I, to_state) VALUES (433, %L)', coalesce(b.history_view, b.history),
        b.log_key_columns[1], 'new'), 'PW001',
    'INSERT into the log, illegal') FROM pawl.binding b WHERE b.state_column = 'state';
\endif

-- TRUNCATE ------------------------------------------------------------------------------------------------------------
BEGIN;
UPDATE w.t SET state = 'paid' WHERE id = 407;
TRUNCATE w.t;
INSERT INTO w.t (id) VALUES (407);
COMMIT;
SELECT mx.lived(407, 'new held new paid - new', 'TRUNCATE then INSERT: the log goes on');
SELECT mx.lived(433, CASE WHEN :logged THEN 'new paid -' ELSE '-' END, 'TRUNCATE: the log outlives the rows');
