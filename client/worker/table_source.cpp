// May throw. The rows of any enforced table as work: claimed by pawl.claim, reported by pawl.fire_many.
#include "sql.hpp"
#include "work_source.hpp"

namespace pawl {
namespace {

using nlohmann::json;

class TableSource final : public WorkSource {
public:
    TableSource(const WorkerSettings& settings, const std::string& processor)
        : table_(*settings.table),
          processor_(processor),
          queue_(settings.queue),
          lease_(std::to_string(settings.lease.count()) + " ms") {}

    void prepare(pqxx::connection& connection) override {
        const sql::Rows found =
            sql::run_alone(connection,
                           "SELECT $1::regclass::text, b.key_columns[1], cardinality(b.key_columns), b.owner_column, "
                           "b.token_column, b.attempts_column,"
                           "       quote_ident(b.key_columns[1]), quote_ident(b.owner_column), "
                           "quote_ident(b.token_column), b.queue_column IS NOT NULL,"
                           "       quote_ident(b.lease_column),"
                           "       (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n "
                           "ON n.oid = c.relnamespace WHERE c.oid = b.relation)"
                           "  FROM pawl.binding b WHERE b.relation = $1::regclass AND b.claim_events <> '{}'",
                           table_.relation);
        if (found.size() != 1 || found[0][2].as<int>() != 1 || found[0][3].is_null() || found[0][4].is_null())
            throw Error("55000", "table " + table_.relation +
                                     " must have one binding with claim events, an owner column, a token column and a "
                                     "key of one column");
        const auto row = found[0];
        quoted_table_ = row[0].as<std::string>();
        key_ = row[1].as<std::string>();
        token_ = row[4].as<std::string>();
        attempts_ = row[5].is_null() ? "" : row[5].as<std::string>();
        quoted_key_ = row[6].as<std::string>();
        quoted_owner_ = row[7].as<std::string>();
        quoted_token_ = row[8].as<std::string>();
        has_queue_ = row[9].as<bool>();
        quoted_lease_ = row[10].is_null() ? "" : row[10].as<std::string>();
        channel_ = {row[11].as<std::string>(), has_queue_ ? std::optional(queue_) : std::nullopt};
        if (knows_events_) return;
        // An unknown event would be found out when the work of a row is done. Only at the start: a worker that connects
        // again has results to report.
        const std::vector events = {event_of(Outcome::success), event_of(Outcome::failure),
                                    event_of(Outcome::permanent_failure)};
        sql::run_alone(connection,
                       "SELECT count(f.key) FROM unnest($2::text[]) u(event)"
                       " CROSS JOIN LATERAL pawl.fire_many($1::regclass, '{}'::text[], u.event) f",
                       table_.relation, sql::text_array(events));
        knows_events_ = true;
    }

    std::vector<Job> claim(pqxx::connection& connection, int limit) override {
        return jobs(sql::run_alone(
            connection,
            "SELECT to_jsonb(c), c." + quoted_key_ + "::text, c." + quoted_token_ +
                " FROM pawl.claim(null::" + quoted_table_ + ", $1, $2, $3::interval, $4::integer, $5) c",
            sql::or_null(table_.claim_event), processor_, lease_, limit, has_queue_ ? queue_.c_str() : nullptr));
    }

    std::vector<Job> claim_keys(pqxx::connection& connection, const std::vector<RowKey>& keys) override {
        return jobs(sql::run_alone(connection,
                                   "SELECT to_jsonb(c), c." + quoted_key_ + "::text, c." + quoted_token_ +
                                       " FROM pawl.claim_keys(null::" + quoted_table_ +
                                       ", $1::text[], $2, $3, $4::interval, $5) c",
                                   sql::keys_array(keys), sql::or_null(table_.claim_event), processor_, lease_,
                                   has_queue_ ? queue_.c_str() : nullptr));
    }

    std::vector<Job> owned(pqxx::connection& connection) override {
        return jobs(
            sql::run_alone(connection,
                           "SELECT to_jsonb(c), c." + quoted_key_ + "::text, c." + quoted_token_ + " FROM " +
                               quoted_table_ + " c WHERE c." + quoted_owner_ + "::text = $1" +
                               (quoted_lease_.empty() ? "" : " AND c." + quoted_lease_ + " > clock_timestamp()"),
                           processor_));
    }

    std::set<std::string> report(pqxx::connection& connection, const std::vector<Finished>& results,
                                 bool in_doubt) override {
        std::set<std::string> accepted;
        for (const Outcome outcome : {Outcome::success, Outcome::failure, Outcome::permanent_failure}) {
            std::vector<std::string> keys, tokens, notes;
            for (const Finished& one : results) {
                if (one.outcome != outcome) continue;
                keys.push_back(one.work->job.key);
                tokens.push_back(std::to_string(one.work->job.token));
                notes.push_back(one.value.is_object() ? json_text(one.value) : "{}");
            }
            if (keys.empty()) continue;
            // one statement writes all rows, if what is logged with them is the same
            const bool same = std::ranges::count(notes, notes.front()) == std::ssize(notes);
            for (const auto& row : run_traced(connection, results.front().work->job.trace, same ? fire_all : fire_each,
                                              table_.relation, sql::text_array(keys), event_of(outcome), processor_,
                                              sql::text_array(tokens), same ? notes.front() : sql::text_array(notes)))
                if (row[1].as<bool>()) accepted.insert(row[0].as<std::string>());
        }
        if (in_doubt && accepted.size() < results.size()) note_accepted(connection, results, accepted);
        return accepted;
    }

    OwnedTokens extend_leases(pqxx::connection& connection) override {
        sql::run_alone(connection, "SELECT pawl.heartbeat($1::regclass, $2, $3::interval)", table_.relation, processor_,
                       lease_);
        OwnedTokens owned;
        for (const auto& row : sql::run_alone(connection,
                                              "SELECT c." + quoted_key_ + "::text, c." + quoted_token_ + " FROM " +
                                                  quoted_table_ + " c WHERE c." + quoted_owner_ + "::text = $1",
                                              processor_))
            owned.emplace(row[0].as<std::string>(), row[1].as<std::int64_t>());
        return owned;
    }

    const std::string& relation() const noexcept override { return table_.relation; }

    Channel channel() const override { return channel_; }

    std::unique_ptr<WorkSource> copy() const override { return std::make_unique<TableSource>(*this); }

private:
    static constexpr const char* fire_all =
        "SELECT f.key, f.ok FROM pawl.fire_many($1::regclass, $2::text[], $3, processor => $4,"
        " tokens => $5::bigint[], metadata => $6::jsonb) f";
    static constexpr const char* fire_each =
        "SELECT f.key, f.ok FROM unnest($2::text[], $5::bigint[], $6::text[]) r(key, token, notes)"
        " CROSS JOIN LATERAL pawl.fire_many($1::regclass, ARRAY[r.key], $3, processor => $4,"
        " tokens => ARRAY[r.token], metadata => r.notes::jsonb) f";

    std::string event_of(Outcome outcome) const {
        if (outcome == Outcome::success) return table_.success_event;
        if (outcome == Outcome::failure) return table_.failure_event;
        return table_.permanent_failure_event.value_or(table_.failure_event);
    }

    // Adds the keys whose results an earlier report has committed: only a result leaves the token and clears the owner.
    void note_accepted(pqxx::connection& connection, const std::vector<Finished>& results,
                       std::set<std::string>& accepted) const {
        for (const Finished& one : results)
            if (!sql::run_alone(connection,
                                "SELECT FROM " + quoted_table_ + " c WHERE c." + quoted_key_ + "::text = $1 AND c." +
                                    quoted_token_ + " = $2::bigint AND c." + quoted_owner_ + " IS NULL",
                                one.work->job.key, one.work->job.token)
                     .empty())
                accepted.insert(one.work->job.key);
    }

    std::vector<Job> jobs(const sql::Rows& rows) const {
        std::vector<Job> made;
        for (const auto& row : rows) {
            Job job;
            job.handler = table_.handler;
            job.key = job.name = row[1].as<std::string>();
            job.token = row[2].as<std::int64_t>();
            try {
                job.context = row[0].json();
            } catch (const UnexpectedAnswer& problem) {
                job.problem = problem.what();
                made.push_back(std::move(job));
                continue;
            }
            job.attempt = attempts_.empty() ? 1 : job.context.value(attempts_, 1);
            if (table_.traceparent_column)
                if (const auto parent = job.context.find(*table_.traceparent_column);
                    parent != job.context.end() && parent->is_string())
                    job.trace = Trace{parent->get<std::string>(), ""}.child();
            made.push_back(std::move(job));
        }
        return made;
    }

    JobTable table_;
    std::string processor_, queue_, lease_;
    std::string quoted_table_, quoted_key_, quoted_owner_, quoted_token_, quoted_lease_;
    std::string key_, token_, attempts_;
    bool knows_events_ = false;
    bool has_queue_ = false;
    Channel channel_;
};

}  // namespace

std::unique_ptr<WorkSource> make_table_source(const WorkerSettings& settings, const std::string& processor) {
    return std::make_unique<TableSource>(settings, processor);
}

}  // namespace pawl
