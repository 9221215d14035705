// May throw (out of memory).
#include "merge.hpp"

#include <algorithm>
#include <cctype>

#include <pawl/errors.hpp>

#include "json_text.hpp"

namespace pawl::api {
namespace {

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// base64 for URLs, without padding.
std::string encoded(std::string_view bytes) {
    std::string text;
    unsigned held = 0;
    int bits = 0;
    for (const unsigned char byte : bytes) {
        held = (held << 8) | byte;
        for (bits += 8; bits >= 6; bits -= 6) text += digits[(held >> (bits - 6)) & 63];
    }
    if (bits > 0) text += digits[(held << (6 - bits)) & 63];
    return text;
}

// Malformed JSON is null.
nlohmann::json decoded(std::string_view text) {
    std::string bytes;
    unsigned held = 0;
    int bits = 0;
    for (const char c : text) {
        const std::size_t digit = digits.find(c);
        if (digit == std::string_view::npos) return nullptr;
        held = (held << 6) | static_cast<unsigned>(digit);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes += static_cast<char>((held >> bits) & 255);
        }
    }
    try {
        return parse_json(bytes);
    } catch (const Error&) {
        return nullptr;
    }
}

std::optional<Keys> keys_in(const nlohmann::json& json) {
    if (!json.is_array() || json.empty()) return std::nullopt;
    Keys keys;
    for (const auto& key : json) {
        if (!key.is_string()) return std::nullopt;
        keys.push_back(key.get<std::string>());
    }
    return keys;
}

Keys keys_of_item(const nlohmann::json& item, const Order& order) {
    Keys keys;
    for (const std::string& field : order.fields) keys.push_back(item.at(field).get<std::string>());
    return keys;
}

}  // namespace

std::string cursor_of(const Keys& keys) {
    return encoded(nlohmann::json(keys).dump());
}

std::string cursor_of(const PageEnds& places) {
    auto json = nlohmann::json::object();
    for (const auto& [database, place] : places)
        if (place.ended || !place.keys.empty())
            json[database] = place.ended ? nlohmann::json() : nlohmann::json(place.keys);
    return encoded(json.dump());
}

std::optional<Keys> keys_of(std::string_view cursor) {
    return keys_in(decoded(cursor));
}

std::optional<PageEnds> places_of(std::string_view cursor) {
    const nlohmann::json json = decoded(cursor);
    if (!json.is_object()) return std::nullopt;
    PageEnds places;
    for (const auto& [database, value] : json.items()) {
        const auto keys = keys_in(value);
        if (!keys && !value.is_null()) return std::nullopt;
        places[database] = keys ? PageEnd{.keys = *keys} : PageEnd{.ended = true};
    }
    return places;
}

nlohmann::json merge(std::map<std::string, Page> pages, const Order& order, std::size_t most, PageEnds& places) {
    const auto is_before = [&](const Keys& a, const Keys& b) { return order.descending ? b < a : a < b; };
    struct Head {
        std::string database;
        Page page;
        std::size_t taken = 0;

        bool has_item() const { return taken < page.items.size(); }
        nlohmann::json& item() { return page.items[taken]; }
    };
    std::vector<Head> heads;
    for (auto& [database, page] : pages) heads.push_back({database, std::move(page)});
    auto items = nlohmann::json::array();
    Keys last;
    while (items.size() < most) {
        // of databases that have the same keys, the first by name
        Head* first = nullptr;
        Keys keys;
        for (Head& head : heads) {
            if (!head.has_item() && !head.page.next) continue;
            Keys mine = head.has_item() ? keys_of_item(head.item(), order) : *head.page.next;
            if (first && !is_before(mine, keys)) continue;
            first = &head;
            keys = std::move(mine);
        }
        // where the first is no item but the end of a page, the rows behind it are not known
        if (!first || !first->has_item()) break;
        nlohmann::json& item = first->item();
        item["database"] = first->database;
        items.push_back(std::move(item));
        ++first->taken;
        places[first->database] = {.keys = keys};
        last = std::move(keys);
    }
    // All rows up to the last one were read. So all places go there, and a row that goes to another database meanwhile
    // is not read again.
    for (Head& head : heads) {
        if (!head.has_item())
            places[head.database] = head.page.next ? PageEnd{.keys = *head.page.next} : PageEnd{.ended = true};
        else if (!last.empty() && keys_of_item(head.item(), order) != last)
            places[head.database] = {.keys = last};
    }
    return items;
}

nlohmann::json next_of(const std::vector<std::string>& databases, const PageEnds& places) {
    const auto has_ended = [&](const std::string& database) {
        const auto found = places.find(database);
        return found != places.end() && found->second.ended;
    };
    if (std::all_of(databases.begin(), databases.end(), has_ended)) return nullptr;
    return cursor_of(places);
}

nlohmann::json sum_of(const std::map<std::string, nlohmann::json>& outcomes) {
    nlohmann::json sum = outcomes.begin()->second;
    sum["groups"] = sum["items"] = sum["databases"] = nlohmann::json::array();
    for (const char* count : {"changed", "unchanged", "rejected"}) sum[count] = 0;
    for (const auto& [database, outcome] : outcomes) {
        nlohmann::json part = {{"database", database}};
        for (const char* count : {"changed", "unchanged", "rejected"}) {
            part[count] = outcome.at(count);
            sum[count] = sum[count].get<std::int64_t>() + part[count].get<std::int64_t>();
        }
        sum["databases"].push_back(std::move(part));
        for (const char* list : {"groups", "items"})
            for (nlohmann::json one : outcome.at(list)) {
                one["database"] = database;
                sum[list].push_back(std::move(one));
            }
        sum["at"] = std::min(sum["at"].get<std::string>(), outcome.at("at").get<std::string>());
    }
    return sum;
}

std::optional<std::string> uuid_of(std::string_view text) {
    std::string id;
    if (text.size() > 1 && text.front() == '{' && text.back() == '}') text = text.substr(1, text.size() - 2);
    for (const char c : text) {
        if (c == '-') continue;
        if (!std::isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
        if (id.size() == 8 || id.size() == 13 || id.size() == 18 || id.size() == 23) id += '-';
        id += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    if (id.size() != 36) return std::nullopt;
    return id;
}

}  // namespace pawl::api
