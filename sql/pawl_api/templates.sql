-- Templates and dead letters (pawl_dag).

CREATE FUNCTION pawl_api.list_templates(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    after text[] := pawl_api._after(q, 3);
    page integer := pawl_api._limit(q);
    items jsonb;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    SELECT jsonb_agg(jsonb_build_object('namespace', t.namespace, 'name', t.name, 'version', t.version,
            'template_uuid', t.template_uuid, 'description', t.description, 'steps', t.steps_total,
            'created_at', t.created_at) ORDER BY t.namespace, t.name, t.version)
        INTO items
      FROM (SELECT t.* FROM pawl_dag.templates t
          WHERE (after IS NULL OR (t.namespace, t.name, t.version) > (after[1], after[2], after[3]))
              AND (q ->> 'namespace' IS NULL OR t.namespace = q ->> 'namespace')
             ORDER BY t.namespace, t.name, t.version LIMIT page) t;
    RETURN pawl_api._page(items, page, 'namespace', 'name', 'version');
END
$function$;
COMMENT ON FUNCTION pawl_api.list_templates(jsonb) IS
'Route: templates in all versions.
q: namespace, limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns the answer as JSON.
Errors: 22023 an invalid limit or cursor; 0A000 pawl_dag is not installed. Privileges: pawl_admin, pawl_operator,
pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.list_templates(''{}'')';

CREATE FUNCTION pawl_api.get_template(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    t record;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    SELECT x.* INTO t FROM pawl_dag.templates x
        WHERE x.namespace = q ->> 'namespace' AND x.name = q ->> 'name' AND x.version = q ->> 'version';
    IF NOT FOUND THEN
        PERFORM pawl.raise('P0002',
            format('there is no template %s/%s/%s', q ->> 'namespace', q ->> 'name', q ->> 'version'));
    END IF;
    RETURN jsonb_build_object('namespace', t.namespace, 'name', t.name, 'version', t.version, 'template_uuid',
        t.template_uuid, 'description', t.description, 'steps', t.steps_total,
        'created_at', t.created_at, 'configuration', t.configuration);
END
$function$;
COMMENT ON FUNCTION pawl_api.get_template(jsonb) IS
'Route: a template as it was defined.
q: namespace, name, version. Returns the answer as JSON.
Errors: P0002 no such template; 0A000 pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker,
pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.get_template(''{"namespace": "default", "name": "invoice", "version": "1"}'')';

-- The snapshot keeps the error after the task was retried, when its steps have lost it.
CREATE FUNCTION pawl_api._letter_error(task_snapshot jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT coalesce(nullif(task_snapshot -> 'task' -> 'error', 'null'),
        (SELECT s -> 'error' || jsonb_build_object('step', s -> 'name')
           FROM jsonb_array_elements(nullif(task_snapshot -> 'steps', 'null')) WITH ORDINALITY x(s, n)
          WHERE s ->> 'state' = 'error' AND jsonb_typeof(s -> 'error') = 'object' ORDER BY n LIMIT 1))
$function$;
COMMENT ON FUNCTION pawl_api._letter_error(jsonb) IS
'internal: the error of the task of a dead letter, or of its first failed step, with the name of the step';

CREATE FUNCTION pawl_api._letter(d record) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    RETURN jsonb_build_object('entry_uuid', d.entry_uuid, 'task_uuid', d.task_uuid,
        'template', (SELECT t.name FROM pawl_dag.tasks t WHERE t.task_uuid = d.task_uuid),
        'error', pawl_api._letter_error(d.task_snapshot),
        'original_state', d.original_state, 'reason', d.reason, 'dlq_timestamp', d.dlq_timestamp,
        'resolution_status', d.resolution_status, 'resolution_timestamp', d.resolution_timestamp,
        'resolution_notes', d.resolution_notes, 'resolved_by', d.resolved_by);
END
$function$;
COMMENT ON FUNCTION pawl_api._letter(record) IS 'internal: a dead letter as lists show it';

CREATE FUNCTION pawl_api.list_dlq(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    enough constant timestamptz := pawl_api._look_until();
    searched constant text := pawl_api._search(q);
    step constant integer := CASE WHEN searched IS NULL THEN 2000 ELSE 50 END;
    page integer := pawl_api._limit(q);
    after text[] := coalesce(pawl_api._after(q, 2), '{infinity,ffffffff-ffff-ffff-ffff-ffffffffffff}');
    items jsonb := '[]';
    more jsonb;
    looked_until text[];
BEGIN
    PERFORM pawl_api._check_letters(q);
    LOOP
        SELECT jsonb_agg(pawl_api._letter(f) ORDER BY f.dlq_timestamp DESC, f.entry_uuid DESC) INTO more
          FROM (SELECT d.* FROM (SELECT x.* FROM pawl_dag.dlq x
                     WHERE (x.dlq_timestamp, x.entry_uuid) < (after[1]::timestamptz, after[2]::uuid)
                     ORDER BY x.dlq_timestamp DESC, x.entry_uuid DESC LIMIT step) d
                 WHERE pawl_api._letter_matches(d, q, searched)
                 ORDER BY d.dlq_timestamp DESC, d.entry_uuid DESC LIMIT page - jsonb_array_length(items)) f;
        items := items || coalesce(more, '[]');
        EXIT WHEN jsonb_array_length(items) = page;
        looked_until := (SELECT ARRAY[to_jsonb(x.dlq_timestamp) #>> '{}', x.entry_uuid::text] FROM pawl_dag.dlq x
            WHERE (x.dlq_timestamp, x.entry_uuid) < (after[1]::timestamptz, after[2]::uuid)
            ORDER BY x.dlq_timestamp DESC, x.entry_uuid DESC OFFSET step - 1 LIMIT 1);
        EXIT WHEN looked_until IS NULL OR clock_timestamp() > enough;
        after := looked_until;
    END LOOP;
    RETURN pawl_api._filtered_page(items, page, '{dlq_timestamp,entry_uuid}', looked_until);
END
$function$;
COMMENT ON FUNCTION pawl_api.list_dlq(jsonb) IS
'Route: dead letters, newest first; filters look at them for 100 ms for each page (setting pawl_api.look_for_ms).
q: status (pending, manually_resolved, permanently_failed, cancelled, several by comma), reason, search (a text of the
task''s snapshot or of the notes), entered_before, limit (rows in the answer, 1 to 500), cursor (next of the answer
before).
Returns the answer as JSON.
Errors: 22023 an invalid limit or cursor, or an unknown status; 0A000 pawl_dag is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.list_dlq(''{"status": "pending"}'')';

CREATE FUNCTION pawl_api.get_dlq(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
BEGIN
    PERFORM pawl_api._need_one('task', task);
    RETURN jsonb_build_object('items', (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.dlq_timestamp DESC), '[]')
        FROM pawl_dag.dlq d WHERE d.task_uuid = task), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.get_dlq(jsonb) IS
'Route: the dead letters of a task, each with the task as it was then.
q: task (its id). Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 0A000 pawl_dag is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.get_dlq(''{"task": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.dlq_stats(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    RETURN jsonb_build_object('items',
        (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.reason), '[]') FROM pawl_dag.dlq_reasons d), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.dlq_stats(jsonb) IS
'Route: dead letters counted by reason.
q: none. Returns the answer as JSON.
Errors: 0A000 pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the
rights of the role on the tables.
Example: SELECT pawl_api.dlq_stats(''{}'')';
