// Pure C++; throws only bad_alloc, and nothing once index() is done. Look-ups of a compiled machine.
#include "machine.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace pawl::core {
namespace {

constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15u;

std::uint64_t mix(std::uint64_t value) noexcept {
    value *= multiplier;
    value ^= value >> 32;
    value *= multiplier;
    return value ^ (value >> 29);
}

// Eight bytes a step: state names are short, and this runs once or twice for every row.
std::uint64_t hash(std::string_view text) noexcept {
    std::uint64_t result = text.size();
    const char* at = text.data();
    std::size_t left = text.size();
    for (; left >= 8; left -= 8, at += 8) {
        std::uint64_t word;
        std::memcpy(&word, at, 8);
        result = mix(result ^ word);
    }
    std::uint64_t word = 0;
    if (left > 0) std::memcpy(&word, at, left);
    return mix(result ^ word);
}

std::uint64_t pair_key(StateId from, StateId to) noexcept {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from + 1)) << 32) | static_cast<std::uint32_t>(to);
}

// At most half of the table is used, so that a probe always ends.
std::size_t table_size(std::size_t entries) {
    return std::bit_ceil(entries * 2 + 1);
}

}  // namespace

StateId Machine::add(State state) {
    states_.push_back(std::move(state));
    return static_cast<StateId>(states_.size() - 1);
}

void Machine::add(Transition transition) {
    transitions_.push_back(std::move(transition));
}

void Machine::index() {
    index_names();
    index_transitions();
}

void Machine::index_names() {
    names_.assign(table_size(states_.size()), Slot{});
    for (std::size_t id = 0; id < states_.size(); ++id) {
        const State& state = states_[id];
        if (state.composite || state.kind != StateKind::state || find(state.name) != no_state) continue;
        const std::uint64_t key = hash(state.name);
        std::size_t at = key & (names_.size() - 1);
        while (names_[at].first >= 0) at = (at + 1) & (names_.size() - 1);
        names_[at] = {key, static_cast<std::int32_t>(id), 1};
    }
    events_.assign(table_size(transitions_.size()), Slot{});
    for (std::size_t i = 0; i < transitions_.size(); ++i) {
        if (transitions_[i].event.empty() || knows_event(transitions_[i].event)) continue;
        const std::uint64_t key = hash(transitions_[i].event);
        std::size_t at = key & (events_.size() - 1);
        while (events_[at].first >= 0) at = (at + 1) & (events_.size() - 1);
        events_[at] = {key, static_cast<std::int32_t>(i), 1};
    }
}

void Machine::index_transitions() {
    by_pair_.resize(transitions_.size());
    std::iota(by_pair_.begin(), by_pair_.end(), 0);
    by_from_ = by_pair_;
    const auto from = [this](std::int32_t i) { return transitions_[static_cast<std::size_t>(i)].from; };
    const auto to = [this](std::int32_t i) { return transitions_[static_cast<std::size_t>(i)].to; };
    std::stable_sort(by_from_.begin(), by_from_.end(), [&](auto a, auto b) { return from(a) < from(b); });
    std::stable_sort(by_pair_.begin(), by_pair_.end(),
                     [&](auto a, auto b) { return from(a) != from(b) ? from(a) < from(b) : to(a) < to(b); });

    starts_.assign(states_.size() + 2, 0);
    for (const Transition& transition : transitions_) ++starts_[static_cast<std::size_t>(transition.from + 2)];
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());

    pairs_.assign(table_size(transitions_.size()), Slot{});
    for (std::size_t i = 0; i < by_pair_.size();) {
        std::size_t end = i + 1;
        while (end < by_pair_.size() && from(by_pair_[end]) == from(by_pair_[i]) &&
               to(by_pair_[end]) == to(by_pair_[i]))
            ++end;
        const std::uint64_t key = pair_key(from(by_pair_[i]), to(by_pair_[i]));
        std::size_t at = mix(key) & (pairs_.size() - 1);
        while (pairs_[at].first >= 0) at = (at + 1) & (pairs_.size() - 1);
        pairs_[at] = {key, static_cast<std::int32_t>(i), static_cast<std::int32_t>(end - i)};
        i = end;
    }
}

StateId Machine::find(std::string_view name) const noexcept {
    if (names_.empty()) return no_state;
    const std::uint64_t key = hash(name);
    for (std::size_t at = key & (names_.size() - 1); names_[at].first >= 0; at = (at + 1) & (names_.size() - 1)) {
        if (names_[at].key == key && states_[static_cast<std::size_t>(names_[at].first)].name == name)
            return names_[at].first;
    }
    return no_state;
}

bool Machine::knows_event(std::string_view event) const noexcept {
    if (events_.empty()) return false;
    const std::uint64_t key = hash(event);
    for (std::size_t at = key & (events_.size() - 1); events_[at].first >= 0; at = (at + 1) & (events_.size() - 1)) {
        if (events_[at].key == key && transitions_[static_cast<std::size_t>(events_[at].first)].event == event)
            return true;
    }
    return false;
}

const Machine::Slot* Machine::pair_slot(StateId from, StateId to) const noexcept {
    const std::uint64_t key = pair_key(from, to);
    for (std::size_t at = mix(key) & (pairs_.size() - 1); pairs_[at].first >= 0; at = (at + 1) & (pairs_.size() - 1)) {
        if (pairs_[at].key == key) return &pairs_[at];
    }
    return nullptr;
}

std::span<const std::int32_t> Machine::between(StateId from, StateId to) const noexcept {
    if (pairs_.empty() || !valid(from) || !valid(to) || to == no_state) return {};
    const Slot* slot = pair_slot(from, to);
    if (slot == nullptr) return {};
    return std::span(by_pair_).subspan(static_cast<std::size_t>(slot->first), static_cast<std::size_t>(slot->count));
}

std::span<const std::int32_t> Machine::leaving(StateId from) const noexcept {
    if (starts_.empty() || !valid(from)) return {};
    const auto start = static_cast<std::size_t>(starts_[static_cast<std::size_t>(from + 1)]);
    const auto end = static_cast<std::size_t>(starts_[static_cast<std::size_t>(from + 2)]);
    return std::span(by_from_).subspan(start, end - start);
}

}  // namespace pawl::core
