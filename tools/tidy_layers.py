"""Rules of tools/tidy.py about layers: who may include, link and name what."""

import os
import pathlib
import re

from tidy_functions import strip_code
from tidy_tree import Finding

# Layers: the folders that each may include and link. A folder always sees itself.
LAYERS = {
    "include": set(),
    "base": {"include"},
    "numa": {"include", "base"},
    "io": {"include", "base"},
    "runtime/core": {"include", "base"},
    "runtime/device": {"include", "base", "numa"},
    "runtime/optim": {"include", "base"},
    "runtime/engine": {"include", "base", "numa", "io", "runtime/core", "runtime/device"},
    "runtime/analysis": {"include", "base"},
    "runtime/sim": {"include", "base", "runtime/core", "runtime/analysis"},
    "workloads": {"include", "runtime/optim"},
    "examples": {"include"},
    "python": {"include"},
}
RUNTIME = set(LAYERS) - {"examples", "python"}
LAYERS["bench"] = RUNTIME
LAYERS["tools"] = RUNTIME | {"bench"}
LAYERS["tests/support"] = RUNTIME
LAYERS["tests"] = RUNTIME | {"tests/support", "tools", "bench"}

# The public API is declared in include and made in runtime/engine: who calls it links the engine, and
# sees no header of its.
LINKS_UNSEEN = {"runtime/optim": {"runtime/engine"}}

# Headers that only some folders may include: a pattern of the include, and the folders.
CONFINED = [
    (re.compile(r"liburing\.h|linux/io_uring\.h"), {"io", "tools", "tests", "bench"}),
    (re.compile(r"hwloc(/.*)?\.h|numa(if)?\.h"), {"numa", "tools", "tests", "bench"}),
    (re.compile(r"cuda.*\.h|cublas.*\.h"), {"runtime/device", "runtime/optim", "tools", "tests", "bench"}),
    (re.compile(r"nvtx3/.*"), {"runtime/engine", "tests"}),
    (re.compile(r"zlib\.h"), {"runtime/sim", "tools", "tests", "bench"}),
    (re.compile(r"(gtest|gmock)/.*"), {"tests", "tests/support"}),
]
# Headers that the public contract may include beside the standard library and itself.
PUBLIC_THIRD_PARTY = {"absl/status/status.h", "absl/status/statusor.h"}
# The core owns no thread, no clock and no file.
CORE_FORBIDDEN_INCLUDES = {
    "atomic", "barrier", "condition_variable", "fcntl.h", "filesystem", "fstream", "future",
    "latch", "mutex", "pthread.h", "random", "semaphore", "shared_mutex", "stop_token",
    "thread", "time.h", "ctime", "unistd.h", "base/mutex.h",
    "base/worker_pool.h",
}
CORE_FORBIDDEN_WORDS = re.compile(
    r"\b(steady_clock|system_clock|high_resolution_clock|random_device|getenv)\b")

# Words of the glossary, and others that readers met twice: each is at most one type. A ticket of
# the core is the public one's other half.
TERM = re.compile(
    r"^\s*(?:class|struct|enum class|using) (Completion|Drive|Frame|Iteration|Lane|Lease|Link|Op|OpState|"
    r"Page|Place|Plan|Policy|Reservation|Schedule|Segment|Slot|Stall|Step|SubCommand|Task|Ticket|Tier|Transfer|"
    r"Use)\b(?=[^;]*[{=:]|\s*$)")
SHARED_TERMS = {"Ticket": {"include/sluice/op.h", "runtime/core/state/page.h"}}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def layer_of(path):
    """The layer a path belongs to (the longest matching folder), or None."""
    parts = pathlib.PurePosixPath(path).parts
    for length in (2, 1):
        folder = "/".join(parts[:length])
        if len(parts) > length and folder in LAYERS:
            return folder
    return None


# --- include directions -----------------------------------------------------------------------


def check_includes(tree):
    for path, text in tree.sources():
        layer = layer_of(path)
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            for rule, message in _include_problems(tree, path, layer, *match.groups()):
                yield Finding(path, number, rule, message)


def _include_problems(tree, path, layer, bracket, included):
    target = _resolve(tree, included)
    if target is None and bracket == '"' and _beside(path, included) in tree.files:
        yield "include-path", f'write "{_beside(path, included)}": includes start at the root'
        return
    if target is not None:
        yield from _direction_problems(layer, layer_of(target), included)
    elif layer == "include" and _is_third_party(bracket, included):
        yield "public-header", f"public headers include only std, absl status and sluice: {included}"
    for pattern, folders in CONFINED:
        if layer and pattern.fullmatch(included) and layer not in folders:
            yield "confined-header", f"{layer} may not include {included}"
    if layer == "runtime/core" and included in CORE_FORBIDDEN_INCLUDES:
        yield "core-purity", f"runtime/core owns no thread, clock or file: {included}"


def _direction_problems(layer, target_layer, included):
    if layer is None or target_layer is None or layer == target_layer:
        return
    if target_layer not in LAYERS[layer]:
        yield "include-direction", f"{layer} may not include {target_layer} ({included})"


def _resolve(tree, included):
    for candidate in (f"include/{included}", included):
        if candidate in tree.files:
            return candidate
    return None


def _beside(path, included):
    return str(pathlib.PurePosixPath(path).parent / included)


def _is_third_party(bracket, included):
    is_std = bracket == "<" and re.fullmatch(r"[a-z_0-9]+", included) is not None
    return not is_std and included not in PUBLIC_THIRD_PARTY


def check_terms(tree):
    """A term names one type: two that a reader has to tell apart have two names."""
    homes = {}
    for path, text in tree.sources():
        if layer_of(path) not in RUNTIME | {"bench", "tools", "python"}:
            continue
        for number, line in enumerate(strip_code(text).splitlines(), 1):
            match = TERM.match(line)
            if match and path not in SHARED_TERMS.get(match.group(1), ()):
                homes.setdefault(match.group(1), []).append((path, number))
    for term, places in homes.items():
        for path, number in places[1 if term not in SHARED_TERMS else 0:]:
            yield Finding(path, number, "two-types", f"another type is named {term}; give this one a name of its own")


def check_core_words(tree):
    for path, text in tree.sources():
        if layer_of(path) != "runtime/core":
            continue
        for number, line in enumerate(strip_code(text).splitlines(), 1):
            match = CORE_FORBIDDEN_WORDS.search(line)
            if match:
                yield Finding(path, number, "core-purity",
                              f"the core is deterministic (I7): {match.group(1)}")


# --- the link graph ---------------------------------------------------------------------------

LIBRARY_CALL = re.compile(r"\bsluice(?:_test)?_library\s*\(\s*(\w+)([^)]*)\)")
LINK_CALL = re.compile(r"\btarget_link_libraries\s*\(\s*(\w+)([^)]*)\)")
OWN_TARGET = re.compile(r"\bsluice(?:_|::)(\w+)")
# Helper targets that are no layer.
NO_LAYER = {"warnings", "umbrella", "sluice"}


def _cmake_lists(tree):
    for path, text in sorted(tree.files.items()):
        if pathlib.PurePosixPath(path).name == "CMakeLists.txt":
            yield path, re.sub(r"#[^\n]*", "", text)


def _links_of(body):
    keywords = re.search(r"\b(PUBLIC|PRIVATE|INTERFACE)\b.*", body, re.S)
    return OWN_TARGET.findall(keywords.group(0)) if keywords else []


def check_links(tree):
    """Every library may link only the layers that its folder may include."""
    folder_of = {"headers": "include"}
    for path, text in _cmake_lists(tree):
        for match in LIBRARY_CALL.finditer(text):
            folder_of[match.group(1).removeprefix("sluice_")] = layer_of(path)
    for path, text in _cmake_lists(tree):
        for call in (LIBRARY_CALL, LINK_CALL):
            for match in call.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                for message in _link_problems(match, layer_of(path), folder_of):
                    yield Finding(path, line, "link-direction", message)


def _link_problems(match, layer, folder_of):
    for name in _links_of(match.group(2)):
        if name in NO_LAYER or layer is None:
            continue
        if name not in folder_of:
            yield f"{match.group(1)} links sluice_{name}, which no sluice_library() makes"
        elif folder_of[name] not in LAYERS[layer] | LINKS_UNSEEN.get(layer, set()) | {layer}:
            yield f"{match.group(1)} ({layer}) may not link {folder_of[name]} (sluice_{name})"


def check_orphans(tree):
    """Every source is named in some CMakeLists.txt, relative to the folder of that file."""
    named = {os.path.normpath(os.path.join(os.path.dirname(path), name))
             for path, text in _cmake_lists(tree)
             for name in re.findall(r"[\w./-]+\.(?:cc|cu)\b", text)}
    for path, _ in tree.sources():
        if not path.endswith((".h", ".cuh")) and path not in named:
            yield Finding(path, 1, "orphan-source", "named in no CMakeLists.txt")


CHECKS = [check_includes, check_terms, check_core_words, check_links, check_orphans]
