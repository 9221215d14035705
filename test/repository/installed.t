#!/usr/bin/env bash
# What `cmake --install` leaves behind is enough for a program outside the repository:
# find_package(pawl), compile, link, run.
cd "$(dirname "$0")/../.." || exit 1
if [ ! -x build/programs/client/pawld ]; then
    echo "1..0 # skip the programs are not built: make programs"
    exit 0
fi
count=0
ok() {
    count=$((count + 1))
    if "${@:2}" >"$folder/log" 2>&1; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        tail -n 20 "$folder/log" | sed 's/^/# /'
    fi
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

ok "it is installed" cmake --install build/programs --prefix "$folder/there"
mkdir "$folder/mine"
cat >"$folder/mine/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(mine CXX)
find_package(pawl REQUIRED)
add_executable(mine mine.cpp)
target_link_libraries(mine PRIVATE pawl::client)
CMAKE
cat >"$folder/mine/mine.cpp" <<'CPP'
#include <pawl/pawl.hpp>
int main() {
    pawl::Worker worker({.connection = {.target = "host=/nowhere"}});
    worker.on("step", [](const pawl::Job& job) { return job.context; });
    try {
        pawl::connect({.target = "host=/nowhere"});
    } catch (const pawl::ConnectionLost&) {
        try {
            pawl::throw_error("PW005", "lost");
        } catch (const pawl::error::lease_lost&) {
            return 0;
        }
    }
    return 1;
}
CPP
ok "find_package finds it" cmake -S "$folder/mine" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/there"
ok "a program is compiled and linked with it" cmake --build "$folder/build"
ok "and runs" "$folder/build/mine"
ok "pawl is there, and says its version" grep -qxE 'pawl [0-9.]+' <("$folder/there/bin/pawl" --version)
ok "pawld reads the example of its settings" "$folder/there/bin/pawld" --config \
    "$(find "$folder/there" -name pawld.toml.example)" --check
unit=$folder/there/lib/systemd/system/pawld.service
ok "the unit starts pawld and waits until it is ready" grep -qE '^Type=notify$' "$unit"
ok "by its full name, which is that of the place it was installed to" \
    grep -q "^ExecStart=$folder/there/bin/pawld --config " "$unit"
echo "1..$count"
