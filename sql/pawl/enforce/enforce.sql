-- Attaching machines to tables: pawl.enforce, pawl.release, pawl.upgrade.

-- The key of a table: the columns given, or its primary key without the state (a table partitioned by its state has that in
-- the primary key, but a row keeps its identity when it moves).
CREATE FUNCTION pawl._choose_key(relation regclass, state_column name, key name[]) RETURNS name[]
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    chosen name[];
    missing name;
    nullable name[];
    attnums smallint[];
BEGIN
    IF key IS NULL THEN
        SELECT coalesce(array_agg(a.attname ORDER BY k.n), '{}') INTO chosen
          FROM pg_index i
          CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, n)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
         WHERE i.indrelid = relation AND i.indisprimary AND k.n <= i.indnkeyatts AND a.attname <> state_column;
        RETURN chosen;
    END IF;
    IF array_ndims(key) IS DISTINCT FROM 1 OR array_position(key, NULL) IS NOT NULL THEN
        PERFORM pawl._raise('22023', 'key must be a list of column names');
    END IF;
    SELECT k INTO missing FROM unnest(key) k
     WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = k AND a.attnum > 0 AND NOT a.attisdropped)
     LIMIT 1;
    IF FOUND THEN
        PERFORM pawl._raise('42703', format('key column "%s" of table %s does not exist', missing, relation));
    END IF;
    IF state_column = ANY (key) THEN
        PERFORM pawl._raise('22023', format('the state column "%s" cannot be part of the key', state_column),
            'A row keeps its key when it moves.');
    END IF;
    IF (SELECT count(DISTINCT k) FROM unnest(key) k) < cardinality(key) THEN
        PERFORM pawl._raise('42701', 'a key column is named twice');
    END IF;
    SELECT array_agg(a.attname ORDER BY a.attnum) FILTER (WHERE NOT a.attnotnull), array_agg(a.attnum)
      INTO nullable, attnums
      FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = ANY (key);
    IF nullable IS NOT NULL THEN
        RAISE WARNING USING ERRCODE = '01000', MESSAGE = format('key column "%s" of table %s may be null', nullable[1], relation),
            HINT = format('alter table %s alter column %I set not null', relation, nullable[1]);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisunique AND i.indisvalid
                      AND i.indpred IS NULL AND i.indexprs IS NULL
                      AND (SELECT bool_and(u.attnum = ANY (attnums)
                                           OR u.attnum = (SELECT s.attnum FROM pg_attribute s
                                                           WHERE s.attrelid = relation AND s.attname = state_column))
                             FROM unnest(i.indkey::smallint[]) WITH ORDINALITY u(attnum, n) WHERE u.n <= i.indnkeyatts)) THEN
        RAISE WARNING USING ERRCODE = '01000',
            MESSAGE = format('nothing keeps the key (%s) of table %s unique', array_to_string(key, ', '), relation),
            HINT = format('alter table %s add unique (%s)', relation, pawl._columns('', key));
    END IF;
    RETURN key;
END
$function$;
COMMENT ON FUNCTION pawl._choose_key(regclass, name, name[]) IS 'internal: the key columns of a table, given or its primary key';

-- Where the log of a column goes. A second lifecycle of a table, or one that had a log of its own before, names its column.
CREATE FUNCTION pawl._choose_log(relation regclass, state_column name, log_name name) RETURNS name
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    class pg_class;
    short name;
    long name;
BEGIN
    IF log_name IS NOT NULL THEN
        IF log_name = '' OR octet_length(log_name) > 59 THEN
            PERFORM pawl._raise('42622', 'log_name must have 1 to 59 bytes', 'A derived log adds _log to it.');
        END IF;
        RETURN log_name;
    END IF;
    SELECT c.* INTO class FROM pg_class c WHERE c.oid = relation;
    -- both with room for _transitions_log
    short := left(pawl._log_name(class.relname, '_transitions_log'), -4);
    long := left(pawl._log_name(class.relname || '_' || state_column, '_transitions_log'), -4);
    IF EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = class.relnamespace AND c.relname IN (long, long || '_log')
                  AND NOT EXISTS (SELECT FROM pawl.binding b WHERE c.oid IN (b.history, b.history_view)))
       OR EXISTS (SELECT FROM pg_class c JOIN pawl.binding b ON c.oid IN (b.history, b.history_view)
                   WHERE c.relnamespace = class.relnamespace AND c.relname IN (short, short || '_log')) THEN
        RETURN long;
    END IF;
    RETURN short;
END
$function$;
COMMENT ON FUNCTION pawl._choose_log(regclass, name, name) IS 'internal: the name of the log of a column';

CREATE FUNCTION pawl.enforce(relation regclass, state_column name, machine text, version integer DEFAULT NULL,
    history boolean DEFAULT false, most_recent text DEFAULT 'stored', hash_chain boolean DEFAULT false, key name[] DEFAULT NULL,
    on_delete text DEFAULT 'allow', always boolean DEFAULT false, log_name name DEFAULT NULL,
    owner name DEFAULT NULL, lease name DEFAULT NULL, token name DEFAULT NULL, due name DEFAULT NULL, attempts name DEFAULT NULL,
    max_attempts name DEFAULT NULL, queue name DEFAULT NULL, claim text[] DEFAULT NULL, claim_order text DEFAULT NULL,
    lease_time interval DEFAULT '60 s', lapse text DEFAULT NULL, retry text[] DEFAULT NULL, backoff jsonb DEFAULT NULL,
    operator_events text[] DEFAULT NULL, events boolean DEFAULT false, wake boolean DEFAULT false, lapse_else text DEFAULT NULL,
    backoff_column name DEFAULT NULL, log_partition text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    problem record;
    given record;
    wanted integer;
    bound pawl.binding;
    found_one text;
    is_new boolean;
BEGIN
    FOR given IN
        SELECT * FROM (VALUES ('relation', relation IS NULL), ('state_column', state_column IS NULL), ('machine', machine IS NULL),
            ('history', history IS NULL), ('most_recent', most_recent IS NULL), ('hash_chain', hash_chain IS NULL),
            ('on_delete', on_delete IS NULL), ('always', always IS NULL), ('lease_time', lease_time IS NULL), ('events', events IS NULL),
            ('wake', wake IS NULL)) a(name, is_missing) WHERE is_missing
    LOOP
        PERFORM pawl._raise('22004', format('%s must not be null', given.name));
    END LOOP;
    IF most_recent NOT IN ('stored', 'derived') THEN
        PERFORM pawl._raise('22023', format('unknown value "%s" for most_recent', most_recent), NULL, 'stored or derived');
    END IF;
    IF on_delete NOT IN ('allow', 'terminal', 'deny') THEN
        PERFORM pawl._raise('22023', format('unknown value "%s" for on_delete', on_delete), NULL, 'allow, terminal or deny');
    END IF;
    IF NOT history AND (hash_chain OR log_name IS NOT NULL OR log_partition IS NOT NULL) THEN
        PERFORM pawl._raise('22023', format('%s needs a log', CASE WHEN hash_chain THEN 'hash_chain' WHEN log_name IS NOT NULL THEN 'log_name' ELSE 'log_partition' END), NULL,
            'history => true');
    END IF;

    PERFORM pawl._check_isolation('pawl.enforce');
    PERFORM pawl._check_table(relation);
    wanted := pawl._version(machine, version);
    -- this version stays while we look at it
    PERFORM pawl._hold_version(machine, wanted);
    -- from here on no row changes and nobody else attaches
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation);
    PERFORM pawl._check_table(relation);

    IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation = enforce.relation AND b.state_column = enforce.state_column) THEN
        PERFORM pawl._raise('42710', format('column "%s" of table %s has a lifecycle already', state_column, relation),
            (SELECT format('It is machine "%s", version %s.', b.machine, b.version) FROM pawl.binding b
              WHERE b.relation = enforce.relation AND b.state_column = enforce.state_column),
            format('select pawl.upgrade(%L, %L), or select pawl.release(%L, %L)', relation, state_column, relation, state_column));
    END IF;
    SELECT * INTO problem FROM pawl._column_problem(relation, state_column, machine, wanted, true);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl._raise(problem.code, problem.message, problem.detail, problem.hint);
    END IF;
    PERFORM pawl._check_members(relation, ARRAY(SELECT m FROM pawl._members(relation) m));

    SELECT string_agg(g, ', ' ORDER BY g) INTO found_one FROM pawl._guard_functions(relation, machine, wanted) g;
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('PW007', format('machine "%s" has guards or effects that cannot be called for table %s', machine, relation),
            format('There is no such function of two rows of the table: %s.', found_one),
            format('create function f(old %s, new %s) returns boolean ...', relation, relation));
    END IF;

    bound.relation := relation;
    bound.state_column := state_column;
    bound.machine := machine;
    bound.version := wanted;
    bound.most_recent := most_recent;
    bound.hash_chain := hash_chain;
    bound.on_delete := on_delete;
    bound.always := always;
    bound.key_columns := pawl._choose_key(relation, state_column, key);
    bound.log_key_columns := pawl._log_key_columns(bound.key_columns);
    IF history AND bound.key_columns = '{}' THEN
        PERFORM pawl._raise('55000', format('table %s has no key for its log', relation),
            CASE WHEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisprimary)
                 THEN 'Its primary key is the state alone.' ELSE 'It has no primary key.' END,
            'add one, or name columns that identify a row: key => array[...]');
    END IF;
    IF events AND bound.key_columns = '{}' THEN
        PERFORM pawl._raise('55000', format('table %s has no key for its events', relation), NULL,
            'add a primary key, or name columns that identify a row: key => array[...]');
    END IF;

    bound.owner_column := owner;
    bound.lease_column := lease;
    bound.token_column := token;
    bound.due_column := due;
    bound.attempts_column := attempts;
    bound.max_attempts_column := max_attempts;
    bound.queue_column := queue;
    bound.claim_events := coalesce(claim, '{}');
    SELECT o.names, o.descending INTO bound.claim_columns, bound.claim_descending FROM pawl._claim_order(claim_order) o;
    bound.lease_time := lease_time;
    bound.lapse_event := lapse;
    bound.lapse_else := lapse_else;
    bound.backoff_column := backoff_column;
    bound.retry_events := coalesce(retry, '{}');
    bound.backoff := backoff;
    bound.operator_events := coalesce(operator_events, '{}');
    bound.events := events;
    bound.wake := wake;
    bound.trace_columns := '{}';
    bound.log_fence := false;
    bound.result_columns := '{}';
    PERFORM pawl._check_work(bound);

    found_one := pawl._strange_rows(relation::text, state_column, pawl._atoms(machine, wanted));
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('PW008', format('table %s has rows that are in no state of machine "%s"', relation, machine), found_one,
            format('update %s set %I = ... where %I is null or %I::text not in (select state from pawl.states(%L))',
                   relation, state_column, state_column, state_column, machine));
    END IF;

    found_one := pawl._wrongly_owned_rows(relation::text, bound);
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('55000', format('table %s has rows with an owner or a lease in states that are not owned', relation), found_one,
            pawl._disown_hint(relation, bound));
    END IF;

    IF history THEN
        SELECT * INTO bound.history, bound.history_view, is_new
          FROM pawl._take_log(bound, pawl._choose_log(relation, state_column, log_name), log_partition);
        PERFORM pawl._open_log(bound.history);
        IF NOT is_new THEN
            PERFORM pawl._close_missing(bound);
        END IF;
        PERFORM pawl._attach_rows(bound, relation::text);
    END IF;
    bound.calls := pawl._resolve_calls(relation, machine, wanted, NULL);
    PERFORM pawl._store_binding(bound);  -- which says when: later than what was written for it
    PERFORM pawl._install(relation);
    PERFORM pawl._make_indexes(bound);
    IF history THEN
        PERFORM pawl._close_log(bound.history, door => true);
        PERFORM pawl._resume_audit(bound);
        PERFORM pawl._grant_log(relation, state_column, bound.history, bound.history_view);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.enforce(regclass, name, text, integer, boolean, text, boolean, name[], text, boolean, name, name, name, name, name, name, name, name,
    text[], text, interval, text, text[], jsonb, text[], boolean, boolean, text, name, text) IS
'attaches a machine to a column of a table: from now on its rows move only along the arrows. history keeps a log beside the table; most_recent is stored or derived; hash_chain makes each log row hash its predecessor; key names the columns that identify a row (default: the primary key); on_delete is allow, terminal or deny; always judges replicated rows too. owner, lease, token, due, attempts, max_attempts, queue name columns of the table that are kept for owned work; claim, lapse, lapse_else, retry, operator_events name events, claim_order what is claimed first ("priority desc, created_at"), lease_time the usual lease, backoff the delay before a retry (see pawl.backoff), backoff_column the column with that of each row; events fills the outbox, wake wakes who sleeps. log_partition partitions the log by columns of the key: range (id), list (tenant), hash (id) partitions 8; there is a default partition, or those of the hash, and others are made by pawl.extend_log or CREATE TABLE ... PARTITION OF. Errors: PW008 unknown machine or event, or rows in no state of it; PW007 guards that do not fit; 42703, 42804 a column that is missing or does not fit; 22023 arguments that do not fit each other; 55000 no key, or rows with an owner in states that are not owned; 42501 not the owner; 42710 already enforced';

-- A log that was made before, by an earlier attachment or a restore, is taken up again when it fits.
CREATE FUNCTION pawl._take_log(bound pawl.binding, log_name name, log_partition text, OUT log regclass, OUT view regclass, OUT is_new boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    schema_oid oid := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = bound.relation);
    table_name name := CASE WHEN bound.most_recent = 'derived' THEN log_name || '_log' ELSE log_name END;
    view_name name := CASE WHEN bound.most_recent = 'derived' THEN log_name END;
    problem text;
BEGIN
    SELECT c.oid INTO log FROM pg_class c WHERE c.relnamespace = schema_oid AND c.relname = table_name;
    SELECT c.oid INTO view FROM pg_class c WHERE c.relnamespace = schema_oid AND c.relname = view_name;
    is_new := log IS NULL AND view IS NULL;
    IF is_new THEN
        SELECT m.log, m.view INTO log, view
          FROM pawl._make_log(bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain, table_name, view_name, log_partition) m;
        RETURN;
    END IF;
    problem := CASE WHEN log IS NULL THEN format('there is a relation %s, but no log %I', view, table_name)
                    WHEN EXISTS (SELECT FROM pawl.binding b WHERE b.history = log) THEN 'it is the log of another lifecycle'
                    WHEN NOT pawl._owns(log) THEN 'it belongs to another role'
                    WHEN view_name IS NOT NULL AND view IS NULL THEN format('the view %I on it is missing', view_name)
                    WHEN view IS NOT NULL AND (SELECT c.relkind FROM pg_class c WHERE c.oid = view) <> 'v' THEN format('%s is not a view', view)
                    WHEN log_partition IS NOT NULL AND 'PARTITION BY ' || pg_get_partkeydef(log) IS DISTINCT FROM
                         (SELECT regexp_replace(l.clause, l.strategy, upper(l.strategy)) FROM pawl._log_layout(log_partition, bound.key_columns) l)
                         THEN 'it is ' || coalesce('partitioned by ' || pg_get_partkeydef(log), 'not partitioned')
                    ELSE pawl._log_problem(log, bound.relation, bound.key_columns, bound.most_recent, bound.hash_chain, false) END;
    IF problem IS NOT NULL THEN
        PERFORM pawl._raise('42P07', format('relation "%s" exists and cannot be the log of table %s', table_name, bound.relation),
            upper(left(problem, 1)) || substr(problem, 2) || '.', 'choose another name: log_name => ...');
    END IF;
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', log);
    EXECUTE format('SELECT min(format(''row %%s moved from %%s to %%s under version %%s'', %s, coalesce(quote_ident(l.from_state), ''nothing''), coalesce(quote_ident(l.to_state), ''nothing''), l.machine_version)) FROM %s l WHERE %s',
                   pawl._key_label('l', bound.log_key_columns), log, pawl._foreign_hop('l')) INTO problem USING bound.machine;
    IF problem IS NOT NULL THEN
        PERFORM pawl._raise('55000', format('the log %s is not one of machine "%s"', log, bound.machine), problem,
            'choose another name: log_name => ...');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl._take_log(pawl.binding, name, text) IS 'internal: the log of an earlier attachment, or a new one';

CREATE FUNCTION pawl.release(relation regclass, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding;
BEGIN
    -- triggers without a binding (a schema-only restore leaves them so) are taken off too
    IF pawl._is_orphan(relation) AND state_column IS NULL THEN
        IF NOT pawl._owns(relation) THEN
            PERFORM pawl._raise('42501', format('must be owner of table %s', relation));
        END IF;
        PERFORM pawl._uninstall(relation);
        PERFORM pawl._drop_lost_indexes(relation);
        RETURN;
    END IF;
    bound := pawl._binding(relation, state_column);
    IF NOT pawl._owns(bound.relation) THEN
        PERFORM pawl._raise('42501', format('must be owner of table %s', bound.relation));
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', bound.relation);
    IF NOT pawl._drop_binding(bound.relation, bound.state_column) THEN
        PERFORM pawl._raise('42704', format('no lifecycle is enforced on table %s', bound.relation), 'It was released a moment ago.');
    END IF;
    PERFORM pawl._drop_indexes(bound);
    IF bound.history IS NOT NULL THEN
        PERFORM pawl._retire_log(bound.history, bound.history_view);
    END IF;
    IF EXISTS (SELECT FROM pawl.binding b WHERE b.relation = bound.relation) THEN
        PERFORM pawl._install(bound.relation);
    ELSE
        PERFORM pawl._uninstall(bound.relation);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl.release(regclass, name) IS
'takes a lifecycle off its table; name the column when the table has several. The log stays, closed: nobody can change it, nothing is added. 42704: there is no such lifecycle; 42501: not the owner';

-- A log without a lifecycle: the guard stays, the door opens for nobody, and the right to insert goes.
CREATE FUNCTION pawl._retire_log(log regclass, view regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    target regclass;
    grantee regrole;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = log) THEN
        RETURN;
    END IF;
    FOR target, grantee IN
        SELECT c.oid, a.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
         WHERE c.oid IN (log, view) AND a.privilege_type = 'INSERT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE INSERT ON %s FROM %s', target, CASE WHEN grantee::oid = 0 THEN 'PUBLIC' ELSE grantee::text END);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl._retire_log(regclass, regclass) IS 'internal: closes a log whose lifecycle ends';

CREATE FUNCTION pawl.upgrade(relation regclass, state_column name DEFAULT NULL, remap jsonb DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    newest integer;
    old_states text[];
    new_states text[];
    pair record;
    problem record;
    found_one text;
BEGIN
    IF NOT pawl._owns(bound.relation) THEN
        PERFORM pawl._raise('42501', format('must be owner of table %s', bound.relation));
    END IF;
    PERFORM pawl._check_isolation('pawl.upgrade');
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', bound.relation);
    bound := pawl._binding(bound.relation, bound.state_column);
    newest := pawl._version(bound.machine, NULL);
    PERFORM pawl._hold_version(bound.machine, newest);
    IF newest = bound.version THEN
        IF remap IS NOT NULL THEN
            PERFORM pawl._raise('55000', format('table %s is at the newest version of machine "%s" already', bound.relation, bound.machine),
                format('Version %s is enforced; rows are remapped only on the way to another.', newest));
        END IF;
        RETURN newest;
    END IF;

    old_states := pawl._atoms(bound.machine, bound.version);
    new_states := pawl._atoms(bound.machine, newest);
    IF remap IS NOT NULL AND jsonb_typeof(remap) <> 'object' THEN
        PERFORM pawl._raise('22023', 'remap must be a JSON object', NULL, '{"old state": "new state"}');
    END IF;
    FOR pair IN SELECT e.key AS old_state, e.value AS value, e.value #>> '{}' AS new_state
                  FROM jsonb_each(coalesce(remap, '{}')) e ORDER BY e.key COLLATE "C" LOOP
        -- also a state of no machine, if rows are in it: they came in while a trigger was off, and this is the way to mend them
        IF pair.old_state <> ALL (old_states)
           AND pawl._strange_rows(format('(SELECT * FROM %s s WHERE pawl._text(s.%I) = %L)', bound.relation, bound.state_column, pair.old_state),
                                  bound.state_column, old_states) IS NULL THEN
            PERFORM pawl._raise('PW008', format('unknown state "%s" in remap', pair.old_state),
                format('Version %s of machine "%s" has %s.', bound.version, bound.machine, pawl._quoted_list(old_states)));
        END IF;
        IF jsonb_typeof(pair.value) <> 'string' THEN
            PERFORM pawl._raise('22023', format('remap of state "%s" is not the name of a state', pair.old_state), NULL, '{"old state": "new state"}');
        END IF;
        IF pair.new_state <> ALL (new_states) THEN
            PERFORM pawl._raise('PW008', format('unknown state "%s" in remap', pair.new_state),
                format('Version %s of machine "%s" has %s.', newest, bound.machine, pawl._quoted_list(new_states)));
        END IF;
    END LOOP;
    SELECT * INTO problem FROM pawl._column_problem(bound.relation, bound.state_column, bound.machine, newest, true);
    IF problem.message IS NOT NULL THEN
        PERFORM pawl._raise(problem.code, problem.message, problem.detail, problem.hint);
    END IF;
    SELECT string_agg(g, ', ' ORDER BY g) INTO found_one FROM pawl._guard_functions(bound.relation, bound.machine, newest) g;
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('PW007', format('version %s of machine "%s" has guards or effects that cannot be called for table %s',
                                            newest, bound.machine, bound.relation),
            format('There is no such function of two rows of the table: %s.', found_one));
    END IF;
    found_one := pawl._strange_rows(bound.relation::text, bound.state_column,
                                    new_states || ARRAY(SELECT jsonb_object_keys(coalesce(remap, '{}'))));
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('PW008', format('table %s has rows that are in no state of version %s of machine "%s"',
                                            bound.relation, newest, bound.machine), found_one,
            format('select pawl.upgrade(%L, %L, remap => ''{"old state": "new state"}'')', bound.relation, bound.state_column));
    END IF;

    bound.version := newest;
    PERFORM pawl._check_work(bound);
    found_one := pawl._wrongly_owned_rows(format('(SELECT * FROM %s s WHERE NOT jsonb_exists(%L, pawl._text(s.%I)))', bound.relation, coalesce(remap, '{}'),
                                                 bound.state_column), bound);
    IF found_one IS NOT NULL THEN
        PERFORM pawl._raise('55000', format('table %s has rows with an owner or a lease in states that are not owned in version %s of machine "%s"',
                                            bound.relation, newest, bound.machine), found_one,
            'let their owners finish them, or give them up: pawl.abandon');
    END IF;

    bound.calls := pawl._resolve_calls(bound.relation, bound.machine, newest, bound.calls);
    PERFORM pawl._change_binding(bound);
    PERFORM pawl._install(bound.relation);  -- the new version may have effects
    IF remap IS NOT NULL AND remap <> '{}' THEN
        PERFORM pawl._remap(bound.relation, bound.state_column, remap);
    END IF;
    PERFORM pawl._make_indexes(bound);  -- the claimable states may be others now
    RETURN newest;
END
$function$;
COMMENT ON FUNCTION pawl.upgrade(regclass, name, jsonb) IS
'judges a table by the newest version of its machine from now on, and returns that version. remap moves the rows of states that the new version lacks: {"old state": "new state"}, logged as pawl.upgrade. PW008: rows, or names in remap, that are no states; 42501: not the owner';
