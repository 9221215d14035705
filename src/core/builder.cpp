// Pure C++; throws core::Error. Finds the states of a diagram, their composites and their tags.
#include "builder.hpp"

namespace pawl::core {
namespace {

[[noreturn]] void too_deep(Place where) {
    throw Error("composite states are nested more than " + std::to_string(max_nesting) + " deep", where, {}, {},
                "too_deep");
}

}  // namespace

DiagramBuilder::Index DiagramBuilder::mention(const Name& name) {
    const auto [entry, is_new] = by_id_.try_emplace(name.id, diagram_.states.size());
    if (is_new) {
        DrawnState state;
        state.id = name.id;
        state.where = name.where;
        diagram_.states.push_back(std::move(state));
        parent_.push_back(none);
        warned_.push_back(false);
    }
    if (!open_.empty()) claim(entry->second, name.where);
    return entry->second;
}

// True if `outer` is `inner` or one of the composites around it.
bool DiagramBuilder::encloses(Index outer, Index inner, Place where) const {
    for (int depth = 0; inner != none; inner = parent_[inner]) {
        if (inner == outer) return true;
        if (++depth > max_nesting) too_deep(where);
    }
    return false;
}

void DiagramBuilder::claim(Index state, Place where) {
    const Index block = open_.back().state;
    if (parent_[state] == block || warned_[state]) return;
    if (encloses(state, block, where)) return;
    if (parent_[state] == none) {
        parent_[state] = block;
        diagram_.states[state].parent = diagram_.states[block].id;
        return;
    }
    warned_[state] = true;
    diagram_.warnings.push_back({"two_parents", where,
                                 "state " + quote(diagram_.states[state].id) + " belongs to " +
                                     quote(diagram_.states[state].parent) + " but is named inside " +
                                     quote(diagram_.states[block].id) +
                                     " too; Mermaid draws it where it is named last"});
}

void DiagramBuilder::tag(Index state, std::string_view tag) {
    if (tagged_.insert(std::to_string(state) + ' ' + std::string(tag)).second)
        diagram_.states[state].tags.emplace_back(tag);
}

void DiagramBuilder::describe(Index state, std::string_view text) {
    std::string& description = diagram_.states[state].description;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = trim(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty()) continue;
        if (!description.empty()) description += '\n';
        description += line;
    }
}

void DiagramBuilder::set_kind(Index state, StateKind kind, Place where) {
    DrawnState& drawn = diagram_.states[state];
    if (drawn.composite) {
        throw Error("state " + quote(drawn.id) + " has states inside and cannot be a choice, fork or join", where, {},
                    {}, "syntax_error");
    }
    if (drawn.kind != StateKind::state && drawn.kind != kind) {
        throw Error("state " + quote(drawn.id) + " is declared as two different kinds", where, {}, {}, "syntax_error");
    }
    drawn.kind = kind;
    drawn.kind_where = where;
}

void DiagramBuilder::classify(const Name& state, const std::vector<std::string>& tags) {
    const auto entry = by_id_.find(state.id);
    if (entry == by_id_.end()) {
        unclassified_.emplace_back(state, tags);
        return;
    }
    for (const std::string& each : tags) tag(entry->second, each);
}

void DiagramBuilder::define_class(std::string_view name, std::string_view style) {
    const auto [entry, is_new] = classes_.try_emplace(std::string(name), diagram_.class_defs.size());
    if (is_new) {
        diagram_.class_defs.emplace_back(name, style);
    } else {
        diagram_.class_defs[entry->second].second = style;
    }
}

void DiagramBuilder::set_direction(std::string_view direction) {
    (open_.empty() ? diagram_.direction : diagram_.states[open_.back().state].direction) = direction;
}

void DiagramBuilder::transition(const Name& from, const Name& to, std::string_view text) {
    DrawnTransition transition;
    transition.from = from.id;
    transition.to = to.id;
    transition.text = text;
    transition.label = read_label(text);
    if (!open_.empty()) transition.in = innermost();
    transition.where = from.where;
    diagram_.transitions.push_back(std::move(transition));
}

void DiagramBuilder::region(Place where) {
    Region region;
    region.line = where.line;
    region.column = where.column;
    region.in = innermost();
    region.transitions_before = diagram_.transitions.size();
    diagram_.regions.push_back(std::move(region));
}

void DiagramBuilder::open(Index state, Place where) {
    DrawnState& drawn = diagram_.states[state];
    if (open_.size() >= static_cast<std::size_t>(max_nesting)) too_deep(where);
    if (!open_.empty() && encloses(state, open_.back().state, where)) {
        throw Error("state " + quote(drawn.id) + " cannot be inside itself", where, {}, {}, "syntax_error");
    }
    if (drawn.kind != StateKind::state) {
        throw Error("state " + quote(drawn.id) + " is a choice, fork or join and cannot have states inside", where, {},
                    {}, "syntax_error");
    }
    drawn.composite = true;
    open_.push_back({state, where});
}

// Composites that are opened one after the other may nest deeper than their text does.
void DiagramBuilder::check_depth() const {
    std::vector<int> depth(parent_.size(), 0);  // 0: not known yet
    std::vector<Index> path;
    for (Index state = 0; state < parent_.size(); ++state) {
        for (Index at = state; at != none && depth[at] == 0; at = parent_[at]) path.push_back(at);
        for (; !path.empty(); path.pop_back()) {
            const Index at = path.back();
            depth[at] = parent_[at] == none ? 1 : depth[parent_[at]] + 1;
            if (depth[at] > max_nesting + 1) too_deep(diagram_.states[at].where);
        }
    }
}

Diagram DiagramBuilder::finish() {
    check_depth();
    for (const auto& [name, tags] : unclassified_) {
        const auto entry = by_id_.find(name.id);
        if (entry == by_id_.end()) {
            diagram_.warnings.push_back(
                {"unknown_state", name.where, "class is given to " + quote(name.id) + ", which is no state here"});
            continue;
        }
        for (const std::string& each : tags) tag(entry->second, each);
    }
    for (const Name& name : weak_) {
        if (by_id_.contains(name.id)) continue;
        diagram_.warnings.push_back(
            {"not_a_state", name.where,
             "\"state " + name.id + "\" alone makes no state in Mermaid; write the name without the word state"});
    }
    return std::move(diagram_);
}

}  // namespace pawl::core
