// Loans, in one program: a graph flow with a decider, a controller that tries one bank after the other, typed
// arguments, results and failures; flows that begin if, and only if, the loan is written; a worker that ends when all
// of them have.
#include <cstdio>
#include <thread>
#include <vector>

#include <pawl/pawl.hpp>

namespace saga = pawl::saga;

saga::Flow loan() {
    return saga::graph(
               "loan", saga::task("score").needs("customer").provides("score"),
               // a human looks at it only where the score says so
               saga::task("look").needs("customer").may_need("score").provides("seen_by"),
               saga::linear("payment",
                            saga::task("pay")
                                .needs("customer", "amount", "bank")
                                .provides({"receipt", "fee"})
                                .revert("claw_back")
                                .timeout(std::chrono::seconds(10)),
                            saga::task("letter").needs("receipt", "customer", "language").inject("language", "en"))
                   .retry(saga::for_each("bank by bank", {"north", "south"})
                              .provides("bank")
                              .on("fraud", saga::Answer::revert_all)))
        .link("score", "look", saga::when_result_in({"unsure"}), saga::Depth::atom)
        .link("score", "payment");
}

struct Receipt {
    std::string number;
    double fee = 0;
};
// what a task provides by position is a list
void to_json(nlohmann::json& json, const Receipt& receipt) {
    json = {receipt.number, receipt.fee};
}
void from_json(const nlohmann::json& json, Receipt& receipt) {
    json.at(0).get_to(receipt.number);
    json.at(1).get_to(receipt.fee);
}

void add_handlers(pawl::SagaWorker& worker) {
    worker
        .on("score",
            [](const pawl::SagaTask& task) {
                return task.argument<std::string>("customer") == "Bob" ? "unsure" : "good";
            })
        .on("look",
            [](const pawl::SagaTask& task) {
                return "clerk 7, for score \"" + task.argument<std::string>("score") + "\"";
            })
        .on("pay",
            [](const pawl::SagaTask& task) {
                const auto bank = task.argument<std::string>("bank");
                if (task.argument<std::string>("customer") == "Mallory")
                    throw pawl::Failure("fraud", "the passport belongs to another person");
                if (bank == "north" && task.argument<int>("amount") > 1000)
                    throw pawl::Failure("limit", "too much for " + bank);
                return Receipt{bank + "-1", 2.5};
            })
        .on_revert("claw_back",
                   [](const pawl::SagaTask& task) {
                       if (!task.result.is_null())
                           std::printf("%s is clawed back\n", task.done<Receipt>().number.c_str());
                   })
        .on("letter", [](const pawl::SagaTask& task) {
            task.progress(0.9, {{"pages", 1}});
            // an argument that is missing, or something else, fails the task as well
            if (task.argument<std::string>("receipt").empty() || task.argument<std::string>("customer") == "Eve")
                throw pawl::PermanentFailure("no address");
        });
}

int main() try {
    const auto connection = pawl::connect({.application_name = "pawl loans"});
    std::vector<std::string> flows;
    {
        pqxx::work transaction(*connection);
        transaction.exec("create table loans (customer text primary key, flow uuid not null)");
        pawl::define_flow(transaction, loan());
        for (const auto& [customer, amount] : {std::pair("Ada", 500), {"Bob", 5000}, {"Mallory", 9000}, {"Eve", 100}}) {
            flows.push_back(pawl::start_flow(
                transaction,
                {.name = "loan", .inputs = {{"customer", customer}, {"amount", amount}}, .defer_reverts = true}));
            transaction.exec("insert into loans values (" + transaction.quote(customer) + ", " +
                             transaction.quote(flows.back()) + ")");
        }
        transaction.commit();
    }
    {
        pqxx::work undone(*connection);  // never committed: the flow does not begin
        pawl::start_flow(undone, {.name = "loan", .inputs = {{"customer", "Cyd"}, {"amount", 1}}});
    }
    try {
        pqxx::work missing(*connection);
        pawl::start_flow(missing, {.name = "loan", .inputs = {{"customer", "Dan"}}});
    } catch (const pawl::Error& error) {
        std::printf("no amount: %s\n", error.sqlstate().c_str());
    }
    pawl::SagaWorker worker({.connection = {.application_name = "pawl loan worker"}, .threads = 1});
    add_handlers(worker);
    std::jthread end([&] {
        const auto own = pawl::connect({.application_name = "pawl loan watcher"});
        for (const std::string& flow : flows)
            for (bool ended = false; !ended; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
                pqxx::work look(*own);
                ended = pawl::flow_status(look, flow)->ended();
            }
        worker.stop();
    });
    worker.run();
    for (const std::string& flow : flows) {
        pqxx::work look(*connection);
        const auto status = *pawl::flow_status(look, flow);
        std::printf("%s: %d of %d tasks ended, %s, errors %s\n", status.state.c_str(), status.finished, status.tasks,
                    pawl::flow_outputs(look, flow).dump().c_str(), status.errors.dump().c_str());
    }
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "loans: %s\n", error.what());
    return 1;
}
