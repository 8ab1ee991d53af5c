// Holds docs/config.md to what the program says of its keys, and the help texts to sentences.

#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "strata/base/fields.h"
#include "strata/config/config.h"
#include "support/catch.h"
#include "support/places.h"

namespace {

struct Help {
  std::string key;
  std::string text;
};

void collect(const strata::FieldList& fields, const std::string& prefix, std::vector<Help>& help) {
  for (const strata::Field& field : fields.all()) {
    help.push_back({prefix + field.key, field.description});
    if (field.section) collect(field.section(), prefix + field.key + '.', help);
  }
}

}  // namespace

TEST_CASE("docs/config.md is what the program says of its keys") {
  std::ifstream in(strata::test::documents_folder() + "/config.md", std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  INFO("docs/config.md is not up to date; run " << strata::kConfigReferenceCommand);
  CHECK((page == strata::config_reference()));  // without two pages of text in the message
}

TEST_CASE("every key has a help text of whole sentences that no other key has") {
  strata::RunConfig config;
  std::vector<Help> help;
  collect(strata::fields_of(config), "", help);
  std::set<std::string> texts;
  for (const Help& h : help) {
    CAPTURE(h.key, h.text);
    CHECK((!h.text.empty() && h.text.back() == '.'));
    CHECK((h.text.starts_with("experimental: ") ||
           std::isupper(static_cast<unsigned char>(h.text.front())) != 0));
    CHECK(texts.insert(h.text).second);
  }
}
