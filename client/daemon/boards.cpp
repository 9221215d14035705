// May throw.
#include "boards.hpp"

#include <pawl/errors.hpp>

namespace pawl::daemon {

Board::Board(const std::string& name, const Settings& settings, const Log& log, Metrics& metrics)
    : name_(name),
      log_(log),
      metrics_(metrics),
      reconnect_(std::chrono::milliseconds(100), std::chrono::seconds(5)),
      conductor_({
          .connection = connection_settings(settings, "pawld board " + name),
          .board = name,
          .jobs = settings.batch,
          .lease = settings.board_lease,
          .shortest_poll = settings.shortest_poll,
          .longest_poll = settings.longest_poll,
          .wake = settings.wake,
          .on_event = [this](const SagaJob& job, JobEvent event) { note(job, event); },
          .on_message = [this](const std::string& message) { log_message(message); },
      }) {}

// The same message is logged once a minute.
void Board::log_message(const std::string& message) {
    {
        const std::lock_guard lock(saying_);
        const auto now = std::chrono::steady_clock::now();
        if (message == said_ && now - said_at_ < std::chrono::minutes(1)) return;
        said_ = message;
        said_at_ = now;
    }
    log_.info("board", {{"board", name_}, {"message", message}});
}

void Board::note(const SagaJob& job, JobEvent event) {
    metrics_.ran("board " + name_, 1, {});
    const Log::Fields fields = {
        {"board", name_}, {"job", job.job}, {"name", job.name}, {"flow", job.flow}, {"event", name_of(event)}};
    event == JobEvent::trashed || event == JobEvent::lost ? log_.warn("job", fields) : log_.debug("job", fields);
}

// Errors that end a conductor (a missing pack or privilege) are retried, because an operator may be about to cure them.
void Board::run() {
    while (!stopping_) {
        try {
            conductor_.run();
        } catch (const std::exception& problem) {
            const auto* error = dynamic_cast<const Error*>(&problem);
            metrics_.failed("board " + name_);
            log_message(std::string("failed: ") + problem.what() +
                        (error && !error->sqlstate().empty() ? " [" + error->sqlstate() + "]" : ""));
            wake_up_.wait(-1, reconnect_.advance());
        }
    }
}

void Board::stop() noexcept {
    stopping_ = true;
    conductor_.stop();
    wake_up_.set();
}

}  // namespace pawl::daemon
