// Puts the exception that ends the program into words. Exceptions of the standard library that
// reach the end of the program are told like strata's own.

#include "strata/base/error.h"

#include <exception>
#include <filesystem>
#include <new>

#include "strata/base/start_thread.h"

namespace strata {

Failure current_failure() {
  try {
    throw;
  } catch (const Error& e) {
    return {e.what(), e.exit_code()};
  } catch (const std::filesystem::filesystem_error& e) {
    return {e.path1().string() + ": " + e.code().message(), IoError("").exit_code()};
  } catch (const std::bad_alloc&) {
    return {"the system refused memory" + address_limit() +
                "; lower memory.host_limit or the model's size",
            OutOfMemory("").exit_code()};
  } catch (const std::exception& e) {
    return {e.what(), 1};
  }
}

}  // namespace strata
