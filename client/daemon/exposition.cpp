// May throw (out of memory).
#include "exposition.hpp"

#include <algorithm>
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

// A sample with one more label, which is the first.
std::string labelled(const std::string& sample, const std::string& label) {
    const std::size_t name = sample.find_first_of("{ ");
    if (label.empty() || name == std::string::npos) return sample;
    if (sample[name] == '{') return sample.substr(0, name + 1) + label + "," + sample.substr(name + 1);
    return sample.substr(0, name) + "{" + label + "}" + sample.substr(name);
}

}  // namespace

void MergedFamilies::add(const std::string& page, const std::string& database) {
    const std::string label = database.empty() ? "" : "database=\"" + escaped(database, true) + "\"";
    Family* family = nullptr;
    bool known = false;
    for (std::size_t begin = 0; begin < page.size();) {
        const std::size_t end = std::min(page.find('\n', begin), page.size());
        const std::string line = page.substr(begin, end - begin);
        begin = end + 1;
        if (line.starts_with("# HELP ")) {
            const std::string name = line.substr(7, line.find(' ', 7) - 7);
            const auto found =
                std::find_if(families_.begin(), families_.end(), [&](const Family& one) { return one.name == name; });
            known = found != families_.end();
            family = known ? &*found : &families_.emplace_back(Family{name, "", ""});
        }
        if (family == nullptr) continue;
        if (!line.starts_with('#'))
            family->samples += labelled(line, label) + "\n";
        else if (!known)
            family->head += line + "\n";
    }
}

std::string MergedFamilies::text() const {
    std::string text;
    for (const Family& family : families_) text += family.head + family.samples;
    return text;
}

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
