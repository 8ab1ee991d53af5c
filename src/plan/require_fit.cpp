// Compares a setup with its limits and refuses it if it exceeds one. The sentence names the memory
// that binds, with its parts; which keys make them smaller is the business of refusal.h, since that
// takes planning anew.

#include "plan/require_fit.h"

#include <string>
#include <string_view>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/plan/room.h"
#include "strata/plan/sample_setup.h"

namespace strata {

namespace {

/// Returns ": 2 GiB pinned, 1 GiB pageable, ...", as far as there is anything.
std::string host_parts(const Setup& s) {
  std::string text;
  const auto add = [&](std::size_t bytes, std::string_view what) {
    if (bytes > 0) {
      text += (text.empty() ? ": " : ", ") + format_bytes(bytes) + " " + std::string(what);
    }
  };
  for (const SpaceTraits& memory : kSpaces) {
    if (memory.of_host) add(s.plan.total(memory.space), memory.name);
  }
  add(s.plan.heap(), "heap");
  if (s.budget.device_is_host) {
    add(s.plan.total(Space::kDevice), "as device memory of the cpu backend");
  }
  add(s.budget.host_overhead, "program and libraries");
  return text;
}

std::string limited_by(std::size_t limit, const std::string& origin) {
  return "; the limit is " + format_bytes(limit) + " (" + origin + ")";
}

}  // namespace

Shortage shortage_of(const Setup& s) {
  const Room room(s.budget, s.limits);
  if (!room.fits_device(s.use())) return Shortage::kDevice;
  if (!room.fits_host(s.use())) return Shortage::kHost;
  return s.samples && !s.samples->fits() ? Shortage::kSamples : Shortage::kNone;
}

std::string shortage_text(const Setup& s) {
  switch (shortage_of(s)) {
    case Shortage::kNone: break;
    case Shortage::kSamples: return sample_shortage(*s.samples);
    case Shortage::kDevice:
      return "the run needs " + format_bytes(s.device_bytes()) + " on the device" +
             limited_by(*s.budget.device_limit, s.budget.device_limit_origin);
    case Shortage::kHost: return host_need_text(s);
  }
  return {};
}

std::string host_need_text(const Setup& s) {
  return "the run needs " + format_bytes(s.host_bytes()) + " on the host" + host_parts(s) +
         limited_by(*s.budget.host_limit, s.budget.host_limit_origin);
}

void require_fit(const Setup& s) {
  if (shortage_of(s) != Shortage::kNone) throw OutOfMemory(shortage_text(s));
}

}  // namespace strata
