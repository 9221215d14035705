-- Paths to a row that lead through other people's triggers. Included once for each cell.

-- A later-named BEFORE trigger: one that pawl outranks by a longer name, and one with the longest name there is, which
-- has the last word, so that rows are validated after they are written.
\set later ~~later
\ir paths_later.sql
SELECT mx.build(:'kind', :'type', :'mode');
SELECT repeat('~', 63) AS later \gset
\ir paths_later.sql

-- Another trigger sets the column on an UPDATE that does not name it --------------------------------------------------
SELECT mx.put(111, 112, 113);
SELECT mx.trigger('a_early', 'BEFORE UPDATE ON %s', $$
BEGIN
    IF NEW.note ^@ 'to:' THEN NEW.state := substr(NEW.note, 4); END IF;
    RETURN NEW;
END$$);
UPDATE w.t SET note = 'to:paid' WHERE id = 111;
SELECT mx.lived(111, 'new paid', 'another trigger sets the column on an UPDATE that does not name it');
SELECT mx.rejected($$UPDATE w.t SET note = 'to:done' WHERE id = 112$$, 'PW001',
    'another trigger sets the column, illegally, on an UPDATE that does not name it');
UPDATE w.t SET state = 'held', note = 'to:paid' WHERE id = 112;
SELECT mx.lived(112, 'new paid', 'another trigger overrules the state the UPDATE names');
SELECT mx.drop_trigger('a_early');

-- BEFORE INSERT triggers ----------------------------------------------------------------------------------------------
SELECT mx.trigger('~~ins', 'BEFORE INSERT ON %s', $$
BEGIN
    IF NEW.note ^@ 'to:' THEN NEW.state := substr(NEW.note, 4); END IF;
    IF NEW.note = 'drop' THEN RETURN NULL; END IF;
    RETURN NEW;
END$$);
SELECT mx.rejected($$INSERT INTO w.t (id, state, note) VALUES (121, 'new', 'to:paid')$$,
    CASE WHEN :'kind' IN ('list', 'two_level') THEN '0A000' ELSE 'PW002' END,
    'BEFORE INSERT trigger makes a first state illegal');
INSERT INTO w.t (id, state, note) VALUES (122, 'held', 'to:new');
SELECT mx.lived(122, 'new', 'BEFORE INSERT trigger makes a first state legal');
INSERT INTO w.t (id, note) VALUES (123, 'drop');
SELECT mx.lived(123, CASE :'mode' WHEN 'off' THEN '-' END, 'BEFORE INSERT trigger drops the row: no log');
SELECT mx.drop_trigger('~~ins');

-- Nested triggers: an AFTER ROW trigger moves the same row ------------------------------------------------------------
SELECT mx.put(131, 132, 133, 134);
SELECT mx.trigger('zz_after', 'AFTER INSERT OR UPDATE ON %s', $$
BEGIN
    IF NEW.state::text = 'paid' AND NEW.note = 'on' THEN UPDATE w.t SET state = 'shipped' WHERE id = NEW.id; END IF;
    IF NEW.state::text = 'shipped' AND NEW.note = 'on' THEN
        UPDATE w.t SET state = 'done', note = 'end' WHERE id = NEW.id;
    END IF;
    IF NEW.state::text = 'paid' AND NEW.note = 'bad' THEN UPDATE w.t SET state = 'new' WHERE id = NEW.id; END IF;
    RETURN NULL;
END$$);
UPDATE w.t SET state = 'paid', note = 'on' WHERE id IN (131, 132);
SELECT mx.lived(131, 'new paid shipped done', 'user AFTER ROW trigger moves the same row on, twice');
SELECT mx.lived(132, 'new paid shipped done', 'user AFTER ROW trigger moves the same row on, its neighbour too');
SELECT mx.rejected($$UPDATE w.t SET state = 'paid', note = 'bad' WHERE id = 133$$, 'PW001',
    'user AFTER ROW trigger moves the same row back, illegally');
SELECT mx.lived(133, 'new', 'user AFTER ROW trigger: nothing of a rejected state change stays');
SELECT mx.drop_trigger('zz_after');

-- ... whose name sorts before pawl's own
SELECT mx.put(135, 136);
SELECT mx.trigger(' first', 'AFTER INSERT OR UPDATE ON %s', $$
BEGIN
    IF NEW.state::text = 'paid' AND NEW.note = 'on' THEN UPDATE w.t SET state = 'shipped' WHERE id = NEW.id; END IF;
    IF NEW.state::text = 'new' AND NEW.note = 'go' THEN
        UPDATE w.t SET state = 'paid', note = 'on' WHERE id = NEW.id;
    END IF;
    RETURN NULL;
END$$);
UPDATE w.t SET state = 'paid', note = 'on' WHERE id IN (135, 136);
SELECT mx.lived(135, 'new paid shipped', 'user AFTER ROW trigger named before pawl''s moves the same row on');
INSERT INTO w.t (id, note) VALUES (137, 'go'), (138, 'go');
SELECT mx.lived(137, 'new paid shipped', 'user AFTER INSERT trigger named before pawl''s moves the new row on');
SELECT mx.lived(138, 'new paid shipped', 'user AFTER INSERT trigger named before pawl''s moves its neighbour on');
SELECT mx.drop_trigger(' first');

-- ... with a later-named BEFORE trigger, so that every state change is validated after the statement
SELECT mx.put(139, 140);
SELECT mx.trigger(' first', 'AFTER INSERT OR UPDATE ON %s', $$
BEGIN
    IF NEW.state::text = 'held' AND NEW.note = 'loop' THEN UPDATE w.t SET state = 'new' WHERE id = NEW.id; END IF;
    IF NEW.state::text = 'new' AND NEW.note = 'loop' THEN UPDATE w.t SET state = 'cancelled' WHERE id = NEW.id; END IF;
    RETURN NULL;
END$$);
SELECT mx.trigger(repeat('~', 63)::name, 'BEFORE UPDATE ON %s', 'BEGIN RETURN NEW; END');
UPDATE w.t SET state = 'held', note = 'loop' WHERE id IN (139, 140);
SELECT mx.lived(139, 'new held new cancelled',
    'state changes validated after their statements, in a circle, keep their order');
SELECT mx.lived(140, 'new held new cancelled',
    'state changes validated after their statements, in a circle, the neighbour');
SELECT mx.drop_trigger(' first');
SELECT mx.drop_trigger(repeat('~', 63)::name);

-- An AFTER ROW trigger moves another row that is pending in the same statement ----------------------------------------
SELECT mx.put(141, 142, 143);
SELECT mx.trigger('zz_other', 'AFTER INSERT OR UPDATE ON %s', $$
BEGIN
    IF NEW.note = 'pair' AND NEW.state::text = 'paid' THEN
        UPDATE w.t SET state = 'shipped', note = NULL WHERE id IN (141, 142, 143) AND state::text = 'paid';
    END IF;
    IF NEW.note = 'pair' AND NEW.state::text = 'new' THEN
        UPDATE w.t SET state = 'cancelled', note = NULL WHERE id IN (144, 145, 146) AND state::text = 'new';
    END IF;
    RETURN NULL;
END$$);
UPDATE w.t SET state = 'paid', note = 'pair' WHERE id IN (141, 142, 143);
SELECT mx.lived(141, 'new paid shipped', 'AFTER ROW trigger moves rows pending in the same statement');
SELECT mx.lived(143, 'new paid shipped', 'AFTER ROW trigger moves rows pending in the same statement, the last one');
INSERT INTO w.t (id, note) VALUES (144, 'pair'), (145, 'pair'), (146, 'pair');
SELECT mx.lived(144, 'new cancelled', 'AFTER ROW trigger moves rows of the same INSERT');
SELECT mx.lived(146, 'new cancelled', 'AFTER ROW trigger moves rows of the same INSERT, the last one');
SELECT mx.drop_trigger('zz_other');

-- A BEFORE trigger moves other rows -----------------------------------------------------------------------------------
SELECT mx.put(151, 152, 153, 154, 155);
SELECT mx.trigger('a_before', 'BEFORE UPDATE ON %s', $$
BEGIN
    IF NEW.note = 'pull' THEN UPDATE w.t SET state = 'paid', note = 'pulled' WHERE id = NEW.id + 1; END IF;
    IF NEW.note = 'twist' THEN UPDATE w.t SET state = 'cancelled', note = 'x' WHERE id = NEW.id + 1; UPDATE w.t
        SET state = 'new', note = 'x' WHERE id = NEW.id + 1; END IF;
    RETURN NEW;
END$$);
UPDATE w.t SET state = 'held', note = 'pull' WHERE id = 151;
SELECT mx.lived(151, 'new held', 'BEFORE trigger moves another row: the row itself');
SELECT mx.lived(152, 'new paid', 'BEFORE trigger moves another row: the other');
SELECT mx.rejected($$UPDATE w.t SET state = 'held', note = 'twist' WHERE id = 153$$, 'PW001',
    'BEFORE trigger moves another row illegally');
SELECT mx.rejected($$UPDATE w.t SET state = 'held', note = CASE WHEN id = 154 THEN 'pull' END WHERE id IN (154, 155)$$,
    '27000', 'BEFORE trigger moves a row that is pending in the same statement: PostgreSQL rejects it');
SELECT mx.lived(155, 'new', 'BEFORE trigger moves a pending row: nothing stays');
SELECT mx.drop_trigger('a_before');

-- A trigger that catches the rejection and takes another transition ---------------------------------------------------
SELECT mx.put(161, 162);
SELECT mx.trigger('zz_catch', 'AFTER INSERT OR UPDATE ON %s', $$
BEGIN
    IF NEW.note = 'try' THEN
        BEGIN
            UPDATE w.t SET state = 'shipped', note = NULL WHERE id = NEW.id;
            UPDATE w.t SET state = 'new' WHERE id = NEW.id;
        EXCEPTION WHEN SQLSTATE 'PW001' THEN
            UPDATE w.t SET state = 'cancelled', note = NULL WHERE id = NEW.id;
        END;
    END IF;
    RETURN NULL;
END$$);
UPDATE w.t SET state = 'paid', note = 'try' WHERE id IN (161, 162);
SELECT mx.lived(161, 'new paid cancelled',
    'a trigger catches a rejection and takes another transition: only what remained is logged');
SELECT mx.lived(162, 'new paid cancelled', 'a trigger catches a rejection and takes another transition: the neighbour');
SELECT mx.drop_trigger('zz_catch');
