// May ereport; owns nothing. See generated.hpp.
#include "catalog/generated.hpp"

extern "C" {
#include "rewrite/rewriteHandler.h"
}

namespace pawl {

bool has_generated_columns(Relation relation) noexcept {
    const TupleConstr* constraints = RelationGetDescr(relation)->constr;
    return constraints != nullptr && constraints->has_generated_stored;
}

HeapTuple with_generated_columns(Relation relation, HeapTuple row) {
    TupleDesc descriptor = RelationGetDescr(relation);
    EState* estate = CreateExecutorState();
    ExprContext* context = GetPerTupleExprContext(estate);
    TupleTableSlot* slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsHeapTuple);
    ExecStoreHeapTuple(row, slot, false);
    context->ecxt_scantuple = slot;

    auto* columns = static_cast<int*>(palloc(sizeof(int) * descriptor->natts));
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * descriptor->natts));
    auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * descriptor->natts));
    int n = 0;
    for (int i = 0; i < descriptor->natts; ++i) {
        if (TupleDescAttr(descriptor, i)->attgenerated != ATTRIBUTE_GENERATED_STORED) continue;
        auto* expression = reinterpret_cast<Expr*>(build_column_default(relation, i + 1));
        columns[n] = i + 1;
        values[n] = ExecEvalExprSwitchContext(ExecPrepareExpr(expression, estate), context, &nulls[n]);
        ++n;
    }
    HeapTuple made = heap_modify_tuple_by_cols(row, descriptor, n, columns, values, nulls);
    ExecDropSingleTupleTableSlot(slot);
    FreeExecutorState(estate);
    return made;
}

}  // namespace pawl
