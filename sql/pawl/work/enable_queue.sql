-- Adds owned work to a binding: the columns (pawl.enable_queue), how work is claimed and given back
-- (pawl.set_claiming), and timers (pawl.enable_timers).

CREATE FUNCTION pawl.enable_queue(relation regclass, state_column name DEFAULT NULL, owner name DEFAULT NULL,
    lease name DEFAULT NULL, token name DEFAULT NULL, attempts name DEFAULT NULL, max_attempts name DEFAULT NULL,
    queue name DEFAULT NULL, build_indexes boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    before pawl.binding := pawl._own_binding(relation, state_column);
    after pawl.binding;
BEGIN
    FOR pass IN 1 .. 2 LOOP  -- the first time to see which lock it needs
        after := before;
        after.owner_column := nullif(coalesce(owner, before.owner_column), '');
        after.lease_column := nullif(coalesce(lease, before.lease_column), '');
        after.token_column := nullif(coalesce(token, before.token_column), '');
        after.attempts_column := nullif(coalesce(attempts, before.attempts_column), '');
        after.max_attempts_column := nullif(coalesce(max_attempts, before.max_attempts_column), '');
        after.queue_column := nullif(coalesce(queue, before.queue_column), '');
        IF pass = 1 THEN
            before := pawl._lock_binding(before, after, 'pawl.enable_queue');
        END IF;
    END LOOP;
    PERFORM pawl._change_work(before, after, build_indexes);
    PERFORM pawl._warn_of_work(after, CASE WHEN after.claim_events = '{}' THEN '{unowned}'
        ELSE '{unowned,stuck,endless}' END::text[]);
END
$function$;
COMMENT ON FUNCTION pawl.enable_queue(regclass, name, name, name, name, name, name, name, boolean) IS
'Names the columns of a table in which owned work is kept, and makes the triggers and indexes for them.
relation: the enforced table. state_column: null: the only bound column. owner (text, varchar, uuid or a domain
over one): the processor that owns a row. lease (timestamptz): when its ownership expires. token (bigint,
integer): the fencing token. attempts, max_attempts (integer, smallint): how often a row was claimed, and how
often it can be. queue (text, varchar, enum, uuid, integer, bigint): divides the work; only read.
build_indexes: false: the indexes that are missing are not made now, but by the statements of
pawl.missing_indexes; default true, or false while the binding is not validated.
Omitted: as it is; '''': no such column any more. Rows must have no owner and no lease in states that are not
owned.
Errors: 22023 a column without the one that it needs (lease, token, attempts and queue need owner, max_attempts
needs attempts), a column used twice, a machine without owned states; 42703, 42804, 0A000 a column that is
missing or does not fit; 55000 no key, or rows with an owner; 42704 no binding; 42501 not the owner; 25001 not
READ COMMITTED. Privileges: pawl_admin that owns the table.
Example: SELECT pawl.enable_queue(''jobs'', owner => ''owner'', lease => ''lease'', token => ''token'')';

CREATE FUNCTION pawl.set_claiming(relation regclass, state_column name DEFAULT NULL, claim text[] DEFAULT NULL,
    claim_order text DEFAULT NULL, lease_time interval DEFAULT NULL, on_expiry text DEFAULT NULL,
        on_expiry_else text DEFAULT NULL,
    retry text[] DEFAULT NULL, backoff jsonb DEFAULT NULL, backoff_column name DEFAULT NULL,
    operator_events text[] DEFAULT NULL, build_indexes boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    before pawl.binding := pawl._own_binding(relation, state_column);
    after pawl.binding;
BEGIN
    FOR pass IN 1 .. 2 LOOP  -- the first time to see which lock it needs
        after := before;
        after.claim_events := coalesce(pawl._check_list(claim, 'claim', '{start}'), before.claim_events);
        IF claim_order IS NOT NULL THEN
            SELECT o.names, o.descending INTO after.claim_columns, after.claim_descending
              FROM pawl._claim_order(nullif(claim_order, '')) o;
        END IF;
        after.lease_time := coalesce(set_claiming.lease_time, before.lease_time);
        after.on_expiry := nullif(coalesce(set_claiming.on_expiry, before.on_expiry), '');
        after.on_expiry_else := nullif(coalesce(set_claiming.on_expiry_else, before.on_expiry_else), '');
        after.retry_events := coalesce(pawl._check_list(retry, 'retry', '{retry}'), before.retry_events);
        after.backoff := nullif(coalesce(set_claiming.backoff, before.backoff), '{}');
        after.backoff_column := nullif(coalesce(set_claiming.backoff_column, before.backoff_column), '');
        after.operator_events :=
            coalesce(pawl._check_list(set_claiming.operator_events, 'operator_events', '{reset}'),
                before.operator_events);
        IF pass = 1 THEN
            before := pawl._lock_binding(before, after, 'pawl.set_claiming');
        END IF;
    END LOOP;
    PERFORM pawl._change_work(before, after, build_indexes);
    PERFORM pawl._warn_of_work(after, '{stuck,endless}');
END
$function$;
COMMENT ON FUNCTION pawl.set_claiming(regclass, name, text[], text, interval, text, text, text[], jsonb, name,
    text[], boolean) IS
'Says how rows are claimed, and what becomes of them when a lease expires or an attempt fails.
relation: the enforced table. state_column: null: the only bound column. claim: the events that lead into
an owned state. claim_order: what is claimed first, as in ORDER BY ("priority desc, created_at"); default: the
key. lease_time: of a claim that gives none; default 60 s. on_expiry: the event of an expired lease;
on_expiry_else: the one that fires where on_expiry leads nowhere. retry: events that use attempts and backoff,
except where they lead into a terminal state. backoff: the delay before a retry, see pawl.backoff;
backoff_column (jsonb): that of each row. operator_events: events that need no ownership, but pawl_operator or the
owner of the table. build_indexes: as for pawl.enable_queue.
Omitted: as it is; ''{}'' or '''': none any more. Warns of owned states that an expired lease does not lead out
of, or that a row without an attempt left cannot leave by an event of retry.
Errors: PW008 an event that the machine does not have; 22023 an event that does not do what it is named for, an
argument without the one that it needs (claim needs the owner column, on_expiry the lease column, retry the
columns for attempts and due time); 42601, 42703, 42804, 0A000 a claim_order or column that cannot be used;
42704 no binding; 42501 not the owner; 25001 not READ COMMITTED.
Privileges: pawl_admin that owns the table.
Example: SELECT pawl.set_claiming(''jobs'', claim => ''{start}'', claim_order => ''priority desc'', on_expiry =>
''crashed'')';

CREATE FUNCTION pawl.enable_timers(relation regclass, state_column name DEFAULT NULL, due name DEFAULT NULL,
    build_indexes boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    before pawl.binding := pawl._own_binding(relation, state_column);
    after pawl.binding;
BEGIN
    FOR pass IN 1 .. 2 LOOP  -- the first time to see which lock it needs
        after := before;
        after.due_column := nullif(coalesce(due, before.due_column), '');
        IF pass = 1 THEN
            before := pawl._lock_binding(before, after, 'pawl.enable_timers');
        END IF;
    END LOOP;
    PERFORM pawl._change_work(before, after, build_indexes);
    PERFORM pawl._warn_of_work(after, '{untimed}');
END
$function$;
COMMENT ON FUNCTION pawl.enable_timers(regclass, name, name, boolean) IS
'Names the column with the due time of each row: when the timer of its state fires, or from when it can be
claimed again.
relation: the enforced table. state_column: null: the only bound column. due: a timestamptz column that allows
null; omitted: as it is; '''': none any more. build_indexes: as for pawl.enable_queue. Call it
before pawl.set_claiming: retries need the column, and the index for claims is made once.
Errors: 42703, 42804, 0A000, 22023 a column that is missing, does not fit or is used twice; 55000 the table has
no key; 42704 no binding; 42501 not the owner; 25001 not READ COMMITTED. Privileges: pawl_admin that owns the
table.
Example: SELECT pawl.enable_timers(''offers'', due => ''due'')';
