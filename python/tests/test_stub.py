"""The stub of the compiled module says what the module has."""

import ast
import pathlib
import re

from sluice import _core


def functions_of(body):
    return {node.name: [each.arg for each in node.args.posonlyargs + node.args.args]
            for node in body if isinstance(node, ast.FunctionDef)}


def stub():
    """Functions of the module, and of each class; the module under ""."""
    tree = ast.parse((pathlib.Path(_core.__file__).parent / "_core.pyi").read_text())
    classes = {node.name: functions_of(node.body) for node in tree.body if isinstance(node, ast.ClassDef)}
    return {"": functions_of(tree.body), **classes}


def parameters(function):
    """Names of the parameters of a nanobind function, where it names them."""
    (signature, *_), = function.__nb_signature__
    signature = re.sub(r"\\\d+", "...", signature)  # a default is a number there
    arguments = ast.parse(signature + ": ...").body[0].args
    return [each.arg for each in arguments.posonlyargs + arguments.args]


def module():
    classes = {name: value for name, value in vars(_core).items() if isinstance(value, type)}
    found = {"": {name: parameters(value) for name, value in vars(_core).items()
                  if hasattr(value, "__nb_signature__")}}
    for name, kind in classes.items():
        found[name] = {each: parameters(value) if hasattr(value, "__nb_signature__") else ["self"]
                       for each, value in vars(kind).items()
                       if hasattr(value, "__nb_signature__") or isinstance(value, property)
                       or type(value).__name__ == "property"}
    return found


def test_the_stub_is_true():
    written, real = stub(), module()
    written["Memory"].pop("__buffer__")  # a slot of the type, no method before Python 3.12
    assert written == real
