// Does not throw. Tells systemd how the service is: one datagram to the socket it names.
#pragma once

#include <string>

namespace pawl::daemon {

// state: READY=1, STOPPING=1, STATUS=... Does nothing where $NOTIFY_SOCKET is not set.
void notify_systemd(const std::string& state) noexcept;

}  // namespace pawl::daemon
