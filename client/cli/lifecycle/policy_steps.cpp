// May throw. See binding_plan.hpp: policies as steps.
#include <algorithm>
#include <set>

#include "lifecycle/binding_plan.hpp"
#include "lifecycle/sql_text.hpp"

namespace pawl::cli {
namespace {

const char* const share = "SHARE ROW EXCLUSIVE";
const char* const exclusive = "ACCESS EXCLUSIVE";

class PolicySteps {
public:
    PolicySteps(PlanContext& context, const TableEntry& entry, const std::string& table, const Settings& wanted,
                Settings& now)
        : context_(context), entry_(entry), table_(table), wanted_(wanted), now_(now) {}

    void weaken(bool upgrading);
    void set();

private:
    bool differs(const std::string& id) const { return !same_value(wanted_.at(id), now_.at(id)); }
    bool is_on(const Settings& settings, const char* id) const { return settings.at(id).get<bool>(); }
    bool call_differs(std::string_view call) const;
    std::string log() const;

    Step step(const std::string& what, const std::string& title) const;
    void add(Step step) { context_.plan.steps.push_back(std::move(step)); }
    void argue(Step& step, const Policy& policy, const Json& value);
    void locks_of(std::string_view call, bool weaker, Step& step) const;
    void reset(std::string_view call);

    bool log_is_replaced() const;
    void check_log();
    Settings weakened(bool upgrading);
    void weaken_call(const Call& call, const Settings& weak, bool upgrading);
    void weaken_whole(const Call& call, bool log_ends);
    Json weaker(const Policy& policy, bool upgrading) const;
    void end_log();
    void end_audit();
    void set_call(const Call& call);
    void begin_log();

    PlanContext& context_;
    const TableEntry& entry_;
    const std::string& table_;
    const Settings& wanted_;
    Settings& now_;
    std::set<std::string> forced_;
};

bool PolicySteps::call_differs(std::string_view call) const {
    return std::any_of(policies().begin(), policies().end(),
                       [&](const Policy& policy) { return policy.call == call && differs(policy.id()); });
}

std::string PolicySteps::log() const {
    return "the log of " + table_ + "." + entry_.column;
}

Step PolicySteps::step(const std::string& what, const std::string& title) const {
    return {.what = what, .title = title, .details = {}, .sql = call_of(what, table_, entry_.column)};
}

// Adds an argument with a value that `now` has from here on.
void PolicySteps::argue(Step& step, const Policy& policy, const Json& value) {
    step.sql += ", " + std::string(policy.argument) + " => " + sql_value(policy, value);
    Json& present = now_.at(policy.id());
    if (!same_value(present, value))
        step.details.push_back(policy.id() + ": " + shown_value(present) + " -> " + shown_value(value));
    present = value;
}

// weaker: something that was there is taken away or replaced, so an index can go.
void PolicySteps::locks_of(std::string_view call, bool weaker, Step& step) const {
    const bool has_indexes = call == "enable_queue" || call == "enable_timers" || call == "set_claiming";
    if (call == "audit") {
        step.locks.push_back({log(), share});
    } else if (call == "keep_log" || call == "keep_audit") {
        if (!wanted_.at("log.period").is_null() && call == "keep_log") step.locks.push_back({log(), exclusive});
    } else {
        step.locks.push_back({table_, weaker && (has_indexes || call == "enforce") ? exclusive : share});
        if (call == "set_placing") step.locks.push_back({log(), exclusive});
    }
    step.reads_table = step.reads_table || (has_indexes && is_on(wanted_, "validate"));
}

void PolicySteps::reset(std::string_view call) {
    for (const Policy& policy : policies())
        if (policy.call == call) now_[policy.id()] = policy.initial;
}

bool PolicySteps::log_is_replaced() const {
    return is_on(now_, "log") && is_on(wanted_, "log") && differs("log.log_name");
}

// A log is what it was made as.
void PolicySteps::check_log() {
    if (!is_on(now_, "log") || !is_on(wanted_, "log") || log_is_replaced()) return;
    for (const char* key : {"log.most_recent", "log.hash_chain", "log.log_partition"}) {
        if (!differs(key)) continue;
        context_.plan.problems.push_back(context_.lifecycle.file + ": " + log() + " cannot be changed: " + key +
                                         " is " + shown_value(now_.at(key)) + ", not " + shown_value(wanted_.at(key)) +
                                         "; begin another log by log_name, or write what it is");
        now_[key] = wanted_.at(key);
    }
}

void PolicySteps::end_audit() {
    Step end = step("unaudit", "end the audit of " + table_ + "." + entry_.column);
    end.details.push_back("its table stays");
    end.sql = "do " + dollar_quoted(
                          " begin\n    if exists (select from pawl.binding b join pawl.audit_binding a on a.log = "
                          "b.history\n            where b.relation = " +
                              literal(table_) + "::regclass and b.state_column = " + literal(entry_.column) +
                              ") then\n        perform pawl.unaudit(" + literal(table_) + ", " +
                              literal(entry_.column) + ");\n    end if;\nend ",
                          "unaudit");
    end.locks.push_back({log(), exclusive});
    end.removes = !is_on(wanted_, "audit");
    add(std::move(end));
    // what is declared of the audit's table stays with it
    if (!is_on(wanted_, "audit") || differs("audit.into_table")) now_["audit.keep"] = nullptr;
    now_["audit"] = false;
    reset("audit");
}

void PolicySteps::end_log() {
    Step end = step("enable_log", "end the log of " + table_ + "." + entry_.column);
    end.sql += ", log_name => '')";
    end.details.push_back("its entries stay; state changes are no longer logged");
    end.locks.push_back({table_, share});
    end.removes = true;
    add(std::move(end));
    now_["log"] = false;
    reset("enable_log");
}

// What a policy can be while the machine changes: something that both versions allow.
Json PolicySteps::weaker(const Policy& policy, bool upgrading) const {
    const Json& wanted = wanted_.at(policy.id());
    const Json& present = now_.at(policy.id());
    if (!differs(policy.id())) return present;
    if (is_none(policy, wanted)) return policy.initial;
    if (policy.call != "set_claiming" || !upgrading) return present;
    if (policy.shape != Shape::events) return policy.shape == Shape::text ? policy.initial : present;
    Json common = Json::array();
    for (const Json& event : present)
        if (std::find(wanted.begin(), wanted.end(), event) != wanted.end()) common.push_back(event);
    return common;
}

// All policies while the machine changes: what needs another policy goes with it.
Settings PolicySteps::weakened(bool upgrading) {
    Settings weak = now_;
    for (const Policy& policy : policies()) weak[policy.id()] = weaker(policy, upgrading);
    const auto goes = [&](const char* id, std::initializer_list<const char*> with_it) {
        const Policy& policy = *find_policy("claiming", id);
        const Json& value = weak[policy.id()];
        if (!is_none(policy, value) || same_value(value, now_.at(policy.id()))) return;
        for (const char* other : with_it) {
            weak[other] = initial_settings().at(other);
            forced_.insert(other);  // when a migration is run again, it may be there
        }
    };
    goes("claim", {"claiming.claim_order", "events.wake"});
    goes("retry", {"claiming.backoff", "claiming.backoff_column"});
    goes("on_expiry", {"claiming.on_expiry_else"});
    return weak;
}

void PolicySteps::weaken_call(const Call& call, const Settings& weak, bool upgrading) {
    Step step = this->step(std::string(call.name),
                           "take away what " + std::string(call.name) + " set on " + table_ + "." + entry_.column);
    bool any = false;
    for (const Policy& policy : policies()) {
        if (policy.call != call.name) continue;
        const Json& value = weak.at(policy.id());
        const bool is_forced = forced_.contains(policy.id()) && !is_none(policy, wanted_.at(policy.id()));
        if (!is_forced && same_value(value, now_.at(policy.id()))) continue;
        argue(step, policy, value);
        any = true;
    }
    if (!any) return;
    if (upgrading && call.name == "set_claiming") step.title = "release events for the upgrade of " + table_;
    step.sql += ")";
    locks_of(call.name, true, step);
    add(std::move(step));
}

// Functions that take all of their arguments: called with none where nothing is wanted any more, or another log begins.
void PolicySteps::weaken_whole(const Call& call, bool log_ends) {
    const bool of_log = call.name == "set_placing";
    bool is_set = false, is_wanted = false;
    for (const Policy& policy : policies()) {
        if (policy.call != call.name) continue;
        is_set = is_set || !is_none(policy, now_.at(policy.id()));
        is_wanted = is_wanted || !is_none(policy, wanted_.at(policy.id()));
    }
    if (!is_set || (is_wanted && !(of_log && log_ends))) return;
    Step step = this->step(std::string(call.name), std::string(call.name) + " on " + table_ + "." + entry_.column);
    for (const Policy& policy : policies())
        if (policy.call == call.name) argue(step, policy, policy.initial);
    step.sql += ")";
    locks_of(call.name, true, step);
    add(std::move(step));
}

void PolicySteps::weaken(bool upgrading) {
    check_log();
    const bool log_ends = is_on(now_, "log") && (!is_on(wanted_, "log") || log_is_replaced());
    const Settings weak = weakened(upgrading);
    const bool audit_ends = is_on(now_, "audit") && (log_ends || !is_on(wanted_, "audit") || call_differs("audit"));
    for (auto call = calls().rbegin(); call != calls().rend(); ++call) {
        if (call->name == "audit") {
            if (audit_ends) end_audit();
        } else if (call->name == "keep_audit" || call->name == "keep_log") {
            const bool ends = call->name == "keep_log" ? log_ends : audit_ends;
            if (!ends) weaken_whole(*call, false);
            if (log_ends) reset(call->name);  // it stays with the former log
        } else if (call->name == "enable_log") {
            if (log_ends && !log_is_replaced()) end_log();
        } else if (call->whole) {
            weaken_whole(*call, log_ends);
        } else if (call->name != "enforce") {
            weaken_call(*call, weak, upgrading);
        }
    }
}

void PolicySteps::begin_log() {
    const bool replaced = is_on(now_, "log");
    Step step = this->step(
        "enable_log", (replaced ? "begin another log of " : "log state changes of ") + table_ + "." + entry_.column);
    if (replaced) {
        step.details.push_back("log " + shown_value(now_.at("log.log_name")) + " is closed and stays");
        step.removes = true;
        reset("enable_log");
    }
    for (const Policy& policy : policies())
        if (policy.call == "enable_log" && (replaced || differs(policy.id())) && !wanted_.at(policy.id()).is_null())
            argue(step, policy, wanted_.at(policy.id()));
    step.sql += ")";
    const bool validated = is_on(wanted_, "validate");
    step.details.push_back(validated ? "rows that are there get a first entry each"
                                     : "rows that are there get their first entry by pawl.validate");
    step.locks.push_back({table_, share});
    step.reads_table = validated;
    add(std::move(step));
    now_["log"] = true;
}

void PolicySteps::set_call(const Call& call) {
    if (!call_differs(call.name)) return;
    Step step = this->step(std::string(call.name), std::string(call.name) + " on " + table_ + "." + entry_.column);
    if (call.name == "enforce")
        step.sql = "select pawl.enforce(" + literal(table_) + ", " + literal(entry_.column) + ", " +
                   literal(context_.lifecycle.machine);
    bool replaces = false;
    for (const Policy& policy : policies()) {
        if (policy.call != call.name || (!call.whole && !differs(policy.id()))) continue;
        if (call.name == "audit" && wanted_.at(policy.id()).is_null()) continue;  // its name by default
        replaces = replaces || !is_none(policy, now_.at(policy.id()));
        argue(step, policy, wanted_.at(policy.id()));
    }
    step.sql += ")";
    locks_of(call.name, replaces, step);
    add(std::move(step));
}

void PolicySteps::set() {
    for (const Call& call : calls()) {
        if (call.name == "enable_log") {
            if (is_on(wanted_, "log") && (!is_on(now_, "log") || log_is_replaced())) begin_log();
        } else if (call.name == "audit") {
            if (is_on(wanted_, "audit") && !is_on(now_, "audit")) set_call(call);
            now_["audit"] = wanted_.at("audit");
        } else {
            set_call(call);
        }
    }
}

}  // namespace

void plan_weakening(PlanContext& context, const TableEntry& entry, const std::string& table, bool upgrading,
                    const Settings& wanted, Settings& now) {
    PolicySteps(context, entry, table, wanted, now).weaken(upgrading);
}

void plan_setting(PlanContext& context, const TableEntry& entry, const std::string& table, const Settings& wanted,
                  Settings& now) {
    PolicySteps(context, entry, table, wanted, now).set();
}

}  // namespace pawl::cli
