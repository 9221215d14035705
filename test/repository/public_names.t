#!/usr/bin/env bash
# No private doors: an extension calls of another one, and a program of any, what is public. Private names begin with an underscore.
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
    grep -rnoE '\bpawl(_[a-z]+)?\._[a-z_]+' --include='*.sql' --include='*.cpp' --include='*.hpp' --include='*.ts' "$@" | grep -vE ":$extension\._"
}
for extension in pawl_dag pawl_bulk pawl_saga pawl_api; do
    none "$extension calls nothing private of another extension" "$(private "$extension" "sql/$extension")"
done
none "pawl calls nothing of the packs" "$(grep -rnE '\bpawl_(dag|bulk|saga|api)\.' sql/pawl --include='*.sql' | grep -v -- '--')"
none "the programs call nothing private" "$(private none client console/src examples)"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'SELECT pawl._secret();' >"$folder/a.sql"
none "a private name is seen" "$([ -n "$(private pawl_dag "$folder")" ] || echo "not seen")"
echo "1..$count"
