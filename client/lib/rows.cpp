// May throw Error.
#include "rows.hpp"

#include <string_view>

#include <pawl/errors.hpp>

#include "json_text.hpp"

namespace pawl::sql {
namespace {

pqxx::field checked_field(const pqxx::result& rows, int row, int column) {
    if (column < 0 || column >= static_cast<int>(rows.columns()))
        throw UnexpectedAnswer("", "the server's answer has " + std::to_string(rows.columns()) + " columns, too few");
    // libpqxx 8 converts a reference into a field only where that is said
    return pqxx::field(rows[static_cast<pqxx::result::size_type>(row)][static_cast<pqxx::row::size_type>(column)]);
}

}  // namespace

Field::Field(pqxx::result rows, int row, int column)
    : rows_(std::move(rows)), field_(checked_field(rows_, row, column)) {}

void Field::unexpected(const char* what) const {
    throw UnexpectedAnswer("", "the server's answer has " + std::string(what) + " in column \"" + name() + "\"");
}

const char* Field::c_str() const {
    if (is_null()) unexpected("a null");
    return field_.c_str();
}

nlohmann::json Field::json() const {
    try {
        return parse_json(c_str());
    } catch (const UnexpectedAnswer& problem) {
        throw UnexpectedAnswer("", "column \"" + name() + "\": " + problem.what());
    }
}

template <typename T>
T Field::as() const {
    if (is_null()) unexpected("a null");
    try {
        return field_.as<T>();
    } catch (const std::exception&) {
        unexpected("a value of another type");
    }
}

template bool Field::as<bool>() const;
template int Field::as<int>() const;
template long Field::as<long>() const;
template long long Field::as<long long>() const;
template unsigned long Field::as<unsigned long>() const;
template double Field::as<double>() const;
template std::string Field::as<std::string>() const;

Field Row::operator[](const char* column) const {
    for (int i = 0; i < size(); ++i)
        if (std::string_view(rows_.column_name(i)) == column) return {rows_, row_, i};
    throw UnexpectedAnswer("", "the server's answer has no column \"" + std::string(column) + "\"");
}

Row Rows::operator[](std::size_t row) const {
    if (row >= size()) throw UnexpectedAnswer("", "the server's answer has no row " + std::to_string(row + 1));
    return {rows_, static_cast<int>(row)};
}

}  // namespace pawl::sql
