// A worker on a table of one's own (table.sql), until nothing has been there for a second: every third job fails once,
// every tenth for good.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include <pawl/pawl.hpp>

int main() try {
    pawl::WorkerSettings settings{
        .connection = {.application_name = "pawl jobs"},
        .table = pawl::JobTable{.relation = "jobs",
                                .success_event = "finish",
                                .failure_event = "fail",
                                .permanent_failure_event = "give_up"},
        .threads = 4,
        .batch = 20,
    };
    pawl::read_environment(settings);  // PAWL_DATABASE, PAWL_POOLER, PAWL_PROVIDER, ...
    pawl::Worker worker(std::move(settings));
    worker.on("job", [](const pawl::Job& job) -> nlohmann::json {
        const int number = job.context.at("payload").at("n").get<int>();  // the whole row is the context
        if (number % 10 == 0) throw pawl::PermanentFailure("job " + job.key + " is a tenth one");
        if (number % 3 == 0 && job.attempt == 1) throw std::runtime_error("job " + job.key + " fails once");
        return {{"n", number}};
    });
    // Ends when it is idle; a service would use StopOnSignals instead.
    std::jthread watcher([&worker](std::stop_token stop) {
        for (std::uint64_t before = 0, idle = 0; idle < 10 && !stop.stop_requested();
             std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
            const pawl::WorkerCounts counts = worker.counts();
            const std::uint64_t now = counts.succeeded + counts.failed;
            idle = now == before ? idle + 1 : 0;
            before = now;
        }
        worker.stop();
    });
    worker.run();
    const pawl::WorkerCounts counts = worker.counts();
    std::printf("%llu succeeded, %llu failed, %llu dropped\n", static_cast<unsigned long long>(counts.succeeded),
                static_cast<unsigned long long>(counts.failed), static_cast<unsigned long long>(counts.dropped));
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "table_worker: %s\n", error.what());
    return 1;
}
