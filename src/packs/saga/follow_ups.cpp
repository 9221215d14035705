// May throw and may ereport. What follows from the ends of atoms: nodes next to them are counted down, in C++ with kept
// plans; what nothing blocks any more is examined and failures are decided by pawl_saga._follow_on; flows in which
// nothing more can be done come to their end.
#include "packs/saga/follow_ups.hpp"

#include <utility>

#include "fire/target.hpp"
#include "packs/saga/counts.hpp"
#include "packs/saga/following.hpp"
#include "pg/row_trigger.hpp"
#include "pg/spi.hpp"

namespace pawl::saga {

namespace {

#define AT_REST(which)                                                                                        \
    "SELECT f.flow_uuid, pawl_saga._outcome(f) FROM pawl_saga.flows f WHERE f.flow_uuid = " which             \
    " AND f.state IN ('RUNNING', 'SUSPENDING') AND NOT EXISTS (SELECT FROM pawl_saga.tasks t "                \
    "WHERE t.flow_uuid = f.flow_uuid AND (t.state = 'RUNNING' OR t.state = 'REVERTING' OR (t.due_at IS NULL " \
    "AND t.state = ANY ('{PENDING,SUCCESS,FAILURE,REVERT_FAILURE}'::text[]))))"
#define END(source) \
    "UPDATE pawl_saga.flows f SET state = r.outcome FROM " source " r(flow, outcome) WHERE f.flow_uuid = r.flow"
constexpr RowsStatement flows_at_rest = {AT_REST("ANY ($1)"), AT_REST("$1")};
constexpr RowsStatement end_flows = {END("unnest($1, $2)"), END("(SELECT $1, $2)")};
#undef END
#undef AT_REST

bool is(Datum value, std::string_view word) {
    return pg::view(DatumGetTextPP(value)) == word;
}

bool is_reverted(const Atom& atom) {
    return atom.blockers == 0 && is(atom.state, "REVERTED") && is(atom.intention, "REVERT");
}

bool is_done(const Atom& atom) {
    return atom.blockers == 0 && (is(atom.state, "SUCCESS") || is(atom.state, "IGNORE")) &&
           (is(atom.intention, "EXECUTE") || is(atom.intention, "IGNORE"));
}

template <typename Value>
Datum* of_atoms(const Ended& ended, Value value) {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * ended.n));
    for (int i = 0; i < ended.n; ++i) values[i] = value(ended.atoms[i]);
    return values;
}

template <typename Value>
Datum array_of_atoms(const Ended& ended, Oid type, Value value) {
    return pg::array_of(of_atoms(ended, value), ended.n, type);
}

Datum failures_of(const Ended& ended) {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * ended.n));
    auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * ended.n));
    for (int i = 0; i < ended.n; ++i) {
        values[i] = ended.atoms[i].failure.value;
        nulls[i] = ended.atoms[i].failure.isnull;
    }
    return pg::array_of(values, ended.n, JSONBOID, nulls);
}

// What follows from the ends of some atoms. Ereports; runs inside SPI.
class FollowUp {
public:
    FollowUp(const Ended& ended, Binding& plans, Starting* starting)
        : ended_(ended), plans_(plans), starting_(starting) {}

    // The outermost follow-up locks the flows, which another transaction may just be changing. A report that starts
    // tasks has locked its flows, and read them as they are until the first follow-up.
    void find_flows(bool outermost) {
        const Flows* locked = starting_ == nullptr ? nullptr : std::exchange(starting_->locked, nullptr);
        if (locked != nullptr && !has_any_changed(ended_.since)) {
            flows_ = copied(*locked);
            return;
        }
        Datum* keys = of_atoms(ended_, [](const Atom& atom) { return UUIDPGetDatum(&atom.flow); });
        flows_ = read_flows(keys, ended_.n, outermost && starting_ == nullptr ? Rows::locked : Rows::read, plans_);
        note_changes();
    }

    // All is counted before a node is examined, which can count its flow anew, or hold it.
    void count(Intent& intent) {
        pass(Way::forward, atoms_that(is_done), flows_, plans_, intent, ready_, starting_);
        pass(Way::backward, atoms_that(is_reverted), flows_, plans_, intent, ready_, starting_);
    }

    // Flows that a user's trigger changed before their atoms were counted, or meanwhile. What it had counted contains
    // these atoms, and their flow may no longer be one that goes on.
    void count_changed() {
        note_changes();
        auto* flows = static_cast<Datum*>(palloc(sizeof(Datum) * Max(flows_.n, 1)));
        int n = 0;
        for (int i = 0; i < flows_.n; ++i)
            if (flows_.items[i].changed) flows[n++] = UUIDPGetDatum(&flows_.items[i].id);
        if (n == 0) return;
        if (starting_ != nullptr) starting_->decided = true;
        OidFunctionCall1(pg::function_of("pawl_saga", "_count_anew"), pg::array_of(flows, n, UUIDOID));
    }

    void go_on() {
        const bool failed =
            any([](const Atom& atom) { return is(atom.state, "FAILURE") || is(atom.state, "REVERT_FAILURE"); });
        // an atom that finished after it was decided that it is reverted
        const bool late = any([](const Atom& atom) { return is(atom.intention, "REVERT"); }) &&
                          any([](const Atom& atom) { return is(atom.state, "SUCCESS") || is(atom.state, "FAILURE"); });
        if (ready_.n == 0 && !failed && !late) return;
        if (starting_ != nullptr) starting_->decided = true;
        // by OID, without a check of privileges: only the owner may call it otherwise
        OidFunctionCall9(pg::function_of("pawl_saga", "_follow_on"),
                         array_of_atoms(ended_, UUIDOID, [](const Atom& atom) { return UUIDPGetDatum(&atom.flow); }),
                         array_of_atoms(ended_, INT4OID, [](const Atom& atom) { return Int32GetDatum(atom.node); }),
                         array_of_atoms(ended_, TEXTOID, [](const Atom& atom) { return atom.state; }),
                         array_of_atoms(ended_, TEXTOID, [](const Atom& atom) { return atom.intention; }),
                         failures_of(ended_), BoolGetDatum(ended_.tasks), BoolGetDatum(ended_.by_duty), ready_flows(),
                         ready_nodes());
        for (int i = 0; i < ready_.n; ++i) ready_.items[i].flow->began = false;
        if (failed || (late && !ended_.tasks))
            for (int i = 0; i < flows_.n; ++i) flows_.items[i].began = false;
    }

    void leave_ends() {
        for (int i = 0; i < flows_.n; ++i) leave_end(flows_.items[i].id);
    }

    // Looks for flows in which nothing can be claimed and nothing is in progress. Those in which something is ready
    // after all are left to pawl_saga._finish.
    void find_ends() {
        auto* flows = static_cast<Datum*>(palloc(sizeof(Datum) * Max(flows_.n, 1)));
        int n = 0;
        for (int i = 0; i < flows_.n; ++i) {
            const Flow& flow = flows_.items[i];
            const bool left = take_end(flow.id);
            if (is_uncounted(flow.id))
                leave_end(flow.id);
            else if (!flow.began || flow.changed || left)
                flows[n++] = UUIDPGetDatum(&flow.id);
        }
        if (n == 0) return;
        if (IsolationUsesXactSnapshot())
            OidFunctionCall1(pg::function_of("pawl_saga", "_check_progress"), pg::array_of(flows, n, UUIDOID));
        Parameters parameters = {};
        parameters.add_column(UUIDOID, flows, n);
        const int found = static_cast<int>(run_planned(plans_, flows_at_rest, n, parameters));
        SPITupleTable* resting = SPI_tuptable;
        ends_ = {flows, static_cast<Datum*>(palloc(sizeof(Datum) * n)), 0};
        left_ = {static_cast<Datum*>(palloc(sizeof(Datum) * n)), nullptr, 0};
        for (int i = 0; i < found; ++i) {
            const Datum flow = pg::value_of(resting, i, 1);
            const Datum outcome = pg::value_of(resting, i, 2);
            if (outcome == 0) continue;
            if (!is(outcome, "READY")) {
                ends_.outcomes[ends_.n] = outcome;
                ends_.flows[ends_.n++] = flow;
            } else
                left_.flows[left_.n++] = flow;
        }
    }

    bool has_ends() const { return ends_.n > 0; }

    void end(Intent& intent) {
        intent.root = get_relname_relid("flows", get_namespace_oid("pawl_saga", false));
        Parameters parameters = {};
        parameters.add_column(UUIDOID, ends_.flows, ends_.n);
        parameters.add_column(TEXTOID, ends_.outcomes, ends_.n);
        run_planned(plans_, end_flows, ends_.n, parameters);
    }

    // And flows whose ends other follow-ups have left, also of what follows from the ends of these.
    void finish_others() {
        if (left_.n > 0 || has_left_ends())
            OidFunctionCall1(pg::function_of("pawl_saga", "_finish"), pg::array_of(left_.flows, left_.n, UUIDOID));
    }

private:
    // Flows at rest.
    struct Resting {
        Datum* flows;
        Datum* outcomes;
        int n;
    };

    void note_changes() {
        if (!has_any_changed(ended_.since)) return;
        for (int i = 0; i < flows_.n; ++i) flows_.items[i].changed |= has_changed(flows_.items[i].id, ended_.since);
    }

    template <typename Condition>
    bool any(Condition condition) const {
        for (int i = 0; i < ended_.n; ++i)
            if (condition(ended_.atoms[i])) return true;
        return false;
    }

    // Of flows that go on, or will.
    template <typename Condition>
    Nodes atoms_that(Condition condition) const {
        Nodes nodes = {};
        for (int i = 0; i < ended_.n; ++i) {
            const Atom& atom = ended_.atoms[i];
            Flow* flow = flows_.find(atom.flow);
            if (flow != nullptr && flow->open && !flow->changed && condition(atom)) nodes.add({flow, atom.node});
        }
        return nodes;
    }

    Datum ready_flows() const {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(ready_.n, 1)));
        for (int i = 0; i < ready_.n; ++i) values[i] = UUIDPGetDatum(&ready_.items[i].flow->id);
        return pg::array_of(values, ready_.n, UUIDOID);
    }

    Datum ready_nodes() const {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(ready_.n, 1)));
        for (int i = 0; i < ready_.n; ++i) values[i] = Int32GetDatum(ready_.items[i].number);
        return pg::array_of(values, ready_.n, INT4OID);
    }

    const Ended& ended_;
    Binding& plans_;
    Starting* starting_;
    Flows flows_ = {};
    Nodes ready_ = {};
    Resting ends_ = {};  // with what they end as
    Resting left_ = {};  // for pawl_saga._finish
};

// Users' functions are not called where they could stop other flows than their own.
bool concerns_several_flows(const Ended& ended) {
    return memcmp(&ended.atoms[0].flow, &ended.atoms[ended.n - 1].flow, UUID_LEN) != 0;
}

}  // namespace

// pawl_saga._follow_up(internal): the argument is an Ended.
PAWL_FUNCTION(pawl_saga_follow_up) {
    const auto& ended = *reinterpret_cast<const Ended*>(PG_GETARG_POINTER(0));
    const bool outermost = begin_following(concerns_several_flows(ended));
    const Oid table = pg::call([] { return get_relname_relid("tasks", get_namespace_oid("pawl_saga", false)); });
    const Target tasks = open_target(table, "state");
    Starting* starting = outermost ? take_starting(statements_under_way()) : nullptr;
    FollowUp follow_up(ended, *tasks.binding, starting);
    {
        Intent intent = {};
        intent.any_token = true;
        const IntentScope scope(intent);
        pg::call([&] {
            SPI_connect();
            follow_up.find_flows(outermost);
            follow_up.count(intent);
        });
    }
    pg::call([&] {
        follow_up.count_changed();
        follow_up.go_on();
        if (outermost)
            follow_up.find_ends();
        else
            follow_up.leave_ends();
    });
    if (follow_up.has_ends()) {
        Intent intent = {};
        intent.column = "state";
        const IntentScope scope(intent);
        pg::call([&] { follow_up.end(intent); });
    }
    pg::call([&] {
        if (outermost) follow_up.finish_others();
        SPI_finish();
        close_target(tasks);
    });
    if (outermost) end_following();
    if (starting != nullptr) note_starting(starting);
    return static_cast<Datum>(0);
}

}  // namespace pawl::saga
