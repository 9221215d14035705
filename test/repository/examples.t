#!/usr/bin/env bash
# The example that people copy works: one round of each script, as the roles that it
# makes. The whole of it is `make demo`.
cd "$(dirname "$0")/../../examples/jobs" || exit 1
if [ -z "${PAWL_RUN:-}" ]; then
    echo "1..0 # skip no private server: run by make test"
    exit 0
fi
count=0
is() {
    count=$((count + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $count - $1"
    else
        printf 'not ok %s - %s\n# got: %s\n# wanted: %s\n' "$count" "$1" "$2" "$3"
    fi
}
export PGDATABASE=example_jobs
sql() { psql -XAtq -v ON_ERROR_STOP=1 "$@" 2>&1; }
worker() { sql -U worker -v worker="$1" "${@:2}"; }
trap 'dropdb --if-exists example_jobs; sql -d postgres -c "drop role if exists worker, caretaker" >/dev/null' EXIT

createdb example_jobs
# pawl.enforce warns of columns that the next call names.
is "the set-up is done" \
    "$(sql -v lifecycle="$(cat jobs.mmd)" -f setup.sql | grep -vE "WARNING:|^(DETAIL|HINT):" | xargs)" \
    "job_result_audit"
is "a round of a worker says nothing" "$(worker anna -f worker.sql)" ""
is "25 jobs were claimed, worked on and handed in" \
    "$(sql -c "select count(*), count(distinct subject_id) from job_transitions where processor = 'anna'")" "50|25"
is "results are in the audit" \
    "$(sql -c "select count(*), bool_and(success and worker = 'anna') from job_result_audit")" "22|t"
is "with results, but for those that broke" "$(sql -c "select bool_and((state = 'done') = (breaks = 0)),
    bool_and((state = 'done') = (result is not null)) from job where attempts = 1")" "t|t"
broken="select count(*) from job where id in (select subject_id from job_transitions where processor = 'anna'
and event = 'fail')"
is "which wait for another attempt" "$(sql -c "$broken and due is not null")" "3"

# Ben is late, and so are the caretaker's duties.
worker ben -c "select count(*) from pawl.claim(null::job, processor => 'ben', lease => '1 ms', batch => 3)" >/dev/null
until [ "$(sql -c "select count(*) from job where greatest(lease, due) >= clock_timestamp()")" = 0 ]; do
    sleep 0.01
done
is "a round of the duties says nothing" "$(sql -U caretaker -f duties.sql)" ""
is "they took what was ben's" \
    "$(sql -c "select count(*) from job_transitions where event = 'expire' and metadata ->> 'lost_owner' = 'ben'")" \
    "3"
is "and made claimable what had broken" "$(sql -c "$broken and state = 'ready' and due is null")" "3"
is "nothing is wrong" "$(sql -c "select count(*) from pawl.verify('job')")" "0"
echo "1..$count"
