// May ereport; owns nothing. See transitions.hpp.
#include "guard/transitions.hpp"

#include "log/journal.hpp"
#include "guard/refusal.hpp"
#include "observe/tally.hpp"

namespace pawl {

namespace {

// Which arrow a row took in its BEFORE trigger, for the AFTER trigger to run its effects.
struct PendingKey {
    Oid relation;
    ItemPointerData version;  // the old version's place
    uint16 attachment;
};

struct PendingEffects {
    PendingKey key;
    int arrow;
};

// Which arrow a row was found to take when its managed columns were kept, for the AFTER trigger that judges it.
struct DecidedMove {
    PendingKey key;
    int arrow;
    text* processor;
    Jsonb* remark;
    TimestampTz at;
};

HTAB* pending = nullptr;            // in the transaction's memory
HTAB* decided = nullptr;            // the same
text* last_unknown_state = nullptr;  // in the transaction's memory

PendingKey pending_key(const Member* member, int attachment, HeapTuple version) {
    PendingKey key;
    memset(&key, 0, sizeof(key));
    key.relation = member->relid;
    key.version = version->t_self;
    key.attachment = static_cast<uint16>(attachment);
    return key;
}

HTAB* make_table(const char* name, std::size_t entry) {
    HASHCTL control = {};
    control.keysize = sizeof(PendingKey);
    control.entrysize = entry;
    control.hcxt = TopTransactionContext;
    return hash_create(name, 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void leave_effects(const PendingKey& key, int arrow) {
    if (pending == nullptr) pending = make_table("pawl effects", sizeof(PendingEffects));
    static_cast<PendingEffects*>(hash_search(pending, &key, HASH_ENTER, nullptr))->arrow = arrow;
}

// What a rolled-back statement may have left for this version must not run.
void drop_effects(const PendingKey& key) {
    if (pending != nullptr) hash_search(pending, &key, HASH_REMOVE, nullptr);
}

void remember_move(const PendingKey& key, int arrow, const text* processor, const Jsonb* remark, TimestampTz at) {
    if (decided == nullptr) decided = make_table("pawl moves", sizeof(DecidedMove));
    auto* move = static_cast<DecidedMove*>(hash_search(decided, &key, HASH_ENTER, nullptr));
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    move->arrow = arrow;
    move->at = at;
    move->processor = processor == nullptr ? nullptr : make_text(view(processor));
    move->remark = remark == nullptr ? nullptr : static_cast<Jsonb*>(memcpy(palloc(VARSIZE(remark)), remark, VARSIZE(remark)));
    MemoryContextSwitchTo(caller);
}

// What was decided for this version of the row; its arrow is no_arrow when nothing was.
DecidedMove take_move(const PendingKey& key) {
    DecidedMove move = {key, no_arrow, nullptr, nullptr, 0};
    if (decided == nullptr) return move;
    if (auto* found = static_cast<DecidedMove*>(hash_search(decided, &key, HASH_FIND, nullptr))) {
        move = *found;
        hash_search(decided, &key, HASH_REMOVE, nullptr);
    }
    return move;
}

bool made_here(HeapTuple tuple) { return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)); }

bool same_state(const Attachment& attachment, Datum a, bool a_null, Datum b, bool b_null) {
    if (a_null || b_null) return a_null == b_null;
    if (attachment.is_enum) return a == b;
    return view(DatumGetTextPP(a)) == view(DatumGetTextPP(b));
}

void check_key(const Attachment& before_of, TupleTableSlot* before, const Attachment& after_of, TupleTableSlot* after) {
    if (!is_recorded(after_of)) return;
    for (int i = 0; i < after_of.nkeys; ++i) {
        bool old_null, new_null;
        Datum old_value = slot_getattr(before, before_of.keys[i].attribute, &old_null);
        Datum new_value = slot_getattr(after, after_of.keys[i].attribute, &new_null);
        if (old_null || new_null ? old_null != new_null : !same_key_value(after_of.keys[i], old_value, new_value))
            refuse_key_change(before_of, before);
    }
}

// A state's text that lives as long as the journal needs it. States that the machine does not know are kept once, as long as
// rows in the same one follow each other.
text* lasting_text(const Attachment& attachment, core::StateId state, Datum value, bool null) {
    if (state != core::no_state) return attachment.machine->state_text[state];
    text* name = state_as_text(attachment, value, null);
    if (name == nullptr || (last_unknown_state != nullptr && view(last_unknown_state) == view(name)))
        return name == nullptr ? nullptr : last_unknown_state;
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    last_unknown_state = make_text(view(name));
    MemoryContextSwitchTo(caller);
    return last_unknown_state;
}

// Names of the events that are pawl's own, made once a session.
text* reserved_event(text** made, const char* name) {
    if (*made != nullptr) return *made;
    MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
    *made = cstring_to_text(name);
    MemoryContextSwitchTo(caller);
    return *made;
}

text* event_of(Ending ending) {
    static text* deleted = nullptr;
    static text* truncated = nullptr;
    return ending == Ending::deleted ? reserved_event(&deleted, "pawl.delete") : reserved_event(&truncated, "pawl.truncate");
}

text* upgrade_event() {
    static text* upgrade = nullptr;
    return reserved_event(&upgrade, "pawl.upgrade");
}

RowVersions versions_of(const Row& before, const Attachment& before_of, const Row& after, const Attachment& after_of) {
    return {{before.tuple, before.slot == nullptr ? nullptr : before.slot->tts_tupleDescriptor, before_of.to_root},
            {after.tuple, after.slot == nullptr ? nullptr : after.slot->tts_tupleDescriptor, after_of.to_root}};
}

// `row` is what a refusal names, and `row_of` the attachment of the table it lies in (a row that changes partition has two).
int find_arrow(Attachment& attachment, const Attachment& row_of, const Row& row, core::StateId from, core::StateId to, text* from_text,
               text* to_text, const Intent* intent, const RowVersions& versions, const Standing* standing) {
    bool strict;
    text* event = wanted_event(attachment, intent, &strict);
    Objection objection;
    const bool timed = intent != nullptr && intent->timed;
    int arrow = choose_arrow(attachment, from, to, event, timed, versions, standing, &objection);
    if (arrow == no_arrow && event != nullptr && !strict && !objection.any()) {
        event = nullptr;
        arrow = choose_arrow(attachment, from, to, nullptr, timed, versions, standing, &objection);
    }
    if (arrow != no_arrow) return arrow;
    if (objection.guard != nullptr) raise(rejected_by_guard(row_of, row.slot, from_text, to_text, objection.guard));
    if (objection.bar != Bar::none) refuse_bar(row_of, row.slot, *standing, objection.bar, describe_move(from_text, to_text));
    // Whoever shows an old token learns that he lost the row, wherever it has gone since.
    if (standing != nullptr && standing->claim == Bar::old_token)
        refuse_bar(row_of, row.slot, *standing, standing->claim, describe_move(from_text, to_text));
    const bool event_is_why = event != nullptr && !attachment.machine->machine->between(from, to).empty();
    if (from == core::no_state && from_text == nullptr) refuse_first_state(row_of, row.slot, to_text, event_is_why ? event : nullptr);
    refuse_transition(row_of, row.slot, from_text, to_text, event_is_why ? event : nullptr);
}

// A row whose state stays is no transition, unless an event was named that leads from the state to itself.
bool is_self_transition(const Attachment& attachment, core::StateId state, const Intent* intent) {
    if (intent != nullptr && intent->still) return false;
    if (state == core::no_state || attachment.machine->machine->between(state, state).empty()) return false;
    bool strict;
    text* event = wanted_event(attachment, intent, &strict);
    const bool timed = intent != nullptr && intent->timed;
    if ((event == nullptr && !timed) || !strict) return false;
    for (std::int32_t arrow : attachment.machine->machine->between(state, state))
        if (is_meant(attachment, arrow, event, timed)) return true;
    return false;
}

// A subscriber gets rows as they were kept by their publisher.
bool keeps_columns(const Attachment& attachment) {
    return attachment.managed != nullptr && SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA;
}

Statement statement_of(const Upkeep& upkeep, const Row& before, const Row& after) { return {upkeep.updated, before.slot, after.slot}; }

// What the lapse of a lease adds to the record: who lost the row.
Jsonb* lost_ownership(const Standing& standing) {
    StringInfoData json;
    initStringInfo(&json);
    appendStringInfoString(&json, "{\"lost_owner\": ");
    escape_json(&json, text_to_cstring(owner_text(*standing.managed, standing.owner)));
    if (standing.has_lease) appendStringInfo(&json, ", \"lease\": \"%s\"", timestamptz_to_str(standing.lease));
    if (standing.managed->token.kept()) appendStringInfo(&json, ", \"token\": " INT64_FORMAT, standing.token);
    appendStringInfoChar(&json, '}');
    return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
}

const JsonbValue* member_of(JsonbContainer* object, const char* key, JsonbValue* found) {
    return JsonContainerIsObject(object) ? getKeyJsonValueFromContainer(object, key, static_cast<int>(strlen(key)), found) : nullptr;
}

void push_fact(JsonbParseState** state, const char* key, const JsonbValue* fact) {
    if (fact == nullptr) return;
    JsonbValue name = {};
    name.type = jbvString;
    name.val.string.val = const_cast<char*>(key);
    name.val.string.len = static_cast<int>(strlen(key));
    pushJsonbValue(state, WJB_KEY, &name);
    pushJsonbValue(state, WJB_VALUE, const_cast<JsonbValue*>(fact));
}

// What a result says of itself: whether it is a success, and how long it took; null: nothing.
Jsonb* facts_of(Jsonb* result) {
    JsonbValue success, time, nested;
    const JsonbValue* told = member_of(&result->root, "success", &success);
    const JsonbValue* took = nullptr;
    if (member_of(&result->root, "metadata", &nested) != nullptr && nested.type == jbvBinary)
        took = member_of(nested.val.binary.data, "execution_time_ms", &time);
    if (took == nullptr || took->type == jbvNull) took = member_of(&result->root, "execution_time_ms", &time);
    if (told == nullptr && took == nullptr) return nullptr;
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    push_fact(&state, "success", told);
    push_fact(&state, "execution_time_ms", took);
    return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr));
}

// Of the result that a statement gives the row. They go to the log, where the audit reads and checks them.
Jsonb* facts_of_result(const Attachment& attachment, const Statement& statement) {
    for (int i = 0; i < attachment.nresults; ++i) {
        const AttrNumber column = attachment.results[i];
        bool null = true;
        Datum value = 0;
        if (bms_is_member(column - FirstLowInvalidHeapAttributeNumber, statement.updated)) value = slot_getattr(statement.after, column, &null);
        if (null) continue;
        if (Jsonb* facts = facts_of(DatumGetJsonbP(value))) return facts;
    }
    return nullptr;
}

struct States {
    core::StateId from, to;
    text* from_text;
    text* to_text;
};

// The arrow of a move in a BEFORE trigger, with its managed columns kept; who makes it, and a remark for the record.
int decide_move(Attachment& attachment, const Row& before, const Row& after, const States& states, Intent* intent, Upkeep* upkeep,
                Actor* actor, Jsonb** remark, TimestampTz* at) {
    const Statement statement = statement_of(*upkeep, before, after);
    *actor = acting(intent, said_by(*attachment.managed, statement));
    const Standing standing = standing_of(attachment, before.slot, *actor);
    const int arrow = find_arrow(attachment, attachment, before, states.from, states.to, states.from_text, states.to_text, intent,
                                 versions_of(before, attachment, after, attachment), &standing);
    *at = standing.moved;
    *remark = takes_away(attachment, standing, arrow) ? lost_ownership(standing) : nullptr;
    keep_move(attachment, standing, arrow, statement, intent, &upkeep->changes);
    return arrow;
}

[[noreturn]] void report_rewritten(const Attachment& attachment, TupleTableSlot* row) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("a trigger moved the row after pawl had kept its columns"),
                    errdetail("%s: a BEFORE UPDATE trigger sorts after that of pawl.", describe_subject(attachment, row)),
                    errhint("Give that trigger a shorter name.")));
}

// Returns the arrow whose effects are still to be run, or no_arrow. `key`: of the row in the table it was in, for what its BEFORE
// trigger has left.
int judge_hop(Attachment& attachment, const Attachment& before_of, const Row& before, const Row& after, When when, const PendingKey& key,
              Upkeep* upkeep) {
    check_key(before_of, before.slot, attachment, after.slot);
    const bool keeps = upkeep != nullptr && attachment.managed != nullptr;
    bool old_null, new_null;
    Datum old_value = slot_getattr(before.slot, before_of.state, &old_null);
    Datum new_value = slot_getattr(after.slot, attachment.state, &new_null);
    Intent* intent = intent_for(attachment.root, NameStr(attachment.column));
    const core::StateId to = decode_state(attachment, new_value, new_null);
    if (same_state(attachment, old_value, old_null, new_value, new_null) && !is_self_transition(attachment, to, intent)) {
        if (keeps) keep_still(attachment, to, statement_of(*upkeep, before, after), intent, &upkeep->changes);
        return no_arrow;
    }

    const core::StateId from = decode_state(before_of, old_value, old_null);
    Verdict verdict = {};
    verdict.from = lasting_text(before_of, from, old_value, old_null);
    verdict.to = to == core::no_state ? state_as_text(attachment, new_value, new_null) : attachment.machine->state_text[to];
    if (is_recorded(attachment)) {
        verdict.may_wait = made_here(before.tuple);
        verdict.left = HeapTupleHeaderGetXmin(before.tuple->t_data);
        verdict.command = when == When::before ? GetCurrentCommandId(false) : HeapTupleHeaderGetCmin(after.tuple->t_data);
    }

    int arrow = no_arrow;
    Actor actor = {};
    if (intent != nullptr && intent->remap && to != core::no_state) {
        verdict.event = upgrade_event();
        if (keeps) keep_remap(attachment, to, statement_of(*upkeep, before, after), &upkeep->changes);
    } else if (from == core::no_state) {  // came in while nobody looked: no arrow leaves a state that the machine does not have
        refuse_transition(before_of, before.slot, verdict.from, verdict.to, nullptr);
    } else if (keeps) {
        arrow = decide_move(attachment, before, after, {from, to, verdict.from, verdict.to}, intent, upkeep, &actor, &verdict.remark, &verdict.at);
        verdict.processor = actor.name;
    } else {
        const DecidedMove move = take_move(key);
        arrow = move.arrow;
        verdict.processor = move.processor;
        verdict.remark = move.remark;
        verdict.at = move.at;
        if (arrow == no_arrow && keeps_columns(attachment)) report_rewritten(before_of, before.slot);
        if (arrow == no_arrow)
            arrow = find_arrow(attachment, before_of, before, from, to, verdict.from, verdict.to, intent,
                               versions_of(before, before_of, after, attachment), nullptr);
        else if (attachment.machine->machine->arrows()[arrow].to != to)
            report_rewritten(before_of, before.slot);
    }
    if (arrow != no_arrow) {
        verdict.event = attachment.machine->event_text[arrow];
        verdict.roles = counted_roles(attachment, arrow, verdict.remark != nullptr);
    }
    verdict.waits = attachment.wake && waits_for_time(attachment, after.slot, upkeep == nullptr ? nullptr : &upkeep->changes);
    if (keeps && attachment.nresults > 0) verdict.facts = facts_of_result(attachment, statement_of(*upkeep, before, after));
    if (attachment.log_fence) verdict.fence = token_after(attachment, after.slot, upkeep == nullptr ? nullptr : &upkeep->changes);
    record_hop(attachment, after.slot, verdict, intent);
    return arrow != no_arrow && attachment.calls[arrow].neffects > 0 ? arrow : no_arrow;
}

}  // namespace

void judge_update(Member* member, const Row& before, const Row& after, When when, Upkeep* upkeep) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        const PendingKey key = pending_key(member, i, before.tuple);
        const int arrow = judge_hop(attachment, attachment, before, after, when, key, upkeep);
        if (!attachment.has_effects) continue;
        if (when == When::after) {
            if (arrow != no_arrow) run_effects(attachment, arrow, versions_of(before, attachment, after, attachment));
        } else if (arrow != no_arrow) {
            leave_effects(key, arrow);
        } else {
            drop_effects(key);
        }
    }
}

void keep_before_judging(Member* member, const Row& before, const Row& after, Upkeep* upkeep) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        if (attachment.managed == nullptr) continue;
        bool old_null, new_null;
        Datum old_value = slot_getattr(before.slot, attachment.state, &old_null);
        Datum new_value = slot_getattr(after.slot, attachment.state, &new_null);
        Intent* intent = intent_for(attachment.root, NameStr(attachment.column));
        const core::StateId from = decode_state(attachment, old_value, old_null), to = decode_state(attachment, new_value, new_null);
        if (same_state(attachment, old_value, old_null, new_value, new_null) && !is_self_transition(attachment, to, intent)) {
            keep_still(attachment, to, statement_of(*upkeep, before, after), intent, &upkeep->changes);
        } else if (intent != nullptr && intent->remap && to != core::no_state) {
            keep_remap(attachment, to, statement_of(*upkeep, before, after), &upkeep->changes);
        } else if (from != core::no_state) {
            Actor actor;
            Jsonb* remark;
            TimestampTz at;
            const States states{from, to, attachment.machine->state_text[from], state_as_text(attachment, new_value, new_null)};
            const int arrow = decide_move(attachment, before, after, states, intent, upkeep, &actor, &remark, &at);
            remember_move(pending_key(member, i, before.tuple), arrow, actor.name, remark, at);
        }
    }
}

void keep_beginning(Member* member, const Row& row, ColumnChanges* changes) {
    for (int i = 0; i < member->nattachments; ++i) {
        const Attachment& attachment = member->attachments[i];
        if (attachment.managed == nullptr) continue;
        bool null;
        Datum value = slot_getattr(row.slot, attachment.state, &null);
        keep_first(attachment, decode_state(attachment, value, null), row.slot, changes);
    }
}

void judge_insert(Member* member, const Row& row) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        bool null;
        Datum value = slot_getattr(row.slot, attachment.state, &null);
        const core::StateId to = decode_state(attachment, value, null);
        text* to_text = to == core::no_state ? state_as_text(attachment, value, null) : attachment.machine->state_text[to];
        const RowVersions versions = versions_of({nullptr, nullptr}, attachment, row, attachment);
        const int arrow = find_arrow(attachment, attachment, row, core::no_state, to, nullptr, to_text, nullptr, versions, nullptr);
        if (keeps_columns(attachment)) check_first(attachment, to, row.slot);
        // A row of this key may have been deleted earlier in the same statement's triggers, hence may_wait.
        Verdict verdict = {nullptr, to_text, attachment.machine->event_text[arrow], HeapTupleHeaderGetCmin(row.tuple->t_data), true, nullptr, nullptr,
                           InvalidTransactionId, attachment.wake && waits_for_time(attachment, row.slot, nullptr)};
        if (attachment.log_fence) verdict.fence = token_after(attachment, row.slot, nullptr);
        record_hop(attachment, row.slot, verdict, nullptr);
        run_effects(attachment, arrow, versions);
    }
}

bool may_end(const Attachment& attachment, core::StateId state) noexcept {
    if (attachment.on_delete != OnDelete::terminal) return attachment.on_delete == OnDelete::allow;
    return state != core::no_state && attachment.machine->machine->states()[state].terminal;
}

void judge_delete(Member* member, const Row& row, Ending ending, CommandId command, SubTransactionId subtransaction) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        bool null;
        Datum value = slot_getattr(row.slot, attachment.state, &null);
        const core::StateId from = decode_state(attachment, value, null);
        text* from_text = lasting_text(attachment, from, value, null);
        if (!may_end(attachment, from)) refuse_delete(attachment, row.slot, from_text);
        Verdict verdict = {from_text, nullptr, event_of(ending), command, made_here(row.tuple), nullptr, nullptr, HeapTupleHeaderGetXmin(row.tuple->t_data)};
        verdict.subtransaction = subtransaction;
        record_hop(attachment, row.slot, verdict, nullptr);
    }
}

void judge_move(Member* from, const Row& before, Member* to, const Row& after) {
    for (int i = 0; i < to->nattachments; ++i) {
        Attachment& attachment = to->attachments[i];
        for (int j = 0; j < from->nattachments; ++j) {
            Attachment& before_of = from->attachments[j];
            if (before_of.root != attachment.root || strcmp(NameStr(before_of.column), NameStr(attachment.column)) != 0) continue;
            const int arrow = judge_hop(attachment, before_of, before, after, When::after, pending_key(from, j, before.tuple), nullptr);
            if (arrow != no_arrow) run_effects(attachment, arrow, versions_of(before, before_of, after, attachment));
        }
    }
}

void run_pending_effects(Member* member, const Row& before, const Row& after) {
    if (pending == nullptr) return;
    for (int i = 0; i < member->nattachments; ++i) {
        const PendingKey key = pending_key(member, i, before.tuple);
        auto* effects = static_cast<PendingEffects*>(hash_search(pending, &key, HASH_FIND, nullptr));
        if (effects == nullptr) continue;
        const int arrow = effects->arrow;
        hash_search(pending, &key, HASH_REMOVE, nullptr);
        Attachment& attachment = member->attachments[i];
        run_effects(attachment, arrow, versions_of(before, attachment, after, attachment));
    }
}

bool effects_are_pending() noexcept { return pending != nullptr && hash_get_num_entries(pending) > 0; }

void forget_transition_memory() noexcept {
    pending = nullptr;
    decided = nullptr;
    last_unknown_state = nullptr;
}

}  // namespace pawl
