// May ereport; owns nothing. Where the last claim of this session, or the last firing of timers, ended: for the time in which the head of
// their index is full of dead rows that an old snapshot keeps from being cleaned away.
#pragma once

#include "fire/batch.hpp"

namespace pawl {

struct Bookmark;

// The bookmark of claims by an event from a queue (null: there is none), and that of timers.
Bookmark* claim_bookmark(Attachment& attachment, const text* event, const text* queue);
Bookmark* timer_bookmark(Attachment& attachment);

// Picks at most so many rows from the head of the index (`behind` null), or from one of the ranges behind a bookmark.
using PickRange = Batch (*)(const void* request, const Bookmark* behind, int level, int most);

// Picks the next rows, from the head or behind the bookmark, and puts the bookmark behind them.
Batch pick_next(Attachment& attachment, Bookmark& bookmark, PickRange pick, const void* request, int most);

// After a rollback: what it took is to be found again.
void distrust_bookmarks() noexcept;

// Conditions on rows behind the bookmark, the nearest first: their ranges follow each other in the order of the index. Level 0 to
// levels - 1.
int bookmark_levels(const Attachment& attachment, const Bookmark& bookmark);
void append_behind(StringInfo out, const Attachment& attachment, const Bookmark& bookmark, int level, Parameters& parameters);

// When the head is looked at again; DT_NOEND: it is not left out.
TimestampTz head_again(const Bookmark& bookmark);

// What was read to find rows, begun before and ended after: a scan of the head that touched many more pages than its rows need is not
// repeated until twenty times its duration has passed.
struct HeadScan {
    int64 pages;
    TimestampTz begun;
};
HeadScan begin_head_scan();
TimestampTz end_head_scan(const HeadScan& scan, int rows);  // from when on it may be repeated; 0: at once

}  // namespace pawl
