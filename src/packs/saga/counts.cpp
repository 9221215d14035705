// May ereport; owns nothing. See counts.hpp.
#include "packs/saga/counts.hpp"

#include <utility>

#include "pg/index_look.hpp"
#include "pg/row_trigger.hpp"
#include "pg/spi.hpp"

namespace pawl::saga {

namespace {

enum Column { definition, from_node, to_node, from_kind, to_kind, to_careful };
constexpr Oid types[] = {UUIDOID, INT4OID, INT4OID, TEXTOID, TEXTOID, BOOLOID};
pg::Table<6> edges = {
    "pawl_saga", "edges", {"definition_uuid", "from_node", "to_node", "from_kind", "to_kind", "to_careful"}, {}};

// The edges that begin at a node, or those that end at it.
struct Edges {
    const char* index;
    Column keys[2];  // the first columns of the index
    Column next;
    Column kind;
};

constexpr Edges forward_edges = {"edges_pkey", {definition, from_node}, to_node, to_kind};
constexpr Edges backward_edges = {"edges_back", {to_node, definition}, from_node, from_kind};

// How nodes are counted down in one direction. Parameters of the statements: flow, node, by how much it is counted
// down, and whether it may begin. They return flow and node, and whether the node is passed in its turn, is to be
// examined, can be claimed. Where tasks are started, those of the queue of the fifth parameter are, if they rank before
// the task of the other three (priority, flow and node; null: all are), and their rows are returned.
struct Direction {
    Edges edges;
    bool examines;  // careful nodes before they may begin
    RowsStatement tasks;
    RowsStatement started;
    RowsStatement retries;
    RowsStatement junctions;
};

#define COUNTED_DOWN(table, what, rest)                                                                               \
    "UPDATE pawl_saga." table " x SET blockers = x.blockers - d.n" what                                               \
    " FROM unnest($1, $2, $3, $4) d(flow, node, n, begins) WHERE x.flow_uuid = d.flow AND x.node = d.node AND " rest, \
        "UPDATE pawl_saga." table " x SET blockers = x.blockers - d.n" what                                           \
        " FROM (SELECT $1, $2, $3, $4) d(flow, node, n, begins) "                                                     \
        "WHERE x.flow_uuid = d.flow AND x.node = d.node AND " rest

#define BEGINS "x.blockers = d.n AND x.state = 'PENDING' AND x.intention = 'EXECUTE' AND d.begins"
#define IS_NEXT \
    "x.queue = $5 AND ($6 IS NULL OR x.priority > $6 OR x.priority = $6 AND (x.flow_uuid, x.node) < ($7, $8))"
#define PASSED_OR_EXAMINED                                    \
    "x.intention <> 'REVERT' RETURNING x.flow_uuid, x.node, " \
    "x.blockers = 0 AND x.state IN ('SUCCESS', 'IGNORE'), x.blockers = 0 AND x.state = 'PENDING' AND NOT d.begins, "

constexpr Direction forward = {
    forward_edges,
    true,
    {COUNTED_DOWN("tasks", ", due_at = CASE WHEN " BEGINS " THEN NULL ELSE x.due_at END",
                  PASSED_OR_EXAMINED "x.blockers = 0 AND x.state = 'PENDING' AND x.due_at IS NULL")},
    {COUNTED_DOWN("tasks",
                  ", due_at = CASE WHEN " BEGINS " THEN NULL ELSE x.due_at END, "
                  "state = CASE WHEN " BEGINS " AND " IS_NEXT " THEN 'RUNNING' ELSE x.state END",
                  PASSED_OR_EXAMINED "x.blockers = 0 AND x.state = 'PENDING' AND x.due_at IS NULL, "
                                     "CASE WHEN x.blockers = 0 AND x.state = 'RUNNING' THEN x END")},
    {COUNTED_DOWN("retries", "",
                  "x.intention IN ('EXECUTE', 'IGNORE') RETURNING x.flow_uuid, x.node, "
                  "x.blockers = 0 AND x.state IN ('SUCCESS', 'IGNORE'), false, false")},
    {COUNTED_DOWN("junctions", "", "NOT x.backward RETURNING x.flow_uuid, x.node, x.blockers = 0, false, false")}};

constexpr Direction backward = {
    backward_edges,
    false,
    {COUNTED_DOWN("tasks",
                  ", due_at = CASE WHEN x.blockers = d.n AND d.begins AND (x.state = 'SUCCESS' OR x.state = 'FAILURE' "
                  "AND pawl_saga._is_decided(x.flow_uuid, x.node)) THEN NULL ELSE x.due_at END",
                  "x.intention = 'REVERT' RETURNING x.flow_uuid, x.node, "
                  "x.blockers = 0 AND x.state IN ('PENDING', 'REVERTED', 'IGNORE'), false, "
                  "x.blockers = 0 AND x.due_at IS NULL AND x.state IN ('SUCCESS', 'FAILURE')")},
    {nullptr, nullptr},
    {COUNTED_DOWN("retries", "",
                  "x.intention IN ('REVERT', 'RETRY') RETURNING x.flow_uuid, x.node, x.blockers = 0 "
                  "AND x.intention = 'REVERT' AND x.state IN ('PENDING', 'REVERTED', 'IGNORE'), false, false")},
    {COUNTED_DOWN("junctions", "", "x.backward RETURNING x.flow_uuid, x.node, x.blockers = 0, false, false")}};

#undef PASSED_OR_EXAMINED
#undef IS_NEXT
#undef BEGINS
#undef COUNTED_DOWN

enum class Kind { task, retry, junction };

// A node next to some that were passed.
struct Next {
    Flow* flow;
    int32 number;
    Kind kind;
    int32 passed;  // how many of the nodes that it waits for
    bool begins;   // it begins when nothing blocks it any more, without being examined
};

using NextNodes = List<Next>;

Kind kind_of(std::string_view kind) {
    if (kind == "task") return Kind::task;
    return kind == "retry" ? Kind::retry : Kind::junction;
}

int by_flow_and_number(const void* left, const void* right) {
    const auto* a = static_cast<const Next*>(left);
    const auto* b = static_cast<const Next*>(right);
    if (a->flow != b->flow) return a->flow < b->flow ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

class Counting {
public:
    Counting(const Direction& direction, const Flows& flows, Binding& plans, Intent& intent, Nodes& ready,
             Starting* starting)
        : direction_(direction), flows_(flows), plans_(plans), intent_(intent), ready_(ready), starting_(starting) {}

    void pass(Nodes passed) {
        while (passed.n > 0) {
            const NextNodes next = merged(next_to(passed));
            passed.n = 0;
            count("tasks", direction_.tasks, Kind::task, next, passed);
            count("junctions", direction_.junctions, Kind::junction, next, passed);
            count("retries", direction_.retries, Kind::retry, next, passed);
        }
    }

private:
    NextNodes next_to(const Nodes& passed) {
        Relation table = table_open(relation_of(edges.name), AccessShareLock);
        edges.find_columns(RelationGetDescr(table), types);
        NextNodes next = {};
        for (int i = 0; i < passed.n; ++i) {
            ScanKeyData keys[2];
            for (int k = 0; k < 2; ++k) compare(keys[k], direction_.edges.keys[k], passed.items[i]);
            pg::visit_matches(table, direction_.edges.index, keys, 2, GetTransactionSnapshot(), [&](HeapTuple edge) {
                next.add(next_over(edge, RelationGetDescr(table), passed.items[i].flow));
                return true;
            });
        }
        table_close(table, AccessShareLock);
        return next;
    }

    static void compare(ScanKeyData& key, Column column, const Node& node) {
        const bool with_definition = column == definition;
        ScanKeyInit(&key, edges.numbers[column], BTEqualStrategyNumber, with_definition ? F_UUID_EQ : F_INT4EQ,
                    with_definition ? UUIDPGetDatum(&node.flow->definition) : Int32GetDatum(node.number));
    }

    Next next_over(HeapTuple edge, TupleDesc descriptor, Flow* flow) const {
        auto of = [&](Column column) {
            bool null;
            return heap_getattr(edge, edges.numbers[column], descriptor, &null);
        };
        const bool examined = direction_.examines && DatumGetBool(of(to_careful));
        return {flow, DatumGetInt32(of(direction_.edges.next)),
                kind_of(pg::view(DatumGetTextPP(of(direction_.edges.kind)))), 1, flow->begins && !examined};
    }

    static NextNodes merged(NextNodes next) {
        qsort(next.items, static_cast<std::size_t>(next.n), sizeof(Next), by_flow_and_number);
        int kept = 0;
        for (int i = 0; i < next.n; ++i) {
            if (kept > 0 && by_flow_and_number(&next.items[kept - 1], &next.items[i]) == 0)
                next.items[kept - 1].passed++;
            else
                next.items[kept++] = next.items[i];
        }
        next.n = kept;
        return next;
    }

    // The nodes of one kind, as parameters. Returns how many there are.
    static int add_parameters(const NextNodes& next, Kind kind, Parameters& parameters) {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(next.n, 1)));
        int n = 0;
        auto column = [&](auto value) {
            n = 0;
            for (int i = 0; i < next.n; ++i)
                if (next.items[i].kind == kind) values[n++] = value(next.items[i]);
            return values;
        };
        column([](const Next& node) { return UUIDPGetDatum(&node.flow->id); });
        if (n == 0) return 0;
        parameters.add_column(UUIDOID, values, n);
        column([](const Next& node) { return Int32GetDatum(node.number); });
        parameters.add_column(INT4OID, values, n);
        column([](const Next& node) { return Int32GetDatum(node.passed); });
        parameters.add_column(INT4OID, values, n);
        column([](const Next& node) { return BoolGetDatum(node.begins); });
        parameters.add_column(BOOLOID, values, n);
        return n;
    }

    // Counts the nodes of one kind down. Retries are examined in any case.
    void count(const char* table, const RowsStatement& statement, Kind kind, const NextNodes& next, Nodes& passed) {
        Parameters parameters = {};
        const int asked = add_parameters(next, kind, parameters);
        if (asked == 0) return;
        intent_.root = kind == Kind::junction ? InvalidOid : relation_of(table);
        const bool starts =
            kind == Kind::task && direction_.started.one != nullptr && starting_ != nullptr && asked <= starting_->room;
        const int n =
            starts ? start(asked, parameters) : static_cast<int>(run_planned(plans_, statement, asked, parameters));
        SPITupleTable* counted = SPI_tuptable;
        for (int i = 0; i < n; ++i) {
            Flow* flow = flows_.find(*DatumGetUUIDP(pg::value_of(counted, i, 1)));
            const int32 number = DatumGetInt32(pg::value_of(counted, i, 2));
            if (DatumGetBool(pg::value_of(counted, i, 3))) passed.add({flow, number});
            if (DatumGetBool(pg::value_of(counted, i, 4))) ready_.add({flow, number});
            const bool claimable = DatumGetBool(pg::value_of(counted, i, 5));
            const bool started = starts && add_started(counted, i);
            if (claimable || started) flow->began = true;
            if (claimable) note_missed();
        }
        for (int i = 0; kind == Kind::retry && i < next.n; ++i)
            if (next.items[i].kind == kind) ready_.add({next.items[i].flow, next.items[i].number});
    }

    // Counts tasks down, and starts those that nothing blocks any more, and that rank first, for the worker.
    int start(int asked, Parameters& parameters) {
        const Rank* waiting = starting_->waiting;
        const bool none = waiting == nullptr;
        parameters.add(TEXTOID, PointerGetDatum(starting_->queue));
        parameters.add(INT4OID, none ? 0 : Int32GetDatum(waiting->priority), none);
        parameters.add(UUIDOID, none ? 0 : UUIDPGetDatum(&waiting->flow), none);
        parameters.add(INT4OID, none ? 0 : Int32GetDatum(waiting->node), none);
        intent_.processor = starting_->worker;
        intent_.lease = starting_->lease;
        const int n = static_cast<int>(run_planned(plans_, direction_.started, asked, parameters));
        intent_.processor = nullptr;
        intent_.lease = nullptr;
        return n;
    }

    // Whether the task was started.
    bool add_started(SPITupleTable* counted, int row) {
        bool null;
        const Datum started = SPI_getbinval(counted->vals[row], counted->tupdesc, 6, &null);
        if (null) return false;
        HeapTupleData tuple = {};
        tuple.t_data = DatumGetHeapTupleHeader(started);
        tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
        MemoryContext caller = MemoryContextSwitchTo(starting_->memory);
        starting_->rows[starting_->n++] = heap_copytuple(&tuple);
        MemoryContextSwitchTo(caller);
        --starting_->room;
        return true;
    }

    void note_missed() {
        if (starting_ == nullptr) return;
        starting_->missed = true;
        starting_->decided |= direction_.started.one == nullptr;
    }

    static Oid relation_of(const char* table) {
        return get_relname_relid(table, get_namespace_oid("pawl_saga", false));
    }

    const Direction& direction_;
    const Flows& flows_;
    Binding& plans_;
    Intent& intent_;
    Nodes& ready_;
    Starting* starting_;
};

Starting* noted_starting = nullptr;

}  // namespace

Starting* take_starting() noexcept {
    return std::exchange(noted_starting, nullptr);
}

Starting* take_starting(int under_way) noexcept {
    return noted_starting != nullptr && noted_starting->under_way == under_way ? take_starting() : nullptr;
}

void note_starting(Starting* starting) noexcept {
    noted_starting = starting;
}

void pass(Way way, Nodes passed, const Flows& flows, Binding& plans, Intent& intent, Nodes& ready, Starting* starting) {
    intent.column = "state";
    Counting(way == Way::forward ? forward : backward, flows, plans, intent, ready, starting).pass(passed);
}

}  // namespace pawl::saga
