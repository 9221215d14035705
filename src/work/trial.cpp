// May ereport; owns nothing. See trial.hpp.
#include "work/trial.hpp"

#include "core/transient.hpp"

namespace pawl {

namespace {

constexpr int message_length = 500;  // of an error that a warning quotes

constexpr int most_tries = 3;  // of one row that conflicts, in one call

// Worth repeating at once, unless the transaction uses a single snapshot: then only the caller can repeat it.
bool is_conflict(const ErrorData* error) {
    return core::repeat_of(unpack_sql_state(error->sqlerrcode)) == core::Repeat::at_once;
}

// Other transient errors may belong to one row: a trigger can raise any of them.
bool ends_call(const ErrorData* error) {
    return ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION ||
           (is_conflict(error) && IsolationUsesXactSnapshot());
}

char* shortened(const char* message) {
    if (message == nullptr) return pstrdup("no message");
    const int length = static_cast<int>(strlen(message));
    return length <= message_length ? pstrdup(message)
                                    : psprintf("%.*s...", pg_mbcliplen(message, length, message_length), message);
}

// The output function of a key may be what raises the error.
const char* key_of(const Binding& binding, const FoundRow& row) {
    const char* key = "?";
    try_alone([&] {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * binding.nkeys));
        for (int i = 0; i < binding.nkeys; ++i) {
            bool null;
            values[i] = slot_getattr(row.slot, binding.keys[i].attribute, &null);
            if (null) return;
        }
        key = describe_key(binding, values);
    });
    return key;
}

void tell(const Target& target, const FoundRow& row, const ErrorData* error) {
    ereport(WARNING,
            (errmsg("row %s of %s was skipped: %s", shortened(key_of(*target.binding, row)), target.table,
                    shortened(error->message)),
             errdetail("Its state change raised an error with SQLSTATE %s.", unpack_sql_state(error->sqlerrcode)),
             errhint("To see the whole error, call pawl.fire(...) for this row.")));
}

}  // namespace

ErrorData* try_alone(void (*work)(void*), void* argument) {
    MemoryContext caller = CurrentMemoryContext;
    ResourceOwner owner = CurrentResourceOwner;
    ErrorData* volatile error = nullptr;
    BeginInternalSubTransaction(nullptr);
    MemoryContextSwitchTo(caller);
    PG_TRY();
    {
        work(argument);
        ReleaseCurrentSubTransaction();
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(caller);
        error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        MemoryContextSwitchTo(caller);
        CurrentResourceOwner = owner;
        if (ends_call(error)) ReThrowError(error);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(caller);
    CurrentResourceOwner = owner;
    return error;
}

void raise_unless_of_row(const Target& target, ErrorData* error) {
    if (!pg::may_update(target.binding->root, get_attnum(target.binding->root, NameStr(target.binding->column)),
                        GetUserId()))
        ReThrowError(error);
}

int64 see_to_apart(const Target& target, const Batch& batch, SeeTo see_to, void* argument, Raising& raising) {
    if (batch.n == 0 || raising.n >= Raising::most) return 0;
    int64 done = 0;
    const ErrorData* error;
    int tries = 0;
    do {
        error = try_alone([&] { done = see_to(batch, argument); });
        if (error == nullptr) return done;
    } while (batch.n == 1 && is_conflict(error) && ++tries < most_tries);
    if (batch.n == 1) {
        if (raising.n++ < Raising::most_told) tell(target, batch.rows[0], error);
        return 0;
    }
    const int half = batch.n / 2;
    done = see_to_apart(target, {batch.rows, half}, see_to, argument, raising);
    return done + see_to_apart(target, {batch.rows + half, batch.n - half}, see_to, argument, raising);
}

void tell_of_more(const Target& target, const Raising& raising) {
    const int more = raising.n - Raising::most_told;
    if (more > 0)
        ereport(WARNING,
                (errmsg("%d more rows of %s were skipped: their state changes raised errors", more, target.table)));
}

}  // namespace pawl
