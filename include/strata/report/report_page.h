// The report of runs as one HTML file that needs nothing else: no network, no other file. The page
// is src/report/page.html with its style sheet and scripts, and the data as JSON inside it.

#pragma once

#include <string>
#include <vector>

#include "strata/report/run_history.h"

namespace strata {

/// What a page says of itself.
struct PageOrigin {
  std::string program{};  ///< such as "strata 0.1.0 (0123456789ab)"
  std::string made{};     ///< a date and time, for people
};

/// Returns the whole page. Texts of the runs cannot leave the strings that they stand in, whatever
/// they hold.
[[nodiscard]] std::string report_page(std::vector<RunHistory> runs, const PageOrigin& origin);

}  // namespace strata
