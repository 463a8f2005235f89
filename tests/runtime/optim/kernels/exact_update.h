#pragma once

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// The textbooks' updates in double, with the magnitudes of their terms.

/// KernelScalars in double.
struct ExactScalars {
  double rate = 0, beta1 = 0, beta2 = 0, eps = 0, decay = 0, moment1_scale = 1, moment2_scale = 1;

  /// Scalars that a kernel was given, exactly.
  static ExactScalars Of(const KernelScalars& scalars);
  /// Scalars of step `t`, as the textbooks have them.
  static ExactScalars OfStep(OptimizerKind kind, const GroupRates& rates, int t);
};

/// An element, and for each of its numbers the largest magnitude among its terms.
struct ExactElement {
  double p = 0;
  double states[2] = {};  ///< m, v; Adagrad: s
  double step_term = 0;   ///< term taken from the parameter
  double state_terms[2] = {};
  /// Lion's distance from zero of the number whose sign counts, relative to its largest term.
  double sign_margin = 1;
};

/// `gradient`: scaled already.
void ExactUpdate(OptimizerKind kind, const ExactScalars& s, double gradient, ExactElement* element);

/// One unit in the last place of fp32.
double UlpOf(double term);

}  // namespace sluice::optim
