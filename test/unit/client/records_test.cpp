// Records in streams: CSV, NDJSON, a JSON array, in pieces of any size.
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "records.hpp"
#include "utf8.hpp"

namespace pawl {
namespace {

using Lines = std::vector<std::string>;

// line:text, or line:text!problem; the last is why the stream is broken.
Lines split(const std::string& input, RecordSplitter::Settings settings, const std::vector<std::size_t>& pieces = {}) {
    Lines lines;
    RecordSplitter splitter(settings, [&](const Record& record) {
        lines.push_back(std::to_string(record.line) + ":" + std::string(record.text) +
                        (record.problem.empty() ? "" : "!" + std::string(record.problem)));
    });
    std::size_t at = 0;
    for (const std::size_t size : pieces) {
        splitter.feed(std::string_view(input).substr(at, size));
        at = std::min(at + size, input.size());
    }
    splitter.feed(std::string_view(input).substr(at));
    splitter.finish();
    if (!splitter.broken().empty()) lines.push_back("broken: " + splitter.broken());
    return lines;
}

TEST(Records, Csv) {
    EXPECT_EQ(split("a,b\n1,2\r\n3,4", {}), (Lines{"1:a,b", "2:1,2", "3:3,4"}));
    EXPECT_EQ(split("\xEF\xBB\xBF"
                    "a\n\n\nb\n",
                    {}),
              (Lines{"1:a", "4:b"}));
    EXPECT_EQ(split("\"two\nlines\",\"a \"\"b\"\"\n\"\nx\n", {}), (Lines{"1:\"two\nlines\",\"a \"\"b\"\"\n\"", "4:x"}));
    EXPECT_EQ(split("5\" disk,c\nx\n", {}), (Lines{"1:5\" disk,c", "2:x"}));
    EXPECT_EQ(split("a;'b\n;'\nx\n", {.delimiter = ';', .quote = '\''}), (Lines{"1:a;'b\n;'", "3:x"}));
    EXPECT_EQ(split("", {}), Lines{});
    EXPECT_EQ(split("a", {}), Lines{"1:a"});
}

TEST(Records, LinesThatEndWithCarriageReturnsAloneAreToldNotLost) {
    const std::string told = "broken: line 1 has a carriage return in it: lines end with LF or CR LF";
    EXPECT_EQ(split("a,b\r1,2\r3,4\r", {}), Lines{told});
    EXPECT_EQ(split("a,b\r1,2\r3,4\r", {}, {4, 1}), Lines{told});
    EXPECT_EQ(split("{\"a\": 1}\r{\"a\": 2}", {.format = RecordFormat::ndjson}), Lines{told});
    EXPECT_EQ(split("a\n1\r2\n", {}),
              (Lines{"1:a", "broken: line 2 has a carriage return in it: lines end with LF or CR LF"}));
    EXPECT_EQ(split("\"x\na\rb\n", {}),
              (Lines{"1:\"x!a quote is not closed",
                     "broken: line 2 has a carriage return in it: lines end with LF or CR LF"}));
    EXPECT_EQ(split("a\r\n\"x\ry\"\r\n\r\nb", {}, {2, 3}), (Lines{"1:a", "2:\"x\ry\"", "4:b"}));
}

TEST(Records, AnOpenQuoteCostsOneLine) {
    EXPECT_EQ(split("a\n\"b,c\nd\n\"e\nf\n", {}), (Lines{"1:a", "2:\"b,c\nd\n\"e", "5:f"}));
    EXPECT_EQ(split("a\n\"b,c\nd\ne\n", {}), (Lines{"1:a", "2:\"b,c!a quote is not closed", "3:d", "4:e"}));
    EXPECT_EQ(split("\"b,c\nd\ne\nffffffffffff\n", {.longest = 12}),
              (Lines{"1:\"b,c!a quote is not closed", "2:d", "3:e", "4:ffffffffffff!the row is longer than 12 bytes"}));
}

TEST(Records, WhatIsTooLongIsOneRow) {
    EXPECT_EQ(split("a\n0123456789abcdefghijkl\nb\n", {.format = RecordFormat::ndjson, .longest = 10}),
              (Lines{"1:a", "2:0123456789!the row is longer than 10 bytes", "3:b"}));
}

TEST(Records, WhatIsTooLongIsCutBetweenCharacters) {
    EXPECT_EQ(split("aaaaaa\xC3\xA4\xC3\xA4\xC3\xA4zzz\nb\n", {.longest = 9}),
              (Lines{"1:aaaaaa\xC3\xA4!the row is longer than 9 bytes", "2:b"}));
}

TEST(Records, QuotesAndEscapes) {
    EXPECT_EQ(split("a,\"b\\\"\nc\"\nd\n", {.escape = '\\'}), (Lines{"1:a,\"b\\\"\nc\"", "3:d"}));
    EXPECT_EQ(split("a,\"b\\\\\"\nd\n", {.escape = '\\'}), (Lines{"1:a,\"b\\\\\"", "2:d"}));
    EXPECT_EQ(split("a\\,\"b\"\"\nc\"\nd\n", {.escape = '\\'}), (Lines{"1:a\\,\"b\"\"\nc\"", "3:d"}));
    EXPECT_EQ(split("\"a\nb\"\n", {.quote = '\0'}), (Lines{"1:\"a", "2:b\""}));
}

// Each line opens a quote that none of the others closes; a reader that looked to the limit for each would not end
// today.
TEST(Records, ManyOpenQuotesTakeNoLonger) {
    std::string input;
    for (int i = 0; i < 100'000; ++i) input += "x\",\"\n";
    std::size_t records = 0;
    RecordSplitter splitter({}, [&](const Record&) { ++records; });
    splitter.feed(input);
    splitter.finish();
    EXPECT_EQ(records, 100'000U);
}

TEST(Records, Ndjson) {
    EXPECT_EQ(split("{\"a\": \"x\\\"\"}\n\n{\"b\n", {.format = RecordFormat::ndjson}),
              (Lines{"1:{\"a\": \"x\\\"\"}", "3:{\"b"}));
}

TEST(Records, JsonArray) {
    const RecordSplitter::Settings json{.format = RecordFormat::json};
    EXPECT_EQ(split("[{\"a\": [1, 2]},\n {\"b\": \"],\\\"\"} ]\n", json),
              (Lines{"1:{\"a\": [1, 2]}", "2:{\"b\": \"],\\\"\"}"}));
    EXPECT_EQ(split(" [ ] ", json), Lines{});
    EXPECT_EQ(split("[1,,2]", json), (Lines{"1:1", "1:null!an element of the array is missing", "1:2"}));
    EXPECT_EQ(split("[1", json), (Lines{"broken: the JSON array is not closed"}));
    EXPECT_EQ(split("[1,{\"a\":", json), (Lines{"1:1", "broken: the JSON array is not closed"}));
    EXPECT_EQ(split("{}", json), (Lines{"broken: the input is no JSON array"}));
    EXPECT_EQ(split("", json), (Lines{"broken: the input is no JSON array"}));
    EXPECT_EQ(split("[1] 2", json), (Lines{"1:1", "broken: text follows the JSON array"}));
    EXPECT_EQ(split("[{\"a\": \"],\\\" 0123456789\"}, 2]", {.format = RecordFormat::json, .longest = 8}),
              (Lines{"1:{\"a\": \"]!the row is longer than 8 bytes", "1:2"}));
    EXPECT_EQ(split("[tru, {\"a\" 1}]", json), (Lines{"1:tru", "1:{\"a\" 1}"}));
}

// However the stream is cut into pieces, it has the same records.
TEST(Records, PiecesOfAnySize) {
    std::mt19937 random(7);
    const std::string alphabet = "ab,\"\"\n\r[]{}\\\xC3\xA4";
    for (int round = 0; round < 30'000; ++round) {
        const RecordSplitter::Settings settings{.format = RecordFormat(round % 3),
                                                .escape = round % 5 == 0 ? '\\' : '\0',
                                                .longest = round % 2 == 0 ? std::size_t(6) : std::size_t(1000)};
        std::string input = round % 3 == 2 ? "[" : "";
        for (std::size_t length = random() % 24; length > 0; --length) input += alphabet[random() % alphabet.size()];
        std::vector<std::size_t> pieces;
        for (std::size_t count = random() % 8; count > 0; --count) pieces.push_back(random() % 5);
        ASSERT_EQ(split(input, settings), split(input, settings, pieces)) << input;
        ASSERT_EQ(split(input, settings), split(input, settings, std::vector<std::size_t>(input.size(), 1))) << input;
    }
}

TEST(Utf8, Characters) {
    EXPECT_TRUE(is_utf8("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"));
    for (const std::string bad : {"\xFF", "\xC3", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"})
        EXPECT_FALSE(is_utf8(bad)) << printable(bad);
    EXPECT_FALSE(is_utf8(std::string_view("\0", 1)));
    EXPECT_EQ(printable("a\xFF\xC3\xA4"), "a\\xFF\xC3\xA4");
}

}  // namespace
}  // namespace pawl
