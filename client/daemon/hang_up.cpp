// May throw (the constructor).
#include "hang_up.hpp"

#include <cerrno>
#include <csignal>
#include <system_error>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace pawl::daemon {

HangUp::HangUp() {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ours, nullptr);
    fd_ = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

// The signal stays blocked: one that comes while the process ends must not end it otherwise than SIGTERM, which asked
// for it.
HangUp::~HangUp() {
    ::close(fd_);
}

std::jthread HangUp::listen(std::function<void()> function) const {
    return std::jthread([fd = fd_, function = std::move(function)](std::stop_token end) {
        pollfd watched{fd, POLLIN, 0};
        while (!end.stop_requested()) {
            if (::poll(&watched, 1, 100) <= 0) continue;
            signalfd_siginfo info;
            while (::read(fd, &info, sizeof info) == sizeof info) function();
        }
    });
}

}  // namespace pawl::daemon
