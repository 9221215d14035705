// May throw (out of memory).
#include "exposition.hpp"

#include <charconv>
#include <cmath>

namespace pawl::daemon {
namespace {

std::string escaped(const std::string& text, bool quotes) {
    std::string out;
    for (const char c : text) {
        if (c == '\n')
            out += "\\n";
        else if (c == '\\' || (quotes && c == '"'))
            (out += '\\') += c;
        else
            out += c;
    }
    return out;
}

}  // namespace

std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    char digits[32];
    const auto [end, problem] = std::to_chars(digits, digits + sizeof digits, value);
    return problem == std::errc() ? std::string(digits, end) : "NaN";
}

void Exposition::family(const std::string& name, const std::string& type, const std::string& help) {
    name_ = name;
    text_ += "# HELP " + name + " " + escaped(help, false) + "\n# TYPE " + name + " " + type + "\n";
}

void Exposition::line(const std::string& name, const Labels& labels, const std::string& value) {
    text_ += name;
    for (std::size_t i = 0; i < labels.size(); ++i)
        ((((text_ += i == 0 ? "{" : ",") += labels[i].first) += "=\"") += escaped(labels[i].second, true)) += "\"";
    if (!labels.empty()) text_ += "}";
    ((text_ += " ") += value) += "\n";
}

}  // namespace pawl::daemon
