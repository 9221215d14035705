// May throw (out of memory).
#include "auth.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include <arpa/inet.h>
#include <openssl/evp.h>

#include "connection.hpp"

namespace pawl::api {
namespace {

constexpr auto minute = std::chrono::seconds(60);
constexpr std::size_t most_entries = 10'000;

constexpr std::size_t most_prefixes = 64;  // of an address
constexpr std::size_t prefix_length = 13;  // pawl_ and eight characters

using Bytes = std::array<unsigned char, 16>;

// IPv4 as it is mapped into IPv6.
std::optional<Bytes> bytes_of(const std::string& address) {
    Bytes bytes{};
    bytes[10] = bytes[11] = 0xff;
    if (inet_pton(AF_INET, address.c_str(), bytes.data() + 12) == 1) return bytes;
    if (inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return bytes;
    return std::nullopt;
}

bool is_mapped(const Bytes& bytes) {
    return std::all_of(bytes.begin(), bytes.begin() + 10, [](unsigned char byte) { return byte == 0; }) &&
           bytes[10] == 0xff && bytes[11] == 0xff;
}

// Of IPv6 a household has a whole network: its first 64 bits.
std::string network(const std::string& address) {
    const auto bytes = bytes_of(address);
    if (!bytes) return address;
    return {reinterpret_cast<const char*>(bytes->data()), is_mapped(*bytes) ? bytes->size() : 8};
}

template <typename Map, typename Old>
void forget_old(Map& map, Old is_old) {
    if (map.size() < most_entries) return;
    for (auto entry = map.begin(); entry != map.end();)
        entry = is_old(entry->second) ? map.erase(entry) : std::next(entry);
    if (map.size() >= most_entries) map.clear();
}

}  // namespace

std::string sha256(std::string_view text) {
    // EVP_sha256() would look the algorithm up at each digest, which takes longer than the digest of a token
    static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned length = 0;
    EVP_Digest(text.data(), text.size(), bytes.data(), &length, algorithm, nullptr);
    return {reinterpret_cast<const char*>(bytes.data()), length};
}

std::optional<Caller> credentials(const httplib::Request& request) {
    const std::string header = request.get_header_value("Authorization");
    constexpr std::string_view scheme = "bearer ";
    if (header.size() > scheme.size()) {
        for (std::size_t i = 0; i < scheme.size(); ++i)
            if ((header[i] | 32) != scheme[i]) return std::nullopt;
        const std::string token = header.substr(scheme.size());
        return Caller{.kind = "bearer", .digest = sha256(token), .prefix = token.substr(0, prefix_length)};
    }
    if (const auto shown = current_connection ? current_connection->certificate() : std::nullopt;
        shown && header.empty())
        return Caller{.kind = "certificate", .digest = *shown, .prefix = shown->substr(0, prefix_length)};
    return std::nullopt;
}

Proxies::Proxies(const std::set<std::string>& networks) {
    for (const std::string& given : networks) {
        const std::size_t slash = std::min(given.find('/'), given.size());
        const auto bytes = bytes_of(given.substr(0, slash));
        int bits = 128;
        if (bytes && slash < given.size()) {
            const int most = is_mapped(*bytes) ? 32 : 128;
            const auto [end, problem] = std::from_chars(given.data() + slash + 1, given.data() + given.size(), bits);
            if (problem != std::errc() || end != given.data() + given.size() || bits < 0 || bits > most)
                throw std::invalid_argument("\"" + given + "\" is not a network such as 10.0.0.0/8");
            bits += 128 - most;
        }
        if (!bytes) throw std::invalid_argument("\"" + given + "\" is not an IP address");
        networks_.push_back({*bytes, bits});
    }
}

bool Proxies::contains(const std::string& address) const {
    const auto bytes = bytes_of(address);
    return bytes && std::any_of(networks_.begin(), networks_.end(), [&](const Network& network) {
               for (int bit = 0; bit < network.bits; ++bit)
                   if ((((*bytes)[bit / 8] ^ network.address[bit / 8]) >> (7 - bit % 8)) & 1) return false;
               return true;
           });
}

std::string Proxies::client_of(const std::string& peer, const std::string& forwarded) const {
    std::string client = peer;
    for (std::string rest = forwarded; contains(client) && !rest.empty();) {
        const std::size_t comma = rest.rfind(',');
        std::string last = rest.substr(comma == std::string::npos ? 0 : comma + 1);
        rest.erase(comma == std::string::npos ? 0 : comma);
        last.erase(0, last.find_first_not_of(" \t"));
        last.erase(last.find_last_not_of(" \t") + 1);
        if (!bytes_of(last)) break;
        client = last;
    }
    return client;
}

int LoginLimiter::must_wait(const Caller& caller) {
    const std::lock_guard lock(mutex_);
    const auto found = failures_.find(network(caller.address));
    if (found == failures_.end()) return 0;
    const auto left = found->second.since + minute - Clock::now();
    if (left <= Clock::duration::zero()) {
        failures_.erase(found);
        return 0;
    }
    const auto prefix = found->second.prefixes.find(caller.prefix);
    if (prefix == found->second.prefixes.end() || prefix->second < most_) return 0;
    if (const auto old = known_.find(caller.digest); old != known_.end() && Clock::now() - old->second < 10 * minute)
        return 0;
    return 1 + static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(left).count());
}

void LoginLimiter::known(const std::string& digest) {
    const std::lock_guard lock(mutex_);
    forget_old(known_, [](Clock::time_point at) { return Clock::now() - at > 10 * minute; });
    known_[digest] = Clock::now();
}

LoginLimiter::Verdict LoginLimiter::unknown(const Caller& caller) {
    const std::lock_guard lock(mutex_);
    forget_old(failures_, [](const Failures& entry) { return Clock::now() - entry.since > minute; });
    Failures& entry = failures_[network(caller.address)];
    if (entry.count == 0 || Clock::now() - entry.since > minute) entry = {.count = 0, .since = Clock::now()};
    if (entry.count < 1'000'000'000) ++entry.count;
    if (entry.prefixes.size() < most_prefixes || entry.prefixes.contains(caller.prefix))
        if (int& times = entry.prefixes[caller.prefix]; times < most_) ++times;
    return {.late = entry.count > most_, .logged = entry.count <= most_};
}

}  // namespace pawl::api
