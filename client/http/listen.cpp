// May throw (out of memory).
#include "listen.hpp"

#include "libpq.hpp"
#include "streamed.hpp"

namespace pawl::api {
namespace {

constexpr auto breath = std::chrono::seconds(1);
constexpr auto silence = std::chrono::seconds(15);  // then a comment keeps the connection open
constexpr auto trust = std::chrono::seconds(30);    // then the rights of the listener are checked again
constexpr int most_resumed = 20'000;

// Whether the batch contains none of the transactions that were seen, and no later batch does.
bool is_behind(const Batch& batch, const Snapshot& seen) {
    return seen_at(batch.position()).xmin >= seen.xmax;
}

// {1,2,3}
Relations relations_of(const char* list) {
    Relations relations;
    for (const char* at = list; *at; ++at)
        if (*at >= '0' && *at <= '9') {
            char* end = nullptr;
            relations.insert(static_cast<unsigned>(std::strtoul(at, &end, 10)));
            at = end - 1;
        }
    return relations;
}

class Listener {
public:
    Listener(const Request& request, Pool& pool) : request_(request), pool_(pool) {}

    std::optional<Problem> ask() {
        const Caller& caller = request_.caller;
        const std::string wanted = request_.argument("relations");
        const char* values[] = {caller.kind.c_str(), caller.digest.data(), wanted.empty() ? nullptr : wanted.c_str()};
        const int lengths[] = {0, static_cast<int>(caller.digest.size()), 0}, formats[] = {0, 1, 0};
        return pool_.lend([&](Session& session) -> std::optional<Problem> {
            const Result result =
                session.ask("SELECT visible FROM pawl_api._listen($1, $2, $3)", 3, values, lengths, formats);
            if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return problem_of(result.get());
            relations = relations_of(value_of(result.get(), 0, 0));
            asked_ = Clock::now();
            return std::nullopt;
        });
    }

    bool is_stale() const { return Clock::now() - asked_ > trust; }

    // What came behind a position that the feed does not remember, and what was seen then.
    std::optional<Problem> catch_up(const std::string& position, std::string& text, Snapshot& seen) {
        return pool_.lend([&](Session& session) -> std::optional<Problem> {
            const Result result =
                session.run("SELECT txid, relation, event, seen, gap FROM pawl_api._read_since($1, $2::integer)",
                            {position, std::to_string(most_resumed)});
            if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return problem_of(result.get());
            const int last = PQntuples(result.get()) - 1;
            if (value_of(result.get(), last, 4)[0] == 't')
                text += "event: gap\ndata: {\"detail\": \"events behind this position are gone, or too many\"}\n\n";
            for (int i = 0; i < last; ++i)
                if (relations.contains(static_cast<unsigned>(std::strtoul(value_of(result.get(), i, 1), nullptr, 10))))
                    text += std::string("event: transition\ndata: ") + value_of(result.get(), i, 2) + "\n\n";
            seen = snapshot_of(value_of(result.get(), last, 3));
            return std::nullopt;
        });
    }

    Relations relations;

private:
    using Clock = std::chrono::steady_clock;

    const Request& request_;
    Pool& pool_;
    Clock::time_point asked_{};
};

}  // namespace

std::optional<Problem> listen(const Request& request, Feed& feed, Pool& pool) {
    Listener listener(request, pool);
    if (const auto problem = listener.ask()) return problem;
    if (const std::string why = feed.problem(std::chrono::seconds(5)); !why.empty())
        return Problem{.status = 503, .detail = "the events cannot be read", .sqlstate = "57P03"};
    const std::string position = request.http.get_header_value("Last-Event-ID");
    bool overlaps = false;
    std::uint64_t next = feed.begin(position, overlaps);
    std::string missed;
    std::optional<Snapshot> seen;
    if (overlaps) seen = seen_at(position);
    if (next == 0) {
        // first the place in the feed, then the past: events that are in both are recognized by their transaction
        next = feed.begin("", overlaps);
        if (const auto problem = listener.catch_up(position, missed, seen.emplace())) return problem;
    }
    StreamedAnswer answer(*current_connection,
                          {{"Content-Type", "text/event-stream"},
                           {"Cache-Control", "no-store"},
                           {"X-Accel-Buffering", "no"},
                           {"X-Content-Type-Options", "nosniff"}},
                          request.http.method != "HEAD");
    bool good = answer.write(": pawl\n\n" + missed), lost = false;
    for (auto told = std::chrono::steady_clock::now(); good;) {
        const auto batch = feed.wait(next, breath, lost);
        if (lost || (listener.is_stale() && listener.ask())) break;
        if (batch) {
            good = answer.write(*batch->text(listener.relations, seen ? &*seen : nullptr));
            ++next;
            if (seen && is_behind(*batch, *seen)) seen.reset();
            told = std::chrono::steady_clock::now();
        } else if (std::chrono::steady_clock::now() - told > silence) {
            good = answer.write(": keep-alive\n\n");
            told = std::chrono::steady_clock::now();
        } else if (current_connection->is_gone()) {
            break;
        }
    }
    answer.finish();
    return std::nullopt;
}

}  // namespace pawl::api
