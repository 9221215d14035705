#!/usr/bin/env bash
# Which SQLSTATEs are transient is said once, in src/core/transient.def: no other code has a list of its own.
cd "$(dirname "$0")/../.." || exit 1
count=0
none() {
    count=$((count + 1))
    if [ -z "$2" ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; sed 's/^/# /' <<<"$2"; fi
}

# Signs of a list: class patterns, the names that plpgsql has for class 40, its codes. What libpqxx tells without a code is given one.
lists() {
    grep -rnE "'(40|53|57P?|08)%'|\"(40|53|57P?)\", *0|serialization_failure|[^:]deadlock_detected|['\"](40001|40P01)['\"]" "$@" \
        --include='*.sql' --include='*.cpp' --include='*.hpp' --include='*.def' --include='*.py' --include='*.ts' --include='*.js' |
        grep -vE '^sql/upgrades/|throw_error\("(40001|40P01)", caught\.what\(\)\);|throw ConnectionLost'
}

none "no list of transient SQLSTATEs but the one" "$(lists sql client src extension)"
none "nor a handler of plpgsql that catches everything and looks at the SQLSTATE by itself" \
    "$(grep -rnE "SQLSTATE +(LIKE|IN|~|=|<>|\^@) " sql --include='*.sql' | grep -v '^sql/upgrades/' | grep -vE "SQLSTATE LIKE '42%'")"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf "IF SQLSTATE LIKE '40%%' THEN\n" >"$folder/one.sql"
printf 'EXCEPTION WHEN serialization_failure THEN\n' >"$folder/two.sql"
printf 'return code == "40001";\n' >"$folder/three.cpp"
printf 'return code.rfind("53", 0) == 0;\n' >"$folder/four.cpp"
none "the signs are seen" "$([ "$(lists "$folder" | wc -l)" -eq 4 ] || echo "not all")"
echo "1..$count"
