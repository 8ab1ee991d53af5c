// Fills the template of the page of a report. What is filled in is not looked at again, so that
// data which look like a place of the template stay what they are.

#include "strata/report/report_page.h"

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "report/page_data.h"
#include "report/page_parts.h"
#include "strata/base/text.h"

namespace strata {

namespace {

/// Returns a text as HTML.
std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      case '"': html += "&quot;"; break;
      case '\'': html += "&#39;"; break;
      default: html += c;
    }
  }
  return html;
}

std::string title_of(const std::vector<RunHistory>& runs) {
  std::string title;
  for (const RunHistory& run : runs)
    title += (title.empty() ? "" : ", ") + printable_name(run.name);
  return title + " - strata report";
}

}  // namespace

std::string report_page(std::vector<RunHistory> runs, const PageOrigin& origin) {
  const std::string title = escaped(title_of(runs));
  const std::string data = page_data(std::move(runs), origin);
  const std::array<std::pair<std::string_view, std::string_view>, 4> parts{
      {{"@TITLE@", title}, {"@STYLE@", kPageStyle}, {"@DATA@", data}, {"@SCRIPT@", kPageScript}}};
  std::string page;
  page.reserve(kPageTemplate.size() + kPageStyle.size() + data.size() + kPageScript.size());
  std::string_view rest = kPageTemplate;
  for (const auto& [place, text] : parts) {  // in the order in which they stand there
    const std::size_t at = rest.find(place);
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + place.size());
  }
  page += rest;
  return page;
}

}  // namespace strata
