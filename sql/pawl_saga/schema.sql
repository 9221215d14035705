CREATE SCHEMA pawl_saga;
COMMENT ON SCHEMA pawl_saga IS
'sagas: flows of tasks that are undone in reverse when one fails, retry controllers, suspension, a job board';
