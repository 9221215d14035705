// May throw. Carries out a move of a namespace between databases. Every step is a transaction in one database, whose
// outcome a later run reads, so it can be interrupted anywhere and called again.
#pragma once

#include <string>

#include <pawl/connection.hpp>

#include "members.hpp"

namespace pawl::cli {

struct MoveRequest {
    std::string kind, name_space, database;
    LibpqSession::Parameter drain, verify;  // null: as pawl_move.request says
};

class Mover {
public:
    // Connects to the database whose placements count, by way of `member`.
    Mover(const ConnectionSettings& member, Say say);

    // Moves, or continues the same move. Throws Error if another process carries it out.
    void move(const MoveRequest& request);

    // Cancels the open move of a namespace. Throws Error if the namespace has arrived already.
    void cancel(const std::string& kind, const std::string& name_space);

private:
    ConnectionSettings settings_of(const std::string& database);
    LibpqSession& source();
    LibpqSession& target();
    void take(LibpqSession::Result move);
    void hold();
    void require_rights();
    void introduce_target();
    void prepare();
    void leave();
    void drain();
    void arrive();
    void finish();
    void tell_others();
    void return_rows();
    [[noreturn]] void reject_cancelled() const;

    ConnectionSettings member_;
    Say say_;
    LibpqSession home_;
    std::unique_ptr<LibpqSession> source_, target_;
    std::string move_, kind_, name_space_, source_name_, target_name_, state_, drain_, receipt_;
    bool verify_ = true;
};

}  // namespace pawl::cli
