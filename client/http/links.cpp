// May throw (out of memory, no random numbers).
#include "links.hpp"

#include <array>
#include <stdexcept>
#include <utility>

#include <unistd.h>

#include "auth.hpp"

namespace pawl::api {
namespace {

std::string random_ticket() {
    std::array<unsigned char, 32> bytes{};
    if (getentropy(bytes.data(), bytes.size()) != 0) throw std::runtime_error("the system has no random numbers");
    std::string ticket;
    for (const unsigned char byte : bytes) {
        ticket += "0123456789abcdef"[byte >> 4];
        ticket += "0123456789abcdef"[byte & 15];
    }
    return ticket;
}

}  // namespace

std::string Links::make(Linked linked, Clock::time_point now) {
    std::string ticket = random_ticket();
    const std::scoped_lock lock(mutex_);
    std::erase_if(kept_, [&](const auto& entry) { return entry.second.until <= now; });
    if (kept_.size() >= most_) return {};
    kept_.emplace(sha256(ticket), Kept{std::move(linked), now + valid});
    return ticket;
}

std::optional<Linked> Links::follow(const std::string& ticket, Clock::time_point now) {
    const std::scoped_lock lock(mutex_);
    auto found = kept_.extract(sha256(ticket));
    if (found.empty() || found.mapped().until <= now) return std::nullopt;
    return std::move(found.mapped().linked);
}

}  // namespace pawl::api
