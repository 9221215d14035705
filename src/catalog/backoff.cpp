// May throw and may ereport: pawl.backoff, pawl.is_transient, pawl.must_reraise. Reading a policy ereports and owns
// nothing; see backoff.hpp.
#include "catalog/backoff.hpp"

#include "core/transient.hpp"
#include "pg/arguments.hpp"

extern "C" {
#include "common/int.h"
#include "common/pg_prng.h"
#include "utils/numeric.h"
}

namespace pawl {

namespace {

[[noreturn]] void reject_value(const char* key, const char* expected, const char* hint) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("\"%s\" of a backoff policy must be %s", key, expected),
             hint != nullptr ? errhint("%s", hint) : 0));
}

std::string_view string_of(const JsonbValue& value) {
    return {value.val.string.val, static_cast<std::size_t>(value.val.string.len)};
}

char* copy_of(std::string_view string) {
    return pnstrdup(string.data(), static_cast<int>(string.size()));
}

// Reads an interval text. A bare number is rejected, because it has no unit.
core::Delay read_interval(const char* key, const JsonbValue& value) {
    if (value.type != jbvString) reject_value(key, "an interval text", psprintf("{\"%s\": \"1.5 s\"}", key));
    Datum interval = DirectFunctionCall3(interval_in, CStringGetDatum(copy_of(string_of(value))),
                                         ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
    return delay_of(DatumGetIntervalP(interval), key);
}

double read_number(const char* key, const JsonbValue& value) {
    if (value.type != jbvNumeric) reject_value(key, "a number", nullptr);
    return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(value.val.numeric)));
}

void read_strategy(core::BackoffPolicy& policy, const JsonbValue& value) {
    const auto strategy = value.type == jbvString ? core::find_backoff_strategy(string_of(value)) : std::nullopt;
    if (!strategy)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        value.type == jbvString ? errmsg("unknown backoff strategy \"%s\"", copy_of(string_of(value)))
                                                : errmsg("\"strategy\" of a backoff policy must be a name"),
                        errhint("%s", core::backoff_strategies.data())));
    policy.strategy = *strategy;
}

void read_jitter(core::BackoffPolicy& policy, const JsonbValue& value) {
    if (value.type == jbvNumeric) {
        policy.jitter = core::Jitter::fraction;
        policy.fraction = read_number("jitter", value);
        return;
    }
    const auto jitter = value.type == jbvString ? core::find_jitter(string_of(value)) : std::nullopt;
    if (!jitter) reject_value("jitter", "a known name or a fraction", core::backoff_jitters.data());
    policy.jitter = *jitter;
}

void read_max_attempts(core::BackoffPolicy& policy, const JsonbValue& value) {
    const double number = read_number("max_attempts", value);
    if (!(number >= 1 && number <= PG_INT32_MAX) || number != static_cast<double>(static_cast<int64>(number)))
        reject_value("max_attempts", "a positive integer", nullptr);
    policy.max_attempts = static_cast<int32>(number);
}

void read_field(core::BackoffPolicy& policy, std::string_view key, const JsonbValue& value) {
    if (value.type == jbvNull) reject_value(copy_of(key), "omitted or not null", nullptr);
    if (key == "strategy") return read_strategy(policy, value);
    if (key == "base") return void(policy.base = read_interval("base", value));
    if (key == "cap") return void(policy.cap = read_interval("cap", value));
    if (key == "multiplier") return void(policy.multiplier = read_number("multiplier", value));
    if (key == "jitter") return read_jitter(policy, value);
    if (key == "max_attempts") return read_max_attempts(policy, value);
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown key \"%s\" in a backoff policy", copy_of(key)),
             errhint("strategy, base, cap, multiplier, jitter, max_attempts")));
}

bool is_finite(const Interval* interval) {
#if PG_VERSION_NUM >= 170000
    return !INTERVAL_NOT_FINITE(interval);
#else
    return interval != nullptr;
#endif
}

}  // namespace

core::Delay delay_of(const Interval* interval, const char* name) {
    int64 days;
    int64 microseconds;
    if (!is_finite(interval) || pg_mul_s64_overflow(interval->month, DAYS_PER_MONTH, &days) ||
        pg_add_s64_overflow(days, interval->day, &days) || pg_mul_s64_overflow(days, USECS_PER_DAY, &microseconds) ||
        pg_add_s64_overflow(microseconds, interval->time, &microseconds))
        ereport(ERROR, (errcode(ERRCODE_INTERVAL_FIELD_OVERFLOW), errmsg("%s is too long", name)));
    return core::Delay(microseconds);
}

core::BackoffPolicy read_backoff(Jsonb* policy) {
    core::BackoffPolicy read = {};
    if (!JB_ROOT_IS_OBJECT(policy))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a backoff policy must be a JSON object"),
                        errhint("{\"strategy\": \"exponential\", \"base\": \"1 s\", \"cap\": \"1 h\"}")));
    JsonbIterator* iterator = JsonbIteratorInit(&policy->root);
    JsonbValue key;
    JsonbValue value;
    JsonbIteratorToken token = JsonbIteratorNext(&iterator, &key, false);
    while ((token = JsonbIteratorNext(&iterator, &key, true)) == WJB_KEY) {
        JsonbIteratorNext(&iterator, &value, true);
        read_field(read, string_of(key), value);
    }
    if (const char* problem = core::problem_of(read))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s in a backoff policy", problem)));
    return read;
}

core::Delay next_delay(const core::BackoffPolicy& policy, int64 attempts, std::optional<core::Delay> asked) {
    return core::backoff(policy, attempts, asked, pg_prng_double(&pg_global_prng_state));
}

PAWL_FUNCTION(pawl_backoff) {
    pg::require(fcinfo, 0, "attempts");
    pg::require(fcinfo, 1, "policy");
    const int32 attempts = PG_GETARG_INT32(0);
    if (attempts < 1)
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "attempts must be 1 or more",
                          "There is a delay only after an attempt was made.");
    return pg::call([&] {
        const core::BackoffPolicy policy = read_backoff(PG_GETARG_JSONB_P(1));
        std::optional<core::Delay> asked;
        if (!PG_ARGISNULL(2)) asked = delay_of(PG_GETARG_INTERVAL_P(2), "asked");
        auto* delay = static_cast<Interval*>(palloc0(sizeof(Interval)));
        delay->time = next_delay(policy, attempts, asked).count();
        return PointerGetDatum(delay);
    });
}

PAWL_FUNCTION(pawl_is_transient) {
    return BoolGetDatum(core::is_transient(pg::view(pg::text_argument(fcinfo, 0))));
}

// A conflict is repeated by the handler, unless no statement of the transaction sees more than the one before.
PAWL_FUNCTION(pawl_must_reraise) {
    const core::Repeat repeat = core::repeat_of(pg::view(pg::text_argument(fcinfo, 0)));
    return BoolGetDatum(repeat == core::Repeat::later ||
                        (repeat == core::Repeat::at_once && IsolationUsesXactSnapshot()));
}

}  // namespace pawl
