-- Routes run with the rights of the token's role, so whoever may call anything of pawl may call them. What begins a request is the
-- authenticator's alone; tokens are the administrator's.

GRANT USAGE ON SCHEMA pawl_api TO pawl_authenticator, pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON pawl_api.tokens TO pawl_admin;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pawl_api FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl_api TO pawl_admin, pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_api.create_token(name, text, text[], interval, text), pawl_api.accept_certificate(text, name, text, text[], interval, text),
    pawl_api.revoke_token(uuid), pawl_api._token_role(name, text, text[]) FROM pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_api._login(text, bytea, text), pawl_api.begin_request(text, bytea, text, text) FROM pawl_operator, pawl_worker, pawl_reader;
REVOKE EXECUTE ON FUNCTION pawl_api.prune_answers(interval, integer) FROM pawl_worker, pawl_reader;
GRANT EXECUTE ON FUNCTION pawl_api._login(text, bytea, text), pawl_api.begin_request(text, bytea, text, text) TO pawl_authenticator;
-- The stream is cut to what a role may see by the daemon, so its source is the daemon's alone.
REVOKE EXECUTE ON FUNCTION pawl_api._open_feed(), pawl_api._events_of(text, integer), pawl_api._read_feed(text, integer), pawl_api._read_since(text, integer),
    pawl_api._visible_events(name), pawl_api._listen(text, bytea, text) FROM pawl_admin, pawl_operator, pawl_worker, pawl_reader;
GRANT EXECUTE ON FUNCTION pawl_api._open_feed(), pawl_api._read_feed(text, integer), pawl_api._read_since(text, integer), pawl_api._listen(text, bytea, text) TO pawl_authenticator;
