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

/// Has the C library give freed memory back to the system, where memory is short: less than a
/// quarter of the machine's, or of a control group's limit, is available, or neither can be read.
/// Returns whether memory is short.
///
/// The C library keeps freed blocks of some MiB. Two of them cannot join while a small block
/// between them lives, and each may be too small for the next aligned request of the same size.
/// Then a process grows though it frees its tensors. Returned pages have to be faulted in again,
/// which takes about as long as a copy of them.
///
/// Threads: any. A call reads files of proc, and a return visits the whole heap, so one call per
/// 64 MiB is enough.
bool ReturnFreedMemory();

}  // namespace sluice
