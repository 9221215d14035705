// May ereport; owns nothing. See fingerprint.hpp.
#include "guard/fingerprint.hpp"

extern "C" {
#include "common/hashfn.h"
#include "utils/datum.h"
}

namespace pawl {

namespace {

constexpr int nmanaged = 5;

void list_managed(const Managed& managed, const ManagedColumn* columns[nmanaged]) {
    columns[0] = &managed.owner;
    columns[1] = &managed.lease;
    columns[2] = &managed.token;
    columns[3] = &managed.due;
    columns[4] = &managed.attempts;
}

bool is_managed(const Member& member, AttrNumber attribute) {
    for (int i = 0; i < member.nbindings; ++i) {
        if (member.bindings[i].managed == nullptr) continue;
        const ManagedColumn* columns[nmanaged];
        list_managed(*member.bindings[i].managed, columns);
        for (const ManagedColumn* column : columns)
            if (column->attribute == attribute) return true;
    }
    return false;
}

uint64 hash_of(TupleTableSlot* row, AttrNumber attribute, ColumnValue value) {
    if (value.null) return 1;
    const FormData_pg_attribute* column = TupleDescAttr(row->tts_tupleDescriptor, attribute - 1);
    return (uint64{1} << 32) + datum_image_hash(value.datum, column->attbyval, column->attlen);
}

ColumnValue value_of(TupleTableSlot* row, AttrNumber attribute, const ColumnChanges* changes) {
    for (int i = changes == nullptr ? 0 : changes->n; i > 0; --i)
        if (changes->columns[i - 1] == attribute) return {changes->values[i - 1], changes->nulls[i - 1]};
    return stored_value(row, attribute);
}

// By the names of the columns: partitions can have them in another order.
uint64 hash_of_others(const Member& member, TupleTableSlot* row) {
    uint64 sum = 1;
    for (AttrNumber i = 1; i <= row->tts_tupleDescriptor->natts; ++i) {
        const FormData_pg_attribute* column = TupleDescAttr(row->tts_tupleDescriptor, i - 1);
        if (column->attisdropped || column->attgenerated != '\0' || is_managed(member, i)) continue;
        const uint64 name = string_hash(NameStr(column->attname), NAMEDATALEN);
        sum += hash_combine64(name, hash_of(row, i, stored_value(row, i)));
    }
    return sum;
}

}  // namespace

Fingerprint fingerprint_of(const Member& member, const Binding& binding, TupleTableSlot* row,
                           const ColumnChanges* changes, bool with_others) {
    const ManagedColumn* columns[nmanaged];
    list_managed(*binding.managed, columns);
    Fingerprint fingerprint = {0, with_others ? hash_of_others(member, row) : 0};
    for (const ManagedColumn* column : columns) {
        if (!column->kept()) continue;
        const ColumnValue value = value_of(row, column->attribute, changes);
        fingerprint.managed = hash_combine64(fingerprint.managed, hash_of(row, column->attribute, value));
    }
    return fingerprint;
}

}  // namespace pawl
