// May throw. Declares a command line: the part of CLI11 that `pawl` needs. CLI11 is slow to compile, so only main.cpp
// and command_line.cpp include it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace pawl::cli {

// Ends the program with the exit code `usage` and a message.
[[noreturn]] void usage_error(const std::string& problem);
[[noreturn]] void usage_error(const std::string& option, const std::string& problem);

struct Range {
    int from, to;  // inclusive
};

struct IsMember {
    std::vector<std::string> values;
};

class Option {
public:
    explicit Option(CLI::Option* option) : option_(option) {}

    Option* required();
    Option* delimiter(char delimiter);  // between several values in one argument
    Option* check(const Range& range);
    Option* check(const IsMember& values);

private:
    CLI::Option* option_;
};

// The program, or a command of it. Owns the commands and options below it; the variables must outlive the parsing.
class Command {
public:
    explicit Command(CLI::App* app) : app_(app) {}

    CLI::App* app() const { return app_; }

    Command* add_subcommand(const std::string& name, const std::string& meaning);
    void require_subcommand(int count);
    void callback(std::function<void()> body);

    // A name without dashes is an argument by position. The value of the variable is the default.
    Option* add_option(const std::string& name, std::string& into, const std::string& meaning);
    Option* add_option(const std::string& name, int& into, const std::string& meaning);
    Option* add_option(const std::string& name, std::size_t& into, const std::string& meaning);
    Option* add_option(const std::string& name, std::optional<std::string>& into, const std::string& meaning);
    Option* add_option(const std::string& name, std::optional<int>& into, const std::string& meaning);
    Option* add_option(const std::string& name, std::vector<std::string>& into, const std::string& meaning);
    Option* add_flag(const std::string& name, bool& into, const std::string& meaning);

private:
    Option* kept(CLI::Option* option);

    CLI::App* app_;
    std::vector<std::unique_ptr<Command>> commands_;
    std::vector<std::unique_ptr<Option>> options_;
};

}  // namespace pawl::cli
