// May throw (out of memory). Requests that several databases answer together: lists, actions on many, the databases
// themselves.
#include <algorithm>
#include <charconv>
#include <set>

#include <pawl/errors.hpp>

#include "databases.hpp"
#include "json_text.hpp"
#include "merge.hpp"
#include "replies.hpp"

namespace pawl::api {
namespace {

constexpr std::size_t usual_page = 50, longest_page = 500;  // as pawl_api._limit

// What the databases have answered, and why others have not.
struct Sorted {
    std::map<std::string, nlohmann::json> answers;
    std::vector<Unavailable> unavailable;
    std::optional<Problem> problem;  // what is wrong with the request, or a pack that none has
};

// What one database has answered is no reason to leave out the others: data of its clients are in it.
Problem unreadable_answer(const Error& error) {
    return {.status = 503,
            .detail = std::string("the answer cannot be merged with others: ") + error.what(),
            .hint = "the parameter database asks this database alone"};
}

template <typename Replies>
Sorted sorted(const Replies& replies) {
    Sorted all;
    std::optional<Problem> lacking;
    for (const auto& [member, outcome] : replies) {
        if (outcome.good) {
            try {
                all.answers[member->name] = parse_json(*outcome.json);
            } catch (const Error& error) {
                all.unavailable.push_back({member->name, unreadable_answer(error)});
            }
        } else if (is_unavailable(outcome))
            all.unavailable.push_back({member->name, outcome.problem});
        else
            (is_lacking(outcome) ? lacking : all.problem) = outcome.problem;
    }
    if (!all.problem && all.answers.empty()) all.problem = lacking ? *lacking : none_problem(all.unavailable);
    return all;
}

Outcome invalid(const std::string& detail) {
    return {.problem = {.status = 400, .detail = detail, .sqlstate = "22023"}};
}

Outcome good(const nlohmann::json& json) {
    return {.good = true, .json = json.dump()};
}

// The rows of a page; nothing if the parameter is invalid.
std::optional<std::size_t> limit_of(const Request& request) {
    if (!request.route.query.contains("limit")) return SIZE_MAX;
    const std::string text = request.argument("limit");
    if (text.empty()) return usual_page;
    std::size_t limit = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
    if (error != std::errc() || end != text.data() + text.size() || limit < 1 || limit > longest_page)
        return std::nullopt;
    return limit;
}

// An id that no database has, as an outcome of an action.
nlohmann::json rejection(const std::string& id, const Problem& problem) {
    return {{"id", id},
            {"state", nullptr},
            {"outcome", "rejected"},
            {"sqlstate", problem.sqlstate},
            {"reason", problem.detail}};
}

std::int64_t sum_in(const nlohmann::json& list, const char* field) {
    std::int64_t sum = 0;
    for (const auto& one : list) sum += one.at(field).is_null() ? 0 : one.at(field).get<std::int64_t>();
    return sum;
}

// What an overview says in a few numbers.
nlohmann::json figures_of(const nlohmann::json& overview) {
    const auto& bulks = overview.at("bulks_open");
    return {{"waiting", sum_in(overview.at("queues"), "depth")},
            {"in_flight", sum_in(overview.at("queues"), "owned")},
            {"expired", sum_in(overview.at("owners"), "expired")},
            {"dead_letters", overview.at("dead_letters")},
            {"tasks_open", overview.at("tasks_open")},
            {"sagas_open", overview.at("sagas_open")},
            {"bulks_open", bulks.is_null() ? nlohmann::json() : nlohmann::json(bulks.size())}};
}

void add_rejections(const std::map<std::string, Problem>& missing, bool dry_run, nlohmann::json& sum) {
    for (const auto& [id, problem] : missing) {
        nlohmann::json one = rejection(id, problem);
        sum["rejected"] = sum["rejected"].get<std::int64_t>() + 1;
        if (!dry_run) sum["items"].push_back(one);
        one.erase("id");
        one["count"] = 1;
        one["examples"] = {id};
        sum["groups"].push_back(std::move(one));
    }
}

}  // namespace

Outcome Databases::list(const Request& request, const Call& call) const {
    const auto members = members_.all();
    const auto limit = limit_of(request);
    if (!limit) return invalid("limit must be from 1 to " + std::to_string(longest_page));
    const auto given = request.arguments.contains("cursor") ? places_of(request.argument("cursor")) : PageEnds();
    if (!given) return invalid("invalid cursor");
    PageEnds places;  // of a database that is not there any more the cursor may know, too
    Calls calls;
    for (const MemberPtr& member : members) {
        PageEnd& place = places[member->name];
        if (const auto known = given->find(member->name); known != given->end()) place = known->second;
        if (place.ended) continue;
        std::map<std::string, std::string> arguments = request.arguments;
        arguments.erase("cursor");
        if (!place.keys.empty()) arguments["cursor"] = cursor_of(place.keys);
        calls.emplace_back(member, Call{.route = call.route, .arguments = nlohmann::json(arguments).dump()});
    }
    if (calls.empty()) return invalid("invalid cursor");
    const Sorted all = sorted(ask_all(request.caller, std::move(calls)));
    if (all.problem) return {.problem = *all.problem};
    std::map<std::string, Page> pages;
    for (const auto& [database, answer] : all.answers) {
        const auto& next = answer.at("next");
        pages[database] = {answer.at("items"), next.is_null() ? std::nullopt : keys_of(next.get<std::string>())};
    }
    nlohmann::json page = {{"items", merge(std::move(pages), request.route.order, *limit, places)}};
    // one that is unavailable continues where it is, if it is back before the others have ended
    std::vector<std::string> available;
    for (const auto& [database, place] : places)
        if (place.ended || all.answers.contains(database)) available.push_back(database);
    page["next"] = next_of(available, places);
    if (!all.unavailable.empty()) page["unavailable"] = json_of(all.unavailable);
    return good(page);
}

// Things with given ids are acted on where they are; a filter is applied in every database. One that is unavailable is
// told, and left out of what continues the action.
Outcome Databases::act(const Request& request, const Call& call, const nlohmann::json& body) {
    const Ask whole = [&](Member& member) { return member.pool.call(request.caller, call); };
    const auto is_id = [](const nlohmann::json& id) { return id.is_string() && uuid_of(id.get<std::string>()); };
    if (!body.is_object()) return invalid("the body must be a JSON object");
    const bool has_ids = body.contains("ids") && !body["ids"].is_null();
    if (has_ids && (!body["ids"].is_array() || body["ids"].empty() || body["ids"].size() > longest_page ||
                    !std::all_of(body["ids"].begin(), body["ids"].end(), is_id)))
        return ask_one(request, members_.given(), whole);  // which says what is wrong
    PageEnds places;
    const bool continues = body.contains("cursor") && !body["cursor"].is_null();
    if (continues) {
        const auto at = body["cursor"].is_string() ? places_of(body["cursor"].get<std::string>()) : std::nullopt;
        if (!at) return invalid("invalid cursor");
        places = *at;
    }
    Located located;
    if (has_ids) {
        std::set<std::string> ids;
        for (const auto& id : body["ids"]) ids.insert(*uuid_of(id.get<std::string>()));
        located = locate_all(request.caller, request.route.kind, {ids.begin(), ids.end()});
        // a database says of what is in none of them that it is not there
        for (const auto& [id, problem] : located.missing)
            if (problem.status == 404) located.by_database[members_.given()->name].push_back(id);
        std::erase_if(located.missing, [&](const auto& one) { return continues || one.second.status == 404; });
    }
    Calls calls;
    std::vector<std::string> asked;
    for (const MemberPtr& member : members_.all()) {
        const PageEnd place = places[member->name];
        if (place.ended || (has_ids && !located.by_database.contains(member->name))) continue;
        nlohmann::json part = body;
        part.erase("cursor");
        if (has_ids) part["ids"] = located.by_database[member->name];
        if (!place.keys.empty()) part["cursor"] = cursor_of(place.keys);
        Call mine = call;
        mine.body = part.dump();
        calls.emplace_back(member, std::move(mine));
        asked.push_back(member->name);
    }
    if (calls.empty())
        return continues ? invalid("invalid cursor") : Outcome{.problem = located.missing.begin()->second};
    const Sorted all = sorted(ask_all(request.caller, std::move(calls)));
    if (all.answers.empty()) return {.problem = *all.problem};
    if (has_ids)
        for (const auto& [database, problem] : all.unavailable)
            for (const std::string& id : located.by_database[database]) located.missing[id] = problem;
    for (const std::string& database : asked) {
        const auto answer = all.answers.find(database);
        const auto next = answer == all.answers.end() ? nlohmann::json() : answer->second.at("next");
        const auto keys = next.is_null() ? std::nullopt : keys_of(next.get<std::string>());
        places[database] = keys ? PageEnd{.keys = *keys} : PageEnd{.ended = true};
    }
    nlohmann::json sum = sum_of(all.answers);
    add_rejections(located.missing, sum["dry_run"], sum);
    sum["next"] = next_of(asked, places);
    if (!all.unavailable.empty()) sum["unavailable"] = json_of(all.unavailable);
    return good(sum);
}

Outcome Databases::health(const Request& request, const Ready& ready) {
    if (const auto problem = unknown_database(request)) return {.problem = *problem};
    Calls calls;
    for (const MemberPtr& member : members_.all())
        if (request.database.empty() || member->name == request.database)
            calls.emplace_back(member, Call{.route = "overview", .arguments = "{}"});
    const Replies replies = ask_all(request.caller, std::move(calls));
    if (const Sorted all = sorted(replies); all.answers.empty()) return {.problem = *all.problem};
    auto items = nlohmann::json::array();
    for (const auto& [member, outcome] : replies) {
        std::string why;
        const bool works = ready(member->name, why);
        nlohmann::json item = {{"database", member->name.empty() ? nlohmann::json() : nlohmann::json(member->name)},
                               {"home", member->home},
                               {"given", member == members_.given()},
                               {"ready", outcome.good && works},
                               {"reason", outcome.good && works ? nlohmann::json()
                                          : outcome.good        ? nlohmann::json(why)
                                                                : nlohmann::json(outcome.problem.detail)},
                               {"figures", nullptr}};
        if (outcome.good) item["figures"] = figures_of(parse_json(*outcome.json));
        items.push_back(std::move(item));
    }
    return good({{"items", items}, {"next", nullptr}});
}

}  // namespace pawl::api
