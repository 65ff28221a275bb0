#include "gguf/file_names.h"

#include <gtest/gtest.h>

namespace coxswain::gguf {
namespace {

TEST(FileNames, ModelsAreToldFromWhatComesBesideThem) {
  for (const char* name : {"a.gguf", "Qwen2.5-0.5B-Q4_K_M.gguf", "big-00001-of-00003.gguf"})
    EXPECT_TRUE(is_model_name(name)) << name;
  for (const char* name : {"a.safetensors", "gguf", "a.gguf.part", "mmproj-model-f16.gguf"})
    EXPECT_FALSE(is_model_name(name)) << name;
}

TEST(FileNames, LaterPartsAreThoseBehindTheFirst) {
  EXPECT_TRUE(is_later_part("big-00002-of-00003.gguf"));
  EXPECT_TRUE(is_later_part("big-00010-of-00010.gguf"));
  for (const char* name :
       {"big-00001-of-00003.gguf", "big.gguf", "big-2-of-3.gguf", "00002-of-00003"})
    EXPECT_FALSE(is_later_part(name)) << name;
}

TEST(FileNames, AWordStandsAlone) {
  for (const char* name :
       {"m-Q4_K_M.gguf", "m.q4_k_m.gguf", "Q4_K_M.gguf", "m-q4_K_m-00001-of-00002.gguf"})
    EXPECT_TRUE(has_word(name, "Q4_K_M")) << name;
  for (const char* name : {"m-IQ4_K_M.gguf", "m-Q4_K_MX.gguf", "m-Q4_K.gguf", "Q4_K_M_2.gguf", ""})
    EXPECT_FALSE(has_word(name, "Q4_K_M")) << name;
  EXPECT_FALSE(has_word("m-Q4_K_M.gguf", "Q4_K"));
  EXPECT_TRUE(has_word("m-Q4_K-Q4_K_M.gguf", "q4_k"));
}

}  // namespace
}  // namespace coxswain::gguf
