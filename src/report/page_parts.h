// The parts of a report's page, which the build takes from page.html, page.css and the scripts
// beside them (embed_page.cmake).

#pragma once

#include <string_view>

namespace strata {

extern const std::string_view kPageTemplate;  ///< with @TITLE@, @STYLE@, @DATA@ and @SCRIPT@
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace strata
