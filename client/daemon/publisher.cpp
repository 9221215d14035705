// May throw.
#include "publisher.hpp"

#include <algorithm>
#include <vector>

#include <pawl/connection.hpp>
#include <pawl/errors.hpp>

#include "sql.hpp"

namespace pawl::daemon {
namespace {

constexpr const char* lane = "publisher";

// In the order of the outbox, with names that do not depend on a search_path.
constexpr const char* read_statement =
    "SELECT format('%I.%I', n.nspname, c.relname), r.queue, to_json(r.key)"
    "  FROM pawl.read_claimable($1, $2::integer) WITH ORDINALITY r(relation, state_column, key, queue, txid, at, n)"
    "  JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY r.n";

Message message_of(const sql::Row& row) {
    Message message{{.relation = row[0].as<std::string>()}, row[2].json().get<RowKey>()};
    if (!row[1].is_null()) message.channel.queue = row[1].as<std::string>();
    return message;
}

}  // namespace

Publisher::Publisher(const Settings& settings, const Log& log, Metrics& metrics)
    : settings_(settings),
      log_(log),
      metrics_(metrics),
      pace_(settings.shortest_poll, settings.longest_poll),
      database_again_(std::chrono::milliseconds(100), std::chrono::seconds(5)),
      broker_again_(std::chrono::milliseconds(100), std::chrono::seconds(5)),
      broker_(make_publisher(settings.messages)) {}

template <typename Change>
void Publisher::count(Change&& change) {
    const std::lock_guard lock(mutex_);
    change(counts_);
}

PublisherCounts Publisher::counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

void Publisher::stop() noexcept {
    stopping_ = true;
    wake_up_.set();
}

// The consumer of this name and for these tables. For another set of tables it is created again, and begins now:
// workers find earlier rows by polling.
void Publisher::find_consumer() {
    const std::string tables = sql::text_array(settings_.publish);
    const auto same = sql::run_alone(*connection_,
                                     "SELECT c.relations = ARRAY(SELECT DISTINCT t::regclass FROM unnest($2::text[]) t "
                                     "ORDER BY 1) FROM pawl.consumers c WHERE c.consumer = $1",
                                     settings_.publisher, tables);
    if (!same.empty() && !same[0][0].is_null() && same[0][0].as<bool>()) return;
    sql::translated([&] {
        pqxx::work transaction(*connection_);
        if (!same.empty()) sql::run(transaction, "SELECT pawl.drop_consumer($1)", settings_.publisher);
        sql::run(transaction,
                 "SELECT pawl.create_consumer($1, relations => ARRAY(SELECT DISTINCT t::regclass FROM "
                 "unnest($2::text[]) t ORDER BY 1))",
                 settings_.publisher, tables);
        transaction.commit();
    });
    log_.info("consumer created", {{"consumer", settings_.publisher}, {"tables", settings_.publish}});
}

void Publisher::connect_again() {
    if (!connection_) {
        const ConnectionSettings settings = connection_settings(settings_, "pawld publisher");
        connection_ = connect(settings);
        waiter_ = Waiter(settings);
        find_consumer();
        metrics_.connected(lane);
        log_.info("connected", {{"lane", lane}});
    }
    if (broker_connected_) return;
    broker_->connect();
    broker_connected_ = true;
    count([](PublisherCounts& counts) { ++counts.connects, counts.connected = true; });
    log_.info("publishing", {{"provider", settings_.messages.provider}});
}

// Events count as read once the broker has confirmed their messages. After a failure they are published again.
bool Publisher::publish() {
    const auto began = std::chrono::steady_clock::now();
    std::vector<Message> messages;
    std::size_t unroutable = 0;
    sql::translated([&] {
        pqxx::work transaction(*connection_);
        for (const auto& row : sql::run(transaction, read_statement, settings_.publisher, settings_.batch))
            messages.push_back(message_of(row));
        if (!messages.empty()) unroutable = broker_->publish(transaction, messages);
        transaction.commit();
    });
    broker_again_.reset();
    metrics_.ran("publish", static_cast<std::int64_t>(messages.size()), std::chrono::steady_clock::now() - began);
    if (messages.empty()) return false;
    count([&](PublisherCounts& counts) {
        ++counts.batches, counts.published += messages.size(), counts.unroutable += unroutable;
    });
    log_.debug("published", {{"messages", messages.size()}, {"unroutable", unroutable}});
    return true;
}

void Publisher::rest() {
    broker_->keep_alive();
    if (settings_.wake && pace_.current() > settings_.shortest_poll && waiter_.announce_wait(*connection_, "")) return;
    if (const std::string why = waiter_.take_pooler_message(); !why.empty())
        log_.warn("polling only", {{"lane", lane}, {"problem", why}});
    // keep_alive() is due every few seconds
    const auto time = std::min(pace_.advance(), std::chrono::milliseconds(5'000));
    if (waiter_.wait(*connection_, wake_up_, time)) pace_.reset();
}

void Publisher::lost(const std::string& what, const std::string& why, PollInterval& pace) {
    log_.warn(what, {{"lane", lane}, {"problem", why}});
    if (!stopping_) wake_up_.wait(-1, pace.advance());
}

void Publisher::run() {
    while (!stopping_) {
        metrics_.turned(lane, false);
        try {
            connect_again();
            const bool more = publish();
            database_again_.reset();
            if (more)
                pace_.reset();
            else
                rest();
        } catch (const BrokerLost& problem) {
            broker_connected_ = false;
            count([](PublisherCounts& counts) { ++counts.failures, counts.connected = false; });
            metrics_.failed("publish");
            lost("no broker", problem.what(), broker_again_);
        } catch (const TryAgain& problem) {
            log_.debug("publishing will be tried again", {{"problem", problem.what()}});
            wake_up_.wait(-1, settings_.shortest_poll);
        } catch (const std::exception& problem) {
            // whatever it is, a new session is the way out
            connection_.reset();
            if (!dynamic_cast<const ConnectionLost*>(&problem)) metrics_.failed("publish");
            metrics_.disconnected(lane, problem.what());
            lost("nothing is published", problem.what(), database_again_);
        }
    }
    connection_.reset();
}

}  // namespace pawl::daemon
