-- Rights on the schema and its tables; those on functions are in the file privileges.

GRANT USAGE ON SCHEMA pawl_move TO pawl_admin, pawl_operator, pawl_reader;
GRANT SELECT ON pawl_move.moves, pawl_move.move_transitions, pawl_move.move_transitions_log TO pawl_admin,
    pawl_operator, pawl_reader;
GRANT INSERT, UPDATE ON pawl_move.moves TO pawl_admin;
