-- Pausing and resuming queues. An INSERT into pawl.paused is a request to pause, or, with a time that is past, to resume; the
-- functions do nothing else. Not everybody who may ask has more than INSERT: UPDATE or DELETE would be the right to LOCK the table,
-- and that would stop every claim.

-- Whoever may write this table still speaks only for his own tables, unless he operates all of them.
CREATE FUNCTION pawl._paused_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.paused');
    detail constant text := 'That is for its owner, pawl_operator and pawl_admin.';
    refusal constant text := 'permission denied to pause or resume table %s';
BEGIN
    PERFORM pawl._hear(OLD.relation, '{pawl_operator,pawl_admin}', refusal, detail);
    PERFORM pawl._hear(NEW.relation, '{pawl_operator,pawl_admin}', refusal, detail);
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    ELSIF pawl._has_role('pawl_restore') THEN  -- a restore may fill this table before pawl.binding
        RETURN NEW;
    END IF;
    IF NOT EXISTS (SELECT FROM pawl.binding b WHERE b.relation = NEW.relation AND b.state_column = NEW.state_column) THEN
        PERFORM pawl.raise('42704', format('no lifecycle is enforced on column "%s" of table %s', NEW.state_column, NEW.relation));
    END IF;
    NEW.paused_at := clock_timestamp();
    NEW.paused_by := current_user;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._paused_check() IS 'internal: who may pause and resume';

CREATE TRIGGER operators_only BEFORE INSERT OR UPDATE OR DELETE ON pawl.paused
    FOR EACH ROW EXECUTE FUNCTION pawl._paused_check();

-- One row a queue: a request takes the place of the one before. SECURITY DEFINER because who may INSERT need not be one who may
-- DELETE; it runs after the check above.
CREATE FUNCTION pawl._paused_replace() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT ROW', TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.paused');
BEGIN
    PERFORM pawl._wait_turn(TG_RELID, NEW.relation);
    DELETE FROM pawl.paused p
     WHERE p.relation = NEW.relation AND p.state_column = NEW.state_column AND p.queue IS NOT DISTINCT FROM NEW.queue;
    IF NEW.until <= clock_timestamp() THEN
        PERFORM pawl._wake(b.relation) FROM pawl.binding b WHERE b.relation = NEW.relation AND b.wake LIMIT 1;
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._paused_replace() IS 'internal: a pause takes the place of the one before, or ends it';

CREATE TRIGGER replace BEFORE INSERT ON pawl.paused FOR EACH ROW EXECUTE FUNCTION pawl._paused_replace();

-- A pause goes with its lifecycle, and is renamed with its column.
CREATE FUNCTION pawl._binding_gone() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.binding');
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM pawl.paused p WHERE p.relation = OLD.relation AND p.state_column = OLD.state_column;
    ELSE
        UPDATE pawl.paused p SET relation = NEW.relation, state_column = NEW.state_column
         WHERE p.relation = OLD.relation AND p.state_column = OLD.state_column
           AND (NEW.relation <> OLD.relation OR NEW.state_column <> OLD.state_column);
    END IF;
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl._binding_gone() IS 'internal: pauses go with their lifecycle';

CREATE TRIGGER gone AFTER UPDATE OR DELETE ON pawl.binding FOR EACH ROW EXECUTE FUNCTION pawl._binding_gone();

-- A queue as its column's type writes it; an error where the type has no such value.
CREATE FUNCTION pawl._queue_text(bound pawl.binding, queue text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    answer text;
BEGIN
    IF bound.claim_events = '{}' THEN
        PERFORM pawl.raise('55000', format('nothing is claimed from table %s', bound.relation), 'Its lifecycle names no claim events.',
            format('select pawl.set_claiming(%L, %L, claim => array[...])', bound.relation, bound.state_column));
    END IF;
    IF queue IS NULL THEN
        RETURN NULL;
    END IF;
    IF bound.queue_column IS NULL THEN
        PERFORM pawl.raise('22023', format('table %s has no queues', bound.relation), 'Its lifecycle names no queue column.',
            'leave the queue out to mean the whole table');
    END IF;
    EXECUTE (SELECT format('SELECT pawl.value_text(%s)', pawl.value_expression('$1', a.atttypid, a.atttypmod)) FROM pg_attribute a
              WHERE a.attrelid = bound.relation AND a.attname = bound.queue_column)
       INTO answer USING queue;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl._queue_text(pawl.binding, text) IS 'internal: a queue in the form in which pauses name it';

CREATE FUNCTION pawl.pause(relation regclass, queue text DEFAULT NULL, until timestamptz DEFAULT NULL, reason text DEFAULT NULL,
    state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
BEGIN
    IF until <= clock_timestamp() THEN
        PERFORM pawl.raise('22023', 'a pause cannot end in the past', format('It would end at %s.', until));
    END IF;
    INSERT INTO pawl.paused (relation, state_column, queue, until, reason)
    VALUES (bound.relation, bound.state_column, pawl._queue_text(bound, pause.queue), pause.until, pause.reason)
    ON CONFLICT DO NOTHING;  -- 40001 where the request before is too young to be seen
END
$function$;
COMMENT ON FUNCTION pawl.pause(regclass, text, timestamptz, text, name) IS
'pawl.claim takes nothing from this queue, or with queue null from the whole table, until pawl.resume or the time given. Owned rows go on; claims that run at this moment may still end. Pausing again changes until and reason. 42704: no lifecycle; 55000: it has no claim events; 22023: it has no queues, or until is past; 22P02: no value of the queue column''s type; 42501: neither owner, pawl_operator nor pawl_admin';

CREATE FUNCTION pawl.resume(relation regclass, queue text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
    was_paused boolean;
BEGIN
    queue := pawl._queue_text(bound, queue);
    was_paused := EXISTS (SELECT FROM pawl.paused p
                           WHERE p.relation = bound.relation AND p.state_column = bound.state_column AND p.queue IS NOT DISTINCT FROM resume.queue
                             AND (p.until IS NULL OR p.until > clock_timestamp()));
    INSERT INTO pawl.paused (relation, state_column, queue, until) VALUES (bound.relation, bound.state_column, resume.queue, '-infinity');
    RETURN was_paused;
END
$function$;
COMMENT ON FUNCTION pawl.resume(regclass, text, name) IS
'ends the pause of a queue, or with queue null that of the whole table (single queues that were paused stay so), and returns whether there was one. Errors as pawl.pause';
