// Picks the operators of keys and values by their dtype.

#include "strata/model/kv_views.h"

#include <algorithm>

namespace strata {

namespace {

AppendKv append_to(const KvViews& kept, const NewKv& added) {
  return {.k = added.k, .v = added.v, .rows = added.rows, .cache_k = kept.k, .cache_v = kept.v};
}

FusedAppend fused_append(const KvViews& kept, const Rope& turn, const NewKv& added) {
  return {.rope = turn, .append = append_to(kept, added)};
}

/// Returns whether one operator turns and appends.
bool may_fuse(const KvViews& kept, const std::optional<Rope>& turn) {
  return !kept.is_int8() && turn && turn->turns_whole_halves();
}

}  // namespace

/// A copy must not overlap what it reads, so each moves no more rows than lie between both places.
void move_kv(Stream& stream, const KvViews& kept, const std::vector<KvMove>& moves,
             const Tag& tag) {
  const std::size_t bytes = static_cast<std::size_t>(kept.k.row_stride) * size_of(kept.k.dtype);
  const auto row = [&](std::int64_t at) {
    return static_cast<std::byte*>(kept.k.data) + static_cast<std::size_t>(at) * bytes;
  };
  for (const KvMove& move : moves) {
    const std::int64_t most = move.from - move.to;
    for (std::int64_t done = 0; done < move.count; done += most) {
      const std::int64_t count = std::min(most, move.count - done);
      stream.copy(row(move.to + done), row(move.from + done),
                  static_cast<std::size_t>(count) * bytes, tag);
    }
  }
}

void append_kv(Kernels& kernels, Stream& stream, const KvViews& kept, const NewKv& added,
               const Tag& tag) {
  if (kept.is_int8()) {
    kernels.run(stream,
                AppendInt8Kv{.k = added.k, .v = added.v, .rows = added.rows, .cache = kept.int8()},
                tag);
    return;
  }
  kernels.run(stream, append_to(kept, added), tag);
}

void turn_and_append_kv(Kernels& kernels, Stream& stream, const KvViews& kept,
                        const std::optional<Rope>& turn, const NewKv& added, const Tag& tag) {
  if (!may_fuse(kept, turn)) {
    if (turn) kernels.run(stream, *turn, tag);
    append_kv(kernels, stream, kept, added, tag);
    return;
  }
  kernels.run(stream, fused_append(kept, *turn, added), tag);
}

void attend_to_kv(Kernels& kernels, Stream& stream, const KvViews& kept, const SingleTokens& tokens,
                  const Tag& tag) {
  if (kept.is_int8()) {
    kernels.run(stream,
                AttendInt8Kv{.q = tokens.q,
                             .cache = kept.int8(),
                             .segments = tokens.segments,
                             .o = tokens.o,
                             .parts = tokens.parts,
                             .scale = tokens.scale,
                             .window = tokens.window,
                             .score_cap = tokens.score_cap,
                             .pairs = tokens.pairs},
                tag);
    return;
  }
  kernels.run(stream,
              AttentionForward{.q = tokens.q,
                               .k = kept.k,
                               .v = kept.v,
                               .segments = {.table = tokens.segments, .pairs = tokens.pairs},
                               .o = tokens.o,
                               .lse = tokens.lse,
                               .parts = tokens.parts,
                               .scale = tokens.scale,
                               .window = tokens.window,
                               .score_cap = tokens.score_cap},
              tag);
}

void turn_append_and_attend_to_kv(Kernels& kernels, Stream& stream, const KvViews& kept,
                                  const std::optional<Rope>& turn, const NewKv& added,
                                  const SingleTokens& tokens, const Tag& tag) {
  if (!may_fuse(kept, turn)) {
    turn_and_append_kv(kernels, stream, kept, turn, added, tag);
    attend_to_kv(kernels, stream, kept, tokens, tag);
    return;
  }
  kernels.run(stream,
              FusedAttend{.added = fused_append(kept, *turn, added),
                          .segments = tokens.segments,
                          .pairs = tokens.pairs,
                          .o = tokens.o,
                          .lse = tokens.lse,
                          .parts = tokens.parts,
                          .scale = tokens.scale,
                          .window = tokens.window,
                          .score_cap = tokens.score_cap},
              tag);
}

}  // namespace strata
