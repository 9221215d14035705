// A worker for the workflows that `pawl import` makes: a step sleeps for as long as it says, times the scale, and
// returns what it did. The scale is the task's own ("scale" in its context), or the one given here.
//
//     worker [namespace] [threads] [scale] [lease in ms] [batch] [grace in ms]        the database is libpq's: PGHOST,
//     PGDATABASE, ...
//
// PAWL_PROVIDER=rabbitmq PAWL_BROKER=amqp://... makes messages announce work.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include <pawl/pawl.hpp>

int main(int argc, char** argv) try {
    const double scale = argc > 3 ? std::atof(argv[3]) : 0.001;
    pawl::WorkerSettings settings{
        .connection = {.application_name = "pawl worker"},
        .queue = argc > 1 ? argv[1] : "default",
        .threads = argc > 2 ? std::atoi(argv[2]) : 4,
        .batch = argc > 5 ? std::atoi(argv[5]) : 0,
        .lease = std::chrono::milliseconds(argc > 4 ? std::atoi(argv[4]) : 60'000),
        .grace = std::chrono::milliseconds(argc > 6 ? std::atoi(argv[6]) : 30'000),
        .on_dropped =
            [](const pawl::Job& job) { std::fprintf(stderr, "dropped: %s, the lease was lost\n", job.name.c_str()); },
        .on_message = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
    };
    pawl::read_environment(settings);  // PAWL_DATABASE, PAWL_POOLER, PAWL_PROVIDER, ...
    pawl::Worker worker(std::move(settings));
    worker.on("sleep", [scale](const pawl::Job& job) {
        const auto asked =
            std::chrono::duration<double>(job.options.value("seconds", 0.0) * job.context.value("scale", scale));
        // waits, but not after the lease was lost
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        if (stopped.wait_for(lock, job.stop, asked, [&] { return job.stop.stop_requested(); }))
            throw std::runtime_error("stopped");
        nlohmann::json result = {{"slept", asked.count()}, {"inputs", job.inputs.size()}, {"attempt", job.attempt}};
        if (!job.trace.empty()) result["traceparent"] = job.trace.traceparent;
        return result;
    });
    const pawl::StopOnSignals signals(worker);
    std::fprintf(stderr, "processor %s\n", worker.processor().c_str());
    worker.run();
    const pawl::WorkerCounts counts = worker.counts();
    std::printf("%llu succeeded, %llu failed, %llu dropped, %llu given back, %llu by message\n",
                static_cast<unsigned long long>(counts.succeeded), static_cast<unsigned long long>(counts.failed),
                static_cast<unsigned long long>(counts.dropped), static_cast<unsigned long long>(counts.abandoned),
                static_cast<unsigned long long>(counts.announced));
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "worker: %s\n", error.what());
    return 1;
}
