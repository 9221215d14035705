// Pure C++; throws core::Error. The canonical Mermaid text of a diagram: reading it gives the same diagram again.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "diagram.hpp"
#include "scanner.hpp"

namespace pawl::core {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

bool is_plain(std::string_view id) {
    if (id.empty() || id.front() == '"' || id.front() == '#' || id.starts_with("[*]")) return false;
    Scanner scan(id);
    return scan.name(true).id.size() == id.size();
}

std::string quoted(std::string_view id) {
    if (id.find('"') != std::string_view::npos) {
        throw Error("the name " + std::string(id) + " cannot be written in a diagram", {},
                    "A name cannot contain a quote.");
    }
    return '"' + std::string(id) + '"';
}

std::string name(std::string_view id) {
    return is_plain(id) ? std::string(id) : quoted(id);
}

// Quotes a name that would be read as a keyword. Before a transition or a colon most keywords are names.
std::string first_name(std::string_view id, bool before_transition_or_colon) {
    static constexpr std::array<std::string_view, 11> keywords{
        "state", "note", "direction", "class", "classDef", "hide", "scale", "style", "click", "accTitle", "accDescr"};
    for (std::size_t i = 0; i < keywords.size(); ++i) {
        const bool always = i >= keywords.size() - 2;
        if (same_word(id, keywords[i]) && (always || !before_transition_or_colon)) return quoted(id);
    }
    return name(id);
}

// Emits transitions and states in their order. A composite is opened where its first transition is, and a second time
// only if the diagram's order requires it. A state that no transition mentions gets a line of its own.
class Writer {
public:
    explicit Writer(const Diagram& diagram) : diagram_(diagram) {}

    std::string write();

private:
    struct Node {
        std::size_t parent = none;
        std::vector<std::size_t> children;
        std::size_t pending = 0;  // transitions and regions still to be written in it or deeper
        bool mentioned = false;
        bool claimed = false;  // written inside its parent
        bool opened = false;
        bool complete = false;  // all its children are claimed
    };

    void prepare();
    void write_front();
    void write_body();
    void write_regions(std::size_t before_transition);
    void write_transition(const DrawnTransition& transition);
    void write_descriptions();
    void write_classes();

    void line(const std::string& text);
    std::size_t index(const std::string& id) const { return id.empty() || id == "[*]" ? none : ids_.at(id); }
    bool encloses(std::size_t outer, std::size_t inner) const;
    void count_pending(std::size_t block, int change);
    void fix_order(std::vector<std::size_t> sequence);
    std::vector<std::size_t> path_to(std::size_t block) const;
    void go_to(std::size_t block);
    void leave();
    void mention_alone(std::size_t state);
    void mention_all_to(std::size_t last);
    void mark(std::size_t state);
    std::size_t next_unmentioned();

    const Diagram& diagram_;
    std::unordered_map<std::string_view, std::size_t> ids_;
    std::vector<Node> nodes_;
    std::vector<std::size_t> open_;
    std::size_t next_ = 0;
    std::size_t next_region_ = 0;
    std::string out_;
};

std::string Writer::write() {
    prepare();
    write_front();
    write_body();
    write_descriptions();
    write_classes();
    return std::move(out_);
}

void Writer::prepare() {
    nodes_.resize(diagram_.states.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) ids_.emplace(diagram_.states[i].id, i);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        nodes_[i].parent = index(diagram_.states[i].parent);
        if (nodes_[i].parent != none) nodes_[nodes_[i].parent].children.push_back(i);
    }
    for (const DrawnTransition& transition : diagram_.transitions) count_pending(index(transition.in), +1);
    for (const Region& region : diagram_.regions) count_pending(index(region.in), +1);
}

void Writer::line(const std::string& text) {
    out_.append(4 * (open_.size() + 1), ' ');
    out_ += text;
    out_ += '\n';
}

void Writer::write_front() {
    if (!diagram_.title.empty()) {
        const bool plain = std::all_of(diagram_.title.begin(), diagram_.title.end(), [](unsigned char c) {
            return c == ' ' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
        });
        std::string title;
        for (const char c : diagram_.title) {
            if (c == '"' || c == '\\') title += '\\';
            title += c;
        }
        out_ += "---\ntitle: " + (plain && trim(title).size() == title.size() ? title : '"' + title + '"') + "\n---\n";
    }
    out_ += "stateDiagram-v2\n";
    if (!diagram_.direction.empty()) line("direction " + diagram_.direction);
}

void Writer::write_body() {
    for (std::size_t i = 0; i < diagram_.transitions.size(); ++i) {
        write_regions(i);
        write_transition(diagram_.transitions[i]);
    }
    write_regions(diagram_.transitions.size());
    if (!nodes_.empty()) mention_all_to(nodes_.size() - 1);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].parent != none && !nodes_[i].claimed) mention_alone(i);
        if (diagram_.states[i].composite && !nodes_[i].opened) go_to(i);
    }
    go_to(none);
}

void Writer::write_regions(std::size_t before_transition) {
    for (; next_region_ < diagram_.regions.size() &&
           diagram_.regions[next_region_].transitions_before == before_transition;
         ++next_region_) {
        const std::size_t block = index(diagram_.regions[next_region_].in);
        fix_order(path_to(block));
        go_to(block);
        line("--");
        count_pending(block, -1);
    }
}

void Writer::write_transition(const DrawnTransition& transition) {
    const std::size_t block = index(transition.in);
    const std::size_t from = index(transition.from);
    const std::size_t to = index(transition.to);
    std::vector<std::size_t> sequence = path_to(block);
    for (const std::size_t end : {from, to}) {
        if (end != none) sequence.push_back(end);
    }
    fix_order(std::move(sequence));
    for (const std::size_t end : {from, to}) {
        if (end == none || nodes_[end].claimed) continue;
        const bool special = !nodes_[end].mentioned && diagram_.states[end].kind != StateKind::state;
        const bool elsewhere =
            nodes_[end].parent != none && block != none && nodes_[end].parent != block && !encloses(end, block);
        if (!special && !elsewhere) continue;
        std::size_t last = end;
        for (const std::size_t outer : path_to(elsewhere ? nodes_[end].parent : none)) last = std::max(last, outer);
        mention_all_to(last);
        if (elsewhere && !nodes_[end].claimed) mention_alone(end);
    }
    go_to(block);
    const std::string label = write_label(transition.label);
    line((from == none ? "[*]" : first_name(transition.from, true)) + " --> " +
         (to == none ? "[*]" : name(transition.to)) + (label.empty() ? "" : " : " + label));
    for (const std::size_t end : {from, to}) {
        if (end != none) mark(end);
    }
    count_pending(block, -1);
}

bool Writer::encloses(std::size_t outer, std::size_t inner) const {
    for (; inner != none; inner = nodes_[inner].parent) {
        if (inner == outer) return true;
    }
    return false;
}

void Writer::count_pending(std::size_t block, int change) {
    for (; block != none; block = nodes_[block].parent) nodes_[block].pending += static_cast<std::size_t>(change);
}

std::size_t Writer::next_unmentioned() {
    while (next_ < nodes_.size() && nodes_[next_].mentioned) ++next_;
    return next_ < nodes_.size() ? next_ : none;
}

// Names states beforehand, so that mentioning the sequence keeps the order of the diagram's states.
void Writer::fix_order(std::vector<std::size_t> sequence) {
    std::erase_if(sequence, [this](std::size_t state) { return nodes_[state].mentioned; });
    if (sequence.empty()) return;
    std::size_t expected = next_unmentioned();
    std::size_t last = 0;
    bool natural = true;
    std::vector<std::size_t> done;
    for (const std::size_t state : sequence) {
        last = std::max(last, state);
        if (std::find(done.begin(), done.end(), state) != done.end()) continue;
        natural = natural && state == expected;
        done.push_back(state);
        for (++expected; expected < nodes_.size() && nodes_[expected].mentioned;) ++expected;
    }
    if (natural) return;
    if (last > 0) mention_all_to(last - 1);
}

void Writer::mention_all_to(std::size_t last) {
    for (std::size_t next = next_unmentioned(); next <= last; next = next_unmentioned()) mention_alone(next);
}

std::vector<std::size_t> Writer::path_to(std::size_t block) const {
    std::vector<std::size_t> path;
    for (; block != none; block = nodes_[block].parent) path.push_back(block);
    std::reverse(path.begin(), path.end());
    return path;
}

void Writer::mark(std::size_t state) {
    nodes_[state].mentioned = true;
    if (!open_.empty() && open_.back() == nodes_[state].parent) nodes_[state].claimed = true;
}

void Writer::go_to(std::size_t block) {
    const std::vector<std::size_t> path = path_to(block);
    while (open_.size() > path.size() || !std::equal(open_.begin(), open_.end(), path.begin())) leave();
    for (std::size_t depth = open_.size(); depth < path.size(); ++depth) {
        const std::size_t state = path[depth];
        line("state " + name(diagram_.states[state].id) + " {");
        mark(state);
        open_.push_back(state);
        if (!nodes_[state].opened && !diagram_.states[state].direction.empty())
            line("direction " + diagram_.states[state].direction);
        nodes_[state].opened = true;
    }
}

// Closes the innermost composite. Before it closes for the last time, children that no transition has named are named.
void Writer::leave() {
    const std::size_t block = open_.back();
    if (nodes_[block].pending == 0) {
        for (std::size_t next = next_unmentioned(); next != none && nodes_[next].parent == block;
             next = next_unmentioned()) {
            mention_alone(next);
            go_to(block);
        }
        if (!nodes_[block].complete) {
            nodes_[block].complete = true;
            for (const std::size_t child : nodes_[block].children) {
                if (!nodes_[child].mentioned) continue;
                if (!nodes_[child].claimed) mention_alone(child);
                if (diagram_.states[child].composite && !nodes_[child].opened) go_to(child);
                go_to(block);
            }
        }
    }
    open_.pop_back();
    line("}");
}

// Writes a line for the state alone: inside its parent, or at the top if opening the parent would name states too
// early.
void Writer::mention_alone(std::size_t state) {
    const std::vector<std::size_t> path = path_to(nodes_[state].parent);
    const bool reachable =
        std::all_of(path.begin(), path.end(), [this](std::size_t outer) { return nodes_[outer].mentioned; });
    go_to(reachable ? nodes_[state].parent : none);
    const DrawnState& drawn = diagram_.states[state];
    if (drawn.kind != StateKind::state) {
        const std::string kind = drawn.kind == StateKind::choice ? "choice"
                                 : drawn.kind == StateKind::fork ? "fork"
                                                                 : "join";
        line("state " + name(drawn.id) + " <<" + kind + ">>");
    } else if (drawn.composite && reachable && nodes_[state].pending == 0) {
        return go_to(state);
    } else {
        line(first_name(drawn.id, false));
    }
    mark(state);
}

void Writer::write_descriptions() {
    for (const DrawnState& state : diagram_.states) {
        std::string_view rest = state.description;
        while (!rest.empty()) {
            const std::size_t end = std::min(rest.find('\n'), rest.size());
            const std::string text(rest.substr(0, end));
            rest.remove_prefix(std::min(end + 1, rest.size()));
            const bool whole = Scanner(text).rest_of_line() == text;  // false if a comment would cut it
            line(whole ? first_name(state.id, true) + " : " + text : "state \"" + text + "\" as " + name(state.id));
        }
    }
}

// Writes the k-th tags of all states before the (k+1)-th, so that each state keeps the order of its tags.
void Writer::write_classes() {
    for (const auto& [id, style] : diagram_.class_defs) line("classDef " + name(id) + ' ' + style);
    for (std::size_t rank = 0;; ++rank) {
        std::vector<std::string_view> tags;
        std::unordered_map<std::string_view, std::string> states_of;
        for (const DrawnState& state : diagram_.states) {
            if (state.tags.size() <= rank) continue;
            std::string& list = states_of[state.tags[rank]];
            if (list.empty()) {
                tags.push_back(state.tags[rank]);
            } else {
                list += ',';
            }
            list += name(state.id);
        }
        if (tags.empty()) return;
        for (const std::string_view tag : tags) line("class " + states_of[tag] + ' ' + name(tag));
    }
}

}  // namespace

std::string write_mermaid(const Diagram& diagram) {
    return Writer(diagram).write();
}

}  // namespace pawl::core
