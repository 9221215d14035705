// Neither throws nor ereports (the SQL functions may). Whose request a transaction is, for as long as it lasts.
#include "pg/arguments.hpp"

extern "C" {
#include "storage/proc.h"
#include "utils/uuid.h"
}

namespace pawl {

namespace {

LocalTransactionId local_transaction() {
#if PG_VERSION_NUM >= 170000
    return MyProc->vxid.lxid;
#else
    return MyProc->lxid;
#endif
}

// Whose request this transaction is, as pawl_api.begin_request has found it. A setting could be set by any code that
// runs here.
pg_uuid_t request_token;
LocalTransactionId request_transaction = InvalidLocalTransactionId;

}  // namespace

// pawl_api._note_token(token)
PAWL_FUNCTION(pawl_api_note_token) {
    request_token = *PG_GETARG_UUID_P(0);
    request_transaction = local_transaction();
    return static_cast<Datum>(0);
}

// pawl_api._noted_token(): null where the transaction is no request
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
