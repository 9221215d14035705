// May throw (out of memory). See run_handler.hpp.
#include "run_handler.hpp"

#include <pawl/errors.hpp>

#include "json_text.hpp"

namespace pawl {

Finished run_handler(const std::map<std::string, Handler>& handlers, WorkPtr work) {
    Finished finished;
    finished.work = work;
    const auto failed = [&](Outcome outcome, const std::string& message) {
        finished.outcome = outcome;
        finished.value = {{"message", message}};
    };
    try {
        auto handler = handlers.find(work->job.handler);
        if (handler == handlers.end()) handler = handlers.find("");
        if (!work->job.problem.empty())
            failed(Outcome::permanent_failure, work->job.problem);
        else if (handler != handlers.end())
            finished.value = handler->second(work->job);
        else
            failed(Outcome::failure, "worker has no handler \"" + work->job.handler + "\"");
        if (const std::string excess = excess_of(finished.value); !excess.empty())
            failed(Outcome::permanent_failure, "the result cannot be reported: " + excess);
    } catch (const PermanentFailure& caught) {
        failed(Outcome::permanent_failure, caught.what());
    } catch (const Failure& caught) {
        failed(Outcome::failure, caught.what());
        finished.value["type"] = caught.type();
    } catch (const Error& caught) {
        failed(Outcome::failure, caught.what());
        if (!caught.sqlstate().empty()) finished.value["sqlstate"] = caught.sqlstate();
    } catch (const RetryLater& caught) {
        failed(Outcome::failure, caught.what());
        finished.retry_after = caught.after();
    } catch (const std::exception& caught) {
        failed(Outcome::failure, caught.what());
    } catch (...) {
        failed(Outcome::failure, "handler threw something that is no std::exception");
    }
    // a handler that was asked to stop has not failed, unless it says that no other attempt can succeed
    if (finished.outcome == Outcome::failure && work->job.stop.stop_requested()) finished.outcome = Outcome::given_back;
    return finished;
}

}  // namespace pawl
