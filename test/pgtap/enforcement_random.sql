-- Random walks: statements, subtransactions and triggers that change states again, in every mixture, on every kind of
-- table. Whatever was rejected or accepted, rows and logs must agree afterwards. The seed
-- is fixed, so that a walk can be repeated.
\ir include/matrix.sql
SELECT no_plan();

-- Triggers of four kinds, which act now and then: they move a row on, move another row, rewrite it, swallow it.
CREATE FUNCTION mx.meddle() RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM mx.trigger(' first', 'AFTER INSERT OR UPDATE ON %s', $$
    BEGIN
        IF pg_trigger_depth() < 4 AND random() < 0.25 THEN PERFORM mx.step(NEW.id); END IF;
        RETURN NULL;
    END$$);
    PERFORM mx.trigger('zz_last', 'AFTER INSERT OR UPDATE OR DELETE ON %s', $$
    BEGIN
        IF pg_trigger_depth() < 4 AND random() < 0.25 THEN PERFORM mx.step(NULL); END IF;
        RETURN NULL;
    END$$);
    PERFORM mx.trigger('a_before', 'BEFORE UPDATE ON %s', $$
    BEGIN
        IF pg_trigger_depth() < 3 AND random() < 0.1 THEN PERFORM mx.step(NULL); END IF;
        IF random() < 0.1 THEN NEW.state := mx.any_state(NEW.state::text); END IF;
        RETURN NEW;
    END$$);
    PERFORM mx.trigger(repeat('~', 63)::name, 'BEFORE UPDATE ON %s', $$
    BEGIN
        IF random() < 0.05 THEN RETURN NULL; END IF;
        IF random() < 0.1 THEN NEW.state := mx.any_state(NEW.state::text); END IF;
        IF random() < 0.1 THEN NEW.region := 151 - NEW.region; END IF;
        RETURN NEW;
    END$$);
    PERFORM mx.trigger('swallow', 'BEFORE INSERT ON %s',
        'BEGIN IF random() < 0.05 THEN RETURN NULL; END IF; RETURN NEW; END');
END
$body$;

-- Mostly a state that a transition leads to.
CREATE FUNCTION mx.any_state(present text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN random() < 0.85
        THEN coalesce((SELECT t.to_state FROM pawl.transitions('order') t WHERE t.from_state = present
                ORDER BY random() LIMIT 1), present)
                ELSE (ARRAY['new', 'held', 'paid', 'shipped', 'done', 'cancelled'])[1 + floor(random() * 6)] END
$$;

-- One statement, on a row or on some rows, now and then in a subtransaction that is rolled back or catches a rejection.
CREATE FUNCTION mx.step(wanted int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    row_id int := coalesce(wanted, 1 + floor(random() * 12));
    dice float := random();
BEGIN
    IF random() < 0.7 THEN
        BEGIN
            PERFORM mx.statement(row_id);
            IF random() < 0.5 THEN PERFORM mx.statement(row_id); END IF;
            IF random() < 0.15 THEN RAISE EXCEPTION 'changed my mind'; END IF;
        EXCEPTION WHEN OTHERS THEN
            PERFORM mx.expected(SQLSTATE, SQLERRM);
            IF random() < 0.3 THEN
                BEGIN PERFORM mx.statement(row_id); EXCEPTION WHEN OTHERS
                    THEN PERFORM mx.expected(SQLSTATE, SQLERRM); END;
            END IF;
        END;
    ELSE
        PERFORM mx.statement(row_id);
    END IF;
END
$$;

CREATE FUNCTION mx.statement(row_id int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    dice float := random();
    type text := (SELECT mx.type_name(s.type) FROM mx.setting s);
BEGIN
    IF dice < 0.35 THEN
        EXECUTE format('UPDATE w.t SET state = mx.any_state(state::text)::%s WHERE id = %s', type, row_id);
    ELSIF dice < 0.5 THEN
        EXECUTE format('UPDATE w.t SET state = mx.any_state(state::text)::%s, region = 151 - region WHERE id = %s',
            type, row_id);
    ELSIF dice < 0.6 THEN
        EXECUTE format('UPDATE w.t SET state = mx.any_state(state::text)::%s WHERE id %% 3 = %s', type, row_id % 3);
    ELSIF dice < 0.65 THEN
        UPDATE w.t SET region = 151 - region WHERE id % 2 = row_id % 2;
    ELSIF dice < 0.75 THEN
        INSERT INTO w.t (id, region) SELECT row_id, 1 + row_id % 2 * 120
            WHERE NOT EXISTS (SELECT FROM w.t WHERE id = row_id);
    ELSIF dice < 0.8 THEN
        DELETE FROM w.t WHERE id = row_id;
    ELSIF dice < 0.85 THEN
        WITH gone AS (DELETE FROM w.t WHERE id = row_id RETURNING id) INSERT INTO w.t (id) SELECT g.id FROM gone g;
    ELSIF dice < 0.9 THEN
        PERFORM pawl.fire_many('w.t', ARRAY[row_id, 1, 5], 'cancel', state_column => 'state');
    ELSIF dice < 0.95 THEN
        MERGE INTO w.t USING (VALUES (row_id)) v(id) ON t.id = v.id
            WHEN MATCHED THEN UPDATE SET region = 151 - t.region, note = 'merged'
            WHEN NOT MATCHED THEN INSERT (id) VALUES (v.id);
    ELSE
        UPDATE w.t SET note = 'seen' WHERE id = row_id;
    END IF;
END
$$;

-- Rejections are part of the walk; internal errors of pawl are not.
CREATE FUNCTION mx.expected(code text, message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF code NOT IN ('PW001', 'PW002', 'P0001', '23505', '23514', '27000', '54001') THEN
        RAISE WARNING 'unexpected error %: %', code, message;
        INSERT INTO mx.surprise VALUES (code, message);
    END IF;
END
$$;
CREATE TABLE mx.surprise (code text, message text);

CREATE FUNCTION mx.walk(steps int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..steps LOOP
        BEGIN PERFORM mx.step(NULL); EXCEPTION WHEN OTHERS THEN PERFORM mx.expected(SQLSTATE, SQLERRM); END;
    END LOOP;
END
$$;

SELECT setseed(0.4711) \g /dev/null
SELECT s.statement
  FROM (VALUES ('plain', 'text', 'stored'), ('range', 'enum', 'stored'), ('list', 'text', 'stored'),
      ('two_level', 'varchar', 'derived'),
               ('inherited', 'text', 'derived'), ('list', 'enum', 'derived'),
               ('several', 'text_domain', 'stored')) k(kind, type, mode)
 CROSS JOIN LATERAL (
       SELECT 0 AS n, format('SELECT mx.build(%L, %L, %L)', kind, type, mode) AS statement
       UNION ALL SELECT 1, 'SELECT mx.put(1, 2, 3, 4, 5, 6, 7, 8)'
       UNION ALL SELECT 2, 'SELECT mx.meddle()'
       UNION ALL SELECT 3 + 2 * walk, format('SELECT mx.walk(%s)', walk) FROM generate_series(1, 30) walk
       UNION ALL SELECT 4 + 2 * walk, format('SELECT mx.sound(%L)', 'random walk ' || walk)
       FROM generate_series(1, 30) walk) s
 ORDER BY k.kind, k.type, s.n \gexec
SELECT is((SELECT string_agg(DISTINCT code || ' ' || message, ', ') FROM mx.surprise), NULL,
    'random walks: no errors but rejections');
SELECT finish();
