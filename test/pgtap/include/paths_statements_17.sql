-- Paths to a row: what PostgreSQL 17 adds to the statements that write.

-- MERGE ... WHEN NOT MATCHED BY SOURCE --------------------------------------------------------------------------------
SELECT mx.put_in('paid', 701, 702, 703, 704) \g /dev/null
MERGE INTO w.t USING (VALUES (701)) v(id) ON t.id = v.id
    WHEN MATCHED THEN UPDATE SET note = 'kept'
    WHEN NOT MATCHED BY SOURCE AND t.id = 702 THEN UPDATE SET state = 'shipped'
    WHEN NOT MATCHED BY SOURCE AND t.id = 703 THEN DELETE
    WHEN NOT MATCHED BY SOURCE AND t.id = 704 THEN UPDATE SET state = 'cancelled', region = 151 - t.region;
SELECT mx.lived(701, 'new paid', 'MERGE ... NOT MATCHED BY SOURCE leaves what is matched alone');
SELECT mx.lived(702, 'new paid shipped', 'MERGE ... NOT MATCHED BY SOURCE ... UPDATE');
SELECT mx.lived(703, 'new paid -', 'MERGE ... NOT MATCHED BY SOURCE ... DELETE');
SELECT mx.lived(704, 'new paid cancelled', 'MERGE ... NOT MATCHED BY SOURCE ... UPDATE into another partition');
SELECT mx.rejected($$MERGE INTO w.t USING (VALUES (0)) v(id) ON t.id = v.id WHEN NOT MATCHED BY SOURCE
    AND t.id IN (701, 702) THEN UPDATE SET state = 'shipped', note = 'x'
    WHEN NOT MATCHED BY SOURCE AND t.id = 704 THEN UPDATE SET state = 'paid'$$, 'PW001',
    'MERGE ... NOT MATCHED BY SOURCE with one bad row');
SELECT mx.lived(701, 'new paid', 'MERGE ... NOT MATCHED BY SOURCE with one bad row: all or nothing');

-- MERGE ... RETURNING -------------------------------------------------------------------------------------------------
SELECT mx.put(705);
SELECT mx.put_in('paid', 706) \g /dev/null
WITH merged AS (
    MERGE INTO w.t USING (VALUES (705), (706), (707)) v(id) ON t.id = v.id
        WHEN MATCHED AND t.id = 706 THEN DELETE
        WHEN MATCHED THEN UPDATE SET state = 'paid'
        WHEN NOT MATCHED THEN INSERT (id) VALUES (v.id)
        RETURNING merge_action() || ' ' || t.id || ' ' || t.state::text AS line)
SELECT is((SELECT string_agg(line, ', ' ORDER BY line) FROM merged), 'DELETE 706 paid, INSERT 707 new, UPDATE 705 paid',
    mx.name('MERGE ... RETURNING says what was done'));
SELECT mx.lived(705, 'new paid', 'MERGE ... RETURNING in a CTE: UPDATE');
SELECT mx.lived(706, 'new paid -', 'MERGE ... RETURNING in a CTE: DELETE');
SELECT mx.lived(707, 'new', 'MERGE ... RETURNING in a CTE: INSERT');
SELECT mx.rejected(
    $$WITH merged AS (MERGE INTO w.t USING (VALUES (705), (707)) v(id) ON t.id = v.id
            WHEN MATCHED THEN UPDATE SET state = 'shipped' RETURNING t.id)
    SELECT * FROM merged$$, 'PW001', 'MERGE ... RETURNING in a CTE with one bad row');

-- MERGE into a view ---------------------------------------------------------------------------------------------------
CREATE VIEW w.v AS SELECT id AS number, state AS status, region FROM w.t WHERE id BETWEEN 351 AND 359;
MERGE INTO w.v USING (VALUES (356), (357)) s(number) ON v.number = s.number WHEN NOT MATCHED THEN INSERT (number)
    VALUES (s.number);
MERGE INTO w.v USING (VALUES (356)) s(number) ON v.number = s.number WHEN MATCHED THEN UPDATE SET status = 'paid',
    region = 151 - v.region;
SELECT mx.lived(356, 'new paid', 'MERGE into a view');
SELECT mx.rejected($$MERGE INTO w.v USING (VALUES (357)) s(number) ON v.number = s.number
    WHEN MATCHED THEN UPDATE SET status = 'done'$$, 'PW001', 'MERGE into a view, illegal');

-- COPY that goes over what it cannot read, and that knows defaults ----------------------------------------------------
COPY w.t (id, region, state) FROM stdin WITH (ON_ERROR ignore);
711	1	new
three	1	new
712	2	new
\.
SELECT mx.lived(711, 'new', 'COPY ... ON_ERROR ignore');
SELECT mx.lived(712, 'new', 'COPY ... ON_ERROR ignore, behind a line that cannot be read');
SELECT mx.rejected($$COPY w.t (id, region, state)
        FROM PROGRAM 'printf "713\\t1\\tnew\\nthree\\t1\\tnew\\n384\\t2\\tpaid\\n"' WITH (ON_ERROR ignore)$$, 'PW002',
    'COPY ... ON_ERROR ignore does not go over a row in no first state');
COPY w.t (id, region, state) FROM stdin WITH (DEFAULT '\D');
715	\D	\D
\.
SELECT mx.lived(715, 'new', 'COPY ... DEFAULT');
