// Does not throw. Notifies systemd of the state of the service.
#pragma once

#include <string>

namespace pawl::daemon {

// Sends `state` (READY=1, STOPPING=1, STATUS=...) to $NOTIFY_SOCKET. Does nothing if that is not set.
void notify_systemd(const std::string& state) noexcept;

}  // namespace pawl::daemon
