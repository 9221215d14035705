// Does not throw and does not ereport, but for request_counters. See counters.hpp.
#include "observe/counters.hpp"

extern "C" {
#include "access/twophase.h"
#include "common/hashfn.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
}

namespace pawl {

// From a millisecond to a day.
const std::int64_t Count::bounds[nbounds] = {
    1'000,     5'000,      25'000,     100'000,    250'000,     500'000,       1'000'000,     2'500'000,
    5'000'000, 10'000'000, 30'000'000, 60'000'000, 300'000'000, 1'800'000'000, 7'200'000'000, 86'400'000'000};

namespace {

constexpr int prepared_slots = 256;
constexpr const char* tranche = "pawl_counters";

struct Name {
    char text[NAMEDATALEN];
};

// Written under the lock, then published by `used`. It is never freed before the server stops, so it is read without a
// lock.
struct Slot {
    pg_atomic_uint32 used;
    uint64 hash;
    Oid database;
    int32 version;
    Counted kind;
    std::uint8_t roles;
    Name machine, from, to, event;
    pg_atomic_uint64 n, timed, microseconds;
    pg_atomic_uint64 buckets[Count::nbounds + 1];
};

struct Prepared {
    Oid database;  // invalid: free
    char gid[GIDSIZE];
    uint32 slot;
    Count count;
};

}  // namespace

struct CounterTable {
    LWLock* lock;
    TimestampTz began;
    uint32 most;  // slots that can be given away
    uint32 size;  // twice as many, so that a search is short
    uint32 given;
    Prepared prepared[prepared_slots];
    Slot slots[FLEXIBLE_ARRAY_MEMBER];  // `size`, then two for what found no free slot: state changes, rejections
};

CounterTable* counter_table = nullptr;

namespace {

int wanted_slots = 4096;
shmem_request_hook_type next_request = nullptr;
shmem_startup_hook_type next_startup = nullptr;

uint32 table_size() {
    return static_cast<uint32>(wanted_slots) * 2;
}
Size table_bytes() {
    return add_size(offsetof(CounterTable, slots), mul_size(sizeof(Slot), table_size() + 2));
}

void request() {
    if (next_request != nullptr) next_request();
    RequestAddinShmemSpace(table_bytes());
    RequestNamedLWLockTranche(tranche, 1);
}

void clear(Slot& slot) {
    for (pg_atomic_uint64* value : {&slot.n, &slot.timed, &slot.microseconds}) pg_atomic_init_u64(value, 0);
    for (pg_atomic_uint64& bucket : slot.buckets) pg_atomic_init_u64(&bucket, 0);
}

void startup() {
    if (next_startup != nullptr) next_startup();
    bool found;
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    auto* table = static_cast<CounterTable*>(ShmemInitStruct("pawl counters", table_bytes(), &found));
    if (!found) {
        memset(static_cast<void*>(table), 0, table_bytes());
        table->lock = &GetNamedLWLockTranche(tranche)->lock;
        table->began = GetCurrentTimestamp();
        table->most = static_cast<uint32>(wanted_slots);
        table->size = table_size();
        for (uint32 i = 0; i < table->size + 2; ++i) {
            pg_atomic_init_u32(&table->slots[i].used, 0);
            clear(table->slots[i]);
        }
        for (uint32 i = 0; i < 2; ++i) {
            table->slots[table->size + i].kind = i == 0 ? Counted::move : Counted::rejection;
            pg_atomic_write_u32(&table->slots[table->size + i].used, 1);
        }
    }
    LWLockRelease(AddinShmemInitLock);
    counter_table = table;
}

uint64 hash_of(std::string_view text) {
    return hash_bytes_extended(reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()), 0);
}

// Hashes the whole names: two names that differ only behind the stored length are two counters.
uint64 hash_of(const CounterKey& key) {
    uint64 hash = (static_cast<uint64>(MyDatabaseId) << 32) | static_cast<uint32>(key.version);
    hash = hash_combine64(hash, static_cast<uint64>(key.kind) << 8 | key.roles);
    for (const std::string_view name : {key.machine, key.from, key.to, key.event})
        hash = hash_combine64(hash, hash_of(name));
    return hash;
}

bool is_cut(const Name& kept, std::string_view name) {
    const std::size_t length = strnlen(kept.text, NAMEDATALEN);
    return name.size() >= length && memcmp(kept.text, name.data(), length) == 0;
}

bool is_of(const Slot& slot, uint64 hash, const CounterKey& key) {
    return slot.hash == hash && slot.database == MyDatabaseId && slot.kind == key.kind && slot.version == key.version &&
           slot.roles == key.roles && is_cut(slot.machine, key.machine) && is_cut(slot.from, key.from) &&
           is_cut(slot.to, key.to) && is_cut(slot.event, key.event);
}

// The slot of the key, or the free slot where it belongs.
uint32 look_for(uint64 hash, const CounterKey& key, bool* found) {
    uint32 at = static_cast<uint32>(hash % counter_table->size);
    for (;; at = (at + 1) % counter_table->size) {
        Slot& slot = counter_table->slots[at];
        if (pg_atomic_read_u32(&slot.used) == 0) break;
        pg_read_barrier();
        if (is_of(slot, hash, key)) {
            *found = true;
            return at;
        }
    }
    *found = false;
    return at;
}

void keep(Name& kept, std::string_view name) {
    std::size_t length = name.size();
    if (length >= NAMEDATALEN)
        length = static_cast<std::size_t>(pg_mbcliplen(name.data(), static_cast<int>(length), NAMEDATALEN - 1));
    memcpy(kept.text, name.data(), length);
    kept.text[length] = '\0';
}

uint32 slot_of(const CounterKey& key) {
    const uint64 hash = hash_of(key);
    bool found;
    uint32 at = look_for(hash, key, &found);
    if (found) return at;
    LWLockAcquire(counter_table->lock, LW_EXCLUSIVE);
    at = look_for(hash, key, &found);
    if (!found && counter_table->given >= counter_table->most) {
        at = counter_table->size + (key.kind == Counted::move ? 0 : 1);
    } else if (!found) {
        Slot& slot = counter_table->slots[at];
        slot.hash = hash;
        slot.database = MyDatabaseId;
        slot.version = key.version;
        slot.kind = key.kind;
        slot.roles = key.roles;
        keep(slot.machine, key.machine);
        keep(slot.from, key.from);
        keep(slot.to, key.to);
        keep(slot.event, key.event);
        pg_write_barrier();
        pg_atomic_write_u32(&slot.used, 1);
        ++counter_table->given;
    }
    LWLockRelease(counter_table->lock);
    return at;
}

void add_to(Slot& slot, const Count& count) {
    pg_atomic_fetch_add_u64(&slot.n, static_cast<int64>(count.n));
    if (count.timed == 0) return;
    pg_atomic_fetch_add_u64(&slot.timed, static_cast<int64>(count.timed));
    pg_atomic_fetch_add_u64(&slot.microseconds, static_cast<int64>(count.microseconds));
    for (int i = 0; i <= Count::nbounds; ++i)
        if (count.buckets[i] != 0) pg_atomic_fetch_add_u64(&slot.buckets[i], count.buckets[i]);
}

constexpr CounterKey reset_key = {Counted::reset, 0, 0, {}, {}, {}, {}};

}  // namespace

void request_counters() {
    DefineCustomIntVariable("pawl.counter_slots",
                            "Number of counters of state changes and rejections, in all databases together.",
                            "Each takes about 900 bytes of shared memory. What exceeds this number is counted as lost.",
                            &wanted_slots, 4096, 16, 1 << 20, PGC_POSTMASTER, 0, nullptr, nullptr, nullptr);
    next_request = shmem_request_hook;
    shmem_request_hook = request;
    next_startup = shmem_startup_hook;
    shmem_startup_hook = startup;
}

void add_count(const CounterKey& key, const Count& count) noexcept {
    add_to(counter_table->slots[slot_of(key)], count);
}

int count_rejection(int sqlstate, const char* machine) noexcept {
    // A process without a database has no tables either.
    if (counter_table == nullptr || !OidIsValid(MyDatabaseId)) return sqlstate;
    Count once = {};
    once.n = 1;
    add_count({Counted::rejection,
               0,
               0,
               machine == nullptr ? std::string_view() : machine,
               {},
               {},
               unpack_sql_state(sqlstate)},
              once);
    return sqlstate;
}

void add_prepared(const char* gid, const CounterKey& key, const Count& count) noexcept {
    const uint32 slot = slot_of(key);
    LWLockAcquire(counter_table->lock, LW_EXCLUSIVE);
    Prepared* free = nullptr;
    for (Prepared& entry : counter_table->prepared)
        if (!OidIsValid(entry.database)) {
            free = &entry;
            break;
        }
    if (free != nullptr) {
        free->database = MyDatabaseId;
        strlcpy(free->gid, gid, GIDSIZE);
        free->slot = slot;
        free->count = count;
    } else {
        add_to(counter_table->slots[counter_table->size], count);
    }
    LWLockRelease(counter_table->lock);
}

void end_prepared(const char* gid, bool committed) noexcept {
    LWLockAcquire(counter_table->lock, LW_EXCLUSIVE);
    for (Prepared& entry : counter_table->prepared) {
        if (entry.database != MyDatabaseId || strncmp(entry.gid, gid, GIDSIZE) != 0) continue;
        if (committed) add_to(counter_table->slots[entry.slot], entry.count);
        entry.database = InvalidOid;
    }
    LWLockRelease(counter_table->lock);
}

void read_counters(void (*visit)(const CounterReading& reading, void* argument), void* argument) {
    for (uint32 i = 0; i < counter_table->size + 2; ++i) {
        Slot& slot = counter_table->slots[i];
        if (pg_atomic_read_u32(&slot.used) == 0) continue;
        pg_read_barrier();
        CounterReading reading = {};
        reading.other = i >= counter_table->size;
        if (!reading.other && (slot.database != MyDatabaseId || slot.kind == Counted::reset)) continue;
        reading.key = {slot.kind,      slot.roles,   slot.version,   slot.machine.text,
                       slot.from.text, slot.to.text, slot.event.text};
        reading.count.n = pg_atomic_read_u64(&slot.n);
        reading.count.timed = pg_atomic_read_u64(&slot.timed);
        reading.count.microseconds = pg_atomic_read_u64(&slot.microseconds);
        for (int bucket = 0; bucket <= Count::nbounds; ++bucket)
            reading.buckets[bucket] = pg_atomic_read_u64(&slot.buckets[bucket]);
        visit(reading, argument);
    }
}

void reset_counters() noexcept {
    for (uint32 i = 0; i < counter_table->size; ++i) {
        Slot& slot = counter_table->slots[i];
        if (pg_atomic_read_u32(&slot.used) == 0) continue;
        pg_read_barrier();
        if (slot.database != MyDatabaseId) continue;
        for (pg_atomic_uint64* value : {&slot.n, &slot.timed, &slot.microseconds}) pg_atomic_write_u64(value, 0);
        for (pg_atomic_uint64& bucket : slot.buckets) pg_atomic_write_u64(&bucket, 0);
    }
    const uint32 at = slot_of(reset_key);
    if (at < counter_table->size)
        pg_atomic_write_u64(&counter_table->slots[at].n, static_cast<uint64>(GetCurrentTimestamp()));
}

TimestampTz counted_since() noexcept {
    bool found;
    const uint32 at = look_for(hash_of(reset_key), reset_key, &found);
    const TimestampTz reset = found ? static_cast<TimestampTz>(pg_atomic_read_u64(&counter_table->slots[at].n)) : 0;
    return reset > counter_table->began ? reset : counter_table->began;
}

}  // namespace pawl
