// A value, or the list of reasons why there is none.
//
// User errors travel as Result; broken invariants stop the program (check.h).
// Nothing in this project throws across a function boundary.
#pragma once

#include <optional>
#include <utility>

#include "ir/base/check.h"
#include "ir/base/diagnostic.h"

namespace mega {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Errors errors) : errors_(std::move(errors)) {}
  Result(Diagnostic error) : errors_{std::move(error)} {}

  bool ok() const { return value_.has_value(); }
  T& value() & {
    MEGA_CHECK(ok(), "value() of a failed Result");
    return *value_;
  }
  const T& value() const& {
    MEGA_CHECK(ok(), "value() of a failed Result");
    return *value_;
  }
  const Errors& errors() const& {
    MEGA_CHECK(!ok(), "errors() of a Result that has a value");
    return errors_;
  }

  // By value on a temporary: `for (auto& e : read(file).errors())` must not dangle.
  T value() && {
    MEGA_CHECK(ok(), "value() of a failed Result");
    return std::move(*value_);
  }
  Errors errors() && {
    MEGA_CHECK(!ok(), "errors() of a Result that has a value");
    return std::move(errors_);
  }

 private:
  std::optional<T> value_;
  Errors errors_;  // not in a variant with the value: GCC 12 warns falsely about its moves
};

struct Ok {};
using Status = Result<Ok>;

}  // namespace mega

#define MEGA_CONCAT_(a, b) a##b
#define MEGA_CONCAT(a, b) MEGA_CONCAT_(a, b)

// MEGA_TRY(Plan plan, emit_plan(graph)); returns the errors to the caller on failure.
// Several statements: never the unbraced body of an if.
#define MEGA_TRY(declaration, expression) \
  MEGA_TRY_(declaration, expression, MEGA_CONCAT(mega_result_, __LINE__))
#define MEGA_TRY_(declaration, expression, result)     \
  auto result = (expression);                          \
  if (!result.ok()) return std::move(result).errors(); \
  declaration = std::move(result).value()

// MEGA_TRY_STATUS(write_file(path, text));
#define MEGA_TRY_STATUS(expression) \
  MEGA_TRY_STATUS_(expression, MEGA_CONCAT(mega_status_, __LINE__))
#define MEGA_TRY_STATUS_(expression, status) \
  auto status = (expression);                \
  if (!status.ok()) return std::move(status).errors()
