#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/io/safetensors/file_content.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using InitJson = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Fixture with the model of a run of three steps.
class TrainInitTest : public TrainCommandTest {
 protected:
  InitJson Run(std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "train.steps=3", "--json"});
    Command command(Words(more));
    EXPECT_EQ(command.Wait(), 0) << command.errors();
    return InitJson::parse(command.output(), nullptr, false);
  }
  InitJson SaveModel(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--save", model_};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
  /// The loss of the validation before the first step.
  double FirstLoss(const std::string& weights) {
    return Run({"--init", weights})["val_loss_first"].get<double>();
  }
  std::string Refusal(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--init", model_};
    words.insert(words.end(), more.begin(), more.end());
    return UserError(Words(words));
  }

  const std::string model_ = files_ / "model.safetensors";
};

TEST_F(TrainInitTest, BeginsWhereTheSavedModelWasAndIsTheSameInRam) {
  const InitJson saved = SaveModel();
  const InitJson begun = Run({"--init", model_, "--verify"});
  EXPECT_EQ(begun["val_loss_first"], saved["val_loss"]);
  EXPECT_NE(begun["val_loss_first"], saved["val_loss_first"]);
  EXPECT_EQ(begun["verify"]["identical"], true);
  EXPECT_NE(begun["val_loss"], begun["val_loss_first"]);
}

TEST_F(TrainInitTest, AnExportedStateGivesTheSameParameters) {
  const std::string state = files_ / "state";
  const std::string exported = files_ / "exported.safetensors";
  const std::string again = files_ / "again.safetensors";
  for (const char* const states : {"fp32", "8bit"}) {
    SCOPED_TRACE(states);
    std::filesystem::remove_all(state);
    std::filesystem::create_directory(state);
    const std::string setting = "train.states=\"" + std::string(states) + "\"";
    const InitJson saved = SaveModel({"--save-state", state, "--set", setting});
    Command exports({"state", "export", state, exported});
    ASSERT_EQ(exports.Wait(), 0) << exports.errors();
    // No parameter changes in a run without an optimizer.
    const InitJson begun =
        Run({"--init", exported, "--save", again, "--set", "train.optimizer=none"});
    EXPECT_EQ(begun["val_loss_first"], saved["val_loss"]);
    io::FileContent model = io::FileContent::Read(model_);
    io::FileContent of_state = io::FileContent::Read(exported);
    io::FileContent of_run = io::FileContent::Read(again);
    ASSERT_GT(model.tensors.size(), 10U);
    for (const io::FileContent::Tensor& tensor : model.tensors) {
      EXPECT_EQ(of_state.At(tensor.name).shape, tensor.shape) << tensor.name;
      EXPECT_TRUE(of_state.At(tensor.name).data == tensor.data) << tensor.name;
      EXPECT_TRUE(of_run.At(tensor.name).data == tensor.data) << tensor.name;
    }
    of_state.metadata.erase("sluice.states");
    of_state.Write(exported);
    EXPECT_THAT(UserError(Words({"--init", exported})), HasSubstr("is none of the model's"));
  }
}

TEST_F(TrainInitTest, AnExportedStateOfAnotherModelSaysWhichItIs) {
  const std::string state = files_ / "state";
  std::filesystem::create_directory(state);
  SaveModel({"--save-state", state});
  Command exports({"state", "export", state, files_ / "exported"});
  ASSERT_EQ(exports.Wait(), 0) << exports.errors();
  // The number of heads is in no shape.
  EXPECT_THAT(UserError(Words({"--init", files_ / "exported", "--set", "model.heads=4"})),
              HasSubstr("it is of another model, that of --set model.heads=2"));
}

TEST_F(TrainInitTest, BeginsWhereTheSavedModelWasWith8BitStates) {
  const InitJson saved = SaveModel();
  const InitJson begun = Run({"--init", model_, "--verify", "--set", "train.states=\"8bit\""});
  EXPECT_EQ(begun["val_loss_first"], saved["val_loss"]);
  EXPECT_EQ(begun["verify"]["identical"], true);
}

/// A half of either type whose value is usual for a weight.
std::uint16_t UsualHalf(std::size_t i, std::uint16_t exponent_bits) {
  const auto mixed = static_cast<std::uint16_t>(i * 40503U);
  return static_cast<std::uint16_t>((mixed & 0x807fU) | exponent_bits);
}

/// The value of an fp16 number that is normal.
float ValueOfF16(std::uint16_t half) {
  const double fraction = 1 + (half & 0x3ff) / 1024.0;
  const double value = std::ldexp(fraction, ((half >> 10) & 0x1f) - 15);
  return static_cast<float>((half & 0x8000) != 0 ? -value : value);
}

float ValueOfBf16(std::uint16_t half) {
  const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

TEST_F(TrainInitTest, HalvesAreTheirFloats) {
  SaveModel();
  for (const bool bf16 : {false, true}) {
    io::FileContent floats = io::FileContent::Read(model_);
    io::FileContent halves = floats;
    for (std::size_t t = 0; t < floats.tensors.size(); ++t) {
      const std::size_t count = floats.tensors[t].data.size() / 4;
      halves.tensors[t].dtype = bf16 ? "BF16" : "F16";
      halves.tensors[t].data.resize(2 * count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint16_t half = UsualHalf(i, bf16 ? 0x3c80 : 0x2400);
        const float value = bf16 ? ValueOfBf16(half) : ValueOfF16(half);
        std::memcpy(halves.tensors[t].data.data() + 2 * i, &half, 2);
        std::memcpy(floats.tensors[t].data.data() + 4 * i, &value, 4);
      }
    }
    floats.Write(files_ / "floats");
    halves.Write(files_ / "halves", 3);
    EXPECT_EQ(FirstLoss(files_ / "halves"), FirstLoss(files_ / "floats"));
  }
}

TEST_F(TrainInitTest, AnotherModelIsRefusedWithItsAssignments) {
  SaveModel();
  EXPECT_THAT(Refusal({"--set", "model.width=32"}),
              AllOf(HasSubstr("sluice: --init: " + model_ +
                              ": tensor 'tokens' is [256, 64] and "
                              "[256, 32] in the model"),
                    HasSubstr("; its model is that of --set model.width=64")));
  EXPECT_THAT(Refusal({"--set", "model.layers=3"}),
              HasSubstr("tensor 'l2.ln1.gain' is missing, and 11 more; its model is that of --set "
                        "model.layers=2"));
  EXPECT_THAT(Refusal({"--set", "model.layers=1"}),
              HasSubstr("tensor 'l1.ln1.gain' is none of the model's, and 11 more; its model is "
                        "that of --set model.layers=2"));
  // The model does not fit either, which says less.
  EXPECT_THAT(Refusal({"--set", "model.width=4096"}),
              HasSubstr("; its model is that of --set model.width=64"));
  // No shape tells this one.
  EXPECT_THAT(Refusal({"--set", "model.heads=1"}),
              HasSubstr("it is of another model, that of --set model.heads=2"));
}

TEST_F(TrainInitTest, TensorsThatAreNotTheModelsAreNamed) {
  SaveModel();
  const io::FileContent whole = io::FileContent::Read(model_);
  const auto refusal = [&](auto edit) {
    io::FileContent edited = whole;
    edit(edited);
    edited.metadata.clear();
    edited.Write(model_);
    return Refusal({});
  };
  EXPECT_THAT(refusal([](io::FileContent& content) { content.Remove("final.bias"); }),
              HasSubstr("tensor 'final.bias' is missing; name a file that `sluice train --save`"));
  EXPECT_THAT(refusal([](io::FileContent& content) { content.tensors[0].name = "tokenz"; }),
              HasSubstr("tensor 'tokens' is missing"));
  EXPECT_THAT(refusal([](io::FileContent& content) { content.tensors[0].shape = {256 * 64}; }),
              HasSubstr("tensor 'tokens' is [16384] and [256, 64] in the model"));
  EXPECT_THAT(refusal([](io::FileContent& content) { content.tensors[0].dtype = "I32"; }),
              HasSubstr("tensor 'tokens' is I32; F32, BF16 and F16 are read: convert it"));
}

TEST_F(TrainInitTest, FlagsAndFilesThatDoNotGoTogetherAreRefused) {
  const std::string text = files_.Write("text.safetensors", "no header");
  EXPECT_THAT(UserError(Words({"--init", text})), HasSubstr("--init: " + text));
  EXPECT_THAT(UserError(Words({"--init", files_ / "none"})), HasSubstr("none does not exist"));
  EXPECT_THAT(UserError(Words({"--init="})), HasSubstr("--init is empty; name a file"));
  EXPECT_THAT(UserError(Words({"--init", text, "--resume", files_.path()})),
              HasSubstr("--init and --resume: a run begins from weights or goes on from a state"));
  EXPECT_THAT(UserError(Words({"--init", text, "--save", text})),
              HasSubstr("--save " + text + " would replace what --init reads"));
}

}  // namespace
}  // namespace sluice::tools
