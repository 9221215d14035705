// May throw. See command_line.hpp.
#include "command_line.hpp"

#include <utility>

#include <CLI/CLI.hpp>

namespace pawl::cli {

void usage_error(const std::string& problem) {
    throw CLI::ValidationError(problem);
}

void usage_error(const std::string& option, const std::string& problem) {
    throw CLI::ValidationError(option, problem);
}

Option* Option::required() {
    option_->required();
    return this;
}

Option* Option::delimiter(char delimiter) {
    option_->delimiter(delimiter);
    return this;
}

Option* Option::check(const Range& range) {
    option_->check(CLI::Range(range.from, range.to));
    return this;
}

Option* Option::check(const IsMember& values) {
    option_->check(CLI::IsMember(values.values));
    return this;
}

Command* Command::add_subcommand(const std::string& name, const std::string& meaning) {
    return commands_.emplace_back(std::make_unique<Command>(app_->add_subcommand(name, meaning))).get();
}

void Command::require_subcommand(int count) {
    app_->require_subcommand(count);
}

void Command::callback(std::function<void()> body) {
    app_->callback(std::move(body));
}

Option* Command::kept(CLI::Option* option) {
    return options_.emplace_back(std::make_unique<Option>(option)).get();
}

Option* Command::add_option(const std::string& name, std::string& into, const std::string& meaning) {
    return kept(app_->add_option(name, into, meaning));
}

Option* Command::add_option(const std::string& name, int& into, const std::string& meaning) {
    return kept(app_->add_option(name, into, meaning));
}

Option* Command::add_option(const std::string& name, std::size_t& into, const std::string& meaning) {
    return kept(app_->add_option(name, into, meaning));
}

Option* Command::add_option(const std::string& name, std::optional<std::string>& into, const std::string& meaning) {
    return kept(app_->add_option(name, into, meaning));
}

Option* Command::add_option(const std::string& name, std::optional<int>& into, const std::string& meaning) {
    return kept(app_->add_option(name, into, meaning));
}

Option* Command::add_option(const std::string& name, std::vector<std::string>& into, const std::string& meaning) {
    return kept(app_->add_option(name, into, meaning));
}

Option* Command::add_flag(const std::string& name, bool& into, const std::string& meaning) {
    return kept(app_->add_flag(name, into, meaning));
}

}  // namespace pawl::cli
