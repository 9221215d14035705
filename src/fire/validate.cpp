// May throw and may ereport: the part of pawl.validate that begins the histories of rows which were there before the
// log of their table.
#include "fire/target.hpp"
#include "log/entry_buffer.hpp"
#include "log/write_changes.hpp"

namespace pawl {

namespace {

// A row as the query returns it: the key columns, then the state. All other columns are null.
void store_row(const Binding& binding, HeapTuple tuple, TupleDesc descriptor, TupleTableSlot* slot) {
    ExecClearTuple(slot);
    memset(slot->tts_isnull, true, sizeof(bool) * slot->tts_tupleDescriptor->natts);
    for (int i = 0; i <= binding.nkeys; ++i) {
        const AttrNumber attribute = i < binding.nkeys ? binding.keys[i].attribute : binding.state;
        slot->tts_values[attribute - 1] = heap_getattr(tuple, i + 1, descriptor, &slot->tts_isnull[attribute - 1]);
    }
    ExecStoreVirtualTuple(slot);
}

// The columns that store_row reads must have the types of the member's.
void check_columns(const Binding& binding, Relation member, TupleDesc descriptor) {
    for (int i = 0; i <= binding.nkeys; ++i) {
        const AttrNumber attribute = i < binding.nkeys ? binding.keys[i].attribute : binding.state;
        if (i < descriptor->natts &&
            TupleDescAttr(descriptor, i)->atttypid == TupleDescAttr(RelationGetDescr(member), attribute - 1)->atttypid)
            continue;
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("the query does not return the key and the state of table \"%s\"",
                               RelationGetRelationName(member))));
    }
}

// Puts the beginnings of the histories of the rows that a query returns, and locks, into the entry buffer.
void buffer_rows(const Binding& binding, Relation member, const char* query) {
    SPI_connect();
    const int code = SPI_execute(query, false, 0);
    if (code != SPI_OK_SELECT)
        ereport(ERROR,
                (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not lock rows: %s", SPI_result_code_string(code))));
    check_columns(binding, member, SPI_tuptable->tupdesc);
    TupleTableSlot* slot = MakeSingleTupleTableSlot(RelationGetDescr(member), &TTSOpsVirtual);
    for (uint64 i = 0; i < SPI_processed; ++i) {
        store_row(binding, SPI_tuptable->vals[i], SPI_tuptable->tupdesc, slot);
        bool null;
        const Datum value = slot_getattr(slot, binding.state, &null);
        const core::StateId state = decode_state(binding, value, null);
        if (state != core::no_state) buffer_beginning(binding, slot, binding.machine->state_text[state]);
    }
    ExecDropSingleTupleTableSlot(slot);
    SPI_finish();
}

}  // namespace

// pawl._begin_logs(relation, state_column, member, query): begins the histories of the rows of a member that a query
// locks; returns how many it has begun. Rows in unknown states and rows with a history are left out.
PAWL_FUNCTION(pawl_begin_logs) {
    for (int i = 0; i < 4; ++i) {
        static const char* const names[] = {"relation", "state_column", "member", "query"};
        pg::require(fcinfo, i, names[i]);
    }
    const Oid root = PG_GETARG_OID(0);
    if (!pg::owns_relation(root, GetUserId()))
        pg::call([&] { aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(root)); });
    const Target target = open_target(root, pg::name_argument(fcinfo, 1));
    require_one_node(target, "pawl.validate");
    Relation member = pg::call([&] { return table_open(PG_GETARG_OID(2), RowShareLock); });
    const Binding* binding = find_binding(find_member(member), NameStr(target.binding->column));
    if (binding->root != target.binding->root || !OidIsValid(binding->log.table))
        throw pg::Failure(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "\"" + std::string(RelationGetRelationName(member)) + "\" is no member of a table with a log");
    // The buffer may have a state change of one of the rows, whose history begins with it.
    if (!entry_buffer_is_empty())
        throw pg::Failure(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                          "the statement has changed states that are not logged yet", {},
                          "Call pawl.validate in a statement of its own.");
    return pg::call([&] {
        const uint64 before = histories_begun();
        buffer_rows(*binding, member, text_to_cstring(PG_GETARG_TEXT_PP(3)));
        if (!entry_buffer_is_empty()) write_pending_entries(false);
        table_close(member, NoLock);
        close_target(target);
        return Int64GetDatum(static_cast<int64>(histories_begun() - before));
    });
}

}  // namespace pawl
