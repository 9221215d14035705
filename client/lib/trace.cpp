// May throw.
#include <pawl/trace.hpp>

#include <random>

#include "sql.hpp"

namespace pawl {

Trace Trace::child() const {
    if (traceparent.size() < 55) return {};
    thread_local std::mt19937_64 random{std::random_device{}() * 0x9E3779B97F4A7C15ULL + std::random_device{}()};
    std::uint64_t id = 0;
    while (id == 0) id = random();
    std::string span;
    for (int shift = 60; shift >= 0; shift -= 4) span += "0123456789abcdef"[(id >> shift) & 15];
    // of later versions only what the first one has is understood
    return {"00" + traceparent.substr(2, 34) + span + traceparent.substr(52, 3), tracestate};
}

void set_trace(pqxx::transaction_base& transaction, const Trace& trace) {
    sql::run(transaction, "SELECT pawl.set_context(traceparent => $1, tracestate => $2)", trace.traceparent,
             trace.tracestate);
}

}  // namespace pawl
