// May throw (out of memory).
#include "tended.hpp"

#include <pawl/placements.hpp>

namespace pawl::daemon {
namespace {

constexpr std::chrono::milliseconds look_interval{15'000}, first_look_interval{500};

// Without a broker there are no samples.
void write_metrics(const std::optional<Publisher>& publisher, Exposition& out) {
    const PublisherCounts counts = publisher ? publisher->counts() : PublisherCounts();
    const auto one = [&](const char* name, const char* type, const char* help, std::uint64_t value) {
        out.family(name, type, help);
        if (publisher) out.sample({}, value);
    };
    one("pawld_messages_published_total", "counter", "Messages to workers that the broker has confirmed.",
        counts.published);
    one("pawld_messages_unroutable_total", "counter",
        "Of these, messages for queues to which no worker has subscribed.", counts.unroutable);
    one("pawld_broker_failures_total", "counter", "Connections to the broker that failed or were lost.",
        counts.failures);
    one("pawld_broker_connected", "gauge", "1 while the publisher is connected to its broker.",
        counts.connected ? 1 : 0);
}

}  // namespace

Tended::Tended(const std::string& name, Settings settings, const Log& log, Metrics& metrics)
    : settings_(std::move(settings)), log_(name.empty() ? log : log.about("database", name)) {
    lanes_.push_back(std::make_unique<Lane>("scheduling", Kind::scheduling, settings_, log_, metrics));
    for (int i = 1; i <= settings_.sql_workers; ++i)
        lanes_.push_back(std::make_unique<Lane>("sql " + std::to_string(i), Kind::sql_steps, settings_, log_, metrics));
    for (const std::string& board : settings_.boards)
        boards_.push_back(std::make_unique<Board>(board, settings_, log_, metrics));
    if (settings_.messages.enabled()) publisher_.emplace(settings_, log_, metrics);
    metrics.also([this](Exposition& out) { write_metrics(publisher_, out); });
}

Tended::~Tended() = default;

void Tended::start() {
    for (const auto& lane : lanes_) threads_.emplace_back([&lane] { lane->run(); });
    for (const auto& board : boards_) threads_.emplace_back([&board] { board->run(); });
    if (publisher_) threads_.emplace_back([this] { publisher_->run(); });
}

void Tended::wait() {
    threads_.clear();
}

void Tended::stop() noexcept {
    for (const auto& lane : lanes_) lane->stop();
    for (const auto& board : boards_) board->stop();
    if (publisher_) publisher_->stop();
}

Fleet::Fleet(const Settings& settings, const Log& log, Metrics& metrics)
    : settings_(settings), log_(log), metrics_(metrics) {}

// A database whose connection has changed is tended by the old one until pawld starts again.
void Fleet::look() {
    Placements placements(connection_settings(settings_, "pawld"));
    placements.refresh();
    for (const PlacedDatabase& one : placements.databases()) {
        if (stopping_ || databases_.count(one.name) > 0) continue;
        if (!one.name.empty()) give_up("");  // it has become one of several
        Database& database = databases_[one.name];
        Settings settings = settings_;
        settings.database = one.connection.target;
        database.metrics = std::make_unique<Metrics>();
        database.tended = std::make_unique<Tended>(one.name, settings, log_, *database.metrics);
        metrics_.add_part(one.name, *database.metrics);
        log_.info("database found", {{"database", one.name}});
        database.tended->start();
    }
}

void Fleet::give_up(const std::string& name) {
    const auto found = databases_.find(name);
    if (found == databases_.end()) return;
    found->second.tended->stop();
    found->second.tended->wait();
    metrics_.take_part_away(name);
    databases_.erase(found);
}

void Fleet::run() {
    while (!stopping_) {
        try {
            look();
            complaint_.clear();
        } catch (const std::exception& problem) {
            if (complaint_ != problem.what())
                log_.warn("cannot read which databases there are", {{"problem", problem.what()}});
            complaint_ = problem.what();
        }
        if (!stopping_) wake_up_.wait(-1, databases_.empty() ? first_look_interval : look_interval);
    }
    for (auto& [name, database] : databases_) database.tended->stop();
    for (auto& [name, database] : databases_) database.tended->wait();
}

void Fleet::stop() noexcept {
    stopping_ = true;
    wake_up_.set();
}

}  // namespace pawl::daemon
