// Pure C++; throws only bad_alloc. See concurrency.hpp.
#include "concurrency.hpp"

#include <algorithm>

namespace pawl::core {

std::vector<Error> find_concurrency(const Diagram& diagram, std::size_t limit) {
    std::vector<Error> found;
    const std::string detail = "One column holds one state of a row at a time.";
    const std::string hint = "use a separate column and machine for each part that runs independently";
    for (const Region& region : diagram.regions) {
        if (found.size() == limit) break;
        found.emplace_back("concurrent regions (--) in " + quote(region.in) + " cannot be held by one column", region,
                           detail, hint, "region");
    }
    const std::size_t with_states = found.size() + limit;
    for (const DrawnState& state : diagram.states) {
        if (state.kind != StateKind::fork && state.kind != StateKind::join) continue;
        if (found.size() == with_states) break;
        const std::string what = state.kind == StateKind::fork ? "fork" : "join";
        found.emplace_back(what + " " + quote(state.id) + " cannot be held by one column", state.kind_where, detail,
                           hint, what);
    }
    std::stable_sort(found.begin(), found.end(), [](const Error& a, const Error& b) {
        return a.where.line != b.where.line ? a.where.line < b.where.line : a.where.column < b.where.column;
    });
    if (found.size() > limit) found.erase(found.begin() + static_cast<std::ptrdiff_t>(limit), found.end());
    return found;
}

}  // namespace pawl::core
