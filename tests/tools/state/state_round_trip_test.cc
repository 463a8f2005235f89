// A save of every kind and type comes back, byte by byte, from the file that it became. The file
// names the optimizer's numbers for readers without sluice.
#include <cstring>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/io/safetensors/file_content.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/state/made_save.h"
#include "tests/tools/support/answer.h"
#include "tests/tools/temporary_directory.h"
#include "tools/state/state.h"

namespace sluice::tools {
namespace {

using optim::KernelSpec;
using optim::PagedModel;
using optim::ParameterType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using StateJson = nlohmann::json;

class StateRoundTripTest : public ::testing::Test {
 protected:
  StateRoundTripTest() {
    std::filesystem::create_directory(saved_);
    std::filesystem::create_directory(imported_);
  }

  void Export() const {
    const Answered answer = Answer(RunStateExport, {saved_, file_});
    ASSERT_EQ(answer.exit_code, 0) << answer.errors;
  }
  void Import() const {
    const Answered answer = Answer(RunStateImport, {file_, imported_});
    ASSERT_EQ(answer.exit_code, 0) << answer.errors;
  }
  static std::string BytesIn(const std::string& directory) {
    return ReadWhole(directory + "/optimizer.sluice");
  }
  /// Whether export and import make the same save.
  void ComesBack() const {
    ASSERT_NO_FATAL_FAILURE(Export());
    ASSERT_NO_FATAL_FAILURE(Import());
    EXPECT_TRUE(BytesIn(saved_) == BytesIn(imported_));
    std::filesystem::remove(imported_ + "/optimizer.sluice");
  }

  TemporaryDirectory directory_;
  const std::string saved_ = directory_ / "saved";
  const std::string imported_ = directory_ / "imported";
  const std::string file_ = directory_ / "state.safetensors";
};

float FloatAt(const std::string& data, std::size_t i) {
  float value = 0;
  std::memcpy(&value, data.data() + 4 * i, sizeof(value));
  return value;
}

float Bf16At(const std::string& data, std::size_t i) {
  std::uint32_t bits = 0;
  std::memcpy(reinterpret_cast<char*>(&bits) + 2, data.data() + 2 * i, 2);
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// A state's element, by nothing but the file.
float StateAt(io::FileContent& content, const std::string& name, const std::string& state, int i) {
  const auto at = static_cast<std::size_t>(i);
  const io::FileContent::Tensor& tensor = content.At(name + state);
  if (tensor.dtype == "F32") return FloatAt(tensor.data, at);
  if (tensor.dtype == "BF16") return Bf16At(tensor.data, at);
  const auto code = static_cast<unsigned char>(tensor.data[at]);
  return FloatAt(content.At("sluice.code" + state).data, code) *
         FloatAt(content.At(name + state + ".scale").data, at / 256);
}

/// Two steps, of which the second has a group more.
std::unique_ptr<PagedModel> Trained(sluice::testing::RuntimeFixture& runtime,
                                    const KernelSpec& spec) {
  runtime.Start();
  auto model = std::make_unique<PagedModel>(
      runtime, PagedModel::Options{.spec = spec, .groups = {{700, 10}, {1}}});
  for (int step = 1; step <= 2; ++step) {
    EXPECT_THAT(model->Step(), sluice::testing::IsOk());
    model->ReferenceStep(step);
    if (step == 1) model->AddLateGroup({300});
  }
  return model;
}

void ExpectNumbers(io::FileContent& content, PagedModel& model, const KernelSpec& spec) {
  for (std::size_t p = 0; p < model.parameters(); ++p) {
    const std::string name = "p" + std::to_string(p);
    const io::FileContent::Tensor& values = content.At(name);
    const bool fp32 = spec.parameter == ParameterType::kFp32;
    EXPECT_EQ(values.dtype, fp32 ? "F32" : "BF16");
    const std::size_t count = model.run(p).count();
    EXPECT_THAT(values.shape, ElementsAre(count));
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(fp32 ? FloatAt(values.data, i) : Bf16At(values.data, i), model.run(p).parameter(i));
      for (int s = 0; s < optim::StateCount(spec.optimizer); ++s) {
        EXPECT_EQ(StateAt(content, name, s == 0 ? ".m" : ".v", static_cast<int>(i)),
                  model.run(p).state(s, i))
            << name << " state " << s << " element " << i;
      }
    }
  }
}

TEST_F(StateRoundTripTest, EveryKindAndTypeComesBackAndIsReadableWithoutSluice) {
  for (const KernelSpec& spec : optim::AllSpecs()) {
    if (spec.gradient != optim::GradientType::kFp32 || spec.copy != optim::CopyType::kNone)
      continue;
    SCOPED_TRACE(optim::NameOf(spec));
    sluice::testing::RuntimeFixture runtime;
    const auto model = Trained(runtime, spec);
    ASSERT_THAT(model->optimizer().Save(saved_, "noted"), sluice::testing::IsOk());
    ASSERT_NO_FATAL_FAILURE(ComesBack());
    io::FileContent content = io::FileContent::Read(file_);
    ExpectNumbers(content, *model, spec);
    EXPECT_EQ(content.metadata["sluice.optimizer"], ToString(spec.optimizer));
    EXPECT_EQ(content.metadata["sluice.states"], ToString(spec.state));
    EXPECT_EQ(content.metadata["sluice.step"], "2");
    EXPECT_EQ(content.metadata["sluice.note"], "noted");
  }
}

TEST_F(StateRoundTripTest, TheFileHasGroupsRatesAndTheStepsOfEachParameter) {
  sluice::testing::RuntimeFixture runtime;
  const auto model = Trained(runtime, {});
  ASSERT_THAT(model->optimizer().Save(saved_), sluice::testing::IsOk());
  ASSERT_NO_FATAL_FAILURE(Export());
  const auto groups = StateJson::parse(io::FileContent::Read(file_).metadata["sluice.groups"]);
  ASSERT_THAT(groups, SizeIs(3));
  EXPECT_EQ(groups[0]["name"], "g0");
  EXPECT_EQ(groups[0]["rates"]["learning_rate"], model->rates().learning_rate);
  EXPECT_EQ(groups[0]["rates"]["weight_decay"], model->rates().weight_decay);
  EXPECT_EQ(groups[0]["parameters"][1], StateJson::parse(R"({"name":"p1","step":2})"));
  EXPECT_EQ(groups[2]["parameters"][0], StateJson::parse(R"({"name":"p3","step":1})"));
}

TEST_F(StateRoundTripTest, TensorsAreAlignedAndTheHeaderIsPadded) {
  MadeSave{.layout = {.state = StateType::k8Bit,
                      .groups = {{"g", {{"odd", ParameterType::kBf16, 257}}}}}}
      .Write(saved_);
  ASSERT_NO_FATAL_FAILURE(Export());
  const std::string bytes = ReadWhole(file_);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  EXPECT_EQ(header % 8, 0u);
  const auto json = StateJson::parse(bytes.substr(8, header));
  EXPECT_EQ(json.size(), 8u);
  for (const auto& [name, tensor] : json.items()) {
    if (name == "__metadata__") continue;
    const std::uint64_t size = tensor["dtype"] == "F32" ? 4 : tensor["dtype"] == "BF16" ? 2 : 1;
    EXPECT_EQ(tensor["data_offsets"][0].get<std::uint64_t>() % size, 0u) << name;
  }
}

TEST_F(StateRoundTripTest, AnotherOrderShapeAndPaddingMakeTheSameSave) {
  MadeSave{.layout = {.state = StateType::k8Bit,
                      .seed = ~std::uint64_t{0},
                      .groups = {{"g", {{"a", ParameterType::kBf16, 258}, {"b", {}, 3}}},
                                 {"empty", {}},
                                 {"h", {{"c", {}, 512}}}}},
           .note = "\xc3\xa4 \"quoted\" \n\x01",
           .steps = {{9, 3, 0}}}
      .Write(saved_);
  ASSERT_NO_FATAL_FAILURE(ComesBack());
  io::FileContent content = io::FileContent::Read(file_);
  std::reverse(content.tensors.begin(), content.tensors.end());
  content.At("a.m").shape = {2, 129};
  content.At("c").shape = {8, 1, 64};
  content.Remove("sluice.code.m");
  content.metadata["another.tool"] = "was here";
  for (std::size_t padding = 0; padding < 3; ++padding) {
    content.Write(file_, padding);
    ASSERT_NO_FATAL_FAILURE(Import());
    EXPECT_TRUE(BytesIn(saved_) == BytesIn(imported_));
    std::filesystem::remove(imported_ + "/optimizer.sluice");
  }
}

TEST_F(StateRoundTripTest, ParametersAndStatesHaveTheirShapes) {
  for (const StateType type : {StateType::kFp32, StateType::k8Bit}) {
    MadeSave{.layout = {.state = type, .groups = {{"g", {{"a", {}, 600}, {"b", {}, 1}}}}},
             .steps = {{9, 9}},
             .shapes = {{20, 30}, {}}}
        .Write(saved_);
    ASSERT_NO_FATAL_FAILURE(ComesBack());
    io::FileContent content = io::FileContent::Read(file_);
    EXPECT_THAT(content.At("a").shape, ElementsAre(20, 30));
    EXPECT_THAT(content.At("a.v").shape, ElementsAre(20, 30));
    EXPECT_THAT(content.At("b.m").shape, ElementsAre());
    if (type == StateType::k8Bit) {
      EXPECT_THAT(content.At("a.m.scale").shape, ElementsAre(3));
    }
    // The file's own shapes do not matter.
    content.At("a").shape = {600};
    content.At("b").shape = {1, 1};
    content.Write(file_);
    std::filesystem::remove(imported_ + "/optimizer.sluice");
    ASSERT_NO_FATAL_FAILURE(Import());
    EXPECT_TRUE(BytesIn(saved_) == BytesIn(imported_));
    std::filesystem::remove(imported_ + "/optimizer.sluice");
  }
}

TEST_F(StateRoundTripTest, EditedNumbersArriveAndNoOthersChange) {
  const MadeSave save{.layout = {.groups = {{"g", {{"a", {}, 2}}}}}, .steps = {{9}}};
  save.Write(saved_);
  ASSERT_NO_FATAL_FAILURE(Export());
  io::FileContent content = io::FileContent::Read(file_);
  content.At("a.v").data = "12345678";
  content.Write(file_);
  ASSERT_NO_FATAL_FAILURE(Import());
  ASSERT_NO_FATAL_FAILURE(Answer(RunStateExport, {imported_, file_}));
  io::FileContent again = io::FileContent::Read(file_);
  EXPECT_EQ(again.At("a.v").data, "12345678");
  EXPECT_EQ(again.At("a").data, content.At("a").data);
  EXPECT_EQ(again.At("a.m").data, content.At("a.m").data);
}

TEST_F(StateRoundTripTest, NamesThatAFileCannotHaveTwiceAreToldApart) {
  MadeSave{.layout = {.groups = {{"g", {{"w", {}, 2}, {"w", {}, 2}, {"w.m", {}, 2}, {"", {}, 1}}},
                                 {"h", {{"__metadata__", {}, 1}, {"w#2", {}, 1}}}}},
           .steps = {{9, 9, 9, 9, 9, 9}}}
      .Write(saved_);
  ASSERT_NO_FATAL_FAILURE(ComesBack());
  io::FileContent content = io::FileContent::Read(file_);
  EXPECT_THAT(content.tensors, SizeIs(18));
  EXPECT_THAT(content.metadata["sluice.groups"],
              HasSubstr(R"({"name":"w","step":9,"tensor":"w#2"})"));
}

TEST_F(StateRoundTripTest, ASaveWithoutOwnStepsGetsTheOptimizersForEachParameter) {
  MadeSave save{.layout = {.groups = {{"g", {{"a", {}, 2}, {"b", {}, 2}}}}}};
  save.Write(saved_);
  ASSERT_NO_FATAL_FAILURE(Export());
  ASSERT_NO_FATAL_FAILURE(Import());
  save.steps = {9, 9};
  save.Write(saved_);
  EXPECT_TRUE(BytesIn(saved_) == BytesIn(imported_));
}

TEST_F(StateRoundTripTest, TensorsLargerThanAPieceComeBack) {
  MadeSave{.layout = {.kind = OptimizerKind::kLion,
                      .groups = {{"g", {{"large", {}, (std::uint64_t{1} << 18) + 3}}}}},
           .steps = {{9}}}
      .Write(saved_);
  ASSERT_NO_FATAL_FAILURE(ComesBack());
}

TEST_F(StateRoundTripTest, ShowSaysWhatASaveHolds) {
  MadeSave{.layout = {.state = StateType::kBf16,
                      .seed = 5,
                      .groups = {{"g", {{"a", {}, 2}, {"b", {}, 3}}}}},
           .steps = {{9, 4}}}
      .Write(saved_);
  const Answered answer = Answer(RunStateShow, {saved_});
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_EQ(answer.output,
            "optimizer: adamw, states bf16, seed 5\n"
            "step: 9\n"
            "tensors: 6, for 2 parameters, 40 B\n"
            "group g: 2 parameters of 5 elements, own steps 4 to 9, learning rate "
            "0.30000000000000004\n"
            "note: a note\n");
}

}  // namespace
}  // namespace sluice::tools
