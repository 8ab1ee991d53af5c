// Picks a backend's maker by its kind. The linker brings in each backend, or the twin that says how
// to build it.

#include "strata/ops/backend.h"

#include <stdexcept>

namespace strata {

std::string_view name_of(BackendKind kind) {
  switch (kind) {
    case BackendKind::kCpu: return "cpu";
    case BackendKind::kCuda: return "cuda";
    case BackendKind::kDry: return "dry";
  }
  return "?";
}

Backend make_backend(BackendKind kind, const BackendOptions& options) {
  switch (kind) {
    case BackendKind::kCpu: return make_cpu_backend(options);
    case BackendKind::kCuda: return make_cuda_backend(options);
    case BackendKind::kDry: return make_dry_backend(options);
  }
  throw std::logic_error("make_backend: no such kind");
}

}  // namespace strata
