// The worker of the scenarios in C++. See README.md.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include <pawl/pawl.hpp>

namespace {

using std::chrono::milliseconds;

nlohmann::json handle(const std::string& kind, bool first, const std::stop_token& stop) {
    if (kind == "poison") throw std::runtime_error("as always");
    if (kind == "hopeless") throw pawl::PermanentFailure("no other attempt can succeed");
    if (kind == "strange") {
        nlohmann::json value = 1;
        for (int i = 0; i < 600; ++i) value = nlohmann::json::array({std::move(value)});
        return value;
    }
    if (kind == "slow") std::this_thread::sleep_for(milliseconds(500));
    if (kind == "hangs" && first) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        stopped.wait_for(lock, stop, std::chrono::minutes(1), [] { return false; });
        throw std::runtime_error("was asked to stop");
    }
    return {{"kind", kind}};
}

template <typename Worker>
int work(Worker& worker) {
    const pawl::StopOnSignals signals([&worker] { worker.stop(); });
    std::fprintf(stderr, "works as %s\n", worker.processor().c_str());
    worker.run();
    const pawl::WorkerCounts counts = worker.counts();
    std::printf("succeeded=%llu failed=%llu dropped=%llu abandoned=%llu\n",
                static_cast<unsigned long long>(counts.succeeded), static_cast<unsigned long long>(counts.failed),
                static_cast<unsigned long long>(counts.dropped), static_cast<unsigned long long>(counts.abandoned));
    return 0;
}

int work_on_rows(milliseconds lease, milliseconds grace) {
    pawl::RowWorker worker({
        .connection = {.application_name = "scenario"},
        .threads = 4,
        .batch = 2,
        .lease = lease,
        .grace = grace,
        .longest_poll = milliseconds(100),
        .on_message = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
    });
    worker.on("", [](std::vector<pawl::Row>& rows) {
        for (pawl::Row& row : rows) try {
                handle(row.data.at("kind").get<std::string>(), row.token == 1, row.stop);
            } catch (const std::exception& error) {
                row.fail(error.what());
            }
    });
    const pawl::StopOnSignals signals([&worker] { worker.stop(); });
    worker.run();
    if (const auto dropped = worker.counts().dropped; dropped > 0)
        std::fprintf(stderr, "dropped: %llu rows\n", static_cast<unsigned long long>(dropped));
    return 0;
}

int work_on_flows(milliseconds lease, milliseconds grace) {
    pawl::SagaWorker worker({
        .connection = {.application_name = "scenario"},
        .threads = 4,
        .lease = lease,
        .grace = grace,
        .longest_poll = milliseconds(100),
        .on_dropped = [](const pawl::SagaTask& task) { std::fprintf(stderr, "dropped: %s\n", task.flow.c_str()); },
        .on_message = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
    });
    worker.on("only", [](const pawl::SagaTask& task) {
        return handle(task.argument<std::string>("kind"), task.token == 1, task.stop);
    });
    return work(worker);
}

}  // namespace

int main(int argc, char** argv) try {
    const std::string source = argc > 1 ? argv[1] : "";
    const milliseconds lease(argc > 2 ? std::atoi(argv[2]) : 60'000);
    const milliseconds grace(argc > 3 ? std::atoi(argv[3]) : 30'000);
    if (source == "rows") return work_on_rows(lease, grace);
    if (source == "flows") return work_on_flows(lease, grace);
    pawl::WorkerSettings settings{
        .connection = {.application_name = "scenario"},
        .placed = std::getenv("PAWL_PLACED") != nullptr,
        .threads = 4,
        .lease = lease,
        .grace = grace,
        .longest_poll = milliseconds(100),
        .on_dropped = [](const pawl::Job& job) { std::fprintf(stderr, "dropped: %s\n", job.key.c_str()); },
        .on_message = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
    };
    if (source == "table")
        settings.table = pawl::JobTable{.relation = "work",
                                        .success_event = "finish",
                                        .failure_event = "fail",
                                        .permanent_failure_event = "give_up"};
    pawl::Worker worker(std::move(settings));
    const auto handler = [](const pawl::Job& job) {
        const auto kind = job.context.at("kind").get<std::string>();
        while (kind == "held" && !std::filesystem::exists(job.context.at("until").get<std::string>()))
            std::this_thread::sleep_for(milliseconds(10));
        return handle(kind, job.token == 1, job.stop);
    };
    worker.on("", handler).on("job", handler);
    return work(worker);
} catch (const std::exception& error) {
    std::fprintf(stderr, "worker: %s\n", error.what());
    return 1;
}
