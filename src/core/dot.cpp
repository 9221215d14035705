// Pure C++; throws only bad_alloc. A diagram for Graphviz: composites as clusters, tags as colours.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "diagram.hpp"
#include "scanner.hpp"

namespace pawl::core {
namespace {

constexpr std::size_t no_index = static_cast<std::size_t>(-1);

std::string dot_string(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (c == '\n') {
            result += "\\n";
        } else {
            result += c;
        }
    }
    return result + '"';
}

struct Colours {
    std::string fill = "#f7f8fa";
    std::string line = "#57606a";
    std::string text = "#1f2328";
};

// Expands #abc to #aabbcc, which Graphviz needs. Returns nothing for what is neither a hash colour nor a plain name.
std::optional<std::string> colour(std::string_view css) {
    if (css.empty()) return std::nullopt;
    const std::string_view digits = css.front() == '#' ? css.substr(1) : css;
    const bool hash = css.front() == '#';
    const bool valid = !digits.empty() && std::all_of(digits.begin(), digits.end(), [hash](char c) {
        const char small = static_cast<char>(c | 0x20);
        return hash ? (c >= '0' && c <= '9') || (small >= 'a' && small <= 'f') : small >= 'a' && small <= 'z';
    });
    if (!valid) return std::nullopt;
    if (!hash) return std::string(css);
    if (digits.size() == 6) return std::string(css);
    if (digits.size() != 3) return std::nullopt;
    std::string result = "#";
    for (const char c : digits) result.append(2, c);
    return result;
}

// Colours of the kernel's own tags, which a classDef of the diagram overrides.
Colours kernel_colours(std::string_view tag) {
    if (tag == "owned") return {"#ddf4ff", "#0969da", "#0a3069"};
    if (tag == "waiting") return {"#fff8c5", "#9a6700", "#4d2d00"};
    if (tag == "error") return {"#ffebe9", "#cf222e", "#660018"};
    return {};
}

void paint(Colours& colours, std::string_view style) {
    while (!style.empty()) {
        const std::size_t end = std::min(style.find(','), style.size());
        const std::string_view part = style.substr(0, end);
        style.remove_prefix(std::min(end + 1, style.size()));
        const std::size_t colon = part.find(':');
        if (colon == std::string_view::npos) continue;
        const auto value = colour(trim(part.substr(colon + 1)));
        if (!value) continue;
        const std::string_view key = trim(part.substr(0, colon));
        if (key == "fill") colours.fill = *value;
        if (key == "stroke") colours.line = *value;
        if (key == "color") colours.text = *value;
    }
}

class DotWriter {
public:
    explicit DotWriter(const Diagram& diagram) : diagram_(diagram) {}

    std::string write(std::string_view name);

private:
    struct Node {
        std::vector<std::size_t> children;
        bool terminal = false;
        bool cluster = false;  // composite with something in it
    };

    void prepare();
    void line(const std::string& text) { out_ += std::string(2 * depth_, ' ') + text + '\n'; }
    void write_state(std::size_t state);
    void write_cluster(std::size_t state);
    void write_entry(const std::string& in);
    void write_transition(const DrawnTransition& transition);
    Colours colours_of(const DrawnState& state);
    std::size_t anchor(std::size_t state) const;
    bool inside(std::size_t state, std::size_t composite) const;

    const Diagram& diagram_;
    std::unordered_map<std::string_view, std::size_t> ids_;
    std::vector<Node> nodes_;
    std::unordered_set<std::string> entered_;                        // blocks with a [*] --> in them
    std::unordered_map<std::string_view, std::string_view> styles_;  // of the diagram's classDefs
    std::unordered_map<std::string, Colours> colours_;               // of tags
    std::size_t depth_ = 1;
    std::string out_;
};

void DotWriter::prepare() {
    for (const auto& [name, style] : diagram_.class_defs) styles_[name] = style;
    nodes_.resize(diagram_.states.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) ids_.emplace(diagram_.states[i].id, i);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (diagram_.states[i].parent.empty()) continue;
        Node& parent = nodes_[ids_.at(diagram_.states[i].parent)];
        parent.children.push_back(i);
        parent.cluster = true;
    }
    for (const DrawnTransition& transition : diagram_.transitions) {
        if (transition.from == "[*]") {
            entered_.insert(transition.in);
        } else if (transition.to == "[*]") {
            nodes_[ids_.at(transition.from)].terminal = true;
        }
    }
}

std::string DotWriter::write(std::string_view name) {
    prepare();
    const std::string& direction = diagram_.direction;
    out_ = "digraph " + dot_string(name) + " {\n";
    line("graph [rankdir=" + (direction.empty() ? "TB" : direction) +
         ", compound=true, fontname=\"Helvetica\", nodesep=0.45, ranksep=0.55" +
         (diagram_.title.empty() ? "" : ", labelloc=t, label=" + dot_string(diagram_.title)) + "]");
    line("node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11, margin=\"0.16,0.08\"]");
    line("edge [fontname=\"Helvetica\", fontsize=9, color=\"#57606a\", fontcolor=\"#424a53\", arrowsize=0.7]");
    write_entry("");
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (diagram_.states[i].parent.empty()) write_state(i);
    }
    for (const DrawnTransition& transition : diagram_.transitions) write_transition(transition);
    out_ += "}\n";
    return std::move(out_);
}

void DotWriter::write_entry(const std::string& in) {
    if (!entered_.contains(in)) return;
    line(dot_string("[*] in " + in) +
         " [shape=circle, label=\"\", width=0.16, style=filled, fillcolor=\"#1f2328\", color=\"#1f2328\"]");
}

Colours DotWriter::colours_of(const DrawnState& state) {
    Colours colours;
    for (const std::string& tag : state.tags) {
        const auto [known, is_new] = colours_.try_emplace(tag, kernel_colours(tag));
        if (const auto style = styles_.find(tag); is_new && style != styles_.end()) paint(known->second, style->second);
        const Colours plain;
        if (known->second.fill != plain.fill) colours.fill = known->second.fill;
        if (known->second.line != plain.line) colours.line = known->second.line;
        if (known->second.text != plain.text) colours.text = known->second.text;
    }
    return colours;
}

void DotWriter::write_state(std::size_t state) {
    if (nodes_[state].cluster) return write_cluster(state);
    const DrawnState& drawn = diagram_.states[state];
    const std::string id = dot_string(drawn.id);
    if (drawn.kind == StateKind::choice)
        return line(id + " [shape=diamond, label=\"\", width=0.3, height=0.3, fillcolor=white]");
    if (drawn.kind != StateKind::state) {
        return line(id + " [shape=box, style=filled, label=\"\", width=0.9, height=0.07, fillcolor=\"#1f2328\"]");
    }
    const Colours colours = colours_of(drawn);
    std::string label = drawn.id;
    if (!drawn.tags.empty()) {
        std::string tags;
        for (const std::string& tag : drawn.tags) tags += (tags.empty() ? "" : ", ") + tag;
        label = "<<" + tags + ">>\n" + label;
    }
    line(id + " [label=" + dot_string(label) + ", fillcolor=" + dot_string(colours.fill) +
         ", color=" + dot_string(colours.line) + ", fontcolor=" + dot_string(colours.text) +
         (nodes_[state].terminal ? ", peripheries=2" : "") +
         (drawn.description.empty() ? "" : ", tooltip=" + dot_string(drawn.description)) + "]");
}

void DotWriter::write_cluster(std::size_t state) {
    const DrawnState& drawn = diagram_.states[state];
    const Colours colours = colours_of(drawn);
    line("subgraph " + dot_string("cluster_" + drawn.id) + " {");
    ++depth_;
    line("label=" + dot_string(drawn.id) + "; style=rounded; fontsize=11; color=" + dot_string(colours.line) +
         "; fontcolor=" + dot_string(colours.text) + (nodes_[state].terminal ? "; peripheries=2" : "") +
         (drawn.description.empty() ? "" : "; tooltip=" + dot_string(drawn.description)));
    write_entry(drawn.id);
    for (const std::size_t child : nodes_[state].children) write_state(child);
    --depth_;
    line("}");
}

// Graphviz connects nodes only, so a transition of a cluster is drawn from or to a node inside it.
std::size_t DotWriter::anchor(std::size_t state) const {
    while (nodes_[state].cluster) state = nodes_[state].children.front();
    return state;
}

// True if the state is the composite or inside it. Graphviz cannot clip a line at a cluster that contains both its
// ends.
bool DotWriter::inside(std::size_t state, std::size_t composite) const {
    while (state != no_index && state != composite) {
        const std::string& parent = diagram_.states[state].parent;
        state = parent.empty() ? no_index : ids_.at(parent);
    }
    return state != no_index;
}

void DotWriter::write_transition(const DrawnTransition& transition) {
    const std::size_t from = transition.from == "[*]" ? no_index : ids_.at(transition.from);
    const std::size_t to = transition.to == "[*]" ? no_index : ids_.at(transition.to);
    std::string attributes;
    const auto add = [&attributes](const std::string& text) { attributes += (attributes.empty() ? "" : ", ") + text; };
    if (to == no_index) {
        if (from == no_index || diagram_.states[from].kind == StateKind::state)
            return;  // shown by the state's double border
        line(dot_string("[*] after " + transition.from) +
             " [shape=doublecircle, label=\"\", width=0.12, style=filled, fillcolor=\"#1f2328\"]");
    }
    if (from != no_index && nodes_[from].cluster && !inside(to, from))
        add("ltail=" + dot_string("cluster_" + transition.from));
    if (to != no_index && nodes_[to].cluster && !inside(from, to))
        add("lhead=" + dot_string("cluster_" + transition.to));
    const std::string label = write_label(transition.label);
    if (!label.empty()) add("label=" + dot_string(' ' + label + ' '));
    if (!transition.label.after.empty()) add("style=dashed");
    line((from == no_index ? dot_string("[*] in " + transition.in) : dot_string(diagram_.states[anchor(from)].id)) +
         " -> " +
         (to == no_index ? dot_string("[*] after " + transition.from) : dot_string(diagram_.states[anchor(to)].id)) +
         (attributes.empty() ? "" : " [" + attributes + "]"));
}

}  // namespace

std::string write_dot(const Diagram& diagram, std::string_view name) {
    return DotWriter(diagram).write(name);
}

}  // namespace pawl::core
