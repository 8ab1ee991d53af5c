// Failures travel as texts. read_together.h is the contract.

#include "train/read_together.h"

#include "strata/base/error.h"
#include "strata/checkpoint/load_state.h"
#include "strata/launch/rank_agreement.h"
#include "strata/train/resume.h"

namespace strata {

ReadFailure failure_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const DamagedFile& error) {
    return {.damage = error.what(), .refusal = {}};
  } catch (const DamagedCheckpoint&) {
    throw;
  } catch (const IoError& error) {
    return {.damage = {}, .refusal = error.what()};
  }
  return {};
}

void meet(const ReadFailure& own, Ranks& ranks) {
  fail_together(ranks, [&] {
    if (!own.refusal.empty()) throw IoError(own.refusal + std::string(kNameAnother));
  });
  for (const std::string& damage : gather_texts(own.damage, ranks)) {
    if (!damage.empty()) throw DamagedCheckpoint(damage);
  }
}

}  // namespace strata
