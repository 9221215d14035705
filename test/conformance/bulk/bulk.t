#!/usr/bin/env bash
# The conformance cases of bulk operations, against a database of its own; prints TAP.
set -euo pipefail
cd "$(dirname "$0")"
createdb conformance_bulk
psql -XqAt -v ON_ERROR_STOP=1 -d conformance_bulk -c 'set client_min_messages = warning' \
    -c 'create extension pawl' -c 'create extension pawl_bulk' \
    -c 'create table cases (n int generated always as identity, c jsonb)'
python3 -c '
import json, sys
for case in json.load(open(sys.argv[1]))["cases"]: print(json.dumps(case).replace("\\", "\\\\"))' cases.json |
    psql -Xq -v ON_ERROR_STOP=1 -d conformance_bulk -c 'copy cases (c) from stdin'
exec psql -XqAt -v ON_ERROR_STOP=1 -d conformance_bulk -v only="${CASE:-}" \
    -f bulk_driver.sql -f bulk_pairs.sql -f bulk_run.sql
