-- After enforced.sql: results that are audited, and a log that was cut.
select pawl.audit('app.tasks', '{"closed": true, "dropped": false}', parent => '{note}', state_column => 'state');
update app.tasks set state = 'closed' where id between 21 and 25;
select pawl.prune_log('app.vehicles', '0', only_terminal => false);
