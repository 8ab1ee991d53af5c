// Operators that do nothing when launched. Checks and trace happen in Kernels::run before.

#include "device/dry/dry_kernels.h"

namespace strata {

namespace {

class DryKernels final : public Kernels {
 private:
  void launch(Stream&, const EmbeddingForward&) override {}
  void launch(Stream&, const EmbeddingBackward&) override {}
  void launch(Stream&, const RmsNormForward&) override {}
  void launch(Stream&, const RmsNormBackward&) override {}
  void launch(Stream&, const Rope&) override {}
  void launch(Stream&, const AttentionForward&) override {}
  void launch(Stream&, const AttentionBackward&) override {}
  void launch(Stream&, const SwigluForward&) override {}
  void launch(Stream&, const SwigluBackward&) override {}
  void launch(Stream&, const ResidualAdd&) override {}
  void launch(Stream&, const Accumulate&) override {}
  void launch(Stream&, const Cast&) override {}
  void launch(Stream&, const Fill&) override {}
  void launch(Stream&, const CrossEntropy&) override {}
  void launch(Stream&, const Matmul&) override {}
  void launch(Stream&, const SquaredNorm&) override {}
  void launch(Stream&, const CastSquaredNorm&) override {}
  void launch(Stream&, const AdamW&) override {}
  void launch(Stream&, const QuantizeRows&) override {}
  void launch(Stream&, const DequantizeRows&) override {}
};

}  // namespace

std::unique_ptr<Kernels> make_dry_kernels() { return std::make_unique<DryKernels>(); }

}  // namespace strata
