# Turns the parts of an install script into what an update needs of them: everything but tables and types, and each
# function, procedure, view and trigger whether it is there already or not.
skip { if (/;$/) skip = 0; next }
/^(CREATE (SCHEMA|TABLE|INDEX|UNIQUE INDEX|TYPE|DOMAIN)|INSERT INTO) / ||
    /^SELECT pg_catalog\.pg_extension_config_dump\(/ { skip = !/;$/; next }
/^CREATE EVENT TRIGGER / { print "DROP EVENT TRIGGER IF EXISTS " $4 ";" }
{
    sub(/^CREATE FUNCTION /, "CREATE OR REPLACE FUNCTION ")
    sub(/^CREATE PROCEDURE /, "CREATE OR REPLACE PROCEDURE ")
    sub(/^CREATE VIEW /, "CREATE OR REPLACE VIEW ")
    sub(/^CREATE TRIGGER /, "CREATE OR REPLACE TRIGGER ")
    print
}
