// May throw (out of memory). Counts the errors that the database has raised for clients of the API, by SQLSTATE.
// Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

namespace pawl::api {

class Rejections {
public:
    void count(const std::string& sqlstate) {
        if (sqlstate.empty()) return;
        const std::lock_guard lock(mutex_);
        Entry& entry = entries_[sqlstate];
        ++entry.count;
        entry.last = std::chrono::system_clock::now();
    }

    nlohmann::json list() const {
        const std::lock_guard lock(mutex_);
        auto all = nlohmann::json::array();
        for (const auto& [sqlstate, entry] : entries_) {
            const std::time_t seconds = std::chrono::system_clock::to_time_t(entry.last);
            std::tm parts{};
            gmtime_r(&seconds, &parts);
            char text[40];
            const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
            all.push_back({{"sqlstate", sqlstate},
                           {"machine", nullptr},
                           {"count", entry.count},
                           {"last_at", std::string(text, length)}});
        }
        return all;
    }

private:
    struct Entry {
        std::uint64_t count = 0;
        std::chrono::system_clock::time_point last{};
    };

    mutable std::mutex mutex_;
    std::map<std::string, Entry> entries_;
};

}  // namespace pawl::api
