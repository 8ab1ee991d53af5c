// Takes a report's page apart: the data that it holds, as a browser would find them.

#pragma once

#include <string>

#include "support/catch.h"
#include "support/json.h"

namespace strata::test {

/// Returns the data of a page: what stands between the script tag with this id and the first end of
/// a script behind it, which is where a browser stops.
inline nlohmann::json page_data_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin);
  REQUIRE(at != std::string::npos);
  const std::size_t end = page.find("</script", at);
  REQUIRE(end != std::string::npos);
  return parse_json<nlohmann::json>(page.substr(at + begin.size(), end - at - begin.size()));
}

}  // namespace strata::test
