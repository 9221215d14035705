// A libFuzzer target: whatever the bytes are, files fall into the same records however they come in pieces, and records
// into fields.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/csv.hpp"
#include "records.hpp"
#include "utf8.hpp"

namespace {

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

struct Found {
    std::string text, problem;
    std::int64_t line;
    bool operator==(const Found&) const = default;
};

struct Split {
    std::vector<Found> records;
    std::string broken;
    bool operator==(const Split&) const = default;
};

Split split(std::string_view input, const pawl::RecordSplitter::Settings& settings, std::size_t piece) {
    Split result;
    pawl::RecordSplitter splitter(settings, [&](const pawl::Record& record) {
        result.records.push_back({std::string(record.text), std::string(record.problem), record.line});
    });
    for (std::size_t at = 0; at < input.size(); at += piece) splitter.feed(input.substr(at, piece));
    splitter.finish();
    result.broken = splitter.broken();
    return result;
}

// Records lie in the file one after the other, each where its line number says.
void check_places(std::string_view input, const Split& result) {
    std::size_t at = 0;
    std::int64_t line = 1;
    for (const Found& record : result.records) {
        for (; line < record.line; ++line) at = std::max(at, input.find('\n', at) + 1);
        const std::size_t found = input.find(record.text, at);
        require(found != std::string_view::npos, "the text of each record is a part of the file, after the one before");
        require(input.substr(at, found - at).find('\n') == std::string_view::npos,
                "each record begins in the line that it names");
        line += std::count(record.text.begin(), record.text.end(), '\n');
        at = found + record.text.size();
    }
}

void check_fields(const Split& result, const pawl::RecordSplitter::Settings& settings) {
    const pawl::core::CsvDialect dialect{settings.delimiter, settings.quote, settings.escape};
    for (const Found& record : result.records) {
        std::vector<std::string> fields, again;
        const std::string_view problem = pawl::core::split_csv(record.text, dialect, fields);
        if (record.problem.empty())
            require(problem != "a quote is not closed", "what was split at the ends of rows has its quotes closed");
        if (!problem.empty() || settings.quote == '\0') continue;
        std::string quoted;
        for (const std::string& field : fields) {
            if (!quoted.empty()) quoted += settings.delimiter;
            quoted += settings.quote;
            for (const char c : field) {
                if (c == settings.quote || (c == settings.escape && c != '\0'))
                    quoted += settings.escape == '\0' ? settings.quote : settings.escape;
                quoted += c;
            }
            quoted += settings.quote;
        }
        require(pawl::core::split_csv(quoted, dialect, again).empty() && again == fields,
                "fields that are written with quotes are read again");
    }
}

// Another reader of JSON, which ends at a NUL, sees the same elements.
void check_array(std::string_view input, const Split& result) {
    if (input.find('\0') != std::string_view::npos) return;
    const auto known = nlohmann::json::parse(input, nullptr, false);
    if (!known.is_array()) return;
    require(result.broken.empty(), "a JSON array is read to its end");
    require(result.records.size() == known.size(), "every element is one of the records");
    for (std::size_t i = 0; i < known.size(); ++i)
        if (result.records[i].problem.empty())
            require(nlohmann::json::parse(result.records[i].text) == known[i], "each text is the one of its element");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::uint8_t how = data[0];
    const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
    pawl::RecordSplitter::Settings settings;
    settings.format = pawl::RecordFormat(how % 3);
    if (how & 4) settings.delimiter = ';';
    if (how & 8) settings.quote = how & 16 ? '\0' : '\'';
    if (how & 32) settings.escape = '\\';
    settings.longest = how & 64 ? 16 : 1 << 20;
    const Split whole = split(input, settings, input.size() + 1);
    require(whole == split(input, settings, 1 + data[1] % 16), "pieces make no difference");
    for (const Found& record : whole.records) {
        require(!record.text.empty() && record.text.size() <= settings.longest + 4,
                "records are not longer than the limit");
        require(pawl::is_utf8(pawl::printable(record.text)), "every record can be shown");
    }
    if (settings.format != pawl::RecordFormat::json) check_places(input, whole);
    if (settings.format == pawl::RecordFormat::csv) check_fields(whole, settings);
    if (settings.format == pawl::RecordFormat::json && input.substr(0, 3) != "\xEF\xBB\xBF") check_array(input, whole);
    return 0;
}
