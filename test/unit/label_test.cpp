// The grammar of labels.
#include <gtest/gtest.h>

#include "core/diagram.hpp"

namespace pawl::test {
namespace {

using core::Label;
using core::read_label;
using core::write_label;

struct Case {
    const char* text;
    Label label;
};

class Labels : public ::testing::TestWithParam<Case> {};

TEST_P(Labels, AreRead) {
    const Label read = read_label(GetParam().text);
    const Label& wanted = GetParam().label;
    EXPECT_EQ(read.event, wanted.event);
    EXPECT_EQ(read.params, wanted.params);
    EXPECT_EQ(read.guards, wanted.guards);
    EXPECT_EQ(read.after, wanted.after);
    EXPECT_EQ(read.effects, wanted.effects);
}

TEST_P(Labels, ReadBackWhatTheyPrint) {
    const Label read = read_label(GetParam().text);
    EXPECT_EQ(read_label(write_label(read)), read) << write_label(read);
}

INSTANTIATE_TEST_SUITE_P(
    Grammar, Labels,
    ::testing::Values(Case{"", {}}, Case{"go", {"go", {}, {}, "", {}}}, Case{"  go\t", {"go", {}, {}, "", {}}},
                      Case{"go(a, b)", {"go", {"a", "b"}, {}, "", {}}}, Case{"go()", {"go", {}, {}, "", {}}},
                      Case{"go [x]", {"go", {}, {"x"}, "", {}}}, Case{"go[x,y]", {"go", {}, {"x", "y"}, "", {}}},
                      Case{"[x]", {"", {}, {"x"}, "", {}}}, Case{"go / f", {"go", {}, {}, "", {"f"}}},
                      Case{"go/f", {"go", {}, {}, "", {"f"}}}, Case{"/ f, g(1, 2)", {"", {}, {}, "", {"f", "g(1, 2)"}}},
                      Case{"after 30 minutes / escalate", {"", {}, {}, "30 minutes", {"escalate"}}},
                      Case{"After 1h", {"", {}, {}, "1h", {}}},
                      Case{"go after 1 day 02:30", {"go", {}, {}, "1 day 02:30", {}}},
                      Case{"after PT15M", {"", {}, {}, "PT15M", {}}},
                      Case{"after '2 hours'", {"", {}, {}, "2 hours", {}}},
                      Case{"after(90 s) [idle]", {"", {}, {"idle"}, "90 s", {}}},
                      Case{"after 1.5 hours, 3 secs", {"", {}, {}, "1.5 hours, 3 secs", {}}},
                      Case{"go(a) [x, s.y] after 5 min / f, g", {"go", {"a"}, {"x", "s.y"}, "5 min", {"f", "g"}}},
                      Case{"[f(a, b), g]", {"", {}, {"f(a, b)", "g"}, "", {}}}));

INSTANTIATE_TEST_SUITE_P(
    Seeds, Labels,
    ::testing::Values(
        Case{"Start (worker claims)", {"Start", {"worker claims"}, {}, "", {}}},
        Case{"Complete(results) [direct - legacy]", {"Complete", {"results"}, {"direct - legacy"}, "", {}}},
        Case{"Fail(error) [permanent/max retries]", {"Fail", {"error"}, {"permanent/max retries"}, "", {}}},
        Case{"Signal received / poll succeeded", {"Signal received", {}, {}, "", {"poll succeeded"}}},
        Case{"Async step (signal/polling)", {"Async step", {"signal/polling"}, {}, "", {}}},
        Case{"ResetForRetry (operation retry)", {"ResetForRetry", {"operation retry"}, {}, "", {}}},
        Case{"Retry (after backoff)", {"Retry", {"after backoff"}, {}, "", {}}},
        Case{"All rows validated", {"All rows validated", {}, {}, "", {}}}));

INSTANTIATE_TEST_SUITE_P(
    FreeText, Labels,
    ::testing::Values(Case{"info: key: value", {"info: key: value", {}, {}, "", {}}},
                      Case{"long line<br/>with <br />breaks</b>",
                           {"long line<br/>with <br />breaks</b>", {}, {}, "", {}}},
                      Case{"one<br/>two / f", {"one<br/>two", {}, {}, "", {"f"}}},
                      Case{"see http://example.org", {"see http://example.org", {}, {}, "", {}}},
                      Case{"after 3 failures", {"after 3 failures", {}, {}, "", {}}},
                      Case{"thereafter 5 min", {"thereafter 5 min", {}, {}, "", {}}},
                      Case{"try after backoff", {"try after backoff", {}, {}, "", {}}},
                      Case{"half (open", {"half (open", {}, {}, "", {}}},
                      Case{"wrong ) order (", {"wrong ) order (", {}, {}, "", {}}},
                      Case{"crossed ( [ ) ]", {"crossed ( [ ) ]", {}, {}, "", {}}},
                      Case{"(alone)", {"(alone)", {}, {}, "", {}}}, Case{"go []", {"go []", {}, {}, "", {}}},
                      Case{"go [a,]", {"go [a,]", {}, {}, "", {}}}, Case{"go(a,,b)", {"go(a,,b)", {}, {}, "", {}}},
                      Case{"go /", {"go /", {}, {}, "", {}}}, Case{"go / a,, b", {"go / a,, b", {}, {}, "", {}}},
                      Case{"a (b) c", {"a (b) c", {}, {}, "", {}}}, Case{"a (b) c [d]", {"a (b) c", {}, {"d"}, "", {}}},
                      Case{"x after 5 min ()", {"x after 5 min ()", {}, {}, "", {}}},
                      Case{"50%%", {"50%%", {}, {}, "", {}}}, Case{"go(a,%%b)", {"go(a,%%b)", {}, {}, "", {}}}));

}  // namespace
}  // namespace pawl::test
