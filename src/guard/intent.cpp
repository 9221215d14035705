// Does not throw and does not ereport; owns nothing. See intent.hpp.
#include "guard/intent.hpp"

namespace pawl {

namespace {

Intent* current_intent = nullptr;

}  // namespace

IntentScope::IntentScope(Intent& intent) noexcept : outer_(current_intent) {
    intent.level = executor_level + 1;
    intent.outer = outer_;
    current_intent = &intent;
}

IntentScope::~IntentScope() noexcept {
    current_intent = outer_;
}

Intent* intent_for(Oid root, const char* column) noexcept {
    Intent* intent = current_intent;
    if (intent == nullptr || intent->level != executor_level || intent->root != root ||
        strcmp(intent->column, column) != 0)
        return nullptr;
    return intent;
}

const Intent& innermost_intent() noexcept {
    return *current_intent;
}

bool intent_lists_events() noexcept {
    return current_intent != nullptr && current_intent->events != nullptr;
}

void clear_intents() noexcept {
    current_intent = nullptr;
}

}  // namespace pawl
