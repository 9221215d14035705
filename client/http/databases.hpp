// May throw (out of memory). Which of several databases answers a request, and requests that all of them answer
// together. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "members.hpp"
#include "request.hpp"

namespace pawl::api {

// Where things were found, by their ids: hints that are checked by use. Thread-safe; memory is bounded.
class Whereabouts {
public:
    void learn(const std::string& id, const std::string& database);
    void forget(const std::string& id);
    std::string of(const std::string& id) const;  // empty: unknown

private:
    static constexpr std::size_t most_ = 20'000;

    mutable std::mutex mutex_;
    std::map<std::string, std::string> newer_, older_;  // the older ones go when there are too many newer ones
};

class Databases {
public:
    // patience: how long an answer of several databases waits for each of them.
    Databases(Members& members, std::chrono::milliseconds patience) : members_(members), patience_(patience) {}

    // Answers a request by the function of its route. The outcome names the database if one of several answered.
    Outcome answer(const Request& request, const Call& call);

    // Sends a request to the one database that it is for. `ask` returns the outcome there; it may be called for another
    // database if the first one says that the namespace or the thing is elsewhere, and has changed nothing.
    using Ask = std::function<Outcome(Member&)>;
    Outcome one(const Request& request, const nlohmann::json& body, const Ask& ask);

    // The name of the database in answers; empty: it is the only one.
    std::string name_of(const Member& member) const { return members_.all().size() > 1 ? member.name : ""; }

    // The session of the client, of the database that is named, or of any.
    Outcome login(const Request& request);

    // The problem of a request that names a database which does not exist.
    std::optional<Problem> unknown_database(const Request& request) const;

    // GET /v1/databases. ready: whether the daemon can work in a database; stores why not.
    using Ready = std::function<bool(const std::string& database, std::string& why)>;
    Outcome health(const Request& request, const Ready& ready);

private:
    struct Reply {
        MemberPtr member;
        Outcome outcome;
    };
    using Replies = std::vector<Reply>;
    using Calls = std::vector<std::pair<MemberPtr, Call>>;

    Replies ask_all(const Caller& caller, Calls calls) const;
    Outcome ask_one(const Request& request, const MemberPtr& member, const Ask& ask) const;
    std::optional<Outcome> first_answer(const Request& request, const Call& call,
                                        const std::optional<std::string>& name_space, Member& member) const;
    Outcome any(const Request& request, const Ask& ask) const;
    Outcome found(const Request& request, const Ask& ask);
    Outcome placed(const Request& request, const std::string& kind, const std::string& name_space, const Ask& ask);
    Outcome list(const Request& request, const Call& call) const;
    Outcome act(const Request& request, const Call& call, const nlohmann::json& body);

    // The ids by the database that has them. Of ids that are nowhere, or were not found because databases are
    // unavailable, the reason.
    struct Located {
        std::map<std::string, std::vector<std::string>> by_database;
        std::map<std::string, Problem> missing;
    };
    Located locate_all(const Caller& caller, const std::string& kind, const std::vector<std::string>& ids);

    Members& members_;
    const std::chrono::milliseconds patience_;
    Whereabouts whereabouts_;
};

}  // namespace pawl::api
