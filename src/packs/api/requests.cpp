// May throw and may ereport; owns nothing. How a request of the HTTP API begins: which token it shows, as which role
// and person its transaction acts. Every request pays for this, so it runs no statement.
#include <optional>

#include "core/trace.hpp"
#include "pg/index_look.hpp"
#include "pg/row_trigger.hpp"
#include "session/rights.hpp"

extern "C" {
#include "storage/proc.h"
#include "utils/uuid.h"
}

namespace pawl {

namespace {

enum Column { id, kind, digest, role, person, scopes, expires_at, last_used_at, revoked_at };
constexpr Oid types[] = {UUIDOID,      TEXTOID,        BYTEAOID,       NAMEOID,       TEXTOID,
                         TEXTARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID};
pg::Table<9> tokens = {
    "pawl_api",
    "tokens",
    {"token", "kind", "digest", "role", "person", "scopes", "expires_at", "last_used_at", "revoked_at"},
    {}};

LocalTransactionId local_transaction() {
#if PG_VERSION_NUM >= 170000
    return MyProc->vxid.lxid;
#else
    return MyProc->lxid;
#endif
}

// Set by login. It is no setting, because any code that runs here could set that.
pg_uuid_t request_token;
LocalTransactionId request_transaction = InvalidLocalTransactionId;

// A token, in the current memory context.
struct Token {
    pg_uuid_t id;
    char* role;
    char* person;
    char* scopes;  // separated by commas
    std::optional<TimestampTz> expires_at;
    bool used_lately;
};

// What a request shows. Null: nothing.
struct Shown {
    const text* kind;
    bytea* digest;
};

char* joined_by_comma(Datum scopes) {
    Datum* elements;
    bool* nulls;
    int n;
    deconstruct_array(DatumGetArrayTypeP(scopes), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
    StringInfoData list;
    initStringInfo(&list);
    for (int i = 0; i < n; ++i)
        if (!nulls[i]) appendStringInfo(&list, "%s%s", list.len > 0 ? "," : "", TextDatumGetCString(elements[i]));
    return list.data;
}

bool has_scope(const char* scopes, std::string_view scope) {
    const std::string_view all = scopes;
    for (std::size_t at = 0; at <= all.size();) {
        const std::size_t comma = std::min(all.find(',', at), all.size());
        if (all.substr(at, comma - at) == scope) return true;
        at = comma + 1;
    }
    return false;
}

// Reads the token if the row is one of this kind that is valid now.
bool read_token(Relation table, HeapTuple row, std::string_view wanted, Token& token) {
    Datum values[lengthof(types)];
    bool nulls[lengthof(types)];
    for (std::size_t i = 0; i < lengthof(types); ++i)
        values[i] = heap_getattr(row, tokens.numbers[i], RelationGetDescr(table), &nulls[i]);
    for (const Column needed : {id, kind, role, person, scopes})
        if (nulls[needed]) return false;  // only after the owner has dropped a constraint
    const TimestampTz now = GetCurrentTimestamp();
    if (pg::view(DatumGetTextPP(values[kind])) != wanted || !nulls[revoked_at] ||
        (!nulls[expires_at] && DatumGetTimestampTz(values[expires_at]) <= now))
        return false;
    const Oid found = get_role_oid(NameStr(*DatumGetName(values[role])), true);
    if (!OidIsValid(found) || superuser_arg(found)) return false;
    token.id = *DatumGetUUIDP(values[id]);
    token.role = pstrdup(NameStr(*DatumGetName(values[role])));
    token.person = TextDatumGetCString(values[person]);
    token.scopes = joined_by_comma(values[scopes]);
    if (!nulls[expires_at]) token.expires_at = DatumGetTimestampTz(values[expires_at]);
    token.used_lately =
        !nulls[last_used_at] && DatumGetTimestampTz(values[last_used_at]) >= now - SECS_PER_MINUTE * USECS_PER_SEC;
    return true;
}

// Sees what is committed now: a token that was revoked is not valid in an older snapshot either.
bool find_token(const Shown& shown, Token& token) {
    if (shown.kind == nullptr || shown.digest == nullptr) return false;
    Relation table =
        table_open(get_relname_relid(tokens.name, get_namespace_oid(tokens.schema, false)), AccessShareLock);
    tokens.find_columns(RelationGetDescr(table), types);
    ScanKeyData key;
    ScanKeyInit(&key, tokens.numbers[digest], BTEqualStrategyNumber, F_BYTEAEQ, PointerGetDatum(shown.digest));
    bool found = false;
    pg::visit_matches(table, "tokens_digest_key", &key, 1, GetLatestSnapshot(), [&](HeapTuple row) {
        found = read_token(table, row, pg::view(shown.kind), token);
        return false;
    });
    table_close(table, AccessShareLock);
    return found;
}

// The last use of a token is stored to the minute, without waiting for a lock.
void store_use(void* token) {
    Oid types[] = {UUIDOID};
    Datum values[] = {UUIDPGetDatum(static_cast<pg_uuid_t*>(token))};
    SPI_connect();
    SPI_execute_with_args(
        "UPDATE pawl_api.tokens t SET last_used_at = clock_timestamp() WHERE t.token = (SELECT "
        "x.token FROM pawl_api.tokens x WHERE x.token = $1 FOR NO KEY UPDATE SKIP LOCKED)",
        1, types, values, nullptr, false, 0);
    SPI_finish();
}

// The token that the request shows; this transaction is then a request of it. 28000: there is no such token; 42501: it
// lacks the scope.
Token login(const Shown& shown, std::string_view scope) {
    Token token = {};
    if (!find_token(shown, token))
        ereport(ERROR, (errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
                        errmsg("the token is unknown, expired or revoked"),
                        errhint("select pawl_api.create_token('pawl_reader', 'name of the person')")));
    if (!has_scope(token.scopes, scope))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("the token lacks the scope \"%.*s\"", static_cast<int>(scope.size()), scope.data()),
                        errdetail("It belongs to %s and has: %s.", token.person, token.scopes)));
    request_token = token.id;
    request_transaction = local_transaction();
    if (!token.used_lately && !XactReadOnly) {
        const Oid table = get_relname_relid(tokens.name, get_namespace_oid(tokens.schema, false));
        with_rights_of(owner_of(table), store_use, &token.id, Reach::confined);
    }
    return token;
}

void set(const char* name, const char* value) {
    set_config_option(name, value, superuser() ? PGC_SUSET : PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
                      false);
}

// An empty value replaces another one, and is not written again and again.
void set_or_clear(const char* name, std::string_view value) {
    const char* before = GetConfigOption(name, true, false);
    if (!value.empty() || (before != nullptr && *before != '\0'))
        set(name, value.empty() ? "" : pnstrdup(value.data(), value.size()));
}

// trace: headers, as core::read_trace takes them, or another text that is the correlation id.
void set_trace(std::string_view trace) {
    const core::Trace read = core::read_trace(trace);
    set_or_clear("pawl.correlation_id", read.parent.empty() ? trace : core::trace_id(read.parent));
    set_or_clear("pawl.traceparent", read.parent);
    set_or_clear("pawl.tracestate", read.state);
}

Shown shown_by(FunctionCallInfo fcinfo) {
    return {PG_ARGISNULL(0) ? nullptr : PG_GETARG_TEXT_PP(0), PG_ARGISNULL(1) ? nullptr : PG_GETARG_BYTEA_PP(1)};
}

Datum make_name(const char* value) {
    return DirectFunctionCall1(namein, CStringGetDatum(value));
}

}  // namespace

// pawl_api.begin_request(kind, digest, scope, trace)
PAWL_FUNCTION(pawl_api_begin_request) {
    pg::require(fcinfo, 2, "scope");
    return pg::call([&] {
        const std::string_view scope = pg::view(PG_GETARG_TEXT_PP(2));
        const Token token = login(shown_by(fcinfo), scope);
        set("role", token.role);
        set("pawl.processor", token.person);
        set("pawl_api.person", token.person);
        set("pawl_api.scopes", token.scopes);
        set_or_clear("pawl_api.expires_at", token.expires_at ? timestamptz_to_str(*token.expires_at) : "");
        set_trace(PG_ARGISNULL(3) ? std::string_view() : pg::view(PG_GETARG_TEXT_PP(3)));
        if (scope == "read") set("transaction_read_only", "on");
        return CStringGetTextDatum(token.role);
    });
}

// pawl_api._login(kind, digest, scope): the role
PAWL_FUNCTION(pawl_api_login) {
    pg::require(fcinfo, 2, "scope");
    return pg::call([&] {
        const Token token = login(shown_by(fcinfo), pg::view(PG_GETARG_TEXT_PP(2)));
        // a request sets the role, which checks this
        if (!pg::can_become(GetSessionUserId(), get_role_oid(token.role, false)))
            ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                            errmsg("permission denied to set role \"%s\"", token.role)));
        return make_name(token.role);
    });
}

// pawl_api._noted_token(): null if the transaction serves no request
PAWL_FUNCTION(pawl_api_noted_token) {
    if (request_transaction != local_transaction() || request_transaction == InvalidLocalTransactionId)
        return fcinfo->isnull = true, static_cast<Datum>(0);
    return pg::call([&] {
        auto* token = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t)));
        *token = request_token;
        return UUIDPGetDatum(token);
    });
}

}  // namespace pawl
