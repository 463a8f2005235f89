#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/optimizer.h"
#include "sluice/runtime.h"

// Names that the usage blocks of headers and documents take from the reader's program. Nothing
// defines them: scripts/compile_usage.py compiles the blocks and links nothing.

extern std::unique_ptr<sluice::Runtime> runtime;
extern sluice::RuntimeOptions options;
extern sluice::Op op;
extern sluice::TensorId weights, output, a, b;
extern std::vector<float> values, gradient;
extern std::span<std::byte> copy_of_a;
extern std::span<const std::byte> gradient_of_a, gradient_of_b;
extern int steps, last;
extern double scale;

template <typename... T>
void Use(const T&... what);
template <typename... T>
void Print(const T&... what);
template <typename... T>
void Count(const T&... what);
void Warn(const std::string& reason);
void Forward(std::span<const float> weights);
void Multiply(std::span<const float> weights, std::span<float> output);
void LaunchKernel();
double RateOf(std::int64_t step);
