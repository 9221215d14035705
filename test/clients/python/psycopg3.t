#!/usr/bin/python3
# psycopg 3: parameters are sent to the server, and texts without a type.
import psycopg

from calls import calls

calls(psycopg, "psycopg3", "psycopg 3", lambda error: error.sqlstate)
