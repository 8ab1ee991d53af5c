// A library in the place of NCCL, for ranks that are threads on cpu devices. As NCCL does, it
// connects ranks that bring the same id, queues its work on the lane that it is given, works in
// place, and waits for ever when ranks call different collectives. Who closes a connection waits
// for the other ranks to do the same, unless it aborts. Tests tell it what is to fail.
#pragma once

#include <memory>
#include <string>

#include "comm/nccl_api.h"

namespace strata {

class FakeNccl {
 public:
  FakeNccl();
  ~FakeNccl();
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  /// Returns the table of one rank; it uses this object.
  [[nodiscard]] NcclApi api();

  /// Lets connecting fail on this rank with kInvalidUsage and this text.
  void fail_connecting(int rank, std::string text);
  /// Reports an asynchronous error of this text on a rank from now on.
  void fail_later(int rank, std::string text);
  /// Lets the next collective of this rank never end.
  void hang_next(int rank);
  /// Ends what waits for ever: whatever waits throws BackendError.
  void release();
  /// Returns whether a rank has closed its connection and the others never did.
  [[nodiscard]] bool hung() const;
  /// Returns how many connections are open, and how many were aborted.
  [[nodiscard]] int open() const;
  [[nodiscard]] int aborted() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace strata
