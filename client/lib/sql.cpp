// May throw. Errors of libpqxx as ours.
#include "sql.hpp"

#include "secrets.hpp"

namespace pawl {

void throw_error(const std::string& sqlstate, const std::string& message) {
#define PAWL_SQLSTATE(code, name, meaning) \
    if (sqlstate == code) throw error::name(sqlstate, message);
#include <pawl/sqlstate.def>
#undef PAWL_SQLSTATE
    if (core::repeat_of(sqlstate) == core::Repeat::at_once) throw TryAgain(sqlstate, message);
    // 57P: the server is going down, or this session was ended
    if (sqlstate.rfind("08", 0) == 0 || sqlstate.rfind("57P", 0) == 0) throw ConnectionLost(sqlstate, message);
    throw Error(sqlstate, message);
}

}  // namespace pawl

namespace pawl::sql {

void rethrow() {
    try {
        throw;
    } catch (const pqxx::deadlock_detected& caught) {  // before sql_error: in libpqxx 6 it is none
        throw_error("40P01", caught.what());
    } catch (const pqxx::transaction_rollback& caught) {
        throw_error("40001", caught.what());
    } catch (const pqxx::insufficient_privilege& caught) {
        throw_error("42501", caught.what());  // libpqxx 6 does not say so itself
    } catch (const pqxx::sql_error& caught) {
        throw_error(std::string(caught.sqlstate()), caught.what());
    } catch (const pqxx::broken_connection& caught) {
        throw ConnectionLost("08006", without_passwords(caught.what()));
    } catch (const pqxx::in_doubt_error& caught) {
        throw ConnectionLost("08007", caught.what());
    } catch (const pqxx::argument_error& caught) {
        throw UnexpectedAnswer("", caught.what());
    } catch (const pqxx::conversion_error& caught) {
        throw UnexpectedAnswer("", caught.what());
    } catch (const pqxx::range_error& caught) {
        throw UnexpectedAnswer("", caught.what());
    } catch (const pqxx::usage_error& caught) {
        throw UnexpectedAnswer("", caught.what());
    } catch (const pqxx::internal_error& caught) {
        throw UnexpectedAnswer("", caught.what());
    } catch (const pqxx::failure& caught) {  // in libpqxx 8 the base of those above, too
        throw Error("", caught.what());
    } catch (const nlohmann::json::exception& caught) {
        throw UnexpectedAnswer("", caught.what());
    }
}

void commit(pqxx::dbtransaction& transaction) {
    translated([&] { transaction.commit(); });
}

int take_notifications(pqxx::connection& connection) {
    return translated([&] { return connection.get_notifs(); });
}

}  // namespace pawl::sql
