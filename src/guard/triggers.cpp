// May throw and may ereport: the trigger functions. They call apply.hpp.
#include "catalog/catalog.hpp"
#include "catalog/generated.hpp"
#include "guard/apply.hpp"
#include "guard/handover.hpp"
#include "guard/listed_events.hpp"
#include "guard/partition_moves.hpp"
#include "log/write_access.hpp"
#include "log/writer.hpp"
#include "pg/bridge.hpp"
#include "pg/sqlstate.hpp"
#include "pg/uuid_v7.hpp"
#include "session/context.hpp"

namespace pawl {

namespace {

// Whether this transaction has rows that only an AFTER trigger can validate.
bool rows_deferred = false;

TriggerData* trigger_data(FunctionCallInfo fcinfo, const char* name) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          std::string("pawl.") + name + "() is a trigger function");
    return reinterpret_cast<TriggerData*>(fcinfo->context);
}

// Any table owner can use these functions in a trigger of any kind, where there may be no row.
void require_moment(bool right, const char* name, const char* moment) {
    if (right) return;
    throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                      std::string("pawl.") + name + "() must be fired " + moment, {},
                      "Triggers with it are made by pawl.enforce.");
}

bool same_attribute(const Row& before, const Row& after, AttrNumber attribute) {
    bool old_null, new_null;
    Datum old_value = slot_getattr(before.slot, attribute, &old_null);
    Datum new_value = slot_getattr(after.slot, attribute, &new_null);
    if (old_null || new_null) return old_null == new_null;
    const FormData_pg_attribute* column = TupleDescAttr(before.slot->tts_tupleDescriptor, attribute - 1);
    return datum_image_eq(old_value, new_value, column->attbyval, column->attlen);
}

// Whether the row in the BEFORE trigger is the one that will be stored, in this partition.
bool is_final(const Member& member, const Row& before, const Row& after) {
    if (!member.validated_before) return false;
    for (int i = 0; i < member.npartition_keys; ++i)
        if (!same_attribute(before, after, member.partition_keys[i])) return false;
    return true;
}

// Rows deferred to an AFTER UPDATE trigger need one. pawl's event triggers create it, but they may have been disabled.
[[noreturn]] void report_no_record_trigger(Relation relation) {
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("a trigger of \"%s\" can change rows after they were validated", RelationGetRelationName(relation)),
             errdetail("A BEFORE UPDATE trigger sorts after the validating trigger, or effects must run, and the table "
                       "has no trigger "
                       "\"!pawl_record_update\" to validate rows again."),
             errhint("SELECT * FROM pawl.health();")));
}

void defer() {
    rows_deferred = true;
    deferring_level = Min(deferring_level, executor_level);
}

// Applies an update from its BEFORE trigger, where generated columns still have the values of the old version.
void validate_early(Member* member, Relation relation, const Row& before, const Row& after,
                    ManagedUpdate* managed_update) {
    if (!member->guards_generated) return apply_update_before(member, before, after, managed_update);
    const Row stored{MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsHeapTuple),
                     with_generated_columns(relation, after.tuple)};
    ExecStoreHeapTuple(stored.tuple, stored.slot, false);
    apply_update_before(member, before, stored, managed_update);
    ExecDropSingleTupleTableSlot(stored.slot);
}

// On a subscriber the columns have the publisher's values.
bool manages_columns(const Member& member) {
    return member.manages_columns && SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA;
}

HeapTuple with_changes(const Row& row, ColumnChanges& changes) {
    drop_unchanged(row.slot, &changes);
    if (changes.n == 0) return row.tuple;
    return heap_modify_tuple_by_cols(row.tuple, row.slot->tts_tupleDescriptor, changes.n, changes.columns,
                                     changes.values, changes.nulls);
}

void record_update(Member* member, TriggerData* trigger) {
    const Row before{trigger->tg_trigslot, trigger->tg_trigtuple};
    const Row after{trigger->tg_newslot, trigger->tg_newtuple};
    if (is_final(*member, before, after))
        run_pending_effects(member, before, after);
    else
        apply_update_after(member, before, after);
}

void record_delete(Member* member, TriggerData* trigger) {
    const Row row{trigger->tg_trigslot, trigger->tg_trigtuple};
    if (HeapTupleHeaderIndicatesMovedPartitions(row.tuple->t_data))
        row_leaves(member, row, Leaving::by_update);
    else if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA && member->bindings[0].nkeys > 0)
        row_leaves(member, row, Leaving::by_replication);
    else
        apply_delete(member, row, Ending::deleted, HeapTupleHeaderGetCmax(row.tuple->t_data));
}

void record_insert(Member* member, TriggerData* trigger) {
    const Row row{trigger->tg_trigslot, trigger->tg_trigtuple};
    if (!row_arrives(member, row)) apply_insert(member, row);
}

bool minds_truncate(const Member& member) {
    for (int i = 0; i < member.nbindings; ++i)
        if (member.bindings[i].on_delete != OnDelete::allow || is_recorded(member.bindings[i])) return true;
    return false;
}

void truncate_rows(Member* member, Relation relation) {
    if (!RELKIND_HAS_STORAGE(relation->rd_rel->relkind) || !minds_truncate(*member)) return;
    TupleTableSlot* slot = table_slot_create(relation, nullptr);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    TableScanDesc scan = table_beginscan(relation, snapshot, 0, nullptr);
    const CommandId command = GetCurrentCommandId(false);
    while (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
        bool free;
        apply_delete(member, {slot, ExecFetchSlotHeapTuple(slot, false, &free)}, Ending::truncated, command);
    }
    table_endscan(scan);
    UnregisterSnapshot(snapshot);
    ExecDropSingleTupleTableSlot(slot);
}

}  // namespace

void forget_deferral() noexcept {
    rows_deferred = false;
}

PAWL_FUNCTION(pawl_validate) {
    TriggerData* trigger = trigger_data(fcinfo, "validate");
    require_moment(TRIGGER_FIRED_BEFORE(trigger->tg_event) && TRIGGER_FIRED_FOR_ROW(trigger->tg_event) &&
                       TRIGGER_FIRED_BY_UPDATE(trigger->tg_event),
                   "validate", "BEFORE UPDATE FOR EACH ROW");
    if (is_restoring()) return PointerGetDatum(trigger->tg_newtuple);
    Member* member = find_member(trigger->tg_relation);
    const Row before{trigger->tg_trigslot, trigger->tg_trigtuple};
    const Row after{trigger->tg_newslot, trigger->tg_newtuple};
    const bool final = is_final(*member, before, after);
    if (!member->has_after_trigger && (!final || member->has_effects)) report_no_record_trigger(trigger->tg_relation);
    ManagedUpdate kept = {trigger->tg_updatedcols, {}};
    ManagedUpdate* managed_update = manages_columns(*member) ? &kept : nullptr;
    if (final) {
        validate_early(member, trigger->tg_relation, before, after, managed_update);
    } else {
        if (managed_update != nullptr) {
            set_columns_before(member, before, after, managed_update);
            row_may_move(member, after);
        }
        defer();
    }
    return PointerGetDatum(with_changes(after, kept.changes));
}

PAWL_FUNCTION(pawl_validate_insert) {
    TriggerData* trigger = trigger_data(fcinfo, "validate_insert");
    require_moment(TRIGGER_FIRED_BEFORE(trigger->tg_event) && TRIGGER_FIRED_FOR_ROW(trigger->tg_event) &&
                       TRIGGER_FIRED_BY_INSERT(trigger->tg_event),
                   "validate_insert", "BEFORE INSERT FOR EACH ROW");
    if (is_restoring() || is_being_filled(trigger->tg_relation)) return PointerGetDatum(trigger->tg_trigtuple);
    Member* member = find_member(trigger->tg_relation);
    ColumnChanges changes = {};
    const Row row{trigger->tg_trigslot, trigger->tg_trigtuple};
    if (manages_columns(*member) && !row_is_moving(member, row)) set_columns_of_new(member, row, &changes);
    return PointerGetDatum(with_changes(row, changes));
}

PAWL_FUNCTION(pawl_one_transition) {
    const TriggerData* trigger = trigger_data(fcinfo, "one_transition");
    reject_list(trigger->tg_relation);
}

PAWL_FUNCTION(pawl_record) {
    TriggerData* trigger = trigger_data(fcinfo, "record");
    require_moment(TRIGGER_FIRED_AFTER(trigger->tg_event) && TRIGGER_FIRED_FOR_ROW(trigger->tg_event), "record",
                   "AFTER, FOR EACH ROW");
    if (is_restoring()) return PointerGetDatum(nullptr);
    if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event) && is_being_filled(trigger->tg_relation))
        return PointerGetDatum(nullptr);
    Member* member = find_member(trigger->tg_relation);
    if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
        record_insert(member, trigger);
    else if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
        record_delete(member, trigger);
    else
        record_update(member, trigger);
    return PointerGetDatum(nullptr);
}

PAWL_FUNCTION(pawl_record_truncate) {
    TriggerData* trigger = trigger_data(fcinfo, "record_truncate");
    require_moment(TRIGGER_FIRED_BEFORE(trigger->tg_event) && TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event),
                   "record_truncate", "BEFORE TRUNCATE");
    if (!is_restoring()) truncate_rows(find_member(trigger->tg_relation), trigger->tg_relation);
    return PointerGetDatum(nullptr);
}

PAWL_FUNCTION(pawl_deferred) {
    return BoolGetDatum(rows_deferred || effects_are_pending());
}

// Tells every backend that machines or bindings have changed.
PAWL_FUNCTION(pawl_invalidate) {
    TriggerData* trigger = trigger_data(fcinfo, "invalidate");
    require_moment(TRIGGER_FIRED_AFTER(trigger->tg_event) && TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event),
                   "invalidate", "AFTER, FOR EACH STATEMENT");
    const Oid table = RelationGetRelid(trigger->tg_relation);
    const bool ours = pg::call([&] {
        return table == catalog_table("machine") || table == catalog_table("binding") ||
               table == catalog_table("audit_binding") || table == catalog_table("database") ||
               table == catalog_table("placement") || table == catalog_table("placed_table");
    });
    if (!ours)
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "pawl.invalidate() cannot be used on table \"" +
                              std::string(RelationGetRelationName(trigger->tg_relation)) + "\"",
                          "It is fired by tables of the extension that sessions keep in memory.", "Drop the trigger.");
    pg::call([&] { CacheInvalidateRelcache(trigger->tg_relation); });
    return PointerGetDatum(nullptr);
}

PAWL_FUNCTION(pawl_protect_log) {
    TriggerData* trigger = trigger_data(fcinfo, "protect_log");
    require_moment(TRIGGER_FIRED_BEFORE(trigger->tg_event) && !TRIGGER_FIRED_BY_INSERT(trigger->tg_event),
                   "protect_log", "BEFORE UPDATE, DELETE OR TRUNCATE");
    // open for pawl.prune_log and pawl.redact, of which only the latter updates
    const bool updates = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
    if (updates == redacting && is_writable_now(RelationGetRelid(trigger->tg_relation)))
        return PointerGetDatum(!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ? nullptr
                               : updates                                 ? trigger->tg_newtuple
                                                                         : trigger->tg_trigtuple);
    const char* operation = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)   ? "UPDATE"
                            : TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ? "DELETE"
                                                                         : "TRUNCATE";
    throw pg::Failure(
        sqlstate::log_is_immutable,
        "the log \"" + std::string(RelationGetRelationName(trigger->tg_relation)) + "\" is immutable",
        std::string(operation) + " of log entries is not allowed.",
        "To change a state, update the row's state column, or insert its key and to_state or event into the log.",
        {RelationGetRelid(trigger->tg_relation), nullptr, nullptr});
}

PAWL_FUNCTION(pawl_uuid_v7) {
    if (PG_ARGISNULL(0)) return fcinfo->isnull = true, static_cast<Datum>(0);
    // 48 bits of milliseconds since 1970; times outside that range would not sort.
    constexpr TimestampTz epoch = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
    const TimestampTz at = PG_GETARG_TIMESTAMPTZ(0);
    if (at < -epoch || at >= (TimestampTz{1} << 48) * 1000 - epoch)
        throw pg::Failure(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE, "timestamp out of range for a version 7 UUID", {},
                          "Give a time from 1970 to 10889.");
    auto* uuid = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t)));
    make_uuid_v7(at, uuid);
    return UUIDPGetDatum(uuid);
}

}  // namespace pawl
