// A task begins if, and only if, the order it belongs to is committed: both are written in one transaction. And errors
// have types.
#include <cstdio>

#include <pawl/pawl.hpp>

int main() try {
    const auto connection = pawl::connect({.application_name = "pawl orders"});
    {
        pqxx::work setup(*connection);
        setup.exec("create table if not exists orders (number int primary key, task uuid)");
        pawl::define_template(setup, {{"name", "ship_order"},
                                      {"identity_strategy", "caller_provided"},
                                      {"steps", {{{"name", "pack"}}, {{"name", "send"}, {"dependencies", {"pack"}}}}}});
        setup.commit();
    }
    {
        pqxx::work order(*connection);
        const std::string task =
            pawl::start_task(order, {.name = "ship_order", .context = {{"order", 1}}, .identity_key = "order 1"});
        order.exec("insert into orders values (1, " + order.quote(task) + ")");
        order.commit();
        std::printf("order 1 is task %s\n", task.c_str());
    }
    {
        pqxx::work undone(*connection);  // never committed: neither the order nor its task exist
        pawl::start_task(undone, {.name = "ship_order", .context = {{"order", 2}}, .identity_key = "order 2"});
    }
    try {
        pqxx::work again(*connection);
        pawl::start_task(again, {.name = "ship_order", .context = {{"order", 1}}, .identity_key = "order 1"});
    } catch (const pawl::Error& error) {
        std::printf("a second task for order 1: %s\n", error.sqlstate().c_str());  // 23505
    }
    try {
        pqxx::work wrong(*connection);
        pawl::start_task(wrong, {.name = "sip_order"});
    } catch (const pawl::error::unknown_object&) {
        std::printf("no template sip_order\n");
    }
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "orders: %s\n", error.what());
    return 1;
}
