// May throw. The worker's own thread: reports what is finished, claims what there is room for, sleeps when there is neither.
#include <pawl/worker.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "hand.hpp"
#include "heart.hpp"
#include "inbox.hpp"
#include "pace.hpp"
#include "passing.hpp"
#include "sleeper.hpp"
#include "sql.hpp"
#include "work_source.hpp"

namespace pawl {
namespace {

using Clock = std::chrono::steady_clock;

// What one turn says of the next: there is more to do, what was claimed is being worked on, or there was nothing.
enum class Next { at_once, soon, later };

}  // namespace

struct Worker::Impl {
    Impl(WorkerSettings given, SourceMaker make_source)
        : settings(std::move(given)),
          processor(random_uuid()),
          source(make_source(settings, processor)),
          hand(wake_up),
          pace(settings.shortest_poll, settings.longest_poll) {
        check(settings.messages);
        settings.threads = std::max(settings.threads, 1);
        if (settings.batch <= 0) settings.batch = 2 * settings.threads;
        settings.batch = std::min(settings.batch, 10'000);
    }

    void run();
    void run_handlers(std::stop_token stop);
    Finished run_one(WorkPtr work) const;
    Next turn();
    bool connect_again();
    bool report();
    void report_batch(const std::vector<Finished>& batch);
    std::set<std::string> report_each(const std::vector<Finished>& batch);
    Next claim(bool move_on);
    std::size_t claim_told(int room, bool& more);
    bool full() const;
    bool may_poll();
    void look_for_ours();
    void rest();
    void drain();
    void abandon();
    void say(const std::string& message);

    WorkerSettings settings;
    std::string processor;
    std::unique_ptr<WorkSource> source;
    std::map<std::string, Handler> handlers;
    SignalEvent wake_up;
    Hand hand;
    Pace pace;
    std::atomic<bool> stopping{false};
    std::unique_ptr<pqxx::connection> connection;
    Clock::time_point next_poll{};
    Sleeper sleeper;
    bool was_connected = false;
    bool in_doubt = false;
    bool gave_back = false;  // what of it is still ours has to be begun anew
    std::mutex saying;
    mutable std::mutex counting;
    WorkerCounts counts;
    std::unique_ptr<Inbox> inbox;  // only where messages tell of work; its thread uses the rest
};

void Worker::Impl::say(const std::string& message) {
    if (!settings.on_message) return;
    const std::lock_guard lock(saying);
    settings.on_message(message);
}

Finished Worker::Impl::run_one(WorkPtr work) const {
    const auto began = std::chrono::steady_clock::now();
    Finished finished;
    finished.work = work;
    const auto failed = [&](Outcome outcome, const std::string& message) {
        finished.outcome = outcome;
        finished.value = {{"message", message}};
    };
    try {
        auto handler = handlers.find(work->job.handler);
        if (handler == handlers.end()) handler = handlers.find("");
        if (!work->job.problem.empty())
            failed(Outcome::permanent_failure, work->job.problem);
        else if (handler != handlers.end())
            finished.value = handler->second(work->job);
        else
            failed(Outcome::failure, "worker has no handler \"" + work->job.handler + "\"");
        if (const std::string excess = excess_of(finished.value); !excess.empty()) failed(Outcome::permanent_failure, "the result cannot be reported: " + excess);
    } catch (const PermanentFailure& caught) {
        failed(Outcome::permanent_failure, caught.what());
    } catch (const Failure& caught) {
        failed(Outcome::failure, caught.what());
        finished.value["type"] = caught.type();
    } catch (const Error& caught) {
        failed(Outcome::failure, caught.what());
        if (!caught.sqlstate().empty()) finished.value["sqlstate"] = caught.sqlstate();
    } catch (const RetryLater& caught) {
        failed(Outcome::failure, caught.what());
        finished.asked = caught.after();
    } catch (const std::exception& caught) {
        failed(Outcome::failure, caught.what());
    } catch (...) {
        failed(Outcome::failure, "handler threw something that is no std::exception");
    }
    // whoever was told to stop has not failed, unless he says that nobody else need try
    if (finished.outcome == Outcome::failure && work->job.stop.stop_requested()) finished.outcome = Outcome::given_back;
    finished.took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
    return finished;
}

void Worker::Impl::run_handlers(std::stop_token stop) {
    while (WorkPtr work = hand.take(stop)) hand.finish(run_one(std::move(work)));
}

// True when there is a connection. What the last session left in doubt is looked up.
bool Worker::Impl::connect_again() {
    if (connection) return true;
    connection = connect(settings.connection);
    sleeper = Sleeper(settings.connection);
    source->prepare(*connection);
    if (settings.messages.any() && !inbox && !stopping)
        inbox = std::make_unique<Inbox>(settings.messages, settings.connection, source->channel(), settings.batch, wake_up,
                                        [this](const std::string& message) { say(message); });
    if (was_connected) {
        // who drains gives all of it back
        if (!stopping) look_for_ours();
        const std::lock_guard lock(counting);
        ++counts.reconnects;
    }
    if (was_connected) say("connected again");
    was_connected = true;
    return true;
}

void Worker::Impl::look_for_ours() {
    const auto asked = Clock::now();
    const std::size_t found = hand.add(source->recover(*connection), asked);
    gave_back = false;
    const std::lock_guard lock(counting);
    counts.claimed += found;
}

// A result that the server refuses must not hold up the others.
std::set<std::string> Worker::Impl::report_each(const std::vector<Finished>& batch) {
    std::set<std::string> counted;
    for (const Finished& one : batch) {
        try {
            counted.merge(source->report(*connection, {one}, in_doubt));
        } catch (const error::lease_lost&) {
        } catch (const error::not_the_owner&) {
        } catch (const ConnectionLost&) {
            throw;
        } catch (const TryAgain&) {
            throw;
        } catch (const Error& refused) {
            Finished instead = one;
            instead.outcome = Outcome::permanent_failure;
            instead.value = {{"message", std::string("result refused: ") + refused.what()}};
            counted.merge(source->report(*connection, {instead}, in_doubt));
        }
    }
    return counted;
}

void Worker::Impl::report_batch(const std::vector<Finished>& batch) {
    std::set<std::string> counted;
    try {
        counted = source->report(*connection, batch, in_doubt);
    } catch (const Error& refused) {
        if (dynamic_cast<const ConnectionLost*>(&refused) || passes(refused)) throw;
        counted = report_each(batch);
    }
    in_doubt = false;
    hand.settle(batch);
    for (const Finished& one : batch) {
        const bool counts_now = counted.contains(one.work->job.key);
        {
            const std::lock_guard lock(counting);
            ++(!counts_now ? counts.dropped : one.outcome == Outcome::success ? counts.succeeded : counts.failed);
        }
        if (!counts_now && settings.on_dropped) settings.on_dropped(one.work->job);
    }
}

// What is reported together: all that belongs to no trace; of the others each by itself, for a transaction belongs to one span.
std::vector<Finished> take_part(std::vector<Finished>& batch) {
    const auto traced = std::stable_partition(batch.begin(), batch.end(), [](const Finished& one) { return one.work->job.trace.empty(); });
    const auto end = traced == batch.begin() ? batch.begin() + 1 : traced;
    std::vector<Finished> part(std::make_move_iterator(batch.begin()), std::make_move_iterator(end));
    batch.erase(batch.begin(), end);
    return part;
}

bool Worker::Impl::report() {
    std::vector<Finished> batch = hand.finished();
    const auto stopped = std::stable_partition(batch.begin(), batch.end(), [](const Finished& one) { return one.outcome != Outcome::given_back; });
    if (stopped != batch.end()) {
        hand.settle({stopped, batch.end()});
        gave_back = true;
        batch.erase(stopped, batch.end());
    }
    if (batch.empty()) return false;
    while (!batch.empty()) {
        const std::vector<Finished> part = take_part(batch);
        try {
            report_batch(part);
        } catch (const Error&) {
            in_doubt = true;
            hand.put_back(part);
            hand.put_back(std::move(batch));
            throw;
        }
    }
    return true;
}

// Half a batch is claimed at a time, so that statements stay worth their round trip; but no thread is left idle for that.
bool Worker::Impl::full() const {
    const int in_hand = static_cast<int>(hand.size());
    const int room = settings.batch - in_hand;
    return room <= 0 || (room < settings.batch / 2 && in_hand >= settings.threads);
}

Next Worker::Impl::claim(bool move_on) {
    if (full()) {
        if (move_on) source->follow_up(*connection);
        return Next::later;
    }
    const int room = settings.batch - static_cast<int>(hand.size());
    bool more_told = false;
    const std::size_t told = inbox ? claim_told(room, more_told) : 0;
    const bool polls = static_cast<int>(told) < room && (may_poll() || (move_on && source->releases_untold()));
    if (move_on && !polls) source->follow_up(*connection);
    const auto asked = Clock::now();
    const std::size_t found = polls ? hand.add(source->claim(*connection, room - static_cast<int>(told), move_on), asked) : 0;
    const std::size_t added = told + found;
    // the next poll is a while away, unless this one has not seen the end
    if (polls && static_cast<int>(added) < room) next_poll = Clock::now() + settings.messages.fallback_poll;
    const std::lock_guard lock(counting);
    counts.claimed += added;
    counts.told += told;
    if (more_told) return Next::at_once;
    return added == 0 ? Next::later : static_cast<int>(added) < room ? Next::soon : Next::at_once;
}

// A message is acknowledged when the claim is committed, whatever it brought: a row that others have needs no second word.
// `more`: there may be more messages.
std::size_t Worker::Impl::claim_told(int room, bool& more) {
    std::vector<Told> told = inbox->take(static_cast<std::size_t>(room));
    more = told.size() == static_cast<std::size_t>(room);
    if (told.empty()) return 0;
    std::vector<RowKey> keys;
    for (const Told& one : told) keys.push_back(one.key);
    try {
        const auto asked = Clock::now();
        const std::size_t added = hand.add(source->claim_told(*connection, keys), asked);
        inbox->settle(told);
        return added;
    } catch (const Error&) {
        inbox->put_back(std::move(told));
        throw;
    }
}

// While messages come, work is looked for now and then only; and at once when they have begun to come, for what was said before.
bool Worker::Impl::may_poll() {
    if (!inbox || !inbox->connected()) return true;
    return inbox->just_connected() || Clock::now() >= next_poll;
}

Next Worker::Impl::turn() {
    connect_again();
    const bool reported = report();
    if (gave_back && !stopping) look_for_ours();
    // what a report makes ready is claimed in the round trip that enqueues it
    const Next claimed = stopping ? Next::later : claim(reported);
    if (stopping && reported) source->follow_up(*connection);
    // a queue that was emptied is not asked again before something has happened: short handlers have ended by now
    if (claimed != Next::later) return claimed;
    if (reported || (settings.orchestrate && !stopping && source->follow_up(*connection))) return Next::at_once;
    return Next::later;
}

void Worker::Impl::abandon() {
    const std::size_t waiting = hand.drop_waiting();
    const auto given_up = sql::run_alone(*connection, "SELECT pawl.abandon($1::regclass, $2)", source->relation(), processor)[0][0].as<long>();
    if (waiting > 0 || given_up > 0) say("gave back " + std::to_string(given_up) + " pieces of work");
    const std::lock_guard lock(counting);
    counts.abandoned += static_cast<std::uint64_t>(given_up);
}

// What runs may finish; after the grace it is asked to stop, and what does not stop is waited for all the same: a thread cannot be
// taken off its handler, but its lease can run out.
void Worker::Impl::drain() {
    say("draining");
    hand.drop_waiting();
    const auto deadline = std::chrono::steady_clock::now() + settings.grace;
    bool asked = false;
    while (!hand.idle()) {
        try {
            connect_again();
            if (report()) source->follow_up(*connection);
        } catch (const Error& lost) {
            if (!dynamic_cast<const ConnectionLost*>(&lost) && !passes(lost)) throw;
            if (dynamic_cast<const ConnectionLost*>(&lost)) connection.reset();
            // without a database nothing can be given back; leases see to it
            if (std::chrono::steady_clock::now() > deadline) throw;
            wake_up.wait(-1, pace.idle());
        }
        if (!asked && std::chrono::steady_clock::now() > deadline) {
            hand.stop_all();
            asked = true;
        }
        if (!hand.idle()) wake_up.wait(-1, std::chrono::milliseconds(100));
    }
    try {
        connect_again();
        abandon();
    } catch (const Error& problem) {
        say(std::string("nothing is given back, the leases will run out: ") + problem.what());
    }
}

void Worker::Impl::rest() {
    auto nap = pace.next();
    if (inbox && inbox->connected()) {
        // whose hands are full does not look, however long ago the last look was: he waits for a handler to end
        if (nap = settings.messages.fallback_poll; !full())
            nap = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(next_poll - Clock::now()), std::chrono::milliseconds(1), nap);
    } else {
        // going to sleep is a transaction too: not for the first nap
        if (settings.wake && nap > sleeper.patience(settings.shortest_poll) && sleeper.doze(*connection, source->relation())) return;
        if (sleeper.found_pooler()) say(polls_behind_pooler);
        pace.idle();
    }
    if (wake_up.wait(connection->sock(), nap) && sleeper.woken(*connection)) pace.found();
}

void Worker::Impl::run() {
    Heart heart(settings, *source, hand, [this](const std::string& message) { say(message); });
    std::vector<std::jthread> pool;
    for (int i = 0; i < settings.threads; ++i) pool.emplace_back([this](std::stop_token stop) { run_handlers(stop); });
    while (!stopping) {
        try {
            const Next next = turn();
            if (next != Next::later) {
                pace.follows();
                sleeper.found();
            }
            if (next == Next::at_once) continue;
            rest();
        } catch (const Error& problem) {
            const bool lost = dynamic_cast<const ConnectionLost*>(&problem) != nullptr;
            if (!lost && !passes(problem)) throw;
            if (lost) connection.reset();
            say(std::string(lost ? "connection lost: " : "will try again: ") + problem.what());
            wake_up.wait(-1, std::max(pace.idle(), std::chrono::milliseconds(50)));
        }
    }
    // what was not taken goes to others
    inbox.reset();
    drain();
}

Worker::Worker(WorkerSettings settings, SourceMaker source) : impl_(std::make_unique<Impl>(std::move(settings), source)) {}
Worker::Worker(WorkerSettings settings)
    : impl_(std::make_unique<Impl>(std::move(settings), [](const WorkerSettings& given, const std::string& processor) {
          return given.table ? make_table_source(given, processor) : make_step_source(given, processor);
      })) {}
Worker::~Worker() = default;

Worker& Worker::on(const std::string& handler, Handler function) {
    impl_->handlers[handler] = std::move(function);
    return *this;
}

void Worker::run() { impl_->run(); }

void Worker::stop() noexcept {
    impl_->stopping = true;
    impl_->wake_up.set();
}

const std::string& Worker::processor() const noexcept { return impl_->processor; }

WorkerCounts Worker::counts() const {
    const std::lock_guard lock(impl_->counting);
    return impl_->counts;
}

}  // namespace pawl
