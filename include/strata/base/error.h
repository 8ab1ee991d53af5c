#pragma once

#include <stdexcept>
#include <string>

namespace strata {

/// Root of every error that strata throws on purpose. `exit_code()` is what the program returns.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  [[nodiscard]] virtual int exit_code() const noexcept { return 1; }
};

/// A config value or a command-line argument is wrong. Names the key and the remedy.
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

/// A memory budget does not hold what was asked of it. Names the ledger and the knob to turn.
class OutOfMemory : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 3; }
};

/// A call into CUDA, cuBLAS, NCCL or MPI failed. Names call, code, file and line.
class BackendError : public Error {
 public:
  using Error::Error;
};

/// A file is missing, unreadable, torn or not what it claims to be. Names the file.
class IoError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 2; }
};

/// Training met a non-finite number that it must not go on from. Names step and unit.
class NumericalError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 4; }
};

}  // namespace strata
