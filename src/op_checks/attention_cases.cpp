// The cases of attention: rows, documents, ranges with a past, single queries over a cache; with
// windows and caps.

#include "strata/op_checks/checks.h"

namespace strata {

AttentionCase causal_case(std::int64_t rows, std::int64_t length, std::int64_t heads,
                          std::int64_t kv_heads, std::int64_t head_dim) {
  return {.name = std::to_string(rows) + " rows of " + std::to_string(length),
          .queries = rows * length,
          .keys = rows * length,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .segments = {},
          .uniform_length = length};
}

/// More documents than a warp has lanes, most of them short, and one of `period` longer than a
/// tile.
AttentionCase many_documents(std::int64_t head_dim, int count, int period) {
  AttentionCase c{.name = "many packed documents",
                  .queries = 0,
                  .keys = 0,
                  .heads = 2,
                  .kv_heads = 1,
                  .head_dim = head_dim,
                  .segments = {}};
  for (int i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(c.queries);
    const std::int32_t length = i % period == 5 ? 150 + i % 70 : 1 + i % 4;
    c.segments.push_back({begin, begin, length, length, 0});
    c.queries += length;
  }
  for (int i = 0; i < 40; ++i) c.segments.push_back({0, 0, 0, 0, 0});
  c.keys = c.queries;
  return c;
}

namespace {

AttentionCase with_scores(AttentionCase c, std::int64_t window, double score_cap) {
  c.window = window;
  c.score_cap = score_cap;
  c.name += ", window " + std::to_string(window) + ", cap " + std::to_string(score_cap);
  return c;
}

/// Windows of one key and of a row, and those that end inside tiles, at their borders and beside
/// them; with documents, ranges with a past, and keys that a window leaves to nobody. And caps that
/// bend scores.
std::vector<AttentionCase> scored_cases(const HeadDims& head_dims) {
  std::vector<AttentionCase> cases;
  for (const std::int64_t head_dim : {12, 64, 128, 256}) {
    cases.push_back(with_scores(causal_case(1, 75, 2, 1, head_dim), 1, 0));
    cases.push_back(with_scores(causal_case(2, 100, 4, 2, head_dim), 33, 1.5));
    cases.push_back(with_scores(causal_case(1, 150, 2, 1, head_dim), 0, 0.75));
  }
  for (const std::int64_t head_dim : head_dims) {
    for (const std::int64_t window : {2, 47, 64, 65, 128, 129, 1000}) {
      if (head_dim == 12 && window > 47) continue;
      cases.push_back(with_scores(causal_case(1, 201, 2, 1, head_dim), window, 0));
    }
    AttentionCase packed = causal_case(2, 77, 4, 2, head_dim);
    packed.packed = packed.turned = true;
    cases.push_back(with_scores(packed, 50, 0));
    cases.push_back(with_scores(packed, 0, 1.5));
    cases.push_back(with_scores(many_documents(head_dim, 70, 23), 3, 0));
    if (head_dim == head_dims.at(1)) {
      cases.push_back(with_scores(many_documents(head_dim, 70, 23), 100, 1.5));
    }
    const AttentionCase range{.name = "a range of a row behind its past",
                              .queries = 110,
                              .keys = 340,
                              .heads = 2,
                              .kv_heads = 1,
                              .head_dim = head_dim,
                              .segments = {{0, 35, 70, 285, 215}, {70, 320, 40, 20, 12}}};
    for (const std::int64_t window : {1, 20, 130}) cases.push_back(with_scores(range, window, 0));
    cases.push_back(with_scores(range, 130, 1.5));
  }
  return cases;
}

}  // namespace

std::vector<AttentionCase> attention_cases(const HeadDims& head_dims) {
  std::vector<AttentionCase> cases{causal_case(1, 1, 1, 1, 1),    causal_case(2, 7, 2, 1, 5),
                                   causal_case(0, 4, 2, 2, 64),   causal_case(1, 65, 4, 2, 64),
                                   causal_case(2, 63, 2, 2, 64),  causal_case(1, 129, 2, 1, 128),
                                   causal_case(1, 130, 4, 1, 64), causal_case(1, 33, 2, 2, 256)};
  for (const std::int64_t head_dim : head_dims) {
    AttentionCase c = causal_case(2, 37, 4, 2, head_dim);
    c.name = "columns of a packed tensor";
    c.packed = true;
    cases.push_back(c);
    c.name = "columns of a packed tensor, turned back";
    c.turned = true;
    cases.push_back(c);
    cases.push_back(
        {.name = "packed documents with unused entries",
         .queries = 100,
         .keys = 100,
         .heads = 4,
         .kv_heads = 2,
         .head_dim = head_dim,
         .segments = {{0, 0, 33, 33, 0}, {33, 33, 1, 1, 0}, {34, 34, 66, 66, 0}, {0, 0, 0, 0, 0}}});
    cases.push_back(many_documents(head_dim, 70, 23));
    cases.push_back(many_documents(head_dim, 70, 23));
    cases.back().name = "many packed documents, turned back";
    cases.back().turned = true;
    cases.push_back({.name = "a range of a row behind its past, and keys that nobody sees",
                     .queries = 20,
                     .keys = 160,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_dim = head_dim,
                     .segments = {{0, 35, 20, 90, 70}}});
    cases.push_back({.name = "two ranges of queries that share keys, fewer keys than queries",
                     .queries = 48,
                     .keys = 30,
                     .heads = 2,
                     .kv_heads = 2,
                     .head_dim = head_dim,
                     .segments = {{0, 0, 40, 30, 0}, {40, 2, 8, 20, 12}}});
  }
  cases.push_back(many_documents(64, 1100, 500));
  for (const AttentionCase& c : scored_cases(head_dims)) cases.push_back(c);
  return cases;
}

std::vector<AttentionCase> decode_cases(const HeadDims& head_dims) {
  std::vector<AttentionCase> cases;
  for (const std::int64_t head_dim : head_dims) {
    cases.push_back({.name = "single queries over a cache",
                     .queries = 6,
                     .keys = 1700,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = head_dim,
                     .segments = {{0, 3, 1, 1, 0},
                                  {1, 10, 1, 255, 254},
                                  {2, 265, 1, 256, 255},
                                  {3, 521, 1, 257, 256},
                                  {4, 800, 1, 880, 879},
                                  {5, 40, 1, 100, 50}},
                     .parts = 4});
    cases.push_back({.name = "single queries with all their keys in one part",
                     .queries = 3,
                     .keys = 500,
                     .heads = 3,
                     .kv_heads = 3,
                     .head_dim = head_dim,
                     .segments = {{0, 0, 1, 17, 16}, {1, 17, 1, 200, 199}, {2, 244, 1, 256, 255}},
                     .parts = 1});
    cases.push_back({.name = "more query heads of a kv head than a tile has",
                     .queries = 2,
                     .keys = 700,
                     .heads = 40,
                     .kv_heads = 2,
                     .head_dim = head_dim,
                     .segments = {{0, 0, 1, 300, 299}, {1, 300, 1, 33, 32}},
                     .parts = 3});
    const AttentionCase many = cases[cases.size() - 3];
    for (const std::int64_t window : {1, 17, 255, 256, 257, 5000}) {
      cases.push_back(with_scores(many, window, 0));
    }
    cases.push_back(with_scores(many, 0, 1.5));
    cases.push_back(with_scores(many, 300, 1.5));
    AttentionCase few = many;
    few.parts = 2;  // as many as a window of 300 needs
    cases.push_back(with_scores(few, 300, 0));
  }
  return cases;
}

std::vector<AttentionCase> fused_attend_cases(const HeadDims& head_dims) {
  std::vector<AttentionCase> cases = decode_cases(head_dims);
  for (AttentionCase& c : cases) {
    if (c.queries == 6) c.segments.back() = {5, 1680, 1, 20, 9};
  }
  for (const int parts : {2, 5, 8, 36}) {
    const int keys = parts * static_cast<int>(AttentionForward::kPartKeys) - 7;
    cases.push_back({.name = std::to_string(parts) + " parts beside one key alone",
                     .queries = 2,
                     .keys = keys + 3,
                     .heads = 8,
                     .kv_heads = 2,
                     .head_dim = 128,
                     .segments = {{0, 2, 1, 1, 0}, {1, 3, 1, keys, keys - 1}},
                     .parts = parts});
  }
  return cases;
}

}  // namespace strata
