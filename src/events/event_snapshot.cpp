// May ereport; owns nothing. See event_snapshot.hpp.
#include "events/event_snapshot.hpp"

#include <algorithm>

#include "events/outbox_epoch.hpp"
#include "pg/arguments.hpp"

extern "C" {
#include "access/transam.h"
#include "utils/fmgrprotos.h"
}

namespace pawl {

namespace {

// The whole number of a transaction that is running now or ran lately.
uint64 widen(TransactionId xid, FullTransactionId next) {
    uint64 epoch = EpochFromFullTransactionId(next);
    if (xid > XidFromFullTransactionId(next)) --epoch;
    return (epoch << 32) | xid;
}

}  // namespace

bool EventSnapshot::sees(uint64 txid) const {
    if (txid < xmin) return true;
    if (txid >= xmax) return false;
    return !std::binary_search(in_progress, in_progress + n, txid);
}

EventSnapshot active_event_snapshot(uint64 base) {
    Snapshot active = GetActiveSnapshot();
    const FullTransactionId next = ReadNextFullTransactionId();
    EventSnapshot made = {base + widen(active->xmin, next), base + widen(active->xmax, next), 0, nullptr};
    made.in_progress = static_cast<uint64*>(palloc(sizeof(uint64) * (active->xcnt + 1)));
    for (uint32 i = 0; i < active->xcnt; ++i) {
        const uint64 txid = base + widen(active->xip[i], next);
        if (txid < made.xmax) made.in_progress[made.n++] = txid;
    }
    const FullTransactionId mine = GetTopFullTransactionIdIfAny();
    if (FullTransactionIdIsValid(mine) && base + U64FromFullTransactionId(mine) < made.xmax)
        made.in_progress[made.n++] = base + U64FromFullTransactionId(mine);
    std::sort(made.in_progress, made.in_progress + made.n);
    made.n = static_cast<int>(std::unique(made.in_progress, made.in_progress + made.n) - made.in_progress);
    if (made.n > 0) made.xmin = Min(made.xmin, made.in_progress[0]);
    return made;
}

char* print_snapshot(const EventSnapshot& snapshot) {
    StringInfoData out;
    initStringInfo(&out);
    appendStringInfo(&out, UINT64_FORMAT ":" UINT64_FORMAT ":", snapshot.xmin, snapshot.xmax);
    for (int i = 0; i < snapshot.n; ++i)
        appendStringInfo(&out, "%s" UINT64_FORMAT, i > 0 ? "," : "", snapshot.in_progress[i]);
    return out.data;
}

EventSnapshot parse_snapshot(const char* printed) {
    char* at;
    EventSnapshot read = {};
    read.xmin = strtoull(printed, &at, 10);
    read.xmax = strtoull(at + 1, &at, 10);
    read.in_progress = static_cast<uint64*>(palloc(sizeof(uint64) * (strlen(at) / 2 + 1)));
    while (*at != '\0' && at[1] != '\0') read.in_progress[read.n++] = strtoull(at + 1, &at, 10);
    return read;
}

PAWL_FUNCTION(pawl_snapshot) {
    return pg::call([&] {
        const EventSnapshot now = active_event_snapshot(outbox_base(Mark::none));
        return DirectFunctionCall1(pg_snapshot_in, CStringGetDatum(print_snapshot(now)));
    });
}

}  // namespace pawl
