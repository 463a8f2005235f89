#include "tools/weights/weight_contents.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/safetensors/file_content.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

TEST(WeightContentsTest, ALayerEndsAtTheFirstNumber) {
  EXPECT_EQ(LayerOf("model.layers.10.mlp.experts.3.up.weight"), "model.layers.10");
  EXPECT_EQ(LayerOf("h.0.ln_1.bias"), "h.0");
  EXPECT_EQ(LayerOf("0.weight"), "0");
  EXPECT_EQ(LayerOf("model.embed_tokens.weight"), "model.embed_tokens");
  EXPECT_EQ(LayerOf("model.conv1d.weight"), "model.conv1d");
  EXPECT_EQ(LayerOf("lm_head"), "lm_head");
  EXPECT_EQ(LayerOf(""), "");
}

TEST(WeightContentsTest, LayersOfOneKindAreToldTogether) {
  const TemporaryDirectory directory;
  io::FileContent content;
  content.tensors = {{"m.layers.0.a", "F32", {2}, "12345678"},
                     {"m.layers.0.b", "BF16", {1}, "12"},
                     {"m.layers.1.a", "F32", {1}, "1234"},
                     {"m.norm.weight", "BF16", {2}, "1234"}};
  content.Write(directory / "m.safetensors");
  const auto weights = io::WeightFiles::Open(directory.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  const WeightContents contents = ContentsOf(**weights);
  EXPECT_EQ(contents.all.tensors, 4u);
  EXPECT_EQ(contents.all.bytes, 18u);
  EXPECT_EQ(contents.types.at("BF16").tensors, 2u);
  EXPECT_EQ(contents.types.at("F32").bytes, 12u);
  ASSERT_EQ(contents.layers.size(), 2u);
  EXPECT_EQ(contents.layers[0].name, "m.layers.*");
  EXPECT_EQ(contents.layers[0].layers, 2u);
  EXPECT_EQ(contents.layers[0].bytes_min, 4u);
  EXPECT_EQ(contents.layers[0].bytes_max, 10u);
  EXPECT_EQ(contents.layers[0].all.bytes, 14u);
  EXPECT_EQ(contents.layers[1].name, "m.norm");
}

}  // namespace
}  // namespace sluice::tools
