#!/usr/bin/env bash
# The packages of `make deb` in a root of this Debian that has nothing but PostgreSQL: they are installed by apt, do a
# job, are upgraded, and purged. Roots are kept under build/roots; needs the rights of root. PAWL_DEBS names a folder
# with packages that were built elsewhere.
#
#     test/packages/clean_root.t trixie    the same on another Debian: the last commit is built there (scripts/try-on)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "1..0 # skip needs the rights of root, on Debian"
    exit 0
fi
count=0
ok() {
    count=$((count + 1))
    if "${@:2}" >"$scratch/log" 2>&1; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        tail -n 40 "$scratch/log" | sed 's/^/# /'
    fi
}
same() { diff <(printf '%s\n' "$1") <(printf '%s\n' "$2"); }

scratch=$(mktemp -d)
roots=${PAWL_ROOTS:-$PWD/build/roots}
suite=${1:-here}
clean=$roots/clean${1:+-$1}
root=$roots/packages.$$
trap 'rm -rf "$scratch" "$root"' EXIT
inside() { scripts/debian-root run "$root" "$@"; }

if [ "$suite" = here ]; then
    built=build/deb
    build=(scripts/build-deb)
else
    built=$roots/$suite/srv/pawl/build/deb
    build=(scripts/try-on "$suite" deb)
fi
if [ -n "${PAWL_DEBS:-}" ]; then
    built=$PAWL_DEBS
else
    ok "the packages are built, and lintian finds no error" "${build[@]}"
fi
shopt -s nullglob
debs=("$built"/*.deb)
for name in "postgresql-[0-9]*-pawl" pawl pawld libpawl-dev python3-pawl; do
    ok "there is $name" bash -c 'compgen -G "$1"' - "$built/${name}_*.deb"
done
if [ ${#debs[@]} -eq 0 ]; then
    echo "1..$count"
    exit 1
fi
[ -d "$clean" ] || ok "a clean root" scripts/debian-root create "$clean" "$suite" postgresql systemd
mkdir -p "$root"
cp -a --reflink=auto "$clean/." "$root"

# publish <folder>: a repository of the packages in it, which apt of the root asks.
publish() {
    rm -rf "$root/srv/packages"
    mkdir -p "$root/srv/packages"
    cp "$1"/*.deb "$root/srv/packages/"
    (cd "$root/srv/packages" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
    echo "deb [trusted=yes] file:/srv/packages ./" >"$root/etc/apt/sources.list.d/packages.list"
    inside apt-get -q update
}
# Every file of the root that could be ours, but what this test has put there, and apt's own.
files() { (cd "$root" && find . -xdev \( -path ./srv -o -path ./var/lib/apt -o -path ./tmp \) -prune -o \
    \( -iname '*pawl*' -o -path '*/pawl/*' \) -print | LC_ALL=C sort); }
installed() { inside dpkg-query -W -f '${Package} ${db:Status-Status} ${Version}\n' 2>/dev/null | grep pawl; }
# job <what>: debian/tests/job, whose tests are counted among ours.
job() {
    local line ended=no
    while read -r line; do
        case $line in
            "ok "* | "not ok "*)
                count=$((count + 1))
                echo "${line%%ok *}ok $count - $1: ${line#*- }"
                ;;
            "1.."*) ended=yes ;;
            *) echo "$line" ;;
        esac
    done < <(inside /srv/sources/debian/tests/job 2>&1)
    ok "$1: the job came to its end" test "$ended" = yes
}

mkdir -p "$root/srv/sources/debian"
cp -r debian/tests "$root/srv/sources/debian/"
mkdir -p "$root/srv/sources/examples" && cp -r examples/start "$root/srv/sources/examples/"
before=$(files)
names=$(for deb in "${debs[@]}"; do dpkg-deb -f "$deb" Package; done | grep -v dbgsym | xargs)

ok "a repository of the packages" publish "$built"
# shellcheck disable=SC2086
ok "apt installs them" inside apt-get -q install -y $names
ok "all of them" same "$(installed | awk '{ print $1, $2 }' | grep -c installed)" "$(wc -w <<<"$names")"
job "installed"

# A C++ program needs what libpawl-dev depends on, a compiler and CMake; they come after the first round, so that
# this round has shown that the rest works without.
ok "a compiler is installed" inside apt-get -q install -y cmake g++ make

# The next version: the same files, and one more line in the settings' example.
next=$scratch/next
mkdir "$next"
for deb in "${debs[@]}"; do
    [[ $deb != *dbgsym* ]] || continue
    rm -rf "$scratch/tree"
    dpkg-deb -R "$deb" "$scratch/tree"
    sed -i 's/^Version: .*/&+next1/' "$scratch/tree/DEBIAN/control"
    [ ! -e "$scratch/tree/etc/pawl/pawld.toml" ] || echo "# next" >>"$scratch/tree/etc/pawl/pawld.toml"
    dpkg-deb --root-owner-group -b "$scratch/tree" "$next" >/dev/null
done
ok "a repository of the next version" publish "$next"
ok "apt upgrades them" inside apt-get -q upgrade -y -o Dpkg::Options::=--force-confold
ok "all of them" same "$(installed | grep -c 'installed .*+next1$')" "$(wc -w <<<"$names")"
ok "the settings of the administrator stay" grep -qx 'database = "dbname=shop"' "$root/etc/pawl/pawld.toml"
ok "with their owner and mode" same "$(inside stat -c '%U %G %a' /etc/pawl/pawld.toml)" "root pawld 640"
job "upgraded"

# Removed and purged.
# shellcheck disable=SC2086
ok "apt removes them" inside apt-get -q remove -y $names
ok "the settings are kept" test -e "$root/etc/pawl/pawld.toml"
# shellcheck disable=SC2086
ok "apt purges them" inside apt-get -q purge -y $names
ok "nothing is left of them" same "$(files)" "$before"
ok "but the user, whose files may be anywhere" inside id pawld
echo "1..$count"
