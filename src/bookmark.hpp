// May ereport; owns nothing. Where the last claim of this session ended, for the time in which the head of the claim index is full of
// dead rows that an old snapshot keeps from being cleaned away.
#pragma once

#include "batch.hpp"

namespace pawl {

struct Bookmark;

// The bookmark of one event and queue of an attachment (queue null: it has none).
Bookmark* find_bookmark(Attachment& attachment, const text* event, const text* queue);

// Whether a claim is to begin at the bookmark instead of at the head.
bool skips_head(const Bookmark& bookmark);

// What was read to find the rows, begun before and ended after: a scan of the head that touched many more pages than its rows need is
// not repeated until twenty times its duration has passed.
struct HeadScan {
    int64 pages;
    TimestampTz begun;
};
HeadScan begin_head_scan();
TimestampTz end_head_scan(const HeadScan& scan, int rows);  // from when on it may be repeated; 0: at once

// A claim has looked at the head.
void note_head_scan(Bookmark& bookmark, const HeadScan& scan, int rows);

// Puts the bookmark behind a row.
void move_bookmark(Attachment& attachment, Bookmark& bookmark, const FoundRow& row);

// Conditions on rows behind the bookmark, the nearest first: their ranges follow each other in claim order. Level 0 to levels - 1.
int bookmark_levels(const Attachment& attachment, const Bookmark& bookmark);
void append_behind(StringInfo out, const Attachment& attachment, const Bookmark& bookmark, int level, Parameters& parameters);

}  // namespace pawl
