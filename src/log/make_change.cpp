// May ereport; owns nothing. See make_change.hpp.
#include "log/make_change.hpp"

extern "C" {
#include "common/hashfn.h"
}

namespace pawl {

namespace {

Datum copied_key(const KeyColumn& key, TupleTableSlot* row) {
    bool null;
    Datum value = slot_getattr(row, key.attribute, &null);
    if (null)
        ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
                        errmsg("null in key column \"%s\" of a row with a log", NameStr(key.name)),
                        errdetail("The log identifies rows by their key.")));
    if (key.by_value) return value;
    // Detoasted, because the TOAST row may be gone when the entry is written.
    if (key.length == -1) return PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
    return datumCopy(value, false, key.length);
}

template <typename T>
T* copied(T* value) {
    return value == nullptr ? nullptr : static_cast<T*>(memcpy(palloc(VARSIZE_ANY(value)), value, VARSIZE_ANY(value)));
}

Jsonb* joined_metadata(Jsonb* metadata, Jsonb* added) {
    if (metadata == nullptr) return copied(added);
    return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(metadata), JsonbPGetDatum(added)));
}

void push_number(JsonbParseState** state, const char* key, Numeric number) {
    JsonbValue value = {};
    value.type = jbvString;
    value.val.string.val = const_cast<char*>(key);
    value.val.string.len = static_cast<int>(strlen(key));
    pushJsonbValue(state, WJB_KEY, &value);
    value.type = jbvNumeric;
    value.val.numeric = number;
    pushJsonbValue(state, WJB_VALUE, &value);
}

// Adds the row's fencing token after the state change (negative: none) and the transaction ID; callers cannot override
// either.
Jsonb* with_token(Jsonb* metadata, int64 token) {
    if (metadata != nullptr && !JB_ROOT_IS_OBJECT(metadata)) return metadata;
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    if (token >= 0) push_number(&state, "token", int64_to_numeric(token));
    push_number(&state, "transaction_id",
                int64_to_numeric(static_cast<int64>(U64FromFullTransactionId(GetTopFullTransactionId()))));
    return joined_metadata(metadata, JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr)));
}

// Metadata that consists of the fencing token alone, by token from -1 (none) on: most tokens are small, so the entries
// of a transaction share what was made for the first. State changes do not outlive their transaction.
struct TokensAlone {
    static constexpr int n = 16;
    FullTransactionId transaction;
    MemoryContext context;
    Jsonb* made[n];
};
TokensAlone tokens_alone = {};

Jsonb* token_alone(int64 token) {
    const int64 place = Max(token, -1) + 1;
    if (place >= TokensAlone::n) return with_token(nullptr, token);
    const FullTransactionId transaction = GetTopFullTransactionId();
    if (tokens_alone.context == nullptr)
        tokens_alone.context = AllocSetContextCreate(TopMemoryContext, "pawl tokens", ALLOCSET_SMALL_SIZES);
    if (!FullTransactionIdEquals(tokens_alone.transaction, transaction)) {
        MemoryContextReset(tokens_alone.context);
        memset(tokens_alone.made, 0, sizeof(tokens_alone.made));
        tokens_alone.transaction = transaction;
    }
    Jsonb*& made = tokens_alone.made[place];
    if (made == nullptr) {
        MemoryContext caller = MemoryContextSwitchTo(tokens_alone.context);
        made = with_token(nullptr, token);
        MemoryContextSwitchTo(caller);
    }
    return made;
}

std::string_view text_in(TupleTableSlot* row, AttrNumber attribute) {
    bool null = true;
    const Datum value = attribute == InvalidAttrNumber ? 0 : slot_getattr(row, attribute, &null);
    return null ? std::string_view() : view(DatumGetTextPP(value));
}

// The trace context in the row's own columns; null: none.
Jsonb* trace_in(const Binding& binding, TupleTableSlot* row) {
    const std::string_view traceparent = text_in(row, binding.traceparent);
    return traceparent.empty() ? nullptr : trace_of(traceparent, text_in(row, binding.tracestate));
}

}  // namespace

StateChange* make_change(const Binding& binding, TupleTableSlot* row, const Outcome& outcome,
                         const Attribution& attribution, const AttributionOverride* overrides) {
    auto* change = static_cast<StateChange*>(palloc0(offsetof(StateChange, key) + sizeof(Datum) * binding.nkeys));
    change->binding = &binding;
    change->subtransaction =
        outcome.subtransaction != InvalidSubTransactionId ? outcome.subtransaction : GetCurrentSubTransactionId();
    change->command = outcome.command;
    change->may_wait = outcome.may_wait;
    change->begins = outcome.begins;
    change->left = outcome.left;
    change->born = outcome.born;
    change->born_new = outcome.born_new;
    change->made = outcome.made;
    change->from = outcome.from;
    change->to = outcome.to;
    change->roles = outcome.roles;
    change->event = outcome.event;
    change->placement = outcome.placement;
    change->actor = attribution.actor;
    change->processor = attribution.processor;
    change->correlation_id = attribution.correlation_id;
    change->metadata = attribution.metadata;
    if (overrides != nullptr) {
        if (overrides->processor != nullptr) change->processor = copied(overrides->processor);
        if (overrides->correlation_id != nullptr) change->correlation_id = copied(overrides->correlation_id);
        if (overrides->with_metadata) change->metadata = with_trace(attribution.trace, copied(overrides->metadata));
    }
    // a trace by the settings takes precedence over that of the row
    if (binding.traceparent != InvalidAttrNumber && attribution.trace == nullptr)
        change->metadata = with_trace(trace_in(binding, row), change->metadata);
    if (outcome.processor != nullptr && outcome.processor != change->processor)
        change->processor = copied(const_cast<text*>(outcome.processor));
    if (outcome.added != nullptr) change->metadata = joined_metadata(change->metadata, outcome.added);
    if (outcome.facts != nullptr && (change->metadata == nullptr || JB_ROOT_IS_OBJECT(change->metadata)))
        change->metadata = joined_metadata(change->metadata, outcome.facts);
    if (binding.logs_token)
        change->metadata =
            change->metadata == nullptr ? token_alone(outcome.token) : with_token(change->metadata, outcome.token);
    change->at = outcome.at != 0 ? outcome.at : GetCurrentTimestamp();
    if (outcome.begins) change->metadata = nullptr;  // it is not what the session writes
    for (int i = 0; i < binding.nkeys; ++i) change->key[i] = copied_key(binding.keys[i], row);
    return change;
}

text* reserved_event(text** made, const char* name) {
    if (*made != nullptr) return *made;
    MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
    *made = cstring_to_text(name);
    MemoryContextSwitchTo(caller);
    return *made;
}

text* attach_event() {
    static text* attach = nullptr;
    return reserved_event(&attach, "pawl.attach");
}

StateChange* make_change_in(MemoryContext context, const Binding& binding, TupleTableSlot* row, const Outcome& outcome,
                            const AttributionOverride* overrides) {
    MemoryContext caller = MemoryContextSwitchTo(context);
    forget_attribution();  // a new one, which lives as long as the state change
    StateChange* change = make_change(binding, row, outcome, *current_attribution(context), overrides);
    forget_attribution();
    MemoryContextSwitchTo(caller);
    return change;
}

uint32 hash_of_key(const StateChange& change) {
    uint32 hash = 0;
    for (int i = 0; i < change.binding->nkeys; ++i) {
        hash = hash_combine(hash, hash_key_value(change.binding->keys[i], change.key[i]));
    }
    return hash;
}

bool hash_of_row(const Binding& binding, TupleTableSlot* row, uint32* hash) {
    *hash = 0;
    for (int i = 0; i < binding.nkeys; ++i) {
        bool null;
        const Datum value = slot_getattr(row, binding.keys[i].attribute, &null);
        if (null) return false;
        *hash = hash_combine(*hash, hash_key_value(binding.keys[i], value));
    }
    return true;
}

}  // namespace pawl
