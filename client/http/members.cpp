// May throw (out of memory).
#include "members.hpp"

#include <pawl/errors.hpp>

#include "libpq.hpp"
#include "sql.hpp"

namespace pawl::api {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds look_interval{15}, check_interval{1};  // the second: of databases that do not answer
constexpr int connect_timeout = 5;                                    // seconds, if there are several
constexpr std::chrono::milliseconds check_patience{5'000};

ConnectionSettings named(ConnectionSettings settings, const char* application_name) {
    settings.application_name = application_name;
    return settings;
}

}  // namespace

Member::Member(std::string name, bool home, const ConnectionSettings& settings, std::size_t connections,
               std::chrono::milliseconds timeout, const daemon::Log& log, Bell& bell)
    : name(std::move(name)),
      home(home),
      log(this->name.empty() ? log : log.about("database", this->name)),
      pool(settings, connections, timeout),
      readiness(named(settings, "pawld ready"), 1, timeout),
      feed(settings, this->log, bell) {}

ConnectionSettings Member::file_settings() const {
    return named(pool.settings(), "pawld file");
}

Members::Members(const ConnectionSettings& given, bool all, std::string login, std::size_t connections,
                 std::chrono::milliseconds timeout, const daemon::Log& log)
    : given_(given),
      login_(std::move(login)),
      connections_(connections),
      timeout_(timeout),
      log_(log),
      placements_(given) {
    if (all)
        thread_ = std::thread([this] { run(); });
    else
        given_member_ = members_[""] = make("", true, given_);
}

Members::~Members() {
    end();
    if (thread_.joinable()) thread_.join();
}

void Members::end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    for (const auto& [name, member] : members_) member->feed.end();
    end_come_.notify_all();
}

MemberPtr Members::make(const std::string& name, bool home, const ConnectionSettings& settings) {
    return std::make_shared<Member>(name, home, settings, connections_, timeout_, log_, bell_);
}

// The given database stays connected as the settings say; the others as pawl.database says, with the same login.
void Members::look() {
    placements_.refresh();
    const std::vector<PlacedDatabase> databases = placements_.databases();
    if (here_.empty() && !databases.front().name.empty()) {
        const auto here = sql::run_alone(*connect(given_), "SELECT d.name FROM pawl.database d WHERE d.is_here");
        if (!here.empty()) here_ = here[0][0].as<std::string>();
    }
    const auto settings_of = [&](const PlacedDatabase& one) {
        ConnectionSettings settings = given_;
        if (databases.size() > 1) settings.connect_timeout = connect_timeout;
        if (!one.name.empty() && one.name != here_)
            settings.target = login_.empty() ? one.connection.target : with_login_of(login_, one.connection.target);
        return settings;
    };
    std::map<std::string, MemberPtr> now;
    for (const PlacedDatabase& one : databases) {
        const ConnectionSettings settings = settings_of(one);
        const auto is_same = [&](const Member& old) {
            return old.pool.settings().target == settings.target && old.home == one.home &&
                   old.pool.settings().connect_timeout == settings.connect_timeout;
        };
        // only this thread changes the members
        const auto old = members_.find(one.name);
        now[one.name] =
            old != members_.end() && is_same(*old->second) ? old->second : make(one.name, one.home, settings);
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [name, old] : members_)
        if (const auto kept = now.find(name); kept == now.end() || kept->second != old) old->feed.end();
    members_ = std::move(now);
    const auto given = members_.find(here_);
    given_member_ = given == members_.end() ? members_.begin()->second : given->second;
}

std::vector<MemberPtr> Members::in_trouble() const {
    const std::lock_guard lock(mutex_);
    std::vector<MemberPtr> list;
    for (const auto& [name, member] : members_)
        if (member->pool.trouble() || !member->feed.problem().empty()) list.push_back(member);
    return list;
}

// A database that does not answer, as requests or the reader of events have seen, is asked by this thread until it
// does, so that requests about all of them can leave it out instead of waiting for it.
void Members::run() {
    for (auto next_look = Clock::now();;) {
        const bool looks = Clock::now() >= next_look;
        std::string problem;
        try {
            if (looks) look();
        } catch (const std::exception& caught) {
            problem = caught.what();
        }
        for (const MemberPtr& member : in_trouble()) member->pool.check(check_patience);
        std::unique_lock lock(mutex_);
        if (!problem.empty() && problem != problem_)
            log_.warn("the API cannot read which databases there are", {{"problem", problem}});
        if (looks) {
            problem_ = problem;
            next_look = Clock::now() + (given_member_ ? look_interval : check_interval);
        }
        if (end_come_.wait_for(lock, check_interval, [this] { return ended_; })) return;
    }
}

std::vector<MemberPtr> Members::known() const {
    const std::lock_guard lock(mutex_);
    std::vector<MemberPtr> list;
    for (const auto& [name, member] : members_) list.push_back(member);
    return list;
}

std::vector<MemberPtr> Members::all() const {
    auto list = known();
    if (list.empty()) throw ConnectionLost("08006", "it is not known yet which databases there are");
    return list;
}

MemberPtr Members::find(const std::string& name) const {
    for (const MemberPtr& member : all())
        if (member->name == name) return member;
    return nullptr;
}

MemberPtr Members::given() const {
    all();
    const std::lock_guard lock(mutex_);
    return given_member_;
}

MemberPtr Members::of(const std::string& kind, const std::string& name_space) {
    const std::string name = placements_.find(kind, name_space).name;
    if (const MemberPtr member = find(name)) return member;
    throw error::placed_elsewhere("PW009", "namespace \"" + name_space + "\" of kind \"" + kind +
                                               "\" is in database \"" + name + "\", which is not known yet");
}

void Members::learn(const std::string& kind, const std::string& name_space, const std::string& database) {
    placements_.learn(kind, name_space, database);
}

}  // namespace pawl::api
