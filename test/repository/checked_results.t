#!/usr/bin/env bash
# What a server answers is read in one place, which checks it: rows.cpp for libpqxx, libpq.cpp for libpq, json_text.cpp
# for JSON. Elsewhere nothing gets at a value by itself.
cd "$(dirname "$0")/../.." || exit 1
count=0

# only <what> <pattern> <file ...>: the pattern occurs in these files of client/ and in no other.
only() {
    local what=$1 pattern=$2 found
    shift 2
    found=$(grep -rnE "$pattern" client --include='*.cpp' --include='*.hpp' | grep -vE "^($(IFS='|'; echo "$*")):")
    count=$((count + 1))
    if [ -z "$found" ]; then
        echo "ok $count - $what"
    else
        echo "not ok $count - $what"
        sed 's/^/# /' <<<"$found"
    fi
}

only "results of libpqxx become sql::Rows at once" 'pqxx::(result|row|field)\b' client/lib/rows.hpp client/lib/rows.cpp
only "statements are run by sql::run" '\b(exec_params|exec_prepared|exec0|exec1|exec_n|query_value)\b|[.>]exec\(' \
    client/lib/sql.hpp
only "values of libpq are taken by value_of" '\bPQ(getvalue|getlength|fsize)\b' client/lib/libpq.cpp
only "JSON is parsed by parse_json" 'json::(parse|sax_parse|accept)\(|Json::parse\(' client/lib/json_text.cpp \
    client/broker/broker_names.cpp client/http/routes.cpp client/cli/problems.cpp
only "values of the library's users are written by json_text" 'json::error_handler_t::replace' \
    client/lib/json_text.cpp client/broker/broker_names.cpp client/http/problem.cpp client/daemon/log.cpp
echo "1..$count"
