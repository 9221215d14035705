-- Paths to a row: every statement that writes. Each row is validated by itself.

-- INSERT ... ON CONFLICT ----------------------------------------------------------------------------------------------
SELECT mx.put_in('paid', 301, 302) \g /dev/null
SELECT conflict FROM (SELECT CASE :'kind' WHEN 'range' THEN '(id, region)' WHEN 'list' THEN '(id, state)'
            WHEN 'two_level' THEN '(id, region, state)' ELSE '(id)' END AS conflict) c \gset
SELECT t.region AS region301, mx.home(301) AS home301 FROM w.t WHERE id = 301 \gset
\if :splits_state
\set first_state paid
\else
\set first_state new
\endif
INSERT INTO :home301 (id, region, state) VALUES (301, :region301, :'first_state') ON CONFLICT DO NOTHING;
SELECT mx.lived(301, 'new paid', 'INSERT ... ON CONFLICT DO NOTHING on a row in a later state');
INSERT INTO :home301 AS r (id, region, state) VALUES (301, :region301, :'first_state')
    ON CONFLICT :conflict DO UPDATE SET state = 'shipped' WHERE r.state::text = 'paid';
SELECT mx.lived(301, 'new paid shipped', 'INSERT ... ON CONFLICT DO UPDATE on a row in a later state, legal');
\if :splits_state
\set first_state shipped
\endif
SELECT mx.rejected(
        format($$INSERT INTO %s AS r (id, region, state)
            VALUES (301, %s, %L) ON CONFLICT %s DO UPDATE SET state = 'paid'$$,
    :'home301', :region301, :'first_state', :'conflict'),
    'PW001', 'INSERT ... ON CONFLICT DO UPDATE, illegal');
INSERT INTO :home301 AS r (id, region, state)
    VALUES (301, :region301, :'first_state') ON CONFLICT :conflict DO UPDATE SET note = 'again';
SELECT mx.lived(301, 'new paid shipped', 'INSERT ... ON CONFLICT DO UPDATE of another column: no entry');
SELECT mx.rejected($$INSERT INTO w.t (id, state) VALUES (303, 'held') ON CONFLICT DO NOTHING$$, 'PW002',
    'INSERT ... ON CONFLICT DO NOTHING that inserts, not an initial state');
SELECT mx.rejected(format($$INSERT INTO w.t (id, state) VALUES (303, 'held') ON CONFLICT %s DO UPDATE SET note = 'x'$$,
    :'conflict'), 'PW002', 'INSERT ... ON CONFLICT DO UPDATE that inserts, not an initial state');
INSERT INTO w.t (id) VALUES (303) ON CONFLICT :conflict DO UPDATE SET state = 'held';
SELECT mx.lived(303, 'new', 'INSERT ... ON CONFLICT DO UPDATE that inserts');
INSERT INTO w.t (id) VALUES (303) ON CONFLICT :conflict DO UPDATE SET state = 'held';
SELECT mx.lived(303, 'new held', 'INSERT ... ON CONFLICT DO UPDATE that changes the row it inserted before');

-- MERGE ---------------------------------------------------------------------------------------------------------------
SELECT mx.put_in('paid', 311, 312) \g /dev/null
SELECT mx.put(313, 314);
MERGE INTO w.t USING (VALUES (311), (312), (315)) v(id) ON t.id = v.id
    WHEN MATCHED AND t.id = 312 THEN DELETE
    WHEN MATCHED THEN UPDATE SET state = 'shipped', region = t.region
    WHEN NOT MATCHED THEN INSERT (id, state) VALUES (v.id, 'new');
SELECT mx.lived(311, 'new paid shipped', 'MERGE ... UPDATE');
SELECT mx.lived(312, 'new paid -', 'MERGE ... DELETE');
SELECT mx.lived(315, 'new', 'MERGE ... INSERT');
SELECT mx.rejected($$MERGE INTO w.t USING (VALUES (311), (313)) v(id) ON t.id = v.id
    WHEN MATCHED THEN UPDATE SET state = 'done'$$, 'PW001', 'MERGE ... UPDATE with one bad row');
SELECT mx.rejected($$MERGE INTO w.t USING (VALUES (316)) v(id) ON t.id = v.id WHEN NOT MATCHED THEN INSERT (id, state)
    VALUES (v.id, 'paid')$$, 'PW002', 'MERGE ... INSERT, not an initial state');
MERGE INTO w.t USING (VALUES (313), (314)) v(id) ON t.id = v.id WHEN MATCHED THEN UPDATE SET state = 'paid',
    region = 151 - t.region;
SELECT mx.lived(313, 'new paid', 'MERGE ... UPDATE that moves rows to other partitions');
SELECT mx.lived(314, 'new paid', 'MERGE ... UPDATE that moves rows to other partitions, the other way');

-- COPY FROM -----------------------------------------------------------------------------------------------------------
COPY w.t (id, region, state) FROM stdin;
321	1	new
322	2	new
\.
\copy w.t (id) from stdin
323
\.
SELECT mx.lived(321, 'new', 'COPY FROM');
SELECT mx.lived(323, 'new', '\copy FROM');
SELECT mx.rejected($$COPY w.t (id, region, state) FROM PROGRAM 'printf "324\\t1\\tnew\\n325\\t2\\tpaid\\n"'$$, 'PW002',
    'COPY FROM with one bad row');
SELECT is(mx.rows(324, 325), NULL, mx.name('COPY FROM with one bad row: all or nothing'));

-- multi-row UPDATE ----------------------------------------------------------------------------------------------------
SELECT mx.put(331, 332, 333);
SELECT mx.rejected(
        format($$UPDATE w.t SET state = CASE WHEN id = 333 THEN 'shipped' ELSE 'paid' END::%s
            WHERE id IN (331, 332, 333)$$, mx.type_name(:'type')),
    'PW001', 'multi-row UPDATE with one bad row');
SELECT is(mx.rows(331, 332, 333), '331:new 332:new 333:new',
    mx.name('multi-row UPDATE with one bad row: all or nothing'));
UPDATE w.t SET state = CAST(CASE WHEN id = 333 THEN 'held' ELSE 'paid' END AS :state_type) WHERE id IN (331, 332, 333);
SELECT mx.lived(331, 'new paid', 'multi-row UPDATE');
SELECT mx.lived(333, 'new held', 'multi-row UPDATE, another transition');

-- null and DEFAULT ----------------------------------------------------------------------------------------------------
SELECT mx.put_in('held', 335, 336) \g /dev/null
SELECT mx.rejected($$UPDATE w.t SET state = NULL WHERE id = 336$$, :'null_rejected', 'UPDATE to null');
SELECT mx.rejected($$INSERT INTO w.t (id, state) VALUES (337, NULL)$$, replace(:'null_rejected', 'PW001', 'PW002'),
    'INSERT of null');
SELECT mx.rejected($$UPDATE w.t SET state = 'alien' WHERE id = 335$$, :'unknown_rejected',
    'UPDATE to an unknown state');
SELECT mx.rejected($$INSERT INTO w.t (id, state) VALUES (337, 'alien')$$,
    replace(:'unknown_rejected', 'PW001', 'PW002'), 'INSERT of an unknown state');
UPDATE w.t SET state = DEFAULT, region = DEFAULT WHERE id = 335;
SELECT mx.lived(335, 'new held new', 'UPDATE ... SET DEFAULT');

-- data-modifying CTEs -------------------------------------------------------------------------------------------------
WITH made AS (INSERT INTO w.t (id) VALUES (341), (342) RETURNING id),
    moved AS (UPDATE w.t SET state = 'shipped' WHERE id = 331 RETURNING id)
UPDATE w.t SET state = 'cancelled' FROM moved WHERE t.id = 332;
SELECT mx.lived(341, 'new', 'data-modifying CTE that inserts');
SELECT mx.lived(331, 'new paid shipped', 'data-modifying CTE that updates');
SELECT mx.lived(332, 'new paid cancelled', 'UPDATE fed by a data-modifying CTE');
SELECT mx.rejected($$WITH moved AS (UPDATE w.t SET state = 'paid' WHERE id = 331 RETURNING id) SELECT * FROM moved$$,
    'PW001', 'data-modifying CTE, illegal');
SELECT mx.rejected($$WITH made AS (INSERT INTO w.t (id, state) VALUES (343, 'done') RETURNING id) SELECT * FROM made$$,
    'PW002', 'data-modifying CTE, not an initial state');
WITH gone AS (DELETE FROM w.t WHERE id = 341 RETURNING id) UPDATE w.t SET state = 'held' FROM gone WHERE t.id = 342;
SELECT mx.lived(341, 'new -', 'data-modifying CTE that deletes');
SELECT mx.lived(342, 'new held', 'UPDATE fed by a CTE that deletes');

-- UPDATE through a view -----------------------------------------------------------------------------------------------
SELECT mx.put(351, 352);
CREATE VIEW w.v AS SELECT id AS number, state AS status, region FROM w.t WHERE id BETWEEN 351 AND 359;
UPDATE w.v SET status = 'paid' WHERE number = 351;
SELECT mx.lived(351, 'new paid', 'UPDATE through a view');
SELECT mx.rejected($$UPDATE w.v SET status = 'done' WHERE number = 352$$, 'PW001', 'UPDATE through a view, illegal');
INSERT INTO w.v (number) VALUES (353);
SELECT mx.lived(353, 'new', 'INSERT through a view');
SELECT mx.rejected($$INSERT INTO w.v (number, status) VALUES (354, 'paid')$$, 'PW002',
    'INSERT through a view, not an initial state');
DELETE FROM w.v WHERE number = 353;
SELECT mx.lived(353, 'new -', 'DELETE through a view');

-- WHERE CURRENT OF ----------------------------------------------------------------------------------------------------
SELECT mx.put(361, 362);
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM w.t WHERE id IN (361, 362) FOR UPDATE;
FETCH c \g /dev/null
UPDATE w.t SET state = 'paid' WHERE CURRENT OF c;
FETCH c \g /dev/null
UPDATE w.t SET state = 'held', region = 151 - region WHERE CURRENT OF c;
COMMIT;
SELECT is((SELECT string_agg(mx.life(i), ', ' ORDER BY mx.life(i)) FROM unnest('{361,362}'::int[]) i),
    CASE :'mode' WHEN 'off' THEN 'held, paid' ELSE 'new held, new paid' END,
    mx.name('UPDATE WHERE CURRENT OF'));
SELECT mx.sound('UPDATE WHERE CURRENT OF');
SELECT mx.rejected($x$DO $do$ DECLARE c CURSOR FOR SELECT * FROM w.t WHERE id = 361 FOR UPDATE; r record;
    BEGIN OPEN c; FETCH c INTO r; UPDATE w.t SET state = 'done' WHERE CURRENT OF c; END $do$ $x$, 'PW001',
    'UPDATE WHERE CURRENT OF, illegal');
