// May ereport; owns nothing. The elements of a report as a worker sent them.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::saga {

struct Element {
    JsonbValue sent;
    const char* problem;  // what is wrong with its form; null: nothing
    bool has_flow;
    bool has_node;
    pg_uuid_t flow;
    int32 node;
    int64 token;  // no_token: none was sent
    bool failed;
    NullableDatum said;  // the result or the failure
    int turn;            // how many sound elements for the same task come before it
    bool recorded;
    Datum state;           // of the task, when the report is done; 0: there is no such task
    const char* rejected;  // why it does not count; null: it does
};

inline constexpr int64 no_token = -1;

struct Elements {
    Element* items;  // in the order of the report
    int n;
    Element** by_task;  // those without a problem, by flow, node and place
    int sound;
};

// `results` must be an array.
Elements read_elements(const Jsonb* results);

// Whether the sound ones belong to more than one flow.
bool concern_several_flows(const Elements& elements);

// The sound ones as they were sent, as a JSON array.
Datum sound_elements(const Elements& elements);

}  // namespace pawl::saga
