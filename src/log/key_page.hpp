// May ereport; owns nothing. The page of a log's primary key that was looked at last: rows that are moved together
// mostly have their entries side by side, and need no descent from the root each.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

struct KeyPage {
    Relation index;
    int nkeys;
    FmgrInfo* order[INDEX_MAX_KEYS];
    BlockNumber block;
    Buffer buffer;        // pinned, not locked; no heap place that was read here is given away by VACUUM meanwhile
    OffsetNumber offset;  // where the last search ended
    int misses;           // in a row: keys that are scattered are left to ordinary searches
};

enum class OnPage { elsewhere, nothing, entry };

void prepare_key_page(KeyPage* last, Relation index, int nkeys);

// Whether the page tells the newest index entry of a subject (`place`: of its row, which may be dead), or that there is
// none.
OnPage search_key_page(KeyPage* last, const Datum* key, ItemPointer place);

// Turns to the page where an ordinary search has ended; `hit`: it found an entry.
void turn_to_page(KeyPage* last, IndexScanDesc scan, bool hit);
void leave_page(KeyPage* last);

}  // namespace pawl
