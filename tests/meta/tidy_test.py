"""Proves that every rule of tools/tidy.py finds a planted violation and accepts the clean form."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import tidy  # noqa: E402  (the path above comes first)
import tidy_functions  # noqa: E402
import tidy_layers  # noqa: E402
import tidy_text  # noqa: E402

BASE = {
    "include/sluice/units.h": "#pragma once\n#include <cstdint>\n",
    "base/check.h": "#pragma once\n",
    "base/mutex.h": "#pragma once\n",
    "io/ring.h": "#pragma once\n",
    "numa/arena.h": "#pragma once\n",
    "runtime/core/core.h": "#pragma once\n",
    "runtime/device/device.h": "#pragma once\n",
    "runtime/engine/engine.h": "#pragma once\n",
    "workloads/gpt/model.h": "#pragma once\n",
}


def findings(extra):
    return tidy.run(tidy.Tree({**BASE, **extra}))


class TidyTestCase(unittest.TestCase):

    def expect(self, rule, extra, path=None, count=1):
        found = findings(extra)
        self.assertEqual([finding.rule for finding in found], [rule] * count,
                         [str(finding) for finding in found])
        if path:
            self.assertEqual(found[0].path, path)

    def expect_clean(self, extra):
        self.assertEqual([str(finding) for finding in findings(extra)], [])


class IncludesTest(TidyTestCase):

    def test_forbidden_directions(self):
        for path, included in [
                ("base/a.h", "io/ring.h"), ("io/a.h", "numa/arena.h"), ("numa/a.h", "io/ring.h"),
                ("io/a.h", "runtime/core/core.h"), ("runtime/core/a.h", "io/ring.h"),
                ("runtime/core/a.h", "runtime/device/device.h"),
                ("runtime/device/a.h", "runtime/core/core.h"),
                ("workloads/gpt/a.h", "base/check.h"),
                ("workloads/gpt/a.h", "runtime/engine/engine.h"),
                ("runtime/engine/a.h", "workloads/gpt/model.h"),
                ("include/sluice/a.h", "base/check.h")]:
            with self.subTest(path=path, included=included):
                found = findings({path: f'#pragma once\n#include "{included}"\n'})
                self.assertEqual([(f.rule, f.path, f.line) for f in found],
                                 [("include-direction", path, 2)])

    def test_allowed_directions(self):
        self.expect_clean({
            "io/a.h": '#pragma once\n#include "base/check.h"\n#include "sluice/units.h"\n',
            "runtime/core/a.h": '#pragma once\n#include "base/check.h"\n',
            "runtime/device/a.h": '#pragma once\n#include "numa/arena.h"\n',
            "runtime/engine/a.h": '#pragma once\n#include "io/ring.h"\n'
                                  '#include "runtime/core/core.h"\n'})

    def test_no_library_includes_tests(self):
        self.expect("include-direction", {
            "tests/support/fake.h": "#pragma once\n",
            "io/a.h": '#pragma once\n#include "tests/support/fake.h"\n'})

    def test_includes_start_at_the_root(self):
        self.expect("include-path", {"io/a.h": '#pragma once\n#include "ring.h"\n'})

    def test_public_headers_have_no_third_party(self):
        for included in ["<toml++/toml.h>", '"absl/strings/string_view.h"', "<unistd.h>"]:
            with self.subTest(included=included):
                self.expect("public-header",
                            {"include/sluice/a.h": f"#pragma once\n#include {included}\n"})
        self.expect_clean({"include/sluice/a.h": "#pragma once\n#include <vector>\n"
                                                 '#include "absl/status/statusor.h"\n'})

    def test_confined_headers(self):
        for path, included in [("base/a.h", "liburing.h"), ("io/a.h", "hwloc.h"),
                               ("runtime/core/a.h", "numa.h"), ("numa/a.h", "cuda_runtime.h"),
                               ("io/a.h", "gtest/gtest.h")]:
            with self.subTest(path=path, included=included):
                self.expect("confined-header", {path: f"#pragma once\n#include <{included}>\n"})
        self.expect_clean({"io/a.h": "#pragma once\n#include <liburing.h>\n",
                           "numa/a.h": "#pragma once\n#include <hwloc.h>\n#include <numaif.h>\n"})

    def test_core_is_pure(self):
        for included in ["<thread>", "<mutex>", "<fcntl.h>", '"base/mutex.h"']:
            with self.subTest(included=included):
                self.expect("core-purity",
                            {"runtime/core/a.h": f"#pragma once\n#include {included}\n"})
        self.expect("core-purity", {
            "runtime/core/a.h": "#pragma once\nauto t = std::chrono::steady_clock::now();\n"})
        self.expect_clean({"runtime/core/a.h": "#pragma once\n// no steady_clock here\n"})


class LinksTest(TidyTestCase):

    LISTS = {
        "include/CMakeLists.txt": "add_library(sluice_headers INTERFACE)\n",
        "base/CMakeLists.txt": "sluice_library(sluice_base SOURCES PUBLIC sluice_headers)\n",
        "io/CMakeLists.txt": "sluice_library(sluice_io SOURCES PUBLIC sluice_base PRIVATE fmt::fmt)\n",
        "numa/CMakeLists.txt": "sluice_library(sluice_numa SOURCES PRIVATE sluice::base)\n",
    }

    def test_the_diagram_is_accepted(self):
        self.expect_clean(self.LISTS)

    def test_a_forbidden_link(self):
        self.expect("link-direction", {
            **self.LISTS,
            "numa/CMakeLists.txt": "sluice_library(sluice_numa SOURCES\n PRIVATE sluice_io)\n"},
            path="numa/CMakeLists.txt")

    def test_a_forbidden_link_by_alias_or_by_hand(self):
        self.expect("link-direction", {
            **self.LISTS, "base/CMakeLists.txt":
                "sluice_library(sluice_base SOURCES PUBLIC sluice::io)\n"})
        self.expect("link-direction", {
            **self.LISTS, "runtime/core/CMakeLists.txt":
                "sluice_library(sluice_core SOURCES)\n"
                "target_link_libraries(sluice_core PRIVATE sluice_io)\n"})

    def test_an_unknown_library(self):
        self.expect("link-direction", {
            **self.LISTS, "io/CMakeLists.txt": "sluice_library(sluice_io SOURCES PUBLIC sluice_x)\n"})


class OrphansTest(TidyTestCase):

    def test_a_source_that_nothing_builds(self):
        self.expect("orphan-source", {"io/lost.cc": "int x;\n",
                                      "io/CMakeLists.txt": "# lost.cc\n"}, path="io/lost.cc")

    def test_named_for_another_folder(self):
        self.expect("orphan-source", {"io/a.cc": "int x;\n",
                                      "numa/CMakeLists.txt": "add_library(x a.cc)\n"})

    def test_named_in_its_folder_above_or_beside(self):
        self.expect_clean({"io/a.cc": "int x;\n", "io/deep/b.cc": "int x;\n",
                           "io/CMakeLists.txt": "add_library(x a.cc deep/b.cc)\n",
                           "tests/support/c.cc": "int x;\n",
                           "tests/io/CMakeLists.txt": "add_library(y ../support/c.cc)\n"})


def function_of(lines, head="void F() {"):
    return "\n".join([head] + ["  x();"] * (lines - 2) + ["}"]) + "\n"


class FunctionLengthTest(TidyTestCase):

    def test_the_limit(self):
        self.expect_clean({"io/a.h": "#pragma once\n" + function_of(60)})
        self.expect("function-length", {"io/a.h": "#pragma once\n" + function_of(61)})

    def test_shapes_of_functions(self):
        for head in ["TEST(SuiteTest, Case) {", "Class::Class(int a) : a_{a}, b_(2) {",
                     "auto F() -> std::vector<int> {", "template <typename T> T F(T t) const {",
                     "explicit operator bool() const noexcept {",
                     "struct S F(const std::map<int, std::vector<int>>& m) {",
                     "int F(char c = '{') {", 'int F(const char* c = "}") {',
                     "absl::Status F() ABSL_EXCLUSIVE_LOCKS_REQUIRED(m) {",
                     "void F() { /* } */"]:
            with self.subTest(head=head):
                self.expect("function-length", {"io/a.h": "#pragma once\n" + function_of(61, head)})

    def test_inside_namespace_and_class(self):
        for head in ["namespace a {", "class A : public B<int> {", "struct A {",
                     "class ABSL_LOCKABLE A {", 'class __attribute__((packed)) A {',
                     'extern "C" {', "namespace a { class B {"]:
            with self.subTest(head=head):
                text = f"#pragma once\n{head}\n{function_of(61)}" + "}" * head.count("{") + ";\n"
                self.expect("function-length", {"io/a.h": text})

    def test_long_classes_enums_and_tables_are_no_functions(self):
        members = "  int a;\n" * 70
        self.expect_clean({"io/a.h": f"#pragma once\nclass A {{\n{members}}};\n"
                                     f"enum class E {{\n{members}}};\n"
                                     f"const int kTable[] = {{\n{members}}};\n"})

    def test_the_length_is_that_of_the_body_not_of_its_neighbours(self):
        functions = "".join(f"void F{i}() {{\n  if (x) {{\n    y({{1}});\n  }}\n}}\n"
                            for i in range(30))
        found = list(tidy_functions.functions(functions))
        self.assertEqual([name for name, _, _ in found], [f"F{i}" for i in range(30)])
        self.assertEqual({last - first + 1 for _, first, last in found}, {5})

    def test_the_ratchet_allows_what_it_lists_and_only_shrinks(self):
        source = {"io/a.h": "#pragma once\n" + function_of(70)}
        self.expect_clean({**source, tidy.RATCHET: "# why\nio/a.h:F [function-length] 70\n"})
        self.expect("function-length", {**source, tidy.RATCHET: "io/a.h:F [function-length] 69\n"})
        self.expect("ratchet", {**source, tidy.RATCHET: "io/a.h:F [function-length] 71\n"})
        self.expect("ratchet", {"io/a.h": "#pragma once\n", tidy.RATCHET: "io/a.h:F [function-length] 70\n"})


class CountsTest(TidyTestCase):

    def test_files_per_folder(self):
        self.expect_clean({f"base/a{i}.h": "#pragma once\n" for i in range(23)})
        self.expect("folder-files", {f"base/a{i}.h": "#pragma once\n" for i in range(24)}, "base")
        self.expect_clean({f"base/room/a{i}.h": "#pragma once\n" for i in range(24)})

    def test_methods_per_class(self):
        def class_of(methods, extra=""):
            body = "".join(f"  void M{i}(int a) {{ F(a); }}\n" for i in range(methods))
            return f"#pragma once\nclass A final : public B {{\n{body}{extra}}};\n"
        self.expect_clean({"io/a.h": class_of(40, "  using F = void();\n  int a = F(3);\n")})
        self.expect("class-methods", {"io/a.h": class_of(41)})
        self.expect("class-methods", {"io/a.h": class_of(40, "  int Get() const;\n")})
        self.expect_clean({"io/a.h": class_of(41), tidy.RATCHET: "io/a.h:A [class-methods] 41\n"})

    def test_lines_of_documents(self):
        self.expect_clean({"docs/a.md": "x" * 120 + "\n"})
        self.expect("document-lines", {"docs/a.md": "x" * 121 + "\n"})
        self.expect_clean({"io/a.txt": "x" * 121 + "\n"})

    def test_trailing_comments_begin_with_a_noun(self):
        for word in ["of", "for", "to", "in", "by", "as", "that", "which", "whose", "what", "those"]:
            with self.subTest(word=word):
                self.expect("trailing-comments",
                            {"io/a.h": f"#pragma once\nint a;  ///< {word} the ring\n"})
                self.expect("trailing-comments", {"scripts/a.sh": f"a=1  # {word} the ring\n"})
        self.expect_clean({"scripts/a.sh": "# in whole\na=1  # bytes in the ring\n"})
        self.expect_clean({"io/a.h": "#pragma once\n// of the ring\n/// Bytes that\n/// // of the ring\nint a;  ///< offset in bytes\n"})

    def test_every_folder_has_a_row(self):
        rows = "".join(f"| `{folder}/` | what |\n" for folder in
                       ["include/sluice", "base", "io", "numa", "runtime/core", "runtime/device",
                        "runtime/engine", "workloads/gpt"])
        self.expect_clean({"ARCHITECTURE.md": rows})
        self.expect_clean({"ARCHITECTURE.md": rows, "tests/io/a.h": "#pragma once\n"})
        self.expect("folder-row", {"ARCHITECTURE.md": rows, "io/ring/a.h": "#pragma once\n"}, "io/ring")
        self.expect("folder-row", {"ARCHITECTURE.md": rows + "| `gone/` | what |\n"}, "ARCHITECTURE.md")
        self.expect("folder-row", {"ARCHITECTURE.md": rows, "python/src/a.py": "a = 1\n"}, "python/src")
        self.expect("folder-row", {"ARCHITECTURE.md": rows, "docs/runs/a.jsonl": "{}\n"}, "docs/runs")
        self.expect_clean({"ARCHITECTURE.md": rows, "runtime/CMakeLists.txt": "\n"})
        self.expect_clean({"ARCHITECTURE.md": rows + "| `python/src/` | what |\n", "python/src/a.py": "a = 1\n"})

    def test_the_column_of_layers_is_that_of_the_check(self):
        text = (ROOT / "ARCHITECTURE.md").read_text()
        self.assertEqual(list(tidy_text.layer_rows(tidy.Tree({"ARCHITECTURE.md": text}), tidy_layers.LAYERS)), [])
        for cell, other in [("| include, base, numa |", "| include, base |"),
                            ("| everything but tests, examples and python |", "| everything but tests and python |"),
                            ("| include, runtime/optim |", "| include, runtime/optim, gone |"),
                            ("| `workloads/` |", "| workloads |")]:
            with self.subTest(other=other):
                changed = tidy.Tree({"ARCHITECTURE.md": text.replace(cell, other)})
                found = list(tidy_text.layer_rows(changed, tidy_layers.LAYERS))
                self.assertEqual(len(found), 1, found)


class LinesTest(TidyTestCase):

    def test_file_length(self):
        self.expect_clean({"io/a.h": "#pragma once\n" + "int x;\n" * 299})
        self.expect("file-length", {"io/a.h": "#pragma once\n" + "int x;\n" * 300})
        self.expect("file-length", {"scripts/a.sh": "true\n" * 301})
        self.expect_clean({"python/tests/test_a.py": "pass\n" * 500})
        self.expect("file-length", {"python/tests/test_a.py": "pass\n" * 501})
        self.expect_clean({"docs/a.md": "text\n" * 600})

    def test_promises(self):
        for word in ["TO" + "DO", "FIX" + "ME", "X" + "XX"]:
            with self.subTest(word=word):
                self.expect("promise", {"docs/a.md": f"later: {word} more\n"})

    def test_machine_paths(self):
        for path in ["/ho" + "me/someone/x", "/wo" + "rk/main", "/ro" + "ot/.cache", "/tm" + "p/x"]:
            with self.subTest(path=path):
                self.expect("machine-path", {"docs/a.md": f"see {path}\n"})
        self.expect_clean({"docs/a.md": "see /var/tm" + "p/sluice-0, $HO" + "ME/wo" + "rk/x and net/wo" + "rk/x\n"})

    def test_switched_off_tests(self):
        for text in ["// TEST(A, B) {", "  // TEST_F(A, B) {", "/* TEST_P(A, B) {",
                     "TEST(A, DISABLED" + "_B) {}", "#if 0"]:
            with self.subTest(text=text):
                self.expect("commented-test", {"io/a.h": f"#pragma once\n{text}\n"})
        for text in ["# sluice_test(a_test", "#add_subdirectory(io)"]:
            with self.subTest(text=text):
                self.expect("commented-test", {"tests/CMakeLists.txt": text + "\n"})

    def test_a_term_is_one_type(self):
        page = "#pragma once\n  struct Page {\n"
        self.expect_clean({"runtime/core/state/page.h": page, "tests/a.h": page})
        for kind in ["class Page {", "  struct Page final : A {", "using Page = int;", "enum class Page : int {"]:
            with self.subTest(kind=kind):
                self.expect("two-types", {"io/a.h": "#pragma once\n" + kind + "\n", "runtime/core/page.h": page})
        for folder in ["bench", "tools", "python/binding"]:
            with self.subTest(folder=folder):
                self.expect("two-types", {f"{folder}/a.h": page, "runtime/core/page.h": page})
        self.expect_clean({"io/a.h": "#pragma once\nclass Page;\n", "runtime/core/page.h": page})
        ticket = "#pragma once\nclass Ticket {\n"
        both = {"include/sluice/op.h": ticket, "runtime/core/state/page.h": ticket}
        self.expect_clean(both)
        self.expect("two-types", {**both, "io/a.h": ticket})

    def test_empty_sources(self):
        self.expect("empty-source", {"io/CMakeLists.txt": "sluice_library(io SOURCES a.cc)\n", "io/a.cc": " \n"})
        self.expect_clean({"python/src/sluice/py.typed": ""})

    def test_pragma_once(self):
        self.expect("pragma-once", {"io/a.h": "int x;\n"})
        guard = "#if defined(A_INL_H_) == defined(HWY_TARGET_TOGGLE)\n#endif\n"
        self.expect_clean({"io/a-inl.h": guard})
        self.expect("pragma-once", {"io/a.h": guard})
        self.expect("pragma-once", {"io/a-inl.h": "int x;\n"})


class CommitsTest(unittest.TestCase):

    @staticmethod
    def rules_of(subject, parents=("a",), seconds=tidy_text.SUBJECTS_SINCE):
        commit = tidy_text.Commit("0123abc", seconds, parents, subject)
        return [finding.rule for finding in tidy.run(tidy.Tree(BASE, [commit]))]

    def test_a_subject_has_72_characters(self):
        self.assertEqual(self.rules_of("x" * 72), [])
        self.assertEqual(self.rules_of("x" * 73), ["commit-subject"])

    def test_a_subject_names_one_thing(self):
        self.assertEqual(self.rules_of("Write a; read b"), ["commit-subject"])
        self.assertEqual(self.rules_of("Join a; b", parents=("a", "b")), [])

    def test_old_commits_stay(self):
        self.assertEqual(self.rules_of("x" * 73, seconds=tidy_text.SUBJECTS_SINCE - 1), [])

    def test_commits_are_those_of_git(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(tidy_text.commits_of(folder), [])
            author = ["-c", "user.name=a", "-c", "user.email=a@b"]
            for command in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "Say\ta"]):
                subprocess.run(["git", "-C", folder, *command], check=True)
            self.assertEqual([(c.parents, c.subject) for c in tidy_text.commits_of(folder)], [([], "Say\ta")])


class CommandTest(unittest.TestCase):

    def test_exit_codes_and_output(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "io").mkdir()
            (root / "io" / "a.h").write_text("#pragma once\n")
            self.assertEqual(self.run_tidy(root).returncode, 0)
            (root / "io" / "a.h").write_text("int x;\n")
            result = self.run_tidy(root)
            self.assertEqual(result.returncode, 1)
            self.assertIn("io/a.h:1: [pragma-once]", result.stdout)

    def test_patches_are_files_of_their_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for number in range(25):
                (root / f"a{number}.patch").write_text("+\n")
            self.assertEqual(self.run_tidy(root).returncode, 0)
            (root / "a25.patch").write_text("+\n")
            self.assertIn("[folder-files] 26 files", self.run_tidy(root).stdout)

    def test_an_empty_tree_does_not_pass(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_tidy(folder).returncode, 1)

    @staticmethod
    def run_tidy(root):
        command = [sys.executable, "-B", str(ROOT / "tools" / "tidy.py"), "--root", str(root)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    unittest.main()
