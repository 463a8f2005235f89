#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Early return of errors. The workload sees the public contract only, so it has macros of its own.

#define GPT_RETURN_IF_ERROR(expression)                             \
  do {                                                              \
    if (absl::Status gpt_status = (expression); !gpt_status.ok()) { \
      return gpt_status;                                            \
    }                                                               \
  } while (false)

#define GPT_STATUS_CONCAT_INNER(a, b) a##b
#define GPT_STATUS_CONCAT(a, b) GPT_STATUS_CONCAT_INNER(a, b)
#define GPT_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return std::move(result).status();        \
  target = std::move(result).value()
#define GPT_ASSIGN_OR_RETURN(target, expression) \
  GPT_ASSIGN_OR_RETURN_IMPL(GPT_STATUS_CONCAT(gpt_result_, __LINE__), target, expression)
