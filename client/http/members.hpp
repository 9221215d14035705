// May throw (out of memory). The databases that the API serves: the one that pawld was given, or all among which
// namespaces are divided. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <pawl/placements.hpp>

#include "feed.hpp"
#include "pool.hpp"

namespace pawl::api {

struct Member {
    Member(std::string name, bool home, const ConnectionSettings& settings, std::size_t connections,
           std::chrono::milliseconds timeout, const daemon::Log& log, Bell& bell);

    // How uploads and exports connect, each with a connection of its own.
    ConnectionSettings file_settings() const;

    const std::string name;  // empty: it is the only one
    const bool home;
    const daemon::Log log;
    Pool pool;
    Pool readiness;  // a connection for /readyz while requests take those of the pool
    Feed feed;
};
using MemberPtr = std::shared_ptr<Member>;

class Members {
public:
    // given: the database that is asked which there are. all: serve these, too; they are looked for every 15 s. Each
    // has `connections` of its own. login: has user and password for the others; empty: their connection strings do.
    Members(const ConnectionSettings& given, bool all, std::string login, std::size_t connections,
            std::chrono::milliseconds timeout, const daemon::Log& log);
    ~Members();
    Members(const Members&) = delete;
    Members& operator=(const Members&) = delete;

    // All of them by name. Throws ConnectionLost until they have been found once.
    std::vector<MemberPtr> all() const;

    // As all(); empty until they have been found.
    std::vector<MemberPtr> known() const;

    // The one of this name; null: there is none. Throws as all() does.
    MemberPtr find(const std::string& name) const;

    // The database that pawld was given. Throws as all() does.
    MemberPtr given() const;

    // The one that has a namespace, as far as is known. Throws Error if there is none.
    MemberPtr of(const std::string& kind, const std::string& name_space);

    // Notes that a namespace is in a database.
    void learn(const std::string& kind, const std::string& name_space, const std::string& database);

    void end();  // of the events, for all their listeners

    // Rings for new events of any database.
    Bell& bell() noexcept { return bell_; }

private:
    void run();
    void look();
    std::vector<MemberPtr> in_trouble() const;
    MemberPtr make(const std::string& name, bool home, const ConnectionSettings& settings);

    const ConnectionSettings given_;
    const std::string login_;
    const std::size_t connections_;
    const std::chrono::milliseconds timeout_;
    const daemon::Log& log_;
    Placements placements_;
    Bell bell_;
    std::string here_;  // the name of the given database; only the thread reads it

    mutable std::mutex mutex_;
    std::condition_variable end_come_;
    std::map<std::string, MemberPtr> members_;
    MemberPtr given_member_;  // null: nothing is known yet
    std::string problem_;     // as it was logged; only the thread reads it
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace pawl::api
