# Writes the C++ source OUTPUT with the parts of the page that lie in SOURCE, as raw strings:
#
#   cmake -DSOURCE=... -DOUTPUT=... -P embed_page.cmake
#
# The scripts become one, in an order in which each finds what it calls.
file(READ ${SOURCE}/page.html html)
file(READ ${SOURCE}/page.css style)
set(script "")
foreach(part elements axes chart bars timeline sections page)
  file(READ ${SOURCE}/${part}.js text)
  string(APPEND script "${text}")
endforeach()
set(open "R\"strata_page(")
set(close ")strata_page\"")
file(WRITE ${OUTPUT} "// Written by embed_page.cmake.

#include \"report/page_parts.h\"

namespace strata {

const std::string_view kPageTemplate = ${open}${html}${close};
const std::string_view kPageStyle = ${open}${style}${close};
const std::string_view kPageScript = ${open}${script}${close};

}  // namespace strata
")
