// May ereport; owns nothing. See row_identity.hpp.
#include "catalog/row_identity.hpp"

namespace pawl {

namespace {

bool covers_only_key(const Attachment& attachment, Relation index) {
    const Form_pg_index form = index->rd_index;
    // one that is checked at commit lets two rows of a key live side by side until then
    if (!form->indisunique || !form->indimmediate || !form->indisvalid || RelationGetIndexPredicate(index) != NIL) return false;
    for (int column = 0; column < form->indnkeyatts; ++column) {
        bool found = false;
        for (int i = 0; i < attachment.nkeys; ++i)
            found |= form->indkey.values[column] == get_attnum(attachment.root, NameStr(attachment.keys[i].name));
        if (!found) return false;
    }
    return true;
}

}  // namespace

bool key_is_unique(const Attachment& attachment) {
    Relation root = table_open(attachment.root, AccessShareLock);
    // An index of a parent knows nothing of its inheritance children.
    const bool one_index = root->rd_rel->relkind == RELKIND_PARTITIONED_TABLE || !has_subclass(attachment.root);
    bool unique = false;
    ListCell* cell;
    foreach (cell, RelationGetIndexList(root)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        unique |= one_index && covers_only_key(attachment, index);
        index_close(index, AccessShareLock);
    }
    table_close(root, AccessShareLock);
    return unique;
}

char* key_text(const Attachment& attachment, int key, Datum value) {
    Oid output;
    bool varlena;
    getTypeOutputInfo(attachment.keys[key].type, &output, &varlena);
    return OidOutputFunctionCall(output, value);
}

char* describe_key(const Attachment& attachment, const Datum* key) {
    StringInfoData out;
    initStringInfo(&out);
    for (int i = 0; i < attachment.nkeys; ++i) appendStringInfo(&out, "%s%s", i > 0 ? ", " : "", key_text(attachment, i, key[i]));
    return attachment.nkeys == 1 ? out.data : psprintf("(%s)", out.data);
}

const char* quoted_state(const text* state) { return state == nullptr ? "null" : psprintf("\"%s\"", text_to_cstring(state)); }

}  // namespace pawl
