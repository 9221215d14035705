-- Sleeping until there is work. Looking for work from time to time is enough always; this is for those who want it sooner.

CREATE FUNCTION pawl.channel(relation regclass DEFAULT NULL) RETURNS text
LANGUAGE c STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_channel';
COMMENT ON FUNCTION pawl.channel(regclass) IS
'the name of the channel on which an enforced table wakes who sleeps; without a table that of the outbox. 42704: no lifecycle is attached';

CREATE FUNCTION pawl.sleep(relation regclass DEFAULT NULL) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_sleep';
COMMENT ON FUNCTION pawl.sleep(regclass) IS
'announces that this session is going to wait for work in a table (without a table: for events), listens to its channel, and returns the channel''s name. Call it in a transaction of its own, look for work once more, then wait for a notification; after each notification begin again. Not for prepared transactions nor behind a pooler of transactions. 55000: the lifecycle was attached without wake; 42704: no lifecycle is attached';

CREATE FUNCTION pawl.awake(relation regclass DEFAULT NULL) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_awake';
COMMENT ON FUNCTION pawl.awake(regclass) IS
'takes pawl.sleep back, so that nobody is notified for this session; true if it was asleep. It goes on listening: UNLISTEN ends that. 42704: no lifecycle is attached';

CREATE FUNCTION pawl._wake(relation regclass) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT AS 'MODULE_PATHNAME', 'pawl_wake';
COMMENT ON FUNCTION pawl._wake(regclass) IS 'internal: wakes who sleeps at a table when the transaction commits';
