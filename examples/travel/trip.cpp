// The trip of the demo as the builder writes it: nested flows, two retry controllers, tasks in C++ and in SQL.
//
//     trip            prints the structure: trip | pawl saga define -
#include <iostream>

#include <pawl/pawl.hpp>

int main() {
    namespace saga = pawl::saga;
    const nlohmann::json soon = {{"strategy", "exponential"}, {"base", "150 ms"}, {"cap", "1 s"}};
    const auto booking = [](const std::string& what, const std::string& service) {
        return saga::task(what)
            .needs("trip", "service")
            .inject("service", service)
            .provides(what + "_code")
            .execute("book")
            .queue("travel");
    };
    const saga::Flow trip =
        saga::linear(
            "trip",
            saga::linear("way", booking("flight", "flight").priority(10))
                .retry(saga::times("another seat", 3).backoff(soon).or_revert_all()),
            saga::unordered("stay", booking("hotel", "hotel"), booking("car", "car").timeout(std::chrono::seconds(30)))
                .retry(
                    saga::times("another room", 3).backoff(soon).on("SOLD0", saga::Answer::revert_all).or_revert_all()),
            saga::task("ticket")
                .needs("trip", "flight_code", "hotel_code", "car_code")
                .execute("sql:public.print_ticket"))
            .description("a flight there, then a room and a car at once, then the ticket");
    std::cout << trip.json().dump(2) << '\n';
}
