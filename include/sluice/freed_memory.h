#pragma once

namespace sluice {

/// Has the C library give memory that the program has freed back to the system, if less than a
/// quarter of the machine's or of a control group's memory is available. Returns whether it was.
///
/// The C library keeps freed blocks of some MiB, and seldom uses one for the next block of that
/// size: small blocks between two of them live longer. So a process that frees tensors as it goes
/// would grow as if it had kept them all. Pages that are given back must be faulted in again, which
/// takes as long as a copy of them. Threads: any. Call it after many MiB: a look reads files of
/// proc, and a return visits the whole heap.
bool ReturnFreedMemory();

}  // namespace sluice
