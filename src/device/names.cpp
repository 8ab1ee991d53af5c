// The names of lanes and reasons, as traces and messages show them. Tests compare these
// texts, so a name is part of what a trace means.

#include "strata/device/lane.h"

namespace strata {

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::kCompute: return "compute";
    case Lane::kWeightsIn: return "weights_in";
    case Lane::kActivationsIn: return "activations_in";
    case Lane::kOut: return "out";
    case Lane::kComm: return "comm";
    case Lane::kHost: return "host";
    case Lane::kSave: return "save";
  }
  return "?";
}

std::string_view name_of(WaitFor why) {
  switch (why) {
    case WaitFor::kFilled: return "filled";
    case WaitFor::kReuse: return "reuse";
    case WaitFor::kUpdated: return "updated";
    case WaitFor::kArrived: return "arrived";
    case WaitFor::kGathered: return "gathered";
    case WaitFor::kTaken: return "taken";
    case WaitFor::kDecided: return "decided";
    case WaitFor::kSaved: return "saved";
    case WaitFor::kTurn: return "turn";
  }
  return "?";
}

}  // namespace strata
