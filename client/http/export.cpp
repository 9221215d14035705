// May throw (out of memory).
#include "streams.hpp"

#include <algorithm>
#include <cctype>

#include "connection.hpp"
#include "file_session.hpp"
#include "streamed.hpp"

namespace pawl::api {
namespace {

constexpr std::size_t piece = 1 << 16;

// A name in a header: what could end it or split it is left out.
std::string quoted_name(const std::string& name) {
    std::string plain;
    for (const char c : name) plain += c >= ' ' && c < 127 && c != '"' && c != '\\' ? c : '_';
    return "\"" + plain + "\"";
}

struct What {
    std::string command, name, type;
};

What what_to_send(LibpqSession& session, const Request& request) {
    if (request.route.operation == "bulk_file") {
        const auto said =
            session.run("SELECT command, file_name, type FROM pawl_api._file_command($1::jsonb)", {request.json()});
        return {value_of(said.get(), 0, 0), value_of(said.get(), 0, 1), value_of(said.get(), 0, 2)};
    }
    const auto said = session.run("SELECT pawl_api._export_command($1::jsonb)", {request.json()});
    const bool json = request.argument("format") == "json";
    std::string part = request.argument("state").empty() ? "" : "-" + request.argument("state");
    std::transform(part.begin(), part.end(), part.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string mode = request.argument("mode").empty() ? "report" : request.argument("mode");
    return {value_of(said.get(), 0, 0), request.argument("id") + "-" + mode + part + (json ? ".json" : ".csv"),
            json ? "application/json" : "text/csv"};
}

}  // namespace

// The library has the server's words as one text; its lines are DETAIL and HINT.
Problem problem_of(const Error& error) {
    if (dynamic_cast<const Silence*>(&error))
        return {.status = 504, .detail = error.what(), .sqlstate = error.sqlstate()};
    if (error.sqlstate().empty()) return {.status = 400, .detail = error.what()};
    Problem problem{.status = status_of(error.sqlstate()), .detail = "", .sqlstate = error.sqlstate()};
    std::string_view rest(error.what());
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        const auto said = [&](std::string_view word, std::string& into) {
            const std::size_t begin =
                line.substr(0, word.size()) == word ? line.find_first_not_of(' ', word.size()) : std::string_view::npos;
            if (into.empty() && begin != std::string_view::npos) into = line.substr(begin);
        };
        said("ERROR:", problem.detail);
        said("DETAIL:", problem.facts);
        said("HINT:", problem.hint);
    }
    if (problem.detail.empty())
        problem.detail = problem.status == 503 ? "the database cannot be reached" : std::string(error.what());
    return problem;
}

std::optional<Problem> check_export(const Request& request, const Member& member) {
    try {
        FileSession session(member, request.caller);
        what_to_send(*session, request);
    } catch (const Error& error) {
        return problem_of(error);
    } catch (const ClientGone&) {
        return Problem{.status = 503, .detail = "the client has gone"};
    }
    return std::nullopt;
}

std::optional<Problem> send_export(const Request& request, const Member& member, const std::string& name) {
    std::optional<StreamedAnswer> answer;
    std::string pending;
    try {
        FileSession session(member, request.caller);
        const What what = what_to_send(*session, request);
        const bool with_body = request.http.method != "HEAD";
        const auto begin = [&] {
            StreamedAnswer::Headers headers{{"Content-Type", what.type},
                                            {"Content-Disposition", "attachment; filename=" + quoted_name(what.name)},
                                            {"Cache-Control", "no-store"},
                                            {"X-Content-Type-Options", "nosniff"}};
            if (!name.empty()) headers.emplace_back("Pawl-Database", name);
            answer.emplace(*current_connection, headers, with_body);
        };
        if (!with_body) {
            begin();
            return std::nullopt;
        }
        // an error of the query comes before its first row, and can still be told
        session.begin_long_work();
        session->copy_out(what.command, [&](std::string_view bytes) {
            pending.append(bytes);
            if (pending.size() < piece) return;
            if (!answer) begin();
            if (!answer->write(pending)) throw ClientGone{};
            pending.clear();
        });
        if (!answer) begin();
        answer->write(pending);
        answer->finish();
    } catch (const Error& error) {
        if (!answer) return problem_of(error);
    } catch (const ClientGone&) {
    }
    return std::nullopt;
}

}  // namespace pawl::api
