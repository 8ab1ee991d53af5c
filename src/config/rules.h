// What the rules between keys of a run config have in common, and those of its step, which
// config_rules.cpp checks with all others.
#pragma once

#include <string>
#include <string_view>

#include "strata/base/fields.h"
#include "strata/config/config.h"

namespace strata {

/// Collects problems of one section, so that rules read as one line each.
class Rules {
 public:
  Rules(ConfigProblems& problems, std::string_view section)
      : problems_(problems), prefix_(std::string(section) + '.') {}

  void refuse_if(bool wrong, std::string_view key, std::string_view text) {
    if (wrong) problems_.add(prefix_ + std::string(key), text);
  }

 private:
  ConfigProblems& problems_;
  std::string prefix_;
};

/// Checks the section train, and what pairs of answers need of others.
void check_train(const RunConfig& c, ConfigProblems& problems);
/// Checks the section schedule: how a step is divided and what of it is where.
void check_schedule(const RunConfig& c, Rules r);
/// Checks the section optimizer.
void check_optimizer(const RunConfig& c, ConfigProblems& problems);
/// Checks what optimizer.gradient_ring needs of other keys.
void check_gradient_ring(const RunConfig& c, Rules r);

}  // namespace strata
