-- Waiting for work. Polling is always enough; with these functions a session learns of work sooner.

CREATE FUNCTION pawl.channel(relation regclass DEFAULT NULL) RETURNS text
LANGUAGE c STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_channel';
COMMENT ON FUNCTION pawl.channel(regclass) IS
'Returns the channel on which an enforced table notifies waiters. relation: the table; null (default): the channel
of the outbox.
Errors: 42704 no binding; 42P01 no such table. Privileges: all roles. Example: SELECT pawl.channel(''jobs'')';

CREATE FUNCTION pawl.sleep(relation regclass DEFAULT NULL) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_sleep';
COMMENT ON FUNCTION pawl.sleep(regclass) IS
'Registers this session as a waiter for work in a table, or for events, listens to its channel, and returns the
channel. Call it in a transaction of its own, then look for work once more, then wait for a notification; after
each notification begin again.
relation: the table; null (default): the outbox. Not for prepared transactions or behind a pooler in transaction
mode.
Errors: 55000 the binding has no wake; 42704 no binding; 42P01 no such table. Privileges: pawl_admin, pawl_operator,
pawl_worker, pawl_reader.
Example: SELECT pawl.sleep(''jobs'')';

CREATE FUNCTION pawl.awake(relation regclass DEFAULT NULL) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_awake';
COMMENT ON FUNCTION pawl.awake(regclass) IS
'Ends what pawl.sleep began: no notification is sent for this session. Returns whether it was registered as a
waiter. The session goes on listening until UNLISTEN.
relation: the table; null (default): the outbox.
Errors: 42704 no binding; 42P01 no such table. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT pawl.awake(''jobs'')';

CREATE FUNCTION pawl.wake(relation regclass DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_wake';
COMMENT ON FUNCTION pawl.wake(regclass) IS
'Wakes the sessions that wait for work in a table, or for events, when the transaction commits: for work that no
state change announces, such as a row that a claim left out by a condition of its own.
relation: the table; null (default): the outbox.
Errors: 42704 no binding; 42P01 no such table. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT pawl.wake(''jobs'')';
