// Results for people (a table) and machines (JSON), and as a page with curves.
#pragma once

#include "apps/lab/runner.h"

#include <string>
#include <vector>

namespace troupe::lab {

const char* semantics_name(Semantics semantics);
/// One block per size, best hit ratio marked with a star (the offline bound apart).
std::string table(const Trace& trace, const Plan& plan, const std::vector<Result>& results);
std::string json(const Trace& trace, const Plan& plan, const std::vector<Result>& results);
std::string html(const Trace& trace, const Plan& plan, const std::vector<Result>& results);
/// `text` as the inside of a JSON string.
std::string json_escaped(const std::string& text);

}  // namespace troupe::lab
