-- Pausing and resuming queues. An INSERT into pawl.paused is a request to pause, or, with a past time, to resume; the
-- functions do nothing else. Roles have no UPDATE and DELETE, because these would allow LOCK TABLE, which would stop
-- every claim.

-- A role that can write to this table can only pause tables that it owns, unless it is an operator.
CREATE FUNCTION pawl._paused_check() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE INSERT OR UPDATE OR DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl.paused');
    detail constant text := 'Only its owner and members of pawl_operator and pawl_admin can do that.';
    denied constant text := 'permission denied to pause or resume table %s';
BEGIN
    PERFORM pawl._hear(OLD.relation, '{pawl_operator,pawl_admin}', denied, detail);
    PERFORM pawl._hear(NEW.relation, '{pawl_operator,pawl_admin}', denied, detail);
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    IF NEW.relation IS NULL OR NEW.state_column IS NULL THEN
        PERFORM pawl.raise('22004',
            format('%s must not be null', CASE WHEN NEW.relation IS NULL THEN 'relation' ELSE 'state_column' END),
            'A row of pawl.paused is about the queue of one state column.', 'select pawl.pause(''jobs'')');
    ELSIF octet_length(NEW.queue) > 1000 THEN
        PERFORM pawl.raise('22023', 'queue must have at most 1000 bytes',
            format('It has %s.', octet_length(NEW.queue)), 'omit the queue to pause the whole table');
    ELSIF pawl._has_role('pawl_restore') THEN  -- a restore may fill this table before pawl.binding
        RETURN NEW;
    END IF;
    IF NOT EXISTS (SELECT FROM pawl.binding b
        WHERE b.relation = NEW.relation AND b.state_column = NEW.state_column) THEN
        PERFORM pawl.raise('42704',
            format('no machine is enforced on column "%s" of table %s', NEW.state_column, NEW.relation));
    END IF;
    NEW.paused_at := clock_timestamp();
    NEW.paused_by := current_user;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._paused_check() IS 'internal: checks the right to pause and resume';

CREATE TRIGGER operators_only BEFORE INSERT OR UPDATE OR DELETE ON pawl.paused
    FOR EACH ROW EXECUTE FUNCTION pawl._paused_check();

-- One row for each queue: a request replaces the one before. SECURITY DEFINER, because a role that can INSERT need not
-- be able to DELETE; it runs after the check above.
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
        PERFORM pawl.wake(b.relation) FROM pawl.binding b WHERE b.relation = NEW.relation AND b.wake LIMIT 1;
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$function$;
COMMENT ON FUNCTION pawl._paused_replace() IS 'internal: a pause takes the place of the one before, or ends it';

CREATE TRIGGER replace BEFORE INSERT ON pawl.paused FOR EACH ROW EXECUTE FUNCTION pawl._paused_replace();

-- A pause is deleted with its binding, and follows renames of its column.
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
COMMENT ON FUNCTION pawl._binding_gone() IS 'internal: pauses go with their binding';

CREATE TRIGGER gone AFTER UPDATE OR DELETE ON pawl.binding FOR EACH ROW EXECUTE FUNCTION pawl._binding_gone();

-- A queue as its column's type writes it; an error if the type has no such value.
CREATE FUNCTION pawl._queue_text(bound pawl.binding, queue text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    answer text;
BEGIN
    IF bound.claim_events = '{}' THEN
        PERFORM pawl.raise('55000', format('table %s has no claim events', bound.relation),
            'Its binding has no claim events.',
            format('select pawl.set_claiming(%L, %L, claim => array[...])', bound.relation, bound.state_column));
    END IF;
    IF queue IS NULL THEN
        RETURN NULL;
    END IF;
    IF bound.queue_column IS NULL THEN
        PERFORM pawl.raise('22023', format('table %s has no queues', bound.relation),
            'Its binding has no queue column.', 'omit the queue to pause the whole table');
    END IF;
    EXECUTE (SELECT format('SELECT pawl.value_text(%s)', pawl.value_expression('$1', a.atttypid, a.atttypmod))
        FROM pg_attribute a
              WHERE a.attrelid = bound.relation AND a.attname = bound.queue_column)
       INTO answer USING queue;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl._queue_text(pawl.binding, text) IS 'internal: a queue in the form in which pauses name it';

CREATE FUNCTION pawl.pause(relation regclass, queue text DEFAULT NULL, until timestamptz DEFAULT NULL,
    reason text DEFAULT NULL, state_column name DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    bound pawl.binding := pawl._binding(relation, state_column);
BEGIN
    IF pawl._is_coordinator() AND pawl._is_distributed(bound.relation) THEN
        PERFORM pawl.raise('0A000', format('distributed table %s cannot be paused from the coordinator', relation),
            'A pause stops the claims on the node where it is.', 'call pawl.pause on each node with shards of it');
    END IF;
    IF until <= clock_timestamp() THEN
        PERFORM pawl.raise('22023', 'a pause cannot end in the past', format('It would end at %s.', until));
    END IF;
    INSERT INTO pawl.paused (relation, state_column, queue, until, reason)
    VALUES (bound.relation, bound.state_column, pawl._queue_text(bound, pause.queue), pause.until, pause.reason)
    ON CONFLICT DO NOTHING;  -- 40001 if the snapshot is older than the request before
END
$function$;
COMMENT ON FUNCTION pawl.pause(regclass, text, timestamptz, text, name) IS
'Stops claims from a queue, or from the whole table, until pawl.resume or a time. Owned rows are not affected, and
claims that are running can still return rows. Called again it changes until and reason.
relation: the enforced table. queue: null (default): the whole table. until: null (default): until pawl.resume.
reason: a text; default null. state_column: null: the only bound column.
Errors: 22023 no queue column, or until is past; 22P02 not a value of the queue column''s type; 55000 no claim
events; 42704 no binding; 42501 permission denied. Privileges: all roles; must own the table or be a member of
pawl_operator or pawl_admin.
Example: SELECT pawl.pause(''jobs'', reason => ''maintenance'')';

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
                           WHERE p.relation = bound.relation AND p.state_column = bound.state_column
                               AND p.queue IS NOT DISTINCT FROM resume.queue
                             AND (p.until IS NULL OR p.until > clock_timestamp()));
    INSERT INTO pawl.paused (relation, state_column, queue, until)
        VALUES (bound.relation, bound.state_column, resume.queue, '-infinity');
    RETURN was_paused;
END
$function$;
COMMENT ON FUNCTION pawl.resume(regclass, text, name) IS
'Ends the pause of a queue, or of the whole table, and returns whether it was paused.
relation: the enforced table. queue: null (default): the pause of the whole table; pauses of single queues stay.
state_column: null: the only bound column.
Errors: 22023 no queue column; 22P02 not a value of the queue column''s type; 55000 no claim events; 42704 no
binding; 42501 permission denied. Privileges: all roles; must own the table or be a member of pawl_operator or
pawl_admin.
Example: SELECT pawl.resume(''jobs'')';
