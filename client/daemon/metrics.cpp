// May throw (out of memory).
#include "metrics.hpp"

#include <sstream>

namespace pawl::daemon {
namespace {

template <typename Map, typename Value>
void family(std::ostream& out, const char* name, const char* type, const char* help, const char* label, const Map& map, Value value) {
    out << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
    for (const auto& [key, entry] : map) out << name << '{' << label << '=' << quoted(key) << "} " << value(entry) << '\n';
}

}  // namespace

std::string quoted(const std::string& label) {
    std::string text = "\"";
    for (const char c : label) {
        if (c == '\n') {
            text += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') text += '\\';
        text += c;
    }
    return text + "\"";
}

void Metrics::ran(const std::string& duty, std::int64_t done, std::chrono::duration<double> took) {
    const std::lock_guard lock(mutex_);
    Duty& entry = duties_[duty];
    ++entry.runs;
    entry.rows += static_cast<std::uint64_t>(done);
    entry.seconds += took.count();
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

void Metrics::gauges(const std::string& lane, std::string text) {
    const std::lock_guard lock(mutex_);
    lanes_[lane].gauges = std::move(text);
}

bool Metrics::healthy(std::string& why) const {
    const std::lock_guard lock(mutex_);
    if (lanes_.empty()) why = "not connected yet";
    for (const auto& [name, lane] : lanes_)
        if (!lane.connected) why = "lane " + name + " has no connection: " + lane.why;
    return why.empty();
}

std::uint64_t Metrics::rows() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& [name, duty] : duties_) sum += duty.rows;
    return sum;
}

std::string Metrics::text() const {
    const std::lock_guard lock(mutex_);
    std::ostringstream out;
    family(out, "pawld_duty_runs_total", "counter", "Transactions of a duty.", "duty", duties_, [](const Duty& d) { return d.runs; });
    family(out, "pawld_duty_rows_total", "counter", "What a duty did, in rows.", "duty", duties_, [](const Duty& d) { return d.rows; });
    family(out, "pawld_duty_errors_total", "counter", "Transactions of a duty that failed.", "duty", duties_,
           [](const Duty& d) { return d.errors; });
    family(out, "pawld_duty_seconds_total", "counter", "Time spent in a duty.", "duty", duties_, [](const Duty& d) { return d.seconds; });
    family(out, "pawld_connected", "gauge", "1 while the lane has a connection.", "lane", lanes_, [](const Lane& l) { return l.connected ? 1 : 0; });
    family(out, "pawld_connects_total", "counter", "Connections that a lane has made.", "lane", lanes_, [](const Lane& l) { return l.connects; });
    for (const auto& [name, lane] : lanes_) out << lane.gauges;
    return out.str();
}

}  // namespace pawl::daemon
