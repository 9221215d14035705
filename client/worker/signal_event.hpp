// May throw (the constructor). An event for which a thread waits together with a socket.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace pawl {

class SignalEvent {
public:
    SignalEvent() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    }
    ~SignalEvent() { ::close(fd_); }
    SignalEvent(const SignalEvent&) = delete;
    SignalEvent& operator=(const SignalEvent&) = delete;

    // Ends the current wait, or the next one. Callable from any thread and from a signal handler.
    void set() const noexcept {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
    }

    void clear() const noexcept {
        std::uint64_t count = 0;
        [[maybe_unused]] const auto taken = ::read(fd_, &count, sizeof count);
    }

    // Waits for the event, for data at `socket` (-1: none), or until the time has passed. Clears the event. True if
    // there are data.
    bool wait(int socket, std::chrono::milliseconds time) const noexcept {
        pollfd watched[2] = {{fd_, POLLIN, 0}, {socket, POLLIN, 0}};
        const int ready = ::poll(watched, socket < 0 ? 1 : 2, static_cast<int>(time.count()));
        if (ready > 0 && watched[0].revents != 0) clear();
        return ready > 0 && socket >= 0 && watched[1].revents != 0;
    }

private:
    int fd_;
};

}  // namespace pawl
