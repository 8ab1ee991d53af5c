// Submits the operators of a layer for one cell by the names that its spec gives them, for training
// and for generation. What a linear is made of is decided here alone.

#pragma once

#include "adapter_runner.h"
#include "cell_runner.h"
#include "heads.h"
#include "strata/model/fp8_counts.h"
#include "strata/model/llama_memory.h"
#include "strata/model/unit_views.h"

namespace strata {

/// What FusedLinear runs before and after a product.
struct AroundLinear {
  RmsNormForward norm{};   ///< or absent
  SwigluForward gate{};    ///< or absent
  ResidualAdd residual{};  ///< or absent
};

/// Whether the operator before a product has written the codes of what that reads, if it reads
/// codes: round_input() and round_gradient() let it.
enum class Rounded : std::uint8_t { kNotYet, kAlready };

/// The tensors that the backward of a norm reads and writes, as RmsNormBackward has them.
struct NormGradient {
  ConstTensorView dy{};
  ConstTensorView x{};
  ConstTensorView rstd{};
  ConstTensorView d_residual{};  ///< or absent
  TensorView dx{};
};

/// What a LayerRunner has beside the weights of its layer. What is given outlives the runner.
struct LayerParts {
  const LlamaScratch* scratch = nullptr;      ///< for products of codes, and to go backward
  const AdapterScratch* adapters = nullptr;   ///< where the layer has some
  const LayerGradients* gradients = nullptr;  ///< to go backward
  Fp8Counters counters{};                     ///< of what rounding loses, or absent
  /// May be null but for by_row() where a product multiplies codes.
  const RoundedOperands* rounded = nullptr;
  /// Drops of what adapters of the first linear read; those of the next have the streams after it.
  DropoutMask dropout{};
};

/// Runs the operators of one layer. A linear is named by its id, and what it is made of is decided
/// here alone.
class LayerRunner : public CellRunner {
 public:
  /// `layer` and `w` outlive the runner.
  LayerRunner(const CellRunner& cell, const LayerSpec& layer, const LayerWeights& w,
              const LayerParts& parts = {})
      : CellRunner(cell),
        layer_(layer),
        w_(w),
        scratch_(parts.scratch),
        adapters_(parts.adapters),
        gradients_(parts.gradients),
        counters_(parts.counters),
        rounded_(parts.rounded),
        dropout_(parts.dropout) {}

  [[nodiscard]] const LayerSpec& layer() const { return layer_; }
  [[nodiscard]] const ConstTensorView& weight(NormId id) const { return w_[id]; }
  /// Returns where the gradient of a norm's weight goes; absent where nobody trains it.
  [[nodiscard]] const TensorView& gradient(NormId id) const { return (*gradients_)[id]; }

  /// Rounds the weights whose products multiply codes, and transposes their codes where the layer
  /// goes backward. It comes before the first cell of a visit.
  void round_weights() const {
    for (const Linear& linear : layer_.linears) {
      if (linear.products == Products::kPlain) continue;
      const Fp8Codes& w = scratch_->fp8.weights[index(linear.id)];
      const Fp8Codes& t = scratch_->fp8.transposed[index(linear.id)];
      (*this)(QuantizeFp8Rows{.x = w_[linear.id], .q = w.q, .scale = w.scale});
      if (gradients_ == nullptr) {
        count(linear.id, Fp8Operand::kW, w_[linear.id], w);
        continue;
      }
      (*this)(TransposeFp8{.w = w.q, .scale = w.scale, .t = t.q, .t_scale = t.scale});
      count(linear.id, Fp8Operand::kWTransposed, w_[linear.id], t);
    }
  }
  /// Lets the operator that writes y, which the linear reads next, write it in codes if it reads
  /// those. Where nothing goes backward, adapters and counts alone read y itself.
  template <Op O>
  void round_input(LinearId id, O& op) const {
    if (!multiplies_codes(id)) return;
    const Fp8Codes codes = input_codes(id, op.y.rows());
    op.y8 = codes.q;
    op.y_scale = codes.scale;
    if (gradients_ == nullptr && !w_.adapter(id).a && !counters_) op.y = {};
  }
  /// Lets the backward of a norm write in codes the gradient that the linear's reads next.
  void round_gradient(LinearId id, RmsNormBackward& op) const {
    if (!multiplies_codes(id)) return;
    const Fp8Codes codes = gradient_codes(id, op.dx.rows());
    op.dx8 = codes.q;
    op.dx_scale = codes.scale;
  }
  void round_gradient(LinearId id, SwigluBackward& op) const {
    if (!multiplies_codes(id)) return;
    const Fp8Codes codes = gradient_codes(id, op.d_y.rows());
    op.d_gate_up8 = codes.q;
    op.d_gate_up_scale = codes.scale;
  }

  /// y [N, out] = the linear of x [N, in].
  void linear(LinearId id, const ConstTensorView& x, const TensorView& y,
              Rounded rounded = Rounded::kNotYet) const {
    if (multiplies_codes(id)) {
      const Fp8Codes codes = input_codes(id, y.rows());
      if (rounded == Rounded::kNotYet) round(x, codes);
      if (gradients_ == nullptr) count(id, Fp8Operand::kX, x, codes);  // once, not when recomputed
      product(codes, scratch_->fp8.weights[index(id)], y, MatmulUpdate::kOverwrite, multiplier(id));
      if (w_.bias(id)) (*this)(BiasAdd{.x = y, .bias = w_.bias(id), .y = y});
    } else {
      CellRunner::linear(x, w_[id], y, multiplier(id), w_.bias(id));
    }
    if (w_.adapter(id).a) adapters(id).forward(x, y);
  }
  /// Runs the linear with what is around it so that a row does not depend on the others. Products
  /// that promise that know no bias, so it, adapters and what comes after them run by themselves.
  /// Nor do they know codes, so they multiply the numbers that these stand for.
  void by_row(LinearId id, const ConstTensorView& x, const TensorView& y,
              const AroundLinear& around = {}) const {
    const Matmul product = linear_by_row(x, w_[id], y, multiplier(id));
    const bool of_codes = multiplies_codes(id);
    const bool adapts = static_cast<bool>(w_.adapter(id).a);
    if (!w_.bias(id) && !of_codes && !adapts) {
      return CellRunner::by_row({.norm = around.norm,
                                 .product = product,
                                 .gate = around.gate,
                                 .residual = around.residual});
    }
    const bool reads_x = of_codes || adapts;  // which a fused norm leaves nowhere
    if (reads_x && around.norm.x) (*this)(around.norm);
    if (of_codes) {
      (*this)(rounded(product));
    } else {
      CellRunner::by_row({.norm = reads_x ? RmsNormForward{} : around.norm, .product = product});
    }
    if (w_.bias(id)) (*this)(BiasAdd{.x = y, .bias = w_.bias(id), .y = y});
    if (adapts) adapters(id).by_row(x, y);
    if (around.gate.y) (*this)(around.gate);
    if (around.residual.a) (*this)(around.residual);
  }
  /// dx [N, in] becomes the gradient of x, where dy [N, out] is that of y.
  void input_gradient(LinearId id, const ConstTensorView& dy, const TensorView& dx,
                      Rounded rounded = Rounded::kNotYet) const {
    if (multiplies_codes(id)) {
      const Fp8Codes codes = gradient_codes(id, dy.rows());
      if (rounded == Rounded::kNotYet) round(dy, codes);
      count(id, Fp8Operand::kDy, dy, codes);
      product(codes, scratch_->fp8.transposed[index(id)], dx, MatmulUpdate::kOverwrite,
              multiplier(id));
    } else {
      CellRunner::input_gradient(dy, w_[id], dx, multiplier(id));
    }
    if (w_.adapter(id).a) adapters(id).input_gradient(dy, dx);
  }
  /// Adds to the gradients of what is trained of the linear: its weights, its bias, its adapters.
  /// Comes next of this linear after input_gradient().
  void weight_gradient(LinearId id, const ConstTensorView& dy, const ConstTensorView& x) const {
    const AdapterViews<TensorView>& d_adapter = gradients_->adapter(id);
    if (d_adapter.a) adapters(id).weight_gradient(dy, x, d_adapter);
    if (const TensorView& dw = (*gradients_)[id]) add_weight_gradient(id, dy, x, dw);
    const TensorView& d_bias = gradients_->bias(id);
    if (!d_bias) return;
    const TensorView& partials = scratch_->bias_partials;
    const Shape used{BiasBackward::kWorkspaceRows, d_bias.elements()};
    (*this)(BiasBackward{
        .dy = dy, .d_bias = d_bias, .workspace = TensorView(partials.data, partials.dtype, used)});
  }

  /// Returns the norm of this id, of x into y, both [N, C]; rstd [N] is written.
  [[nodiscard]] RmsNormForward norm(NormId id, const ConstTensorView& x, const TensorView& y,
                                    const TensorView& rstd, const ModelSpec& spec) const {
    return {.x = x,
            .residual = {},
            .weight = weight(id),
            .sum = {},
            .y = y,
            .rstd = rstd,
            .eps = spec.norm_eps,
            .offset = spec.norm_offset};
  }
  /// Returns the backward of that.
  [[nodiscard]] RmsNormBackward norm_backward(NormId id, const NormGradient& of,
                                              const LlamaScratch& s, const ModelSpec& spec) const {
    return {.dy = of.dy,
            .x = of.x,
            .weight = weight(id),
            .rstd = of.rstd,
            .d_residual = of.d_residual,
            .dx = of.dx,
            .d_weight = gradient(id),
            .workspace = s.norm_partials,
            .offset = spec.norm_offset};
  }
  /// Normalises queries or keys of the packed `from` into those of `to`, which may be the same.
  /// rstd is [N] or, for norms of single heads, [N, heads] or absent. Those may also rotate.
  void normalise(const NormedHeads& of, const TensorView& from, const TensorView& to,
                 const TensorView& rstd, const ModelSpec& spec,
                 const RopeAngles& rotation = {}) const {
    if (!of.one_by_one(layer_)) {
      return (*this)(norm(of.id, of.joined(from), of.joined(to), rstd, spec));
    }
    (*this)(HeadNormForward{.x = of.apart(from),
                            .weight = weight(of.id),
                            .y = of.apart(to),
                            .rstd = rstd,
                            .eps = spec.norm_eps,
                            .offset = spec.norm_offset,
                            .rotation = rotation});
  }

 private:
  static constexpr std::size_t index(LinearId id) { return static_cast<std::size_t>(id); }
  [[nodiscard]] double multiplier(LinearId id) const { return layer_.linear(id).multiplier; }
  [[nodiscard]] bool multiplies_codes(LinearId id) const {
    return layer_.linear(id).products != Products::kPlain;
  }
  /// Returns where the codes of a linear's x, or of the gradient of its y, are for so many tokens.
  [[nodiscard]] Fp8Codes input_codes(LinearId id, std::int64_t tokens) const {
    return scratch_->fp8.rows.shaped(tokens, layer_.linear(id).in);
  }
  [[nodiscard]] Fp8Codes gradient_codes(LinearId id, std::int64_t tokens) const {
    return scratch_->fp8.rows.shaped(tokens, layer_.linear(id).out);
  }
  void round(const ConstTensorView& x, const Fp8Codes& codes) const {
    (*this)(QuantizeFp8Rows{.x = x, .q = codes.q, .scale = codes.scale});
  }
  /// Counts what rounding x has lost, if somebody wants to know.
  void count(LinearId id, Fp8Operand operand, const ConstTensorView& x,
             const Fp8Codes& codes) const {
    if (!counters_) return;
    (*this)(CountFp8{.x = x, .q = codes.q, .counts = counters_.of(id, operand)});
  }
  /// Returns a product with operands that were rounded to codes and back.
  [[nodiscard]] Matmul rounded(Matmul product) const {
    product.a = rounded(product.a, rounded_->x);
    product.b = rounded(product.b, rounded_->w);
    return product;
  }
  [[nodiscard]] ConstTensorView rounded(const ConstTensorView& x, const TensorView& to) const {
    const Fp8Codes codes = rounded_->codes.shaped(x.rows(), x.shape[1]);
    const TensorView numbers(to.data, to.dtype, x.shape);
    round(x, codes);
    (*this)(DequantizeRows{.q = codes.q, .scale = codes.scale, .x = numbers});
    return numbers;
  }
  void add_weight_gradient(LinearId id, const ConstTensorView& dy, const ConstTensorView& x,
                           const TensorView& dw) const {
    if (layer_.linear(id).products != Products::kFp8All) {
      return CellRunner::weight_gradient(dy, x, dw, multiplier(id));
    }
    const Fp8Codes dy_columns = scratch_->fp8.dy_columns.shaped(dy.shape[1], dy.rows());
    const Fp8Codes x_columns = scratch_->fp8.x_columns.shaped(x.shape[1], x.rows());
    (*this)(QuantizeFp8Columns{.x = dy, .q = dy_columns.q, .scale = dy_columns.scale});
    (*this)(QuantizeFp8Columns{.x = x, .q = x_columns.q, .scale = x_columns.scale});
    count(id, Fp8Operand::kDyColumns, dy, dy_columns);
    count(id, Fp8Operand::kXColumns, x, x_columns);
    product(dy_columns, x_columns, dw, MatmulUpdate::kAccumulate, multiplier(id));
  }
  [[nodiscard]] AdapterRunner adapters(LinearId id) const {
    DropoutMask dropout = dropout_;
    dropout.stream += index(id);
    return {*this, layer_.linear(id), w_.adapter(id), *adapters_, dropout};
  }

  const LayerSpec& layer_;
  const LayerWeights& w_;
  const LlamaScratch* scratch_;
  const AdapterScratch* adapters_;
  const LayerGradients* gradients_;
  Fp8Counters counters_;
  const RoundedOperands* rounded_;
  DropoutMask dropout_;
};

}  // namespace strata
