// Whatever a handler, its exception, its result or a callback does is an outcome of that job alone.
#include "run_handler.hpp"

#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include <pawl/errors.hpp>
#include <pawl/row_worker.hpp>
#include <pawl/worker.hpp>

namespace pawl {
namespace {

struct NullWhat : std::exception {
    const char* what() const noexcept override { return nullptr; }
};

Finished run(const Handler& handler) {
    const auto work = std::make_shared<Work>();
    work->job.handler = "h";
    return run_handler({{"h", handler}}, work);
}

template <typename Thrown>
Finished after(const Thrown& thrown) {
    return run([&](const Job&) -> nlohmann::json { throw thrown; });
}

TEST(RunHandler, MakesAFailureOfAnyException) {
    const std::string longest(longest_text, 'x');
    EXPECT_EQ(after(NullWhat()).value["message"], "an exception without a text");
    EXPECT_EQ(after(std::runtime_error("")).value["message"], "an exception without a text");
    EXPECT_EQ(after(std::runtime_error("a\xff"
                                       "b"))
                  .value["message"],
              "a\xEF\xBF\xBD"
              "b");
    EXPECT_EQ(after(std::runtime_error(longest + "xyz")).value["message"], longest);
    EXPECT_EQ(after(5).value["message"], "handler threw something that is no std::exception");
    EXPECT_EQ(after(PermanentFailure("\xff")).value["message"], "\xEF\xBF\xBD");
    for (const Finished& one : {after(NullWhat()), after(5), after(Failure("t", "x"))})
        EXPECT_EQ(one.outcome, Outcome::failure);
    EXPECT_EQ(after(PermanentFailure("x")).outcome, Outcome::permanent_failure);
}

TEST(RunHandler, TakesTypesThatPostgresqlCannotStore) {
    const Finished finished = after(Failure(std::string("a\0\xff", 3), "x"));
    EXPECT_EQ(finished.outcome, Outcome::failure);
    EXPECT_EQ(finished.value["type"], "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(RunHandler, RejectsResultsThatCannotBeStored) {
    const nlohmann::json bad[] = {std::nan(""),
                                  {{"a", std::numeric_limits<double>::infinity()}},
                                  {{"a", std::string("x\0y", 3)}},
                                  {{std::string("\0", 1), 1}},
                                  {{"a", "x\xff"}},
                                  nlohmann::json::binary({1, 2}),
                                  nlohmann::json(nlohmann::json::value_t::discarded)};
    for (const nlohmann::json& value : bad) {
        const Finished finished = run([&](const Job&) { return value; });
        EXPECT_EQ(finished.outcome, Outcome::permanent_failure);
        EXPECT_EQ(finished.value["message"].get<std::string>().rfind("the result cannot be reported: it ", 0), 0U);
    }
    const nlohmann::json good = {{"a", {1, 2.5, "\xC3\xA9", nullptr}}};
    EXPECT_EQ(run([&](const Job&) { return good; }).value, good);
}

// There is no database: each attempt to connect is a message, which cannot be logged.
template <typename Worker, typename Settings>
void goes_on_without_a_log() {
    std::atomic<int> messages = 0;
    Settings settings;
    settings.connection.target = "host=/nonexistent";
    settings.grace = settings.shortest_poll = settings.longest_poll = std::chrono::milliseconds(1);
    Worker* working = nullptr;
    settings.on_message = [&](const std::string&) {
        if (++messages == 3) working->stop();
        throw NullWhat();
    };
    Worker worker(settings);
    working = &worker;
    try {
        worker.run();
    } catch (const Error&) {
        // the worker cannot give back what it has, for want of a database
    }
    EXPECT_GE(messages, 3);
}

TEST(RunHandler, GoesOnWhereItsLogIsClosed) {
    goes_on_without_a_log<Worker, WorkerSettings>();
    goes_on_without_a_log<RowWorker, RowWorkerSettings>();
}

TEST(RunHandler, TellsWhatACallbackThrew) {
    const std::function<void(const int&)> none, good = [](const int&) {}, bad = [](const int&) { throw NullWhat(); };
    EXPECT_EQ(call_back(none, 1), "");
    EXPECT_EQ(call_back(good, 1), "");
    EXPECT_EQ(call_back(bad, 1), "an exception without a text");
}

}  // namespace
}  // namespace pawl
