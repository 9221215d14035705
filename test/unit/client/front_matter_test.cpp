// Lifecycles as files: the front matter and its errors, with places; notations of SQL; migrations as text.
#include <gtest/gtest.h>

#include "lifecycle/lifecycle.hpp"
#include "lifecycle/migration.hpp"
#include "lifecycle/pull.hpp"
#include "lifecycle/sql_text.hpp"
#include "terminal_text.hpp"

namespace pawl::cli {
namespace {

const std::string diagram =
    "stateDiagram-v2\n    [*] --> ready\n    ready --> running : start\n    running --> done : finish\n"
    "    running --> ready : crashed\n    done --> [*]\n    class running owned\n";

Lifecycle read(const std::string& front, const std::string& body = diagram) {
    return read_lifecycle("jobs.mmd", front.empty() ? body : "---\n" + front + "---\n" + body);
}

// The first line of the error; empty if there is none.
std::string problem(const std::string& front, const std::string& body = diagram) {
    try {
        read(front, body);
        return "";
    } catch (const FileError& error) {
        const std::string text = error.what();
        return text.substr(0, text.find('\n'));
    }
}

TEST(FrontMatter, SaysEverythingThatFunctionsCanSay) {
    const Lifecycle read_one = read(R"(title: Jobs
pawl:
  machine: job
  unbound: note
  remap: {started: running}
  tables:
    - table: Shop.Jobs
      column: state
      key: [tenant, id]
      on_delete: terminal
      always: true
      errors: check_violation
      log: {hash_chain: true, log_name: job_log, log_partition: HASH (id) partitions 8, keep: 1 year}
      queue: {owner: owner, lease: lease, token: token, attempts: attempts}
      timers: {due: due}
      claiming:
        claim: [start]
        claim_order: Priority DESC, "Made At" asc
        on_expiry: crashed
        backoff: {base: 5 s, max_attempts: 3, jitter: 0.5, name: "7"}
      events: {wake: true}
      audit: {on_states: {done: true}, parent: [tenant]}
      placing: true
)");
    EXPECT_EQ(read_one.machine, "job");
    EXPECT_EQ(read_one.unbound, "note");
    ASSERT_EQ(read_one.remap.size(), 1U);
    EXPECT_EQ(read_one.remap[0].from + read_one.remap[0].to, "startedrunning");
    ASSERT_EQ(read_one.tables.size(), 1U);
    const TableEntry& table = read_one.tables[0];
    EXPECT_EQ(table.relation, "shop.jobs");
    EXPECT_EQ(table.settings.at("key"), Json({"tenant", "id"}));
    EXPECT_EQ(table.settings.at("log"), true);
    EXPECT_EQ(table.settings.at("log.log_partition"), "hash (id) partitions 8");
    EXPECT_EQ(table.settings.at("log.most_recent"), "derived");
    EXPECT_EQ(table.settings.at("claiming.claim_order"), "priority desc, \"Made At\"");
    EXPECT_EQ(table.settings.at("claiming.backoff").dump(),
              R"({"base":"5 s","max_attempts":3,"jitter":0.5,"name":"7"})");
    EXPECT_EQ(table.settings.at("events.events"), true);
    EXPECT_EQ(table.settings.at("audit.on_states").dump(), R"({"done":true})");
    EXPECT_EQ(read_one.diagram.title, "Jobs");
}

TEST(FrontMatter, OfNoneTheFileNamesTheMachine) {
    EXPECT_EQ(read("").machine, "jobs");
    EXPECT_TRUE(read("").tables.empty());
    EXPECT_EQ(read("title: a\nconfig: {theme: dark}\n").machine, "jobs") << "Mermaid's own keys are left alone";
}

TEST(FrontMatter, BytesOfEditors) {
    std::string text = "\xEF\xBB\xBF---\npawl:\n  machine: job\n---\n" + diagram;
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\r\n");
    const Lifecycle lifecycle = read_lifecycle("a.mmd", text);
    EXPECT_EQ(lifecycle.machine, "job");
    EXPECT_EQ(lifecycle.text.find('\r'), std::string::npos);
    EXPECT_THROW(read_lifecycle("a.mmd", "\xff\xfe"), FileError);
    EXPECT_THROW(read_lifecycle("a.mmd", std::string("a\0b", 3)), FileError);
}

TEST(FrontMatter, ErrorsHaveTheirPlace) {
    EXPECT_EQ(problem("pawl:\n  machin: job\n"), "jobs.mmd:3:3: unknown key \"machin\"");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - table: a\n      column: b\n      logg: true\n"),
              "jobs.mmd:6:7: unknown key \"logg\"");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - {table: a, column: b, log: {chain: true}}\n"),
              "jobs.mmd:4:35: unknown key \"chain\"");
    EXPECT_EQ(problem("pawl:\n  machine: a\n  machine: b\n"), "jobs.mmd:4:3: key \"machine\" is there twice");
    EXPECT_EQ(problem("pawl:\n  machine: [a\n"), "jobs.mmd:4:1: invalid YAML: end of sequence flow not found");
    EXPECT_EQ(problem("pawl: 1\n"), "jobs.mmd:2:7: pawl must be a map of keys and values");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - table: a\n"),
              "jobs.mmd:4:7: an entry of tables needs the key \"column\"");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - {table: a b, column: c}\n"),
              "jobs.mmd:4:15: \"a b\" is not the name of a table");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - {table: a, column: c, on_delete: never}\n"),
              "jobs.mmd:4:40: unknown value \"never\" of on_delete");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - {table: a, column: c, always: yes}\n"),
              "jobs.mmd:4:37: always must be true or false, not \"yes\"");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - {table: a, column: c, queue: {lease: l}}\n"),
              "jobs.mmd:4:36: queue needs the key \"owner\"");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - {table: a, column: c, claiming: {claim: [begin]}}\n"),
              "jobs.mmd:4:47: the diagram has no event \"begin\", which claiming.claim names");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - {table: a, column: c, audit: {on_states: {done: true}}}\n"),
              "jobs.mmd:4:36: an audit needs a log");
    EXPECT_EQ(problem("pawl:\n  remap: {ready: done}\n"),
              "jobs.mmd:3:11: state \"ready\" of remap is still in the diagram");
    EXPECT_EQ(problem("pawl:\n  remap: {old: gone}\n"), "jobs.mmd:3:11: the diagram has no state \"gone\" to remap to");
    EXPECT_EQ(problem("pawl:\n  tables:\n    - &a {table: a, column: c}\n    - <<: *a\n"),
              "jobs.mmd:5:7: unknown key \"<<\"");
}

TEST(FrontMatter, ErrorsOfTheDiagramHaveTheLineOfTheFile) {
    EXPECT_EQ(problem("pawl:\n  machine: job\n", "flowchart TD\n").substr(0, 15), "jobs.mmd:5:1: e");
    EXPECT_EQ(problem("", "---\npawl:\n"), "jobs.mmd:1:1: the front matter is not closed: expected '---'");
    EXPECT_NE(problem("", "just text"), "");
    EXPECT_NE(problem("", ""), "");
}

TEST(FrontMatter, HostileYamlIsAnErrorAndNoCrash) {
    EXPECT_NE(problem("pawl:\n  machine: " + std::string(3000, '[') + "\n"), "");
    std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
    for (char name = 'b'; name < 'k'; ++name)
        bomb += std::string(1, name) + ": &" + name + " [" + std::string("*") + static_cast<char>(name - 1) + ",*" +
                static_cast<char>(name - 1) + "]\n";
    EXPECT_NE(problem(bomb + "pawl:\n  tables: *j\n"), "");
    EXPECT_NE(problem("pawl:\n  machine: \"a\\0b\"\n"), "");
    EXPECT_NE(problem("x: " + std::string(300'000, 'x') + "\n"), "");
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
    for (char name = 'b'; name < 'k'; ++name) {
        bomb += std::string(1, name) + ": &" + name + " [";
        for (int i = 0; i < 10; ++i) bomb += std::string(i > 0 ? ",*" : "*") + static_cast<char>(name - 1);
        bomb += "]\n";
    }
    const std::string table = "pawl:\n  tables:\n    - {table: a, column: c, claiming: {backoff: {base: *";
    const std::string too_much = "the front matter has more than 10000 values, or 1 MB of text, with its aliases";
    EXPECT_TRUE(problem(bomb + table + "j}}}\n").ends_with(too_much));
    std::string many;
    for (int i = 0; i < 50; ++i) many += ",*x";
    EXPECT_TRUE(problem("x: &x " + std::string(30'000, 'x') + "\n" + table + "x, more: [*x" + many + "]}}}\n")
                    .ends_with(too_much));
}

TEST(FrontMatter, OneMachineAndOneColumnInOneFileOnly) {
    const auto named = [](const std::string& file, const std::string& front) {
        return read_lifecycle(file, "---\n" + front + "---\n" + diagram);
    };
    const std::string table = "pawl:\n  tables: [{table: jobs, column: state}]\n";
    EXPECT_THROW(check_together({named("a.mmd", "pawl: {machine: x}\n"), named("b.mmd", "pawl: {machine: x}\n")}),
                 FileError);
    EXPECT_THROW(check_together({named("a.mmd", table), named("b.mmd", table)}), FileError);
    EXPECT_NO_THROW(check_together({named("a.mmd", table), named("b.mmd", "pawl: {}\n")}));
}

TEST(SqlText, NamesAndNotations) {
    EXPECT_EQ(relation_name("Orders"), "orders");
    EXPECT_EQ(relation_name("\"Orders\".\"a\"\"b\""), "\"Orders\".\"a\"\"b\"");
    for (const char* wrong : {"", "a.", ".a", "a.b.c", "a b", "\"", "\"\"", "1a", "a;drop"})
        EXPECT_EQ(relation_name(wrong), std::nullopt) << wrong;
    EXPECT_EQ(claim_order("a, B DESC,c asc"), "a, b desc, c");
    for (const char* wrong : {"", "a,", "a b", "a desc desc", "a nulls first", "1"})
        EXPECT_EQ(claim_order(wrong), std::nullopt) << wrong;
    EXPECT_EQ(log_partition("Range ( id , \"T\" )"), "range (id, \"T\")");
    for (const char* wrong : {"", "range", "range ()", "hash (id)", "hash (id) partitions x", "list (a) partitions 3"})
        EXPECT_EQ(log_partition(wrong), std::nullopt) << wrong;
    EXPECT_EQ(literal("it's"), "'it''s'");
    EXPECT_EQ(literal("a\\b"), "E'a\\\\b'");
    EXPECT_EQ(dollar_quoted("x"), "$mermaid$x$mermaid$");
    EXPECT_EQ(dollar_quoted("$mermaid$"), "$mermaid1$$mermaid$$mermaid1$");
    EXPECT_EQ(dollar_quoted("ends with $mermaid"), "$mermaid1$ends with $mermaid$mermaid1$");
    EXPECT_EQ(dollar_quoted("a $upgrade$; b", "upgrade"), "$upgrade1$a $upgrade$; b$upgrade1$");
}

// What ends a line for psql, Python, Ruby or a terminal.
const std::vector<std::string> line_ends{"\n",   "\r",       "\r\n",         "\v",          "\f",
                                         "\x1c", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};

TEST(FrontMatter, NamesOfMachinesHaveNoControlCharacters) {
    for (const char* end : {"\\r", "\\n", "\\t", "\\e", "\\x7f", "\\N", "\\L", "\\P"})
        EXPECT_EQ(problem(std::string("pawl:\n  machine: \"a") + end + "b\"\n"),
                  "jobs.mmd:3:12: the name of a machine must not contain control characters");
    EXPECT_THROW(read_lifecycle("a\rb.mmd", diagram), FileError);
    EXPECT_EQ(read("pawl:\n  machine: \"d\u00e9j\u00e0 vu\"\n").machine, "d\u00e9j\u00e0 vu");
}

TEST(OneLine, EscapesWhateverEndsALine) {
    for (const std::string& end : line_ends) {
        const std::string line = one_line("a" + end + "b");
        for (const std::string& other : line_ends) EXPECT_EQ(line.find(other), std::string::npos) << line;
    }
    EXPECT_EQ(one_line("a\r\n\tb\xE2\x80\xA8"), "a\\x0d\\x0a\\x09b\\u2028");
    EXPECT_EQ(one_line("d\u00e9j\u00e0 vu"), "d\u00e9j\u00e0 vu");
}

TEST(Migration, NoNameLeavesItsComment) {
    for (const std::string& end : line_ends) {
        const std::string name = "m" + end + "OUTSIDE" + end;
        Plan plan;
        plan.database = name;
        plan.fingerprint = "0123456789abcdef";
        plan.steps.push_back({.what = "define", .title = name, .details = {name}, .sql = "select 1"});
        plan.steps.back().locks.push_back({name, "SHARE"});
        for (const char* format : {"psql", "flyway", "rails", "django", "alembic"}) {
            const std::string text = migration_text(plan, format, "app.\"" + name);
            for (std::size_t at = 0; (at = text.find("OUTSIDE", at)) != std::string::npos; ++at)
                EXPECT_EQ(std::count(line_ends.begin(), line_ends.end(), text.substr(at - end.size(), end.size())), 0)
                    << format << ": " << text;
        }
        EXPECT_EQ(plan_text(plan, false).find(end + "OUTSIDE"), std::string::npos);
    }
}

TEST(Migration, NoTextEndsTheStringThatHoldsIt) {
    Plan plan;
    plan.fingerprint = "0123456789abcdef";
    plan.steps.push_back({.what = "define", .title = "t", .details = {}, .sql = "select '\nSQL\r\nSQL_\n\"\"\"\r'"});
    const std::string rails = migration_text(plan, "rails", "");
    EXPECT_NE(rails.find("execute <<'SQL__'\n"), std::string::npos) << rails;
    EXPECT_EQ(migration_text(plan, "alembic", "").find('\r'), std::string::npos) << "Python takes it for a line end";
    EXPECT_EQ(migration_text(plan, "django", "").find("\"\"\"\""), std::string::npos);
}

// What pull writes is read as what it was, whatever YAML takes plain words for.
TEST(Pull, WritesNamesThatAreReadAgain) {
    for (const char* name :
         {"Null", "NULL", "null", "TRUE", "Yes", "off", "n", "NaN", "inf", "Infinity", "~", "1", "a b"}) {
        PresentBinding binding;
        binding.table = "jobs";
        binding.column = name;
        binding.settings = initial_settings();
        binding.settings["key"] = Json::array({name});
        binding.settings["claiming.backoff"] = Json{{name, name}};
        const Lifecycle lifecycle = read_lifecycle("jobs.mmd", lifecycle_text(name, "reject", diagram, {binding}));
        EXPECT_EQ(lifecycle.machine, name);
        ASSERT_EQ(lifecycle.tables.size(), 1U);
        EXPECT_EQ(lifecycle.tables[0].column, name);
        EXPECT_EQ(lifecycle.tables[0].settings.at("key"), binding.settings["key"]);
        EXPECT_EQ(lifecycle.tables[0].settings.at("claiming.backoff"), binding.settings["claiming.backoff"]);
    }
}

}  // namespace
}  // namespace pawl::cli
