// May throw (out of memory).
#include "streams.hpp"

#include <array>
#include <memory>
#include <optional>

#include <openssl/evp.h>
#include <nlohmann/json.hpp>

#include "connection.hpp"
#include "file_session.hpp"
#include "row_copy.hpp"
#include "utf8.hpp"

namespace pawl::api {
namespace {

constexpr std::size_t longest_fields = 1024 * 1024;  // all of them, with their names
constexpr std::size_t most_fields = 100;
constexpr std::size_t most_unseen = 1024 * 1024;  // bytes of a part's head, or behind the form

// A part of the form: its name, the name of its file.
#ifdef CPPHTTPLIB_VERSION_NUM
using Part = httplib::FormData;
#else
using Part = httplib::MultipartFormData;
#endif

// What is wrong with the form, and not with the rows in it.
struct BadForm {
    int status;
    std::string detail;
};

class Upload {
public:
    Upload(const Request& request, Databases& databases, const Limits& limits)
        : request_(request), databases_(databases), limits_(limits) {}

    // The one of several databases that the file goes into.
    const std::string& database() const noexcept { return database_; }

    void part(const Part& part) {
        finish_field();
        if (session_) throw BadForm{400, "the file must be the last field of the form"};
        if (part.name.empty()) throw BadForm{400, "each part of the form must have a name"};
        if (fields_.contains(part.name)) throw BadForm{400, "field " + part.name + " is given twice"};
        if (fields_.size() >= most_fields) throw BadForm{413, "the form has too many fields"};
        name_ = part.name;
        count(name_.size());
        if (name_ != "file") return;
        fields_["fileName"] = part.filename.substr(part.filename.find_last_of("/\\") + 1);
        if (!is_utf8(fields_["fileName"].get<std::string>())) throw BadForm{400, "the name of the file is not UTF-8"};
        begin();
    }

    void content(std::string_view bytes) {
        if (!session_) {
            count(bytes.size());
            field_.append(bytes);
            return;
        }
        taken_ += bytes.size();
        if (taken_ > limits_.upload_bytes)
            throw BadForm{413, "the file is longer than " + std::to_string(limits_.upload_bytes >> 20) + " MiB"};
        EVP_DigestUpdate(digest_.get(), bytes.data(), bytes.size());
        if (created_ && splitter_->broken().empty()) splitter_->feed(bytes);
    }

    std::string finish() {
        finish_field();
        if (!session_) throw BadForm{400, "the form has no field \"file\""};
        if (!created_) return repeat();
        nlohmann::json answer{{"operation", operation_}, {"created", created_}, {"rows", 0},
                              {"malformed", 0},          {"checksum", nullptr}, {"input_error", nullptr}};
        splitter_->finish();
        copy_->flush();
        session_->expect_work(copy_->rows());
        (*session_)->end_copy();
        const std::string broken = splitter_->broken();
        answer["rows"] = copy_->rows();
        answer["malformed"] = copy_->malformed();
        answer["checksum"] = checksum();
        if (!broken.empty()) answer["input_error"] = broken;
        (*session_)->run(
            "SELECT pawl_api._end_upload($1::uuid, $2, $3)",
            {operation_, broken.empty() ? std::nullopt : std::optional(broken), answer["checksum"].get<std::string>()});
        if (request_.route.operation == "validate_bulk") {
            const auto said = (*session_)->run("SELECT pawl_api._validate_upload($1::uuid)", {operation_});
            const std::string json = value_of(said.get(), 0, 0);
            (*session_)->run("ROLLBACK");
            return json;
        }
        if (const auto key = this->key())
            (*session_)->run("SELECT pawl_api._keep_answer($1, $2::jsonb)", {*key, answer.dump()});
        (*session_)->run("COMMIT");
        return answer.dump();
    }

private:
    // The idempotency key of the upload; nothing: it has none, or keeps nothing.
    std::optional<std::string> key() const {
        if (request_.route.operation != "submit_bulk" || !request_.http.has_header("Idempotency-Key"))
            return std::nullopt;
        return request_.http.get_header_value("Idempotency-Key");
    }

    // The first answer to an upload that came again.
    std::string repeat() {
        const auto said = (*session_)->run("SELECT pawl_api._repeat_upload($1::jsonb, $2, $3::uuid, $4)",
                                           {fields_.dump(), key(), operation_, checksum()});
        const std::string json = value_of(said.get(), 0, 0);
        (*session_)->run("COMMIT");
        return json;
    }

    void count(std::size_t bytes) {
        field_bytes_ += bytes;
        if (field_bytes_ > longest_fields) throw BadForm{413, "the fields of the form are longer than 1 MiB together"};
    }

    void finish_field() {
        if (name_.empty() || name_ == "file") return;
        if (!is_utf8(field_) || !is_utf8(name_)) throw BadForm{400, "field " + name_ + " is not UTF-8"};
        fields_[name_] = std::move(field_);
        field_.clear();
        name_.clear();
    }

    void begin() {
        const std::string format = fields_.value("format", "csv"), delimiter = fields_.value("delimiter", ",");
        if (format != "csv" && format != "ndjson" && format != "json")
            throw BadForm{400, "format is csv, ndjson or json"};
        if (delimiter.size() != 1) throw BadForm{400, "the delimiter is one character"};
        if (key() && !is_utf8(*key())) throw BadForm{400, "the idempotency key must be UTF-8"};
        const Outcome begun = databases_.one(request_, fields_, [&](const Member& member) -> Outcome {
            try {
                session_ = std::make_unique<FileSession>(member, request_.caller);
                const auto made = (*session_)->run(
                    "SELECT operation, created FROM pawl_api._begin_upload($1::jsonb, $2)", {fields_.dump(), key()});
                operation_ = value_of(made.get(), 0, 0);
                created_ = value_of(made.get(), 0, 1)[0] == 't';
                return {.good = true};
            } catch (const Error& error) {
                return {.problem = problem_of(error)};
            }
        });
        database_ = begun.database;
        if (!begun.good) throw begun.problem;
        EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr);
        if (!created_) return;
        const std::string encoding = (*session_)->server_encoding();
        session_->begin_long_work();
        (*session_)->begin_copy("COPY pawl_bulk.input (raw, problem, line_number) FROM STDIN");
        copy_.emplace([this](std::string_view lines) { (*session_)->put(lines); }, encoding, format == "csv");
        splitter_.emplace(RecordSplitter::Settings{.format = format == "csv"    ? RecordFormat::csv
                                                             : format == "json" ? RecordFormat::json
                                                                                : RecordFormat::ndjson,
                                                   .delimiter = delimiter[0]},
                          [this](const Record& record) { copy_->add(record); });
    }

    std::string checksum() {
        std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
        unsigned length = 0;
        EVP_DigestFinal_ex(digest_.get(), bytes.data(), &length);
        std::string digits;
        for (unsigned i = 0; i < length; ++i) {
            digits += "0123456789abcdef"[bytes[i] >> 4];
            digits += "0123456789abcdef"[bytes[i] & 15];
        }
        return digits;
    }

    const Request& request_;
    Databases& databases_;
    const Limits& limits_;
    std::string database_;
    nlohmann::json fields_ = nlohmann::json::object();
    std::string name_, field_;
    std::unique_ptr<FileSession> session_;
    std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> digest_{EVP_MD_CTX_new(), EVP_MD_CTX_free};
    std::optional<RowCopy> copy_;
    std::optional<RecordSplitter> splitter_;
    std::string operation_;
    bool created_ = false;
    std::size_t taken_ = 0, field_bytes_ = 0;
};

}  // namespace

// After an error the rest of the upload is read and dropped: many clients read the answer only after they have sent
// everything.
Outcome take_upload(const Request& request, const httplib::ContentReader& reader, Databases& databases,
                    const Limits& limits) {
    Outcome outcome;
    if (!request.http.is_multipart_form_data()) {
        current_connection->close_after_this();
        outcome.problem = {.status = 415, .detail = "the body must be multipart/form-data"};
        return outcome;
    }
    Upload upload(request, databases, limits);
    bool wrong = false;
    const auto guarded = [&](auto&& act) {
        if (wrong) return;
        try {
            act();
        } catch (const BadForm& bad) {
            wrong = true;
            outcome.problem = {.status = bad.status, .detail = bad.detail};
        } catch (const Problem& problem) {
            wrong = true;
            outcome.problem = problem;
        } catch (const Error& error) {
            wrong = true;
            outcome.problem = problem_of(error);
        } catch (const ClientGone&) {
            wrong = true;
            current_connection->close_after_this();
            outcome.problem = {.status = 503, .detail = "the client has gone"};
        }
    };
    current_connection->limit_unseen(most_unseen);
    const bool whole = reader(
        [&](const Part& part) {
            current_connection->saw_content();
            guarded([&] { upload.part(part); });
            return true;
        },
        [&](const char* bytes, std::size_t length) {
            current_connection->saw_content();
            guarded([&] { upload.content({bytes, length}); });
            return true;
        });
    current_connection->limit_unseen(0);
    if (!whole && !wrong) {
        current_connection->close_after_this();
        wrong = true;
        outcome.problem = {.status = 400, .detail = "the form is incomplete"};
    }
    guarded([&] { outcome.json = upload.finish(); });
    outcome.good = !wrong;
    outcome.database = upload.database();
    return outcome;
}

}  // namespace pawl::api
