// May ereport; owns nothing. See counts.hpp.
#include "packs/saga/counts.hpp"

#include <utility>

#include "pg/spi.hpp"

namespace pawl::saga {

namespace {

// The statements of one direction. Parameters of the first: definitions and nodes. It returns the ordinal of each, and
// for each node next to it its number, its kind, and whether the database examines it before it may begin.
// Parameters of the others: flow, node, by how much it is counted down, and whether it may begin. They return flow and
// node, and whether the node is passed in its turn, is to be examined, can be claimed. Where tasks are started, those
// of the queue of the fifth parameter are, if they rank before the task of the other three (priority, flow and node;
// null: all are), and their rows are returned.
struct Statements {
    RowsStatement next;
    RowsStatement tasks;
    RowsStatement started;
    RowsStatement retries;
    RowsStatement junctions;
};

#define PASSED(columns, this_end)                                                         \
    "SELECT p.n, " columns                                                                \
    " FROM unnest($1, $2) WITH ORDINALITY p(definition, node, n) JOIN pawl_saga.edges e " \
    "ON e.definition_uuid = p.definition AND e." this_end " = p.node",                    \
        "SELECT 1::bigint, " columns " FROM pawl_saga.edges e WHERE e.definition_uuid = $1 AND e." this_end " = $2"
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

constexpr Statements forward = {
    {PASSED("e.to_node, e.to_kind, e.to_careful", "from_node")},
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

constexpr Statements backward = {
    {PASSED("e.from_node, e.from_kind, false", "to_node")},
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
#undef PASSED

enum class Kind { task, retry, junction };

// A node next to some that were passed.
struct Next {
    Flow* flow;
    int32 number;
    Kind kind;
    int32 passed;  // how many of the nodes that it waits for
    bool begins;   // it begins when nothing blocks it any more, without being examined
};

struct NextNodes {
    Next* items;
    int n;
};

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
    Counting(const Statements& statements, const Flows& flows, Binding& plans, Intent& intent, Nodes& ready,
             Starting* starting)
        : statements_(statements), flows_(flows), plans_(plans), intent_(intent), ready_(ready), starting_(starting) {}

    void pass(Nodes passed) {
        while (passed.n > 0) {
            const NextNodes next = next_to(passed);
            passed.n = 0;
            count("tasks", statements_.tasks, Kind::task, next, passed);
            count("junctions", statements_.junctions, Kind::junction, next, passed);
            count("retries", statements_.retries, Kind::retry, next, passed);
        }
    }

private:
    NextNodes next_to(const Nodes& passed) {
        auto* definitions = static_cast<Datum*>(palloc(sizeof(Datum) * passed.n));
        auto* numbers = static_cast<Datum*>(palloc(sizeof(Datum) * passed.n));
        for (int i = 0; i < passed.n; ++i) {
            definitions[i] = UUIDPGetDatum(&passed.items[i].flow->definition);
            numbers[i] = Int32GetDatum(passed.items[i].number);
        }
        Parameters parameters = {};
        parameters.add_column(UUIDOID, definitions, passed.n);
        parameters.add_column(INT4OID, numbers, passed.n);
        const int n = static_cast<int>(run_planned(plans_, statements_.next, passed.n, parameters));
        SPITupleTable* found = SPI_tuptable;
        NextNodes next = {static_cast<Next*>(palloc(sizeof(Next) * Max(n, 1))), n};
        for (int i = 0; i < n; ++i) {
            Flow* flow = passed.items[DatumGetInt64(pg::value_of(found, i, 1)) - 1].flow;
            next.items[i] = {flow, DatumGetInt32(pg::value_of(found, i, 2)),
                             kind_of(pg::view(DatumGetTextPP(pg::value_of(found, i, 3)))), 1,
                             flow->begins && !DatumGetBool(pg::value_of(found, i, 4))};
        }
        return merged(next);
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
        return {next.items, kept};
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
        const bool starts = kind == Kind::task && statements_.started.one != nullptr && starting_ != nullptr &&
                            asked <= starting_->room;
        const int n =
            starts ? start(asked, parameters) : static_cast<int>(run_planned(plans_, statement, asked, parameters));
        SPITupleTable* counted = SPI_tuptable;
        for (int i = 0; i < n; ++i) {
            Flow* flow = flows_.find(*DatumGetUUIDP(pg::value_of(counted, i, 1)));
            const int32 number = DatumGetInt32(pg::value_of(counted, i, 2));
            if (DatumGetBool(pg::value_of(counted, i, 3))) passed.add(flow, number);
            if (DatumGetBool(pg::value_of(counted, i, 4))) ready_.add(flow, number);
            const bool claimable = DatumGetBool(pg::value_of(counted, i, 5));
            const bool started = starts && add_started(counted, i);
            if (claimable || started) flow->began = true;
            if (claimable) note_missed();
        }
        for (int i = 0; kind == Kind::retry && i < next.n; ++i)
            if (next.items[i].kind == kind) ready_.add(next.items[i].flow, next.items[i].number);
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
        const int n = static_cast<int>(run_planned(plans_, statements_.started, asked, parameters));
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
        starting_->decided |= statements_.started.one == nullptr;
    }

    static Oid relation_of(const char* table) {
        return get_relname_relid(table, get_namespace_oid("pawl_saga", false));
    }

    const Statements& statements_;
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

void note_starting(Starting* starting) noexcept {
    noted_starting = starting;
}

void Nodes::add(Flow* flow, int32 number) {
    if (n == room) {
        room = room == 0 ? 8 : 2 * room;
        const Size size = static_cast<Size>(room) * sizeof(Node);
        items = static_cast<Node*>(items == nullptr ? MemoryContextAllocHuge(CurrentMemoryContext, size)
                                                    : repalloc_huge(items, size));
    }
    items[n++] = {flow, number};
}

void pass(Way way, Nodes passed, const Flows& flows, Binding& plans, Intent& intent, Nodes& ready, Starting* starting) {
    intent.column = "state";
    Counting(way == Way::forward ? forward : backward, flows, plans, intent, ready, starting).pass(passed);
}

}  // namespace pawl::saga
