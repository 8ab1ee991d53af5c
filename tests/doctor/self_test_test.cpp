// The self-test must find nothing on a machine that is right, in its time, and each defect that is
// planted here must make the checks that it belongs to bad, and no other. Defects are wrapped
// around what the self-test is given: backends, ranks, files. The program has no switch for them.

#include "strata/doctor/self_test.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "doctor/golden_files.h"
#include "doctor/planted_device.h"
#include "doctor/planted_files.h"
#include "doctor/planted_ranks.h"
#include "doctor/self_test_checks.h"
#include "strata/base/bytes.h"
#include "strata/base/file.h"
#include "strata/model/safetensors.h"
#include "strata/op_checks/check_list.h"
#include "support/catch.h"
#include "support/passed_on_kernels.h"
#include "support/places.h"
#include "support/scratch_folder.h"
#include "support/thread_ranks.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

using Names = std::set<std::string>;

const Names kGolden{"golden model in f64", "golden model in f32", "golden model in bf16"};

Names with(Names names, const std::string& more) {
  names.insert(more);
  return names;
}

SelfTestOptions options_in(const ScratchFolder& folder) {
  return {.threads = 2, .scratch = folder.file("")};
}

/// Runs all checks of one rank in this process and returns which are bad; those must say what to
/// do.
Names bad_names(const SelfTestOptions& options) {
  const auto self = make_self_ranks();
  Names names;
  for (const Finding& finding : self_test(options, *self)) {
    CHECK(finding.found != "");
    CHECK((finding.verdict == Verdict::kOk) == finding.remedy.empty());
    if (finding.verdict == Verdict::kOk) continue;
    UNSCOPED_INFO(finding.name << ": " << finding.found);
    names.insert(finding.name);
  }
  return names;
}

Names bad_with(const std::function<Backend(BackendKind, const BackendOptions&)>& maker) {
  const ScratchFolder folder;
  SelfTestOptions options = options_in(folder);
  options.make_backend = maker;
  return bad_names(options);
}

template <class Defect>
Names bad_with_kernels() {
  return bad_with(with_kernels<Defect>());
}

bool odd(std::int64_t n) { return n % 2 == 1; }

template <class T>
T* last_of(const TensorView& view) {
  const std::int64_t last = (view.rows() - 1) * view.row_stride + view.shape.row_elements() - 1;
  return static_cast<T*>(view.data) + last;
}

/// Leaves the last column out where a row does not fill the lanes of a vector.
class SwigluWithoutTail final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 private:
  using PassedOnKernels::launch;
  void launch(Stream& stream, const SwigluForward& op) override {
    pass_on(stream, op, [y = op.y] {
      if (y && odd(y.shape[1])) {
        std::fill_n(static_cast<std::byte*>(y.data), size_of(y.dtype), std::byte{});
      }
    });
  }
};

/// Leaves the last of an odd number of products out.
class MatmulWithoutTail final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 private:
  using PassedOnKernels::launch;
  void launch(Stream& stream, const Matmul& op) override {
    Matmul shorter = op;
    if (op.layout == MatmulLayout::kNT && odd(op.k())) {
      shorter.a.shape = {op.m(), op.k() - 1};
      shorter.b.shape = {op.n(), op.k() - 1};
    }
    pass_on(stream, shorter);
  }
};

/// Rounds to bf16 by leaving bits out.
class CastThatTruncates final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 private:
  using PassedOnKernels::launch;
  void launch(Stream& stream, const Cast& op) override {
    pass_on(stream, op, [op] {
      if (op.x.dtype != DType::kF32 || op.y.dtype != DType::kBF16) return;
      for (std::int64_t i = 0; i < op.y.elements(); ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<const float*>(op.x.data)[i]);
        static_cast<std::uint16_t*>(op.y.data)[i] = static_cast<std::uint16_t>(bits >> 16);
      }
    });
  }
};

/// Writes a byte more than it should.
class NormThatWritesBeside final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 private:
  using PassedOnKernels::launch;
  void launch(Stream& stream, const RmsNormForward& op) override {
    pass_on(stream, op, [y = op.y] {
      if (!y || !odd(y.shape[1])) return;
      *reinterpret_cast<std::byte*>(last_of<Bf16>(y) + 1) ^= std::byte{1};
    });
  }
};

/// Adds in another order every other time.
class SumThatVaries final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 private:
  using PassedOnKernels::launch;
  void launch(Stream& stream, const EmbeddingBackward& op) override {
    const bool other = odd(++launches_);
    pass_on(stream, op, [d_table = op.d_table, other] {
      if (!other || !odd(d_table.shape[1]) || d_table.dtype != DType::kF32) return;
      auto* const value = static_cast<std::uint32_t*>(d_table.data);
      *value ^= 1;  // the last bit of a float
    });
  }
  std::int64_t launches_ = 0;
};

/// Leaves the gradients of rotated queries and keys as they are.
class AttentionThatNeverTurnsBack final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 private:
  using PassedOnKernels::launch;
  void launch(Stream& stream, const AttentionBackward& op) override {
    AttentionBackward without = op;
    without.rotation = {};
    pass_on(stream, without);
  }
};

/// Has no weight decay.
class AdamWithoutDecay final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 private:
  using PassedOnKernels::launch;
  void launch(Stream& stream, const AdamW& op) override {
    AdamW without = op;
    without.weight_decay = 0;
    pass_on(stream, without);
  }
};

}  // namespace

TEST_CASE("the self-test finds nothing on a cpu that is right", "[long]") {
  const ScratchFolder folder;
  CHECK(bad_names(options_in(folder)) == Names{});
}

TEST_CASE("the self-test runs every operator", "[long]") {
  const ScratchFolder folder;
  const std::vector<Finding> findings = check_operators(options_in(folder));
  REQUIRE(findings.size() == 1);
  CHECK_THAT(findings[0].found,
             ContainsSubstring(std::to_string(kOperatorNames.size()) + " in f32 and bf16"));
}

TEST_CASE("the goldens that the program carries are those of the tests") {
  const ScratchFolder folder;
  for (const GoldenFile& file : kGoldenFiles) {
    folder.write(std::string(file.name), std::string(file.bytes));
  }
  const std::filesystem::path goldens = goldens_folder() + "/gqa_tied_llama3";
  CHECK(read_text_file(folder.file("config.json"), kMiB) ==
        read_text_file(goldens / "config.json", kMiB));
  CHECK(read_text_file(folder.file("model.safetensors"), kMiB) ==
        read_text_file(goldens / "model.safetensors", kMiB));
  const SafetensorsFile carried(folder.file("self_test.safetensors"));
  const SafetensorsFile whole(goldens / "expected.safetensors");
  const auto same = [&]<class T>(const std::string& name, T zero) {
    std::vector<T> got(static_cast<std::size_t>(carried.info(name).elements), zero);
    std::vector<T> want(static_cast<std::size_t>(whole.info(name).elements), zero);
    carried.read(name, 0, std::span(got));
    whole.read(name, 0, std::span(want));
    CHECK(got == want);
  };
  CHECK(carried.tensors().size() == 15);
  for (const std::string& name : carried.tensors()) {
    INFO(name);
    CHECK(carried.info(name).shape == whole.info(name).shape);
    if (name == "tokens" || name == "targets" || name == "positions") {
      same(name, std::int32_t{0});
    } else {
      same(name, 0.0);
    }
  }
}

TEST_CASE("the program is killed and goes on with its own bits", "[long]") {
  const ScratchFolder folder;
  SelfTestOptions options = options_in(folder);
  options.program = strata_program();
  const std::vector<Finding> findings = check_kill(options);
  REQUIRE(findings.size() == 1);
  INFO(findings[0].found);
  CHECK(findings[0].verdict == Verdict::kOk);
}

TEST_CASE("a program that forgets its checkpoint when it goes on is found", "[long]") {
  const ScratchFolder folder;
  SelfTestOptions options = options_in(folder);
  options.program =
      folder.write("forgetful",
                   "#!/bin/sh\ncase \"$*\" in *--resume*) set -- \"$1\" \"$2\" \"$3\" "
                   "\"$4\" --overwrite --set run.seed=2;; esac\nexec " +
                       strata_program() + " \"$@\"\n");
  std::filesystem::permissions(options.program, std::filesystem::perms::owner_all);
  const std::vector<Finding> findings = check_kill(options);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kBad);
  CHECK_THAT(findings[0].found, ContainsSubstring("another checkpoint"));
}

TEST_CASE("a program that cannot train is found, with what it said") {
  const ScratchFolder folder;
  SelfTestOptions options = options_in(folder);
  options.program = folder.write("broken", "#!/bin/sh\necho no luck today\nexit 3\n");
  std::filesystem::permissions(options.program, std::filesystem::perms::owner_all);
  const std::vector<Finding> findings =
      guarded("kill and resume", options.backend, [&] { return check_kill(options); });
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kBad);
  CHECK_THAT(findings[0].found, ContainsSubstring("no luck today"));
}

TEST_CASE("collectives of several ranks are exact, and those that forget a rank are found") {
  for (const bool forgetful : {false, true}) {
    INFO("forgetful: " << forgetful);
    std::mutex mutex;
    std::vector<std::string> all;
    run_ranks(3, [&](Ranks& group) {
      ForgetfulRanks spoilt(group);
      Ranks& ranks = forgetful ? static_cast<Ranks&>(spoilt) : group;
      const ScratchFolder folder;
      for (const Finding& finding : check_collectives(options_in(folder), ranks)) {
        const std::lock_guard lock(mutex);
        all.push_back(std::string(name_of(finding.verdict)) + " " + finding.found);
      }
    });
    REQUIRE(all.size() == 3);
    for (const std::string& finding : all) {
      CHECK_THAT(finding, forgetful ? ContainsSubstring("bad rank 0: reduce_scatter of 1 values")
                                    : ContainsSubstring("ok sums and gathers of 3 ranks"));
    }
  }
}

TEST_CASE("an operator that leaves out the tail of a row is found", "[long]") {
  CHECK(bad_with_kernels<SwigluWithoutTail>() == Names{"operator swiglu_forward"});
}

TEST_CASE("a matrix product that leaves out its last term is found", "[long]") {
  CHECK(bad_with_kernels<MatmulWithoutTail>() == Names{"operator matmul"});
}

TEST_CASE("a cast that truncates is found", "[long]") {
  CHECK(bad_with_kernels<CastThatTruncates>() == Names{"operator cast", "streamed and resident"});
}

TEST_CASE("an operator that writes beside its output is found", "[long]") {
  CHECK(bad_with_kernels<NormThatWritesBeside>() == Names{"operator rmsnorm_forward"});
}

TEST_CASE("a sum whose bits vary from run to run is found", "[long]") {
  CHECK(bad_with_kernels<SumThatVaries>() == Names{"operator embedding_backward"});
}

TEST_CASE("a rotation that is never turned back is found, and spoils training", "[long]") {
  CHECK(bad_with_kernels<AttentionThatNeverTurnsBack>() ==
        with(kGolden, "operator attention_backward"));
}

TEST_CASE("an optimizer without weight decay is found, and spoils training", "[long]") {
  CHECK(bad_with_kernels<AdamWithoutDecay>() ==
        Names{"operator adamw", "golden model in f64", "golden model in f32"});
}

TEST_CASE("a clip by the square of the norm is found", "[long]") {
  const auto self = make_self_ranks();
  WronglyClippingRanks ranks(*self);
  const ScratchFolder folder;
  SelfTestOptions options = options_in(folder);
  options.single_ranks = &ranks;
  CHECK(bad_names(options) == kGolden);
}

TEST_CASE("a dropped wait is found", "[long]") {
  for (const WaitFor why : {WaitFor::kFilled, WaitFor::kReuse, WaitFor::kUpdated, WaitFor::kArrived,
                            WaitFor::kTaken, WaitFor::kDecided}) {
    INFO(std::string(name_of(why)));
    const auto dropping = [why](BackendKind kind, const BackendOptions& options) {
      BackendOptions dropped = options;
      dropped.device.omit_wait = why;
      dropped.device.execution = Execution::kEager;  // so that the race is won, and yet found
      return make_backend(kind, dropped);
    };
    const ScratchFolder folder;
    SelfTestOptions options = options_in(folder);
    options.make_backend = dropping;
    Names bad;
    for (const Finding& finding : check_residency(options)) {
      if (finding.verdict == Verdict::kBad) bad.insert(finding.name);
    }
    CHECK(bad == Names{"order of the lanes"});
  }
}

TEST_CASE("two slots that are swapped are found", "[long]") {
  const Names bad = bad_with([](BackendKind, const BackendOptions& options) {
    const CopyFault swap = [copies = 0, before = PlannedCopy{}](Lane lane,
                                                                PlannedCopy& copy) mutable {
      if (lane != Lane::kWeightsIn) return;
      const PlannedCopy planned = copy;
      if (++copies == 20 && before.bytes == copy.bytes) copy.from = before.from;
      before = planned;
    };
    return make_backend_with(swap, options);
  });
  CHECK(bad == Names{"streamed and resident"});
}

TEST_CASE("spilled activations that come back cut short are found", "[long]") {
  const Names bad = bad_with([](BackendKind, const BackendOptions& options) {
    const CopyFault cut = [](Lane lane, PlannedCopy& copy) {
      constexpr std::size_t kLarge = 8192;
      if (lane == Lane::kActivationsIn && copy.bytes >= kLarge) copy.bytes -= 64;
    };
    return make_backend_with(cut, options);
  });
  CHECK(bad == Names{"streamed and resident"});
}

TEST_CASE("a checkpoint of which a shard is stale is found", "[long]") {
  StaleFiles files;
  const ScratchFolder folder;
  SelfTestOptions options = options_in(folder);
  options.files = &files;
  CHECK(bad_names(options) == Names{"save and resume"});
}

TEST_CASE("what a machine cannot do at all is a finding and no exception") {
  const ScratchFolder folder;
  SelfTestOptions options = options_in(folder);
  options.make_backend = [](BackendKind, const BackendOptions&) -> Backend {
    throw BackendError("no device today");
  };
  const auto self = make_self_ranks();
  const std::vector<Finding> findings = self_test(options, *self);
  CHECK(worst(findings) == Verdict::kBad);
  for (const Finding& finding : findings) {
    if (finding.name == "collectives") continue;  // one rank needs no device for them
    INFO(finding.name);
    CHECK_THAT(finding.found, ContainsSubstring("no device today"));
  }
}

TEST_CASE("the self-test finds nothing on a GPU that is right", "[cuda][alone]") {
  if (without_gpu()) return;
  const ScratchFolder folder;
  SelfTestOptions options{.backend = BackendKind::kCuda, .scratch = folder.file("")};
  options.program = strata_program();
  CHECK(bad_names(options) == Names{});
}

}  // namespace strata::test
