// Loads a golden model with its batches, results and PyTorch's own errors, and serves its batches
// in place of a loader.

#include "golden/golden_model.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>

#include "golden/golden_file.h"
#include "strata/base/narrow.h"

namespace strata::test {
namespace {

/// The tensors whose name begins with `prefix`, without it; errors are left out.
NamedTensors tensors_under(const GoldenFile& file, std::string_view prefix) {
  NamedTensors tensors;
  for (const std::string& name : file.tensors()) {
    if (name.starts_with(prefix) && !name.ends_with("_error")) {
      tensors.emplace(name.substr(prefix.size()), file.values(name));
    }
  }
  return tensors;
}

GoldenErrors load_errors(const GoldenFile& file, const NamedTensors& weights,
                         const std::string& dtype) {
  const std::string suffix = "." + dtype + "_error";
  GoldenErrors errors;
  errors.losses = file.values("loss" + suffix);
  errors.norms = file.values("grad_norm" + suffix);
  errors.logits = file.scalar("logits" + suffix);
  errors.token_losses = file.scalar("token_loss" + suffix);
  errors.gradients = file.scalar("grad" + suffix);
  errors.changes = file.scalar("final" + suffix);
  for (const auto& [name, values] : weights) {
    errors.gradient[name] = file.scalar("grad/" + name + suffix);
    errors.change[name] = file.scalar("final/" + name + suffix);
  }
  return errors;
}

std::vector<GoldenBatch> load_batches(const GoldenFile& file) {
  const Shape shape = file.shape("tokens");
  const auto elements = static_cast<std::size_t>(shape.row_elements());
  std::vector<GoldenBatch> batches(static_cast<std::size_t>(shape[0]));
  const auto split = [&](const std::string& name, std::vector<std::int32_t> GoldenBatch::*member) {
    const std::vector<std::int32_t> all = file.integers(name);
    for (std::size_t step = 0; step < batches.size(); ++step) {
      const auto part = std::span(all).subspan(step * elements, elements);
      (batches[step].*member).assign(part.begin(), part.end());
    }
  };
  split("tokens", &GoldenBatch::tokens);
  split("positions", &GoldenBatch::positions);
  split("documents", &GoldenBatch::documents);
  split("targets", &GoldenBatch::targets);
  return batches;
}

/// Where row `row` of a pass's sub-batch lies in the global batch.
std::int64_t global_row(const BatchOptions& options, int pass, std::int64_t sub_batch,
                        std::int64_t row) {
  return ((pass * options.shape.sub_batches + sub_batch) * options.ranks + options.rank) *
             options.shape.rows +
         row;
}

/// Appends the documents of a row whose first token is token `begin` of the sub-batch.
void append_segments(std::span<const std::int32_t> documents, std::int64_t begin,
                     std::vector<std::int32_t>& table) {
  for (std::size_t at = 0; at < documents.size();) {
    const auto end =
        std::ranges::find_if(documents.subspan(at), [&](auto d) { return d != documents[at]; });
    const auto length = narrow<std::int32_t>(end - documents.begin()) - narrow<std::int32_t>(at);
    const auto first = narrow<std::int32_t>(begin) + narrow<std::int32_t>(at);
    table.insert(table.end(), {first, first, length, length, 0});
    at += static_cast<std::size_t>(length);
  }
}

}  // namespace

GoldenModel load_golden_model(const std::string& name) {
  GoldenModel model;
  model.folder = golden_data() / name;
  const GoldenFile file(model.folder / "expected.safetensors");
  const Shape shape = file.shape("tokens");
  model.rows = shape[1];
  model.tokens = shape[2];
  model.steps = load_batches(file);
  for (const GoldenBatch& batch : model.steps) {
    if (std::ranges::any_of(batch.documents, [](auto d) { return d != 0; })) {
      model.mask = DocumentMask::kOn;
    }
  }
  model.optimizer = {.lr = file.scalar("optimizer.lr"),
                     .beta1 = file.scalar("optimizer.beta1"),
                     .beta2 = file.scalar("optimizer.beta2"),
                     .eps = file.scalar("optimizer.eps"),
                     .weight_decay = file.scalar("optimizer.weight_decay"),
                     .clip = file.scalar("optimizer.clip")};
  model.logits = file.values("logits");
  model.token_losses = file.values("token_loss");
  model.gradients = tensors_under(file, "grad/");
  model.losses = file.values("loss");
  model.norms = file.values("grad_norm");
  model.initial = tensors_under(GoldenFile(model.folder / "model.safetensors"), "");
  model.final = tensors_under(file, "final/");
  model.inverse_frequencies = file.values("inverse_frequencies");
  model.f32_errors = load_errors(file, model.initial, "f32");
  model.bf16_errors = load_errors(file, model.initial, "bf16");
  return model;
}

std::int64_t fill_golden_pass(const GoldenModel& model, std::int64_t step, int pass,
                              const BatchOptions& options, const PassBuffers& out) {
  const BatchShape& shape = options.shape;
  if (shape.tokens != model.tokens ||
      options.passes * options.ranks * shape.sub_batches * shape.rows != model.rows) {
    throw std::length_error("the batch options do not use up the golden rows");
  }
  const GoldenBatch& batch = model.steps.at(static_cast<std::size_t>(step));
  const auto tokens = static_cast<std::size_t>(shape.tokens);
  const auto sub_batch_tokens = static_cast<std::size_t>(shape.sub_batch_tokens());
  const auto table_size = out.segments.size() / static_cast<std::size_t>(shape.sub_batches);
  for (std::int64_t s = 0; s < shape.sub_batches; ++s) {
    const auto begin = static_cast<std::size_t>(s) * sub_batch_tokens;
    std::vector<std::int32_t> table;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const auto from = static_cast<std::size_t>(global_row(options, pass, s, row)) * tokens;
      const auto to = narrow<std::ptrdiff_t>(begin + static_cast<std::size_t>(row) * tokens);
      const auto copy = [&](const std::vector<std::int32_t>& source, std::span<std::int32_t> into) {
        std::ranges::copy(std::span(source).subspan(from, tokens), into.begin() + to);
      };
      copy(batch.tokens, out.ids);
      copy(batch.targets, out.targets);
      copy(batch.positions, out.positions);
      append_segments(std::span(batch.documents).subspan(from, tokens), row * shape.tokens, table);
    }
    table.resize(table_size);
    std::ranges::copy(table, out.segments.begin() + s * narrow<std::int64_t>(table_size));
    const auto ids = out.ids.subspan(begin, sub_batch_tokens);
    const auto order = out.order.subspan(begin, sub_batch_tokens);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](auto n) { return ids[static_cast<std::size_t>(n)]; });
  }
  return narrow<std::int64_t>(std::ranges::count_if(
      out.targets, [](std::int32_t target) { return target != kIgnoreTarget; }));
}

}  // namespace strata::test
