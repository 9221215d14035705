// May throw (out of memory). Text in the exposition format of Prometheus: families one after the other, each with its
// meaning and type once.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pawl::daemon {

using Labels = std::vector<std::pair<std::string, std::string>>;

// The shortest text that reads back as the same number.
std::string number(double value);
inline std::string number(std::uint64_t value) {
    return std::to_string(value);
}
inline std::string number(std::int64_t value) {
    return std::to_string(value);
}
inline std::string number(int value) {
    return std::to_string(value);
}

class Exposition {
public:
    // Begins a family; the next samples belong to it. type: counter, gauge or histogram.
    void family(const std::string& name, const std::string& type, const std::string& help);

    template <typename Value>
    void sample(const Labels& labels, Value value) {
        line(name_, labels, number(value));
    }

    // buckets: counts, not cumulative; the last one has no bound.
    template <typename Bounds, typename Buckets>
    void histogram(const Labels& labels, const Bounds& bounds, const Buckets& buckets, double sum) {
        std::uint64_t below = 0;
        std::size_t i = 0;
        for (const auto count : buckets) {
            below += static_cast<std::uint64_t>(count);
            Labels all = labels;
            all.emplace_back("le", i < std::size(bounds) ? number(static_cast<double>(bounds[i])) : "+Inf");
            line(name_ + "_bucket", all, number(below));
            ++i;
        }
        line(name_ + "_sum", labels, number(sum));
        line(name_ + "_count", labels, number(below));
    }

    const std::string& text() const noexcept { return text_; }

private:
    void line(const std::string& name, const Labels& labels, const std::string& value);

    std::string name_;
    std::string text_;
};

// Pages of several databases as one: each family is there once, and samples name their database.
class MergedFamilies {
public:
    // database: a label for each sample; empty: none.
    void add(const std::string& page, const std::string& database);

    std::string text() const;

private:
    struct Family {
        std::string name, head, samples;
    };
    std::vector<Family> families_;
};

// Durations of duties, from a millisecond to a minute.
struct Histogram {
    static constexpr std::array<double, 10> bounds = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60};
    std::array<std::uint64_t, bounds.size() + 1> buckets{};
    double sum = 0;

    void add(double seconds) noexcept {
        std::size_t i = 0;
        while (i < bounds.size() && seconds > bounds[i]) ++i;
        ++buckets[i];
        sum += seconds;
    }
};

}  // namespace pawl::daemon
