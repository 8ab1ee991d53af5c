// How samples are cut to the memory that is idle between steps: as many at once as there is room
// for, in smaller pieces before fewer at once. Keys and values are counted by hand.

#include "strata/plan/sample_setup.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/bytes.h"
#include "support/catch.h"
#include "support/tiny_config.h"

namespace strata {
namespace {

/// The tiny model, with room for long texts, drawing 24 tokens after each prompt.
RunConfig config_with(const std::vector<std::string>& prompts) {
  RunConfig config = test::tiny_config();
  config.model.llama.max_position_embeddings = 1000;
  config.run.sample_prompts = prompts;
  config.run.sample_tokens = 24;
  return config;
}

/// Four prompts, each of 64 tokens with what stands around it and what is drawn.
RunConfig four() { return config_with({"a", "b", "c", std::string(32, 'd')}); }

/// Returns the bytes of keys and values of so many sequences of 64 tokens: of 3 layers, and 12
/// columns (K * D) in f64 each.
constexpr std::size_t kv_bytes(std::size_t sequences) { return sequences * 3 * 64 * 2 * 12 * 8; }

}  // namespace

TEST_CASE("a sample has room for its prompt, a token a byte, and for what is drawn") {
  CHECK(sample_context(config_with({})) == 8 + 24);
  CHECK(sample_context(config_with({"four", "seven b"})) == 7 + 8 + 24);
  CHECK(sample_context(config_with({"\u00e9\u00e9"})) == 4 + 8 + 24);  // two bytes each
  // Around the messages of a conversation a template writes more, not around text like JSON.
  const std::string conversation = R"({"messages": []})";
  CHECK(sample_context(config_with({conversation})) == 16 + 256 + 24);
  CHECK(sample_context(config_with({R"({"message": "s"})"})) == 16 + 8 + 24);
  // No sequence is longer than the model takes.
  CHECK(sample_context(config_with({std::string(999, 'x')})) == 1000);
}

TEST_CASE("there is a sample for each prompt, and one without any") {
  CHECK(samples_at_once(config_with({}).run) == 1);
  CHECK(samples_at_once(config_with({"a"}).run) == 1);
  CHECK(samples_at_once(config_with({"a", "b", "a"}).run) == 3);
}

TEST_CASE("all samples go at once where there is room, with keys and values on the device") {
  const SampleLayout s = make_sample_setup(four(), kGiB);
  CHECK(s.sequences == 4);
  CHECK(s.fits());
  CHECK(s.kv.slots == 0);
  CHECK(s.sizes.positions == 64);
  CHECK(s.sizes.cell_tokens == 4 * 64);
  CHECK(s.plan.bytes(Space::kDevice, "kv") == kv_bytes(4));
  CHECK(s.pinned_bytes == s.plan.total(Space::kPinned));
  CHECK(sample_shortage(s).empty());
  CHECK_THAT(samples_text(s), ContainsSubstring("4 at once of up to 64 tokens, in ") &&
                                  ContainsSubstring(" of 1 GiB that are idle"));
}

TEST_CASE("with less idle memory pieces become smaller, then fewer samples go at once") {
  const SampleLayout all = make_sample_setup(four(), kGiB);
  const std::size_t needed = all.plan.total(Space::kDevice);
  CHECK(make_sample_setup(four(), needed).sizes.cell_tokens == 4 * 64);
  const SampleLayout less = make_sample_setup(four(), needed - 1);
  CHECK(less.fits());
  CHECK(less.sequences == 4);
  CHECK(less.sizes.cell_tokens < 4 * 64);
  // What keys and values alone exceed holds fewer sequences.
  std::int64_t most = 4;
  for (std::size_t idle = needed; idle > 0; idle -= std::min<std::size_t>(idle, 512)) {
    const SampleLayout s = make_sample_setup(four(), idle);
    if (!s.fits()) break;
    CAPTURE(idle, s.sequences);
    CHECK(s.sequences <= most);
    CHECK(kv_bytes(static_cast<std::size_t>(s.sequences)) < idle);
    CHECK(s.plan.total(Space::kDevice) <= idle);
    // Pinned memory is taken before anybody knows what is idle.
    CHECK(s.pinned_bytes == all.pinned_bytes);
    most = s.sequences;
  }
  CHECK(most == 1);
}

TEST_CASE("a sample that does not fit by itself is refused with its keys") {
  const SampleLayout s = make_sample_setup(four(), kv_bytes(1));
  CHECK_FALSE(s.fits());
  CHECK(s.sequences == 1);
  const std::string refusal = sample_shortage(s);
  CHECK_THAT(refusal, ContainsSubstring("run.sample_every: a sample of 64 tokens takes "));
  CHECK_THAT(refusal, ContainsSubstring("36 KiB are idle there between steps"));
  CHECK_THAT(refusal, ContainsSubstring("lower run.sample_tokens"));
}

}  // namespace strata
