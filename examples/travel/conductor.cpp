// A conductor for the board of trips: claims jobs, starts their flows, consumes the jobs when the flows have ended.
//
//     conductor [lease in ms; 0: jobs are its session's] [jobs at once] [board]        the database is libpq's: PGHOST,
//     PGDATABASE, ...
#include <cstdio>
#include <cstdlib>

#include <pawl/pawl.hpp>

int main(int argc, char** argv) try {
    const bool tied = argc > 1 && std::atoi(argv[1]) == 0;
    pawl::ConductorSettings settings{
        .connection = {.application_name = "pawl conductor"},
        .board = argc > 3 ? argv[3] : "trips",
        .jobs = argc > 2 ? std::atoi(argv[2]) : 100,
        .lease = std::chrono::milliseconds(argc > 1 && !tied ? std::atoi(argv[1]) : 60'000),
        .tied = tied,
        .on_event =
            [](const pawl::SagaJob& job, pawl::JobEvent event) {
                std::fprintf(stderr, "%s: %s\n", job.name.c_str(), pawl::name_of(event));
            },
        .on_message = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
    };
    pawl::read_environment(settings);  // PAWL_DATABASE, PAWL_POOLER, PAWL_PROVIDER, ...
    pawl::Conductor conductor(std::move(settings));
    const pawl::StopOnSignals signals([&] { conductor.stop(); });
    std::fprintf(stderr, "processor %s\n", conductor.processor().c_str());
    conductor.run();
    const pawl::ConductorCounts counts = conductor.counts();
    std::printf("%llu claimed, %llu consumed, %llu given back, %llu trashed, %llu lost\n",
                static_cast<unsigned long long>(counts.claimed), static_cast<unsigned long long>(counts.consumed),
                static_cast<unsigned long long>(counts.given_back), static_cast<unsigned long long>(counts.trashed),
                static_cast<unsigned long long>(counts.lost));
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "conductor: %s\n", error.what());
    return 1;
}
