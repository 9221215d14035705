// May throw (out of memory).
#include "listen.hpp"

#include <algorithm>

#include "feed.hpp"
#include "libpq.hpp"
#include "replies.hpp"
#include "streamed.hpp"

namespace pawl::api {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto breath = std::chrono::seconds(1);
constexpr auto silence = std::chrono::seconds(15);     // then a comment keeps the connection open
constexpr auto trust = std::chrono::seconds(30);       // then the rights of the listener are checked again
constexpr auto retry_after = std::chrono::seconds(5);  // before a database that rejected the listener is asked again
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

// The events of one database for one client.
class Source {
public:
    // name: what events call the database; empty: nothing. position: where the client has read to; empty: from now on.
    Source(const Request& request, MemberPtr member, std::string name, std::string position)
        : member(std::move(member)), request_(request), name_(std::move(name)), position_(std::move(position)) {}

    // Begins to listen; adds what was missed since the position.
    std::optional<Problem> open(std::string& text) {
        if (const auto problem = ask()) return problem;
        if (const std::string why = member->feed.problem(std::chrono::seconds(5)); !why.empty())
            return Problem{.status = 503, .detail = "the events cannot be read", .sqlstate = "57P03"};
        bool overlaps = false;
        seen_.reset();
        next_ = member->feed.begin(position_, overlaps);
        if (overlaps) seen_ = seen_at(position_);
        if (next_ == 0) {
            // first the place in the feed, then the past: events that are in both are recognized by their transaction
            next_ = member->feed.begin("", overlaps);
            if (const auto problem = catch_up(text, seen_.emplace())) return problem;
        }
        is_open_ = true;
        return std::nullopt;
    }

    // Adds what has come. False: it was forgotten before it was read, or the feed has ended.
    bool read(std::string& text, const std::function<std::string()>& id) {
        for (;;) {
            bool lost = false;
            const auto batch = member->feed.batch(next_, lost);
            if (!batch) return !lost;
            ++next_;
            position_ = batch->position();
            text += *batch->text(relations_, name_, seen_ ? &*seen_ : nullptr) + "id: " + id() + "\n\n";
            if (seen_ && is_behind(*batch, *seen_)) seen_.reset();
        }
    }

    // Checks now and then whether the client may still listen.
    std::optional<Problem> renew() { return Clock::now() - asked_ > trust ? ask() : std::nullopt; }

    bool is_open() const noexcept { return is_open_; }
    void close() noexcept { is_open_ = false; }
    const std::string& position() const noexcept { return position_; }

    const MemberPtr member;
    Clock::time_point tried{};  // to open it

private:
    std::optional<Problem> ask() {
        const Caller& caller = request_.caller;
        const std::string wanted = request_.argument("relations");
        const char* values[] = {caller.kind.c_str(), caller.digest.data(), wanted.empty() ? nullptr : wanted.c_str()};
        const int lengths[] = {0, static_cast<int>(caller.digest.size()), 0}, formats[] = {0, 1, 0};
        return member->pool.lend([&](Session& session) -> std::optional<Problem> {
            const Result result =
                session.ask("SELECT visible FROM pawl_api._listen($1, $2, $3)", 3, values, lengths, formats);
            if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return problem_of(result.get());
            relations_ = relations_of(value_of(result.get(), 0, 0));
            asked_ = Clock::now();
            return std::nullopt;
        });
    }

    // What came behind a position that the feed does not remember, and what was seen then.
    std::optional<Problem> catch_up(std::string& text, Snapshot& seen) {
        return member->pool.lend([&](Session& session) -> std::optional<Problem> {
            const Result result =
                session.run("SELECT txid, relation, event, seen, gap FROM pawl_api._read_since($1, $2::integer)",
                            {position_, std::to_string(most_resumed)});
            if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return problem_of(result.get());
            const int last = PQntuples(result.get()) - 1;
            if (value_of(result.get(), last, 4)[0] == 't')
                text += "event: gap\ndata: {\"detail\": \"events behind this position are gone, or too many\"}\n\n";
            if (!PQgetisnull(result.get(), last, 2)) position_ = value_of(result.get(), last, 2);
            for (int i = 0; i < last; ++i)
                if (relations_.contains(static_cast<unsigned>(std::strtoul(value_of(result.get(), i, 1), nullptr, 10))))
                    text += message_of(value_of(result.get(), i, 2), name_);
            seen = snapshot_of(value_of(result.get(), last, 3));
            return std::nullopt;
        });
    }

    const Request& request_;
    const std::string name_;
    std::string position_;
    Relations relations_;
    std::uint64_t next_ = 0;
    std::optional<Snapshot> seen_;
    Clock::time_point asked_{};
    bool is_open_ = false;
};

// a=position;b=position
std::map<std::string, std::string> positions_of(std::string_view text) {
    std::map<std::string, std::string> positions;
    while (!text.empty()) {
        const std::string_view one = text.substr(0, text.find(';'));
        text.remove_prefix(std::min(one.size() + 1, text.size()));
        if (const std::size_t equals = one.find('='); equals != std::string_view::npos)
            positions[std::string(one.substr(0, equals))] = one.substr(equals + 1);
    }
    return positions;
}

// All databases that the client listens to.
class Sources {
public:
    Sources(const Request& request, Members& members) : request_(request), members_(members) {
        const std::string last = request.http.get_header_value("Last-Event-ID");
        if (request.database.empty() && members.all().size() > 1)
            positions_ = positions_of(last);
        else
            alone_ = request.database.empty() ? members.given() : members.find(request.database);
        if (alone_) sources_.emplace(alone_->name, Source(request, alone_, "", last));
        if (!alone_ && positions_.empty() && !last.empty())
            missed = "event: gap\ndata: {\"detail\": \"the position is that of a single database\"}\n\n";
    }

    // Listens to databases that are new or there again. A problem of the request itself is returned.
    std::optional<Problem> open() {
        unavailable.clear();
        if (!alone_) meet_members();
        for (auto& [name, source] : sources_) {
            if (source.is_open() || Clock::now() - source.tried < retry_after) continue;
            const auto trouble = alone_ ? std::nullopt : source.member->pool.trouble();
            const std::string before = source.position();
            const auto problem = trouble ? trouble : source.open(missed);
            if (!trouble) source.tried = Clock::now();
            if (source.position() != before) missed += "id: " + id() + "\n\n";
            if (!problem) continue;
            if (alone_ || !is_unavailable({.problem = *problem})) return problem;
            unavailable.push_back({name, *problem});
        }
        return std::nullopt;
    }

    // False: events were lost, and the client has to ask again from its position.
    bool read(std::string& text) {
        for (auto& [name, source] : sources_)
            if (source.is_open() && !source.read(text, [this] { return id(); })) {
                if (alone_ || members_.find(name) == source.member) return false;
                source.close();  // another connection has taken its place
            }
        return true;
    }

    // False: the client may not listen to any of them any more.
    bool renew() {
        for (auto& [name, source] : sources_)
            if (source.is_open() && source.renew()) source.close();
        return is_open();
    }

    bool is_open() const {
        return std::any_of(sources_.begin(), sources_.end(), [](const auto& one) { return one.second.is_open(); });
    }

    std::vector<Unavailable> unavailable;
    std::string missed;

private:
    void meet_members() {
        for (const MemberPtr& member : members_.all()) {
            const auto known = sources_.find(member->name);
            if (known != sources_.end() && known->second.member == member) continue;
            if (known != sources_.end()) {
                positions_[member->name] = known->second.position();
                sources_.erase(known);
            }
            sources_.emplace(member->name, Source(request_, member, member->name, positions_[member->name]));
        }
    }

    // The positions in all of them.
    std::string id() const {
        if (alone_) return sources_.begin()->second.position();
        std::string text;
        for (const auto& [name, source] : sources_)
            if (!source.position().empty()) text += (text.empty() ? "" : ";") + name + "=" + source.position();
        return text;
    }

    const Request& request_;
    Members& members_;
    MemberPtr alone_;  // null: all of them
    std::map<std::string, std::string> positions_;
    std::map<std::string, Source> sources_;
};

}  // namespace

std::optional<Problem> listen(const Request& request, Members& members) {
    std::uint64_t heard = 0;
    members.bell().wait(heard, {});
    Sources sources(request, members);
    if (const auto problem = sources.open()) return problem;
    if (!sources.is_open()) return none_problem(sources.unavailable);
    StreamedAnswer answer(*current_connection,
                          {{"Content-Type", "text/event-stream"},
                           {"Cache-Control", "no-store"},
                           {"X-Accel-Buffering", "no"},
                           {"X-Content-Type-Options", "nosniff"}},
                          request.http.method != "HEAD");
    bool good = answer.write(": pawl\n\n" + std::exchange(sources.missed, ""));
    for (auto told = Clock::now(), opened = told; good;) {
        std::string text;
        if (!sources.read(text) || !sources.renew()) break;
        if (Clock::now() - opened > breath) {
            if (sources.open()) break;
            text += std::exchange(sources.missed, "");
            opened = Clock::now();
        }
        if (!text.empty()) {
            good = answer.write(text);
            told = Clock::now();
        } else if (Clock::now() - told > silence) {
            good = answer.write(": keep-alive\n\n");
            told = Clock::now();
        } else if (current_connection->is_gone()) {
            break;
        } else {
            members.bell().wait(heard, breath);
        }
    }
    answer.finish();
    return std::nullopt;
}

}  // namespace pawl::api
