// Pure C++; throws core::Error. The grammar of Mermaid state diagrams, a statement at a time.
#include <algorithm>
#include <array>
#include <optional>

#include "builder.hpp"
#include "code_block.hpp"
#include "scanner.hpp"

namespace pawl::core {
namespace {

constexpr std::string_view after_state = "'-->', ':', ':::' or the end of the line";

class Reader {
public:
    explicit Reader(std::string_view text) : scan_(text) {}

    Diagram read();

private:
    void header();
    void front_matter();
    void statement();
    bool keyword(const Name& name);
    void close_composite();
    void region();
    void state_statement();
    void declared_state(const Name& name, std::string_view description, bool described);
    bool kind_mark(const Name& name);
    void transition_or_state(const Name& name);
    void note();
    void acc_descr();
    void class_def();
    void class_statement();
    void direction();
    void hide();
    void scale();
    std::string class_name(std::string_view expected);
    std::vector<std::string> tags();
    void end_of_statement(std::string_view expected);

    Scanner scan_;
    DiagramBuilder build_;
};

Diagram Reader::read() {
    header();
    for (scan_.skip_to_statement(); !scan_.at_end(); scan_.skip_to_statement()) statement();
    if (build_.is_open()) {
        scan_.fail("composite state \"" + build_.innermost() + "\" is not closed: expected '}'",
                   build_.innermost_opened_at());
    }
    return build_.finish();
}

void Reader::header() {
    scan_.accept("\xEF\xBB\xBF");
    while (scan_.at_line_end() && scan_.peek() == '\n') scan_.accept("\n");
    if (scan_.sees("---")) front_matter();
    scan_.skip_to_statement();
    const bool known = scan_.accept_word("stateDiagram-v2") || scan_.accept_word("stateDiagram");
    if (!known) scan_.fail("'stateDiagram-v2'");
}

// Only the title is used; the rest configures Mermaid.
void Reader::front_matter() {
    const Place where = scan_.here();
    scan_.line();
    while (!scan_.at_end()) {
        const std::string_view line = scan_.line();
        const std::string_view trimmed = trim(line);
        if (trimmed == "---") return;
        if (!line.starts_with("title:")) continue;
        std::string_view value = trim(line.substr(6));
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
            std::string plain;
            for (std::size_t i = 1; i + 1 < value.size(); ++i) {
                if (value[i] == '\\' && i + 2 < value.size()) ++i;
                plain += value[i];
            }
            build_.set_title(plain);
        } else if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'') {
            build_.set_title(value.substr(1, value.size() - 2));
        } else {
            build_.set_title(value);
        }
    }
    scan_.fail("the front matter is not closed: expected '---'", where);
}

void Reader::statement() {
    if (scan_.peek() == '}') return close_composite();
    if (scan_.sees("--") && !scan_.sees("-->")) return region();
    const Name name = scan_.name();
    if (name.id.empty()) scan_.fail("a state name or a statement");
    scan_.skip_blanks();
    if (!keyword(name)) transition_or_state(name);
}

// Reads the rest of the statement if it begins with a keyword. A state may have the name of one: `note --> done`.
bool Reader::keyword(const Name& name) {
    if (name.quoted || scan_.sees("-->")) return false;
    const bool colon = scan_.peek() == ':';
    if (colon && !scan_.sees(":::")) {
        if (!same_word(name.id, "accTitle") && !same_word(name.id, "accDescr")) return false;
        scan_.rest_of_line();
        return true;
    }
    if (colon) return false;
    using Read = void (Reader::*)();
    static constexpr std::array<std::pair<std::string_view, Read>, 8> statements{{
        {"state", &Reader::state_statement},
        {"note", &Reader::note},
        {"direction", &Reader::direction},
        {"class", &Reader::class_statement},
        {"classDef", &Reader::class_def},
        {"hide", &Reader::hide},
        {"scale", &Reader::scale},
        {"accDescr", &Reader::acc_descr},
    }};
    for (const auto& [word, read] : statements) {
        if (!same_word(name.id, word)) continue;
        (this->*read)();
        return true;
    }
    if (!same_word(name.id, "style") && !same_word(name.id, "click")) return false;
    if (scan_.rest_of_line().empty()) scan_.fail("a state name");
    return true;
}

void Reader::end_of_statement(std::string_view expected) {
    if (!scan_.at_statement_end()) scan_.fail(expected);
}

void Reader::close_composite() {
    if (!build_.is_open()) scan_.fail("there is no composite state to close: unexpected '}'", scan_.here());
    scan_.accept("}");
    build_.close();
}

void Reader::region() {
    const Place where = scan_.here();
    if (!build_.is_open()) {
        scan_.fail("'--' separates the regions of a composite state and is not allowed outside of one", where,
                   "a transition is written -->");
    }
    scan_.accept("--");
    if (!scan_.at_line_end()) scan_.fail("the end of the line after '--'");
    build_.region(where);
}

std::string Reader::class_name(std::string_view expected) {
    const Name name = scan_.expect_name(expected, true);
    if (name.pseudo()) scan_.fail("'[*]' cannot be a tag", name.where);
    return name.id;
}

// :::a:::b
std::vector<std::string> Reader::tags() {
    std::vector<std::string> result;
    for (scan_.skip_blanks(); scan_.accept(":::"); scan_.skip_blanks()) {
        scan_.skip_blanks();
        result.push_back(class_name("a tag after ':::'"));
    }
    return result;
}

void Reader::transition_or_state(const Name& from) {
    const std::vector<std::string> from_tags = tags();
    const bool transition = scan_.accept("-->");
    if (!transition && scan_.sees("->"))
        scan_.fail("expected " + (from.pseudo() ? "'-->' after '[*]'" : std::string(after_state)) + ", found \"->\"",
                   scan_.here(), "a transition is written -->");
    if (!transition && from.pseudo()) scan_.fail("'-->' after '[*]'");
    const auto put = [this](const Name& name, const std::vector<std::string>& tags) {
        if (name.pseudo()) return;
        const auto state = build_.mention(name);
        for (const std::string& tag : tags) build_.tag(state, tag);
    };
    put(from, from_tags);
    if (!transition) {
        if (scan_.accept(":")) {
            build_.describe(build_.mention(from), scan_.rest_of_line());
        } else if (scan_.peek() == '{') {
            scan_.fail("expected " + std::string(after_state) + ", found \"{\"", scan_.here(),
                       "a composite begins with the word state: state " + from.id + " {");
        } else {
            end_of_statement(after_state);
        }
        return;
    }
    scan_.skip_blanks();
    const Name to = scan_.expect_name("a state name after '-->'");
    put(to, tags());
    std::string_view text;
    if (scan_.accept(":")) {
        text = scan_.rest_of_line();
    } else {
        end_of_statement("':', ':::' or the end of the line");
    }
    build_.transition(from, to, text);
}

// What follows the word `state`.
void Reader::state_statement() {
    if (scan_.peek() != '"') return declared_state(scan_.expect_name("a state name after 'state'"), {}, false);
    const Place where = scan_.here();
    const std::string_view text = scan_.quoted();
    scan_.skip_blanks();
    if (scan_.accept_word("as")) {
        scan_.skip_blanks();
        return declared_state(scan_.expect_name("a state name after 'as'"), text, true);
    }
    const std::size_t end = scan_.position();
    const bool composite = scan_.accept_below("{");
    scan_.back_to(end);
    if (!composite && scan_.at_statement_end()) scan_.fail("'as' and a state name");
    declared_state(scan_.as_name(text, where), {}, false);
}

void Reader::declared_state(const Name& name, std::string_view description, bool described) {
    if (name.pseudo()) scan_.fail("'[*]' cannot be declared as a state", name.where);
    scan_.skip_blanks();
    if (scan_.accept_below("{")) {
        const auto composite = build_.mention(name);
        build_.describe(composite, description);
        return build_.open(composite, name.where);
    }
    if (!described && scan_.at_statement_end()) return build_.mention_weakly(name);
    const auto state = build_.mention(name);
    build_.describe(state, description);
    for (const std::string& tag : tags()) build_.tag(state, tag);
    if (kind_mark(name)) {
        for (const std::string& tag : tags()) build_.tag(state, tag);
    }
    if (scan_.accept(":")) return build_.describe(state, scan_.rest_of_line());
    if (scan_.accept_below("{")) return build_.open(state, name.where);
    end_of_statement(described ? "'{', ':' or the end of the line" : "'{', ':', '<<choice>>' or the end of the line");
}

// <<choice>>, <<fork>>, <<join>>, or the same in [[ ]].
bool Reader::kind_mark(const Name& name) {
    const bool angled = scan_.accept("<<");
    if (!angled && !scan_.accept("[[")) return false;
    const auto state = build_.mention(name);
    if (scan_.accept("choice")) {
        build_.set_kind(state, StateKind::choice, name.where);
    } else if (scan_.accept("fork")) {
        build_.set_kind(state, StateKind::fork, name.where);
    } else if (scan_.accept("join")) {
        build_.set_kind(state, StateKind::join, name.where);
    } else {
        scan_.fail("choice, fork or join");
    }
    scan_.expect(angled ? ">>" : "]]", angled ? "'>>'" : "']]'");
    return true;
}

// A note has no meaning for the machine, but it names a state, which Mermaid then draws.
void Reader::note() {
    const Place where = scan_.here();
    if (scan_.peek() == '"') {
        scan_.quoted();
        scan_.skip_blanks();
        if (!scan_.accept_word("as")) scan_.fail("'as' and a name after the text of a floating note");
        if (scan_.rest_of_line().empty()) scan_.fail("a name after 'as'");
        return;
    }
    if (!scan_.accept_word("left") && !scan_.accept_word("right")) scan_.fail("'left of', 'right of' or a quoted text");
    scan_.skip_blanks();
    if (!scan_.accept_word("of")) scan_.fail("'of'");
    scan_.skip_blanks();
    const Name name = scan_.expect_name("a state name");
    if (!name.pseudo()) build_.mention(name);
    scan_.skip_blanks();
    if (scan_.accept(":")) {
        scan_.rest_of_line();
        return;
    }
    if (!scan_.at_line_end()) scan_.fail("':' or the end of the line");
    scan_.line();
    while (!scan_.at_end()) {
        const std::string_view line = trim(scan_.line());
        if (same_word(line.substr(0, 3), "end") &&
            same_word(trim(line.substr(std::min<std::size_t>(3, line.size()))), "note"))
            return;
    }
    scan_.fail("the note is not closed: expected 'end note' on a line of its own", where);
}

void Reader::acc_descr() {
    scan_.expect("{", "':' or '{'");
    scan_.until('}', "'}'");
}

void Reader::class_def() {
    std::vector<std::string> names;
    do {
        scan_.skip_blanks();
        names.push_back(class_name("a class name"));
        scan_.skip_blanks();
    } while (scan_.accept(","));
    std::string_view style = scan_.rest_of_line();
    while (style.ends_with(';')) style = trim(style.substr(0, style.size() - 1));
    if (style.empty()) scan_.fail("the style of the class, for example fill:#f96");
    for (const std::string& name : names) build_.define_class(name, style);
}

void Reader::class_statement() {
    std::vector<Name> names;
    do {
        scan_.skip_blanks();
        names.push_back(scan_.expect_name("a state name", true));
        scan_.skip_blanks();
    } while (scan_.accept(","));
    std::vector<std::string> classes;
    while (!scan_.at_statement_end()) {
        classes.push_back(class_name("a class name"));
        scan_.skip_blanks();
        scan_.accept(",");
    }
    if (classes.empty()) scan_.fail("a class name");
    for (const Name& name : names) build_.classify(name, classes);
}

void Reader::direction() {
    for (const std::string_view each : {"TB", "TD", "BT", "RL", "LR"}) {
        if (!scan_.accept_word(each)) continue;
        build_.set_direction(std::string_view(each) == "TD" ? "TB" : each);
        return end_of_statement("the end of the line");
    }
    scan_.fail("TB, BT, RL or LR");
}

void Reader::hide() {
    for (const std::string_view word : {"empty", "description"}) {
        if (!scan_.accept_word(word)) scan_.fail("'hide empty description'");
        scan_.skip_blanks();
    }
    end_of_statement("the end of the line");
}

void Reader::scale() {
    const std::string width = scan_.name().id;
    if (width.empty() || width.find_first_not_of("0123456789") != std::string::npos)
        scan_.fail("'scale <number> width'");
    scan_.skip_blanks();
    if (!scan_.accept_word("width")) scan_.fail("'width'");
    end_of_statement("the end of the line");
}

}  // namespace

Diagram read_mermaid(std::string_view text) {
    std::string unix_text;
    if (text.find('\r') != std::string_view::npos) text = unix_text = with_unix_ends(text);
    const std::optional<std::string> inside = inside_code_block(text);
    return Reader(inside ? *inside : text).read();
}

}  // namespace pawl::core
