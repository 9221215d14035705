// May throw (the constructor). Signals are read from a descriptor on a thread of its own: no handler and no global
// state.
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <pawl/worker.hpp>

namespace pawl {

struct StopOnSignals::Impl {
    explicit Impl(std::function<void()> stop_function) : stop(std::move(stop_function)) {
        sigset_t ours;
        sigemptyset(&ours);
        sigaddset(&ours, SIGTERM);
        sigaddset(&ours, SIGINT);
        pthread_sigmask(SIG_BLOCK, &ours, &before);
        fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
        thread = std::jthread([this](std::stop_token end) { listen(end); });
    }

    ~Impl() {
        thread.request_stop();
        thread.join();
        ::close(fd);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    void listen(std::stop_token end) {
        pollfd watched{fd, POLLIN, 0};
        while (!end.stop_requested()) {
            if (::poll(&watched, 1, 100) <= 0) continue;
            signalfd_siginfo info;
            while (::read(fd, &info, sizeof info) == sizeof info) stop();
        }
    }

    std::function<void()> stop;
    sigset_t before{};
    int fd = -1;
    std::jthread thread;
};

StopOnSignals::StopOnSignals(std::function<void()> stop) : impl_(std::make_unique<Impl>(std::move(stop))) {}
StopOnSignals::StopOnSignals(Worker& worker) : StopOnSignals([&worker] { worker.stop(); }) {}
StopOnSignals::~StopOnSignals() = default;

}  // namespace pawl
