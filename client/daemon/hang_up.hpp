// May throw (the constructor). SIGHUP, which asks a daemon to read its files again.
#pragma once

#include <functional>
#include <thread>

namespace pawl::daemon {

// While it exists, SIGHUP does not end the process. Make it before other threads: they inherit the blocked signal.
class HangUp {
public:
    HangUp();
    ~HangUp();
    HangUp(const HangUp&) = delete;
    HangUp& operator=(const HangUp&) = delete;

    // Calls the function for each SIGHUP, those that came before included, on the thread that it returns.
    std::jthread listen(std::function<void()> function) const;

private:
    int fd_ = -1;
};

}  // namespace pawl::daemon
