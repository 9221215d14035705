// May ereport; owns nothing (the SQL function may throw). See listed_events.hpp.
#include "guard/listed_events.hpp"

#include "guard/decide.hpp"
#include "guard/rejection.hpp"
#include "pg/arguments.hpp"
#include "pg/sqlstate.hpp"

namespace pawl {

namespace {

[[noreturn]] void reject_unknown_event(const Binding& binding, const EventList& events, int unknown) {
    ereport(
        ERROR,
        (errcode(sqlstate::unknown_object),
         errmsg("machine \"%s\" has no event \"%s\"", binding.machine->name, text_to_cstring(events.events[unknown])),
         errdetail("The events are %s; the machine has others of them.", quoted_events(events)),
         errhint("SELECT DISTINCT event FROM pawl.transitions(%s);", quote_literal_cstr(binding.machine->name)),
         pg::report_place(place_of(binding))));
}

// The events listed for this statement, if any can be: those of the setting, or null where only an intent lists some.
struct Listed {
    const EventList* setting;
    bool any;
};

Listed listed_here(Asking asking) {
    const EventList* setting = events_setting(asking);
    return {setting, setting != nullptr || intent_lists_events()};
}

bool are_several(const Binding& binding, const EventList* setting) {
    const Intent* intent = intent_for(binding.root, NameStr(binding.column));
    const EventList* events = intent != nullptr ? intent->events : setting;
    for (int i = 0; events != nullptr && events->n > 1 && i < events->n; ++i)
        if (binding.machine->machine->knows_event(view(events->events[i]))) return true;
    return false;
}

}  // namespace

const char* quoted_events(const EventList& events) {
    StringInfoData list;
    initStringInfo(&list);
    for (int i = 0; i < events.n; ++i)
        appendStringInfo(&list, "%s\"%s\"", i > 0 ? ", " : "", text_to_cstring(events.events[i]));
    return list.data;
}

const EventList* events_for(const Binding& binding, const Intent* intent) {
    const EventList* events = intent != nullptr ? intent->events : events_setting();
    if (events == nullptr) return nullptr;
    int known = 0, unknown = 0;
    for (int i = 0; i < events->n; ++i) {
        if (binding.machine->machine->knows_event(view(events->events[i])))
            ++known;
        else
            unknown = i;
    }
    if (known == 0) return nullptr;
    if (known < events->n) reject_unknown_event(binding, *events, unknown);
    return events;
}

bool may_lead_back(const Binding& binding, core::StateId state, const EventList& events) {
    if (state == core::no_state) return false;
    const core::Machine& machine = *binding.machine->machine;
    const std::size_t n = machine.states().size();
    auto* here = static_cast<bool*>(palloc0(n));
    here[state] = true;
    for (int i = 0; i < events.n; ++i) {
        auto* next = static_cast<bool*>(palloc0(n));
        for (std::size_t from = 0; from < n; ++from) {
            if (!here[from]) continue;
            for (std::int32_t transition : machine.leaving(static_cast<core::StateId>(from)))
                if (has_event(binding, transition, events.events[i])) next[machine.transitions()[transition].to] = true;
        }
        pfree(here);
        here = next;
    }
    const bool back = here[state];
    pfree(here);
    return back;
}

bool takes_list(Relation relation, Asking asking) {
    const Listed listed = pg::call([=] { return listed_here(asking); });
    if (!listed.any) return false;
    const Member* member = find_member(relation);
    return pg::call([&] {
        bool several = false;
        for (int i = 0; i < member->nbindings; ++i) several |= are_several(member->bindings[i], listed.setting);
        return several;
    });
}

void reject_list(Relation relation) {
    const char* table = pg::call([&] {
        return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
                                          RelationGetRelationName(relation));
    });
    throw pg::Failure(ERRCODE_FEATURE_NOT_SUPPORTED, std::string("rows of ") + table + " take one transition at a time",
                      "The statement lists several events.", "one UPDATE for each event");
}

void require_one_transition(Relation relation) {
    if (takes_list(relation, Asking::trigger)) reject_list(relation);
}

// pawl.takes_list(relation)
PAWL_FUNCTION(pawl_takes_list) {
    pg::require(fcinfo, 0, "relation");
    if (!pg::call([] { return listed_here(Asking::condition).any; })) return BoolGetDatum(false);
    Relation relation = pg::call([&] { return table_open(PG_GETARG_OID(0), NoLock); });
    const bool several = takes_list(relation, Asking::condition);
    pg::call([&] { table_close(relation, NoLock); });
    return BoolGetDatum(several);
}

}  // namespace pawl
