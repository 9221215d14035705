// May throw (memory). See watch.hpp.
#include "lifecycle/watch.hpp"

#include <algorithm>

#include "lifecycle/change_text.hpp"
#include "lifecycle/lifecycle.hpp"

namespace pawl::cli {
namespace {

const char* name_of(core::Severity severity) {
    return severity == core::Severity::error ? "error" : severity == core::Severity::warning ? "warning" : "info";
}

Colour colour_of(core::Severity severity) {
    return severity == core::Severity::error     ? Colour::red
           : severity == core::Severity::warning ? Colour::yellow
                                                 : Colour::faint;
}

bool has_errors(const std::vector<core::Finding>& findings) {
    return std::any_of(findings.begin(), findings.end(),
                       [](const core::Finding& finding) { return finding.severity == core::Severity::error; });
}

Json json_of(const WatchReport& report) {
    Json findings = Json::array();
    for (const core::Finding& finding : report.findings)
        findings.push_back(Json{{"severity", name_of(finding.severity)},
                                {"code", finding.code},
                                {"line", finding.where.line},
                                {"col", finding.where.column},
                                {"message", finding.message}});
    return {{"file", report.file},
            {"problem", report.problem.empty() ? Json() : Json(report.problem)},
            {"findings", findings}};
}

// The diagram's own findings come with places; what the front matter lacks is found once the diagram is valid.
WatchReport report_of(const std::string& file, const std::string& text) {
    WatchReport report{.file = file, .problem = {}, .findings = core::lint(text), .json = {}};
    if (!has_errors(report.findings)) {
        try {
            const Lifecycle lifecycle = read_lifecycle(file, text);
            report.states = atomic_states(lifecycle.compiled).size();
            report.transitions = lifecycle.compiled.transitions().size();
        } catch (const FileError& problem) {
            report.problem = problem.what();
        }
    }
    report.json = json_of(report);
    return report;
}

}  // namespace

std::string WatchReport::text(bool colours) const {
    const Paint paint{colours};
    std::string result = paint(file, Colour::bold) + '\n';
    for (const core::Finding& finding : findings) {
        const std::string place = finding.where.line == 0 ? ""
                                                          : std::to_string(finding.where.line) + ":" +
                                                                std::to_string(finding.where.column) + " ";
        result +=
            "  " + place + paint(name_of(finding.severity), colour_of(finding.severity)) + " " + finding.message + '\n';
    }
    if (!problem.empty()) return result + paint(problem, Colour::red) + '\n';
    if (has_errors(findings)) return result;
    return result + paint("  good: ", Colour::green) + std::to_string(states) + " states, " +
           std::to_string(transitions) + " transitions\n";
}

std::optional<WatchReport> Watch::look() {
    std::string text;
    WatchReport missing{.file = file_, .problem = {}, .findings = {}, .json = {}};
    try {
        text = text_of_file(file_);
    } catch (const FileError& problem) {
        missing.problem = problem.what();
    }
    const std::string seen = missing.problem.empty() ? "+" + text : "-" + missing.problem;
    if (last_ == seen) return std::nullopt;
    last_ = seen;
    if (missing.problem.empty()) return report_of(file_, text);
    missing.json = json_of(missing);
    return missing;
}

}  // namespace pawl::cli
