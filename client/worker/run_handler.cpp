// May throw (out of memory). See run_handler.hpp.
#include "run_handler.hpp"

#include <pawl/errors.hpp>

#include "json_text.hpp"
#include "utf8.hpp"

namespace pawl {

std::string storable_text(const char* text) {
    // what() of a careless class is null
    return text == nullptr || *text == 0 ? "an exception without a text" : storable(text, longest_text);
}

std::string text_of_exception() {
    try {
        throw;
    } catch (const std::exception& caught) {
        return storable_text(caught.what());
    } catch (...) {
        return "handler threw something that is no std::exception";
    }
}

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
            failed(Outcome::permanent_failure, storable_text(work->job.problem.c_str()));
        else if (handler != handlers.end())
            finished.value = handler->second(work->job);
        else
            failed(Outcome::failure, "worker has no handler \"" + work->job.handler + "\"");
        if (const std::string problem = problem_of(finished.value); !problem.empty())
            failed(Outcome::permanent_failure, "the result cannot be reported: " + problem);
    } catch (const PermanentFailure&) {
        failed(Outcome::permanent_failure, text_of_exception());
    } catch (const Failure& caught) {
        failed(Outcome::failure, text_of_exception());
        finished.value["type"] = storable(caught.type(), longest_text);
    } catch (const Error& caught) {
        failed(Outcome::failure, text_of_exception());
        if (!caught.sqlstate().empty()) finished.value["sqlstate"] = storable(caught.sqlstate(), longest_text);
    } catch (const RetryLater& caught) {
        failed(Outcome::failure, text_of_exception());
        finished.retry_after = caught.after();
    } catch (...) {
        failed(Outcome::failure, text_of_exception());
    }
    // a handler that was asked to stop has not failed, unless it says that no other attempt can succeed
    if (finished.outcome == Outcome::failure && work->job.stop.stop_requested()) finished.outcome = Outcome::given_back;
    return finished;
}

}  // namespace pawl
