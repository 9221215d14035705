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
};

// Claims the next rows with the rights of the caller and puts them into `rows`. Closes the target.
void claim_next(const ClaimRequest& request, Tuplestorestate* rows);

}  // namespace pawl
