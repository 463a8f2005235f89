#pragma once

#include "gtest/gtest.h"
#include "tests/faults/cases/fault_cases.h"

#define SLUICE_INSTANTIATE_FAULT(Suite, Group, Cases) \
  INSTANTIATE_TEST_SUITE_P(                           \
      Group, Suite, ::testing::ValuesIn(Cases), [](const auto& test) { return test.param.name; })

/// The cases of each class under the name of the class, so that one class can be chosen.
#define SLUICE_INSTANTIATE_FAULTS(Suite)                                    \
  SLUICE_INSTANTIATE_FAULT(Suite, ShortCount, ShortCountCases());           \
  SLUICE_INSTANTIATE_FAULT(Suite, PassingError, PassingErrorCases());       \
  SLUICE_INSTANTIATE_FAULT(Suite, UnreadablePage, UnreadablePageCases());   \
  SLUICE_INSTANTIATE_FAULT(Suite, WriteError, WriteErrorCases());           \
  SLUICE_INSTANTIATE_FAULT(Suite, Corruption, CorruptionCases());           \
  SLUICE_INSTANTIATE_FAULT(Suite, LostWrite, LostWriteCases());             \
  SLUICE_INSTANTIATE_FAULT(Suite, Registration, RegistrationCases());       \
  SLUICE_INSTANTIATE_FAULT(Suite, FullRing, FullRingCases());               \
  SLUICE_INSTANTIATE_FAULT(Suite, SlowAttempt, SlowAttemptCases());         \
  SLUICE_INSTANTIATE_FAULT(Suite, OutOfOrder, OutOfOrderCases());           \
  SLUICE_INSTANTIATE_FAULT(Suite, RefusedDirectIo, RefusedDirectIoCases()); \
  SLUICE_INSTANTIATE_FAULT(Suite, Destruction, DestructionCases());         \
  SLUICE_INSTANTIATE_FAULT(Suite, Fork, ForkCases());                       \
  SLUICE_INSTANTIATE_FAULT(Suite, ThreeTiers, ThreeTierCases());            \
  SLUICE_INSTANTIATE_FAULT(Suite, TwoDrives, TwoDriveCases())
