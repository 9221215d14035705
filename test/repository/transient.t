#!/usr/bin/env bash
# Which SQLSTATEs are transient is said once, in src/core/transient.def: no other code has a list of its own.
cd "$(dirname "$0")/../.." || exit 1
count=0
none() {
    count=$((count + 1))
    if [ -z "$2" ]; then echo "ok $count - $1"; else echo "not ok $count - $1"; sed 's/^/# /' <<<"$2"; fi
}

# Other questions are which conflicts are of one flow alone, what ends a duty and what a success makes good; see
# pawl_saga._ends_duty, pawl_bulk._ends_duty and _ease.
# Signs of a list: class patterns, the names that plpgsql has for class 40, its codes.
# What libpqxx tells without a code is given one.
lists() {
    local q="['\"(|]" e="['\"|)%]"
    local both="${q}40$e(.*$q)?53$e|${q}53$e(.*$q)?40$e"
    grep -rnE "'(40|53|57P?|08)%'|\"(40|53|57P?)\", *0|serialization_failure|[^:]deadlock_detected|['\"](40001|40P01)['\"]|$both" "$@" \
        --include='*.sql' --include='*.cpp' --include='*.hpp' --include='*.def' --include='*.py' --include='*.ts' \
            --include='*.js' |
        grep -vF -e "pawl.is_transient(sqlstate) AND sqlstate NOT LIKE '40%'" \
            -e "transaction_isolation') IN ('repeatable read', 'serializable')" \
                -e "WHEN sqlstate LIKE '57P%' THEN true" -e "ELSE sqlstate LIKE '40%'" \
                -e "t.sqlstate NOT LIKE '40%' OR t.failures" |
        grep -vE '^client/(python/pawl/errors\.py|typescript/src/errors\.ts):' |  # tests in clients/ compare them
        grep -vE '^sql/upgrades/|throw_error\("(40001|40P01)", caught\.what\(\)\);|throw ConnectionLost'
}

none "no list of transient SQLSTATEs but the one" "$(lists sql client src extension)"
none "nor a handler of plpgsql that catches everything and looks at the SQLSTATE by itself" \
    "$(grep -rnE "SQLSTATE +(LIKE|IN|~|=|<>|\^@) " sql --include='*.sql' |
        grep -v '^sql/upgrades/' | grep -vE "SQLSTATE (LIKE '42%'|= '57014')")"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf "IF SQLSTATE LIKE '40%%' THEN\n" >"$folder/one.sql"
printf 'EXCEPTION WHEN serialization_failure THEN\n' >"$folder/two.sql"
printf 'return code == "40001";\n' >"$folder/three.cpp"
printf 'return code.rfind("53", 0) == 0;\n' >"$folder/four.cpp"
printf "left(sqlstate, 2) = ANY (ARRAY['40', '53'])\n" >"$folder/five.sql"
printf "code ~ '^(08|40|53|57)'\n" >"$folder/six.sql"
none "the signs are seen" "$([ "$(lists "$folder" | wc -l)" -eq 6 ] || echo "not all")"
echo "1..$count"
