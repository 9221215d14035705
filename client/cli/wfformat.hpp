// May throw WfFormatError. Workflows of the WfCommons collection (WfFormat 1.4 and 1.5) as templates of pawl_dag.
#pragma once

#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace pawl::cli {

class WfFormatError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

struct ImportOptions {
    std::string name;  // default: the workflow's own
    std::string name_space = "default";
    std::string version = "1.0.0";
    std::string handler =
        "sleep";  // every step gets it; handler_options has "seconds", the recorded run time, and "program"
};

// What pawl_dag.define_template takes.
nlohmann::json import_wfformat(const nlohmann::json& workflow, const ImportOptions& options);

// The longest way through the recorded run times, in seconds: no run can be shorter.
double critical_path(const nlohmann::json& definition);

}  // namespace pawl::cli
