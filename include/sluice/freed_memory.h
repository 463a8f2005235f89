#pragma once

/// Memory that the program has freed and the C library still holds:
///
///   std::uint64_t freed = 0;
///   for (int step = 0; step < steps; ++step) {
///     std::vector<float> saved(std::size_t{4} << 20);
///     freed += saved.size() * sizeof(float);
///     saved = {};                               // the heap keeps its memory
///     if (freed < 64u << 20) continue;
///     freed = 0;
///     (void)sluice::ReturnFreedMemory();        // where memory is short
///   }

namespace sluice {

/// Has the C library give memory that the program has freed back to the system, if less than a
/// quarter of the machine's or of a control group's memory is available. Returns whether it was.
///
/// The C library keeps freed blocks of some MiB, and often cannot use one for the next block of
/// that size: small blocks between two of them live longer. So a process that frees tensors as it
/// goes grows nearly as if it had kept them. Pages that are given back must be faulted in again,
/// which takes as long as a copy of them. Threads: any. Call it after many MiB: a look reads files
/// of proc, and a return visits the whole heap.
bool ReturnFreedMemory();

}  // namespace sluice
