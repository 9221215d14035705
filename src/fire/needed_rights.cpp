// May ereport; owns nothing. See needed_rights.hpp.
#include "fire/needed_rights.hpp"

namespace pawl {

namespace {

// As the server decides it: the right on the table, or on all or any of its columns.
bool has_right(Oid table, AclMode right, AclMaskHow columns) {
    return pg_class_aclcheck(table, GetUserId(), right) == ACLCHECK_OK ||
           pg_attribute_aclcheck_all(table, GetUserId(), right, columns) == ACLCHECK_OK;
}

// column: the one that is to be updated; invalid: none.
[[noreturn]] void reject(const Target& target, AttrNumber column) {
    const Oid table = RelationGetRelid(target.relation);
    const char* user = quote_identifier(GetUserNameFromId(GetUserId(), false));
    const char* name = column == InvalidAttrNumber ? nullptr : get_attname(table, column, false);
    ereport(ERROR,
            (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied for table %s", get_rel_name(table)),
             name == nullptr ? errdetail("The statement needs SELECT on the table.")
                             : errdetail("The statement needs SELECT on the table and UPDATE of column \"%s\".", name),
             errhint("grant select%s on %s to %s",
                     name == nullptr ? "" : psprintf(", update (%s)", quote_identifier(name)), target.table, user),
             pg::report_place({table, name, nullptr})));
}

AttrNumber written_column(const Target& target) {
    return target.written != InvalidAttrNumber ? target.written : target.binding->state;
}

}  // namespace

void require_select(const Target& target) {
    if (!has_right(RelationGetRelid(target.relation), ACL_SELECT, ACLMASK_ALL)) reject(target, InvalidAttrNumber);
}

void require_lock(const Target& target) {
    const Oid table = RelationGetRelid(target.relation);
    if (!has_right(table, ACL_SELECT, ACLMASK_ALL) || !has_right(table, ACL_UPDATE, ACLMASK_ANY))
        reject(target, written_column(target));
}

void require_update(const Target& target, AttrNumber column) {
    if (!pg::may_update(RelationGetRelid(target.relation), column, GetUserId())) reject(target, column);
}

}  // namespace pawl
