// May ereport; owns nothing. Counts atoms as done or undone: the nodes next to them wait for less.
#pragma once

#include "guard/intent.hpp"
#include "packs/saga/flows.hpp"
#include "packs/saga/starting.hpp"

namespace pawl::saga {

struct Node {
    Flow* flow;
    int32 number;
};

// Grows in the memory context of its first item.
template <typename Item>
struct List {
    Item* items;
    int n;
    int room;

    void add(const Item& item) {
        if (n == room) {
            room = room == 0 ? 8 : 2 * room;
            const Size size = static_cast<Size>(room) * sizeof(Item);
            items = static_cast<Item*>(items == nullptr ? MemoryContextAllocHuge(CurrentMemoryContext, size)
                                                        : repalloc_huge(items, size));
        }
        items[n++] = item;
    }
};

using Nodes = List<Node>;

// Forward, a node waits for those directly before it; backward, for those directly behind it.
enum class Way { forward, backward };

// Counts the nodes as done (forward) or undone (backward), wave by wave, for any number of flows; the arrays must be in
// the current memory context. Adds nodes that are to be examined to `ready`, and sets `began` of flows. It begins
// nothing but tasks of `starting`, which a worker does (null: none): what else begins can fail, and then its flow is
// counted anew from states that later waves would count twice. `plans`: where the plans of its statements are kept.
// `intent` must be the current one. Must run inside SPI.
void pass(Way way, Nodes passed, const Flows& flows, Binding& plans, Intent& intent, Nodes& ready, Starting* starting);

}  // namespace pawl::saga
