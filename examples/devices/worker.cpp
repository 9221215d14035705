// A worker for the device operation of the demo: registers addresses in batches, and looks whether a vendor's carrier
// has answered.
//
//     worker [lease in ms] [microseconds a row] [longest poll in ms]        the database is libpq's: PGHOST,
//     PGDATABASE, ...
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <pawl/pawl.hpp>

int main(int argc, char** argv) try {
    const std::chrono::microseconds each(argc > 2 ? std::atoi(argv[2]) : 0);
    pawl::RowWorkerSettings settings{
        .connection = {.application_name = "pawl rows"},
        .queue = "devices",
        .threads = 1,
        .batch = 500,
        .lease = std::chrono::milliseconds(argc > 1 ? std::atoi(argv[1]) : 60'000),
        .longest_poll = std::chrono::milliseconds(argc > 3 ? std::atoi(argv[3]) : 500),
        .on_message = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
    };
    pawl::read_environment(settings);  // PAWL_DATABASE, PAWL_POOLER, PAWL_PROVIDER, ...
    pawl::RowWorker worker(std::move(settings));
    // sync: the registry is busy at the first try of addresses that end with F, and never takes those that end with 00
    worker.on("register", [each](std::vector<pawl::Row>& rows) {
        std::this_thread::sleep_for(each * rows.size());
        for (pawl::Row& row : rows) {
            const std::string address = row.data.at("Assignment");
            if (address.ends_with("00") && row.attempt == 0)
                row.fail("the registry does not know " + address);
            else if (address.ends_with("F") && row.tries == 0)
                row.fail("the registry is busy");
        }
    });
    // polled: started once, then asked until it is done
    worker.on("activate", [](std::vector<pawl::Row>& rows) {
        for (pawl::Row& row : rows) row.done();
    });
    const pawl::StopOnSignals signals([&] { worker.stop(); });
    worker.run();
    const pawl::RowWorkerCounts counts = worker.counts();
    std::printf("%llu claimed, %llu reported, %llu dropped\n", static_cast<unsigned long long>(counts.claimed),
                static_cast<unsigned long long>(counts.reported), static_cast<unsigned long long>(counts.dropped));
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "worker: %s\n", error.what());
    return 1;
}
