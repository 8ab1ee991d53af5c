// Throws the error of rules that make too much of a text.

#include "tokenizer/text_budget.h"

#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {

void TextBudget::fail() const {
  const auto count = [](std::size_t bytes) {
    return format_count(static_cast<std::int64_t>(bytes)) + " bytes";
  };
  const std::string limit =
      kept_ + written_ > most()
          ? "grow to more than " + count(most())
          : "be rewritten until more than " + count(kRewrites * most()) + " were written";
  throw ConfigError(std::string(place_) + ": this rule and those before it make a text of " +
                    count(bytes_) + ' ' + limit +
                    "; take such rules out of the file, or the file from another place");
}

}  // namespace strata
