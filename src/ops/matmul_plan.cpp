// Writes and reads plans of matrix products as lines of text. A hash at the end of each line finds
// lines that were cut or edited.

#include "strata/ops/matmul_plan.h"

#include <array>
#include <cstdio>
#include <optional>
#include <sstream>

#include "strata/base/error.h"
#include "strata/base/hex.h"
#include "strata/base/random.h"

namespace strata {
namespace {

constexpr std::array kLayouts{MatmulLayout::kNT, MatmulLayout::kNN, MatmulLayout::kTN};
constexpr std::array kUpdates{MatmulUpdate::kOverwrite, MatmulUpdate::kAccumulate};
constexpr std::array kTypes{DType::kBF16, DType::kF32, DType::kF64, DType::kE4M3};

std::string hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char c : text) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hex_digits(hash);
}

/// Takes the words of a line one by one and remembers whether one was not what it has to be.
class Words {
 public:
  explicit Words(const std::string& text) : in_(text) {}

  void literal(std::string_view expected) {
    if (next() != expected) wrong_ = true;
  }
  /// Takes `optional` if it is there, and then what has to follow. Returns whether it was there.
  bool literal_after(std::string_view optional, std::string_view expected) {
    const std::string word = next();
    if (word == optional) literal(expected);
    if (word != optional && word != expected) wrong_ = true;
    return word == optional;
  }
  template <class T>
  void value(T& to) {
    if (!(in_ >> to)) wrong_ = true;
  }
  template <class E, std::size_t kCount>
  void name(E& to, const std::array<E, kCount>& all) {
    const std::string word = next();
    for (const E& candidate : all) {
      if (name_of(candidate) == word) {
        to = candidate;
        return;
      }
    }
    wrong_ = true;
  }
  [[nodiscard]] bool all_right() { return !wrong_ && next().empty(); }

 private:
  /// Returns the next word; none is empty.
  std::string next() {
    std::string word;
    in_ >> word;
    return word;
  }

  std::istringstream in_;
  bool wrong_ = false;
};

constexpr std::string_view kCheck = " check ";

std::optional<MatmulPlan> parse(std::string_view line) {
  const std::size_t check = line.rfind(kCheck);
  if (check == std::string_view::npos) return std::nullopt;
  const std::string text(line.substr(0, check));
  if (line.substr(check + kCheck.size()) != hash_of(text)) return std::nullopt;
  Words words(text);
  MatmulPlan plan;
  MatmulShape& s = plan.shape;
  words.name(s.layout, kLayouts);
  words.name(s.in, kTypes);
  words.name(s.out, kTypes);
  words.name(s.update, kUpdates);
  words.literal("m");
  words.value(s.m);
  words.literal("n");
  words.value(s.n);
  words.literal("k");
  words.value(s.k);
  words.literal("strides");
  words.value(s.stride_a);
  words.value(s.stride_b);
  words.value(s.stride_out);
  s.bias = words.literal_after("bias", "us");
  words.value(plan.measured_us);
  words.literal("algorithm");
  words.value(plan.algorithm);
  if (!words.all_right()) return std::nullopt;
  return plan;
}

}  // namespace

std::string_view name_of(MatmulLayout layout) {
  switch (layout) {
    case MatmulLayout::kNT: return "NT";
    case MatmulLayout::kNN: return "NN";
    case MatmulLayout::kTN: return "TN";
  }
  return "?";
}

std::string_view name_of(MatmulUpdate update) {
  return update == MatmulUpdate::kAccumulate ? "accumulate" : "overwrite";
}

MatmulShape shape_of(const Matmul& op) {
  // The distance of rows that are never stepped over means nothing, so it must not tell shapes
  // apart.
  const auto stride = [](const ConstTensorView& view) {
    return view.rows() <= 1 ? view.shape[1] : view.row_stride;
  };
  return {.m = op.m(),
          .n = op.n(),
          .k = op.k(),
          .stride_a = stride(op.a),
          .stride_b = stride(op.b),
          .stride_out = stride(op.out),
          .layout = op.layout,
          .update = op.update,
          .in = op.a.dtype,
          .out = op.out.dtype,
          .bias = op.bias.shape.rank() > 0};
}

std::string to_string(const MatmulShape& s) {
  std::ostringstream text;
  text << name_of(s.layout) << ' ' << name_of(s.in) << ' ' << name_of(s.out) << ' '
       << name_of(s.update) << " m " << s.m << " n " << s.n << " k " << s.k << " strides "
       << s.stride_a << ' ' << s.stride_b << ' ' << s.stride_out << (s.bias ? " bias" : "");
  return text.str();
}

std::string to_line(const MatmulPlan& plan) {
  std::array<char, 32> us{};
  std::snprintf(us.data(), us.size(), "%.1f", plan.measured_us);
  const std::string text =
      to_string(plan.shape) + " us " + us.data() + " algorithm " + plan.algorithm;
  return text + std::string(kCheck) + hash_of(text);
}

MatmulPlan parse_matmul_plan(std::string_view line) {
  if (const auto plan = parse(line)) return *plan;
  throw IoError("\"" + std::string(line) + "\" is not a plan of a matrix product, or was changed");
}

}  // namespace strata
