// May throw.
#include "announced_claims.hpp"

#include <algorithm>

#include "json_text.hpp"
#include "temporary_error.hpp"
#include "utf8.hpp"

namespace pawl {
namespace {

constexpr std::size_t longest_logged = 200;  // bytes of a key, or of an error; both can hold the whole message

// Without control characters, and cut.
std::string for_log(std::string_view text) {
    std::string clean = storable(text, longest_logged);
    const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7F; };
    std::replace_if(clean.begin(), clean.end(), is_control, ' ');
    return clean + (text.size() > longest_logged ? "..." : "");
}

// The first line and the SQLSTATE.
std::string for_log(const Error& error) {
    const std::string_view whole = error.what();
    return for_log(whole.substr(0, whole.find('\n'))) + " [" + error.sqlstate() + "]";
}

}  // namespace

bool AnnouncedClaims::claim(pqxx::connection& connection, int room) {
    const std::vector<Announced> announced = inbox_.take(static_cast<std::size_t>(room));
    std::size_t done = 0;
    try {
        if (!announced.empty()) claim(connection, announced, done);
    } catch (const Error&) {
        inbox_.put_back({announced.begin() + static_cast<std::ptrdiff_t>(done), announced.end()});
        throw;
    }
    return announced.size() == static_cast<std::size_t>(room);
}

// Messages whose claim fails are halved until those that fail alone are found. Counts those that are done with.
void AnnouncedClaims::claim(pqxx::connection& connection, std::span<const Announced> part, std::size_t& done) {
    std::vector<RowKey> keys;
    for (const Announced& one : part) keys.push_back(one.key);
    try {
        const auto claimed_at = std::chrono::steady_clock::now();
        keep_(source_.claim_keys(connection, keys), claimed_at);
        inbox_.acknowledge({part.begin(), part.end()});
        done += part.size();
        return;
    } catch (const Error& problem) {
        // without a SQLSTATE it is about the answer, and the claim is committed
        if (problem.sqlstate().empty() || says_nothing_of_work(problem)) throw;
        if (part.size() == 1) {
            if (!can_claim(connection)) throw;
            log_("rejected a message whose row cannot be claimed, key " + for_log(json_text(keys.front())) + ": " +
                 for_log(problem));
            inbox_.reject(part.front());
            ++done;
            return;
        }
    }
    const std::size_t half = part.size() / 2;
    claim(connection, part.first(half), done);
    claim(connection, part.subspan(half), done);
}

// Claims the next row in place of the message's. False if that is not possible either: missing rights, or a binding
// without a claim event, end the worker and must not cost messages.
bool AnnouncedClaims::can_claim(pqxx::connection& connection) {
    try {
        const auto claimed_at = std::chrono::steady_clock::now();
        keep_(source_.claim(connection, 1), claimed_at);
        return true;
    } catch (const Error& problem) {
        if (says_nothing_of_work(problem)) throw;
        return false;
    }
}

}  // namespace pawl
