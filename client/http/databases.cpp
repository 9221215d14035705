// May throw (out of memory).
#include "databases.hpp"

#include <future>
#include <set>

#include <pawl/errors.hpp>

#include "json_text.hpp"
#include "libpq.hpp"
#include "merge.hpp"
#include "replies.hpp"
#include "streams.hpp"

namespace pawl::api {
namespace {

Outcome rejected(Problem problem) {
    return {.problem = std::move(problem)};
}

std::string in_quotes(const std::string& name) {
    return "\"" + name + "\"";
}

// Where a database says that a namespace is; empty: here, or it does not know.
std::string place_of(Member& member, const std::string& kind, const std::string& name_space) {
    std::string place;
    member.pool.lend([&](Session& session) -> std::optional<Problem> {
        const Result result =
            session.run("SELECT w.database FROM pawl.where_is($1, $2) w WHERE NOT w.here", {kind, name_space});
        if (PQresultStatus(result.get()) == PGRES_TUPLES_OK && PQntuples(result.get()) == 1)
            place = value_of(result.get(), 0, 0);
        return std::nullopt;
    });
    return place;
}

// The namespace of a request whose route is placed; nothing: the request is malformed.
std::optional<std::string> namespace_of(const Request& request, const nlohmann::json& body) {
    const Route& route = request.route;
    if (const auto given = request.arguments.find(route.by); given != request.arguments.end()) return given->second;
    if (!body.is_object()) return std::nullopt;
    const auto field = body.find(route.by);
    if (field == body.end() || field->is_null()) return route.otherwise;
    if (!field->is_string()) return std::nullopt;
    return field->get<std::string>();
}

// The body, for what it says of the database that the request is for. Null if there is none that can be read; why says
// what is wrong with it.
nlohmann::json body_of(const Call& call, std::string& why) {
    try {
        return call.body ? parse_json(*call.body) : nlohmann::json();
    } catch (const Error& error) {
        why = error.what();
        return nullptr;
    }
}

Outcome session_at(const Request& request, Member& member) {
    return member.pool.call(request.caller, {.route = "session", .arguments = "{}"});
}

}  // namespace

void Whereabouts::learn(const std::string& id, const std::string& database) {
    const std::lock_guard lock(mutex_);
    newer_[id] = database;
    if (newer_.size() < most_ / 2) return;
    older_ = std::move(newer_);
    newer_.clear();
}

void Whereabouts::forget(const std::string& id) {
    const std::lock_guard lock(mutex_);
    newer_.erase(id);
    older_.erase(id);
}

std::string Whereabouts::of(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    if (const auto found = newer_.find(id); found != newer_.end()) return found->second;
    const auto found = older_.find(id);
    return found == older_.end() ? "" : found->second;
}

Outcome Databases::answer(const Request& request, const Call& call) {
    std::string why;
    const auto body = body_of(call, why);
    if (request.database.empty() && members_.all().size() > 1) {
        if (!why.empty() && (request.route.reach == Reach::each || request.route.reach == Reach::placed))
            return rejected({.status = 400,
                             .detail = "the body does not say which database it is for: " + why,
                             .hint = "the parameter database sends it to one database as it is"});
        if (request.route.reach == Reach::merged) return list(request, call);
        if (request.route.reach == Reach::each) return act(request, call, body);
    }
    return one(request, body, [&](Member& member) {
        if (call.once && body.is_object())
            if (auto first = first_answer(request, call, namespace_of(request, body), member)) return std::move(*first);
        return member.pool.call(request.caller, call);
    });
}

// An idempotency key is stored where the request was carried out. If the namespace has left that database since, the
// answer is still there.
std::optional<Outcome> Databases::first_answer(const Request& request, const Call& call,
                                               const std::optional<std::string>& name_space, Member& member) const {
    const auto members = members_.all();
    const Route& route = request.route;
    nlohmann::json question = {{"key", *call.once}, {"route", call.route}, {"kind", route.kind}};
    if (route.reach == Reach::placed && name_space)
        question["namespace"] = *name_space;
    else if (route.reach == Reach::found)
        question["id"] = request.argument(route.by);
    if (members.size() == 1 || question.size() == 3) return std::nullopt;
    // as they are, since numbers can be written in several ways
    std::string text = question.dump();
    text.pop_back();
    text += ", \"arguments\": " + call.arguments + ", \"body\": " + *call.body + "}";
    const Outcome arrived = member.pool.call(request.caller, {.route = "_arrived_lately", .arguments = text});
    if (!arrived.good) return arrived;
    if (*arrived.json == "false") return std::nullopt;
    Calls calls;
    for (const MemberPtr& other : members)
        if (other.get() != &member) calls.emplace_back(other, Call{.route = "_known_answer", .arguments = text});
    std::vector<Unavailable> unavailable;
    for (const auto& [other, outcome] : ask_all(request.caller, std::move(calls))) {
        if (is_unavailable(outcome))
            unavailable.push_back({other->name, outcome.problem});
        else if (!outcome.good)
            return outcome;
        else if (const auto known = parse_json(*outcome.json); known.at("known").get<bool>())
            return Outcome{.good = true, .json = known.at("answer").dump()};
    }
    if (unavailable.empty()) return std::nullopt;
    return rejected(missing_problem("the answer to a request with this idempotency key", unavailable));
}

Outcome Databases::one(const Request& request, const nlohmann::json& body, const Ask& ask) {
    if (!request.database.empty()) {
        if (auto problem = unknown_database(request)) return rejected(std::move(*problem));
        const MemberPtr member = members_.find(request.database);
        Outcome outcome = ask_one(request, member, ask);
        if (const auto name_space = namespace_of(request, body);
            outcome.problem.sqlstate == "PW009" && request.route.reach == Reach::placed && name_space)
            if (const std::string place = place_of(*member, request.route.kind, *name_space); !place.empty())
                outcome.problem.hint = "leave out the parameter database, or give database=" + place;
        return outcome;
    }
    if (members_.all().size() == 1) return ask(*members_.given());
    switch (request.route.reach) {
        case Reach::any:
            return any(request, ask);
        case Reach::found:
            return found(request, ask);
        case Reach::placed:
            if (const auto name_space = namespace_of(request, body))
                return placed(request, request.route.kind, *name_space, ask);
            [[fallthrough]];
        default:
            break;
    }
    Outcome outcome = ask_one(request, members_.given(), ask);
    if (!outcome.good && outcome.problem.status >= 500 && outcome.problem.hint.empty())
        outcome.problem.hint = "others answer with the parameter database: GET /v1/databases";
    return outcome;
}

std::optional<Problem> Databases::unknown_database(const Request& request) const {
    if (request.database.empty() || members_.find(request.database)) return std::nullopt;
    // only clients of the API learn which there are
    const Outcome known = any(request, [&](Member& member) { return session_at(request, member); });
    if (!known.good) return known.problem;
    std::string names;
    for (const MemberPtr& member : members_.all()) names += (names.empty() ? "" : ", ") + member->name;
    return Problem{.status = 404,
                   .detail = "there is no database " + in_quotes(request.database),
                   .sqlstate = "42704",
                   .facts = names.empty() ? "There is only one, which has no name." : "Databases: " + names + "."};
}

// A token that another database knows is no guess, so it does not count as a failed login.
Outcome Databases::ask_one(const Request& request, const MemberPtr& member, const Ask& ask) const {
    Outcome outcome = ask(*member);
    outcome.database = name_of(*member);
    const MemberPtr given = members_.given();
    if (outcome.problem.status != 401 || outcome.good || member == given) return outcome;
    if (session_at(request, *given).good)
        outcome.problem = {.status = 403,
                           .detail = "the token is unknown, expired or revoked in database " + in_quotes(member->name),
                           .sqlstate = "28000",
                           .hint = "pawl databases tokens"};
    return outcome;
}

Outcome Databases::login(const Request& request) {
    const Ask ask = [&](Member& member) { return session_at(request, member); };
    if (request.database.empty()) return any(request, ask);
    return one(request, {}, ask);
}

Outcome Databases::any(const Request& request, const Ask& ask) const {
    const MemberPtr given = members_.given();
    Outcome first = ask_one(request, given, ask);
    if (first.good || first.problem.status < 500) return first;
    for (const MemberPtr& member : members_.all()) {
        if (member == given || member->pool.trouble()) continue;
        if (Outcome outcome = ask_one(request, member, ask); outcome.good) return outcome;
    }
    return first;
}

// Another database is asked only if the one before rejected the request: nothing is done twice.
Outcome Databases::placed(const Request& request, const std::string& kind, const std::string& name_space,
                          const Ask& ask) {
    Outcome outcome;
    try {
        for (int tries = 0; tries < 3; ++tries) {
            const MemberPtr member = members_.of(kind, name_space);
            outcome = ask_one(request, member, ask);
            if (outcome.problem.sqlstate != "PW009") return outcome;
            const std::string place = place_of(*member, kind, name_space);
            if (place.empty()) return outcome;
            members_.learn(kind, name_space, place);
        }
    } catch (const Error& error) {
        return rejected(problem_of(error));
    }
    outcome.problem = {.status = 503,
                       .detail = "namespace " + in_quotes(name_space) + " of kind " + in_quotes(kind) +
                                 " is moving to another database",
                       .sqlstate = "PW009",
                       .hint = "send the request again in a while"};
    return outcome;
}

Outcome Databases::found(const Request& request, const Ask& ask) {
    const auto id = uuid_of(request.argument(request.route.by));
    if (!id) return ask_one(request, members_.given(), ask);  // which says what is wrong with it
    if (const MemberPtr member = members_.find(whereabouts_.of(*id))) {
        const Outcome outcome = ask_one(request, member, ask);
        if (outcome.good || (outcome.problem.sqlstate != "P0002" && outcome.problem.sqlstate != "PW009"))
            return outcome;
        whereabouts_.forget(*id);  // it may have moved
    }
    const Located located = locate_all(request.caller, request.route.kind, {*id});
    if (!located.missing.empty()) return rejected(located.missing.begin()->second);
    const std::string& name = located.by_database.begin()->first;
    const MemberPtr member = members_.find(name);
    if (!member) throw ConnectionLost("08006", "database " + in_quotes(name) + " is not one of several any more");
    return ask_one(request, member, ask);
}

Databases::Located Databases::locate_all(const Caller& caller, const std::string& kind,
                                         const std::vector<std::string>& ids) {
    std::string list;
    for (const std::string& id : ids) list += (list.empty() ? "" : ",") + id;
    Calls calls;
    for (const MemberPtr& member : members_.all())
        calls.emplace_back(
            member, Call{.route = "_whereabouts", .arguments = nlohmann::json{{"kind", kind}, {"ids", list}}.dump()});
    const Replies replies = ask_all(caller, std::move(calls));
    Located located;
    std::map<std::string, std::string> database, left;
    std::set<std::pair<std::string, std::string>> arrived;  // ids and databases
    std::vector<Unavailable> unavailable;
    std::optional<Problem> problem;
    bool answered = false;
    for (const Reply& reply : replies) {
        if (reply.outcome.good) {
            answered = true;
            const auto json = parse_json(*reply.outcome.json);
            for (const auto& id : json.at("here")) database[id] = reply.member->name;
            for (const auto& [id, place] : json.at("left").items()) left[id] = place;
            for (const auto& id : json.at("arrived")) arrived.insert({id, reply.member->name});
        } else if (is_unavailable(reply.outcome)) {
            unavailable.push_back({reply.member->name, reply.outcome.problem});
        } else {
            problem = reply.outcome.problem;
        }
    }
    for (const std::string& id : ids) {
        if (const auto found = database.find(id); found != database.end()) {
            whereabouts_.learn(id, found->second);
            located.by_database[found->second].push_back(id);
        } else if (const auto gone = left.find(id);
                   gone != left.end() && unavailable.empty() && !arrived.contains(*gone)) {
            located.missing[id] = {.status = 503,
                                   .detail = kind + " " + id + " is moving to database " + in_quotes(gone->second),
                                   .sqlstate = "PW009",
                                   .hint = "send the request again in a while"};
        } else if (!unavailable.empty()) {
            located.missing[id] = answered ? missing_problem(kind + " " + id, unavailable) : none_problem(unavailable);
        } else {
            located.missing[id] =
                answered || !problem
                    ? Problem{.status = 404, .detail = "there is no " + kind + " " + id, .sqlstate = "P0002"}
                    : *problem;
        }
    }
    return located;
}

// One of several that did not answer the last time is not waited for: Members asks it.
Databases::Replies Databases::ask_all(const Caller& caller, Calls calls) const {
    std::vector<std::future<Outcome>> futures;
    for (auto& [member, call] : calls) {
        call.patience = patience_;
        const auto ask = [&caller, alone = calls.size() == 1, member = member, &call = call] {
            if (const auto trouble = member->pool.trouble(); trouble && !alone) return rejected(*trouble);
            return member->pool.call(caller, call);
        };
        futures.push_back(std::async(std::launch::async, ask));
    }
    Replies replies;
    for (std::size_t i = 0; i < calls.size(); ++i) replies.push_back({calls[i].first, futures[i].get()});
    return replies;
}

}  // namespace pawl::api
