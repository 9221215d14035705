// May throw and may ereport: pawl_dag._insert_steps, which writes the steps and edges of tasks that start without a
// statement. What follows from their template need not be checked, and no other session knows the tasks yet.
#include "packs/dag/new_rows.hpp"
#include "packs/dag/orchestrating.hpp"
#include "packs/dag/start_template.hpp"
#include "pg/arguments.hpp"

extern "C" {
#include "rewrite/rewriteHandler.h"
}

namespace pawl {

using dag::NewStep;

namespace {

// Everything here ereports and owns nothing.

enum Argument { template_uuid, queue, priority, tasks, ranks, contexts, traceparents, tracestates };

struct ColumnOf {
    const char* name;
    Oid type;
};
// In the order of NewStep::Column.
constexpr ColumnOf step_columns[NewStep::columns] = {
    {"task_uuid", UUIDOID},
    {"step_uuid", UUIDOID},
    {"name", TEXTOID},
    {"namespace", TEXTOID},
    {"priority", INT4OID},
    {"rank", FLOAT8OID},
    {"handler", TEXTOID},
    {"handler_options", JSONBOID},
    {"map_of", TEXTOID},
    {"map_index", INT4OID},
    {"level", INT4OID},
    {"total_parents", INT4OID},
    {"unsatisfied_parents", INT4OID},
    {"optional", BOOLOID},
    {"retryable", BOOLOID},
    {"max_attempts", INT4OID},
    {"backoff", JSONBOID},
    {"timeout", INTERVALOID},
    {"traceparent", TEXTOID},
    {"tracestate", TEXTOID},
};
constexpr ColumnOf edge_columns[] = {{"task_uuid", UUIDOID}, {"parent_uuid", UUIDOID}, {"child_uuid", UUIDOID}};

// What is read of the tasks, each in the same order.
struct NewTasks {
    Datum* ids;
    Datum* ranks;
    Datum* contexts;  // null: the template has no mapped steps
    Datum* traceparents;
    bool* no_traceparent;
    Datum* tracestates;
    bool* no_tracestate;
    int n;
};

// A start of tasks of one template.
struct Start {
    dag::StartTables tables;
    dag::Template form;
    NewTasks tasks;
    AttrNumber step_numbers[NewStep::columns];
    AttrNumber edge_numbers[lengthof(edge_columns)];
    ExprState** defaults;  // by attribute of steps; null: the column has none, or is written
    dag::NewRows* steps;
    dag::NewRows* edges;
    int32* totals;  // of each task: its steps, and those that wait for none
    int32* ready;
};

// False if a column is missing or of another type, or may not be inserted by the caller.
bool find_column(Relation table, const ColumnOf& wanted, AttrNumber* found) {
    const int number = SPI_fnumber(RelationGetDescr(table), wanted.name);
    if (number <= 0) return false;
    const FormData_pg_attribute* column = TupleDescAttr(RelationGetDescr(table), number - 1);
    *found = static_cast<AttrNumber>(number);
    return column->atttypid == wanted.type && column->attgenerated == '\0' && column->attidentity == '\0' &&
           (pg_class_aclcheck(RelationGetRelid(table), GetUserId(), ACL_INSERT) == ACLCHECK_OK ||
            pg_attribute_aclcheck(RelationGetRelid(table), *found, GetUserId(), ACL_INSERT) == ACLCHECK_OK);
}

bool is_written(const Start& start, AttrNumber attribute) {
    for (const AttrNumber number : start.step_numbers)
        if (number == attribute) return true;
    return false;
}

// A domain of a column that is not written can reject its default, or null.
bool others_are_plain(const Start& start) {
    TupleDesc descriptor = RelationGetDescr(start.tables.steps);
    for (int i = 0; i < descriptor->natts; ++i) {
        const FormData_pg_attribute* column = TupleDescAttr(descriptor, i);
        if (!column->attisdropped && !is_written(start, column->attnum) &&
            get_typtype(column->atttypid) == TYPTYPE_DOMAIN)
            return false;
    }
    return true;
}

bool find_columns(Start& start) {
    for (int i = 0; i < NewStep::columns; ++i)
        if (!find_column(start.tables.steps, step_columns[i], &start.step_numbers[i])) return false;
    for (std::size_t i = 0; i < lengthof(edge_columns); ++i)
        if (!find_column(start.tables.edges, edge_columns[i], &start.edge_numbers[i])) return false;
    return others_are_plain(start) && RelationGetDescr(start.tables.edges)->natts == lengthof(edge_columns);
}

void prepare_defaults(Start& start) {
    Relation table = start.tables.steps;
    const int n = RelationGetDescr(table)->natts;
    start.defaults = static_cast<ExprState**>(palloc0(sizeof(ExprState*) * n));
    for (int i = 0; i < n; ++i) {
        if (TupleDescAttr(RelationGetDescr(table), i)->attisdropped || is_written(start, i + 1)) continue;
        auto* expression = reinterpret_cast<Expr*>(build_column_default(table, i + 1));
        if (expression != nullptr) start.defaults[i] = ExecPrepareExpr(expression, start.steps->table.estate);
    }
}

// Adds a row of steps: what a start writes, and the defaults of the other columns.
void add_step(Start& start, const NewStep& row) {
    const int n = RelationGetDescr(start.tables.steps)->natts;
    ExprContext* context = GetPerTupleExprContext(start.steps->table.estate);
    Datum values[MaxTupleAttributeNumber];
    bool nulls[MaxTupleAttributeNumber];
    memset(nulls, true, sizeof(bool) * n);
    for (int i = 0; i < n; ++i)
        if (start.defaults[i] != nullptr) values[i] = ExecEvalExprSwitchContext(start.defaults[i], context, &nulls[i]);
    for (int i = 0; i < NewStep::columns; ++i) {
        values[start.step_numbers[i] - 1] = row.values[i];
        nulls[start.step_numbers[i] - 1] = row.nulls[i];
    }
    dag::add_row(start.steps, values, nulls);
    ResetExprContext(context);
}

// The steps of a task that one of the template becomes.
void add_steps(Start& start, int task, const dag::TaskForm& form, int number) {
    const dag::TemplateStep& of = start.form.steps[number];
    const NewTasks& tasks = start.tasks;
    NewStep row = of.row;
    row.set(NewStep::task, tasks.ids[task]);
    row.set(NewStep::rank, tasks.ranks[task]);
    row.set(NewStep::parents, Int32GetDatum(form.parents[number]));
    row.set(NewStep::unsatisfied, Int32GetDatum(form.parents[number]));
    row.set(NewStep::traceparent, tasks.traceparents[task], tasks.no_traceparent[task]);
    row.set(NewStep::tracestate, tasks.tracestates[task], tasks.no_tracestate[task]);
    const int n = form.size(number);
    for (int i = 0; i < n; ++i) {
        row.set(NewStep::step, UUIDPGetDatum(&form.ids[number][i]));
        if (of.map_over != 0) {
            const char* name = text_to_cstring(DatumGetTextPP(of.row.values[NewStep::name]));
            row.set(NewStep::name, CStringGetTextDatum(psprintf("%s[%d]", name, i)));
            row.set(NewStep::map_index, Int32GetDatum(i));
            row.set(NewStep::options, dag::options_of_element(of, &form.elements[number].items[i], i));
        }
        add_step(start, row);
    }
    start.totals[task] += n;
    if (form.parents[number] == 0) start.ready[task] += n;
}

void add_edges(Start& start, int task, const dag::TaskForm& form) {
    const AttrNumber* numbers = start.edge_numbers;
    Datum values[lengthof(edge_columns)];
    bool nulls[lengthof(edge_columns)] = {};
    values[numbers[0] - 1] = start.tasks.ids[task];
    for (int i = 0; i < form.nlinks; ++i) {
        const dag::Link& link = form.links[i];
        for (int parent = 0; parent < form.size(link.parent); ++parent) {
            for (int child = 0; child < form.size(link.child); ++child) {
                values[numbers[1] - 1] = UUIDPGetDatum(&form.ids[link.parent][parent]);
                values[numbers[2] - 1] = UUIDPGetDatum(&form.ids[link.child][child]);
                dag::add_row(start.edges, values, nulls);
            }
        }
    }
}

// nulls: null: no element may be.
Datum* array_argument(FunctionCallInfo fcinfo, int argument, Oid type, bool** nulls, int* n) {
    if (PG_ARGISNULL(argument)) return nullptr;
    int16 length;
    bool by_value;
    char alignment;
    get_typlenbyvalalign(type, &length, &by_value, &alignment);
    Datum* values;
    deconstruct_array(PG_GETARG_ARRAYTYPE_P(argument), type, length, by_value, alignment, &values, nulls, n);
    return values;
}

// 22004 if what a start tells of each task is null, 2202E if the lists differ in length.
NewTasks tasks_of(FunctionCallInfo fcinfo, bool mapped) {
    NewTasks read = {};
    read.ids = array_argument(fcinfo, tasks, UUIDOID, nullptr, &read.n);
    int n[4] = {0, 0, 0, read.n};
    read.ranks = array_argument(fcinfo, ranks, FLOAT8OID, nullptr, &n[0]);
    read.traceparents = array_argument(fcinfo, traceparents, TEXTOID, &read.no_traceparent, &n[1]);
    read.tracestates = array_argument(fcinfo, tracestates, TEXTOID, &read.no_tracestate, &n[2]);
    if (mapped) read.contexts = array_argument(fcinfo, contexts, JSONBOID, nullptr, &n[3]);
    for (const int each : n)
        if (each != read.n) ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("tasks are uneven")));
    return read;
}

int32* counts(int n) {
    return static_cast<int32*>(palloc0(sizeof(int32) * Max(n, 1)));
}

void write_tasks(Start& start) {
    MemoryContext of_task = AllocSetContextCreate(CurrentMemoryContext, "pawl new task", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(of_task);
    for (int i = 0; i < start.tasks.n; ++i) {
        const Datum context = start.form.mapped ? start.tasks.contexts[i] : 0;
        const dag::TaskForm form = dag::form_task(start.form, context);
        for (int number = 0; number < start.form.nsteps; ++number) add_steps(start, i, form, number);
        add_edges(start, i, form);
        MemoryContextReset(of_task);
    }
    MemoryContextSwitchTo(caller);
}

// The number of steps of each task, then of those that wait for none.
Datum counts_of(const Start& start) {
    const int n = start.tasks.n;
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(2 * n, 1)));
    for (int i = 0; i < n; ++i) {
        values[i] = Int32GetDatum(start.totals[i]);
        values[n + i] = Int32GetDatum(start.ready[i]);
    }
    return PointerGetDatum(construct_array(values, 2 * n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
}

Datum insert_steps(FunctionCallInfo fcinfo, Start& start, Member* member) {
    MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    start.form = dag::read_template(member->bindings[0], PG_GETARG_DATUM(template_uuid), PG_GETARG_TEXT_PP(queue),
                                    PG_GETARG_INT32(priority));
    start.tasks = tasks_of(fcinfo, start.form.mapped);
    start.totals = counts(start.tasks.n);
    start.ready = counts(start.tasks.n);
    start.steps = dag::begin_rows(start.tables.steps, member);
    start.edges = dag::begin_rows(start.tables.edges, nullptr);
    prepare_defaults(start);
    write_tasks(start);
    dag::end_rows(start.steps);
    dag::end_rows(start.edges);
    MemoryContextSwitchTo(caller);
    const Datum counted = counts_of(start);
    SPI_finish();
    return counted;
}

// A start has tasks, and says all of them that its template needs.
bool are_complete(FunctionCallInfo fcinfo) {
    for (const int argument : {template_uuid, queue, priority, tasks, ranks, traceparents, tracestates})
        if (PG_ARGISNULL(argument)) return false;
    return true;
}

}  // namespace

// pawl_dag._insert_steps(template, namespace, priority, tasks, ranks, contexts, traceparents, tracestates). Other
// statements than those of a start are no reason to trust what they pass: null.
PAWL_FUNCTION(pawl_dag_insert_steps) {
    fcinfo->isnull = true;
    if (!dag::is_at_work() || !are_complete(fcinfo)) return static_cast<Datum>(0);
    Start start = {};
    const bool fits = pg::call([&] {
        start.tables = dag::open_start_tables();
        return dag::are_plain(start.tables) && find_columns(start);
    });
    Member* member = fits ? find_member(start.tables.steps) : nullptr;
    const Datum counted = pg::call([&] {
        const Datum made = member == nullptr ? 0 : insert_steps(fcinfo, start, member);
        dag::close_start_tables(start.tables);
        return made;
    });
    fcinfo->isnull = member == nullptr;
    return counted;
}

}  // namespace pawl
