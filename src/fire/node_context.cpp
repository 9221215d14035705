// May ereport; owns nothing. See node_context.hpp.
#include "fire/node_context.hpp"

#include "catalog/shard.hpp"
#include "pg/bridge.hpp"
#include "pg/spi.hpp"

extern "C" {
#include "utils/guc.h"
}

namespace pawl {

namespace {

struct Sent {
    const char* setting;
    char* former;  // null: not sent
};

Sent sent[] = {{"pawl.processor", nullptr},      {"pawl.event", nullptr},       {"pawl.events", nullptr},
               {"pawl.correlation_id", nullptr}, {"pawl.metadata", nullptr},    {"pawl.token", nullptr},
               {"pawl.delay", nullptr},          {"pawl.traceparent", nullptr}, {"pawl.tracestate", nullptr}};
enum { processor, event, events, correlation_id, metadata, token };

// Citus sends a SET only from inside of a statement that a function runs, so a function runs it here.
void set_local(const char* setting, const char* value) {
    Oid types[] = {TEXTOID, TEXTOID};
    Datum values[] = {CStringGetTextDatum(setting), CStringGetTextDatum(value)};
    pg::run_for_row("SELECT pawl._set_on_nodes($1, $2)", 2, types, values);
}

const char* current(const char* setting) {
    const char* value = GetConfigOption(setting, true, false);
    return value == nullptr ? "" : value;
}

const char* list_of(const EventList& list) {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * list.n));
    for (int i = 0; i < list.n; ++i) values[i] = PointerGetDatum(list.events[i]);
    return OidOutputFunctionCall(F_ARRAY_OUT, pg::array_of(values, list.n, TEXTOID));
}

const char* text_or(const text* value, const char* other) {
    return value == nullptr ? other : text_to_cstring(value);
}

}  // namespace

void send_context(const Intent& intent) {
    for (int i = 0; i < static_cast<int>(lengthof(sent)); ++i) {
        const char* former = current(sent[i].setting);
        const char* value = former;
        if (i == processor) value = text_or(intent.processor, former);
        if (i == event) value = text_or(intent.event, "");
        if (i == events) value = intent.events == nullptr ? "" : list_of(*intent.events);
        if (i == correlation_id) value = text_or(intent.correlation_id, former);
        if (i == metadata && intent.with_metadata)
            value = intent.metadata == nullptr
                        ? ""
                        : JsonbToCString(nullptr, &intent.metadata->root, VARSIZE(intent.metadata));
        if (i == token && intent.any_token) value = "";
        if (i == token && intent.has_token) value = psprintf(INT64_FORMAT, intent.token);
        sent[i].former = nullptr;
        if (*value == '\0' && *former == '\0') continue;
        sent[i].former = MemoryContextStrdup(TopTransactionContext, former);
        set_local(sent[i].setting, value);
    }
}

void send_setting(const char* setting, const char* value) {
    if (!has_citus()) return;
    SPI_connect();
    set_local(setting, value);
    SPI_finish();
}

void send_former_context() {
    for (Sent& one : sent)
        if (one.former != nullptr) {
            set_local(one.setting, one.former);
            one.former = nullptr;
        }
}

// pawl._set_on_nodes(setting, value)
PAWL_FUNCTION(pawl_set_on_nodes) {
    pg::call([&] {
        const char* setting = text_to_cstring(PG_GETARG_TEXT_PP(0));
        if (strncmp(setting, "pawl.", 5) != 0 ||
            strspn(setting + 5, "abcdefghijklmnopqrstuvwxyz_") != strlen(setting + 5))
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("\"%s\" is no setting of pawl", setting)));
        const char* statements[] = {
            "SET LOCAL citus.propagate_set_commands = 'local'",
            psprintf("SET LOCAL %s = %s", setting, quote_literal_cstr(text_to_cstring(PG_GETARG_TEXT_PP(1)))),
            "SET LOCAL citus.propagate_set_commands = 'none'"};
        SPI_connect();
        for (const char* statement : statements)
            if (SPI_execute(statement, false, 0) != SPI_OK_UTILITY)
                ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not set \"%s\"", setting)));
        SPI_finish();
    });
    PG_RETURN_VOID();
}

}  // namespace pawl
