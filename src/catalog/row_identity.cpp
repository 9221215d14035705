// May ereport; owns nothing. See row_identity.hpp.
#include "catalog/row_identity.hpp"

namespace pawl {

namespace {

bool covers_only_key(const Binding& binding, Relation index) {
    const Form_pg_index form = index->rd_index;
    // a deferred constraint allows two rows of a key until commit
    if (!form->indisunique || !form->indimmediate || !form->indisvalid || RelationGetIndexPredicate(index) != NIL)
        return false;
    for (int column = 0; column < form->indnkeyatts; ++column) {
        bool found = false;
        for (int i = 0; i < binding.nkeys; ++i)
            found |= form->indkey.values[column] == get_attnum(binding.root, NameStr(binding.keys[i].name));
        if (!found) return false;
    }
    return true;
}

}  // namespace

bool key_is_unique(const Binding& binding) {
    Relation root = table_open(binding.root, AccessShareLock);
    // The index of a parent does not cover its inheritance children.
    const bool one_index = root->rd_rel->relkind == RELKIND_PARTITIONED_TABLE || !has_subclass(binding.root);
    bool unique = false;
    ListCell* cell;
    foreach (cell, RelationGetIndexList(root)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        unique |= one_index && covers_only_key(binding, index);
        index_close(index, AccessShareLock);
    }
    table_close(root, AccessShareLock);
    return unique;
}

char* key_text(const Binding& binding, int key, Datum value) {
    Oid output;
    bool varlena;
    getTypeOutputInfo(binding.keys[key].type, &output, &varlena);
    return OidOutputFunctionCall(output, value);
}

char* describe_key(const Binding& binding, const Datum* key) {
    StringInfoData out;
    initStringInfo(&out);
    for (int i = 0; i < binding.nkeys; ++i)
        appendStringInfo(&out, "%s%s", i > 0 ? ", " : "", key_text(binding, i, key[i]));
    return binding.nkeys == 1 ? out.data : psprintf("(%s)", out.data);
}

const char* quoted_state(const text* state) {
    return state == nullptr ? "null" : psprintf("\"%s\"", text_to_cstring(state));
}

}  // namespace pawl
