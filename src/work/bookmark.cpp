// May ereport; owns nothing. See bookmark.hpp.
#include "work/bookmark.hpp"

namespace pawl {

struct Bookmark {
    Bookmark* next;
    text* event;  // null: of timers
    text* queue;
    Datum* row;              // what it has in the columns of the order; null: nowhere
    TimestampTz seen_at;     // a clock that is behind it was set back, and the next two say nothing
    TimestampTz head_again;  // from when on the head is looked at again; 0: always
    TimestampTz head_before;  // not before then as long as there are rows behind the bookmark
    uint64 undone;            // as it was when the bookmark was put here
};

namespace {

// What a scan of the head may touch before it counts as full of dead rows: a tenth of a millisecond, and what the rows need themselves.
constexpr int64 pages_of_a_scan(int rows) { return 256 + int64{2} * rows; }
constexpr int most_bookmarks = 64;  // of a lifecycle: queues may be many, and there are few that a session claims from again soon
int picking = 0;                    // rows are being picked: a guard that claims must not take the bookmark away from the claim around it
uint64 undone = 0;  // transactions and subtransactions of this session that were: what they took lies before the bookmark again

constexpr int pause_factor = 20;        // so that at most a twentieth of the time goes into scans of the head, and
constexpr int64 claims_pause = 50'000;  // microseconds at least, in which nobody misses a row that overtakes others

// The same for timers, as long as there are later ones to fire: what is armed goes behind the bookmark, unless its transaction was
// longer than its timer or somebody set it to a time that had passed.
constexpr int64 timers_pause = 60'000'000;

MemoryContext memory_of(Attachment& attachment) { return GetMemoryChunkContext(attachment.keys); }

bool same(const text* one, const text* other) { return one == nullptr || other == nullptr ? one == other : view(one) == view(other); }

text* lasting(const text* value) { return value == nullptr ? nullptr : make_text(view(value)); }

// The columns of the order: those of the binding's claim order, or the due time; then the key.
struct OrderColumn {
    AttrNumber attribute;  // in the root
    const char* name;
    bool descending;
};

int order_columns(const Attachment& attachment, const Bookmark& bookmark, OrderColumn* columns) {
    const Managed& managed = *attachment.managed;
    int n = 0;
    auto add = [&](const char* name, bool descending) { columns[n++] = {get_attnum(attachment.root, name), name, descending}; };
    if (bookmark.event == nullptr) add(NameStr(managed.due.name), false);
    for (int i = 0; bookmark.event != nullptr && i < managed.claim_columns.n; ++i) add(managed.claim_columns.items[i], managed.claim_descending[i]);
    for (int i = 0; i < attachment.nkeys; ++i) add(NameStr(attachment.keys[i].name), false);
    return n;
}

const FormData_pg_attribute* column_of(const Attachment& attachment, const OrderColumn& column) {
    return TupleDescAttr(attachment.root_descriptor, column.attribute - 1);
}

// Never a pointer into a TOAST table whose row may be gone when it is looked at.
Datum lasting_value(const FormData_pg_attribute* column, Datum value) {
    return column->attlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value)) : datumCopy(value, column->attbyval, column->attlen);
}

void free_row(const Attachment& attachment, Bookmark& bookmark, const OrderColumn* columns, int n) {
    if (bookmark.row == nullptr) return;
    for (int i = 0; i < n; ++i)
        if (!column_of(attachment, columns[i])->attbyval) pfree(DatumGetPointer(bookmark.row[i]));
    pfree(bookmark.row);
    bookmark.row = nullptr;
}

void forget_bookmark(Attachment& attachment, Bookmark* bookmark) {
    OrderColumn columns[Parameters::most];
    free_row(attachment, *bookmark, columns, bookmark->row == nullptr ? 0 : order_columns(attachment, *bookmark, columns));
    if (bookmark->event != nullptr) pfree(bookmark->event);
    if (bookmark->queue != nullptr) pfree(bookmark->queue);
    pfree(bookmark);
}

// Those that were not used for longest go.
void make_room(Attachment& attachment) {
    Bookmark** link = &attachment.bookmarks;
    for (int n = 1; *link != nullptr && n < most_bookmarks; ++n) link = &(*link)->next;
    while (*link != nullptr) {
        Bookmark* last = *link;
        *link = last->next;
        forget_bookmark(attachment, last);
    }
}

// They stand in the order of their last use.
Bookmark* find_bookmark(Attachment& attachment, const text* event, const text* queue) {
    for (Bookmark** link = &attachment.bookmarks; *link != nullptr; link = &(*link)->next) {
        Bookmark* found = *link;
        if (!same(found->event, event) || !same(found->queue, queue)) continue;
        *link = found->next;
        found->next = attachment.bookmarks;
        return attachment.bookmarks = found;
    }
    if (picking == 0) make_room(attachment);
    MemoryContext caller = MemoryContextSwitchTo(memory_of(attachment));
    auto* made = static_cast<Bookmark*>(palloc0(sizeof(Bookmark)));
    made->event = lasting(event);
    made->queue = lasting(queue);
    made->next = attachment.bookmarks;
    attachment.bookmarks = made;
    MemoryContextSwitchTo(caller);
    return made;
}

bool is_before(const Bookmark& bookmark, TimestampTz end) {
    const TimestampTz now = GetCurrentTimestamp();
    return now >= bookmark.seen_at && now < end;
}

bool head_is_left_out(const Bookmark& bookmark) { return bookmark.head_again != 0 && is_before(bookmark, bookmark.head_again); }

void move_bookmark(Attachment& attachment, Bookmark& bookmark, const FoundRow& row) {
    OrderColumn columns[Parameters::most];
    const int n = order_columns(attachment, bookmark, columns);
    free_row(attachment, bookmark, columns, n);
    if (bookmark.head_again == 0) return;
    Datum values[Parameters::most];
    for (int i = 0; i < n; ++i) {
        bool null;
        values[i] = slot_getattr(row.slot, columns[i].attribute, &null);
        if (null) {  // nothing is behind a null
            bookmark.head_again = bookmark.head_before = 0;
            return;
        }
    }
    MemoryContext caller = MemoryContextSwitchTo(memory_of(attachment));
    bookmark.row = static_cast<Datum*>(palloc(sizeof(Datum) * n));
    for (int i = 0; i < n; ++i) bookmark.row[i] = lasting_value(column_of(attachment, columns[i]), values[i]);
    MemoryContextSwitchTo(caller);
}

Batch pick_behind(const Attachment& attachment, const Bookmark& bookmark, PickRange pick, const void* request, int most) {
    Batch all = {static_cast<FoundRow*>(palloc(sizeof(FoundRow) * most)), 0};
    const int levels = bookmark_levels(attachment, bookmark);
    for (int level = 0; level < levels && all.n < most; ++level) {
        const Batch some = pick(request, &bookmark, level, most - all.n);
        memcpy(all.rows + all.n, some.rows, sizeof(FoundRow) * some.n);
        all.n += some.n;
    }
    return all;
}

Batch pick_head(const Attachment& attachment, Bookmark& bookmark, PickRange pick, const void* request, int most) {
    const HeadScan scan = begin_head_scan();
    const Batch batch = pick(request, nullptr, 0, most);
    bookmark.head_again = end_head_scan(scan, batch.n);
    bookmark.seen_at = GetCurrentTimestamp();
    const TimestampTz least = bookmark.seen_at + (bookmark.event == nullptr ? timers_pause : claims_pause);
    bookmark.head_before = bookmark.head_again == 0 ? 0 : Max(bookmark.head_again, least);
    // What it saw when it began, others may have taken while it read on and on.
    return batch.n == 0 && bookmark.head_again != 0 ? pick_behind(attachment, bookmark, pick, request, most) : batch;
}

}  // namespace

Bookmark* claim_bookmark(Attachment& attachment, const text* event, const text* queue) { return find_bookmark(attachment, event, queue); }

Bookmark* timer_bookmark(Attachment& attachment) { return find_bookmark(attachment, nullptr, nullptr); }

TimestampTz head_again(const Bookmark& bookmark) { return is_before(bookmark, bookmark.head_before) ? bookmark.head_before : DT_NOEND; }

HeadScan begin_head_scan() { return {pages_of_runs(), GetCurrentTimestamp()}; }

TimestampTz end_head_scan(const HeadScan& scan, int rows) {
    if (pages_of_runs() - scan.pages <= pages_of_a_scan(rows)) return 0;
    const TimestampTz now = GetCurrentTimestamp();
    return now + (now - scan.begun) * pause_factor;
}

static Batch pick_from(Attachment& attachment, Bookmark& bookmark, PickRange pick, const void* request, int most) {
    Batch batch = {nullptr, 0};
    if (bookmark.undone != undone) bookmark.head_again = bookmark.head_before = 0;
    bookmark.undone = undone;
    if (is_before(bookmark, bookmark.head_before)) batch = pick_behind(attachment, bookmark, pick, request, most);
    if (batch.n == 0 && !head_is_left_out(bookmark)) batch = pick_head(attachment, bookmark, pick, request, most);
    if (batch.n > 0) move_bookmark(attachment, bookmark, batch.rows[batch.n - 1]);
    return batch;
}

Batch pick_next(Attachment& attachment, Bookmark& bookmark, PickRange pick, const void* request, int most) {
    Batch batch;
    ++picking;
    PG_TRY();
    {
        batch = pick_from(attachment, bookmark, pick, request, most);
    }
    PG_FINALLY();
    {
        --picking;
    }
    PG_END_TRY();
    return batch;
}

void distrust_bookmarks() noexcept { ++undone; }

int bookmark_levels(const Attachment& attachment, const Bookmark& bookmark) {
    OrderColumn columns[Parameters::most];
    return bookmark.row == nullptr ? 0 : order_columns(attachment, bookmark, columns);
}

void append_behind(StringInfo out, const Attachment& attachment, const Bookmark& bookmark, int level, Parameters& parameters) {
    OrderColumn columns[Parameters::most];
    const int last = order_columns(attachment, bookmark, columns) - 1 - level;
    for (int i = 0; i <= last; ++i) {
        const FormData_pg_attribute* column = column_of(attachment, columns[i]);
        parameters.add(column->atttypid, bookmark.row[i]);
        const char* name = quote_identifier(columns[i].name);
        const char* of_row = psprintf("%s.%s", row_alias, name);
        const char* parameter = psprintf("$%d", parameters.n);
        appendStringInfo(out, " AND %s", i < last ? same_values(column->atttypid, of_row, parameter)
                                         : columns[i].descending ? greater_value(column->atttypid, parameter, of_row)
                                                                 : greater_value(column->atttypid, of_row, parameter));
    }
}

}  // namespace pawl
