-- Paths to a row: foreign keys whose actions write the state. Rows whose note is null refer to nothing.
SELECT format('CREATE TABLE w.status (shelf text, name %s, PRIMARY KEY (shelf, name))', :'state_type') \gexec
UPDATE w.t SET note = NULL;
INSERT INTO w.status VALUES ('cascade', 'shipped'), ('default', 'held'), ('default', 'paid'), ('null', 'new');
SELECT mx.put_in('shipped', 371, 372) \g /dev/null
SELECT mx.put_in('held', 373, 374) \g /dev/null
SELECT mx.put_in('paid', 375, 376) \g /dev/null
SELECT mx.put(377, 378);
UPDATE w.t SET note = CASE WHEN id IN (371, 372) THEN 'cascade' WHEN id < 377 THEN 'default' ELSE 'null' END
    WHERE id BETWEEN 371 AND 378;
SELECT mx.fk('ON UPDATE CASCADE');
UPDATE w.status SET name = 'done' WHERE shelf = 'cascade';
SELECT mx.lived(371, 'new paid shipped done', 'FK ON UPDATE CASCADE onto the state, legal');
SELECT mx.lived(372, 'new paid shipped done', 'FK ON UPDATE CASCADE onto the state, legal, the neighbour');
SELECT mx.rejected($$UPDATE w.status SET name = 'paid' WHERE shelf = 'cascade'$$, 'PW001',
    'FK ON UPDATE CASCADE onto the state, illegal');
SELECT mx.fk('ON UPDATE SET DEFAULT ON DELETE SET DEFAULT');
UPDATE w.status SET shelf = 'other' WHERE shelf = 'default' AND name::text = 'held';
SELECT mx.lived(373, 'new held new', 'FK ON UPDATE SET DEFAULT onto the state, legal');
SELECT mx.lived(374, 'new held new', 'FK ON UPDATE SET DEFAULT onto the state, legal, the neighbour');
SELECT mx.rejected($$UPDATE w.status SET shelf = 'other' WHERE shelf = 'default'$$, 'PW001',
    'FK ON UPDATE SET DEFAULT onto the state, illegal');
SELECT mx.rejected($$DELETE FROM w.status WHERE shelf = 'default'$$, 'PW001',
    'FK ON DELETE SET DEFAULT onto the state, illegal');
SELECT mx.fk('ON UPDATE SET NULL ON DELETE SET NULL');
SELECT mx.rejected($$UPDATE w.status SET name = 'held' WHERE shelf = 'null'$$, :'null_rejected',
    'FK ON UPDATE SET NULL onto the state');
SELECT mx.rejected($$DELETE FROM w.status WHERE shelf = 'null'$$, :'null_rejected',
    'FK ON DELETE SET NULL onto the state');
SELECT mx.fk('ON DELETE CASCADE');
DELETE FROM w.status WHERE shelf = 'null';
SELECT mx.lived(377, 'new -', 'FK ON DELETE CASCADE');
SELECT mx.lived(375, 'new paid', 'foreign keys: a rejected row stayed');
SELECT mx.fk(NULL);
DROP TABLE w.status;
