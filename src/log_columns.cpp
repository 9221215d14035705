// May ereport; owns nothing. See log_columns.hpp.
#include "log_columns.hpp"

namespace pawl {

namespace {

AttrNumber column_of(Relation log, const char* name) {
    AttrNumber attribute = get_attnum(RelationGetRelid(log), name);
    if (attribute == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("log table \"%s\" has no column \"%s\"", RelationGetRelationName(log), name),
                        errdetail("Its columns are those that pawl.enforce made; rename it back."),
                        errhint("SELECT * FROM pawl.health();")));
    return attribute;
}

}  // namespace

LogColumns find_columns(Relation log, const LogLayout& layout) {
    LogColumns columns;
    columns.id = column_of(log, "id");
    columns.sort_key = column_of(log, "sort_key");
    columns.from_state = column_of(log, "from_state");
    columns.to_state = column_of(log, "to_state");
    columns.event = column_of(log, "event");
    columns.processor = column_of(log, "processor");
    columns.actor = column_of(log, "actor");
    columns.correlation_id = column_of(log, "correlation_id");
    columns.metadata = column_of(log, "metadata");
    columns.machine_version = column_of(log, "machine_version");
    columns.created_at = column_of(log, "created_at");
    columns.most_recent = layout.stored ? column_of(log, "most_recent") : 0;
    columns.hash = layout.hash_chain ? column_of(log, "hash") : 0;
    return columns;
}

}  // namespace pawl
