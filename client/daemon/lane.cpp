// May throw.
#include "lane.hpp"

#include <algorithm>

#include <pawl/connection.hpp>

#include "gauges.hpp"
#include "sql.hpp"

namespace pawl::daemon {
namespace {

constexpr auto catalog_interval = std::chrono::seconds(15);
constexpr auto longest_yield = std::chrono::milliseconds(10);
constexpr auto silence = std::chrono::minutes(1);  // between two log lines about the same problem
constexpr int gauges_share =
    20;  // counting takes at most a twentieth of the time, also where an old snapshot keeps dead rows and makes it slow

}  // namespace

Lane::Lane(std::string name, Kind kind, const Settings& settings, const Log& log, Metrics& metrics)
    : name_(std::move(name)),
      kind_(kind),
      settings_(settings),
      log_(log),
      metrics_(metrics),
      reconnect_(std::chrono::milliseconds(100), std::chrono::seconds(5)) {}

void Lane::stop() noexcept {
    stopping_ = true;
    wake_up_.set();
}

// Duties are looked for again, so that extensions and bindings that are added while pawld runs are found.
void Lane::connect_and_look() {
    if (!connection_) {
        const ConnectionSettings settings = connection_settings(settings_, "pawld " + name_);
        connection_ = connect(settings);
        waiter_ = Waiter(settings);
        look_again_ = {};
        metrics_.connected(name_);
        log_.info("connected", {{"lane", name_}});
    }
    if (!read_only_ && Clock::now() < look_again_) return;
    if (look_whether_read_only()) return;
    if (kind_ == Kind::scheduling) look_whether_fitting();
    std::vector<Entry> found;
    for (Duty& duty : find_duties(*connection_, settings_, kind_)) {
        const auto known = std::find_if(entries_.begin(), entries_.end(),
                                        [&](const Entry& entry) { return is_same(entry.duty, duty); });
        const auto longest = duty.longest.count() > 0 ? duty.longest : settings_.longest_poll;
        const auto shortest = duty.once ? longest : settings_.shortest_poll;
        if (known == entries_.end()) log_.info("duty found", {{"lane", name_}, {"duty", duty.name}});
        Entry entry = known == entries_.end() ? Entry{duty, PollInterval(shortest, longest), Clock::now()} : *known;
        entry.duty = std::move(duty);
        found.push_back(std::move(entry));
    }
    entries_ = std::move(found);
    look_again_ = Clock::now() + catalog_interval;
}

// A standby, or a read-only database: duties wait until it can be written. Logged once.
bool Lane::look_whether_read_only() {
    const auto found = sql::run_alone(
        *connection_,
        "SELECT CASE WHEN pg_is_in_recovery() THEN 'the server is a standby'"
        " WHEN current_setting('transaction_read_only')::boolean THEN 'the database is read-only' ELSE '' END");
    const auto why = found[0][0].as<std::string>();
    metrics_.read_only(name_, why);
    if (!why.empty() && !read_only_) log_.warn("nothing can be written", {{"lane", name_}, {"problem", why}});
    if (why.empty() && read_only_) log_.info("the database can be written again", {{"lane", name_}});
    read_only_ = !why.empty();
    return read_only_;
}

// Without the extension there are no duties, and with one of another version some may be missing. Logged once.
void Lane::look_whether_fitting() {
    const std::string why = misfit_of(*connection_);
    metrics_.misfit(why);
    if (!why.empty() && why != misfit_)
        log_.warn("the database does not fit", {{"database", connection_->dbname()}, {"problem", why}});
    misfit_ = why;
}

// The same problem is logged once a minute; the counter counts every one.
void Lane::complain(Entry& entry, const Error& problem) const {
    if (entry.complaint == problem.what() && Clock::now() - entry.complained < silence) return;
    entry.complaint = problem.what();
    entry.complained = Clock::now();
    log_.error("duty failed",
               {{"duty", entry.duty.name}, {"sqlstate", problem.sqlstate()}, {"problem", problem.what()}});
}

bool Lane::look_after(Entry& entry) {
    const auto began = Clock::now();
    metrics_.turned(name_, kind_ == Kind::sql_steps);
    metrics_.doing(name_, entry.duty.name);
    Report report;
    try {
        report = run_duty(*connection_, entry.duty, settings_.batch);
    } catch (const ConnectionLost&) {
        throw;
    } catch (const TryAgain& problem) {
        log_.debug("duty will be tried again", {{"duty", entry.duty.name}, {"problem", problem.what()}});
        entry.due = Clock::now() + settings_.shortest_poll;
        return false;
    } catch (const Error& problem) {
        failed_ = true;
        metrics_.failed(entry.duty.name);
        if (problem.sqlstate() == "25006") {
            look_whether_read_only();
            if (read_only_) return false;
        }
        complain(entry, problem);
        entry.due = Clock::now() + std::max(entry.pace.advance(), std::chrono::milliseconds(1'000));
        look_again_ = {};
        return false;
    }
    const auto now = Clock::now();
    metrics_.doing(name_, "");
    entry.complaint.clear();
    metrics_.ran(entry.duty.name, report.done, now - began);
    if (report.done > 0) log_.debug("duty done", {{"duty", entry.duty.name}, {"rows", report.done}});
    if (report.done > 0 && !entry.duty.once) {
        entry.pace.reset();
        entry.due = now;
        return true;
    }
    if (entry.duty.once && report.next && report.next->count() <= 1) {
        entry.due = {};  // also for run_once(), which compares it with its start
        return true;
    }
    const auto wait = entry.pace.advance();
    // nothing was done although a time has passed: another session has the rows
    const bool is_late = report.next && report.next->count() <= 1;
    entry.due = now + (report.next && !is_late ? std::min(wait, *report.next) : wait);
    return false;
}

// Runs every duty that is due, one transaction each, so that none waits until another has done all its work. True if
// there may be more.
bool Lane::round() {
    bool more = false;
    for (Entry& entry : entries_) {
        if (stopping_ || read_only_) return false;
        if (entry.due <= Clock::now()) more |= look_after(entry);
    }
    return more;
}

// Only if /metrics is served.
void Lane::count_gauges() {
    if (kind_ != Kind::scheduling || settings_.http.empty() || Clock::now() < next_gauges_) return;
    const auto began = Clock::now();
    next_gauges_ = began + settings_.gauges;
    metrics_.turned(name_, false);
    metrics_.doing(name_, "gauges");
    try {
        metrics_.gauges(name_, read_gauges(*connection_));
    } catch (const ConnectionLost&) {
        throw;
    } catch (const Error& problem) {
        metrics_.failed("gauges");
        log_.warn("cannot read gauges", {{"sqlstate", problem.sqlstate()}, {"problem", problem.what()}});
    }
    metrics_.doing(name_, "");
    next_gauges_ = std::max(next_gauges_, Clock::now() + gauges_share * (Clock::now() - began));
}

void Lane::wait() {
    auto until = Clock::now() + settings_.longest_poll;
    for (const Entry& entry : entries_) until = std::min(until, entry.due);
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (time.count() <= 0) return;
    // announcing the wait is a transaction too: not before the first short wait
    const bool waits_long = settings_.wake && time > settings_.shortest_poll;
    const bool announced = waits_long && waiter_.announce_wait(*connection_, relations());
    if (const std::string why = waiter_.take_pooler_message(); !why.empty())
        log_.warn("polling only", {{"lane", name_}, {"problem", why}});
    if (announced)
        make_all_due();  // what came before the announcement was not notified
    else if (waiter_.wait(*connection_, wake_up_, time)) {
        for (Entry& entry : entries_)
            if (!entry.duty.once) entry.pace.reset();
        make_all_due();
    }
}

// The relations whose wake-ups announce work for this lane; "" for events.
std::vector<std::string> Lane::relations() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_)
        if (std::find(names.begin(), names.end(), entry.duty.relation) == names.end())
            names.push_back(entry.duty.relation);
    return names.empty() ? std::vector<std::string>{""} : names;
}

// Scheduling waits a moment longer: workers that the same event woke do what they can themselves, or need the
// processors, and more events follow.
void Lane::make_all_due() {
    const auto yield =
        kind_ == Kind::scheduling ? std::min(settings_.shortest_poll, longest_yield) : std::chrono::milliseconds(0);
    const auto when = Clock::now() + yield;
    for (Entry& entry : entries_)
        if (!entry.duty.once) entry.due = std::min(entry.due, when);
}

void Lane::lost(const std::string& why) {
    connection_.reset();
    read_only_ = false;
    metrics_.disconnected(name_, why);
    if (complaint_ == why && Clock::now() - complained_ < silence) return;
    complaint_ = why;
    complained_ = Clock::now();
    log_.warn("no connection", {{"lane", name_}, {"problem", why}});
}

void Lane::run() {
    while (!stopping_) {
        metrics_.turned(name_, kind_ == Kind::sql_steps);
        try {
            connect_and_look();
            const bool more = !read_only_ && round();
            if (read_only_) {
                if (!stopping_) wake_up_.wait(-1, reconnect_.advance());
                continue;
            }
            reconnect_.reset();
            if (!stopping_) count_gauges();
            if (!more && !stopping_) wait();
        } catch (const std::exception& problem) {
            // whatever the error is, continue with a new session
            lost(problem.what());
            if (!stopping_) wake_up_.wait(-1, reconnect_.advance());
        }
    }
    connection_.reset();
}

bool Lane::run_once() {
    connect_and_look();
    if (read_only_ || (entries_.empty() && !misfit_.empty())) return false;
    const auto began = Clock::now();
    for (bool more = true; more && !stopping_;) {
        more = false;
        for (Entry& entry : entries_) {
            if (entry.duty.once && entry.due > began) continue;
            more |= look_after(entry);
        }
    }
    return !failed_;
}

}  // namespace pawl::daemon
