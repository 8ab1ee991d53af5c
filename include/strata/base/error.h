// The errors that strata throws on purpose. Each class stands for one kind of cause and carries the
// exit code that the program ends with: 2 for config and input, 3 for memory and threads, 4 for
// numbers, 1 for the rest. A message names what is wrong and what to do about it, because main
// prints nothing else.
#pragma once

#include <stdexcept>
#include <string>

namespace strata {

/// Root of every error that strata throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// Returns the exit code of a program that this error ends.
  [[nodiscard]] virtual int exit_code() const noexcept { return 1; }
};

/// A config value or a command-line argument is wrong. The message names the key and the remedy.
class ConfigError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 2; }
};

/// An operator was given tensors whose shapes, dtypes or layouts do not fit together.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A memory budget does not hold what was asked of it. The message names the ledger and the option
/// to change.
class OutOfMemory : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 3; }
};

/// The system starts no more threads. The message names the thread and the limits.
class OutOfThreads : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 3; }
};

/// A call into CUDA, cuBLAS, NCCL or MPI failed, or this build or machine cannot run what was
/// asked. The message names the call and its error code where there was one.
class BackendError : public Error {
 public:
  using Error::Error;
};

/// A call in which ranks meet failed. The fault is rarely this rank's: another may have died.
class ConnectionError : public BackendError {
 public:
  using BackendError::BackendError;
};

/// A file is missing, unreadable, torn or not what it claims to be. The message names the file.
class IoError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 2; }
};

/// Training met a non-finite number that it must not go on from. The message names step and unit.
class NumericalError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 4; }
};

/// Why the program ends, for a person, and what it ends with.
struct Failure {
  std::string text;
  int exit_code = 1;
};

/// Returns what the exception that is being handled says; to be called in a handler. One that is
/// none of the above has the text and the code of the class that its cause belongs to.
[[nodiscard]] Failure current_failure();

}  // namespace strata
