#!/usr/bin/env bash
# An extension calls only what is public in another one, and a program only what is public.
# Private names begin with an underscore. Public functions of all packs call the same argument the same.
cd "$(dirname "$0")/../.." || exit 1
count=0
none() {
    count=$((count + 1))
    if [ -z "$2" ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; sed 's/^/# /' <<<"$2"; fi
}

# private <extension> <folder ...>: private names of other extensions.
private() {
    local extension=$1
    shift
    grep -rnoE '\bpawl(_[a-z]+)?\._[a-z_]+' --include='*.sql' --include='*.cpp' --include='*.hpp' --include='*.ts' \
        "$@" | grep -vE ":$extension\._"
}
for extension in pawl_dag pawl_bulk pawl_saga pawl_api pawl_test pawl_move; do
    none "$extension calls nothing private of another extension" "$(private "$extension" "sql/$extension")"
done
none "pawl calls nothing of the packs" \
    "$(grep -rnE '\bpawl_(dag|bulk|saga|api)\.' sql/pawl --include='*.sql' | grep -v -- '--')"
# client/http and pawl_api are the two halves of the daemon's HTTP API: what the one asks
# of the other serves no other caller.
none "the programs call nothing private" \
    "$(private none client console/src examples | grep -vE '^client/http/[^:]*:[0-9]+:pawl_api\._')"
# listed <file>: functions that call the identity under which work is claimed by another name.
listed() { grep -nE '^function pawl[a-z_]*\.[a-z][a-z_]*\(([^)]*, )?worker ' "$1"; }
none "the identity under which work is claimed and reported is the processor" "$(listed test/expected/stability.out)"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'SELECT pawl._secret();' >"$folder/a.sql"
none "a private name is seen" "$([ -n "$(private pawl_dag "$folder")" ] || echo "not seen")"
echo 'function pawl_bulk.report(results jsonb, worker text) -> void' >"$folder/b.out"
none "and another name is seen" "$([ -n "$(listed "$folder/b.out")" ] || echo "not seen")"
echo "1..$count"
