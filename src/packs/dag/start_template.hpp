// May ereport; owns nothing. What a template makes of a task that starts: its steps, and which waits for which.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl::dag {

// The columns of a step that a start writes; the others have their defaults.
struct NewStep {
    enum Column {
        task,
        step,
        name,
        queue,
        priority,
        rank,
        handler,
        options,
        map_of,
        map_index,
        level,
        parents,
        unsatisfied,
        optional,
        retryable,
        max_attempts,
        backoff,
        timeout,
        traceparent,
        tracestate,
        columns
    };
    Datum values[columns];
    bool nulls[columns];

    void set(Column column, Datum value, bool null = false) {
        values[column] = value;
        nulls[column] = null;
    }
};

// A step of a template. Its row has the columns that are the same in all tasks; the others are null.
struct TemplateStep {
    NewStep row;
    Datum map_over;  // the path of the array in the context; 0: the step is not mapped
};

// A step waits for another one, by their numbers in the template.
struct Link {
    int parent;
    int child;
};

struct Template {
    TemplateStep* steps;
    int nsteps;
    Link* links;
    int nlinks;
    bool mapped;  // a step is
};

// The elements of the array of a mapped step.
struct MapElements {
    JsonbValue* items;  // null: the step is not mapped
    int n;
};

// What one task gets of its template.
struct TaskForm {
    MapElements* elements;  // by step of the template; null: none is mapped
    pg_uuid_t** ids;        // of the steps that each becomes
    int32* parents;         // how many steps each of these waits for
    const Link* links;      // between steps of the template that become some
    int nlinks;

    int size(int number) const {
        return elements == nullptr || elements[number].items == nullptr ? 1 : elements[number].n;
    }
};

// Reads a template; must run inside SPI, and the result lives as long. queue: of steps that are no SQL functions.
// binding: that of steps, which keeps the plans.
Template read_template(Binding& binding, Datum id, text* queue, int32 priority);

// In the current memory context. context: has an array for each step that is mapped, else XX000.
TaskForm form_task(const Template& of, Datum context);

// The options of an element's handler: those of the step, with the element and its place.
Datum options_of_element(const TemplateStep& step, JsonbValue* item, int place);

}  // namespace pawl::dag
