#!/usr/bin/env bash
# PostgreSQL's errors are never swallowed: only the bridge between C++ and PostgreSQL catches one, and it raises it again.
cd "$(dirname "$0")/../.." || exit 1
count=0
# none <what> <found>: passes when nothing was found.
none() {
    count=$((count + 1))
    if [ -z "$2" ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; sed 's/^/# /' <<<"$2"; fi
}

sources() { find "${1:-src}" \( -name '*.cpp' -o -name '*.hpp' \) ! -path '*/src/core/*' ! -path 'src/core/*' ! -name 'bridge.[ch]pp' | sort; }

# swallowing_catches <file ...>: where a block after PG_CATCH() ends without PG_RE_THROW().
swallowing_catches() {
    awk '/PG_CATCH\(\)/ { at = FILENAME ":" FNR; inside = 1; rethrown = 0 }
         inside && /PG_RE_THROW\(\)/ { rethrown = 1 }
         inside && /PG_END_TRY\(\)/ { if (!rethrown) print at; inside = 0 }' "$@"
}

# shellcheck disable=SC2046
{
    none "no code outside the bridge catches an exception" "$(grep -nE '\bcatch[[:space:]]*\(' $(sources))"
    none "no code outside the bridge runs the catching half of it" "$(grep -nE 'run_caught|FlushErrorState|CopyErrorData|PG_exception_stack' $(sources))"
    none "what PG_CATCH catches is raised again" "$(swallowing_catches $(sources))"
    none "a subtransaction that goes on after an error is the only exception, and there is none yet" "$(grep -n 'BeginInternalSubTransaction' $(sources))"
}

# The checks see what they look for.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf 'PG_TRY();\nPG_CATCH();\n{\n}\nPG_END_TRY();\n' >"$folder/bad.cpp"
none "a catch that swallows is seen" "$([ "$(swallowing_catches "$folder/bad.cpp")" = "$folder/bad.cpp:2" ] || echo "not seen")"

# plpgsql: an EXCEPTION clause is a subtransaction and does not catch a cancel, unless it says so.
none "no SQL function catches a cancel" "$(grep -rnEi 'when[^;]*query_canceled|when[^;]*assert_failure|sqlstate '\''(57014|P0004)'\''[^;]*then' sql --include='*.sql' | grep -vi 'case')"

echo "1..$count"
