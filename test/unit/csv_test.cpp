// One record of CSV into its fields.
#include <gtest/gtest.h>

#include "core/csv.hpp"

namespace pawl::test {
namespace {

using Fields = std::vector<std::string>;

Fields split(std::string_view record, core::CsvDialect dialect = {}) {
    Fields fields;
    const std::string_view problem = core::split_csv(record, dialect, fields);
    return problem.empty() ? fields : Fields{"problem: " + std::string(problem)};
}

TEST(Csv, Fields) {
    EXPECT_EQ(split("a,b,c"), (Fields{"a", "b", "c"}));
    EXPECT_EQ(split("a,,c,"), (Fields{"a", "", "c", ""}));
    EXPECT_EQ(split(""), (Fields{""}));
    EXPECT_EQ(split("a,b\r"), (Fields{"a", "b"}));
    EXPECT_EQ(split(" a , b "), (Fields{" a ", " b "}));
    EXPECT_EQ(split("a;b", {.delimiter = ';'}), (Fields{"a", "b"}));
}

TEST(Csv, Quotes) {
    EXPECT_EQ(split(R"("a,b",c)"), (Fields{"a,b", "c"}));
    EXPECT_EQ(split(R"("say ""yes""","")"), (Fields{"say \"yes\"", ""}));
    EXPECT_EQ(split("\"two\nlines\",c"), (Fields{"two\nlines", "c"}));
    EXPECT_EQ(split(R"(5" disk,c)"), (Fields{"5\" disk", "c"}));
    EXPECT_EQ(split("'a,b',c", {.quote = '\''}), (Fields{"a,b", "c"}));
}

TEST(Csv, EscapesAndNoQuotes) {
    const core::CsvDialect escape{.escape = '\\'};
    EXPECT_EQ(split(R"("say \"yes\"","a\\",b\c)", escape), (Fields{"say \"yes\"", "a\\", "b\\c"}));
    EXPECT_EQ(split(R"("say ""yes""","\n")", escape), (Fields{"say \"yes\"", "\\n"}));
    EXPECT_EQ(split(R"("open\")", escape), (Fields{"problem: a quote is not closed"}));
    EXPECT_EQ(split(R"("a",b")", {.quote = '\0'}), (Fields{"\"a\"", "b\""}));
}

TEST(Csv, Malformed) {
    EXPECT_EQ(split(R"("open,b)"), (Fields{"problem: a quote is not closed"}));
    EXPECT_EQ(split(R"("open"")"), (Fields{"problem: a quote is not closed"}));
    EXPECT_EQ(split(R"("a"b,c)"), (Fields{"problem: text follows a closing quote"}));
}

// Whatever the fields are: written with quotes and read again they are the same.
TEST(Csv, ReadsWhatWasQuoted) {
    const std::string alphabet = "a,\"\n ;";
    for (unsigned seed = 0; seed < 3000; ++seed) {
        unsigned random = seed * 2654435761u + 1;
        const auto next = [&] { return random = random * 1664525u + 1013904223u, random >> 16; };
        Fields fields(1 + next() % 4);
        std::string record;
        for (std::string& field : fields) {
            for (unsigned n = next() % 5; n > 0; --n) field += alphabet[next() % alphabet.size()];
            record += record.empty() ? "\"" : ",\"";
            for (const char c : field) record += c == '"' ? std::string("\"\"") : std::string(1, c);
            record += '"';
        }
        EXPECT_EQ(split(record), fields) << record;
    }
}

}  // namespace
}  // namespace pawl::test
