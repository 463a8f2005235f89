#pragma once

namespace sluice::tools {

/// Opens those of descriptors 0, 1 and 2 that the caller closed, so that no file of ours takes
/// their number and gets what is printed: input and errors on /dev/null, output where every write
/// fails, as its loss is an error. Before anything else opens a file; children inherit them. False
/// when one could not be opened.
bool OpenStandardStreams();

}  // namespace sluice::tools
