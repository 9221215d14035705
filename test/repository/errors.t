#!/usr/bin/env bash
# PostgreSQL's errors are never swallowed: the bridge between C++ and PostgreSQL catches one and raises it again;
# src/work/trial.cpp goes on after one, whose subtransaction it has rolled back;
# src/pg/error_context.cpp catches what it has raised itself.
cd "$(dirname "$0")/../.." || exit 1
count=0
# none <what> <found>: passes when nothing was found.
none() {
    count=$((count + 1))
    if [ -z "$2" ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; sed 's/^/# /' <<<"$2"; fi
}

sources() {
    find "${1:-src}" \( -name '*.cpp' -o -name '*.hpp' \) ! -path '*/src/core/*' ! -path 'src/core/*' \
            ! -name 'bridge.[ch]pp' ! -path 'src/pg/error_context.cpp' ! -path 'src/work/trial.cpp' | sort
}

# swallowing_catches <file ...>: where a block after PG_CATCH() ends without PG_RE_THROW().
swallowing_catches() {
    awk '/PG_CATCH\(\)/ { at = FILENAME ":" FNR; inside = 1; rethrown = 0 }
         inside && /PG_RE_THROW\(\)/ { rethrown = 1 }
         inside && /PG_END_TRY\(\)/ { if (!rethrown) print at; inside = 0 }' "$@"
}

# shellcheck disable=SC2046
{
    none "no code outside the bridge catches an exception but pawl's own" \
        "$(grep -nE '\bcatch[[:space:]]*\(' $(sources) | grep -vE 'catch \(const (pg::Failure|core::Error)&')"
    none "no code outside the bridge runs the catching half of it" \
        "$(grep -nE 'run_caught|FlushErrorState|CopyErrorData|PG_exception_stack' $(sources))"
    none "what PG_CATCH catches is raised again" "$(swallowing_catches $(sources))"
    none "one file alone goes on after an error" \
        "$(grep -n 'InternalSubTransaction\|CurrentSubTransaction()' $(sources))"
}

# A failed ASSERT of a user's function is not among OTHERS.
none "SQL that goes on after OTHERS goes on after a failed assertion" \
    "$(grep -rnE 'WHEN OTHERS( THEN|$)' sql | grep -v '^sql/upgrades/')"

# Errors of SQL functions are raised by pawl.raise, which leaves the lines of pawl's own functions out of the CONTEXT. A
# RAISE without arguments passes another error on. A role without rights on schema pawl cannot call pawl.raise, and in a
# schema that was just renamed there is none.
raised_otherwise() {
    grep -nEi '\braise[[:space:]]+(exception|using|sqlstate)\b|\braise[[:space:]]+'"'" "$@" |
        grep -v "^sql/pawl/enforce/members.sql:.*'permission denied for schema pawl'" |
        grep -v "^sql/pawl/enforce/follow_ddl.sql:.*schema of extension"
}
# shellcheck disable=SC2046
none "errors in SQL are raised by pawl.raise" "$(raised_otherwise $(find sql -name '*.sql' ! -path 'sql/upgrades/*'))"

# unhinted <file ...>: where a missing right is raised without a hint at the role to grant, or at the right.
unhinted() {
    perl -0777 -ne 'while (/PERFORM pawl\.raise\(.42501., (.*?)\);\n/gs) {
        my $call = $1;
        print "$ARGV: ", substr($call, 0, 60), "\n"
            if $call =~ /must be owner of table|denied for (the log of )?table/ && $call !~ /_owner_hint|grant |owner to/;
    }' "$@"
}
# shellcheck disable=SC2046
none "a missing right on a table is raised with a hint at what to grant" \
    "$(unhinted $(find sql/pawl -name '*.sql'))"

# unfinished_catches <file ...>: where an error is flushed whose subtransaction is not
# rolled back, or that is not looked at then.
unfinished_catches() {
    awk '/PG_CATCH\(\)/ { at = FILENAME ":" FNR; inside = 1; flushed = rolled = asked = 0 }
         inside && /FlushErrorState\(\)/ { flushed = 1 }
         inside && flushed && /RollbackAndReleaseCurrentSubTransaction\(\)/ { rolled = 1 }
         inside && rolled && /if \(ends_call\(error\)\) ReThrowError\(error\);/ { asked = 1 }
         inside && /PG_END_TRY\(\)/ { if (!asked) print at; inside = 0 }' "$@"
}
none "it rolls a subtransaction back, and raises what ends the call again" "$(unfinished_catches src/work/trial.cpp)"

# The checks see what they look for.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf 'PG_TRY();\nPG_CATCH();\n{\n}\nPG_END_TRY();\n' >"$folder/bad.cpp"
none "a catch that swallows is seen" \
    "$([ "$(swallowing_catches "$folder/bad.cpp")" = "$folder/bad.cpp:2" ] || echo "not seen")"

printf 'PG_CATCH();\n{\nFlushErrorState();\n}\nPG_END_TRY();\n' >"$folder/bad.cpp"
none "a catch without a subtransaction is seen" \
    "$([ "$(unfinished_catches "$folder/bad.cpp")" = "$folder/bad.cpp:1" ] || echo "not seen")"

printf "    PERFORM pawl.raise('42501', format('must be owner of table %%s', x));\n" >"$folder/bad.sql"
none "a missing right without a hint is seen" "$([ -n "$(unhinted "$folder/bad.sql")" ] || echo "not seen")"

printf "BEGIN\n    RAISE EXCEPTION 'no';\nEND\n" >"$folder/bad.sql"
none "an error that is raised without pawl.raise is seen" \
    "$([ -n "$(raised_otherwise "$folder/bad.sql" /dev/null)" ] || echo "not seen")"

# plpgsql: an EXCEPTION clause is a subtransaction and does not catch a cancel, unless it
# says so; then it asks at once whose cancel it is.
unasked_cancels() {
    awk 'tolower($0) ~ /when.*(query_canceled|sqlstate .57014.).*then/ { at = FILENAME ":" FNR; left = 4 }
         left > 0 && (/_ends_duty\(SQLSTATE\)/ || /RAISE;/) { left = 0 }
         left > 0 && --left == 0 { print at }' "$@"
}
# shellcheck disable=SC2046
none "no SQL function catches a cancel without asking whether it ends the call" \
    "$(unasked_cancels $(find sql -name '*.sql' ! -path 'sql/upgrades/*'))"

echo "1..$count"
