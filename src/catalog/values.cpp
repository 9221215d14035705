// May ereport; owns nothing. Values of users' types in the statements that pawl runs. A cast or an operator that a
// statement names is looked up when the statement is parsed, and the owner of a type can make one that wins. The
// functions here depend on the type alone: its output and input functions, and the operators of its default btree
// class, which only a superuser can create.
#include "pg/arguments.hpp"

extern "C" {
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
}

namespace pawl {

namespace {

// The type of an argument, a domain's base type for a domain.
Oid argument_type(FunctionCallInfo fcinfo, int n) {
    const Oid type = get_fn_expr_argtype(fcinfo->flinfo, n);
    if (!OidIsValid(type))
        ereport(ERROR, (errcode(ERRCODE_INDETERMINATE_DATATYPE), errmsg("could not determine the type of a value")));
    return getBaseType(type);
}

char* text_of(Oid type, Datum value) {
    Oid output;
    bool varlena;
    getTypeOutputInfo(type, &output, &varlena);
    return OidOutputFunctionCall(output, value);
}

enum class Comparison { same, above };

// The operator of the default btree class; InvalidOid when the type has none.
Oid operator_of(Oid type, Comparison comparison) {
    if (comparison == Comparison::same) return lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr;
    return lookup_type_cache(type, TYPECACHE_GT_OPR)->gt_opr;
}

Oid need_operator(Oid type, Comparison comparison) {
    const Oid found = operator_of(type, comparison);
    if (!OidIsValid(found))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        comparison == Comparison::same
                            ? errmsg("could not identify an equality operator for type %s", format_type_be(type))
                            : errmsg("could not identify an ordering operator for type %s", format_type_be(type))));
    return found;
}

Oid one_type(Oid left, Oid right) {
    if (left != right)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("values of types %s and %s cannot be compared",
                                                                   format_type_be(left), format_type_be(right))));
    return left;
}

Datum compare(FunctionCallInfo fcinfo, Comparison comparison) {
    const Oid type = one_type(argument_type(fcinfo, 0), argument_type(fcinfo, 1));
    const Oid function = get_opcode(need_operator(type, comparison));
    return OidFunctionCall2Coll(function, PG_GET_COLLATION(), PG_GETARG_DATUM(0), PG_GETARG_DATUM(1));
}

// The value as its base type, in the form that the parser produces.
Node* as_base(Node* value) {
    const Oid type = exprType(value);
    const Oid base = getBaseType(type);
    if (base == type) return value;
    return applyRelabelType(value, base, exprTypmod(value), exprCollation(value), COERCE_IMPLICIT_CAST, -1, false);
}

// The value as the operand type of an operator: text for varchar. Polymorphic and equal types need no change.
Node* as_operand(Node* value, Oid operand) {
    const Oid type = exprType(value);
    if (type == operand || IsPolymorphicType(operand) || operand == RECORDOID) return value;
    return applyRelabelType(value, operand, -1, exprCollation(value), COERCE_IMPLICIT_CAST, -1, false);
}

Node* operation(Oid found, Node* left, Node* right, Oid collation) {
    Oid left_type, right_type;
    op_input_types(found, &left_type, &right_type);
    Expr* made = make_opclause(found, BOOLOID, false, reinterpret_cast<Expr*>(as_operand(left, left_type)),
                               reinterpret_cast<Expr*>(as_operand(right, right_type)), InvalidOid, collation);
    set_opfuncid(reinterpret_cast<OpExpr*>(made));
    return reinterpret_cast<Node*>(made);
}

// Replaces a call by its operator, so that the planner can use indexes and joins.
Node* simplified(FuncExpr* call, Comparison comparison) {
    if (list_length(call->args) != 2) return nullptr;
    Node* left = as_base(static_cast<Node*>(linitial(call->args)));
    Node* right = as_base(static_cast<Node*>(lsecond(call->args)));
    if (exprType(left) != exprType(right)) return nullptr;
    const Oid found = operator_of(exprType(left), comparison);
    return OidIsValid(found) ? operation(found, left, right, call->inputcollid) : nullptr;
}

// Replaces a test for enum labels by `value IN ('a', 'b')` as the parser produces it, to match the predicate of the
// claim index.
Node* simplified_list(FuncExpr* call) {
    Node* value = as_base(static_cast<Node*>(linitial(call->args)));
    auto* list = static_cast<Const*>(lsecond(call->args));
    const Oid type = exprType(value);
    if (!IsA(list, Const) || list->constisnull || !type_is_enum(type)) return nullptr;
    Datum* labels;
    bool* nulls;
    int n;
    deconstruct_array(DatumGetArrayTypeP(list->constvalue), TEXTOID, -1, false, TYPALIGN_INT, &labels, &nulls, &n);
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(n, 1)));
    Oid input, parameter;
    getTypeInputInfo(type, &input, &parameter);
    for (int i = 0; i < n; ++i) {
        if (nulls[i]) return nullptr;
        values[i] = OidInputFunctionCall(input, TextDatumGetCString(labels[i]), parameter, -1);
    }
    const Oid found = operator_of(type, Comparison::same);
    if (n == 1) {
        auto* one = reinterpret_cast<Node*>(makeConst(type, -1, InvalidOid, sizeof(Oid), values[0], false, true));
        return operation(found, value, one, InvalidOid);
    }
    ArrayType* array = construct_array(values, n, type, sizeof(Oid), true, TYPALIGN_INT);
    auto* made = makeNode(ScalarArrayOpExpr);
    made->opno = found;
    made->opfuncid = get_opcode(found);
    made->useOr = true;
    made->args =
        list_make2(value, makeConst(get_array_type(type), -1, InvalidOid, -1, PointerGetDatum(array), false, false));
    made->location = -1;
    return reinterpret_cast<Node*>(made);
}

FuncExpr* call_to_simplify(FunctionCallInfo fcinfo) {
    auto* request = reinterpret_cast<SupportRequestSimplify*>(PG_GETARG_POINTER(0));
    return IsA(request, SupportRequestSimplify) ? request->fcall : nullptr;
}

}  // namespace

// pawl.value_text(value)
PAWL_FUNCTION(pawl_text) {
    return pg::call([&] { return CStringGetTextDatum(text_of(argument_type(fcinfo, 0), PG_GETARG_DATUM(0))); });
}

// pawl._value(text, null::type)
PAWL_FUNCTION(pawl_value) {
    if (PG_ARGISNULL(0)) {
        fcinfo->isnull = true;
        return static_cast<Datum>(0);
    }
    return pg::call([&] {
        Oid input, parameter;
        getTypeInputInfo(get_fn_expr_rettype(fcinfo->flinfo), &input, &parameter);
        return OidInputFunctionCall(input, text_to_cstring(PG_GETARG_TEXT_PP(0)), parameter, -1);
    });
}

// pawl.same_value(value, value)
PAWL_FUNCTION(pawl_same) {
    return pg::call([&] { return compare(fcinfo, Comparison::same); });
}

PAWL_FUNCTION(pawl_same_support) {
    return pg::call([&] {
        FuncExpr* call = call_to_simplify(fcinfo);
        return PointerGetDatum(call == nullptr ? nullptr : simplified(call, Comparison::same));
    });
}

// pawl._above(value, value)
PAWL_FUNCTION(pawl_above) {
    return pg::call([&] { return compare(fcinfo, Comparison::above); });
}

PAWL_FUNCTION(pawl_above_support) {
    return pg::call([&] {
        FuncExpr* call = call_to_simplify(fcinfo);
        return PointerGetDatum(call == nullptr ? nullptr : simplified(call, Comparison::above));
    });
}

// pawl._among(value, labels)
PAWL_FUNCTION(pawl_among) {
    return pg::call([&] {
        const char* value = text_of(argument_type(fcinfo, 0), PG_GETARG_DATUM(0));
        Datum* labels;
        bool* nulls;
        int n;
        deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT, &labels, &nulls, &n);
        bool found = false;
        for (int i = 0; i < n && !found; ++i) found = !nulls[i] && strcmp(value, TextDatumGetCString(labels[i])) == 0;
        return BoolGetDatum(found);
    });
}

PAWL_FUNCTION(pawl_among_support) {
    return pg::call([&] {
        FuncExpr* call = call_to_simplify(fcinfo);
        return PointerGetDatum(call == nullptr || list_length(call->args) != 2 ? nullptr : simplified_list(call));
    });
}

}  // namespace pawl
