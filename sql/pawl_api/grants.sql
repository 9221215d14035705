-- Tokens are the administrator's. The rights on functions are in the file privileges.

GRANT USAGE ON SCHEMA pawl_api TO pawl_authenticator, pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl_api.tokens TO pawl_admin;
