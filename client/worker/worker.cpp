// May throw. The worker: its loop reports what is finished and claims what there is room for; a pool of threads runs
// the handlers.
#include <pawl/worker.hpp>

#include <algorithm>
#include <map>
#include <thread>

#include <pawl/placements.hpp>

#include "announced_claims.hpp"
#include "heartbeat.hpp"
#include "in_flight.hpp"
#include "in_flight_leases.hpp"
#include "inbox.hpp"
#include "run_handler.hpp"
#include "session_loop.hpp"
#include "sql.hpp"
#include "temporary_error.hpp"
#include "work_source.hpp"

namespace pawl {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Worker::Impl final : LoopSource {
    Impl(WorkerSettings given, SourceMaker make_source)
        : settings(std::move(given)),
          processor(random_uuid()),
          source(make_source(settings, processor)),
          placements(settings.connection),
          loop({.connection = settings.connection,
                .shortest_poll = settings.shortest_poll,
                .longest_poll = settings.longest_poll,
                .wake = settings.wake,
                .find_connection = [this] { return where(); },
                .moved = settings.placed ? [this](pqxx::connection& rejecting) { learn(rejecting); }
                                         : std::function<void(pqxx::connection&)>(),
                .results_release_work = true},
               *this, [this](const std::string& message) { log(message); }),
          in_flight(loop.wake_up()) {
        check(settings.messages);
        if (settings.placed && (settings.table || settings.messages.enabled()))
            throw Error("", "a worker that follows its queue to other databases works on steps, and polls");
        settings.threads = std::max(settings.threads, 1);
        if (settings.batch <= 0) settings.batch = 2 * settings.threads;
        settings.batch = std::min(settings.batch, 10'000);
    }

    ConnectionSettings where() {
        return settings.placed ? placements.find("dag", settings.queue).connection : settings.connection;
    }
    void learn(pqxx::connection& rejecting) { placements.learn(rejecting, "dag", settings.queue); }

    void connected(pqxx::connection& connection) override;
    Next turn(pqxx::connection& connection) override;
    const std::string& relation() const noexcept override { return source->relation(); }
    std::optional<milliseconds> wait_for_messages() override;

    void run();
    void run_handlers(std::stop_token stop);
    bool report(pqxx::connection& connection);
    void report_batch(pqxx::connection& connection, const std::vector<Finished>& batch);
    std::set<std::string> report_each(pqxx::connection& connection, const std::vector<Finished>& batch);
    Next claim(pqxx::connection& connection, bool reported);
    std::size_t claim_announced(pqxx::connection& connection, int room, bool& more);
    bool full() const;
    bool is_full(int claimed) const;
    std::vector<Finished> take_results();
    void note_reported(const std::vector<Finished>& batch, const std::set<std::string>& accepted);
    std::optional<Next> report_and_claim(pqxx::connection& connection);
    bool may_poll();
    void add_owned(pqxx::connection& connection);
    void drain();
    void abandon(pqxx::connection& connection);
    void log(const std::string& message);

    WorkerSettings settings;
    std::string processor;
    std::unique_ptr<WorkSource> source;
    std::map<std::string, Handler> handlers;
    std::mutex logging;
    Placements placements;
    SessionLoop loop;
    InFlight in_flight;
    Clock::time_point next_poll{};
    bool was_connected = false;
    bool in_doubt = false;
    bool gave_back = false;  // a handler stopped without a result, and its row may still be owned
    mutable std::mutex counting;
    WorkerCounts counts;
    std::unique_ptr<Inbox> inbox;  // if messages announce work; its thread uses members above
};

void Worker::Impl::log(const std::string& message) {
    const std::lock_guard lock(logging);
    call_back(settings.on_message, message);
}

void Worker::Impl::run_handlers(std::stop_token stop) {
    while (WorkPtr work = in_flight.next(stop)) in_flight.finish(run_handler(handlers, std::move(work)));
}

void Worker::Impl::connected(pqxx::connection& connection) {
    source->prepare(connection);
    if (settings.messages.enabled() && !inbox && !loop.stopping())
        inbox = std::make_unique<Inbox>(settings.messages, settings.connection, source->channel(), settings.batch,
                                        loop.wake_up(), [this](const std::string& message) { log(message); });
    if (was_connected) {
        // the lost session may have claimed work that this worker does not know of; a draining worker gives it back
        if (!loop.stopping()) add_owned(connection);
        {
            const std::lock_guard lock(counting);
            ++counts.reconnects;
        }
        log("connected again");
    }
    was_connected = true;
}

void Worker::Impl::add_owned(pqxx::connection& connection) {
    const auto claimed_at = Clock::now();
    const std::size_t found = in_flight.add(source->owned(connection), claimed_at);
    gave_back = false;
    const std::lock_guard lock(counting);
    counts.claimed += found;
}

// A result that the server rejects must not hold up the others.
std::set<std::string> Worker::Impl::report_each(pqxx::connection& connection, const std::vector<Finished>& batch) {
    std::set<std::string> accepted;
    for (const Finished& one : batch) {
        try {
            accepted.merge(source->report(connection, {one}, in_doubt));
        } catch (const error::lease_lost&) {
        } catch (const error::not_the_owner&) {
        } catch (const ConnectionLost&) {
            throw;
        } catch (const TryAgain&) {
            throw;
        } catch (const Error& rejection) {
            Finished instead = one;
            instead.outcome = Outcome::permanent_failure;
            instead.value = {{"message", std::string("result rejected: ") + rejection.what()}};
            accepted.merge(source->report(connection, {instead}, in_doubt));
        }
    }
    return accepted;
}

void Worker::Impl::report_batch(pqxx::connection& connection, const std::vector<Finished>& batch) {
    std::set<std::string> accepted;
    try {
        accepted = source->report(connection, batch, in_doubt);
    } catch (const Error& rejection) {
        if (says_nothing_of_work(rejection)) throw;
        accepted = report_each(connection, batch);
    }
    note_reported(batch, accepted);
}

void Worker::Impl::note_reported(const std::vector<Finished>& batch, const std::set<std::string>& accepted) {
    in_doubt = false;
    in_flight.remove(batch);
    for (const Finished& one : batch) {
        const bool is_accepted = accepted.contains(one.work->job.key);
        {
            const std::lock_guard lock(counting);
            ++(!is_accepted ? counts.dropped : one.outcome == Outcome::success ? counts.succeeded : counts.failed);
        }
        if (is_accepted) continue;
        if (!settings.on_dropped) log("dropped the result of " + one.work->job.key);
        if (const auto why = call_back(settings.on_dropped, one.work->job); !why.empty())
            log("on_dropped failed: " + why);
    }
}

// True if there were results.
bool Worker::Impl::report(pqxx::connection& connection) {
    std::vector<Finished> batch = take_results();
    if (batch.empty()) return false;
    while (!batch.empty()) {
        const std::vector<Finished> part = take_part(batch);
        try {
            report_batch(connection, part);
        } catch (const Error&) {
            in_doubt = true;
            in_flight.return_finished(part);
            in_flight.return_finished(std::move(batch));
            throw;
        }
    }
    return true;
}

// What has finished, without what was given back.
std::vector<Finished> Worker::Impl::take_results() {
    std::vector<Finished> batch = in_flight.take_finished();
    const auto stopped = std::stable_partition(batch.begin(), batch.end(),
                                               [](const Finished& one) { return one.outcome != Outcome::given_back; });
    if (stopped != batch.end()) {
        in_flight.remove({stopped, batch.end()});
        gave_back = true;
        batch.erase(stopped, batch.end());
    }
    return batch;
}

// Reports and claims by one statement, which writes each step once where two would write it twice. Nothing if that is
// not possible; then nothing is reported.
std::optional<Next> Worker::Impl::report_and_claim(pqxx::connection& connection) {
    if (loop.stopping() || inbox || gave_back || !source->reports_as_it_claims()) return std::nullopt;
    std::vector<Finished> batch = take_results();
    if (batch.empty()) return std::nullopt;
    const int claimed = static_cast<int>(in_flight.size() - batch.size());
    const bool traced =
        std::any_of(batch.begin(), batch.end(), [](const Finished& one) { return !one.work->job.trace.empty(); });
    if (traced || gave_back || is_full(claimed)) {
        in_flight.return_finished(std::move(batch));
        return std::nullopt;
    }
    const int room = settings.batch - claimed;
    const auto claimed_at = Clock::now();
    WorkSource::Exchanged exchanged;
    try {
        exchanged = source->report_and_claim(connection, batch, room);
    } catch (const Error& rejection) {
        in_doubt = true;
        in_flight.return_finished(std::move(batch));
        if (says_nothing_of_work(rejection) && !is_elsewhere(rejection)) throw;  // claims are rejected before results
        return std::nullopt;
    }
    note_reported(batch, exchanged.accepted);
    const std::size_t added = in_flight.add(std::move(exchanged.claimed), claimed_at);
    const std::lock_guard lock(counting);
    counts.claimed += added;
    return added > 0 && static_cast<int>(added) < room ? Next::soon : Next::at_once;
}

// Half a batch is claimed at a time, so that statements are worth their round trip, unless a thread would be idle.
bool Worker::Impl::is_full(int claimed) const {
    const int room = settings.batch - claimed;
    return room <= 0 || (room < settings.batch / 2 && claimed >= settings.threads);
}

bool Worker::Impl::full() const {
    return is_full(static_cast<int>(in_flight.size()));
}

Next Worker::Impl::claim(pqxx::connection& connection, bool reported) {
    const Next otherwise = reported ? Next::at_once : Next::later;
    if (full()) return source->orchestrate(connection) ? Next::at_once : otherwise;
    const int room = settings.batch - static_cast<int>(in_flight.size());
    bool more_announced = false;
    const std::size_t announced = inbox ? claim_announced(connection, room, more_announced) : 0;
    const bool polls =
        static_cast<int>(announced) < room && (may_poll() || (reported && source->releases_without_message()));
    const bool moved_on = !polls && (reported || announced == 0) && source->orchestrate(connection);
    const auto claimed_at = Clock::now();
    const int rest = room - static_cast<int>(announced);
    const std::size_t found = polls ? in_flight.add(source->claim(connection, rest), claimed_at) : 0;
    const std::size_t added = announced + found;
    // the next poll is a while away, unless this one was cut off by its limit
    if (polls && static_cast<int>(added) < room) next_poll = Clock::now() + settings.messages.fallback_poll;
    const std::lock_guard lock(counting);
    counts.claimed += found;
    if (more_announced) return Next::at_once;
    // an emptied queue is not polled again at once: short handlers end meanwhile
    if (added > 0) return static_cast<int>(added) < room ? Next::soon : Next::at_once;
    return moved_on ? Next::at_once : otherwise;
}

// Claims what messages name. `more`: there may be more messages.
std::size_t Worker::Impl::claim_announced(pqxx::connection& connection, int room, bool& more) {
    std::size_t added = 0;
    const auto keep = [&](std::vector<Job> jobs, Clock::time_point claimed_at) {
        const std::size_t now = in_flight.add(std::move(jobs), claimed_at);
        added += now;
        const std::lock_guard lock(counting);
        counts.claimed += now;
        counts.announced += now;
    };
    more = AnnouncedClaims(*source, *inbox, keep, [this](const std::string& message) {
               log(message);
           }).claim(connection, room);
    return added;
}

// While messages come, polls are rare. One follows at once when they have begun to come, for what was published before.
bool Worker::Impl::may_poll() {
    if (!inbox || !inbox->connected()) return true;
    return inbox->take_connected() || Clock::now() >= next_poll;
}

Next Worker::Impl::turn(pqxx::connection& connection) {
    if (const std::optional<Next> next = report_and_claim(connection)) return *next;
    const bool reported = report(connection);
    if (loop.stopping()) {
        if (reported) source->orchestrate(connection);
        return reported ? Next::at_once : Next::later;
    }
    if (gave_back) add_owned(connection);
    // work that a report makes ready, or a task that was started, is claimed by the statement that enqueues it
    return claim(connection, reported);
}

std::optional<milliseconds> Worker::Impl::wait_for_messages() {
    if (!inbox || !inbox->connected()) return std::nullopt;
    // a full worker does not poll, however long ago the last poll was: it waits for a handler to end
    const milliseconds longest = settings.messages.fallback_poll;
    if (full()) return longest;
    return std::clamp(std::chrono::ceil<milliseconds>(next_poll - Clock::now()), milliseconds(1), longest);
}

void Worker::Impl::abandon(pqxx::connection& connection) {
    const std::size_t waiting = in_flight.drop_waiting();
    const auto returned =
        sql::run_alone(connection, "SELECT pawl.abandon($1::regclass, $2)", source->relation(), processor)[0][0]
            .as<long>();
    if (waiting > 0 || returned > 0) log("returned " + std::to_string(returned) + " claimed rows");
    const std::lock_guard lock(counting);
    counts.abandoned += static_cast<std::uint64_t>(returned);
}

// Running handlers may finish. After the grace they are asked to stop, and those that do not are waited for all the
// same: a thread cannot be taken from its handler, but its lease can expire.
void Worker::Impl::drain() {
    log("draining");
    in_flight.drop_waiting();
    const auto deadline = Clock::now() + settings.grace;
    bool asked = false;
    while (!in_flight.idle()) {
        try {
            pqxx::connection& connection = loop.session();
            if (report(connection)) source->orchestrate(connection);
        } catch (const Error& error) {
            loop.survive(error);
            // without a database nothing can be returned; the leases expire
            if (Clock::now() > deadline) throw;
            loop.wait_after_error(milliseconds(0));
        }
        if (!asked && Clock::now() > deadline) {
            in_flight.stop_all();
            asked = true;
        }
        if (!in_flight.idle()) loop.wake_up().wait(-1, milliseconds(100));
    }
    try {
        abandon(loop.session());
    } catch (const Error& error) {
        if (was_connected) log(std::string("claimed rows were not returned, their leases expire: ") + error.what());
    }
}

void Worker::Impl::run() {
    const Heartbeat heartbeat([this] { return where(); }, [this](pqxx::connection& rejecting) { learn(rejecting); },
                              settings.lease,
                              std::make_unique<InFlightLeases>(source->copy(), in_flight, settings.lease),
                              [this](const std::string& message) { log(message); });
    std::vector<std::jthread> pool;
    for (int i = 0; i < settings.threads; ++i) pool.emplace_back([this](std::stop_token stop) { run_handlers(stop); });
    loop.run();
    inbox.reset();  // messages that were not claimed from go to other workers
    drain();
}

Worker::Worker(WorkerSettings settings, SourceMaker source)
    : impl_(std::make_unique<Impl>(std::move(settings), source)) {}
Worker::Worker(WorkerSettings settings)
    : impl_(std::make_unique<Impl>(std::move(settings), [](const WorkerSettings& given, const std::string& processor) {
          return given.table ? make_table_source(given, processor) : make_step_source(given, processor);
      })) {}
Worker::~Worker() = default;

Worker& Worker::on(const std::string& handler, Handler function) {
    impl_->handlers[handler] = std::move(function);
    return *this;
}

void Worker::run() {
    impl_->run();
}

void Worker::stop() noexcept {
    impl_->loop.stop();
}

const std::string& Worker::processor() const noexcept {
    return impl_->processor;
}

WorkerCounts Worker::counts() const {
    const std::lock_guard lock(impl_->counting);
    return impl_->counts;
}

}  // namespace pawl
