// What a handler may do: read and return types of its own, fail for good, ask to be called later, and stop when its
// task is cancelled. Waits end by pawl.fire_due, so a pawld should run.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include <pawl/pawl.hpp>

namespace {

struct Weight {
    int grams = 0;
    double price = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Weight, grams, price)

nlohmann::json weigh(const pawl::Job& job) {
    const int grams = job.context.at("grams").get<int>();
    // no later attempt will mend what is wrong with the order itself
    if (grams <= 0) throw pawl::PermanentFailure("a parcel of " + std::to_string(grams) + " g");
    return Weight{grams, 2 + 0.005 * grams};
}

nlohmann::json print_label(const pawl::Job& job) {
    const Weight weight = job.inputs.at("weigh").get<Weight>();
    // as a service that answers 429 with Retry-After; the step's max_backoff_ms caps it
    if (job.attempt == 1) throw pawl::RetryLater("the printer is warming up", std::chrono::milliseconds(100));
    return {{"label", std::to_string(weight.grams) + " g"}, {"attempt", job.attempt}};
}

// Waits for the courier, but no longer than the step is ours.
nlohmann::json hand_over(const pawl::Job& job) {
    if (!job.context.value("far", false)) return {{"price", job.inputs.at("weigh").at("price")}};
    {
        const auto connection = pawl::connect({.application_name = "a clerk's desk"});
        pqxx::work desk(*connection);
        desk.exec("select pawl_dag.cancel_task(" + desk.quote(job.task) + ", 'the customer came by')");
        desk.commit();
    }
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait(lock, job.stop, [] { return false; });
    throw std::runtime_error("called off");  // not reported: a cancelled step has no result
}

std::string outcome(const pawl::ConnectionSettings& settings, const std::string& task) {
    const auto connection = pawl::connect(settings);
    for (;;) {
        pqxx::work look(*connection);
        const pawl::TaskStatus status = pawl::task_status(look, task).value();
        if (status.ended() || status.state == "blocked_by_failures")
            return status.state + " " + pawl::task_results(look, task).dump();
        look.commit();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

}  // namespace

int main() try {
    const pawl::ConnectionSettings settings{.application_name = "pawl handlers"};
    std::vector<std::string> tasks;
    {
        const auto connection = pawl::connect(settings);
        pqxx::work start(*connection);
        pawl::define_template(start, {{"name", "parcel"},
                                      {"namespace", "parcels"},
                                      {"identity_strategy", "always_unique"},
                                      {"steps",
                                       {{{"name", "weigh"}},
                                        {{"name", "label"},
                                         {"dependencies", {"weigh"}},
                                         {"retry", {{"max_attempts", 5}, {"max_backoff_ms", 60'000}}}},
                                        {{"name", "hand_over"}, {"dependencies", {"weigh", "label"}}}}}});
        tasks = pawl::start_tasks(start, {.name = "parcel", .name_space = "parcels"},
                                  {{{"grams", 1200}}, {{"grams", -1}}, {{"grams", 400}, {"far", true}}});
        start.commit();
    }
    pawl::Worker worker({.connection = settings, .queue = "parcels", .lease = std::chrono::milliseconds(600)});
    worker.on("weigh", weigh).on("label", print_label).on("hand_over", hand_over);
    std::jthread runs([&worker] { worker.run(); });
    for (const std::string& task : tasks) std::printf("%s\n", outcome(settings, task).c_str());
    worker.stop();
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "handlers: %s\n", error.what());
    return 1;
}
