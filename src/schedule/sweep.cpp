// Runs the algorithm of a sweep, as it stands in docs/generation.md. Two sweeps' units are
// announced, so that the first weights of the next sweep are loaded while the last ones of this
// compute.

#include "strata/schedule/sweep.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "strata/schedule/walk.h"

namespace strata {

namespace {

Tag tag_of(int layer, const SweepPlan& plan, std::size_t visit) {
  return {.phase = "sweep", .unit = Walk::unit_of(layer).value(), .cell = plan.visits[visit].group};
}

}  // namespace

void Sweep::run(const SweepPlan& plan) {
  std::vector<UnitId> units = unit_order({.layers = layers_, .cells = 1}, Extent::kForward);
  const std::vector<UnitId> next = units;
  units.insert(units.end(), next.begin(), next.end());
  parts_.weights.begin_pass(units);
  parts_.kv.begin_sweep(plan.visits);
  TokenLease tokens = parts_.tokens.upload(compute_, {.phase = "sweep"});
  embedding(plan, tokens);
  layers(plan, tokens);
  head(plan, tokens);
  parts_.tokens.deliver(std::move(tokens), {.phase = "sweep"});
}

UnitLease Sweep::acquire(UnitId unit) {
  const Tag tag{.phase = "sweep", .unit = unit.value()};
  UnitLease weights = parts_.weights.acquire(unit, compute_, tag);
  parts_.weights.prefetch({.phase = "sweep"});
  return weights;
}

void Sweep::embedding(const SweepPlan& plan, const TokenLease& tokens) {
  const UnitLease weights = acquire(Walk::embedding());
  parts_.model.embedding(compute_, weights.views.embedding, tokens.ids.slice_rows(0, plan.tokens),
                         stream_.x.slice_rows(0, plan.tokens),
                         {.phase = "sweep", .unit = Walk::embedding().value()});
}

void Sweep::layers(const SweepPlan& plan, const TokenLease& tokens) {
  const bool any_on_host = std::ranges::any_of(plan.cells, &SweepCell::on_host);
  parts_.kv.prefetch({.phase = "sweep"});  // the first layers may be the host's
  const auto at_home = [&](int layer) {
    return any_on_host && layer < layers_ && parts_.kv.shape().attended_at_home(layer);
  };
  std::optional<UnitLease> before;  // as long as cells that are on the host need its weights
  std::optional<UnitLease> next;    // likewise
  for (int layer = 0; layer < layers_; ++layer) {
    const bool sent = next.has_value();
    UnitLease weights = sent ? std::move(*next) : acquire(Walk::unit_of(layer));
    next.reset();
    for (std::size_t i = 0; i < plan.visits.size(); ++i) {
      visit(layer, weights, {.before = before ? &*before : nullptr, .sent = sent}, i, plan, tokens);
      if (at_home(layer) || !at_home(layer + 1)) continue;
      if (!next) next = acquire(Walk::unit_of(layer + 1));
      for (const SweepCell& cell : plan.cells) {
        if (cell.visit == i && cell.on_host) to_host(layer + 1, *next, cell, plan, tokens);
      }
    }
    before.reset();
    if (at_home(layer)) before = std::move(weights);
  }
  for (const SweepCell& cell : plan.cells) {
    if (before && cell.on_host) from_host(layers_ - 1, *before, cell, plan, tokens);
  }
  if (parts_.host_attention) parts_.tokens.read_until(parts_.host_attention->read());
}

void Sweep::visit(int layer, const UnitLease& weights, const HostWork& host, std::size_t visit,
                  const SweepPlan& plan, const TokenLease& tokens) {
  std::vector<const SweepCell*> through;
  for (const SweepCell& cell : plan.cells) {
    if (cell.visit != visit) continue;
    if (cell.on_host && host.before != nullptr) {
      from_host(layer - 1, *host.before, cell, plan, tokens);
    }
    if (!cell.on_host || !parts_.kv.shape().attended_at_home(layer)) {
      through.push_back(&cell);
    } else if (!host.sent) {
      to_host(layer, weights, cell, plan, tokens);
    }
  }
  if (through.empty()) return;
  const Tag tag = tag_of(layer, plan, visit);
  KvLease kv = parts_.kv.acquire(layer, visit, compute_, tag);
  parts_.kv.prefetch(tag);
  for (const SweepCell* cell : through) on_device(layer, weights, *cell, kv.views, plan, tokens);
  parts_.kv.keep(std::move(kv), compute_, tag);
  parts_.kv.prefetch(tag);  // now, since the next acquire may lie some layers of the host away
}

void Sweep::on_device(int layer, const UnitLease& weights, const SweepCell& cell, const KvViews& kv,
                      const SweepPlan& plan, const TokenLease& tokens) {
  const Tag tag = tag_of(layer, plan, cell.visit);
  HostAttention* const host = parts_.host_attention;
  if (host != nullptr) host->reuse(compute_);
  ForwardCell forward = forward_cell(layer, cell, tokens);
  forward.projected_is_read = host != nullptr;
  parts_.model.layer(compute_, layer, weights.views.layer, forward, kv, stream_of(layer, cell),
                     tag);
  if (host == nullptr) return;
  host->keep(layer, host_cell(layer, cell, plan, tokens), parts_.model.projected(cell.tokens),
             compute_, tag);
}

void Sweep::to_host(int layer, const UnitLease& weights, const SweepCell& cell,
                    const SweepPlan& plan, const TokenLease& tokens) {
  const Tag tag = tag_of(layer, plan, cell.visit);
  parts_.host_attention->reuse(compute_);
  const ConstTensorView qkv =
      parts_.model.before_attention(compute_, layer, weights.views.layer,
                                    forward_cell(layer, cell, tokens), stream_of(layer, cell), tag);
  parts_.host_attention->attend(layer, host_cell(layer, cell, plan, tokens), qkv, compute_, tag);
}

void Sweep::from_host(int layer, const UnitLease& weights, const SweepCell& cell,
                      const SweepPlan& plan, const TokenLease& tokens) {
  const Tag tag = tag_of(layer, plan, cell.visit);
  const ConstTensorView o =
      parts_.host_attention->attended(host_cell(layer, cell, plan, tokens), compute_, tag);
  parts_.model.after_attention(compute_, layer, weights.views.layer, o, stream_of(layer, cell),
                               tag);
}

ForwardCell Sweep::forward_cell(int layer, const SweepCell& cell, const TokenLease& tokens) const {
  return {.positions = tokens.positions.slice_rows(cell.begin, cell.tokens),
          .rows = tables(layer, tokens).rows.slice_rows(cell.begin, cell.tokens),
          .segments = tables(layer, tokens).segments,
          .pieces = pieces(layer, cell)};
}

HostCell Sweep::host_cell(int layer, const SweepCell& cell, const SweepPlan& plan,
                          const TokenLease& tokens) const {
  return {.number = static_cast<std::size_t>(&cell - plan.cells.data()),
          .group = plan.visits[cell.visit].group,
          .begin = cell.begin,
          .first_single = cell.first_single,
          .rows = tables(layer, tokens).host_rows.slice_rows(cell.begin, cell.tokens),
          .segments = tables(layer, tokens).host_segments,
          .pieces = pieces(layer, cell)};
}

std::span<const KvPiece> Sweep::pieces(int layer, const SweepCell& cell) const {
  if (parts_.kv.shape().keeps_window(layer)) return cell.windowed;
  return {&cell.whole, 1};
}

const KvTables& Sweep::tables(int layer, const TokenLease& tokens) const {
  return parts_.kv.shape().keeps_window(layer) ? tokens.window_tables : tokens.tables;
}

ResidualStream Sweep::stream_of(int layer, const SweepCell& cell) const {
  const bool later = LlamaForward::may_add_later(cell.tokens);
  const auto adds_if = [&](bool wanted) {
    return wanted ? stream_.adds.slice_rows(cell.begin, cell.tokens) : TensorView{};
  };
  return {.x = stream_.x.slice_rows(cell.begin, cell.tokens),
          .added = adds_if(later && layer > 0),
          .adds = adds_if(later && layer + 1 < layers_)};
}

void Sweep::head(const SweepPlan& plan, const TokenLease& tokens) {
  const UnitId unit = Walk{.layers = layers_, .cells = 1}.head();
  const UnitLease weights = acquire(unit);
  if (plan.sampled == 0) return;
  const Tag tag{.phase = "sweep", .unit = unit.value()};
  const ConstTensorView x = stream_.x.slice_rows(0, plan.tokens);
  const SampledTokens& all = tokens.sampled;
  const SampledTokens sampled{
      .after = all.after.slice_rows(0, plan.sampled),
      .rows = all.rows.slice_rows(0, plan.sampled),
      .seen = plan.seen > 0 ? all.seen.slice_rows(0, plan.seen) : ConstTensorView{},
      .token = all.token.slice_rows(0, plan.sampled),
      .logprob = all.logprob.slice_rows(0, plan.sampled)};
  if (plan.score) {
    parts_.model.score(compute_, weights.views.head, x, sampled.after,
                       tokens.targets.slice_rows(0, plan.sampled), sampled.logprob,
                       tokens.lse.slice_rows(0, plan.sampled), tag);
  } else {
    parts_.model.sample(compute_, weights.views.head, x, sampled, tag);
  }
}

}  // namespace strata
