// Tests what the program says and ends with when an exception comes to its end.

#include "strata/base/error.h"

#include <filesystem>
#include <new>
#include <stdexcept>

#include "support/catch.h"

namespace strata::test {
namespace {

template <class Exception>
Failure failure_of(const Exception& exception) {
  try {
    throw exception;
  } catch (const std::exception&) {
    return current_failure();
  }
}

}  // namespace

TEST_CASE("an error of strata's own ends the program with its text and its code") {
  const Failure failure = failure_of(NumericalError("the loss of step 3 is not finite"));
  CHECK(failure.text == "the loss of step 3 is not finite");
  CHECK(failure.exit_code == 4);
}

TEST_CASE("errors of the standard library name the file or the remedy, not the function") {
  const auto no_entry = std::make_error_code(std::errc::no_such_file_or_directory);
  const Failure file =
      failure_of(std::filesystem::filesystem_error("directory_iterator", "runs/1", no_entry));
  CHECK(file.text == "runs/1: No such file or directory");
  CHECK(file.exit_code == 2);
  const Failure memory = failure_of(std::bad_alloc());
  CHECK_THAT(memory.text, ContainsSubstring("memory.host_limit"));
  CHECK(memory.exit_code == 3);
  const Failure other = failure_of(std::runtime_error("what came"));
  CHECK(other.text == "what came");
  CHECK(other.exit_code == 1);
}

}  // namespace strata::test
