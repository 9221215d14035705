-- A path to a row: a later-named BEFORE trigger, named :later, rewrites NEW.state.
SELECT CASE length(:'later') WHEN 63 THEN 'later-named BEFORE trigger, last word' ELSE 'later-named BEFORE trigger' END
    AS named \gset
SELECT mx.put(101, 102, 103, 104, 105, 106);
SELECT mx.trigger(:'later', 'BEFORE UPDATE ON %s', $$
BEGIN
    IF NEW.note ^@ 'to:' THEN NEW.state := substr(NEW.note, 4); END IF;
    IF NEW.note = 'null' THEN NEW.state := NULL; END IF;
    IF NEW.note = 'drop' THEN RETURN NULL; END IF;
    RETURN NEW;
END$$);
SELECT mx.rejected($$UPDATE w.t SET state = 'paid', note = 'to:done' WHERE id = 101$$, 'PW001',
    :'named' || ' makes a legal state change illegal');
SELECT mx.rejected($$UPDATE w.t SET state = 'paid', note = 'to:alien' WHERE id = 101$$, :'unknown_rejected',
    :'named' || ' writes an unknown state');
UPDATE w.t SET state = 'done', note = 'to:paid' WHERE id = 101;
SELECT mx.lived(101, 'new paid', :'named' || ' makes an illegal state change legal: the rewritten one is logged');
UPDATE w.t SET note = 'to:cancelled' WHERE id = 102;
SELECT mx.lived(102, 'new cancelled', :'named' || ' moves a row on an UPDATE of another column');
SELECT mx.rejected($$UPDATE w.t SET note = 'to:shipped' WHERE id = 103$$, 'PW001',
    :'named' || ', illegal, on an UPDATE of another column');
SELECT mx.lived(103, 'new', :'named' || ': a rejected row stayed');
UPDATE w.t SET state = 'paid', note = 'to:new' WHERE id = 104;
SELECT mx.lived(104, 'new', :'named' || ' takes the state change back: no entry');
UPDATE w.t SET state = 'paid', note = 'drop' WHERE id = 105;
SELECT mx.lived(105, 'new', :'named' || ' drops the update: no entry');
UPDATE w.t SET state = 'paid', note = CASE id WHEN 105 THEN 'drop' ELSE 'to:held' END WHERE id IN (105, 106);
SELECT mx.lived(105, 'new', :'named' || ' drops one row of two');
SELECT mx.lived(106, 'new held', :'named' || ' rewrites the other row of two');
UPDATE w.t SET state = 'new', note = NULL WHERE id = 106;
SELECT mx.lived(106, 'new held new', :'named' || ' leaves a row alone');
SELECT mx.drop_trigger(:'later');
UPDATE w.t SET state = 'paid', note = NULL WHERE id = 106;
SELECT mx.lived(106, 'new held new paid', :'named' || ' is gone again');

