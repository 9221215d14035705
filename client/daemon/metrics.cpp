// May throw (out of memory).
#include "metrics.hpp"

#include <numeric>

namespace pawl::daemon {
namespace {

template <typename Map, typename Value>
void family(Exposition& out, const char* name, const char* type, const char* help, const char* label, const Map& map,
            Value value) {
    out.family(name, type, help);
    for (const auto& [key, entry] : map) out.sample({{label, key}}, value(entry));
}

}  // namespace

std::uint64_t Metrics::Duty::runs() const {
    return std::accumulate(took.buckets.begin(), took.buckets.end(), std::uint64_t{0});
}

void Metrics::ran(const std::string& duty, std::int64_t done, std::chrono::duration<double> took) {
    const std::lock_guard lock(mutex_);
    Duty& entry = duties_[duty];
    entry.rows += static_cast<std::uint64_t>(done);
    entry.took.add(took.count());
}

void Metrics::failed(const std::string& duty) {
    const std::lock_guard lock(mutex_);
    ++duties_[duty].errors;
}

void Metrics::connected(const std::string& lane) {
    const std::lock_guard lock(mutex_);
    Lane& entry = lanes_[lane];
    entry.connected = true;
    ++entry.connects;
    entry.why.clear();
}

void Metrics::disconnected(const std::string& lane, const std::string& why) {
    const std::lock_guard lock(mutex_);
    Lane& entry = lanes_[lane];
    entry.connected = false;
    entry.gauges.clear();
    entry.why = why;
}

void Metrics::read_only(const std::string& lane, const std::string& why) {
    const std::lock_guard lock(mutex_);
    lanes_[lane].read_only = why;
}

void Metrics::turned(const std::string& lane, bool may_take_long) {
    const std::lock_guard lock(mutex_);
    Lane& entry = lanes_[lane];
    entry.turned = Clock::now();
    entry.may_take_long = may_take_long;
}

void Metrics::doing(const std::string& lane, const std::string& what) {
    const std::lock_guard lock(mutex_);
    lanes_[lane].doing = what;
}

void Metrics::gauges(const std::string& lane, std::string text) {
    const std::lock_guard lock(mutex_);
    lanes_[lane].gauges = std::move(text);
}

void Metrics::misfit(const std::string& why) {
    const std::lock_guard lock(mutex_);
    misfit_ = why;
}

void Metrics::drain() {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    for (const auto& [name, part] : parts_) part->drain();
}

void Metrics::add_part(const std::string& database, Metrics& part) {
    const std::lock_guard lock(mutex_);
    parts_[database] = &part;
}

void Metrics::take_part_away(const std::string& database) {
    const std::lock_guard lock(mutex_);
    parts_.erase(database);
}

bool Metrics::part_alive(const std::string& database, std::chrono::milliseconds patience, std::string& why) const {
    const std::lock_guard lock(mutex_);
    const auto found = parts_.find(database);
    if (found != parts_.end()) return found->second->alive(patience, why);
    why = "there is no database " + database;
    return false;
}

bool Metrics::part_ready(const std::string& database, std::string& why) const {
    const std::lock_guard lock(mutex_);
    const auto found = parts_.find(database);
    if (found != parts_.end()) return found->second->ready(why);
    why = "there is no database " + database;
    return false;
}

void Metrics::also(std::function<void(Exposition&)> source) {
    const std::lock_guard lock(mutex_);
    sources_.push_back(std::move(source));
}

bool Metrics::alive(std::chrono::milliseconds patience, std::string& why) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, lane] : lanes_) {
        if (lane.may_take_long || Clock::now() - lane.turned <= patience) continue;
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - lane.turned).count();
        why = "lane " + name + " has not run for " + std::to_string(seconds) + " s" +
              (lane.doing.empty() ? "" : ": it runs " + lane.doing);
    }
    for (const auto& [name, part] : parts_) {
        std::string problem;
        if (!part->alive(patience, problem)) why = "database " + name + ": " + problem;
    }
    return why.empty();
}

bool Metrics::ready(std::string& why) const {
    const std::lock_guard lock(mutex_);
    why = misfit_;
    bool one_is_ready = false;
    std::string problems;
    for (const auto& [name, part] : parts_) {
        std::string problem;
        one_is_ready |= part->ready(problem);
        if (!problem.empty()) problems += (problems.empty() ? "" : "; ") + ("database " + name + ": " + problem);
    }
    if (!parts_.empty() && !one_is_ready) why = problems;
    if (parts_.empty() && lanes_.empty()) why = "not connected yet";
    for (const auto& [name, lane] : lanes_)
        if (!lane.connected)
            why = "lane " + name + " has no connection: " + lane.why;
        else if (!lane.read_only.empty())
            why = "lane " + name + " can write nothing: " + lane.read_only;
    if (draining_) why = "draining";
    return why.empty();
}

std::uint64_t Metrics::rows() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& [name, duty] : duties_) sum += duty.rows;
    for (const auto& [name, part] : parts_) sum += part->rows();
    return sum;
}

std::string Metrics::text() const {
    const std::lock_guard lock(mutex_);
    if (parts_.empty()) return own_text();
    MergedFamilies families;
    for (const auto& [name, part] : parts_) families.add(part->text(), name);
    Exposition out;
    out.family("pawld_databases_ready", "gauge", "1 while the daemon can work in the database.");
    for (const auto& [name, part] : parts_) {
        std::string why;
        out.sample({{"database", name}}, part->ready(why) ? 1 : 0);
    }
    for (const auto& source : sources_) source(out);
    families.add(out.text(), "");
    return families.text();
}

// Called with the lock.
std::string Metrics::own_text() const {
    Exposition out;
    family(out, "pawld_duty_runs_total", "counter", "Transactions of a duty.", "duty", duties_,
           [](const Duty& d) { return d.runs(); });
    family(out, "pawld_duty_rows_total", "counter", "Rows that a duty handled.", "duty", duties_,
           [](const Duty& d) { return d.rows; });
    family(out, "pawld_duty_errors_total", "counter", "Transactions of a duty that failed.", "duty", duties_,
           [](const Duty& d) { return d.errors; });
    out.family("pawld_duty_duration_seconds", "histogram", "How long transactions of a duty took.");
    for (const auto& [name, duty] : duties_)
        out.histogram({{"duty", name}}, Histogram::bounds, duty.took.buckets, duty.took.sum);
    family(out, "pawld_connected", "gauge", "1 while the lane has a connection.", "lane", lanes_,
           [](const Lane& l) { return l.connected ? 1 : 0; });
    family(out, "pawld_connects_total", "counter", "Connections that a lane has made.", "lane", lanes_,
           [](const Lane& l) { return l.connects; });
    const auto now = Clock::now();
    family(out, "pawld_lane_turned_seconds", "gauge", "Time since the loop of a lane last ran.", "lane", lanes_,
           [now](const Lane& l) { return std::chrono::duration<double>(now - l.turned).count(); });
    out.family("pawld_draining", "gauge", "1 while the daemon drains.");
    out.sample({}, draining_ ? 1 : 0);
    for (const auto& source : sources_) source(out);
    std::string text = out.text();
    for (const auto& [name, lane] : lanes_) text += lane.gauges;
    return text;
}

}  // namespace pawl::daemon
