#!/usr/bin/env bash
# A build from a clean clone stays short: no source is compiled twice, slow headers are
# precompiled, and CLI11 is read by few files.
cd "$(dirname "$0")/../.." || exit 1
if [ ! -e build/module/obj/src/packs/saga/saga_writer.o ] || ! command -v cmake >/dev/null ||
    ! pkg-config --exists cpp-httplib libpqxx; then
    echo "1..0 # skip needs make build with all packs, and the packages of the programs"
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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# As run-tests configures it.
configure() {
    cmake -S . -B "$folder" -DPAWL_PROGRAMS=ON -DPAWL_TESTS=ON -DPAWL_CORE="$PWD/build/module/obj" \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" >"$folder/log" 2>&1
}
configure
is "cmake configures the programs and the unit tests" $? 0
# commands <python expression over e>: the files, relative to the sources, whose command is such.
commands() {
    python3 - "$folder/compile_commands.json" "$PWD" "$1" <<'PYTHON'
import json, os, re, sys
for e in json.load(open(sys.argv[1])):
    file = os.path.relpath(e["file"], sys.argv[2])
    ours = not file.startswith("..")
    if eval(sys.argv[3]):
        print(file)
PYTHON
}
with_definitions="client/broker/broker.cpp client/http/routes.cpp"  # of their own
is "sources of libraries are compiled several at a time, but for these" \
    "$(commands 're.match("client/(lib|worker|broker|http|cli/lifecycle)/", file)' | sort | xargs)" \
    "$with_definitions client/worker/saga_source.cpp client/worker/step_source.cpp"
configure -DCMAKE_UNITY_BUILD=OFF
is "there are sources" "$(($(commands ours | wc -l) > 60))" 1
is "no source of programs and unit tests is compiled twice" "$(commands ours | sort | uniq -d | xargs)" ""
is "nor what the module has compiled" "$(commands 'ours and file.startswith("src/")' | xargs)" ""
is "every file reads precompiled headers, but for unit tests" \
    "$(commands 'ours and "cmake_pch.hxx" not in e["command"]' | grep -v ^test/unit/ | xargs)" ""
is "which are compiled several at a time, too, but for these" \
    "$(commands 'file.startswith("test/unit/")' | sort | xargs)" \
    "test/unit/saga_test.cpp test/unit/sqlstate_test.cpp test/unit/trace_test.cpp"
is "no full debug information" "$(commands '" -g " in e["command"]' | xargs)" ""
is "CLI11 is read by three files" "$(grep -rl '#include <CLI/' client examples test/unit | sort | xargs)" \
    "client/cli/command_line.cpp client/cli/main.cpp client/daemon/main.cpp"
echo "1..$count"
