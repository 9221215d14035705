#!/usr/bin/env bash
# The entry points: what `make help` promises is there, and the private server leaves nothing behind.
cd "$(dirname "$0")/../.." || exit 1
count=0
check() {
    local what=$1
    shift
    count=$((count + 1))
    if "$@"; then echo "ok $count - $what"; else echo "not ok $count - $what"; fi
}

help=$(make)
for target in deps build install demo test test-all bench deb dist docs clean help; do
    check "make help lists $target" grep -qE "^  make $target +[^ ]" <<<"$help"
done

check "without a word about it, it is this Debian's PostgreSQL" \
    bash -c 'env -u PG_MAJOR -u PG_CONFIG -u MAKEFLAGS make | grep -q "PostgreSQL $(scripts/pg-major))"'
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

scripts/private-postgres run bash -c 'psql -XAtqc "select pg_postmaster_start_time() is not null,
    current_setting(\$\$listen_addresses\$\$) = \$\$\$\$"; echo "$PAWL_POSTMASTER $PAWL_RUN"' >"$here/out"
read -r pid run < <(tail -n 1 "$here/out")
check "the private server answers, on a socket only" grep -qx 't|t' "$here/out"
check "its postmaster is gone afterwards" bash -c '! kill -0 "$1" 2>/dev/null' - "$pid"
check "its folder is gone afterwards" test ! -e "$run"

scripts/private-postgres run bash -c 'exit 7' >/dev/null
check "the command's status is handed on" test $? -eq 7

# Killed in the middle: the server must go too. The command tells when it runs by writing the file.
scripts/private-postgres run bash \
    -c 'echo "$PAWL_POSTMASTER $PAWL_RUN" >"$0.new"; mv "$0.new" "$0"; exec tail -f /dev/null' \
    "$here/running" </dev/null >/dev/null &
script=$!
until [ -e "$here/running" ]; do sleep 0.05; done
read -r pid run <"$here/running"
kill -TERM "$script"
wait "$script"
check "a terminated run says so" test $? -eq 143
check "a terminated run leaves no postmaster" bash -c '! kill -0 "$1" 2>/dev/null' - "$pid"
check "a terminated run leaves no folder" test ! -e "$run"

# With its cluster in memory, where there is enough; what a killed run left there goes with the next one.
left=/dev/shm/pawl.left$$
mkdir "$left" && touch "$left/lock"
scripts/private-postgres run --memory bash -c 'echo "$PAWL_RUN"; scripts/private-postgres run --memory true
    test -e "$PAWL_RUN/data" && echo "still there"' >"$here/out"
read -r run <"$here/out"
if [[ $run == /dev/shm/* ]]; then
    check "what a killed run left in memory is gone" test ! -e "$left"
else
    check "a cluster that does not fit into memory is kept under build" test "$(dirname "$run")" = "$PWD/build"
fi
rm -rf "$left"
check "the folder of a run that goes on stays" grep -qx "still there" "$here/out"
check "a folder in memory is gone afterwards" test ! -e "$run"

echo "1..$count"
