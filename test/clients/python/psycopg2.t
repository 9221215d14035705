#!/usr/bin/python3
# psycopg 2: parameters become literals of the statement.
import psycopg2
import psycopg2.errors

from calls import calls

calls(psycopg2, "psycopg2", "psycopg 2", lambda error: error.pgcode)
