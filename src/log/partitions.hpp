// May ereport; owns nothing. Writes a log that may be partitioned.
#pragma once

#include "log/writer.hpp"

namespace pawl {

// Usage: begin_tree; writer_for with the functions of writer.hpp, any number of times; finish_tree. Allocated in the
// memory context that is current at begin_tree.
struct LogTree;

LogTree* begin_tree(Relation log, const LogLayout& layout, int nkeys);
LogWriter* writer_for(LogTree* tree, const StateChange& change);  // the writer of the table for this subject
void flush_tree(LogTree* tree);
void finish_tree(LogTree* tree);

}  // namespace pawl
