// May throw (out of memory).
#include "broker_names.hpp"

#include <cstdint>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "json_text.hpp"

namespace pawl {
namespace {

constexpr std::size_t longest_rabbitmq = 255;  // bytes
constexpr std::size_t longest_readable = 26;   // of the 47 characters that PGMQ allows

std::string whole_name(const Channel& channel) {
    return "pawl." + channel.relation + (channel.queue ? "." + *channel.queue : "");
}

// FNV-1a: pawld and workers of any build must make the same name.
std::string hash_of(const Channel& channel) {
    const std::string text = channel.relation + '\0' + (channel.queue ? "q" + *channel.queue : "");
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
    return digits;
}

}  // namespace

std::string rabbitmq_name(const Channel& channel) {
    const std::string name = whole_name(channel);
    return name.size() <= longest_rabbitmq ? name : "pawl." + hash_of(channel);
}

std::string pgmq_name(const Channel& channel) {
    std::string name;
    for (const char c : whole_name(channel)) {
        if (name.size() == longest_readable) break;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        name += plain ? c : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : '_';
    }
    return name + "_" + hash_of(channel);
}

std::string body_of(const Message& message) {
    nlohmann::ordered_json body = {{"relation", message.channel.relation}};
    if (message.channel.queue) body["queue"] = *message.channel.queue;
    body["key"] = message.key;
    return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<RowKey> key_in(const std::string& body, const Channel& channel) {
    if (!excess_in(body).empty()) return std::nullopt;
    const auto json = nlohmann::json::parse(body, nullptr, false);
    if (!json.is_object() || !json.contains("relation") || json["relation"] != channel.relation ||
        !json.contains("key") || !json["key"].is_array() || json["key"].empty())
        return std::nullopt;
    RowKey key;
    for (const auto& part : json["key"]) {
        if (!part.is_string() || part.get_ref<const std::string&>().find('\0') != std::string::npos)
            return std::nullopt;
        key.push_back(part.get<std::string>());
    }
    return key;
}

}  // namespace pawl
