// May throw (out of memory).
#include "feed.hpp"

#include <charconv>

#include <pawl/errors.hpp>

#include "libpq.hpp"

namespace pawl::api {
namespace {

constexpr int batch_size = 5'000;
constexpr std::size_t most_events = 100'000;
constexpr auto pause = std::chrono::milliseconds(100);

std::uint64_t number(std::string_view& text) {
    std::uint64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    (void)problem;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);  // what parts it from the next
    return value;
}

std::string clock_text(std::int64_t minute) {
    const std::time_t seconds = minute * 60;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[40];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:00Z", &parts)};
}

std::int64_t this_minute() {
    return std::chrono::duration_cast<std::chrono::minutes>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

Snapshot snapshot_of(std::string_view rest) {
    Snapshot snapshot{.xmin = number(rest), .xmax = number(rest), .in_progress = {}};
    while (!rest.empty()) snapshot.in_progress.insert(number(rest));
    return snapshot;
}

std::string message_of(const std::string& json, const std::string& database) {
    // names of databases need no escapes
    const std::string told = database.empty() ? json : "{\"database\" : \"" + database + "\", " + json.substr(1);
    return "event: transition\ndata: " + told + "\n\n";
}

std::shared_ptr<const std::string> Batch::text(const Relations& relations, const std::string& database,
                                               const Snapshot* without) const {
    const std::lock_guard lock(mutex_);
    const std::pair key(relations, database);
    if (const auto found = written_.find(key); found != written_.end() && !without) return found->second;
    auto text = std::make_shared<std::string>();
    for (const Event& event : events_) {
        if (event.relation == 0)
            *text += "event: gap\ndata: {\"detail\": \"events were removed before they were read\"}\n\n";
        else if (relations.contains(event.relation) && !(without && without->sees(event.txid)))
            *text += message_of(event.json, database);
    }
    if (!without) written_[key] = text;
    return text;
}

void Bell::ring() {
    {
        const std::lock_guard lock(mutex_);
        ++rung_;
    }
    come_.notify_all();
}

void Bell::wait(std::uint64_t& heard, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    come_.wait_for(lock, patience, [&] { return rung_ != heard; });
    heard = rung_;
}

Feed::Feed(const ConnectionSettings& settings, const daemon::Log& log, Bell& bell)
    : settings_(settings), log_(log), bell_(bell) {
    settings_.application_name = "pawld events";
    thread_ = std::thread([this] { run(); });
}

Feed::~Feed() {
    end();
    thread_.join();
}

void Feed::end() {
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    come_.notify_all();
    connected_.notify_all();
    bell_.ring();
}

std::uint64_t Feed::begin(const std::string& position, bool& overlaps) {
    const std::lock_guard lock(mutex_);
    overlaps = false;
    if (position.empty()) return first_ + batches_.size();
    for (std::size_t i = batches_.size(); i-- > 0;)
        if (batches_[i]->position() == position) return first_ + i + 1;
    if (start_.empty() || position.find('-') == std::string::npos) return 0;
    // a position of another daemon: this feed has all later events if the position is not before its first batch; one
    // that is ahead of the feed may be of another history, which the database knows
    const Snapshot seen = seen_at(position), newest = seen_at(batches_.empty() ? start_ : batches_.back()->position());
    overlaps = start_.substr(start_.find('-')) == position.substr(position.find('-')) ||
               (seen_at(start_).xmax <= seen.xmin && seen.xmax <= newest.xmax);
    return overlaps ? first_ : 0;
}

std::shared_ptr<const Batch> Feed::batch(std::uint64_t number, bool& lost) {
    const std::lock_guard lock(mutex_);
    lost = ended_ || number < first_;
    if (lost || number >= first_ + batches_.size()) return nullptr;
    return batches_[number - first_];
}

void Feed::add(std::vector<Batch::Event> events, std::size_t failures, std::string position) {
    const std::size_t count = events.size();
    auto batch = std::make_shared<const Batch>(std::move(events), std::move(position));
    {
        const std::lock_guard lock(mutex_);
        problem_.clear();
        auto& [transitions, failed] = minutes_[this_minute()];
        transitions += count;
        failed += failures;
        while (minutes_.begin()->first <= this_minute() - 60) minutes_.erase(minutes_.begin());
        batches_.push_back(std::move(batch));
        remembered_ += count;
        while (batches_.size() > 1 && (remembered_ > most_events || batches_.size() > 5'000)) {
            remembered_ -= batches_.front()->size();
            start_ = batches_.front()->position();
            batches_.pop_front();
            ++first_;
        }
    }
    bell_.ring();
}

bool Feed::read(Session& session, const std::string& consumer) {
    const Result result =
        session.run("SELECT txid, relation, failed, event, place FROM pawl_api._read_feed($1, $2::integer)",
                    {consumer, std::to_string(batch_size)});
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) throw Error("", problem_of(result.get()).detail);
    const int rows = PQntuples(result.get());
    if (rows == 0) return false;
    std::vector<Batch::Event> events;
    std::size_t failures = 0;
    for (int i = 0; i + 1 < rows; ++i) {
        failures += value_of(result.get(), i, 2)[0] == 't';
        events.push_back({std::strtoull(value_of(result.get(), i, 0), nullptr, 10),
                          static_cast<unsigned>(std::strtoul(value_of(result.get(), i, 1), nullptr, 10)),
                          value_of(result.get(), i, 3)});
    }
    add(std::move(events), failures, value_of(result.get(), rows - 1, 4));
    return rows > batch_size;
}

// A connection that is lost is made again; the consumer has kept the place.
void Feed::run() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
        lock.unlock();
        try {
            Session session(settings_, std::chrono::seconds(60));
            const Result opened = session.run("SELECT consumer, place FROM pawl_api._open_feed()");
            if (PQresultStatus(opened.get()) != PGRES_TUPLES_OK) throw Error("", problem_of(opened.get()).detail);
            const std::string consumer = value_of(opened.get(), 0, 0);
            if (consumer.empty()) throw Error("", "64 daemons already read the events");
            lock.lock();
            if (start_.empty()) start_ = value_of(opened.get(), 0, 1);
            lock.unlock();
            for (;;) {
                const bool more = read(session, consumer);
                lock.lock();
                if (!problem_.empty()) connected_.notify_all();
                problem_.clear();
                if (ended_ || (!more && come_.wait_for(lock, pause, [this] { return ended_; }))) return;
                lock.unlock();
            }
        } catch (const std::exception& caught) {
            log_.debug("events cannot be read", {{"message", caught.what()}});
            lock.lock();
            problem_ = caught.what();
            come_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; });
        }
    }
}

nlohmann::json Feed::throughput() const {
    const std::lock_guard lock(mutex_);
    auto list = nlohmann::json::array();
    for (const auto& [minute, counts] : minutes_)
        list.push_back({{"minute", clock_text(minute)}, {"transitions", counts.first}, {"failures", counts.second}});
    return list;
}

std::string Feed::problem(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    connected_.wait_for(lock, patience, [this] { return ended_ || problem_.empty(); });
    return problem_;
}

}  // namespace pawl::api
