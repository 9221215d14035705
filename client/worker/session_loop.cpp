// May throw.
#include "session_loop.hpp"

#include <algorithm>

#include "temporary_error.hpp"

namespace pawl {

SessionLoop::SessionLoop(LoopSettings settings, LoopSource& source, Log log)
    : settings_(std::move(settings)),
      source_(source),
      log_(std::move(log)),
      interval_(settings_.shortest_poll, settings_.longest_poll),
      waiter_(settings_.connection) {}

void SessionLoop::stop() noexcept {
    stopping_ = true;
    wake_up_.set();
}

pqxx::connection& SessionLoop::session() {
    if (!connection_) {
        const ConnectionSettings where = settings_.find_connection ? settings_.find_connection() : settings_.connection;
        connection_ = connect(where);
        waiter_ = Waiter(where);
        is_begun_ = false;
    }
    if (!is_begun_) source_.connected(*connection_);
    is_begun_ = true;
    return *connection_;
}

bool SessionLoop::survive(const Error& error) {
    const bool elsewhere = settings_.moved && connection_ && is_elsewhere(error);
    if (elsewhere) {
        try {
            settings_.moved(*connection_);
        } catch (const ConnectionLost&) {
            log_("the database was lost before it could say where the work is");
        }
    }
    const bool lost = elsewhere || dynamic_cast<const ConnectionLost*>(&error) != nullptr;
    if (!lost && !is_temporary(error)) throw;
    if (lost && connection_) {
        source_.disconnected();
        connection_.reset();
    }
    return lost;
}

void SessionLoop::wait_after_error(std::chrono::milliseconds shortest) {
    wake_up_.wait(-1, std::max(interval_.advance(), shortest));
}

void SessionLoop::wait_for_work() {
    auto time = interval_.current();
    if (const auto messages = source_.wait_for_messages()) {
        time = *messages;
    } else {
        // announcing the wait is a transaction as well: not before the first short waits have found nothing
        if (settings_.wake && source_.can_claim() && time > waiter_.min_wait(settings_.shortest_poll) &&
            waiter_.announce_wait(*connection_, source_.relation()))
            return;
        if (const std::string why = waiter_.take_pooler_message(); !why.empty()) log_(why);
        interval_.advance();
    }
    if (waiter_.wait(*connection_, wake_up_, time)) interval_.reset();
}

void SessionLoop::run() {
    while (!stopping_ && !source_.finished()) {
        try {
            const Next next = source_.turn(session());
            if (next != Next::later) {
                settings_.results_release_work ? interval_.reset_shorter() : interval_.reset();
                waiter_.found_work();
            }
            if (next != Next::at_once) wait_for_work();
        } catch (const Error& error) {
            const bool was_connected = connection_ != nullptr;
            const bool lost = survive(error);
            const char* what = !lost           ? "temporary error, will retry: "
                               : was_connected ? "connection lost: "
                                               : "cannot connect, will retry: ";
            log_(std::string(what) + error.what());
            wait_after_error(std::chrono::milliseconds(50));
        }
    }
}

}  // namespace pawl
