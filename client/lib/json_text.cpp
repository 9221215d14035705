// May throw Error.
#include "json_text.hpp"

#include <cmath>
#include <vector>

#include <pawl/errors.hpp>

#include "utf8.hpp"

namespace pawl {
namespace {

std::string too_deep() {
    return "JSON is nested deeper than " + std::to_string(deepest_json);
}
std::string too_long() {
    return "JSON is longer than " + std::to_string(longest_json >> 20) + " MiB";
}

template <typename Json>
Json parsed(std::string_view text) {
    if (const std::string excess = excess_in(text); !excess.empty()) throw UnexpectedAnswer("", excess);
    Json value = Json::parse(text, nullptr, false);
    if (value.is_discarded()) throw UnexpectedAnswer("", "a value is no JSON");
    return value;
}

}  // namespace

std::string excess_in(std::string_view text) {
    if (text.size() > longest_json) return too_long();
    std::size_t depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > deepest_json) return too_deep();
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return {};
}

namespace {

struct Place {
    const nlohmann::json* value;
    std::size_t depth;
};

// Visits a value and what is in it, within the limits. check: what is wrong with one value, or empty.
template <typename Check>
std::string visited(const nlohmann::json& value, const Check& check) {
    std::vector<Place> ahead{{&value, 0}};
    std::size_t bytes = 0;
    while (!ahead.empty()) {
        const Place here = ahead.back();
        ahead.pop_back();
        if (std::string problem = check(*here.value); !problem.empty()) return problem;
        bytes += 2 + (here.value->is_string() ? here.value->get_ref<const std::string&>().size() : 0);
        if (here.value->is_structured()) {
            if (here.depth >= deepest_json) return too_deep();
            for (auto one = here.value->begin(); one != here.value->end(); ++one) {
                if (here.value->is_object()) bytes += one.key().size();
                ahead.push_back({&*one, here.depth + 1});
            }
        }
        if (bytes > longest_json) return too_long();
    }
    return {};
}

std::string not_storable(const nlohmann::json& value) {
    const auto is_text = [](const std::string& text) { return is_utf8(text); };
    if (value.is_discarded()) return "it is no JSON";
    if (value.is_binary()) return "it has bytes";
    if (value.is_number_float() && !std::isfinite(value.get<double>()))
        return "it has a number that is NaN or infinite";
    bool is_good = !value.is_string() || is_text(value.get_ref<const std::string&>());
    if (value.is_object())
        for (auto one = value.begin(); one != value.end(); ++one) is_good = is_good && is_text(one.key());
    return is_good ? "" : "it has a NUL, or bytes that are not UTF-8, which PostgreSQL cannot store";
}

}  // namespace

std::string excess_of(const nlohmann::json& value) {
    return visited(value, [](const nlohmann::json&) { return std::string(); });
}

std::string problem_of(const nlohmann::json& value) {
    return visited(value, not_storable);
}

nlohmann::json parse_json(std::string_view text) {
    return parsed<nlohmann::json>(text);
}
nlohmann::ordered_json parse_ordered_json(std::string_view text) {
    return parsed<nlohmann::ordered_json>(text);
}

std::string json_text(const nlohmann::json& value) {
    if (const std::string excess = excess_of(value); !excess.empty()) throw Error("54000", excess);
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace pawl
