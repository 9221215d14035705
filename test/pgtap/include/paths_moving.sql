-- Paths to a row: rows that change partition, DML straight at a member, members that come and go.

-- UPDATE into another partition -----------------------------------------------------------------------------
SELECT mx.put(201, 202, 203, 204, 205, 206);
UPDATE w.t SET region = region + 1, state = 'paid' WHERE id = 202;
SELECT mx.lived(202, 'new paid', 'UPDATE of the partition key inside its partition');
UPDATE w.t SET region = 150, state = 'paid' WHERE id = 204;
SELECT mx.lived(204, 'new paid', 'partition-moving UPDATE, legal');
UPDATE w.t SET region = 50, state = 'shipped' WHERE id = 204;
SELECT mx.lived(204, 'new paid shipped', 'partition-moving UPDATE back, legal');
UPDATE w.t SET region = 150 WHERE id = 204;
SELECT mx.lived(204, 'new paid shipped', 'partition-moving UPDATE that leaves the state alone: no entry');
SELECT mx.rejected($$UPDATE w.t SET region = 50, state = 'paid' WHERE id = 204$$, 'PW001',
    'partition-moving UPDATE, illegal');
SELECT mx.rejected($$UPDATE w.t SET region = 150, state = 'shipped' WHERE id = 206$$, 'PW001',
    'partition-moving UPDATE, illegal, from a first state');
SELECT mx.lived(206, 'new', 'partition-moving UPDATE, rejected: the row stayed');
UPDATE w.t SET region = 151 - region, state = 'held' WHERE id IN (201, 203, 205, 206);
SELECT mx.lived(201, 'new held', 'partition-moving UPDATE of many rows, one way');
SELECT mx.lived(206, 'new held', 'partition-moving UPDATE of many rows, the other way');
SELECT mx.rejected($$UPDATE w.t SET region = 151 - region, state = CASE id WHEN 206 THEN 'paid' ELSE 'new' END::text::$$
    || mx.type_name(:'type') || $$ WHERE id IN (201, 203, 205, 206)$$,
    'PW001', 'partition-moving UPDATE of many rows, one of them illegal: all or nothing');
SELECT mx.lived(201, 'new held', 'partition-moving UPDATE of many rows, rejected: the good ones stayed too');

-- ... with a later-named BEFORE trigger
SELECT mx.put(211, 212, 213, 214);
SELECT mx.trigger(repeat('~', 63)::name, 'BEFORE UPDATE ON %s', $$
BEGIN
    IF NEW.note ^@ 'to:' THEN NEW.state := substr(NEW.note, 4); NEW.region := 151 - NEW.region; END IF;
    RETURN NEW;
END$$);
UPDATE w.t SET note = 'to:paid' WHERE id IN (211, 212);
SELECT mx.lived(211, 'new paid', 'partition move made by a later-named BEFORE trigger, legal');
SELECT mx.rejected($$UPDATE w.t SET state = 'held', note = 'to:done' WHERE id = 213$$, 'PW001',
    'partition move made by a later-named BEFORE trigger, illegal');
UPDATE w.t SET region = 151 - region, state = 'done', note = 'to:held' WHERE id = 214;
SELECT mx.lived(214, 'new held',
    'partition-moving UPDATE rewritten by a later-named BEFORE trigger: the rewritten state change is logged');
SELECT mx.drop_trigger(repeat('~', 63)::name);

-- ... with a BEFORE INSERT trigger on the destination
SELECT mx.put(221, 222, 223, 224, 225, 226, 227, 228, 229);
SELECT mx.trigger('ins', 'BEFORE INSERT ON %s', $$
BEGIN
    IF NEW.note ^@ 'to:' THEN NEW.state := substr(NEW.note, 4); END IF;
    IF NEW.note = 'swallow' THEN RETURN NULL; END IF;
    RETURN NEW;
END$$);
UPDATE w.t SET state = 'paid' WHERE id IN (224, 225, 226, 228);
\if :moves
UPDATE w.t SET region = 151 - region, state = 'cancelled', note = 'to:shipped' WHERE id = 224;
SELECT mx.lived(224, 'new paid shipped',
    'BEFORE INSERT trigger on the destination rewrites the state, legally: what arrives is validated and logged');
SELECT mx.rejected($$UPDATE w.t SET region = 151 - region, state = 'shipped', note = 'to:done' WHERE id = 226$$,
    'PW001', 'BEFORE INSERT trigger on the destination rewrites the state, illegally');
SELECT mx.lived(226, 'new paid', 'BEFORE INSERT trigger on the destination, rejected: the row stayed');
UPDATE w.t SET region = 151 - region, state = 'shipped', note = 'swallow' WHERE id = 226;
SELECT mx.lived(226, 'new paid -', 'BEFORE INSERT trigger on the destination swallows the row: logged as deleted');
UPDATE w.t SET region = 151 - region, state = 'shipped', note = CASE id WHEN 225 THEN 'swallow' END
    WHERE id IN (225, 228);
SELECT mx.lived(225, 'new paid -', 'one of two moving rows is swallowed: it is deleted');
SELECT mx.lived(228, 'new paid shipped', 'one of two moving rows is swallowed: the other arrives');
-- a swallowed row is not taken for the other half of a row that is inserted next
SELECT mx.rejected(
    $x$DO $do$ BEGIN
        UPDATE w.t SET region = 151 - region, note = 'swallow' WHERE id = 228;
        INSERT INTO w.t (id, state) VALUES (2281, 'done');
    END $do$ $x$,
    'PW002', 'a row is swallowed, another inserted next in the same function: that one is validated as new');
DO $do$ BEGIN
    UPDATE w.t SET region = 151 - region, note = 'swallow' WHERE id = 228;
    INSERT INTO w.t (id, state) VALUES (2281, 'new');
END $do$;
SELECT mx.lived(228, 'new paid shipped -',
    'a row is swallowed, another inserted next in the same function: the first is deleted');
SELECT mx.lived(2281, 'new', 'a row is swallowed, another inserted next in the same function: the other is new');
DO $do$ BEGIN
    UPDATE w.t SET region = 151 - region, note = 'swallow' WHERE id = 2281;
    INSERT INTO w.t (id) VALUES (2281);
END $do$;
SELECT mx.lived(2281, 'new - new', 'a row is swallowed and inserted again in the same function');
\endif
\if :splits_state
UPDATE w.t SET state = 'paid', note = 'to:cancelled' WHERE id = 222;
SELECT mx.lived(222, 'new cancelled',
    'partition by state: BEFORE INSERT trigger on the destination rewrites the state, legally');
SELECT mx.put(2221);
\endif
SELECT mx.drop_trigger('ins');

-- ... while a user's trigger between its two halves fails and is caught
SELECT mx.put(231, 232, 233);
SELECT mx.trigger('zz_between', 'AFTER DELETE ON %s', $$
BEGIN
    IF OLD.note = 'fail' THEN
        BEGIN PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END;
    END IF;
    IF OLD.note = 'add' THEN INSERT INTO w.t (id) VALUES (OLD.id + 1000); UPDATE w.t SET state = 'held', region = 60
        WHERE id = OLD.id + 1000; END IF;
    RETURN NULL;
END$$);
UPDATE w.t SET note = 'fail' WHERE id = 231;
UPDATE w.t SET note = 'add' WHERE id = 233;
UPDATE w.t SET region = 151 - region, state = 'paid' WHERE id = 231;
SELECT mx.lived(231, 'new paid', 'partition-moving UPDATE with an error caught between its two halves');
UPDATE w.t SET region = 151 - region, state = 'paid' WHERE id = 233;
SELECT mx.lived(233, 'new paid', 'partition-moving UPDATE with other rows moved between its two halves');
SELECT mx.drop_trigger('zz_between');

-- DML aimed straight at a partition or child --------------------------------------------------------------------------
SELECT mx.put(241, 242);
SELECT mx.put_in('paid', 245) \g /dev/null
SELECT mx.put_in('cancelled', 246) \g /dev/null
SELECT mx.directly(242, $$state = 'held'$$);
SELECT mx.lived(242, 'new held', 'UPDATE straight at a partition or child');
SELECT mx.directly(245, $$state = 'shipped'$$);
SELECT mx.lived(245, 'new paid shipped', 'UPDATE straight at a partition or child, the other member');
SELECT mx.rejected($$SELECT mx.directly(246, 'state = ''paid''')$$, 'PW001',
    'UPDATE straight at a partition or child, illegal');
SELECT mx.rejected($$SELECT mx.directly(245, 'state = ''cancelled''')$$, 'PW001',
    'UPDATE straight at a partition or child, illegal, the other member');
SELECT mx.rejected(format($$INSERT INTO %s (id, state, region) VALUES (243, 'held', 1)$$, mx.home(242)), 'PW002',
    'INSERT straight at a partition or child, not an initial state');
SELECT format('INSERT INTO %s (id, state, region) VALUES (244, %L, 1)', mx.home(242), 'new') \gexec
SELECT mx.lived(244, 'new', 'INSERT straight at a partition or child');
SELECT format('DELETE FROM %s WHERE id = 244', mx.home(244)) \gexec
SELECT mx.lived(244, 'new -', 'DELETE straight at a partition or child');
