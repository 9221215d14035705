// May throw (out of memory).
#include "auth.hpp"

#include <array>

#include <openssl/evp.h>

#include "connection.hpp"

namespace pawl::api {
namespace {

constexpr auto minute = std::chrono::seconds(60);
constexpr std::size_t most_remembered = 10'000;

// Of IPv6 a household has a whole network: its first four groups.
std::string network(const std::string& address) {
    if (address.find(':') == std::string::npos) return address;
    std::size_t end = 0;
    for (int groups = 0; groups < 4 && end != std::string::npos; ++groups) end = address.find(':', end + 1);
    return address.substr(0, end);
}

template <typename Map, typename Old>
void forget_old(Map& map, Old is_old) {
    if (map.size() < most_remembered) return;
    for (auto entry = map.begin(); entry != map.end();) entry = is_old(entry->second) ? map.erase(entry) : std::next(entry);
    if (map.size() >= most_remembered) map.clear();
}

}  // namespace

std::string sha256(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned length = 0;
    EVP_Digest(text.data(), text.size(), bytes.data(), &length, EVP_sha256(), nullptr);
    return {reinterpret_cast<const char*>(bytes.data()), length};
}

std::optional<Caller> credentials(const httplib::Request& request) {
    const std::string header = request.get_header_value("Authorization");
    constexpr std::string_view scheme = "bearer ";
    if (header.size() > scheme.size()) {
        for (std::size_t i = 0; i < scheme.size(); ++i)
            if ((header[i] | 32) != scheme[i]) return std::nullopt;
        return Caller{.kind = "bearer", .digest = sha256(std::string_view(header).substr(scheme.size()))};
    }
    if (const auto shown = current_connection ? current_connection->certificate() : std::nullopt; shown && header.empty())
        return Caller{.kind = "certificate", .digest = *shown};
    return std::nullopt;
}

int Doorkeeper::must_wait(const std::string& address, const std::string& digest) {
    const std::lock_guard lock(mutex_);
    const auto found = failures_.find(network(address));
    if (found == failures_.end() || found->second.count < most_) return 0;
    const auto left = found->second.since + minute - Clock::now();
    if (left <= Clock::duration::zero()) {
        failures_.erase(found);
        return 0;
    }
    if (const auto old = known_.find(digest); old != known_.end() && Clock::now() - old->second < 10 * minute) return 0;
    return 1 + static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(left).count());
}

void Doorkeeper::known(const std::string& digest) {
    const std::lock_guard lock(mutex_);
    forget_old(known_, [](Clock::time_point at) { return Clock::now() - at > 10 * minute; });
    known_[digest] = Clock::now();
}

void Doorkeeper::unknown(const std::string& address) {
    const std::lock_guard lock(mutex_);
    forget_old(failures_, [](const Failures& entry) { return Clock::now() - entry.since > minute; });
    Failures& entry = failures_[network(address)];
    if (entry.count == 0 || Clock::now() - entry.since > minute) entry = {.count = 0, .since = Clock::now()};
    ++entry.count;
}

}  // namespace pawl::api
