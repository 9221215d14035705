// May throw (the constructor). Extends leases from a thread and a connection of its own, so that neither a long
// statement of the loop nor a long handler costs a lease.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <pqxx/pqxx>

#include <pawl/connection.hpp>

#include "signal_event.hpp"

namespace pawl {

// What a heartbeat extends. Its methods are called by the heartbeat's thread only; those with a connection may throw.
class Leases {
public:
    virtual ~Leases() = default;

    // False if nothing is claimed: then no connection is made.
    virtual bool any() = 0;

    // Called once for each new connection, before the first extend().
    virtual void connected(pqxx::connection&) {}

    virtual void extend(pqxx::connection& connection) = 0;

    // Called after an attempt to connect or extend has failed. The next attempt follows after the usual time.
    virtual void failed() {}
};

class Heartbeat {
public:
    using Log = std::function<void(const std::string&)>;

    // Calls extend() at every third of `lease`, but not more often than every 10 ms. `log` is called on the heartbeat's
    // thread.
    Heartbeat(ConnectionSettings settings, std::chrono::milliseconds lease, std::unique_ptr<Leases> leases, Log log);

    // The same for work that can move to another database: `find` says where it is, and `moved` is called with the
    // connection that has rejected it (PW009).
    Heartbeat(std::function<ConnectionSettings()> find, std::function<void(pqxx::connection&)> moved,
              std::chrono::milliseconds lease, std::unique_ptr<Leases> leases, Log log);

    // Ends the thread, at the latest after the statement under way.
    ~Heartbeat();
    Heartbeat(const Heartbeat&) = delete;
    Heartbeat& operator=(const Heartbeat&) = delete;

private:
    void run(std::stop_token stop);
    void note_moved(pqxx::connection& connection);

    const std::function<ConnectionSettings()> find_;
    const std::function<void(pqxx::connection&)> moved_;
    const std::chrono::milliseconds period_;
    const std::unique_ptr<Leases> leases_;
    const Log log_;
    SignalEvent ended_;
    std::jthread thread_;
};

}  // namespace pawl
