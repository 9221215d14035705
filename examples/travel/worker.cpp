// A worker for the trips of the demo: it calls the three services (flight, hotel, car) like any client, over a
// connection of its own.
//
//     worker [milliseconds a call] [lease in ms] [threads]        the database is libpq's: PGHOST, PGDATABASE, ...
//
// PAWL_PROVIDER=rabbitmq PAWL_BROKER=amqp://... has messages tell it of work.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include <pawl/pawl.hpp>

namespace {

struct Booking {
    std::string service, code;
};
void to_json(nlohmann::json& json, const Booking& booking) {
    json = {{"service", booking.service}, {"code", booking.code}};
}
void from_json(const nlohmann::json& json, Booking& booking) {
    json.at("service").get_to(booking.service);
    json.at("code").get_to(booking.code);
}

// A service's answer; an answer that is no booking code is a rejection, which becomes an error with the service's own
// SQLSTATE.
std::string ask(pqxx::connection& connection, const std::string& service, const std::string& verb, int trip) {
    pqxx::nontransaction transaction(connection);
    const pqxx::result answer = transaction.exec("select a, public.rejection(" + transaction.quote(service) +
                                                 ", a) from " + transaction.quote_name(service) + "." +
                                                 transaction.quote_name(verb) + "(" + std::to_string(trip) + ") a");
    const auto said = answer[0];  // of which libpqxx 8 keeps nothing alive
    if (said[0].size() == 5) throw pawl::Error(said[0].as<std::string>(), service + " " + said[1].as<std::string>());
    return said[0].as<std::string>();
}

// A service that cannot be reached has not rejected: it is asked again for as long as the worker owns the task. It
// answers the same question the same way.
std::string call(const pawl::SagaTask& task, const std::string& service, const std::string& verb,
                 std::chrono::milliseconds takes) {
    thread_local std::unique_ptr<pqxx::connection> connection;
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
        try {
            if (!connection) connection = pawl::connect({.application_name = "travel agent"});
            std::this_thread::sleep_for(takes);
            return ask(*connection, service, verb, task.argument<int>("trip"));
        } catch (const pqxx::broken_connection&) {
            connection.reset();
        } catch (const pqxx::sql_error& problem) {
            if (problem.sqlstate().rfind("57P", 0) != 0) throw;  // the server is going down
            connection.reset();
        } catch (const pawl::ConnectionLost&) {
        }
        if (task.stop.stop_requested()) throw pawl::Failure("unreachable", service + " cannot be reached");
    }
}

}  // namespace

int main(int argc, char** argv) try {
    const std::chrono::milliseconds takes(argc > 1 ? std::atoi(argv[1]) : 20);
    pawl::SagaWorkerSettings settings{
        .connection = {.application_name = "pawl travel"},
        .queue = "travel",
        .threads = argc > 3 ? std::atoi(argv[3]) : 4,
        .lease = std::chrono::milliseconds(argc > 2 ? std::atoi(argv[2]) : 60'000),
        .progress_interval = std::chrono::milliseconds(20),
        .on_dropped =
            [](const pawl::SagaTask& task) {
                std::fprintf(stderr, "dropped: %s, the lease was lost\n", task.name.c_str());
            },
        .on_message = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
    };
    pawl::read_environment(settings);  // PAWL_DATABASE, PAWL_POOLER, PAWL_PROVIDER, ...
    pawl::SagaWorker worker(std::move(settings));
    // A service knows a trip: asked twice for the same booking, it gives the same one.
    worker.on(
        "book",
        [takes](const pawl::SagaTask& task) {
            const auto service = task.argument<std::string>("service");
            task.progress(0.5, {{"asking", service}});
            return Booking{service, call(task, service, "book", takes)};
        },
        [takes](const pawl::SagaTask& task) {
            if (!task.result.is_null()) task.progress(0.5, {{"cancelling", task.done<Booking>().code}});
            // also where it failed: a worker that died may have booked before
            call(task, task.argument<std::string>("service"), "cancel", takes);
        });
    const pawl::StopOnSignals signals([&] { worker.stop(); });
    std::fprintf(stderr, "processor %s\n", worker.processor().c_str());
    worker.run();
    const pawl::WorkerCounts counts = worker.counts();
    std::printf("%llu succeeded, %llu failed, %llu dropped, %llu given back\n",
                static_cast<unsigned long long>(counts.succeeded), static_cast<unsigned long long>(counts.failed),
                static_cast<unsigned long long>(counts.dropped), static_cast<unsigned long long>(counts.abandoned));
    if (counts.announced > 0) std::printf("%llu by message\n", static_cast<unsigned long long>(counts.announced));
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "worker: %s\n", error.what());
    return 1;
}
