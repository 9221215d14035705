// Pure C++; throws only bad_alloc. See migration.hpp.
#include "lifecycle/migration.hpp"

#include "terminal_text.hpp"

namespace pawl::cli {
namespace {

// Names of files and databases are data: a line end in one must not end the comment.
std::string commented(const std::string& text, const std::string& mark) {
    return mark + one_line(text) + '\n';
}

// Comments above a step: what it does, which locks it takes.
std::string comments_of(const Step& step, const std::string& mark) {
    std::string text = commented(step.title, mark);
    for (const std::string& detail : step.details) text += commented(detail, mark + "  ");
    for (const Lock& lock : step.locks) text += commented("lock: " + lock.table + " " + lock.mode, mark + "  ");
    return text;
}

std::string head_of(const Plan& plan, const std::string& mark) {
    return commented("Lifecycles, by pawl sql for database " + plan.database + ". Can be run again.", mark);
}

std::string statements(const Plan& plan) {
    std::string text;
    for (const Step& step : plan.steps) text += "\n" + comments_of(step, "-- ") + step.sql + ";\n";
    return text;
}

std::string psql_text(const Plan& plan) {
    return head_of(plan, "-- ") + "\\set ON_ERROR_STOP on\nbegin;\n" + statements(plan) + "\ncommit;\n";
}

// An end of a here document that no line of the text begins with: Ruby also ends it at a line with a carriage return.
std::string end_word(const std::string& text) {
    std::string word = "SQL";
    while (("\n" + text).find("\n" + word) != std::string::npos) word += "_";
    return word;
}

std::string rails_text(const Plan& plan) {
    std::string text = head_of(plan, "# ") + "class PawlLifecycles < ActiveRecord::Migration[6.1]\n  def up\n";
    for (const Step& step : plan.steps) {
        const std::string end = end_word(step.sql);
        text += comments_of(step, "    # ") + "    execute <<'" + end + "'\n" + step.sql + "\n" + end + "\n";
    }
    return text + "  end\n\n  def down\n    raise ActiveRecord::IrreversibleMigration\n  end\nend\n";
}

// A string of Python; with_colons: op.execute takes :name for a parameter.
std::string python_string(const std::string& sql, bool with_colons) {
    std::string text = "\"\"\"";
    for (const char c : sql) {
        if (c == '\\' || c == '"') text += '\\';
        if (c == ':' && !with_colons) text += "\\\\";
        if (c == '\r')
            text += "\\r";  // in a source it would be a line end
        else
            text += c;
    }
    return text + "\"\"\"";
}

// A string of Python in one line.
std::string python_word(const std::string& word) {
    std::string text = "\"";
    for (const char c : one_line(word)) {
        if (c == '\\' || c == '"') text += '\\';
        text += c;
    }
    return text + "\"";
}

std::string django_text(const Plan& plan, const std::string& after) {
    const auto dot = after.find('.');
    const std::string before = dot == std::string::npos ? ""
                                                        : "(" + python_word(after.substr(0, dot)) + ", " +
                                                              python_word(after.substr(dot + 1)) + ")";
    std::string text = head_of(plan, "# ") +
                       "from django.db import migrations\n\n\nclass Migration(migrations.Migration):\n"
                       "    dependencies = [" +
                       before + "]\n\n    operations = [\n";
    for (const Step& step : plan.steps)
        text += comments_of(step, "        # ") + "        migrations.RunSQL([(" + python_string(step.sql, true) +
                ", None)]),\n";
    return text + "    ]\n";
}

std::string alembic_text(const Plan& plan, const std::string& after) {
    std::string text =
        head_of(plan, "# ") + "from alembic import op\n\nrevision = \"" + plan.fingerprint.substr(0, 12) +
        "\"\ndown_revision = " + (after.empty() ? "None" : python_word(after)) + "\n\n\ndef upgrade():\n";
    for (const Step& step : plan.steps)
        text += comments_of(step, "    # ") + "    op.execute(" + python_string(step.sql, false) + ")\n";
    if (plan.steps.empty()) text += "    pass\n";
    return text + "\n\ndef downgrade():\n    raise NotImplementedError(\"lifecycles are changed by their files\")\n";
}

}  // namespace

std::string migration_text(const Plan& plan, const std::string& format, const std::string& after) {
    if (format == "rails") return rails_text(plan);
    if (format == "django") return django_text(plan, after);
    if (format == "alembic") return alembic_text(plan, after);
    return format == "flyway" ? head_of(plan, "-- ") + statements(plan) : psql_text(plan);
}

}  // namespace pawl::cli
