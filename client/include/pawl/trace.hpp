// W3C trace context: connects an operation with the request that caused it, across programs and transactions.
#pragma once

#include <string>

#include <pqxx/pqxx>

namespace pawl {

/// The two headers of https://www.w3.org/TR/trace-context. Empty by default: no trace.
struct Trace {
    std::string traceparent;  ///< 00-<trace id>-<span id>-<flags>
    std::string tracestate;

    bool empty() const noexcept { return traceparent.empty(); }

    /// The same trace with a new span, whose parent is this one. Empty if this is empty.
    Trace child() const;
};

/// Assigns the rest of the transaction to the trace: its state changes, and the tasks, flows and bulk operations that
/// begin in it.
/// @throws Error with SQLSTATE 22023 if the trace is malformed
void set_trace(pqxx::transaction_base& transaction, const Trace& trace);

}  // namespace pawl
