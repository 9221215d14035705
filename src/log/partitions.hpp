// May ereport; owns nothing. A log that is being written: one table, or the partitions that its rows go to.
#pragma once

#include "log/writer.hpp"

namespace pawl {

// begin, any number of writer_for with what writer.hpp offers, finish. Everything lives in the memory context current
// at begin.
struct LogTree;

LogTree* begin_tree(Relation log, const LogLayout& layout, int nkeys);
LogWriter* writer_for(LogTree* tree, const StateChange& change);  // where the log of this subject is
void flush_tree(LogTree* tree);
void finish_tree(LogTree* tree);

}  // namespace pawl
