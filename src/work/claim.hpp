// May throw and may ereport. Claiming rows from C++, as pawl.claim does.
#pragma once

#include "work/duty.hpp"

namespace pawl {

struct ClaimRequest {
    Target target;
    text* event;  // one of the claim events of the binding
    text* processor;
    const Interval* lease;  // null: that of the binding
    int batch;
    text* queue;        // null: the table has no queue column
    const Datum* keys;  // of the named rows, one array a key column; null: the next rows
    bool as_root;       // rows of a shard are returned in the row type of its table
};

// Rows that were picked and locked for a claim, and what becomes of each; guards may keep some in their state.
struct Picked {
    Batch batch;
    Step* steps;
};

// The two halves of a claim, for functions that decide between them how many of the rows are claimed: the next rows,
// locked, and the claim of the first `most` of them, which returns how many moved. `intent` is the current one, made by
// work_intent with the lease of the request. The new row of each claimed row is in its step.
Picked pick_to_claim(const ClaimRequest& request, Intent& intent);
int64 claim_picked(const ClaimRequest& request, const Picked& picked, int most, Intent& intent);

// Claims the next rows with the rights of the caller and puts them into `rows`. Closes the target.
void claim_next(const ClaimRequest& request, Tuplestorestate* rows);

}  // namespace pawl
