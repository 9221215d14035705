// May throw. See change_text.hpp.
#include "lifecycle/change_text.hpp"

#include "terminal_text.hpp"

namespace pawl::cli {
namespace {

std::string line_of(const core::Change& change) {
    if (change.is_state()) return "state " + change.state + (change.detail.empty() ? "" : "  (" + change.detail + ")");
    std::string text = (change.from.empty() ? "[*]" : change.from) + " --> " + change.to;
    if (!change.event.empty()) text += " : " + change.event;
    return text + (change.detail.empty() ? "" : "  (" + change.detail + ")");
}

}  // namespace

std::string Paint::operator()(const std::string& text, Colour colour) const {
    if (!colours) return text;
    static constexpr const char* codes[] = {"1", "2", "31", "32", "33"};
    return std::string("\033[") + codes[static_cast<int>(colour)] + "m" + text + "\033[0m";
}

std::string changes_text(const std::vector<core::Change>& changes, const Paint& paint, const std::string& indent) {
    std::string text;
    for (const core::Change& change : changes) {
        const auto [mark, colour] = change.kind == core::ChangeKind::added     ? std::pair("+ ", Colour::green)
                                    : change.kind == core::ChangeKind::removed ? std::pair("- ", Colour::red)
                                                                               : std::pair("~ ", Colour::yellow);
        text += indent + paint(mark + one_line(line_of(change)), colour) + '\n';
    }
    return text;
}

Json changes_json(const std::vector<core::Change>& changes) {
    const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
    Json rows = Json::array();
    for (const core::Change& change : changes) {
        Json row = {{"change", name_of(change.kind)}, {"kind", change.is_state() ? "state" : "transition"}};
        row["state"] = or_null(change.state);
        row["from_state"] = or_null(change.from);
        row["event"] = or_null(change.event);
        row["to_state"] = or_null(change.to);
        row["detail"] = or_null(change.detail);
        rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace pawl::cli
