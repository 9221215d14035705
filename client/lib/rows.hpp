// May throw UnexpectedAnswer, which names the column. The only access to the rows of an answer: missing columns,
// unexpected nulls and values of another type are errors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>
#include <pqxx/pqxx>

namespace pawl::sql {

class Field {
public:
    Field(pqxx::result rows, int row, int column);

    bool is_null() const { return field_.is_null(); }
    std::string name() const { return field_.name(); }
    pqxx::oid type() const { return field_.type(); }

    // The value; throw if it is null. The text is valid as long as the field.
    const char* c_str() const;
    nlohmann::json json() const;

    // T is bool, int, long, std::int64_t, std::uint64_t, double or std::string. Throws if the value is null or of
    // another type.
    template <typename T>
    T as() const;

    // Empty if it is null.
    std::string text_or_empty() const { return is_null() ? std::string() : as<std::string>(); }

private:
    [[noreturn]] void unexpected(const char* what) const;

    pqxx::result rows_;
    pqxx::field field_;
};

class Row {
public:
    Row(pqxx::result rows, int row) : rows_(std::move(rows)), row_(row) {}

    Field operator[](int column) const { return {rows_, row_, column}; }
    Field operator[](const char* column) const;
    Field operator[](const std::string& column) const { return (*this)[column.c_str()]; }
    int size() const { return static_cast<int>(rows_.columns()); }

private:
    pqxx::result rows_;
    int row_;
};

class Rows {
public:
    class Place {
    public:
        Place(const Rows* rows, int row) : rows_(rows), row_(row) {}
        Row operator*() const { return (*rows_)[row_]; }
        Place& operator++() {
            ++row_;
            return *this;
        }
        bool operator==(const Place& other) const { return row_ == other.row_; }

    private:
        const Rows* rows_;
        int row_;
    };

    Rows() = default;
    Rows(pqxx::result rows) : rows_(std::move(rows)) {}  // implicit: from what libpqxx returns

    std::size_t size() const { return static_cast<std::size_t>(rows_.size()); }
    bool empty() const { return rows_.empty(); }
    int columns() const { return static_cast<int>(rows_.columns()); }
    std::string column_name(int column) const { return rows_.column_name(column); }
    Row operator[](std::size_t row) const;
    Place begin() const { return {this, 0}; }
    Place end() const { return {this, static_cast<int>(size())}; }

private:
    pqxx::result rows_;
};

}  // namespace pawl::sql
