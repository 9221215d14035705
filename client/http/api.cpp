// May throw (the constructor).
#include "api.hpp"

#include <algorithm>
#include <semaphore>
#include <thread>

#include <nlohmann/json.hpp>

#include "auth.hpp"
#include "connection.hpp"
#include "console.hpp"
#include "databases.hpp"
#include "headers.hpp"
#include "json_text.hpp"
#include "links.hpp"
#include "listen.hpp"
#include "rejections.hpp"
#include "request.hpp"
#include "streams.hpp"

namespace pawl::api {
namespace {

using Handled = httplib::Server::HandlerResponse;

std::string hexadecimal(std::string_view bytes) {
    std::string digits;
    for (const unsigned char byte : bytes) {
        digits += "0123456789abcdef"[byte >> 4];
        digits += "0123456789abcdef"[byte & 15];
    }
    return digits;
}

constexpr std::chrono::milliseconds longest_part{5'000};  // for one of several databases that are asked together
constexpr auto held_back = std::chrono::seconds(1);       // the answer to one who guesses

// One of the few streams at a time.
struct Place {
    explicit Place(std::counting_semaphore<>& all) : all(all), free(all.try_acquire()) {}
    ~Place() {
        if (free) all.release();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    std::counting_semaphore<>& all;
    const bool free;
};

Outcome outcome_of(std::optional<Problem> problem) {
    return problem ? Outcome{.problem = std::move(*problem)} : Outcome{.good = true};
}

std::optional<Problem> busy() {
    return Problem{.status = 503, .detail = "too many uploads and exports are running", .sqlstate = "53300"};
}

}  // namespace

struct Api::Impl {
    Impl(const Settings& given, const daemon::Log& log, Condition condition)
        : settings(given),
          log(log),
          condition(std::move(condition)),
          routes(openapi_document()),
          members(given.database, given.all_databases, given.login, given.connections, given.timeout, log),
          databases(members, std::min(given.timeout, longest_part)),
          proxies(settings.proxies),
          logins(settings.failed_logins),
          links(settings.links),
          server(settings.limits, settings.tls) {}

    Handled route(const httplib::Request& http, httplib::Response& response);
    void receive(const httplib::Request& http, httplib::Response& response, const httplib::ContentReader& reader);
    std::optional<Request> admit(const httplib::Request& http, httplib::Response& response);
    std::optional<Caller> follow(Request& request, const std::string& ticket);
    std::string address_of(const httplib::Request& http) const;
    void link(const Request& request, httplib::Response& response);
    void look(const Request& request, httplib::Response& response);
    void act(const Request& request, httplib::Response& response, const httplib::ContentReader& reader);
    void finish(const Request& request, const Outcome& outcome, httplib::Response& response);
    void ourselves(const Request& request, httplib::Response& response);
    bool is_ready(std::string& why);
    std::string with_daemon(const std::string& json, const std::string& database);

    Settings settings;
    const daemon::Log& log;
    Condition condition;
    Routes routes;
    Members members;
    Databases databases;
    Proxies proxies;
    LoginLimiter logins;
    Rejections rejections;
    Links links;
    std::counting_semaphore<> streams{16};
    const LoginLimiter::Clock::time_point began = LoginLimiter::Clock::now();
    Server server;
    int port = 0;
    std::jthread thread;
};

// Finds the route and checks the parameters and the credentials. Answers every error.
std::optional<Request> Api::Impl::admit(const httplib::Request& http, httplib::Response& response) {
    const auto stop = [&](const Problem& problem) {
        if (has_body(http) && current_connection) current_connection->close_after_this();
        if (current_connection && current_connection->is_last()) response.set_header("Connection", "close");
        reject(response, problem, log);
        return std::nullopt;
    };
    if (const auto problem = rejected_origin(http, settings.hosts)) return stop(*problem);
    const auto target = split_target(http.target);
    if (!target) return stop({.status = 400, .detail = "the address is not well-formed"});
    Match match = routes.find(http.method, target->segments);
    if (!match.route && match.allowed.empty())
        return stop({.status = 404, .detail = "no such address", .hint = "GET /openapi.json"});
    if (!match.route) {
        response.set_header("Allow", match.allowed);
        return stop({.status = 405, .detail = "this address allows only " + match.allowed});
    }
    Request request{.http = http, .route = *match.route, .caller = {}, .arguments = std::move(match.arguments)};
    for (const auto& [name, value] : target->query) {
        if (!match.route->query.contains(name))
            return stop({.status = 400, .detail = "unknown parameter \"" + name + "\""});
        if (!request.arguments.emplace(name, value).second)
            return stop({.status = 400, .detail = "parameter \"" + name + "\" is given twice"});
    }
    if (const auto named = request.arguments.extract("database"); !named.empty()) request.database = named.mapped();
    if (match.route->scope.empty()) return request;
    auto caller = credentials(http);
    if (const std::string ticket = request.argument("ticket"); !ticket.empty()) {
        request.arguments.erase("ticket");
        if (!caller && http.method == "GET") caller = follow(request, ticket);
    }
    if (!caller)
        return stop({.status = 401,
                     .detail = "a bearer token is needed",
                     .sqlstate = "28000",
                     .hint = "Authorization: Bearer pawl_..."});
    caller->address = address_of(http);
    if (const int wait = logins.must_wait(*caller); wait > 0) {
        response.set_header("Retry-After", std::to_string(wait));
        return stop({.status = 429, .detail = "too many failed logins with such tokens from this address"});
    }
    if (const auto problem = unreadable_body(http, match.route->native)) {
        if (http.has_header("Content-Encoding")) response.set_header("Accept-Encoding", "identity");
        return stop(*problem);
    }
    // A browser shows its certificate also in requests that another site makes it send. A form cannot send JSON.
    if (caller->kind == "certificate" && http.method == "POST" && !is_media_type(http, "application/json") &&
        !match.route->native)
        return stop({.status = 415, .detail = "the body must be application/json"});
    request.caller = std::move(*caller);
    request.caller.scope = match.route->scope;
    request.caller.trace = trace_of(http);
    return request;
}

std::string Api::Impl::address_of(const httplib::Request& http) const {
    return proxies.client_of(http.remote_addr, joined_header(http, "X-Forwarded-For"));
}

// A link is for the file that it was made for; what was asked for then counts. Who guesses is one who fails to log in.
std::optional<Caller> Api::Impl::follow(Request& request, const std::string& ticket) {
    const Caller guest{.digest = sha256(ticket), .prefix = ticket.substr(0, 8), .address = address_of(request.http)};
    if (logins.must_wait(guest) > 0) return std::nullopt;
    auto linked = links.follow(ticket);
    if (!linked || linked->operation != request.route.operation || linked->arguments["id"] != request.argument("id")) {
        if (logins.unknown(guest).late && current_connection) current_connection->pause(held_back);
        return std::nullopt;
    }
    request.arguments = std::move(linked->arguments);
    request.database = std::move(linked->database);
    return std::move(linked->caller);
}

void Api::Impl::link(const Request& request, httplib::Response& response) {
    const Outcome checked =
        databases.one(request, {}, [&](const Member& member) { return outcome_of(check_export(request, member)); });
    if (!checked.good) return finish(request, checked, response);
    const std::string ticket = links.make({.operation = "export_bulk",
                                           .arguments = request.arguments,
                                           .database = checked.database,
                                           .caller = request.caller});
    if (ticket.empty()) {
        return finish(request,
                      {.problem = Problem{.status = 503, .detail = "too many links are open", .sqlstate = "53300"}},
                      response);
    }
    const std::string& asked = request.http.path;
    const nlohmann::json body = {{"href", asked.substr(0, asked.rfind('/')) + "?ticket=" + ticket},
                                 {"valid_s", Links::valid.count()}};
    finish(request, {.good = true, .json = body.dump(), .database = checked.database}, response);
}

void Api::Impl::finish(const Request& request, const Outcome& outcome, httplib::Response& response) {
    if (!outcome.database.empty()) response.set_header("Pawl-Database", outcome.database);
    if (!outcome.good) {
        rejections.count(outcome.problem.sqlstate);
        Problem problem = outcome.problem;
        if (problem.status == 401) {
            const auto verdict = logins.unknown(request.caller);
            if (verdict.logged) log.warn("login failed", {{"address", request.caller.address}});
            if (verdict.late) {
                if (current_connection) current_connection->pause(held_back);
                response.set_header("Retry-After", "60");
                problem = {.status = 429, .detail = "too many failed logins from this address"};
            }
        }
        // 503: that a standby cannot write is not the caller's fault
        if (problem.sqlstate == "25006" && request.caller.scope != "read") problem.status = 503;
        reject(response, problem, log);
        return;
    }
    logins.known(request.caller.digest);
    if (!outcome.json) {
        response.status = 204;
        return;
    }
    if (request.route.tagged) {
        const std::string tag = "\"" + hexadecimal(sha256(*outcome.json)).substr(0, 32) + "\"";
        response.set_header("ETag", tag);
        if (request.http.get_header_value("If-None-Match").find(tag) != std::string::npos) {
            response.status = 304;
            return;
        }
    }
    if (request.route.type == "application/json")
        answer(response, request.route.status,
               request.route.operation == "session" || request.route.operation == "overview"
                   ? with_daemon(*outcome.json, outcome.database)
                   : *outcome.json,
               request.route.type);
    else
        answer(response, request.route.status, parse_json(*outcome.json).get<std::string>(), request.route.type);
}

// Adds the errors that the daemon has counted to those of the database.
std::string Api::Impl::with_daemon(const std::string& json, const std::string& database) {
    auto body = parse_json(json);
    std::string why;
    const bool good = condition.ready(why);
    MemberPtr member = members.find(database);
    if (!member) member = members.given();
    const Pool::Use use = member->pool.use();
    body["daemon"] = {
        {"healthy", good},
        {"reason", good ? member->feed.problem() : why},
        {"uptime_s", std::chrono::duration_cast<std::chrono::seconds>(LoginLimiter::Clock::now() - began).count()},
        {"connections", {{"idle", use.idle}, {"taken", use.taken}, {"max", use.max}}},
        {"calls", use.calls}};
    if (body.contains("queues")) {
        body["throughput"] = member->feed.throughput();
        body["rejections"] = rejections.list();
    }
    return body.dump();
}

void Api::Impl::look(const Request& request, httplib::Response& response) {
    finish(request, databases.answer(request, {.route = request.route.operation, .arguments = request.json()}),
           response);
}

void Api::Impl::act(const Request& request, httplib::Response& response, const httplib::ContentReader& reader) {
    Call call{.route = request.route.operation, .arguments = request.json()};
    if (const auto problem = read_call(request.http, reader, settings.limits.body_bytes, call))
        return reject(response, *problem, log);
    if (request.route.scope == "read") call.once.reset();  // it changes nothing, and may store nothing
    finish(request, databases.answer(request, call), response);
}

// Ready if one of the databases answers.
bool Api::Impl::is_ready(std::string& why) {
    if (!condition.ready(why)) return false;
    for (const MemberPtr& member : members.known()) {
        // Requests that are slow say nothing of the database; and a pooler may have no connection to spare.
        Pool& asked = member->pool.has_room() ? member->pool : member->readiness;
        const auto problem = asked.check();
        member->readiness.end_idle();
        if (!problem) return true;
        why = problem->detail;
    }
    return false;
}

void Api::Impl::ourselves(const Request& request, httplib::Response& response) {
    const std::string& what = request.route.operation;
    if (what == "openapi") {
        answer(response, 200, std::string(openapi_document()), "application/json");
    } else if (what == "healthz" || what == "readyz") {
        std::string why;
        const bool good = what == "healthz" ? condition.alive(why) : is_ready(why);
        // an unknown client learns no more than that
        answer(response, good ? 200 : 503, good ? "ok\n" : "not ready\n", "text/plain");
        if (!good) log.debug("not healthy", {{"why", why}});
    } else if (what == "export_bulk" || what == "bulk_file") {
        const Place place(streams);
        const auto send = [&](const Member& member) {
            return outcome_of(send_export(request, member, databases.name_of(member)));
        };
        const Outcome outcome = place.free ? databases.one(request, {}, send) : Outcome{.problem = *busy()};
        if (!outcome.good) finish(request, outcome, response);
    } else if (what == "link_export") {
        link(request, response);
    } else if (what == "stream_events") {
        auto problem = databases.unknown_database(request);
        if (!problem) problem = listen(request, members);
        if (problem) finish(request, {.problem = *problem}, response);
    } else if (what == "list_databases") {
        finish(request, databases.health(request, condition.database_ready), response);
    }
}

// Everything that has no body is answered before cpp-httplib looks for handlers of its own.
Handled Api::Impl::route(const httplib::Request& http, httplib::Response& response) {
    protect(response, !settings.tls.certificate.empty());
    if (http.method == "POST") return Handled::Unhandled;
    if (const auto problem = rejected_origin(http, settings.hosts)) {
        reject(response, *problem, log);
        return Handled::Handled;
    }
    if ((http.method == "GET" || http.method == "HEAD") && serve_console(http, response)) return Handled::Handled;
    if (const auto request = admit(http, response))
        request->route.native ? ourselves(*request, response) : look(*request, response);
    return Handled::Handled;
}

void Api::Impl::receive(const httplib::Request& http, httplib::Response& response,
                        const httplib::ContentReader& reader) {
    const auto request = admit(http, response);
    if (!request) return;
    if (!request->route.native) return act(*request, response, reader);
    // no file is read before the client is authenticated
    if (const Outcome known = databases.login(*request); !known.good) {
        current_connection->close_after_this();
        return finish(*request, known, response);
    }
    const Place place(streams);
    if (!place.free) current_connection->close_after_this();
    finish(*request,
           place.free ? take_upload(*request, reader, databases, settings.limits) : Outcome{.problem = *busy()},
           response);
}

Api::Api(const Settings& settings, const daemon::Log& log, Condition condition)
    : impl_(std::make_unique<Impl>(settings, log, std::move(condition))) {
    Impl& impl = *impl_;
    impl.server.set_pre_routing_handler(
        [&impl](const httplib::Request& http, httplib::Response& response) { return impl.route(http, response); });

    impl.server.Post("[^]*", [&impl](const httplib::Request& http, httplib::Response& response,
                                     const httplib::ContentReader& reader) { impl.receive(http, response, reader); });
    impl.server.set_exception_handler(
        [&impl](const httplib::Request&, httplib::Response& response, std::exception_ptr problem) {
            try {
                std::rethrow_exception(problem);
            } catch (const Error& caught) {
                return reject(response, problem_of(caught), impl.log);
            } catch (const std::exception& caught) {
                impl.log.error("request failed", {{"message", caught.what()}});
            }
            reject(response, {.status = 500, .detail = "the request failed"}, impl.log);
        });
    impl.server.set_error_handler([&impl](const httplib::Request&, httplib::Response& response) {
        if (response.body.empty())
            reject(response, {.status = response.status, .detail = "the request is malformed"}, impl.log);
    });
    const auto colon = settings.address.rfind(':');
    impl.port = impl.server.bind(settings.address.substr(0, colon), std::stoi(settings.address.substr(colon + 1)));
    impl.thread = std::jthread([&impl] { impl.server.listen_after_bind(); });
    while (!impl.server.is_running()) std::this_thread::yield();  // an end before it runs would be lost
}

Api::~Api() {
    impl_->members.end();
    impl_->server.end();
}

int Api::port() const noexcept {
    return impl_->port;
}

void Api::reload_certificate() {
    impl_->server.reload_certificate();
}

TlsContext Api::tls() const {
    return impl_->server.context();
}

std::vector<std::pair<std::string, Use>> Api::use() const {
    std::vector<std::pair<std::string, Use>> all;
    for (const MemberPtr& member : impl_->members.known()) all.emplace_back(member->name, member->pool.use());
    return all;
}

}  // namespace pawl::api
