// May throw and may ereport: the functions of consumers. They look at tables that nobody but their owner may touch, so
// the work is done with that role's rights, and what the caller may see is asked for the caller.
#include "catalog/catalog.hpp"
#include "events/event_reader.hpp"
#include "events/outbox_epoch.hpp"
#include "pg/arguments.hpp"
#include "pg/spi.hpp"

extern "C" {
#include "utils/fmgrprotos.h"
#include "utils/pg_lsn.h"
#include "utils/rls.h"
}

namespace pawl {

namespace {

constexpr int largest_batch = 100'000;

struct Caller {
    Oid role;
    int security;
};

// Until restore_caller, or until an error undoes the transaction.
Caller become_owner() {
    Caller caller;
    GetUserIdAndSecContext(&caller.role, &caller.security);
    Relation table = table_open(catalog_table("consumer"), AccessShareLock);
    SetUserIdAndSecContext(table->rd_rel->relowner, caller.security | SECURITY_LOCAL_USERID_CHANGE);
    table_close(table, NoLock);
    return caller;
}

void restore_caller(const Caller& caller) {
    SetUserIdAndSecContext(caller.role, caller.security);
}

// Whoever may select from a table may know what happens in it, where no policy hides rows from him. Of a table that is
// gone nobody can tell who might.
bool shows_events(Oid relation, Oid role) {
    bool missing = false;
    const AclResult allowed = pg_class_aclcheck_ext(relation, role, ACL_SELECT, &missing);
    if (missing) return superuser_arg(role);
    if (allowed != ACLCHECK_OK) return false;
    const int policies = check_enable_rls(relation, role, true);
    return policies == RLS_NONE || policies == RLS_NONE_ENV;
}

// A consumer while it is being read.
struct Consumer {
    text* name;
    Oid reader;
    Interval interval;
    bool is_reading;  // the interval has been begun
    Oid* relations;   // null: all that the reader may see
    int nrelations;
    int64 missed;
    Datum missed_until;
};

char* column_text(const char* name) {
    return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, SPI_fnumber(SPI_tuptable->tupdesc, name));
}

Datum column_value(const char* name, bool* null) {
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, SPI_fnumber(SPI_tuptable->tupdesc, name), null);
}

void run(const char* query, int n, const Oid* types, const Datum* values, const char* nulls, int expected) {
    if (SPI_execute_with_args(query, n, const_cast<Oid*>(types), const_cast<Datum*>(values), nulls, false, 0) !=
        expected)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("unexpected result of a query on the outbox")));
}

void lock_consumer(Consumer& consumer) {
    const Oid types[] = {TEXTOID, OIDOID};
    const Datum values[] = {PointerGetDatum(consumer.name), ObjectIdGetDatum(consumer.reader)};
    run("SELECT c.seen::pg_catalog.text AS seen, c.reading::pg_catalog.text AS reading, c.range_place, c.place, "
        "c.place_txid, c.place_n, "
        "c.relations::pg_catalog.oid[] AS relations, c.missed, c.missed_until FROM pawl._lock_consumer($1, $2, false) "
        "c",
        2, types, values, nullptr, SPI_OK_SELECT);
    bool null;
    Interval& interval = consumer.interval;
    interval.seen = parse_snapshot(column_text("seen"));
    const char* reading = column_text("reading");
    consumer.is_reading = reading != nullptr;
    if (consumer.is_reading) {
        interval.reading = parse_snapshot(reading);
        interval.range_place = DatumGetLSN(column_value("range_place", &null));
        interval.position = {DatumGetLSN(column_value("place", &null)),
                             DatumGetUInt64(column_value("place_txid", &null)),
                             DatumGetInt32(column_value("place_n", &null))};
    }
    consumer.missed = DatumGetInt64(column_value("missed", &null));
    consumer.missed_until = column_value("missed_until", &null);
    Datum relations = column_value("relations", &null);
    if (null) return;
    Datum* elements;
    deconstruct_array(DatumGetArrayTypeP(relations), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &elements, nullptr,
                      &consumer.nrelations);
    consumer.relations = static_cast<Oid*>(palloc(sizeof(Oid) * Max(consumer.nrelations, 1)));
    for (int i = 0; i < consumer.nrelations; ++i) consumer.relations[i] = DatumGetObjectId(elements[i]);
    const Oid check_types[] = {OIDARRAYOID, OIDOID};
    const Datum check_values[] = {relations, ObjectIdGetDatum(consumer.reader)};
    run("SELECT pawl._check_readable($1::pg_catalog.regclass[], $2)", 2, check_types, check_values, nullptr,
        SPI_OK_SELECT);
}

void save_consumer(const Consumer& consumer) {
    const Interval& interval = consumer.interval;
    const Oid types[] = {TEXTOID, TEXTOID, TEXTOID, LSNOID, LSNOID, XID8OID, INT4OID};
    const Datum values[] = {
        PointerGetDatum(consumer.name),
        CStringGetTextDatum(print_snapshot(interval.seen)),
        consumer.is_reading ? CStringGetTextDatum(print_snapshot(interval.reading)) : static_cast<Datum>(0),
        LSNGetDatum(consumer.is_reading ? interval.range_place : 0),
        LSNGetDatum(consumer.is_reading ? interval.position.place : 0),
        UInt64GetDatum(consumer.is_reading ? interval.position.txid : 0),
        Int32GetDatum(consumer.is_reading ? interval.position.n : 0)};
    run("UPDATE pawl.consumer SET seen = $2::pg_catalog.pg_snapshot, reading = $3::pg_catalog.pg_snapshot, range_place "
        "= $4, "
        "place = $5, place_txid = $6, place_n = $7, missed = 0, missed_until = NULL WHERE consumer "
        "OPERATOR(pg_catalog.=) $1",
        7, types, values, consumer.is_reading ? nullptr : "  n    ", SPI_OK_UPDATE);
}

// The rows that go to the caller.
struct Delivery {
    Consumer* consumer;
    ReturnSetInfo* result;
    int room;
    bool moved;  // past anything, delivered or not
    Oid last_relation;
    bool last_is_for_us;
};

bool is_for(Delivery& delivery, Oid relation) {
    if (delivery.last_relation == relation) return delivery.last_is_for_us;
    const Consumer& consumer = *delivery.consumer;
    bool wanted = false;
    for (int i = 0; i < consumer.nrelations; ++i) wanted |= consumer.relations[i] == relation;
    if (consumer.relations == nullptr) wanted = shows_events(relation, consumer.reader);
    delivery.last_relation = relation;
    delivery.last_is_for_us = wanted;
    return wanted;
}

// The columns of pawl.outbox_1 in the order of pawl.read_events.
constexpr AttrNumber delivered[] = {1, 4, 8, 9, 6, 10, 5, 11, 12, 13, 14, 15, 16, 17, 2, 7};
constexpr int ndelivered = lengthof(delivered);
constexpr int event_column = 9, metadata_column = 13, at_column = 14;  // of the result, from 0

bool deliver(TupleTableSlot* event, void* argument) {
    auto* delivery = static_cast<Delivery*>(argument);
    delivery->moved = true;
    bool null;
    if (!is_for(*delivery, DatumGetObjectId(slot_getattr(event, 4, &null)))) return true;
    Datum values[ndelivered];
    bool nulls[ndelivered];
    for (int i = 0; i < ndelivered; ++i) values[i] = slot_getattr(event, delivered[i], &nulls[i]);
    tuplestore_putvalues(delivery->result->setResult, delivery->result->setDesc, values, nulls);
    return --delivery->room > 0;
}

// Tells what retention removed before it was read.
void deliver_gap(Delivery& delivery) {
    Datum values[ndelivered] = {};
    bool nulls[ndelivered];
    memset(nulls, true, sizeof(nulls));
    char* told = psprintf("{\"missed\": " INT64_FORMAT "}", delivery.consumer->missed);
    values[event_column] = CStringGetTextDatum("pawl.gap");
    values[metadata_column] = DirectFunctionCall1(jsonb_in, CStringGetDatum(told));
    values[at_column] = delivery.consumer->missed_until;
    nulls[event_column] = nulls[metadata_column] = nulls[at_column] = false;
    tuplestore_putvalues(delivery.result->setResult, delivery.result->setDesc, values, nulls);
}

// Reads on, from where the consumer is, until the batch is full or nothing is left.
void read_on(Consumer& consumer, Delivery& delivery) {
    PushActiveSnapshot(GetTransactionSnapshot());
    EventReader* reader = open_events();
    for (;;) {
        const bool resumed = consumer.is_reading;
        if (!consumer.is_reading) consumer.is_reading = begin_interval(reader, &consumer.interval);
        if (!consumer.is_reading) break;
        const int room = delivery.room;
        if (!read_interval(reader, &consumer.interval, deliver, &delivery)) break;
        // the interval is through: all that it sees has been read
        delivery.moved = true;
        consumer.interval.seen = consumer.interval.reading;
        consumer.is_reading = false;
        if (!resumed || delivery.room < room) break;
    }
    close_events(reader);
    PopActiveSnapshot();
}

void read_events(text* name, int batch, ReturnSetInfo* result) {
    const Caller caller = become_owner();
    SPI_connect();
    Consumer consumer = {};
    consumer.name = name;
    consumer.reader = caller.role;
    lock_consumer(consumer);
    Delivery delivery = {&consumer, result, batch, false, InvalidOid, false};
    if (consumer.missed > 0) deliver_gap(delivery);
    read_on(consumer, delivery);
    if (delivery.moved || consumer.missed > 0) save_consumer(consumer);
    SPI_finish();
    restore_caller(caller);
}

}  // namespace

PAWL_FUNCTION(pawl_read_events) {
    pg::require(fcinfo, 0, "consumer");
    pg::require(fcinfo, 1, "batch");
    const int batch = PG_GETARG_INT32(1);
    if (batch < 1 || batch > largest_batch)
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "batch must be from 1 to " + std::to_string(largest_batch));
    text* name = pg::text_argument(fcinfo, 0);
    pg::call([&] { read_events(name, batch, pg::materialize(fcinfo)); });
    return static_cast<Datum>(0);
}

PAWL_FUNCTION(pawl_shows_events) {
    return BoolGetDatum(pg::call([&] { return shows_events(PG_GETARG_OID(0), PG_GETARG_OID(1)); }));
}

PAWL_FUNCTION(pawl_create_consumer) {
    pg::call([&] {
        const Caller caller = become_owner();
        SPI_connect();
        const Oid types[] = {TEXTOID, TEXTOID, REGCLASSARRAYOID, OIDOID};
        const Datum values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_DATUM(2),
                                ObjectIdGetDatum(caller.role)};
        const char nulls[] = {PG_ARGISNULL(0) ? 'n' : ' ', PG_ARGISNULL(1) ? 'n' : ' ', PG_ARGISNULL(2) ? 'n' : ' ',
                              ' '};
        run("SELECT pawl._create_consumer($1, $2, $3, $4)", 4, types, values, nulls, SPI_OK_SELECT);
        SPI_finish();
        restore_caller(caller);
    });
    PG_RETURN_VOID();
}

PAWL_FUNCTION(pawl_drop_consumer) {
    pg::call([&] {
        const Caller caller = become_owner();
        SPI_connect();
        const Oid types[] = {TEXTOID, OIDOID};
        const Datum values[] = {PG_GETARG_DATUM(0), ObjectIdGetDatum(caller.role)};
        const char nulls[] = {PG_ARGISNULL(0) ? 'n' : ' ', ' '};
        run("SELECT pawl._lock_consumer($1, $2, true)", 2, types, values, nulls, SPI_OK_SELECT);
        run("DELETE FROM pawl.consumer WHERE consumer OPERATOR(pg_catalog.=) $1", 1, types, values, nulls,
            SPI_OK_DELETE);
        SPI_finish();
        restore_caller(caller);
    });
    PG_RETURN_VOID();
}

}  // namespace pawl
