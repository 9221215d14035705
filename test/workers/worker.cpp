// The worker of the scenarios in C++. See README.md.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include <pawl/pawl.hpp>

namespace {

using std::chrono::milliseconds;

nlohmann::json handle(const pawl::Job& job) {
    const std::string kind = job.context.at("kind").get<std::string>();
    if (kind == "poison") throw std::runtime_error("as always");
    if (kind == "hopeless") throw pawl::PermanentFailure("no other attempt can succeed");
    if (kind == "strange") {
        nlohmann::json value = 1;
        for (int i = 0; i < 600; ++i) value = nlohmann::json::array({std::move(value)});
        return value;
    }
    if (kind == "slow") std::this_thread::sleep_for(milliseconds(500));
    if (kind == "hangs" && job.attempt == 1) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        stopped.wait_for(lock, job.stop, std::chrono::minutes(1), [] { return false; });
        throw std::runtime_error("was asked to stop");
    }
    return {{"kind", kind}};
}

int work(pawl::Worker& worker) {
    const pawl::StopOnSignals signals(worker);
    std::fprintf(stderr, "works as %s\n", worker.processor().c_str());
    worker.run();
    const pawl::WorkerCounts counts = worker.counts();
    std::printf("succeeded=%llu failed=%llu dropped=%llu abandoned=%llu\n",
                static_cast<unsigned long long>(counts.succeeded), static_cast<unsigned long long>(counts.failed),
                static_cast<unsigned long long>(counts.dropped), static_cast<unsigned long long>(counts.abandoned));
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    const std::string source = argc > 1 ? argv[1] : "";
    pawl::WorkerSettings settings{
        .connection = {.application_name = "scenario"},
        .threads = 4,
        .lease = milliseconds(argc > 2 ? std::atoi(argv[2]) : 60'000),
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
    worker.on("", handle).on("job", handle);
    return work(worker);
} catch (const std::exception& error) {
    std::fprintf(stderr, "worker: %s\n", error.what());
    return 1;
}
