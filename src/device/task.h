// What host lanes run: a submission is one task, however many pieces its operator enqueues. Used by
// the backends that have host threads.

#pragma once

#include <functional>
#include <utility>

namespace strata {

/// Lets `work` run `more` too, after what it runs already. The first piece takes no memory.
inline void append_task(std::function<void()>& work, std::function<void()> more) {
  if (!work) {
    work = std::move(more);
    return;
  }
  work = [first = std::move(work), second = std::move(more)] {
    first();
    second();
  };
}

}  // namespace strata
