// Many clients of an event stream in one process: listeners HOST PORT TOKEN COUNT. Says "ready" when all of them
// listen, ends at the end of its input, and then prints JSON: how late events came, in milliseconds between the clock
// in the event and its arrival here, and how much came. The delay of a read is that of its first and its last event:
// the first one is the oldest in it. The first listener reads and counts every event.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

constexpr std::string_view mark = "\"at\":\"";

struct Listener {
    int socket = -1;
    bool listens = false, ended = false;
    std::uint64_t bytes = 0;
    std::string rest;  // of a read whose end is in the middle of something
};

double now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// 2026-11-21T10:00:00.123456+00:00, the stream's own form; negative: it is not whole.
double time_of(std::string_view text) {
    static std::string known;  // the minute that was asked for last
    static double minute = 0;
    if (text.size() < 32 || text.find('"') == std::string_view::npos) return -1;
    if (known != text.substr(0, 17)) {
        std::tm parts{};
        if (!strptime(std::string(text.substr(0, 17)).append("00").c_str(), "%Y-%m-%dT%H:%M:%S", &parts)) return -1;
        known = text.substr(0, 17);
        minute = static_cast<double>(timegm(&parts));
    }
    return minute + std::strtod(std::string(text.substr(17, text.find_first_of("+Z", 17) - 17)).c_str(), nullptr);
}

int connected(const char* host, int port, const std::string& request) {
    const int one = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, host, &to.sin_addr);
    if (::connect(one, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 ||
        ::write(one, request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
        std::perror("listeners");
        std::exit(1);
    }
    return one;
}

struct Lags {
    std::vector<float> all;
    void add(double at) {
        if (at > 0) all.push_back(static_cast<float>((now() - at) * 1000));
    }
    double part(double share) {
        return all.empty()
                   ? 0
                   : all[std::min(all.size() - 1, static_cast<std::size_t>(share * static_cast<double>(all.size())))];
    }
};

std::uint64_t counted(Listener& listener, std::string_view text) {
    listener.rest += text;
    std::uint64_t events = 0;
    std::size_t at = 0;
    for (std::size_t found; (found = listener.rest.find(mark, at)) != std::string::npos; at = found + mark.size())
        ++events;
    listener.rest.erase(0, std::max(at, listener.rest.size() - std::min(listener.rest.size(), mark.size() - 1)));
    return events;
}

}  // namespace

int main(int, char** arguments) {
    const std::size_t count = std::strtoul(arguments[4], nullptr, 10);
    const std::string request =
        std::string("GET /v1/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ") + arguments[3] + "\r\n\r\n";
    std::vector<Listener> listeners(count);
    const int poll = ::epoll_create1(0);
    const auto watch = [&](int socket, std::uint64_t number) {
        epoll_event event{.events = EPOLLIN, .data = {.u64 = number}};
        ::epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event);
    };
    for (std::size_t i = 0; i < count; ++i)
        watch(listeners[i].socket = connected(arguments[1], std::atoi(arguments[2]), request), i);
    watch(STDIN_FILENO, count);

    std::vector<char> buffer(1 << 18);
    std::array<epoll_event, 64> ready{};
    Lags lags;
    std::uint64_t events = 0;
    std::size_t listening = 0;
    for (bool going = true; going;) {
        const int some = ::epoll_wait(poll, ready.data(), ready.size(), -1);
        for (int i = 0; i < some; ++i) {
            if (ready[i].data.u64 == count) {
                going = false;
                continue;
            }
            Listener& one = listeners[ready[i].data.u64];
            const ssize_t got = ::recv(one.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
            if (got <= 0) {
                if (got == 0) one.ended = true, ::epoll_ctl(poll, EPOLL_CTL_DEL, one.socket, nullptr);
                continue;
            }
            const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
            if (!one.listens) {
                one.listens = true;
                if (text.substr(0, 12) != "HTTP/1.1 200")
                    return std::fprintf(stderr, "listeners: %.200s\n", buffer.data()), 1;
                if (++listening == count) std::puts("ready"), std::fflush(stdout);
            }
            one.bytes += text.size();
            if (const auto first = text.find(mark); first != std::string_view::npos) {
                lags.add(time_of(text.substr(first + mark.size(), 40)));
                if (const auto last = text.rfind(mark); last != first)
                    lags.add(time_of(text.substr(last + mark.size(), 40)));
            }
            if (&one == &listeners[0]) events += counted(one, text);
        }
    }
    std::sort(lags.all.begin(), lags.all.end());
    std::uint64_t bytes = 0, least = ~std::uint64_t(0), most = 0, ended = 0;
    for (const Listener& one : listeners) {
        bytes += one.bytes;
        least = std::min(least, one.bytes);
        most = std::max(most, one.bytes);
        ended += one.ended;
    }
    std::printf(
        "{\"p50\": %.1f, \"p99\": %.1f, \"max\": %.1f, \"looks\": %zu, \"events\": %lu, \"bytes\": %lu, \"least\": "
        "%lu, \"most\": %lu, \"ended\": %lu}\n",
        lags.part(0.5), lags.part(0.99), lags.part(1), lags.all.size(), events, bytes, least, most, ended);
}
