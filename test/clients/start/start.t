#!/usr/bin/env bash
# The workers of docs/start.md, which are the files of examples/start, each with letters of its own: in C++, Python and
# TypeScript.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
count=0
is() { # <what> <got> <wanted>
    count=$((count + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $count - $1"
    else
        printf 'not ok %s - %s\n# got: %s\n# wanted: %s\n' "$count" "$1" "$2" "$3"
        cat "$scratch"/*.err 2>/dev/null | sed 's/^/# /'
    fi
}
scratch=$(mktemp -d)
export PGDATABASE=shop
trap 'rm -rf "$scratch"; dropdb --if-exists --force shop' EXIT
sql() { psql -XAtq -v ON_ERROR_STOP=1 "$@"; }

createdb shop
sql -c 'create extension pawl'
sql -f examples/start/letters.sql >/dev/null 2>&1
is "the lifecycle is that of the page" "$(sql -c "select count(*) from pawl.binding where machine = 'letter'")" 1

# works <language> <command ...>: the worker sends three letters once, and drains when it is told to end.
works() {
    local language=$1 deadline=$((SECONDS + 60))
    shift
    sql -c "insert into letters (recipient) select '$language ' || n from generate_series(1, 3) n"
    "$@" >"$scratch/$language" 2>"$scratch/$language.err" &
    local worker=$!
    until [ "$(sql -c "select count(*) from letters where state <> 'sent'")" = 0 ] || [ $SECONDS -gt $deadline ]; do
        sleep 0.05
    done
    kill -TERM $worker
    wait $worker
    is "$language: the worker drains on SIGTERM" $? 0
    is "$language: it has sent each letter once" "$(sort "$scratch/$language" | xargs)" \
        "dear $language 1 dear $language 2 dear $language 3"
    is "$language: and the log says so" "$(sql -c "select count(distinct subject_id), count(*) from letters_transitions
        where to_state = 'sent' and subject_id in (select id from letters where recipient like '$language %')")" "3|3"
}

# tells <language> <command ...>: a worker without a server says so, and ends when it is told to.
tells() {
    local language=$1 deadline=$((SECONDS + 60))
    shift
    PGHOST=$scratch "$@" >/dev/null 2>"$scratch/$language.err" &
    local worker=$!
    until grep -q . "$scratch/$language.err" || [ $SECONDS -gt $deadline ]; do sleep 0.05; done
    kill -TERM $worker
    wait $worker
    is "$language: without a server the worker drains too" $? 0
    is "$language: and has said that it cannot connect" \
        "$(head -1 "$scratch/$language.err" | grep -c "^\(pawl: \)\?cannot connect, will retry: ")" 1
    is "$language: and speaks of no rows" "$(grep -c 'not returned' "$scratch/$language.err")" 0
}

# A letter that always fails is tried three times and ends in "failed", from where it can be repeated.
sql -c "insert into letters (recipient) values ('nobody')"
nobody=$(sql -c "select id from letters where recipient = 'nobody'")
for _ in 1 2 3; do
    sql -c "update letters set due = null where id = $nobody and due is not null" \
        -c "select count(*) from pawl.claim(null::letters, processor => 'z')" \
        -c "select pawl.fire('letters', $nobody, 'fail', processor => 'z')" >>"$scratch/failing" 2>&1
done
is "a letter that fails ends after its attempts" "$(xargs <"$scratch/failing")" "1 ready 1 ready 1 failed"
is "and can be repeated" "$(sql -c "select pawl.fire('letters', $nobody, 'repeat')")" ready
sql -c "delete from letters where id = $nobody"

if [ -x build/programs/client/example_start ]; then
    tells C++ build/programs/client/example_start
    works C++ build/programs/client/example_start
else
    echo "# C++: the programs are not built: make programs"
fi
tells Python env PYTHONPATH=client/python /usr/bin/python3 examples/start/worker.py
works Python env PYTHONPATH=client/python /usr/bin/python3 examples/start/worker.py
scripts/build-typescript
mkdir -p "$scratch/program/node_modules"
cp examples/start/worker.mjs "$scratch/program/"
ln -s "$PWD/build/clients/typescript" "$scratch/program/node_modules/pawl"
tells TypeScript node "$scratch/program/worker.mjs"
works TypeScript node "$scratch/program/worker.mjs"
echo "1..$count"
