-- Paths to a row: what PostgreSQL 18 adds to the statements that write.
SELECT mx.put(721, 722);
WITH moved AS (UPDATE w.t SET state = 'paid', region = 151 - region WHERE id IN (721, 722)
    RETURNING old.state::text || ' ' || new.state::text AS line)
SELECT is((SELECT string_agg(line, ', ') FROM moved), 'new paid, new paid', mx.name('UPDATE ... RETURNING old, new'));
SELECT mx.lived(721, 'new paid', 'UPDATE ... RETURNING old, new');
SELECT mx.lived(722, 'new paid', 'UPDATE ... RETURNING old, new, the neighbour');
SELECT mx.rejected($$WITH moved AS (UPDATE w.t SET state = 'new' WHERE id = 721 RETURNING old.state, new.state) SELECT *
    FROM moved$$, 'PW001', 'UPDATE ... RETURNING old, new, illegal');
