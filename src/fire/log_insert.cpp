// May throw and may ereport. A client's INSERT into a log is a request for a state change, and becomes the log entry of
// that change.
#include "catalog/catalog.hpp"
#include "events/outbox.hpp"
#include "fire/destination.hpp"
#include "fire/row_query.hpp"
#include "guard/rejection.hpp"
#include "log/entry_buffer.hpp"
#include "log/log_table.hpp"
#include "log/newest_entry.hpp"
#include "log/predecessor.hpp"
#include "log/writer.hpp"
#include "pg/sqlstate.hpp"

namespace pawl {

namespace {

// The binding that writes a log.
struct Owner {
    List* logs;  // the trigger's table, and the tables that it is a partition of
    Oid relation;
    char* column;
};

void visit_owner(const CatalogRow& row, void* argument) {
    auto* owner = static_cast<Owner*>(argument);
    if (!list_member_oid(owner->logs, row.oid("history"))) return;
    owner->relation = row.oid("relation");
    owner->column = row.string("state_column");
}

// What the client asks for.
struct Wish {
    Datum* key;
    text* to;
    text* event;
    text* from;
    text* processor;
    text* correlation_id;
    Jsonb* metadata;
};

Datum attribute(TriggerData* trigger, const char* name, bool* null) {
    AttrNumber column = get_attnum(RelationGetRelid(trigger->tg_relation), name);
    *null = true;
    return column == InvalidAttrNumber ? static_cast<Datum>(0) : slot_getattr(trigger->tg_trigslot, column, null);
}

text* text_attribute(TriggerData* trigger, const char* name) {
    bool null;
    Datum value = attribute(trigger, name, &null);
    return null ? nullptr : DatumGetTextPCopy(value);
}

Wish read_wish(TriggerData* trigger, const LogWriter* writer, int nkeys) {
    Wish wish = {};
    wish.key = static_cast<Datum*>(palloc(sizeof(Datum) * nkeys));
    for (int i = 0; i < nkeys; ++i) {
        bool null;
        const AttrNumber column = log_key_column(writer, i);
        Datum value = slot_getattr(trigger->tg_trigslot, column, &null);
        if (null)
            ereport(ERROR,
                    (errcode(ERRCODE_NOT_NULL_VIOLATION),
                     errmsg("an insert into the log \"%s\" needs the key of the row",
                            RelationGetRelationName(trigger->tg_relation)),
                     errdetail("Column \"%s\" is null.",
                               NameStr(TupleDescAttr(RelationGetDescr(trigger->tg_relation), column - 1)->attname))));
        wish.key[i] = value;
    }
    wish.to = text_attribute(trigger, "to_state");
    wish.event = text_attribute(trigger, "event");
    wish.from = text_attribute(trigger, "from_state");
    wish.processor = text_attribute(trigger, "processor");
    wish.correlation_id = text_attribute(trigger, "correlation_id");
    bool null;
    Datum metadata = attribute(trigger, "metadata", &null);
    if (!null) wish.metadata = DatumGetJsonbPCopy(metadata);
    if (wish.to == nullptr && wish.event == nullptr)
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("an insert into the log \"%s\" needs to_state or event",
                               RelationGetRelationName(trigger->tg_relation)),
                        errhint("INSERT INTO %s (key, to_state) VALUES (...);",
                                RelationGetRelationName(trigger->tg_relation))));
    return wish;
}

bool same(const text* a, const text* b) {
    return a != nullptr && b != nullptr && view(a) == view(b);
}

// The target state. If the row is in this state already, it needs a transition from the state to itself, and takes that
// transition's event.
text* resolve_destination(const Target& target, const FoundRow& row, Wish& wish, const Intent& intent) {
    const BoundMachine& machine = *target.binding->machine;
    if (wish.from != nullptr && !same(wish.from, row.state_text))
        reject_transition(*target.binding, row.slot, wish.from, wish.to, wish.event);
    if (wish.to == nullptr) return machine.state_text[find_destination(target, wish.event, row, &intent)];
    if (!same(wish.to, row.state_text) || wish.event != nullptr) return wish.to;
    for (std::int32_t transition : machine.machine->between(row.state, row.state))
        if (machine.event_text[transition] != nullptr) {
            wish.event = machine.event_text[transition];
            return wish.to;
        }
    reject_transition(*target.binding, row.slot, row.state_text, wish.to, nullptr);
}

// Takes pawl's columns from the state change, and all others from the row that the client wrote.
HeapTuple merge(TriggerData* trigger, const LogWriter* writer, HeapTuple made) {
    TupleDesc descriptor = RelationGetDescr(trigger->tg_relation);
    for (int i = 1; i <= descriptor->natts; ++i) {
        if (is_log_column(writer, i) || TupleDescAttr(descriptor, i - 1)->attisdropped) continue;
        bool null;
        Datum value = slot_getattr(trigger->tg_trigslot, i, &null);
        int column = i;
        made = heap_modify_tuple_by_cols(made, descriptor, 1, &column, &value, &null);
    }
    return made;
}

// The newest entry, which the requested one follows, and which is not the most recent one any more.
NewestEntry retire_predecessor(LogWriter* writer, const StateChange& change) {
    const NewestEntry newest = find_newest(writer, change);
    require_predecessor(change, newest, has_pending_entry(change));
    end_request();
    retire_newest(writer, newest);
    return newest;
}

TriggerData* log_trigger(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, "pawl.log_insert() is a trigger function");
    auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
    if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
        !TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "pawl.log_insert() must be fired BEFORE INSERT FOR EACH ROW", {},
                          "Triggers with it are made by pawl.enforce.");
    return trigger;
}

// Throws PW006 if the log belongs to no binding any more.
Owner find_owner(TriggerData* trigger) {
    Owner owner = {nullptr, InvalidOid, nullptr};
    pg::call([&] {
        const Oid log = RelationGetRelid(trigger->tg_relation);
        if (trigger->tg_relation->rd_rel->relispartition) owner.logs = get_partition_ancestors(log);
        owner.logs = lappend_oid(owner.logs, log);
        scan_bindings(visit_owner, &owner);
        Shard shard;
        if (!OidIsValid(owner.relation) && find_shard(trigger->tg_relation, &shard)) {
            owner.logs = list_make1_oid(shard.logical);
            scan_bindings(visit_owner, &owner);
            if (OidIsValid(owner.relation)) owner.relation = shard_beside(shard, owner.relation);
        }
    });
    if (!OidIsValid(owner.relation))
        throw pg::Failure(sqlstate::log_is_immutable,
                          "the log \"" + std::string(RelationGetRelationName(trigger->tg_relation)) + "\" is closed",
                          "Its binding was released.",
                          "Enforce the machine again with pawl.enforce and pawl.enable_log.",
                          {RelationGetRelid(trigger->tg_relation), nullptr, nullptr});
    return owner;
}

}  // namespace

PAWL_FUNCTION(pawl_log_insert) {
    TriggerData* trigger = log_trigger(fcinfo);
    forget_newest_entries();
    if (is_restoring() || is_stored_now(trigger->tg_trigslot) || is_being_filled(trigger->tg_relation))
        return PointerGetDatum(trigger->tg_trigtuple);

    MemoryContext memory = CurrentMemoryContext;
    const Owner owner = find_owner(trigger);
    const Target target = open_target(owner.relation, owner.column);
    const Binding& binding = *target.binding;

    Intent intent = {};
    text* to = nullptr;
    Wish wish = {};
    LogWriter* writer = pg::call([&] {
        SPI_connect();
        LogWriter* opened = begin_log(trigger->tg_relation, binding.log, binding.nkeys, LogUse::one_row);
        wish = read_wish(trigger, opened, binding.nkeys);
        FoundRow row = find_row(target, wish.key, true);
        if (row.tuple == nullptr) no_such_row(target, wish.key);
        intent.processor = wish.processor;
        intent.has_token = token_setting(&intent.token);  // the UPDATE below does not see the client's setting
        intent.at = GetCurrentTimestamp();
        to = resolve_destination(target, row, wish, intent);
        if (!binding.validated && row.state != core::no_state) {
            buffer_beginning(binding, row.slot, row.state_text);
            write_pending_entries(false);
        }
        return opened;
    });
    intent.root = binding.root;
    intent.column = NameStr(binding.column);
    intent.event = wish.event;
    intent.metadata = wish.metadata;
    intent.with_metadata = wish.metadata != nullptr;
    intent.correlation_id = wish.correlation_id;
    intent.capture = memory;
    IntentScope scope(intent);
    return pg::call([&] {
        move_row(target, wish.key, to);
        if (intent.captured == nullptr)
            ereport(
                ERROR,
                (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION), errmsg("the request changed no row of %s", target.table),
                 errdetail("A trigger, a rule or a row security policy of the table suppressed the update.")));
        const NewestEntry newest = retire_predecessor(writer, *intent.captured);
        MemoryContext spi = MemoryContextSwitchTo(memory);
        HeapTuple made = merge(trigger, writer, form_log_tuple(writer, *intent.captured, newest));
        MemoryContextSwitchTo(spi);
        OutboxWriter* outbox = nullptr;
        if (binding.events) append_event(&outbox, *intent.captured, &last_entry(writer));
        finish_outbox(outbox);
        finish_log(writer);
        SPI_finish();
        close_target(target);
        return PointerGetDatum(made);
    });
}

}  // namespace pawl
