-- Paths to a row: partitions and children that join an enforced tree or leave it.
\if :partitioned
SELECT CASE :'kind' WHEN 'range' THEN 'w.low' ELSE 'w.grown' END AS sibling \gset
\if :by_state
-- w.late, the partition of `done`, leaves and comes back
SELECT mx.build(:'kind', :'type', :'mode');
SELECT mx.put_in('done', 601, 602) \g /dev/null
SELECT mx.put_in('paid', 603) \g /dev/null
\set newcomer late
\set bound 'FOR VALUES IN (''done'')'
\set inside done
\else
SELECT mx.build(:'kind', :'type', :'mode');
CREATE TABLE w.late PARTITION OF w.t FOR VALUES FROM (200) TO (300);
SELECT is(mx.triggers('w.late'), mx.triggers(:'sibling'),
    mx.name('CREATE TABLE ... PARTITION OF: the new partition carries the triggers'));
SELECT mx.put_in('done', 601, 602) \g /dev/null
SELECT mx.put_in('paid', 603) \g /dev/null
UPDATE w.t SET region = 250 WHERE id IN (601, 602);
SELECT mx.lived(601, 'new paid shipped done', 'CREATE TABLE ... PARTITION OF: rows move into it');
SELECT mx.rejected($$INSERT INTO w.late (id, region, state) VALUES (609, 250, 'paid')$$, 'PW002',
    'CREATE TABLE ... PARTITION OF: INSERT straight at it is validated');
SELECT mx.rejected($$UPDATE w.late SET state = 'new' WHERE id = 601$$, 'PW001',
    'CREATE TABLE ... PARTITION OF: UPDATE straight at it is validated');
\set bound 'FOR VALUES FROM (200) TO (300)'
\endif
ALTER TABLE w.t DETACH PARTITION w.late;
SELECT is(mx.triggers('w.late'), 'none', mx.name('DETACH: the table that left carries no trigger of pawl'));
SELECT is((SELECT count(*) FROM pawl.health() WHERE status = 'error'), 0::bigint, mx.name('DETACH: health is content'));
SELECT mx.finds('601 row_missing, 602 row_missing',
    'DETACH: verify finds the logs whose rows have left, and nothing else');
UPDATE w.late SET note = 'free' WHERE id = 601;
INSERT INTO w.late (id, region, state) VALUES (604, 250, 'done');
DELETE FROM w.late WHERE id = 602;
\if :logged
UPDATE w.late SET state = 'shipped' WHERE id = 601 AND NOT :by_state;
SELECT mx.rejected($$ALTER TABLE w.t ATTACH PARTITION w.late FOR VALUES FROM (200) TO (300)$$, '55000',
    'ATTACH PARTITION brings a row in another state than its log ends with: rejected')
 WHERE NOT :by_state;
UPDATE w.late SET state = 'done' WHERE id = 601;
\endif
ALTER TABLE w.t ATTACH PARTITION w.late :bound;
SELECT is(mx.triggers('w.late'), mx.triggers(:'sibling'), mx.name('ATTACH PARTITION: it carries the triggers'));
SELECT mx.finds('602 row_missing', 'ATTACH PARTITION: verify finds the row that was deleted outside, and nothing else');
SELECT is(mx.life(604), 'done', mx.name('ATTACH PARTITION brings a good row: it is taken up as it is'));
SELECT mx.rejected($$UPDATE w.t SET state = 'paid', region = 250 WHERE id = 604$$, 'PW001',
    'ATTACH PARTITION: its rows are validated from now on');
SELECT mx.rejected($$UPDATE w.late SET state = 'done', note = 'x' WHERE id = 604;
            INSERT INTO w.late (id, region, state) VALUES (605, 250, 'done')$$, 'PW002',
    'ATTACH PARTITION: INSERT straight at it is validated');
\if :by_state
\else
ALTER TABLE w.t DETACH PARTITION w.late;
INSERT INTO w.late (id, region, state) VALUES (606, 250, 'alien');
SELECT mx.rejected($$ALTER TABLE w.t ATTACH PARTITION w.late FOR VALUES FROM (200) TO (300)$$, 'PW008',
    'ATTACH PARTITION brings a row in an unknown state: rejected');
\if :splits_state
\else
UPDATE w.late SET state = NULL WHERE id = 606;
SELECT mx.rejected($$ALTER TABLE w.t ATTACH PARTITION w.late FOR VALUES FROM (200) TO (300)$$, 'PW008',
    'ATTACH PARTITION brings a row without a state: rejected');
\endif
DELETE FROM w.late WHERE id = 606;
SELECT is(mx.triggers('w.late'), 'none', mx.name('ATTACH PARTITION rejected: no trigger stays'));
SELECT format('CREATE TABLE w.tree (id int NOT NULL, region int NOT NULL, state %s NOT NULL, note text) PARTITION '
            'BY HASH (id)', :'state_type') \gexec
CREATE TABLE w.tree_a PARTITION OF w.tree FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE w.tree_b PARTITION OF w.tree FOR VALUES WITH (MODULUS 4, REMAINDER 1);
INSERT INTO w.tree VALUES (611, 350, 'new'), (613, 350, 'shipped'), (616, 350, 'alien');
SELECT mx.rejected($$ALTER TABLE w.t ATTACH PARTITION w.tree FOR VALUES FROM (300) TO (400)$$, 'PW008',
    'ATTACH PARTITION of a tree with a bad row below: rejected');
DELETE FROM w.tree WHERE id = 616;
ALTER TABLE w.t ATTACH PARTITION w.tree FOR VALUES FROM (300) TO (400);
SELECT is(mx.life(611) || ', ' || mx.life(613), 'new, shipped',
    mx.name('ATTACH PARTITION of a tree: its rows are taken up'));
UPDATE w.t SET state = 'paid', region = 351 WHERE id = 611;
SELECT is(mx.life(611), CASE WHEN :logged THEN 'new paid' ELSE 'paid' END,
    mx.name('ATTACH PARTITION of a tree: a row moves'));
UPDATE w.t SET state = 'shipped', region = 50 WHERE id = 611;
SELECT is(mx.life(611), CASE WHEN :logged THEN 'new paid shipped' ELSE 'shipped' END,
    mx.name('ATTACH PARTITION of a tree: a row moves out of it'));
SELECT mx.rejected($$UPDATE w.tree_b SET state = 'new' WHERE id = 613$$, 'PW001',
    'ATTACH PARTITION of a tree: UPDATE straight at a leaf is validated');
CREATE TABLE w.tree_c PARTITION OF w.tree FOR VALUES WITH (MODULUS 4, REMAINDER 2);
SELECT mx.rejected($$INSERT INTO w.tree_c VALUES (619, 350, 'paid')$$, 'PW002',
    'CREATE TABLE ... PARTITION OF a partition: validated');
INSERT INTO w.t (id, region) VALUES (619, 350);
SELECT is(mx.life(619), 'new', mx.name('CREATE TABLE ... PARTITION OF a partition: INSERT at the root'));
BEGIN;
ALTER TABLE w.t DETACH PARTITION w.tree;
ROLLBACK;
SELECT mx.rejected($$UPDATE w.t SET state = 'new' WHERE id = 613$$, 'PW001', 'DETACH rolled back: still validated');
DROP TABLE w.tree, w.late;
SELECT mx.finds('601 row_missing, 602 row_missing, 604 row_missing, 613 row_missing, 619 row_missing',
    'DROP TABLE of a partition: verify finds the logs whose rows are gone');
\endif
\endif

\if :inherits
SELECT mx.build(:'kind', :'type', :'mode');
CREATE TABLE w.second (PRIMARY KEY (id)) INHERITS (w.t);
SELECT is(mx.triggers('w.second'), mx.triggers('w.child'),
    mx.name('CREATE TABLE ... INHERITS: the new child carries the triggers'));
SELECT mx.rejected($$INSERT INTO w.second (id, state) VALUES (601, 'paid')$$, 'PW002',
    'CREATE TABLE ... INHERITS: INSERT is validated');
INSERT INTO w.second (id) VALUES (601), (602);
UPDATE w.second SET state = 'paid' WHERE id = 601;
SELECT mx.lived(601, 'new paid', 'CREATE TABLE ... INHERITS: UPDATE of the child');
UPDATE w.t SET state = 'held' WHERE id = 602;
SELECT mx.lived(602, 'new held', 'CREATE TABLE ... INHERITS: UPDATE of the parent');
SELECT mx.rejected($$UPDATE w.second SET state = 'done' WHERE id = 601$$, 'PW001',
    'CREATE TABLE ... INHERITS: UPDATE is validated');
ALTER TABLE w.second NO INHERIT w.t;
SELECT is(mx.triggers('w.second'), 'none', mx.name('NO INHERIT: the table that left carries no trigger of pawl'));
SELECT mx.finds('601 row_missing, 602 row_missing',
    'NO INHERIT: verify finds the logs whose rows have left, and nothing else');
UPDATE w.second SET state = 'alien' WHERE id = 602;
SELECT mx.rejected($$ALTER TABLE w.second INHERIT w.t$$, 'PW008', 'INHERIT brings a row in an unknown state: rejected');
\if :logged
UPDATE w.second SET state = 'new' WHERE id = 602;
SELECT mx.rejected($$ALTER TABLE w.second INHERIT w.t$$, '55000',
    'INHERIT brings a row in another state than its log ends with: rejected');
\endif
UPDATE w.second SET state = 'held' WHERE id = 602;
INSERT INTO w.second (id, state) VALUES (603, 'paid');
ALTER TABLE w.second INHERIT w.t;
SELECT is(mx.triggers('w.second'), mx.triggers('w.child'), mx.name('INHERIT: it carries the triggers'));
SELECT mx.sound('NO INHERIT, changes outside, INHERIT');
SELECT is(mx.life(603), 'paid', mx.name('INHERIT brings a good row: it is taken up as it is'));
UPDATE w.t SET state = 'new' WHERE id = 602;
SELECT mx.sound('INHERIT: a row moves on');
SELECT mx.rejected($$UPDATE w.second SET state = 'new' WHERE id = 603$$, 'PW001',
    'INHERIT: its rows are validated from now on');
CREATE TABLE w.third (PRIMARY KEY (id)) INHERITS (w.second);
SELECT mx.rejected($$INSERT INTO w.third (id, state) VALUES (604, 'paid')$$, 'PW002',
    'a child of a child is validated');
DROP TABLE w.second CASCADE;
SELECT mx.finds('601 row_missing, 602 row_missing, 603 row_missing',
    'DROP TABLE of a child: verify finds the logs whose rows are gone');
\endif
