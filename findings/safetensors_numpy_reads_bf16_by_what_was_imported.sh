#!/usr/bin/env bash
# safetensors 0.8.0 with numpy 2.2.6 and ml_dtypes 0.5.4 (PyPI): whether a BF16 checkpoint can be read depends on what
# else the process has imported, and the two loaders of the numpy API disagree about it.
#
# A good guess is that the installed packages decide: ml_dtypes gives numpy a bfloat16, so a process that has it can
# read BF16. safetensors.numpy.load_file asks numpy for the type by its name, which numpy knows only after someone has
# imported ml_dtypes.
#
# So a converter works while another module (jax, for one) imports it, and fails with a TypeError once that import
# goes. safetensors.numpy.load, given the same bytes, has a table of its own and refuses BF16 always, with a KeyError.
# Neither error is SafetensorError, which callers catch, and neither names a package to install. Checkpoints of
# offloaded models are BF16 as a rule, and numpy is the way to read them where torch is not wanted.
#
# Seen: load_file  TypeError, then bfloat16 after `import ml_dtypes`; load  KeyError before and after.
# The script fails when one of the four outcomes changes.
#
# Needs: python3 with venv, and PyPI.
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet safetensors==0.8.0 numpy==2.2.6 ml_dtypes==0.5.4

cat >read.py <<'SOURCE'
import json
import struct

from safetensors.numpy import load, load_file

header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
content = struct.pack("<Q", len(header)) + header + struct.pack("<HH", 0x3F80, 0x4000)
with open("w.safetensors", "wb") as file:
    file.write(content)


def outcome(read):
    try:
        return str(read()["w"].dtype)
    except Exception as error:
        return type(error).__name__


def both():
    return [outcome(lambda: load_file("w.safetensors")), outcome(lambda: load(content))]


before = both()
import ml_dtypes  # noqa: E402,F401: only for what it registers

print(*before, *both())
SOURCE
seen=$(venv/bin/python read.py)
echo "load_file and load before the import of ml_dtypes, and after it: $seen"
[ "$seen" = "TypeError KeyError bfloat16 KeyError" ]
