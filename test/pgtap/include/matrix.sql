-- The stage of the enforcement tests: builds an enforced table of a kind, a state type and a way of keeping the log,
-- and says whether what pawl promises holds. The table is always w.t(id, region, state, note) and its like, so that the
-- same statements run on every kind; :kind, :type and :mode are set by the script that includes the paths.
SET check_function_bodies = off;
SET client_min_messages = error;
CREATE SCHEMA mx;

SELECT pawl.define('order', $$
stateDiagram-v2
    [*] --> new
    new --> held : hold
    held --> new : resume
    new --> paid : pay
    new --> cancelled : cancel
    paid --> shipped : ship
    paid --> cancelled : cancel
    shipped --> done : deliver
    done --> [*]
    cancelled --> [*]
$$) AS ignored \gset
SELECT pawl.define('money', $$
stateDiagram-v2
    [*] --> none
    none --> charged : charge
    charged --> returned : give_back
    returned --> [*]
$$) AS ignored \gset

-- Both machines' states, and one that neither knows.
CREATE TYPE mx.label
    AS ENUM ('new', 'held', 'paid', 'shipped', 'done', 'cancelled', 'none', 'charged', 'returned', 'alien');
CREATE DOMAIN mx.text_domain AS text CHECK (VALUE <> '');
CREATE DOMAIN mx.enum_domain AS mx.label CHECK (VALUE IS NOT NULL OR VALUE IS NULL);

CREATE TABLE mx.setting (kind text, type text, mode text);

CREATE FUNCTION mx.type_name(type text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE type WHEN 'text' THEN 'text' WHEN 'varchar' THEN 'varchar(12)' WHEN 'enum' THEN 'mx.label'
                     WHEN 'text_domain' THEN 'mx.text_domain' WHEN 'enum_domain' THEN 'mx.enum_domain' END
$$;

-- The tables, not yet enforced. What partitions are called: w.low and w.high (by region),
-- w.young and w.grown (by state), w.child.
CREATE FUNCTION mx.make(kind text, type text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    columns text := format('id int NOT NULL, region int NOT NULL DEFAULT 1, state %s DEFAULT ''new'', note text',
        mx.type_name(type));
BEGIN
    DROP SCHEMA IF EXISTS w CASCADE;
    CREATE SCHEMA w;
    IF kind = 'plain' THEN
        EXECUTE format('CREATE TABLE w.t (%s, PRIMARY KEY (id))', columns);
    ELSIF kind = 'several' THEN
        EXECUTE format('CREATE TABLE w.t (%s, money %s NOT NULL DEFAULT ''none'', PRIMARY KEY (id))', columns,
            mx.type_name(type));
    ELSIF kind = 'range' THEN
        EXECUTE format('CREATE TABLE w.t (%s, PRIMARY KEY (id, region)) PARTITION BY RANGE (region)', columns);
        CREATE TABLE w.low PARTITION OF w.t FOR VALUES FROM (0) TO (100);
        -- columns in another order, and one that was dropped
        EXECUTE format('CREATE TABLE w.high (gone int, note text, state %s DEFAULT ''new'', region int NOT NULL '
            'DEFAULT 1, id int NOT NULL)', mx.type_name(type));
        ALTER TABLE w.high DROP COLUMN gone;
        ALTER TABLE w.t ATTACH PARTITION w.high FOR VALUES FROM (100) TO (200);
    ELSIF kind = 'list' THEN
        EXECUTE format('CREATE TABLE w.t (%s, PRIMARY KEY (id, state)) PARTITION BY LIST (state)', columns);
        CREATE TABLE w.young PARTITION OF w.t FOR VALUES IN ('new', 'held');
        EXECUTE format('CREATE TABLE w.grown (gone int, note text, state %s NOT NULL DEFAULT ''new'', region int NOT '
            'NULL DEFAULT 1, id int NOT NULL)', mx.type_name(type));
        ALTER TABLE w.grown DROP COLUMN gone;
        ALTER TABLE w.t ATTACH PARTITION w.grown FOR VALUES IN ('paid', 'shipped', 'cancelled');
        CREATE TABLE w.late PARTITION OF w.t FOR VALUES IN ('done');
    ELSIF kind = 'two_level' THEN
        EXECUTE format('CREATE TABLE w.t (%s, PRIMARY KEY (id, region, state)) PARTITION BY RANGE (region)', columns);
        CREATE TABLE w.low PARTITION OF w.t FOR VALUES FROM (0) TO (100) PARTITION BY LIST (state);
        CREATE TABLE w.young PARTITION OF w.low FOR VALUES IN ('new', 'held');
        CREATE TABLE w.grown PARTITION OF w.low DEFAULT;
        CREATE TABLE w.high PARTITION OF w.t FOR VALUES FROM (100) TO (200);
    ELSIF kind = 'inherited' THEN
        EXECUTE format('CREATE TABLE w.t (%s, PRIMARY KEY (id))', columns);
        EXECUTE format('CREATE TABLE w.child (note text, extra int, state %s DEFAULT ''new'', region int NOT NULL '
            'DEFAULT 1, id int NOT NULL PRIMARY KEY)', mx.type_name(type));
        ALTER TABLE w.child INHERIT w.t;
    END IF;
END
$$;

-- A foreign key onto the state from every member; rows whose note is null have none.
CREATE FUNCTION mx.fk(actions text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    member regclass;
BEGIN
    FOR member IN SELECT c.oid FROM pg_class c WHERE c.oid IN ('w.t'::regclass, to_regclass('w.child')) LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS fk', member);
        IF actions IS NOT NULL THEN
            EXECUTE format('ALTER TABLE %s ADD CONSTRAINT fk FOREIGN KEY (note, state) REFERENCES w.status %s', member,
                actions);
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION mx.build(kind text, type text, mode text, on_delete text DEFAULT 'allow') RETURNS void LANGUAGE plpgsql
SET client_min_messages = error AS $$
BEGIN
    DELETE FROM mx.setting;
    INSERT INTO mx.setting VALUES (kind, type, mode);
    PERFORM mx.make(kind, type);
    PERFORM mx.enforce(on_delete);
END
$$;

CREATE FUNCTION mx.enforce(on_delete text DEFAULT 'allow') RETURNS void LANGUAGE plpgsql
    SET client_min_messages = error AS $$
DECLARE
    s mx.setting := (SELECT s FROM mx.setting s);
BEGIN
    IF s.kind = 'several' THEN
        PERFORM pawl.enforce('w.t', 'money', 'money', on_delete => on_delete);
        IF s.mode <> 'off' THEN
            PERFORM pawl.enable_log('w.t', 'money',
                most_recent => CASE s.mode WHEN 'derived' THEN 'stored' ELSE 'derived' END);
        END IF;
    END IF;
    PERFORM pawl.enforce('w.t', 'state', 'order', key => '{id}', on_delete => on_delete);
    IF s.mode <> 'off' THEN
        PERFORM pawl.enable_log('w.t', 'state', most_recent => s.mode, hash_chain => s.mode = 'stored');
    END IF;
END
$$;

-- New rows, in the partition or child that their number says: odd ones in the second, where the kind has two.
CREATE FUNCTION mx.put(VARIADIC ids int[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind text := (SELECT s.kind FROM mx.setting s);
BEGIN
    IF kind = 'inherited' THEN
        INSERT INTO w.child (id) SELECT i FROM unnest(ids) i WHERE i % 2 = 1;
        INSERT INTO w.t (id) SELECT i FROM unnest(ids) i WHERE i % 2 = 0;
    ELSE
        INSERT INTO w.t (id, region) SELECT i, 1 + i % 2 * 120 FROM unnest(ids) i;
    END IF;
END
$$;

-- Inserts rows and takes them to a state along transitions.
CREATE FUNCTION mx.put_in(state text, VARIADIC ids int[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    step text;
BEGIN
    PERFORM mx.put(VARIADIC ids);
    FOREACH step IN ARRAY CASE state WHEN 'paid' THEN '{paid}' WHEN 'shipped' THEN '{paid,shipped}'
        WHEN 'done' THEN '{paid,shipped,done}'
                                     ELSE ARRAY[state] END::text[] LOOP
        EXECUTE format('UPDATE w.t SET state = %L WHERE id = ANY ($1)', step) USING ids;
    END LOOP;
END
$$;

-- A trigger on the whole tree: on children too, which inheritance does not do by itself.
CREATE FUNCTION mx.trigger(name name, timing text, body text, level text DEFAULT 'ROW') RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    member regclass;
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION w.%I() RETURNS trigger LANGUAGE plpgsql AS %L', 'f_' || md5(name), body);
    FOR member IN SELECT c.oid FROM pg_class c WHERE c.oid IN ('w.t'::regclass, to_regclass('w.child')) LOOP
        EXECUTE format('CREATE TRIGGER %I %s FOR EACH %s EXECUTE FUNCTION w.%I()', name, format(timing, member), level,
            'f_' || md5(name));
    END LOOP;
END
$$;

CREATE FUNCTION mx.drop_trigger(name name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP FUNCTION w.%I() CASCADE', 'f_' || md5(name));
END
$$;

-- The member table a row lies in.
CREATE FUNCTION mx.home(id int) RETURNS regclass
    LANGUAGE sql AS $$ SELECT t.tableoid::regclass FROM w.t WHERE t.id = home.id $$;

-- Updates a row at the partition or child that holds it.
CREATE FUNCTION mx.directly(id int, change text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE %s SET %s WHERE id = %s', mx.home(id), change, id);
END
$$;

-- The life of a row: `new paid`, and `-` for its deletion. Without a log it is only where the row is.
CREATE FUNCTION mx.life(id int, state_column name DEFAULT 'state') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound pawl.binding := (SELECT b FROM pawl.binding b
        WHERE b.relation = 'w.t'::regclass AND b.state_column = life.state_column);
    life text;
BEGIN
    IF bound.history IS NULL THEN
        EXECUTE format('SELECT %I::text FROM w.t WHERE id = $1', state_column) INTO life USING id;
        RETURN coalesce(life, '-');
    END IF;
    EXECUTE format('SELECT string_agg(coalesce(l.to_state, ''-''), '' '' ORDER BY l.sort_key) FROM %s l WHERE %I = $1',
        bound.history, bound.log_key_columns[1]) INTO life USING id;
    RETURN life;
END
$$;

-- What is wrong with rows and logs, said without pawl's help and then with it; empty when nothing is.
CREATE FUNCTION mx.broken() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    bound record;
    found_one text;
    problems text := '';
BEGIN
    FOR bound IN SELECT b.*, quote_ident(b.log_key_columns[1]) AS k FROM pawl.binding b WHERE b.history IS NOT NULL LOOP
        EXECUTE format($query$
            SELECT string_agg(format('%%s: %%s at %%s', p.what, p.k, p.sort_key), '; ') FROM (
                SELECT l.%1$s AS k, l.sort_key,
                       CASE WHEN l.sort_key <> row_number() OVER w THEN 'numbers have a gap'
                            WHEN l.from_state IS DISTINCT FROM lag(l.to_state) OVER w
                                THEN 'an entry begins in another state'
                            WHEN l.created_at < lag(l.created_at) OVER w THEN 'the clock ran backwards'
                            WHEN %2$s THEN 'most_recent is wrong'
                            WHEN lead(l.sort_key) OVER w IS NULL
                                 AND l.to_state IS DISTINCT FROM (SELECT r.%3$I::text FROM %4$s r WHERE r.id = l.%1$s)
                                     THEN 'the log ends elsewhere'
                       END AS what
                  FROM %5$s l WINDOW w AS (PARTITION BY l.%1$s ORDER BY l.sort_key)) p
             WHERE p.what IS NOT NULL$query$, bound.k,
            CASE bound.most_recent WHEN 'stored' THEN 'l.most_recent <> (lead(l.sort_key) OVER w IS NULL)'
                ELSE 'false' END, bound.state_column, bound.relation, bound.history) INTO found_one;
        problems := problems || coalesce(found_one, '');
        EXECUTE format(
            'SELECT string_agg(r.id::text, '', '') FROM %s r WHERE NOT EXISTS (SELECT FROM %s l WHERE l.%s = r.id)',
                       bound.relation, bound.history, bound.k) INTO found_one;
        problems := problems || coalesce('rows without a log: ' || found_one, '');
    END LOOP;
    SELECT string_agg(format('%s %s: %s, %s', v.relation, v.key, v.problem, v.detail), '; ') INTO found_one
        FROM (SELECT DISTINCT b.relation FROM pawl.binding b) b CROSS JOIN LATERAL pawl.verify(b.relation) v;
    RETURN problems || coalesce(found_one, '');
END
$$;

CREATE FUNCTION mx.name(description text) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s (%s, %s, log %s)', description, s.kind, s.type, s.mode) FROM mx.setting s
$$;

-- Assertions. `lived`: the row went through these states, no others, and everything pawl promises holds.
CREATE FUNCTION mx.lived(id int, states text, description text, state_column name DEFAULT 'state') RETURNS SETOF text
    LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT s.mode FROM mx.setting s) = 'off' THEN
        states := regexp_replace(states, '.* ', '');
    END IF;
    RETURN NEXT is(mx.life(id, state_column), states, mx.name(description));
    RETURN NEXT is(mx.broken(), '', mx.name(description || ': rows and logs agree'));
END
$$;

CREATE FUNCTION mx.rejected(statement text, code text, description text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEXT throws_ok(statement, code::char(5), NULL::text, mx.name(description));
END
$$;

CREATE FUNCTION mx.sound(description text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT is(mx.broken(), '', mx.name(description || ': rows and logs agree'))
$$;

-- What verify finds, as `601 row_missing, ...`; without a log there is nothing of that kind to find.
CREATE FUNCTION mx.finds(problems text, description text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT is((SELECT coalesce(string_agg(v.key || ' ' || v.problem, ', ' ORDER BY v.key, v.problem), '')
        FROM pawl.verify() v),
              CASE (SELECT s.mode FROM mx.setting s) WHEN 'off' THEN '' ELSE problems END, mx.name(description))
$$;

-- What a statement left of the rows, as `1:new 2:paid`.
CREATE FUNCTION mx.rows(VARIADIC ids int[]) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(t.id || ':' || t.state::text, ' ' ORDER BY t.id, t.state::text) FROM w.t WHERE t.id = ANY (ids)
$$;

-- The owner turns the triggers of the whole tree off, or on again.
CREATE FUNCTION mx.bypass(off boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    member regclass;
BEGIN
    FOR member IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'w'::regnamespace AND c.relkind IN ('r', 'p')
                     AND EXISTS (SELECT FROM pg_trigger g
                         WHERE g.tgrelid = c.oid AND g.tgfoid = 'pawl.validate()'::regprocedure) LOOP
        EXECUTE format('ALTER TABLE %s %s TRIGGER USER', member, CASE WHEN off THEN 'DISABLE' ELSE 'ENABLE' END);
    END LOOP;
END
$$;

-- Which triggers of pawl's a table carries.
CREATE FUNCTION mx.triggers(relation regclass) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(t.tgname, ' ' ORDER BY t.tgname), 'none') FROM pg_trigger t
        WHERE t.tgrelid = relation AND t.tgname ~ 'pawl_'
$$;
