// May throw. See mover.hpp.
#include "mover.hpp"

#include <chrono>
#include <thread>

#include <pawl/errors.hpp>

namespace pawl::cli {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds shortest_wait{10}, longest_wait{500};

// A statement that returns moves, each as a row for Mover::take.
std::string moves_of(const char* source) {
    std::string statement =
        "SELECT m.move, m.kind, m.namespace, m.source, m.target, m.state, m.drain, m.verify, "
        "coalesce(m.receipt::text, '') FROM ";
    return statement.append(source);
}

// For COPY, which has no parameters.
std::string literal(const std::string& text) {
    std::string quoted = " E'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') quoted += c;
        quoted += c;
    }
    return quoted + "'";
}

// A word of a command line.
std::string in_shell(const std::string& word) {
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

}  // namespace

Mover::Mover(const ConnectionSettings& member, Say say)
    : member_(member), say_(std::move(say)), home_(member_session(home_of(member, say_), say_)) {}

ConnectionSettings Mover::settings_of(const std::string& database) {
    const auto found = home_.run("SELECT d.connection FROM pawl.database d WHERE d.name = $1", {database});
    return with_target(member_, value_of(found.get(), 0, 0));
}

LibpqSession& Mover::source() {
    if (!source_) source_ = std::make_unique<LibpqSession>(member_session(settings_of(source_name_), say_));
    return *source_;
}

LibpqSession& Mover::target() {
    if (!target_) target_ = std::make_unique<LibpqSession>(member_session(settings_of(target_name_), say_));
    return *target_;
}

void Mover::take(LibpqSession::Result move) {
    const PGresult* row = move.get();
    move_ = value_of(row, 0, 0);
    kind_ = value_of(row, 0, 1);
    name_space_ = value_of(row, 0, 2);
    source_name_ = value_of(row, 0, 3);
    target_name_ = value_of(row, 0, 4);
    state_ = value_of(row, 0, 5);
    drain_ = value_of(row, 0, 6);
    verify_ = std::string(value_of(row, 0, 7)) == "t";
    receipt_ = value_of(row, 0, 8);
}

// A process that was killed may hold the lock until the server notices.
void Mover::hold() {
    for (int tries = 0; tries < 20; ++tries) {
        if (std::string(value_of(home_.run("SELECT pawl_move.hold($1)", {move_}).get(), 0, 0)) == "t") return;
        std::this_thread::sleep_for(milliseconds(100));
    }
    throw Error("55006", "another process is moving namespace \"" + name_space_ +
                             "\"\nDETAIL:  It takes it to database \"" + target_name_ + "\".");
}

void Mover::move(const MoveRequest& request) {
    const auto state_now = [this] { take(home_.run(moves_of("pawl_move.moves m WHERE m.move = $1"), {move_})); };
    home_.run("BEGIN");
    take(home_.run(moves_of("pawl_move.request($1, $2, $3, $4, $5) m"),
                   {request.kind, request.name_space, request.database, request.drain, request.verify}));
    if (state_ == "requested") require_rights();
    home_.run("COMMIT");
    hold();
    state_now();  // the process that held it may have gone on meanwhile
    if (state_ == "cancelled") throw Error("55000", "the move was cancelled meanwhile");
    if (state_ == "requested") {
        prepare();
        leave();
    }
    if (state_ == "left") arrive();
    if (state_ == "arrived") {
        home_.run("SELECT FROM pawl_move.place($1)", {move_});
        state_ = "placed";
    }
    if (state_ == "placed") finish();
}

// What they lack would be found out when the namespace is closed, or its rows are away.
void Mover::require_rights() {
    for (const auto& [session, name] : {std::pair{&source(), &source_name_}, {&target(), &target_name_}}) {
        const auto lacking = session->run(
            "SELECT coalesce(string_agg(f.role, ', '), ''), current_user FROM (VALUES ('pawl_admin', "
            "'pawl.placed_shape(text)'), ('pawl_restore', 'pawl.arrive(uuid, boolean)')) f(role, function) "
            "WHERE NOT has_function_privilege(f.function, 'EXECUTE')");
        const std::string roles = value_of(lacking.get(), 0, 0), user = value_of(lacking.get(), 0, 1);
        if (!roles.empty())
            throw Error("42501", "permission denied to move namespaces from or to database \"" + *name +
                                     "\"\nDETAIL:  Role " + user + " lacks rights of " + roles +
                                     " there.\nHINT:  GRANT " + roles + " TO " + user);
    }
}

// The rejection is recorded where the namespace would arrive, and the cancel was interrupted before its end.
void Mover::reject_cancelled() const {
    throw Error("55000", "the move is being cancelled\nHINT:  pawl move --cancel --pack " + in_shell(kind_) + " -- " +
                             in_shell(name_space_));
}

// Members that were added later are known to the home alone.
void Mover::introduce_target() {
    const auto known = home_.run("SELECT d.connection FROM pawl.database d WHERE d.name = $1", {target_name_});
    source().run("INSERT INTO pawl.database (name, connection) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
                 {target_name_, value_of(known.get(), 0, 0)});
}

// Everything that can stand in the way, before anything is stopped.
void Mover::prepare() {
    introduce_target();
    source().run("SELECT pawl.prepare_departure($1, $2)", {kind_, name_space_});
    const auto shape = source().run("SELECT pawl.placed_shape($1)", {kind_});
    target().run("BEGIN");
    const auto arrived = target().run("SELECT a.outcome FROM pawl.arrival a WHERE a.move = $1", {move_});
    if (PQntuples(arrived.get()) != 0 && std::string(value_of(arrived.get(), 0, 0)) != "arrived") reject_cancelled();
    if (PQntuples(arrived.get()) == 0) {
        target().begin_copy("COPY pawl.transit (move, ordinal, content) FROM STDIN");
        source().copy_out("COPY (SELECT " + literal(move_) + ", s.ordinal, s.content FROM pawl.shared_rows(" +
                              literal(kind_) + ", " + literal(name_space_) + ") s) TO STDOUT",
                          [this](std::string_view line) { target().put(line); });
        target().end_copy();
        target().run("SELECT pawl.prepare_arrival($1, $2, $3, $4, $5)",
                     {move_, kind_, name_space_, value_of(shape.get(), 0, 0), verify_ ? "true" : "false"});
    }
    target().run("COMMIT");
}

void Mover::leave() {
    const auto depart = [this](const char* phase) {
        return source().run("SELECT d.phase, d.counts FROM pawl.depart($1, $2, $3, $4, $5) d",
                            {move_, kind_, name_space_, target_name_, phase});
    };
    if (std::string(value_of(depart("closed").get(), 0, 0)) == "closed") {
        say_("namespace \"" + name_space_ + "\" is closed in database \"" + source_name_ + "\"");
        drain();
    }
    depart("leaving");
    wait_for_open_transactions(source(), say_);
    const auto left = depart("left");
    home_.run("UPDATE pawl_move.moves SET state = 'left', counts = $2 WHERE move = $1",
              {move_, value_of(left.get(), 0, 1)});
    state_ = "left";
    say_("its rows have left");
}

// What workers hold may still be reported; what they hold longer moves with its lease and fencing token.
void Mover::drain() {
    const auto seconds = home_.run("SELECT extract(epoch FROM $1::interval) * 1000", {drain_});
    const auto deadline = steady_clock::now() + milliseconds(std::stoll(value_of(seconds.get(), 0, 0)));
    for (milliseconds wait = shortest_wait; steady_clock::now() < deadline; wait = std::min(2 * wait, longest_wait)) {
        const auto held = source().run("SELECT pawl.in_flight($1, $2)", {kind_, name_space_});
        if (std::string(value_of(held.get(), 0, 0)) == "0") return;
        std::this_thread::sleep_for(wait);
    }
}

void Mover::arrive() {
    target().run("BEGIN");
    auto arrived = target().run("SELECT a.outcome FROM pawl.arrival a WHERE a.move = $1", {move_});
    if (PQntuples(arrived.get()) == 0) {
        target().begin_copy("COPY pawl.transit (move, ordinal, content) FROM STDIN");
        source().copy_out(
            "COPY (SELECT x.move, x.ordinal, x.content FROM pawl.transit x WHERE x.move = '" + move_ + "') TO STDOUT",
            [this](std::string_view line) { target().put(line); });
        target().end_copy();
        arrived = target().run("SELECT a.outcome FROM pawl.arrive($1, $2) a", {move_, verify_ ? "true" : "false"});
    }
    const std::string outcome = value_of(arrived.get(), 0, 0);
    target().run("COMMIT");
    if (outcome != "arrived") reject_cancelled();
    const auto recorded = target().run("SELECT a.receipt FROM pawl.arrival a WHERE a.move = $1", {move_});
    receipt_ = value_of(recorded.get(), 0, 0);
    home_.run("UPDATE pawl_move.moves SET state = 'arrived', receipt = $2 WHERE move = $1", {move_, receipt_});
    state_ = "arrived";
    say_("they have arrived in database \"" + target_name_ + "\", complete and unchanged");
}

void Mover::finish() {
    source().run("SELECT pawl.forget_departed($1, $2)", {move_, receipt_});
    tell_others();
    home_.run("UPDATE pawl_move.moves SET state = 'done' WHERE move = $1", {move_});
    state_ = "done";
    say_("namespace \"" + name_space_ + "\" is in database \"" + target_name_ + "\"");
}

// The other members reject the namespace whether they are told or not; told, they say where it is.
void Mover::tell_others() {
    const auto there = home_.run("SELECT d.connection FROM pawl.database d WHERE d.name = $1", {target_name_});
    const auto others = home_.run(
        "SELECT d.connection, d.name FROM pawl.database d WHERE NOT d.is_here AND d.name <> $1 AND d.name <> $2",
        {source_name_, target_name_});
    for (int i = 0; i < PQntuples(others.get()); ++i) {
        try {
            LibpqSession other = member_session(with_target(member_, value_of(others.get(), i, 0)), say_);
            other.run("INSERT INTO pawl.database (name, connection) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
                      {target_name_, value_of(there.get(), 0, 0)});
            other.run(
                "INSERT INTO pawl.placement AS p (kind, namespace, database) SELECT $1, $2, d.name FROM pawl.database d"
                " WHERE d.name = $3 ON CONFLICT (kind, namespace) DO UPDATE SET database = excluded.database,"
                " placed_at = clock_timestamp()"
                " WHERE p.database <> (SELECT h.name FROM pawl.database h WHERE h.is_here)",
                {kind_, name_space_, target_name_});
        } catch (const Error& problem) {
            say_("database \"" + std::string(value_of(others.get(), i, 1)) + "\" was not told: " + problem.what());
        }
    }
}

// A move that has not closed the namespace yet must not do it later.
void Mover::return_rows() {
    const auto known = source().run("SELECT FROM pawl.departure d WHERE d.move = $1", {move_});
    if (PQntuples(known.get()) == 0) {
        introduce_target();
        try {
            source().run("SELECT FROM pawl.depart($1, $2, $3, $4, 'closed')",
                         {move_, kind_, name_space_, target_name_});
        } catch (const error::placed_elsewhere&) {
            return;  // it is not there, so it cannot leave
        }
    }
    source().run("SELECT pawl.return_departed($1)", {move_});
}

void Mover::cancel(const std::string& kind, const std::string& name_space) {
    const auto open = home_.run(moves_of("pawl_move.moves m WHERE m.kind = $1 AND m.namespace = $2 AND m.state <> "
                                         "'done' AND m.state <> 'cancelled'"),
                                {kind, name_space});
    if (PQntuples(open.get()) == 0)
        throw Error("P0002", "namespace \"" + name_space + "\" of kind \"" + kind + "\" is not being moved");
    move_ = value_of(open.get(), 0, 0);
    name_space_ = name_space;
    target_name_ = value_of(open.get(), 0, 4);
    hold();
    take(home_.run(moves_of("pawl_move.moves m WHERE m.move = $1"), {move_}));
    const auto rejection =
        target().run("SELECT a.outcome FROM pawl.reject_arrival($1, $2, $3) a", {move_, kind_, name_space_});
    if (std::string(value_of(rejection.get(), 0, 0)) != "rejected")
        throw Error("55000", "the namespace has arrived in database \"" + target_name_ +
                                 "\"\nHINT:  Continue the move, and move it back.");
    return_rows();
    home_.run("UPDATE pawl_move.moves SET state = 'cancelled' WHERE move = $1", {move_});
    say_("the move of namespace \"" + name_space_ + "\" is cancelled; it is in database \"" + source_name_ + "\"");
}

}  // namespace pawl::cli
