// What the scripts of a report's page draw, as JSON.

#pragma once

#include <string>
#include <vector>

#include "strata/report/report_page.h"

namespace strata {

/// Returns the data as JSON in which no "<" stands, so that it can stand inside of a page.
[[nodiscard]] std::string page_data(std::vector<RunHistory> runs, const PageOrigin& origin);

}  // namespace strata
