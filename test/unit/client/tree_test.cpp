#include "tree.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace {

using pawl::cli::draw_tree;

TEST(Tree, ADiamond) {
    EXPECT_EQ(draw_tree({{"a", "complete", {}, ""},
                         {"b", "complete", {"a"}, ""},
                         {"c", "in_progress", {"a"}, "attempt 2 of 3"},
                         {"d", "pending", {"b", "c"}, ""}},
                        false),
              "✓ a  complete\n"
              "├─ ✓ b  complete\n"
              "│  └─ · d  pending  (also after c)\n"
              "└─ ▶ c  in_progress  attempt 2 of 3\n");
}

TEST(Tree, AStepHangsBelowItsDeepestParent) {
    EXPECT_EQ(
        draw_tree({{"d", "pending", {"a", "c"}, ""}, {"c", "error", {"a"}, ""}, {"a", "complete", {}, ""}}, false),
        "✓ a  complete\n"
        "└─ ✗ c  error\n"
        "   └─ · d  pending  (also after a)\n");
}

TEST(Tree, EveryStepIsDrawnOnceAlsoOnACycle) {
    const std::string picture =
        draw_tree({{"a", "pending", {"b"}, ""}, {"b", "pending", {"a"}, ""}, {"c", "pending", {"nobody"}, ""}}, false);
    EXPECT_EQ(std::count(picture.begin(), picture.end(), '\n'), 3) << picture;
}

TEST(Tree, ColoursOnlyWhenAsked) {
    EXPECT_EQ(draw_tree({{"a", "error", {}, ""}}, false).find('\033'), std::string::npos);
    EXPECT_EQ(draw_tree({{"a", "error", {}, ""}}, true), "\033[31m✗ a\033[0m  error\n");
    EXPECT_EQ(draw_tree({}, true), "");
}

}  // namespace
