// May ereport; owns nothing. The judgement of one row: which arrow it takes, or why it may not.
#pragma once

#include "session/context.hpp"
#include "catalog/member_cache.hpp"
#include "guard/ownership.hpp"
#include "pg/postgres.hpp"

namespace pawl {

inline constexpr int no_arrow = -1;

// One version of a row, in the row type of the member table it lies in.
struct RowVersion {
    HeapTuple tuple;  // null: the row is not there
    TupleDesc descriptor;
    TupleConversionMap* to_root;  // null: it has the root's row type
};

// What guards and effects see. `before` is empty for a new row; the two may lie in different partitions.
struct RowVersions {
    RowVersion before;
    RowVersion after;
};

// Why no arrow could be chosen: a guard, or ownership; neither: there is no such arrow at all.
struct Objection {
    const char* guard;
    Bar bar;

    bool any() const { return guard != nullptr || bar != Bar::none; }
};

// Whether an arrow is one that an event (null: any) means. `timed`: it is the move of a timer, which may have no event.
bool is_meant(const Attachment& attachment, int arrow, const text* event, bool timed);

// The first arrow from -> to, in drawing order, that is meant, that ownership and attempts allow (standing
// null: not asked) and whose guards say yes; else no_arrow, and then the first objection.
int choose_arrow(Attachment& attachment, core::StateId from, core::StateId to, const text* event, bool timed, const RowVersions& row,
                 const Standing* standing, Objection* objection);

// Whether all guards of an arrow say yes; if not, *refused_by is the first that does not.
bool guards_allow(Attachment& attachment, int arrow, const RowVersions& row, const char** refused_by);

// Whether one guard of an arrow says yes.
bool guard_allows(Attachment& attachment, int arrow, int guard, const RowVersions& row);

void run_effects(Attachment& attachment, int arrow, const RowVersions& row);

// The event that moves of this attachment are meant as (null: any), from the intent or the settings.
text* wanted_event(const Attachment& attachment, const Intent* intent, bool* strict);

}  // namespace pawl
