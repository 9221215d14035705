// May ereport; owns nothing. See scan position.hpp.
#include "work/scan_position.hpp"

namespace pawl {

struct ScanPosition {
    ScanPosition* next;
    text* event;  // null: of timers
    text* queue;
    Datum* row;               // what it has in the columns of the order; null: nowhere
    TimestampTz seen_at;      // a clock that is behind it was set back, and the next two say nothing
    TimestampTz head_again;   // from when on the head is looked at again; 0: always
    TimestampTz head_before;  // not before then as long as there are rows behind the scan position
    uint64 undone;            // as it was when the scan position was put here
};

namespace {

// What a scan of the head may touch before it counts as full of dead rows: a tenth of a millisecond, and what the rows
// need themselves.
constexpr int64 pages_of_a_scan(int rows) {
    return 256 + int64{2} * rows;
}
constexpr int most_bookmarks =
    64;  // of a lifecycle: queues may be many, and there are few that a session claims from again soon
int picking =
    0;  // rows are being picked: a guard that claims must not take the scan position away from the claim around it
uint64 undone = 0;  // transactions and subtransactions of this session that were: what they took lies before the scan
                    // position again

constexpr int pause_factor = 20;        // so that at most a twentieth of the time goes into scans of the head, and
constexpr int64 claims_pause = 50'000;  // microseconds at least, in which nobody misses a row that overtakes others

// The same for timers, as long as there are later ones to fire: what is armed goes behind the scan position, unless its
// transaction was longer than its timer or somebody set it to a time that had passed.
constexpr int64 timers_pause = 60'000'000;

MemoryContext memory_of(Binding& binding) {
    return GetMemoryChunkContext(binding.keys);
}

bool same(const text* one, const text* other) {
    return one == nullptr || other == nullptr ? one == other : view(one) == view(other);
}

text* lasting(const text* value) {
    return value == nullptr ? nullptr : make_text(view(value));
}

// The columns of the order: those of the binding's claim order, or the due time; then the key.
struct OrderColumn {
    AttrNumber attribute;  // in the root
    const char* name;
    bool descending;
};

int order_columns(const Binding& binding, const ScanPosition& position, OrderColumn* columns) {
    const Managed& managed = *binding.managed;
    int n = 0;
    auto add = [&](const char* name, bool descending) {
        columns[n++] = {get_attnum(binding.root, name), name, descending};
    };
    if (position.event == nullptr) add(NameStr(managed.due.name), false);
    for (int i = 0; position.event != nullptr && i < managed.claim_columns.n; ++i)
        add(managed.claim_columns.items[i], managed.claim_descending[i]);
    for (int i = 0; i < binding.nkeys; ++i) add(NameStr(binding.keys[i].name), false);
    return n;
}

const FormData_pg_attribute* column_of(const Binding& binding, const OrderColumn& column) {
    return TupleDescAttr(binding.root_descriptor, column.attribute - 1);
}

// Never a pointer into a TOAST table whose row may be gone when it is looked at.
Datum lasting_value(const FormData_pg_attribute* column, Datum value) {
    return column->attlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value))
                                : datumCopy(value, column->attbyval, column->attlen);
}

void free_row(const Binding& binding, ScanPosition& position, const OrderColumn* columns, int n) {
    if (position.row == nullptr) return;
    for (int i = 0; i < n; ++i)
        if (!column_of(binding, columns[i])->attbyval) pfree(DatumGetPointer(position.row[i]));
    pfree(position.row);
    position.row = nullptr;
}

void forget_bookmark(Binding& binding, ScanPosition* position) {
    OrderColumn columns[Parameters::most];
    free_row(binding, *position, columns, position->row == nullptr ? 0 : order_columns(binding, *position, columns));
    if (position->event != nullptr) pfree(position->event);
    if (position->queue != nullptr) pfree(position->queue);
    pfree(position);
}

// Those that were not used for longest go.
void make_room(Binding& binding) {
    ScanPosition** link = &binding.positions;
    for (int n = 1; *link != nullptr && n < most_bookmarks; ++n) link = &(*link)->next;
    while (*link != nullptr) {
        ScanPosition* last = *link;
        *link = last->next;
        forget_bookmark(binding, last);
    }
}

// They stand in the order of their last use.
ScanPosition* find_bookmark(Binding& binding, const text* event, const text* queue) {
    for (ScanPosition** link = &binding.positions; *link != nullptr; link = &(*link)->next) {
        ScanPosition* found = *link;
        if (!same(found->event, event) || !same(found->queue, queue)) continue;
        *link = found->next;
        found->next = binding.positions;
        return binding.positions = found;
    }
    if (picking == 0) make_room(binding);
    MemoryContext caller = MemoryContextSwitchTo(memory_of(binding));
    auto* made = static_cast<ScanPosition*>(palloc0(sizeof(ScanPosition)));
    made->event = lasting(event);
    made->queue = lasting(queue);
    made->next = binding.positions;
    binding.positions = made;
    MemoryContextSwitchTo(caller);
    return made;
}

bool is_before(const ScanPosition& position, TimestampTz end) {
    const TimestampTz now = GetCurrentTimestamp();
    return now >= position.seen_at && now < end;
}

bool head_is_left_out(const ScanPosition& position) {
    return position.head_again != 0 && is_before(position, position.head_again);
}

void move_bookmark(Binding& binding, ScanPosition& position, const FoundRow& row) {
    OrderColumn columns[Parameters::most];
    const int n = order_columns(binding, position, columns);
    free_row(binding, position, columns, n);
    if (position.head_again == 0) return;
    Datum values[Parameters::most];
    for (int i = 0; i < n; ++i) {
        bool null;
        values[i] = slot_getattr(row.slot, columns[i].attribute, &null);
        if (null) {  // nothing is behind a null
            position.head_again = position.head_before = 0;
            return;
        }
    }
    MemoryContext caller = MemoryContextSwitchTo(memory_of(binding));
    position.row = static_cast<Datum*>(palloc(sizeof(Datum) * n));
    for (int i = 0; i < n; ++i) position.row[i] = lasting_value(column_of(binding, columns[i]), values[i]);
    MemoryContextSwitchTo(caller);
}

Batch pick_behind(const Binding& binding, const ScanPosition& position, PickRange pick, const void* request, int most) {
    Batch all = {static_cast<FoundRow*>(palloc(sizeof(FoundRow) * most)), 0};
    const int levels = position_levels(binding, position);
    for (int level = 0; level < levels && all.n < most; ++level) {
        const Batch some = pick(request, &position, level, most - all.n);
        memcpy(all.rows + all.n, some.rows, sizeof(FoundRow) * some.n);
        all.n += some.n;
    }
    return all;
}

Batch pick_head(const Binding& binding, ScanPosition& position, PickRange pick, const void* request, int most) {
    const HeadScan scan = begin_head_scan();
    const Batch batch = pick(request, nullptr, 0, most);
    position.head_again = end_head_scan(scan, batch.n);
    position.seen_at = GetCurrentTimestamp();
    const TimestampTz least = position.seen_at + (position.event == nullptr ? timers_pause : claims_pause);
    position.head_before = position.head_again == 0 ? 0 : Max(position.head_again, least);
    // What it saw when it began, others may have taken while it read on and on.
    return batch.n == 0 && position.head_again != 0 ? pick_behind(binding, position, pick, request, most) : batch;
}

}  // namespace

ScanPosition* claim_position(Binding& binding, const text* event, const text* queue) {
    return find_bookmark(binding, event, queue);
}

ScanPosition* timer_position(Binding& binding) {
    return find_bookmark(binding, nullptr, nullptr);
}

TimestampTz head_again(const ScanPosition& position) {
    return is_before(position, position.head_before) ? position.head_before : DT_NOEND;
}

HeadScan begin_head_scan() {
    return {pages_of_runs(), GetCurrentTimestamp()};
}

TimestampTz end_head_scan(const HeadScan& scan, int rows) {
    if (pages_of_runs() - scan.pages <= pages_of_a_scan(rows)) return 0;
    const TimestampTz now = GetCurrentTimestamp();
    return now + (now - scan.begun) * pause_factor;
}

static Batch pick_from(Binding& binding, ScanPosition& position, PickRange pick, const void* request, int most) {
    Batch batch = {nullptr, 0};
    if (position.undone != undone) position.head_again = position.head_before = 0;
    position.undone = undone;
    if (is_before(position, position.head_before)) batch = pick_behind(binding, position, pick, request, most);
    if (batch.n == 0 && !head_is_left_out(position)) batch = pick_head(binding, position, pick, request, most);
    if (batch.n > 0) move_bookmark(binding, position, batch.rows[batch.n - 1]);
    return batch;
}

Batch pick_next(Binding& binding, ScanPosition& position, PickRange pick, const void* request, int most) {
    Batch batch;
    ++picking;
    PG_TRY();
    { batch = pick_from(binding, position, pick, request, most); }
    PG_FINALLY();
    { --picking; }
    PG_END_TRY();
    return batch;
}

void distrust_scan_positions() noexcept {
    ++undone;
}

int position_levels(const Binding& binding, const ScanPosition& position) {
    OrderColumn columns[Parameters::most];
    return position.row == nullptr ? 0 : order_columns(binding, position, columns);
}

void append_behind(StringInfo out, const Binding& binding, const ScanPosition& position, int level,
                   Parameters& parameters) {
    OrderColumn columns[Parameters::most];
    const int last = order_columns(binding, position, columns) - 1 - level;
    for (int i = 0; i <= last; ++i) {
        const FormData_pg_attribute* column = column_of(binding, columns[i]);
        parameters.add(column->atttypid, position.row[i]);
        const char* name = quote_identifier(columns[i].name);
        const char* of_row = psprintf("%s.%s", row_alias, name);
        const char* parameter = psprintf("$%d", parameters.n);
        appendStringInfo(out, " AND %s",
                         i < last                ? same_values(column->atttypid, of_row, parameter)
                         : columns[i].descending ? greater_value(column->atttypid, parameter, of_row)
                                                 : greater_value(column->atttypid, of_row, parameter));
    }
}

}  // namespace pawl
