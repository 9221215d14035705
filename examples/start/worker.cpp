#include <iostream>
#include <syncstream>

#include <pawl/pawl.hpp>

int main() {
    pawl::Worker worker(
        {.connection = {.target = "dbname=shop"},
         .table = pawl::JobTable{.relation = "letters", .success_event = "finish", .failure_event = "fail"}});
    worker.on("job", [](const pawl::Job& job) -> nlohmann::json {
        std::osyncstream(std::cout) << "dear " << job.context.at("recipient").get<std::string>() << std::endl;
        return nlohmann::json::object();
    });
    const pawl::StopOnSignals signals(worker);  // SIGTERM or Ctrl-C, which drains
    worker.run();
}
