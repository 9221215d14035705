// May throw (out of memory). What pawld does in one database: its lanes, boards and publisher, each on a thread of its
// own; and in all databases among which work is divided. A database that is down stops none of the others.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "boards.hpp"
#include "lane.hpp"
#include "publisher.hpp"

namespace pawl::daemon {

class Tended {
public:
    // name: what log lines and threads call the database; empty: it is the only one.
    Tended(const std::string& name, Settings settings, const Log& log, Metrics& metrics);

    ~Tended();
    Tended(const Tended&) = delete;
    Tended& operator=(const Tended&) = delete;

    void start();
    void stop() noexcept;
    void wait();  // until what start() began has ended

private:
    const Settings settings_;
    const Log log_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::vector<std::unique_ptr<Board>> boards_;
    std::optional<Publisher> publisher_;
    std::vector<std::jthread> threads_;
};

// Tends every database that pawl.database of the one in the settings names, also those that are added later.
class Fleet {
public:
    Fleet(const Settings& settings, const Log& log, Metrics& metrics);

    // Until stop(). Does not throw.
    void run();
    void stop() noexcept;

private:
    void look();
    void give_up(const std::string& name);

    const Settings& settings_;
    const Log& log_;
    Metrics& metrics_;
    SignalEvent wake_up_;
    std::atomic<bool> stopping_{false};
    struct Database {
        std::unique_ptr<Metrics> metrics;
        std::unique_ptr<Tended> tended;
    };
    std::map<std::string, Database> databases_;
    std::string complaint_;
};

}  // namespace pawl::daemon
