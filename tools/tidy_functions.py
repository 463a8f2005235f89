"""Finds the functions of a C++ source for tools/tidy.py, without a compiler."""

import re

_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|(?m:^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)", re.S)


def strip_code(text):
    """`text` with comments, literals and preprocessor lines blanked; line numbers stay."""
    return _TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


_CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def functions(text):
    """(name, first line, last line) of every function body, nested lambdas counted as its part."""
    code = strip_code(text)
    head_start = position = 0
    while position < len(code):
        character = code[position]
        if character in ";}":
            head_start = position + 1
        elif character == "{":
            head = code[head_start:position]
            name = _function_name(head)
            if name is not None:
                end = _body_end(code, position)
                first = code.count("\n", 0, _body_start(code, position, end)) + 1
                yield name, first, code.count("\n", 0, end) + 1
                position = end
            elif not _CONTAINER.search(head):
                position = _matching(code, position)
            head_start = position + 1
        position += 1


def _function_name(head):
    """The name of the function whose head this is; None for a class, namespace or initialiser."""
    flat = re.sub(r"<[^<>()]*>", "", head)
    match = re.search(r"(~?[\w:]+|operator\s*\S+?)\s*\((?!\s*\))?", flat)
    if not match or "(" not in flat or re.search(r"=\s*$", flat):
        return None
    if _CONTAINER.search(flat.split("(")[0]) and "(" not in _after_container(flat):
        return None
    argument = re.match(r"\s*TEST(?:_[FP])?\s*\(([^)]*)\)", flat)
    return re.sub(r"\s+", "", argument.group(1)) if argument else match.group(1)


def _after_container(flat):
    # An attribute or annotation before a class name carries parentheses of its own.
    return re.sub(r"\b(class|struct|union|enum)\b(\s*[A-Z_]{4,}(\([^)]*\))?)?", "", flat)


def _matching(code, start):
    depth = 0
    for position in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if depth == 0:
            return position
    return len(code) - 1


def _body_end(code, start):
    """The last brace of the body; brace-initialised members before the body are passed over."""
    end = _matching(code, start)
    while True:
        rest = re.compile(r"\s*(,[^;{}]*)?\{").match(code, end + 1)
        if not rest:
            return end
        end = _matching(code, rest.end() - 1)


def _body_start(code, start, end):
    position = start
    while _matching(code, position) != end:
        position = code.index("{", _matching(code, position))
    return position
