#pragma once

namespace sluice::tools {

/// Opens those of descriptors 0, 1 and 2 that the caller closed, so that no file of ours takes
/// their number and gets printed text. Input and errors go to /dev/null. Output goes where every
/// write fails, as its loss is an error. Children inherit the descriptors. Returns false when one
/// could not be opened. REQUIRES: nothing else has opened a file.
bool OpenStandardStreams();

}  // namespace sluice::tools
