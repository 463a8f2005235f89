#pragma once

/// Memory that the program has freed and the C library still holds:
///
///   std::uint64_t freed = 0, due = 0;
///   for (int step = 0; step < steps; ++step) {
///     std::vector<float> saved(std::size_t{4} << 20);
///     freed += saved.size() * sizeof(float);
///     saved = {};                               // the heap keeps its memory
///     if (freed < due) continue;
///     freed = 0;
///     due = sluice::ReturnFreedMemory().next_bytes;
///   }

#include <cstdint>

namespace sluice {

struct ReturnedMemory {
  /// Memory was short, and freed memory was given back.
  bool was_short = false;
  /// Bytes that the program may free until the next call: 64 MiB, or an eighth of what is
  /// available, and 4 MiB at least. A heap grows by several times what a program frees.
  std::uint64_t next_bytes = 0;
};

/// Has the C library give freed memory back to the system, where memory is short: less than a
/// quarter of the machine's, or of a control group's limit, is available, or neither can be read.
///
/// The C library keeps freed blocks of some MiB. Two of them cannot join while a small block
/// between them lives, and each may be too small for the next aligned request of the same size.
/// Then a process grows though it frees its tensors. Returned pages have to be faulted in again,
/// which takes about as long as a copy of them.
///
/// Threads: any. A call reads files of proc. A return visits every free block of the heap, about a
/// microsecond each: a heap of 200,000 free pieces makes it slow where memory stays short.
ReturnedMemory ReturnFreedMemory();

}  // namespace sluice
