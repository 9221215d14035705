// May ereport; owns nothing. The columns of a log that are pawl's own.
#pragma once

#include "journal.hpp"

namespace pawl {

// Attribute numbers, found by name: a log may have been restored, or have got columns of its owner's.
struct LogColumns {
    AttrNumber id, sort_key, from_state, to_state, event, processor, actor, correlation_id, metadata, machine_version, created_at;
    AttrNumber most_recent, hash;  // 0 where the log has none
};

LogColumns find_columns(Relation log, const LogLayout& layout);

}  // namespace pawl
