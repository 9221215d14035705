#!/usr/bin/env bash
# The archive of `make dist`, unpacked where git is not: it has META.json in its folder, and builds and installs by the
# targets that PGXN's client calls.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
if ! git rev-parse -q --is-inside-work-tree >/dev/null 2>&1; then
    echo "1..0 # skip an archive is made of a commit"
    exit 0
fi
count=0
ok() {
    count=$((count + 1))
    if "${@:2}" >"$scratch/log" 2>&1; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        tail -n 30 "$scratch/log" | sed 's/^/# /'
    fi
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" extension/pawl.control)
folder=$scratch/pawl-$version
plain() { env -u MAKEFLAGS -u MAKELEVEL "$@"; }

ok "make dist makes an archive" plain make -s dist
ok "it can be unpacked" python3 -m zipfile -e "build/pawl-$version.zip" "$scratch"
ok "everything is in a folder of its name and version" test "$(ls "$scratch" | grep -v '^log$')" = "pawl-$version"
ok "with META.json" test -f "$folder/META.json"
ok "and without the files of the forge" test ! -e "$folder/.ci"
# The modes of files are not in what Python unpacks.
find "$folder/scripts" -type f -exec chmod +x {} +
ok "make all builds it" plain make -C "$folder" all "PG_CONFIG=$PG_CONFIG" "JOBS=${JOBS:-2}"
ok "make install installs it" plain make -s -C "$folder" install "PG_CONFIG=$PG_CONFIG" "DESTDIR=$scratch/there"
ok "with the library" test -f "$scratch/there$("$PG_CONFIG" --pkglibdir)/pawl.so"
for control in extension/*.control; do
    ok "and with ${control##*/}" test -f "$scratch/there$("$PG_CONFIG" --sharedir)/$control"
done
# On a server that has it: this one.
ok "make installcheck finds it in order" plain make -s -C "$folder" installcheck \
    "PG_CONFIG=$PG_CONFIG" TESTS="context work"
echo "1..$count"
