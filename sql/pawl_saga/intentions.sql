-- The log of intentions: what an atom was to do next, each time that it changed. State changes are in the logs;
-- decisions without one are here.

CREATE TABLE pawl_saga.intentions (
    flow_uuid uuid NOT NULL REFERENCES pawl_saga.flows ON DELETE CASCADE,
    node integer NOT NULL,
    change_uuid uuid NOT NULL DEFAULT pawl.uuid_v7(),
    from_intention text COLLATE "C" NOT NULL,
    to_intention text COLLATE "C" NOT NULL,
    from_state text COLLATE "C" NOT NULL,
    to_state text COLLATE "C" NOT NULL,
    processor text,
    actor text NOT NULL DEFAULT SESSION_USER,
    changed_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (flow_uuid, node, change_uuid)
);
COMMENT ON TABLE pawl_saga.intentions IS
'every change of an atom''s intention, in the order of change_uuid; each begins with EXECUTE. Written by '
'triggers alone';
COMMENT ON COLUMN pawl_saga.intentions.to_state IS 'the state after the statement that changed it; from_state: before';
SELECT pg_catalog.pg_extension_config_dump('pawl_saga.intentions', '');

-- SECURITY DEFINER: every change of an intention is recorded, and no role writes the log directly.
CREATE FUNCTION pawl_saga._intention_changed() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('AFTER UPDATE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.tasks', 'pawl_saga.retries');
BEGIN
    INSERT INTO pawl_saga.intentions (flow_uuid, node, from_intention, to_intention, from_state, to_state, processor)
    VALUES (NEW.flow_uuid, NEW.node, OLD.intention, NEW.intention, OLD.state, NEW.state,
        nullif(current_setting('pawl.processor', true), ''));
    RETURN NULL;
END
$function$;
COMMENT ON FUNCTION pawl_saga._intention_changed() IS 'internal: records a change of an intention';

-- By column, so that claims and reports, which name none, do not ask; before the follow-ups, which may change it again.
CREATE TRIGGER "!intention" AFTER UPDATE OF intention ON pawl_saga.tasks
    FOR EACH ROW WHEN (OLD.intention IS DISTINCT FROM NEW.intention) EXECUTE FUNCTION pawl_saga._intention_changed();
CREATE TRIGGER "!intention" AFTER UPDATE OF intention ON pawl_saga.retries
    FOR EACH ROW WHEN (OLD.intention IS DISTINCT FROM NEW.intention) EXECUTE FUNCTION pawl_saga._intention_changed();

CREATE FUNCTION pawl_saga._intention_kept() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    fired constant boolean := pawl.fired_by('BEFORE UPDATE OR TRUNCATE STATEMENT, BEFORE DELETE ROW',
        TG_RELID, TG_WHEN, TG_OP, TG_LEVEL, 'pawl_saga.intentions');
BEGIN
    -- the cascade from flows comes when the flow is gone
    IF TG_OP = 'DELETE' AND NOT EXISTS (SELECT FROM pawl_saga.flows f WHERE f.flow_uuid = OLD.flow_uuid) THEN
        RETURN OLD;
    END IF;
    PERFORM pawl.raise('PW006', 'the log of intentions is immutable', 'It is deleted with its flow.');
END
$function$;
COMMENT ON FUNCTION pawl_saga._intention_kept() IS 'internal: rejects changes of the log of intentions; PW006';
CREATE TRIGGER kept BEFORE UPDATE OR TRUNCATE ON pawl_saga.intentions
    FOR EACH STATEMENT EXECUTE FUNCTION pawl_saga._intention_kept();
CREATE TRIGGER kept_row BEFORE DELETE ON pawl_saga.intentions FOR EACH ROW EXECUTE FUNCTION pawl_saga._intention_kept();
