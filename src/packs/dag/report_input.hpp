// May ereport; owns nothing. What workers report.
#pragma once

#include "pg/json.hpp"

namespace pawl::dag {

// An element of a report, with the columns of pawl_dag._reported.
struct Element {
    enum Column { n, task, step, token, failed, result, error, permanent, wait, problem, columns };
    Datum values[columns];
    bool nulls[columns];

    void set(Column column, Datum value) {
        values[column] = value;
        nulls[column] = false;
    }
};

struct Elements {
    Element* items;
    int n;
};

// Reads an array. What is invalid in an element raises no error, but is its problem.
Elements read_elements(JsonbContainer* results);

// Those without a problem, by their steps; of two for one claim of a step the first.
Element** sound_elements(const Elements& elements, int* n);

// Whether two elements have the same task, or step.
bool same_id(const Element& one, const Element& other, Element::Column column);

}  // namespace pawl::dag
