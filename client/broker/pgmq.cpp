// May throw.
#include "pgmq.hpp"

#include <map>
#include <set>

#include "sql.hpp"

namespace pawl {
namespace {

constexpr const char* queues_statement = "SELECT q.queue_name FROM pgmq.list_queues() q";

std::set<std::string> names_in(const sql::Rows& rows) {
    std::set<std::string> names;
    for (const auto& row : rows) names.insert(row[0].as<std::string>());
    return names;
}

class PgmqPublisher final : public BrokerPublisher {
public:
    void connect() override {}
    void keep_alive() override {}

    std::size_t publish(pqxx::transaction_base& transaction, const std::vector<Message>& messages) override {
        std::map<std::string, std::vector<std::string>> by_queue;
        for (const Message& message : messages) by_queue[pgmq_name(message.channel)].push_back(body_of(message));
        const std::set<std::string> known = names_in(sql::run(transaction, queues_statement));
        std::size_t unroutable = 0;
        for (const auto& [queue, bodies] : by_queue) {
            if (!known.contains(queue))
                unroutable += bodies.size();
            else if (bodies.size() == 1)
                sql::run(transaction, "SELECT pgmq.send($1, $2::jsonb)", queue, bodies[0]);
            else
                sql::run(transaction, "SELECT pgmq.send_batch($1, $2::jsonb[])", queue, sql::text_array(bodies));
        }
        return unroutable;
    }
};

class PgmqSubscription final : public Subscription {
public:
    PgmqSubscription(const MessageSettings& settings, const ConnectionSettings& database, const Channel& channel)
        : queue_(pgmq_name(channel)),
          visibility_timeout_(static_cast<int>(settings.visibility_timeout.count())),
          connection_(pawl::connect(database)) {
        if (names_in(sql::run_alone(*connection_, queues_statement)).contains(queue_)) return;
        // if two subscribers create it at once, the second one finds it, or tries again
        try {
            create();
        } catch (const Error& problem) {
            throw BrokerLost("queue " + queue_ + " cannot be created: " + problem.what());
        }
    }

    std::vector<Delivery> receive(int most) override {
        std::vector<Delivery> received;
        if (most <= 0) return received;
        for (const auto& row :
             sql::run_alone(*connection_, "SELECT r.msg_id, r.message FROM pgmq.read($1, $2::integer, $3::integer) r",
                            queue_, visibility_timeout_, most))
            received.push_back({static_cast<std::uint64_t>(row[0].as<std::int64_t>()), row[1].as<std::string>()});
        return received;
    }

    void acknowledge(const std::vector<std::uint64_t>& tags) override {
        std::vector<std::string> ids;
        for (const std::uint64_t tag : tags) ids.push_back(std::to_string(tag));
        sql::run_alone(*connection_, "SELECT pgmq.delete($1, $2::bigint[])", queue_, sql::text_array(ids));
    }

    void reject(std::uint64_t tag) override {
        sql::run_alone(*connection_, "SELECT pgmq.archive($1, $2::bigint)", queue_, std::to_string(tag));
    }

    int socket() const noexcept override { return -1; }

private:
    // PGMQ grants a queue to its creator only, and pawld and other workers can be other roles. The name needs no
    // quotes.
    void create() {
        sql::translated([&] {
            pqxx::work transaction(*connection_);
            sql::run(transaction, "SELECT pgmq.create($1)", queue_);
            sql::run(transaction, "GRANT SELECT, INSERT, UPDATE, DELETE ON pgmq.q_" + queue_ + ", pgmq.a_" + queue_ +
                                      " TO pawl_worker");
            sql::commit(transaction);
        });
    }

    const std::string queue_;
    const int visibility_timeout_;
    std::unique_ptr<pqxx::connection> connection_;
};

}  // namespace

std::unique_ptr<BrokerPublisher> make_pgmq_publisher() {
    return std::make_unique<PgmqPublisher>();
}

std::unique_ptr<Subscription> subscribe_pgmq(const MessageSettings& settings, const ConnectionSettings& database,
                                             const Channel& channel) {
    return std::make_unique<PgmqSubscription>(settings, database, channel);
}

}  // namespace pawl
