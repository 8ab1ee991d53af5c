// What a trace takes of the heap against what is planned for it: two steps of sessions are traced
// and written as `train` does it.

#include "strata/predict/trace_memory.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/train/step_report.h"
#include "support/allocations.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/session_run.h"
#include "support/thread_ranks.h"

namespace strata::test {
namespace {

struct Case {
  std::string name;
  RunConfig config;
  int ranks = 1;
};

/// Ways to run that submit much: small rings, cells that spill, state that travels, and poison.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, int ranks, const auto& change) {
    Case c{name, tiny_config(), ranks};
    c.config.run.trace_step = 1;
    c.config.run.threads = 1;  // of several, one may be idle and take its scratch only later
    change(c.config);
    all.push_back(std::move(c));
  };
  add("plain", 1, [](RunConfig&) {});
  add("nothing kept, few slots, passes", 1, [](RunConfig& c) {
    c.debug.poison_slots = true;
    c.schedule.passes = 3;
    c.schedule.activations = KeepLevel::kRecompute;
    c.schedule.activation_slots = 3;
    c.schedule.weight_slots = 1;
    c.schedule.head_chunk_tokens = 1;
  });
  add("everything spilled, in int8", 2, [](RunConfig& c) {
    c.run.dtype = DType::kBF16;
    c.debug.poison_slots = true;
    c.schedule.activations = KeepLevel::kRecompute;
    c.schedule.spill = KeepLevel::kFull;
    c.schedule.spill_slots = 2;
    c.schedule.spill_dtype = BoundaryForm::kInt8;
  });
  add("state that travels, small sub-batches", 2, [](RunConfig& c) {
    c.run.dtype = DType::kBF16;
    c.debug.poison_slots = true;
    c.model.llama.tie_word_embeddings = true;
    c.model.llama.num_hidden_layers = 8;
    c.schedule.sub_batches = 1;
    c.schedule.passes = 2;
    c.optimizer.interleave = 1;
    c.optimizer.moment_dtype = DType::kBF16;
    c.optimizer.timing = UpdateTiming::kSpeculative;
  });
  for (const int ranks : {1, 3}) {
    add("matrices of muon, one sub-batch", ranks, [](RunConfig& c) {
      c.model.llama.num_hidden_layers = 8;
      c.schedule.sub_batches = 1;
      c.optimizer.kind = OptimizerKind::kMuon;
    });
  }
  add("many cells", 1, [](RunConfig& c) { c.schedule.sub_batches = 40; });
  return all;
}

}  // namespace

TEST_CASE("what a trace takes of the heap is planned") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const ScratchFolder folder;
    run_ranks(c.ranks, [&](Ranks& group) {
      const bool watched = group.rank() == 0;
      Recorder recorder;
      Session session(c.config, group, {.trace = watched ? &recorder : nullptr});
      const Setup& setup = session.setup();
      const std::size_t planned = setup.plan.heap("trace");
      session.submit(0, 1e-3);  // what steps take at their first time is no trace's
      session.submit(1, 1e-3);
      session.synchronize();
      group.barrier(Channel::kSubmit);
      const std::int64_t before = heap_bytes();
      (void)heap_peak();
      const auto submit = [&](std::int64_t step) { session.submit(step, 1e-3); };
      if (!watched) {
        submit(2);
        submit(3);
        session.synchronize();
        return group.barrier(Channel::kSubmit);
      }
      trace_two_steps(session, recorder, 2, submit);
      CHECK(recorder.races().empty());
      (void)update_time(recorder, kTracedSteps);
      recorder.write_chrome_trace(folder.file("trace.json"));
      const auto taken = static_cast<std::size_t>(heap_peak() - before);
      const std::size_t records = recorder.records().size();
      INFO(records << " records of at most " << most_trace_records(setup) << ", "
                   << format_bytes(taken) << " of " << format_bytes(planned));
      CHECK(planned == most_trace_records(setup) * kTraceRecordBytes);
      CHECK(records <= most_trace_records(setup));
      CHECK(records * 4 > most_trace_records(setup));
      CHECK(taken <= planned);
      recorder.clear();
      CHECK(static_cast<std::size_t>(std::max<std::int64_t>(0, heap_bytes() - before)) < taken / 8);
      group.barrier(Channel::kSubmit);
    });
  }
}

TEST_CASE("a run without a trace plans none") {
  RunConfig config = tiny_config();
  const MemoryPlan without = make_setup(config, 0, 1, {}).plan;
  config.run.trace_step = 1;
  const MemoryPlan with = make_setup(config, 0, 1, {}).plan;
  CHECK(without.heap("trace") == 0);
  CHECK(with.heap("trace") > 0);
  CHECK(with.host_total() == without.host_total() + with.heap("trace"));
}

}  // namespace strata::test
