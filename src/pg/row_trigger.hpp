// Seam. Trigger functions in C that decide which functions of a pack a row needs, and call these. Conditions of
// triggers would be read from text by each statement that writes a row, which takes longer than the checks.
#pragma once

#include "pg/arguments.hpp"

namespace pawl::pg {

inline bool is_column(TupleDesc descriptor, AttrNumber number, const char* name) {
    return number > 0 && number <= descriptor->natts &&
           strcmp(NameStr(TupleDescAttr(descriptor, number - 1)->attname), name) == 0;
}

// A table of a pack, and the columns that its trigger reads; for an Update the first is its state.
template <int n>
struct Table {
    const char* schema;
    const char* name;
    const char* columns[n];
    AttrNumber numbers[n];   // where the columns were in the last row
    Oid known = InvalidOid;  // a table that is_table has accepted

    // Finds the columns in rows of this type. Ereports.
    void find_columns(TupleDesc descriptor) {
        for (int i = 0; i < n; ++i) {
            if (is_column(descriptor, numbers[i], columns[i])) continue;
            numbers[i] = SPI_fnumber(descriptor, columns[i]);
            if (numbers[i] <= 0)
                ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                                errmsg("column \"%s\" of table \"%s\" does not exist", columns[i], name)));
        }
    }

    // The same, and checks that they are of these types, or of domains over them.
    void find_columns(TupleDesc descriptor, const Oid* types) {
        find_columns(descriptor);
        for (int i = 0; i < n; ++i) {
            const Oid type = TupleDescAttr(descriptor, numbers[i] - 1)->atttypid;
            if (type != types[i] && getBaseType(type) != types[i])
                ereport(ERROR,
                        (errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("table \"%s\" has no column \"%s\" of type %s",
                                                                    name, columns[i], format_type_be(types[i]))));
        }
    }
};

// The schema is the extension's, so that no other table has this name. Ereports.
inline bool is_table(Relation relation, const char* schema_name, const char* name) {
    const Oid schema = get_namespace_oid(schema_name, true);
    if (!OidIsValid(schema)) return false;
    const Oid table = get_relname_relid(name, schema);
    return RelationGetRelid(relation) == table ||
           (relation->rd_rel->relispartition &&
            list_member_oid(get_partition_ancestors(RelationGetRelid(relation)), table));
}

enum class Moment { before_row, after_row, after_statement };

// Throws 39P01 if the function is called in any other way than by the pack's trigger.
template <int n>
TriggerData& trigger_of(FunctionCallInfo fcinfo, Table<n>& table, Moment moment = Moment::before_row) {
    auto* trigger = CALLED_AS_TRIGGER(fcinfo) ? reinterpret_cast<TriggerData*>(fcinfo->context) : nullptr;
    const bool for_row = moment != Moment::after_statement;
    static constexpr const char* moments[] = {"BEFORE UPDATE ROW", "AFTER UPDATE ROW",
                                              "AFTER UPDATE STATEMENT, with both transition tables"};
    if (trigger == nullptr || !TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ||
        TRIGGER_FIRED_BEFORE(trigger->tg_event) != (moment == Moment::before_row) ||
        (TRIGGER_FIRED_FOR_ROW(trigger->tg_event) != 0) != for_row ||
        (!for_row && (trigger->tg_newtable == nullptr || trigger->tg_oldtable == nullptr)))
        throw Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                      std::string("this trigger function must be fired ") + moments[static_cast<int>(moment)]);
    if (RelationGetRelid(trigger->tg_relation) != table.known &&
        !call([&] { return is_table(trigger->tg_relation, table.schema, table.name); }))
        throw Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                      "this trigger function cannot be used on table \"" +
                          std::string(RelationGetRelationName(trigger->tg_relation)) + "\"",
                      "It is fired by " + std::string(table.schema) + "." + table.name + " only.", "Drop the trigger.");
    table.known = RelationGetRelid(trigger->tg_relation);
    return *trigger;
}

// The only function of a pack with this name. Ereports.
inline Oid function_of(const char* schema, const char* name) {
    return LookupFuncName(list_make2(makeString(pstrdup(schema)), makeString(pstrdup(name))), -1, nullptr, false);
}

// Calls a trigger function of the pack as if it had been fired itself. Ereports.
inline Datum fire_as(FunctionCallInfo fcinfo, const char* schema, const char* function) {
    FmgrInfo called;
    fmgr_info(function_of(schema, function), &called);
    LOCAL_FCINFO(inner, 0);
    InitFunctionCallInfoData(*inner, &called, 0, InvalidOid, fcinfo->context, nullptr);
    return FunctionCallInvoke(inner);
}

// The two versions of a row that is updated. Ereports.
template <typename Column, int n>
class Update {
public:
    Update(FunctionCallInfo fcinfo, TriggerData& trigger, Table<n>& table)
        : fcinfo_(fcinfo),
          trigger_(trigger),
          descriptor_(RelationGetDescr(trigger.tg_relation)),
          schema_(table.schema),
          numbers_(table.numbers),
          old_state_(),
          new_state_() {
        table.find_columns(descriptor_);
        if (TupleDescAttr(descriptor_, table.numbers[0] - 1)->atttypid != TEXTOID)
            ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                            errmsg("column \"state\" of table \"%s\" must be of type text", table.name)));
        old_state_ = state_in(trigger.tg_trigslot);
        new_state_ = state_in(trigger.tg_newslot);
    }

    std::string_view old_state() const { return old_state_; }
    std::string_view new_state() const { return new_state_; }
    bool changes_state() const { return old_state_ != new_state_; }

    bool was(std::string_view state) const { return old_state_ == state; }
    bool is(std::string_view state) const { return new_state_ == state; }

    Datum value(Column column) const {
        bool null;
        return slot_getattr(trigger_.tg_newslot, number(column), &null);
    }

    Datum old_value(Column column) const {
        bool null;
        return slot_getattr(trigger_.tg_trigslot, number(column), &null);
    }

    bool old_flag(Column column) const { return DatumGetBool(old_value(column)); }

    bool has(Column column) const { return !slot_attisnull(trigger_.tg_newslot, number(column)); }
    bool had(Column column) const { return !slot_attisnull(trigger_.tg_trigslot, number(column)); }

    // Whether a column has another value. Values that are equal but written in another form count as others: the
    // functions that are called compare them again.
    bool changes(Column column) const { return differs(number(column)); }

    template <typename... Columns>
    bool changes_any(Columns... columns) const {
        return (changes(columns) || ...);
    }

    // From this column on to the last that the table names.
    bool changes_from(Column first) const {
        for (int i = static_cast<int>(first); i < n; ++i)
            if (differs(numbers_[i])) return true;
        return false;
    }

    AttrNumber number(Column column) const { return numbers_[static_cast<int>(column)]; }

    // Whether the statement sets the column, to whatever value.
    bool sets(Column column) const {
        return bms_is_member(number(column) - FirstLowInvalidHeapAttributeNumber, trigger_.tg_updatedcols);
    }

    // The row that the pack's trigger function makes of it.
    HeapTuple fire(const char* function) const {
        return reinterpret_cast<HeapTuple>(DatumGetPointer(fire_as(fcinfo_, schema_, function)));
    }

private:
    std::string_view state_in(TupleTableSlot* row) const {
        bool null;
        const Datum value = slot_getattr(row, numbers_[0], &null);
        return null ? std::string_view() : view(DatumGetTextPP(value));
    }

    bool differs(AttrNumber number) const {
        bool was_null, is_null;
        const Datum before = slot_getattr(trigger_.tg_trigslot, number, &was_null);
        const Datum after = slot_getattr(trigger_.tg_newslot, number, &is_null);
        if (was_null || is_null) return was_null != is_null;
        const FormData_pg_attribute* column = TupleDescAttr(descriptor_, number - 1);
        if (column->attbyval) return before != after;
        const auto* one = reinterpret_cast<const char*>(DatumGetPointer(before));
        const auto* other = reinterpret_cast<const char*>(DatumGetPointer(after));
        if (column->attlen > 0) return memcmp(one, other, column->attlen) != 0;
        // what is stored elsewhere is not fetched to see that it is the same
        if (VARSIZE_ANY(one) == VARSIZE_ANY(other) && memcmp(one, other, VARSIZE_ANY(one)) == 0) return false;
        return !datum_image_eq(before, after, false, -1);
    }

    FunctionCallInfo fcinfo_;
    TriggerData& trigger_;
    TupleDesc descriptor_;
    const char* schema_;
    const AttrNumber* numbers_;
    std::string_view old_state_;
    std::string_view new_state_;
};

// Columns that a trigger sets in the row that is written.
template <int most>
struct Changes {
    int n = 0;
    int columns[most];
    Datum values[most];
    bool nulls[most];

    void set(AttrNumber column, Datum value, bool null = false) {
        columns[n] = column;
        values[n] = value;
        nulls[n++] = null;
    }

    // Ereports.
    HeapTuple made_in(HeapTuple row, TupleDesc descriptor) {
        return n == 0 ? row : heap_modify_tuple_by_cols(row, descriptor, n, columns, values, nulls);
    }
};

// The pack's function of this name without arguments, in C++: what it answers as a boolean. Ereports.
inline bool answer_of(const char* schema, const char* function) {
    return DatumGetBool(OidFunctionCall0(function_of(schema, function)));
}

}  // namespace pawl::pg
