// May ereport; owns nothing. Writes rows of an audit without a statement, where audit and log are plain tables.
#pragma once

#include <initializer_list>

#include "pg/postgres.hpp"

namespace pawl {

// Names of states.
struct AuditedStates {
    Datum* names;
    int n;

    bool contains(std::string_view name) const;
};

struct AuditColumns {
    int nkeys;
    AttrNumber log_keys[INDEX_MAX_KEYS];
    AttrNumber audit_keys[INDEX_MAX_KEYS];
};

// What is written of the results among inserted log entries.
struct AuditedResults {
    Relation log;
    Oid audit;
    const AuditColumns& columns;
    const AuditedStates& successes;
    const AuditedStates& failures;
    const AuditedStates& owned;
    Tuplestorestate* entries;
};

// The value at a path of keys; of type jbvNull if there is none.
JsonbValue value_at(Jsonb* metadata, std::initializer_list<const char*> path);

// The paths of an execution time: in the metadata, and in the result that it wraps. The first that has a value counts.
inline constexpr int time_paths = 4;
JsonbValue time_at(Jsonb* metadata, int path);

// The caller has opened the audit for writing.
void write_audit(const AuditedResults& results);

}  // namespace pawl
