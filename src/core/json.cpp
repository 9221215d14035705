// Pure C++; throws core::Error. See json.hpp.
#include "json.hpp"

#include <charconv>
#include <utility>

#include "error.hpp"

namespace pawl::core {

namespace {

constexpr int deepest = 200;

class Reader {
public:
    explicit Reader(std::string_view text) : text(text) {}

    Json read_all() {
        Json value = read(0);
        skip_blanks();
        if (at != text.size()) fail("the end");
        return value;
    }

private:
    [[noreturn]] void fail(const char* expected) const {
        throw Error("invalid JSON: expected " + std::string(expected) + " at character " + std::to_string(at + 1), {});
    }

    char peek() const { return at < text.size() ? text[at] : '\0'; }

    void skip_blanks() {
        while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) ++at;
    }

    bool take(char expected) {
        skip_blanks();
        if (peek() != expected || at >= text.size()) return false;
        ++at;
        return true;
    }

    void need(char expected, const char* name) {
        if (!take(expected)) fail(name);
    }

    Json read(int depth) {
        if (depth > deepest) throw Error("the JSON value is nested too deeply", {});
        skip_blanks();
        const std::size_t start = at;
        Json value;
        switch (peek()) {
            case '{':
                read_object(value, depth);
                break;
            case '[':
                read_array(value, depth);
                break;
            case '"':
                value.kind = Json::Kind::string;
                value.string = read_string();
                break;
            default:
                read_word(value);
        }
        value.raw = text.substr(start, at - start);
        return value;
    }

    void read_object(Json& value, int depth) {
        value.kind = Json::Kind::object;
        ++at;
        if (take('}')) return;
        do {
            skip_blanks();
            if (peek() != '"') fail("a key");
            std::string key = read_string();
            need(':', "a colon");
            value.members.push_back({std::move(key), read(depth + 1)});
        } while (take(','));
        need('}', "a comma or }");
    }

    void read_array(Json& value, int depth) {
        value.kind = Json::Kind::array;
        ++at;
        if (take(']')) return;
        do {
            value.items.push_back(read(depth + 1));
        } while (take(','));
        need(']', "a comma or ]");
    }

    void read_word(Json& value) {
        const std::size_t start = at;
        while (at < text.size() && std::string_view(",:]}[{\" \t\r\n").find(text[at]) == std::string_view::npos) ++at;
        const std::string_view word = text.substr(start, at - start);
        if (word == "null") return;
        if (word == "true" || word == "false") {
            value.kind = Json::Kind::boolean;
            return;
        }
        double number = 0;
        const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (word.empty() || end != word.data() + word.size() || problem == std::errc::invalid_argument) {
            at = start;
            fail("a value");
        }
        value.kind = Json::Kind::number;
    }

    std::string read_string() {
        std::string result;
        for (++at; at < text.size(); ++at) {
            const char c = text[at];
            if (c == '"') {
                ++at;
                return result;
            }
            if (c == '\\')
                read_escape(result);
            else
                result += c;
        }
        fail("a quote");
    }

    void read_escape(std::string& result) {
        ++at;
        switch (peek()) {
            case 'b':
                result += '\b';
                break;
            case 'f':
                result += '\f';
                break;
            case 'n':
                result += '\n';
                break;
            case 'r':
                result += '\r';
                break;
            case 't':
                result += '\t';
                break;
            case 'u':
                append_utf8(result, read_code_point());
                break;
            case '"':
            case '\\':
            case '/':
                result += peek();
                break;
            default:
                fail("an escape");
        }
    }

    // Starts at the u and ends at the last digit.
    unsigned read_unit() {
        unsigned unit = 0;
        if (at + 4 >= text.size()) fail("four digits");
        const char* first = text.data() + at + 1;
        if (std::from_chars(first, first + 4, unit, 16).ptr != first + 4) fail("four digits");
        at += 4;
        return unit;
    }

    unsigned read_code_point() {
        const unsigned unit = read_unit();
        if (unit < 0xD800 || unit > 0xDFFF) return unit;
        if (unit > 0xDBFF || text.substr(at + 1, 2) != "\\u") fail("a pair of surrogates");
        at += 2;
        const unsigned low = read_unit();
        if (low < 0xDC00 || low > 0xDFFF) fail("a pair of surrogates");
        return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }

    static void append_utf8(std::string& out, unsigned code) {
        if (code < 0x80) {
            out += static_cast<char>(code);
            return;
        }
        const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        static constexpr unsigned leads[] = {0, 0xC0, 0xE0, 0xF0};
        out += static_cast<char>(leads[more] | (code >> (6 * more)));
        for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
    }

    std::string_view text;
    std::size_t at = 0;
};

}  // namespace

const Json* Json::find(std::string_view key) const {
    for (const auto& [name, value] : members)
        if (name == key) return &value;
    return nullptr;
}

Json read_json(std::string_view text) {
    return Reader(text).read_all();
}

std::string quote_json(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            (result += '\\') += c;
        else if (static_cast<unsigned char>(c) < 0x20)
            ((result += "\\u00") += digits[c >> 4]) += digits[c & 15];
        else
            result += c;
    }
    return result += '"';
}

}  // namespace pawl::core
