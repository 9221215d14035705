// W3C trace context: what an operation belongs to, handed on from whoever asked for it to whoever carries it out.
#pragma once

#include <string>

#include <pqxx/pqxx>

namespace pawl {

struct Trace {
    std::string traceparent;  // 00-<trace id>-<span id>-<flags>; empty: none
    std::string tracestate;

    bool empty() const noexcept { return traceparent.empty(); }

    // The same trace with a new span, whose parent is this one.
    Trace child() const;
};

// Moves of the rest of the transaction, and tasks, flows and bulk operations that begin in it, belong to this trace. SQLSTATE 22023: it is none.
void set_trace(pqxx::transaction_base& transaction, const Trace& trace);

}  // namespace pawl
