-- Paths to a row: on_delete, and what the owner of the table can do that cannot be prevented.
SELECT mx.build(:'kind', :'type', :'mode', 'terminal');
SELECT mx.put(501, 502);
SELECT mx.put_in('done', 503, 504) \g /dev/null
SELECT mx.rejected('DELETE FROM w.t WHERE id = 501', 'PW001', 'on_delete terminal: DELETE in another state');
SELECT mx.rejected(format('DELETE FROM %s WHERE id = 502', mx.home(502)), 'PW001',
    'on_delete terminal: DELETE straight at a member');
SELECT mx.rejected('DELETE FROM w.t', 'PW001', 'on_delete terminal: DELETE with some in another state');
SELECT mx.rejected('TRUNCATE w.t', 'PW001', 'on_delete terminal: TRUNCATE with some in another state');
SELECT mx.rejected(format('TRUNCATE %s', mx.home(501)), 'PW001', 'on_delete terminal: TRUNCATE of a member');
\if :terminal_deletable
DELETE FROM w.t WHERE id = 503;
SELECT mx.lived(503, 'new paid shipped done -', 'on_delete terminal: DELETE in a terminal state');
\endif
UPDATE w.t SET region = 151 - region WHERE id = 504;
SELECT mx.lived(504, 'new paid shipped done', 'on_delete terminal: a row that changes partition is not deleted');
UPDATE w.t SET region = 151 - region, state = 'paid' WHERE id IN (501, 502);
SELECT mx.lived(501, 'new paid', 'on_delete terminal: a row that changes partition and state is not deleted');

SELECT mx.build(:'kind', :'type', :'mode', 'deny');
SELECT mx.put(511, 512);
SELECT mx.put_in('done', 513, 514) \g /dev/null
SELECT mx.rejected('DELETE FROM w.t WHERE id = 511', 'PW001', 'on_delete deny: DELETE');
SELECT mx.rejected('DELETE FROM w.t WHERE id = 513', 'PW001', 'on_delete deny: DELETE in a terminal state');
SELECT mx.rejected(format('DELETE FROM %s WHERE id = 513', mx.home(513)), 'PW001',
    'on_delete deny: DELETE straight at a member');
SELECT mx.rejected('TRUNCATE w.t', 'PW001', 'on_delete deny: TRUNCATE');
SELECT mx.rejected(format('TRUNCATE %s', mx.home(511)), 'PW001', 'on_delete deny: TRUNCATE of a member');
SELECT mx.rejected($$MERGE INTO w.t USING (VALUES (511)) v(id) ON t.id = v.id WHEN MATCHED THEN DELETE$$, 'PW001',
    'on_delete deny: MERGE ... DELETE');
UPDATE w.t SET region = 151 - region, state = 'paid' WHERE id IN (511, 512);
SELECT mx.lived(512, 'new paid', 'on_delete deny: a row that changes partition is not deleted');
SELECT mx.trigger('ins', 'BEFORE INSERT ON %s', 'BEGIN RETURN NULL; END');
\if :moves
SELECT mx.rejected('UPDATE w.t SET region = 151 - region WHERE id = 511', 'PW001',
    'on_delete deny: a row that a BEFORE INSERT trigger swallows on its way');
\endif
SELECT mx.drop_trigger('ins');

-- The owner disables the trigger --------------------------------------------------------------------------------------
SELECT is((SELECT string_agg(format('%s %s', check_name, detail), ', ') FROM pawl.health() WHERE status = 'error'),
    NULL, mx.name('health finds nothing wrong at first'));
SELECT mx.bypass(true);
SELECT ok(EXISTS (SELECT FROM pawl.health() h
    WHERE h.relation = 'w.t'::regclass AND h.check_name = 'triggers_enabled' AND h.status = 'error'),
          mx.name('owner disables the triggers: health reports it'));
INSERT INTO w.t (id, state) VALUES (521, 'shipped');
UPDATE w.t SET state = 'new' WHERE id = 512;
DELETE FROM w.t WHERE id = 513;
\if :free_state
INSERT INTO w.t (id, state) VALUES (522, 'alien');
\endif
SELECT mx.bypass(false);
SELECT is((SELECT string_agg(h.check_name, ', ') FROM pawl.health() h WHERE h.status = 'error'), NULL,
    mx.name('owner enables the triggers again: health is content'));
SELECT is((SELECT string_agg(v.key || ' ' || v.problem, ', ' ORDER BY v.key, v.problem) FROM pawl.verify('w.t') v
    WHERE v.state_column = 'state'),
    CASE WHEN :logged THEN '512 log_differs, 513 row_missing, 521 log_missing' ELSE '' END
    || CASE WHEN :free_state
        THEN CASE WHEN :logged THEN ', 522 log_missing, 522 unknown_state' ELSE '522 unknown_state' END ELSE '' END,
    mx.name('owner disabled the triggers: verify finds what came in'))
 WHERE :logged OR :free_state;

-- session_replication_role = replica: validated only with always => true ----------------------------------------------
SET session_replication_role = replica;
UPDATE w.t SET state = 'done' WHERE id = 511;
RESET session_replication_role;
SELECT is(mx.rows(511), '511:done', mx.name('session_replication_role = replica: not validated'));
