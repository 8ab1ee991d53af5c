// Sends queries, keys and values to the host, has it attend, and brings back what comes of it. A
// cell's numbers have their places on the host by token, and those of singles and o by single, so a
// layer writes them where the layer before did. Most of that is in order by what depends on what:
// queries of a layer come of what the host attended to in the layer before. What singles add where
// they attend on the device has a place of its own: it is taken after what the host attends to for
// other cells, and the next layer's queries go out before that.

#include "strata/store/host_attention.h"

#include "strata/base/dtype.h"
#include "strata/device/device.h"
#include "strata/model/kv_views.h"

namespace strata {

HostAttention::Memory::Memory(const KvShape& kv, const HostAttentionShape& shape,
                              Allocator& memory) {
  const std::int64_t width = shape.heads * kv.head_size;
  const Shape of_singles{shape.singles, width};
  kept = memory.tensor(Space::kPinned, "host_attention.kept", kv.dtype,
                       {shape.tokens, shape.qkv_width});
  sent = memory.tensor(Space::kPinned, "host_attention.sent", kv.dtype,
                       {shape.singles, shape.qkv_width});
  o = memory.tensor(Space::kPinned, "host_attention.o", kv.dtype, of_singles);
  lse = memory.tensor(Space::kPinned, "host_attention.lse", accumulator_of(kv.dtype),
                      {shape.singles * shape.heads});
  o_device = memory.tensor(Space::kDevice, "host_attention.o", kv.dtype, of_singles);
}

HostAttention::HostAttention(const HostAttentionShape& shape, KvStore& kv, Kernels& kernels,
                             Kernels& host_kernels, Arenas& arenas)
    : shape_(shape),
      kv_(kv),
      kernels_(kernels),
      host_kernels_(host_kernels),
      device_(arenas.device()),
      memory_(kv.shape(), shape, arenas) {}

TensorView HostAttention::heads(const TensorView& of, std::int64_t begin,
                                std::int64_t count) const {
  const std::int64_t width = kv_.shape().head_size;
  const auto at = static_cast<std::size_t>(begin * width) * size_of(of.dtype);
  return {static_cast<std::byte*>(of.data) + at, of.dtype, Shape{of.rows(), count, width},
          of.shape.row_elements()};
}

void HostAttention::send(int layer, const HostCell& cell, const ConstTensorView& qkv,
                         const TensorView& home, Event taken, Stream& compute, const Tag& tag) {
  Stream& out = device_.stream(Lane::kOut);
  Stream& host = device_.stream(Lane::kHost);
  out.wait(compute.record(), WaitFor::kFilled);
  out.wait(taken, WaitFor::kTaken);
  out.copy(home.data, qkv.data, home.bytes().bytes, tag);
  sent_ = out.record();
  host.wait(sent_, WaitFor::kArrived);
  host.wait(kv_.fetched(layer, cell.group), WaitFor::kTaken);
  const KvViews kept = kv_.home(layer, cell.group);
  const std::int64_t kv_heads = kv_.shape().heads;
  for (const KvPiece& piece : cell.pieces) {
    const auto of_piece = [&](const auto& view) {
      return view.slice_rows(piece.begin, piece.tokens);
    };
    move_kv(host, kept, piece.moves, tag);
    append_kv(host_kernels_, host, kept,
              {.k = of_piece(heads(home, shape_.heads, kv_heads)),
               .v = of_piece(heads(home, shape_.heads + kv_heads, kv_heads)),
               .rows = of_piece(cell.rows)},
              tag);
  }
}

Event HostAttention::put(int layer, const HostCell& cell) {
  const Event event = device_.stream(Lane::kHost).record();
  kv_.added(layer, cell.group, event);
  return event;
}

void HostAttention::keep(int layer, const HostCell& cell, const ConstTensorView& qkv,
                         Stream& compute, const Tag& tag) {
  if (kept_.size() <= cell.number) kept_.resize(cell.number + 1);
  const TensorView home = memory_.kept.slice_rows(cell.begin, qkv.rows());
  send(layer, cell, qkv, home, kept_[cell.number], compute, tag);
  kept_[cell.number] = put(layer, cell);
}

void HostAttention::attend(int layer, const HostCell& cell, const ConstTensorView& qkv,
                           Stream& compute, const Tag& tag) {
  if (attended_.size() <= cell.number) attended_.resize(cell.number + 1);
  const std::int64_t count = qkv.rows();
  const TensorView home = memory_.sent.slice_rows(cell.first_single, count);
  send(layer, cell, qkv, home, attended_[cell.number], compute, tag);
  const KvViews kept = kv_.home(layer, cell.group);
  const KvPiece& piece = cell.pieces.front();
  const TensorView o = memory_.o.slice_rows(cell.first_single, count);
  const TensorView& lse = memory_.lse;
  attend_to_kv(
      host_kernels_, device_.stream(Lane::kHost), kept,
      {.q = heads(home, 0, shape_.heads),
       .segments = cell.segments.slice_rows(piece.first_segment, piece.segments),
       .pairs = piece.single_pairs,
       .scale = shape_.scale,
       .window = shape_.windows.empty() ? 0 : shape_.windows.at(static_cast<std::size_t>(layer)),
       .score_cap = shape_.score_cap,
       .o = heads(o, 0, shape_.heads),
       .lse = TensorView(lse.data, lse.dtype, Shape{shape_.heads, count})},
      tag);
  attended_[cell.number] = put(layer, cell);
}

/// A copy would wait in the device's one queue for what comes in behind whole layers of keys and of
/// weights, so a kernel reads the host's memory.
ConstTensorView HostAttention::attended(const HostCell& cell, Stream& compute, const Tag& tag) {
  compute.wait(attended_.at(cell.number), WaitFor::kFilled);
  const auto of_cell = [&](const TensorView& of) {
    return of.slice_rows(cell.first_single, cell.rows.elements());
  };
  const auto flat = [](const TensorView& rows) {
    return TensorView(rows.data, rows.dtype, Shape{rows.elements()});
  };
  const TensorView o = of_cell(memory_.o_device);
  kernels_.run(compute, Cast{.x = flat(of_cell(memory_.o)), .y = flat(o)}, tag);
  return o;
}

Event HostAttention::read() { return device_.stream(Lane::kHost).record(); }

}  // namespace strata
