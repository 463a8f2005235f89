// A file or save that cannot be converted is refused with a fix, and nothing is written.
#include <filesystem>
#include <fstream>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/io/safetensors/file_content.h"
#include "tests/tools/state/made_save.h"
#include "tests/tools/support/answer.h"
#include "tests/tools/temporary_directory.h"
#include "tools/state/state.h"

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using EditJson = nlohmann::json;

/// Fixture with a save and the file that it became.
class StateRefusalTest : public ::testing::Test {
 protected:
  StateRefusalTest() {
    std::filesystem::create_directory(saved_);
    std::filesystem::create_directory(imported_);
    save_.Write(saved_);
    EXPECT_EQ(Answer(RunStateExport, {saved_, file_}).exit_code, 0);
    content_ = io::FileContent::Read(file_);
  }

  /// Message of import about the file after an edit.
  std::string ImportRefusal(const std::function<void(io::FileContent&)>& edit) const {
    io::FileContent edited = content_;
    edit(edited);
    const std::string path = directory_ / "edited.safetensors";
    edited.Write(path);
    const Answered answer = Answer(RunStateImport, {path, imported_});
    EXPECT_EQ(answer.exit_code, 2) << answer.errors;
    EXPECT_THAT(std::filesystem::directory_iterator(imported_),
                std::filesystem::directory_iterator());
    EXPECT_THAT(answer.errors, HasSubstr("sluice: " + path));
    return answer.errors;
  }
  /// Message of import after an edit of the groups in the metadata.
  std::string GroupsRefusal(const std::function<void(EditJson&)>& edit) const {
    return ImportRefusal([&](io::FileContent& content) {
      EditJson groups = EditJson::parse(content.metadata["sluice.groups"]);
      edit(groups);
      content.metadata["sluice.groups"] = groups.dump();
    });
  }
  std::string MetadataRefusal(const std::string& key, const std::string& value) const {
    return ImportRefusal([&](io::FileContent& content) { content.metadata[key] = value; });
  }

  TemporaryDirectory directory_;
  const std::string saved_ = directory_ / "saved";
  const std::string imported_ = directory_ / "imported";
  const std::string file_ = directory_ / "state.safetensors";
  const MadeSave save_{
      .layout = {.state = StateType::k8Bit, .groups = {{"g", {{"a", {}, 258}, {"b", {}, 4}}}}},
      .steps = {{9, 9}}};
  io::FileContent content_;
};

TEST_F(StateRefusalTest, MissingMetadataIsNamedByKey) {
  for (const char* const key : {"sluice.format",
                                "sluice.optimizer",
                                "sluice.states",
                                "sluice.seed",
                                "sluice.step",
                                "sluice.groups"}) {
    EXPECT_THAT(ImportRefusal([&](io::FileContent& content) { content.metadata.erase(key); }),
                AllOf(HasSubstr(std::string("\"__metadata__\" has no \"") + key + "\""),
                      HasSubstr("write the metadata of the exported file")));
  }
  EXPECT_THAT(ImportRefusal([](io::FileContent& content) { content.metadata.clear(); }),
              HasSubstr("has no \"sluice.format\""));
}

TEST_F(StateRefusalTest, ValuesThatNoSaveHasAreNamed) {
  EXPECT_THAT(MetadataRefusal("sluice.format", "2"), HasSubstr("\"sluice.format\" is \"2\""));
  EXPECT_THAT(MetadataRefusal("sluice.optimizer", "adamax"),
              HasSubstr("\"sluice.optimizer\" is 'adamax'; allowed are adam, adamw, sgd"));
  EXPECT_THAT(MetadataRefusal("sluice.states", "fp16"),
              HasSubstr("\"sluice.states\" is 'fp16'; allowed are fp32, bf16, 8bit"));
  EXPECT_THAT(MetadataRefusal("sluice.seed", "-1"), HasSubstr("\"sluice.seed\" is '-1'"));
  EXPECT_THAT(MetadataRefusal("sluice.step", "4611686018427387905"),
              HasSubstr("\"sluice.step\" is '4611686018427387905'; allowed are 0 to"));
  EXPECT_THAT(MetadataRefusal("sluice.groups", "{}"), HasSubstr("\"sluice.groups\" is no JSON"));
  EXPECT_THAT(MetadataRefusal("sluice.groups", std::string(100000, '[')), HasSubstr("is no JSON"));
}

TEST_F(StateRefusalTest, GroupsOfAnotherStructureAreNamed) {
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0] = 7; }),
              HasSubstr("group 0 of \"sluice.groups\" has no \"name\""));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0]["rates"].erase("eps"); }),
              HasSubstr("has no number \"rates\".\"eps\""));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0]["rates"]["beta1"] = 1; }),
              AllOf(HasSubstr("'g'"), HasSubstr("beta1")));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0]["parameters"] = "a"; }),
              HasSubstr("has no list \"parameters\""));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0]["parameters"][0] = {}; }),
              HasSubstr("a parameter of group 0 of \"sluice.groups\" has no \"name\""));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0]["parameters"][0]["step"] = -1; }),
              HasSubstr("the \"step\" of parameter 'a' in \"sluice.groups\" is none of 0 to"));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) {
                groups[0]["parameters"][0]["step"] = (std::uint64_t{1} << 62) + 1;
              }),
              HasSubstr("the \"step\" of parameter 'a'"));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0]["parameters"][0]["tensor"] = 1; }),
              HasSubstr("the \"tensor\" of parameter 'a' is no name"));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0]["parameters"][0]["tensor"] = "b"; }),
              HasSubstr("tensor 'b' belongs to two parameters"));
  EXPECT_THAT(GroupsRefusal([](EditJson& groups) { groups[0]["parameters"].erase(1); }),
              HasSubstr("tensor 'b' belongs to no parameter of \"sluice.groups\"; remove it"));
}

TEST_F(StateRefusalTest, TensorsThatAreMissingTooMuchOrOfAnotherTypeAreNamed) {
  EXPECT_THAT(ImportRefusal([](io::FileContent& content) { content.Remove("a"); }),
              HasSubstr("tensor 'a' is missing: add it"));
  EXPECT_THAT(ImportRefusal([](io::FileContent& content) { content.Remove("a.v.scale"); }),
              HasSubstr("tensor 'a.v.scale' is missing; add it (F32 [2])"));
  EXPECT_THAT(ImportRefusal([](io::FileContent& content) {
                content.tensors.push_back({"extra", "U8", {1}, "x"});
              }),
              HasSubstr("tensor 'extra' belongs to no parameter"));
  EXPECT_THAT(ImportRefusal([](io::FileContent& content) {
                content.At("a.m") = {"a.m", "F32", {258}, std::string(1032, '\0')};
              }),
              HasSubstr("tensor 'a.m' is F32 [258]; by its parameter and \"sluice.states\" it must "
                        "be U8 [258]: convert it"));
  EXPECT_THAT(ImportRefusal([](io::FileContent& content) {
                content.At("b") = {"b", "F16", {4}, std::string(8, '\0')};
              }),
              HasSubstr("tensor 'b' is F16; parameters are F32 or BF16: convert it"));
  EXPECT_THAT(ImportRefusal([](io::FileContent& content) {
                content.At("b") = {"b", "F32", {0}, ""};
              }),
              HasSubstr("tensor 'b' has no elements"));
  EXPECT_THAT(ImportRefusal([](io::FileContent& content) {
                content.At("a.m").shape = {257};
                content.At("a.m").data.pop_back();
              }),
              HasSubstr("tensor 'a.m' is U8 [257]; by its parameter"));
  EXPECT_THAT(
      ImportRefusal([](io::FileContent& content) { content.At("sluice.code.v").data[5] ^= 1; }),
      HasSubstr("tensor 'sluice.code.v' has other values than sluice's codes"));
}

TEST_F(StateRefusalTest, AParameterIsNoState) {
  EXPECT_THAT(
      GroupsRefusal([](EditJson& groups) { groups[0]["parameters"][1]["tensor"] = "a.m.scale"; }),
      HasSubstr("tensor 'a.m.scale' is a parameter's and a state's; give one of them another "
                "\"tensor\" in \"sluice.groups\""));
}

TEST_F(StateRefusalTest, ASaveThatIsThereIsNotReplaced) {
  const std::string before = ReadWhole(saved_ + "/optimizer.sluice");
  const Answered answer = Answer(RunStateImport, {file_, saved_});
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_EQ(answer.errors,
            "sluice: " + saved_ +
                "/optimizer.sluice is there already and would be replaced; move it away, or name "
                "another directory\n");
  EXPECT_EQ(ReadWhole(saved_ + "/optimizer.sluice"), before);
}

TEST_F(StateRefusalTest, AFileIsNoOtherWayOfWritingTheSave) {
  const std::string before = ReadWhole(saved_ + "/optimizer.sluice");
  const Answered answer = Answer(RunStateExport, {saved_, saved_ + "/../saved/optimizer.sluice"});
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_THAT(answer.errors, HasSubstr("would replace what DIR reads"));
  EXPECT_EQ(ReadWhole(saved_ + "/optimizer.sluice"), before);
}

TEST_F(StateRefusalTest, ADamagedSaveBecomesNoFile) {
  const std::string path = saved_ + "/optimizer.sluice";
  std::filesystem::remove(file_);
  const std::string whole = ReadWhole(path);
  // The first byte of the first record, of the last, and of the description.
  const std::size_t description = whole.find("{\"hashes\"");
  for (const std::size_t at : {std::size_t{16}, description - 1, description}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(path, std::ios::binary) << damaged;
    const Answered answer = Answer(RunStateExport, {saved_, file_});
    EXPECT_EQ(answer.exit_code, 3) << at;
    EXPECT_THAT(answer.errors, AllOf(HasSubstr("the checksum of "), HasSubstr("use another save")));
    EXPECT_FALSE(std::filesystem::exists(file_));
  }
  EXPECT_THAT(directory_.Names(), ::testing::ElementsAre("imported", "saved"));
}

TEST_F(StateRefusalTest, WordsAndPathsThatAreMissingAreNamed) {
  EXPECT_EQ(Answer(RunStateExport, {saved_}).errors,
            "sluice: FILE is missing, the safetensors file to write: sluice state export DIR "
            "FILE.safetensors\n");
  EXPECT_EQ(Answer(RunStateImport, {}).exit_code, 2);
  EXPECT_THAT(Answer(RunStateShow, {}).errors, HasSubstr("DIR is missing"));
  EXPECT_THAT(Answer(RunStateShow, {imported_}).errors,
              HasSubstr("there is no save (optimizer.sluice) in " + imported_));
  EXPECT_THAT(Answer(RunStateImport, {file_, directory_ / "none"}).errors,
              HasSubstr("there is no directory"));
  EXPECT_THAT(Answer(RunStateImport, {directory_ / "none", imported_}).errors,
              HasSubstr("none does not exist"));
  EXPECT_THAT(Answer(RunStateExport, {"--help"}).output,
              HasSubstr("Usage: sluice state export DIR FILE.safetensors"));
  EXPECT_THAT(Answer(RunState, {"exprt"}).errors, HasSubstr("did you mean \"export\"?"));
}

}  // namespace
}  // namespace sluice::tools
