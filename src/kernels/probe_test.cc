#include "kernels/probe.h"

#include <bit>
#include <cstdint>
#include <set>

#include <gtest/gtest.h>

#include "kernels/test_util.h"

namespace coxswain::kernels {
namespace {

std::string id_of(const KernelTable& table, std::size_t n_threads = 1) {
  ExecContext exec(n_threads);
  const auto id = numeric_id(table, exec);
  EXPECT_TRUE(id.ok()) << id.status().message();
  return id.ok() ? *id : "";
}

TEST(NumericId, IsTheSameEveryTimeAndOnAnyNumberOfThreads) {
  for (const KernelTable* table : testing::runnable_tables()) {
    const std::string id = id_of(*table);
    EXPECT_EQ(id.size(), 8U);
    for (const std::size_t n_threads : {1U, 2U, 3U})
      EXPECT_EQ(id_of(*table, n_threads), id) << table->id;
    EXPECT_EQ(*kernel_set_id(*table), std::string(table->id) + "." + id);
  }
}

TEST(NumericId, SetsThatRoundDifferentlyDiffer) {
  std::set<std::string> ids;
  for (const KernelTable* table : testing::runnable_tables()) ids.insert(id_of(*table));
  EXPECT_EQ(ids.size(), testing::runnable_tables().size());
}

// The table whose entries are run, with the last bit of one output changed afterwards.
const KernelTable*& original() {
  static const KernelTable* table = nullptr;
  return table;
}

template <typename T>
void flip(T& value) {
  value = std::bit_cast<T>(std::bit_cast<std::uint32_t>(value) ^ 1U);
}

struct Altered {
  const char* name;
  void (*alter)(KernelTable&);
};

#define COXSWAIN_ALTERED(entry, Args, output)                 \
  Altered {                                                   \
    #entry, [](KernelTable& table) {                          \
      table.entry = [](ExecContext& exec, const Args& args) { \
        original()->entry(exec, args);                        \
        flip(output);                                         \
      };                                                      \
    }                                                         \
  }

const Altered kAltered[] = {
    COXSWAIN_ALTERED(linear, LinearCall, args.problems[0].pieces[0].y[69]),
    COXSWAIN_ALTERED(attention, AttentionArgs, args.out[3]),
    COXSWAIN_ALTERED(rms_norm, NormArgs, args.y[76]),
    COXSWAIN_ALTERED(layer_norm, NormArgs, args.y[76]),
    COXSWAIN_ALTERED(rope, RopeArgs, args.x[5]),
    COXSWAIN_ALTERED(activation, ActivationArgs, args.y[5]),
    COXSWAIN_ALTERED(clamped_swiglu, ClampedSwigluArgs, args.y[5]),
    COXSWAIN_ALTERED(add, AddArgs, args.y[5]),
    COXSWAIN_ALTERED(gated_add, GatedAddArgs, args.y[5]),
    COXSWAIN_ALTERED(clip, ClipArgs, args.x[5]),
    COXSWAIN_ALTERED(soft_cap, SoftCapArgs, args.x[5]),
    COXSWAIN_ALTERED(look_up, LookUpArgs, args.y[5]),
    COXSWAIN_ALTERED(look_up_packed, LookUpPackedArgs, args.y[5]),
    COXSWAIN_ALTERED(rope_angles, RopeAnglesArgs, args.sin[5]),
    COXSWAIN_ALTERED(choose_experts, ChooseExpertsArgs, args.weights[1]),
    COXSWAIN_ALTERED(group_rows, GroupRowsArgs, args.rows[1]),
    COXSWAIN_ALTERED(gather, GatherArgs, args.y[5]),
    COXSWAIN_ALTERED(combine, CombineArgs, args.y[5]),
    {"kv_write",
     [](KernelTable& table) {
       table.kv_write = [](ExecContext& exec, const KvWriteArgs& args) {
         original()->kv_write(exec, args);
         args.cache.k[args.cache.k_block_stride_bytes] ^= std::byte{1};  // block 1 is the first
       };
     }},
};

// A new entry of the table belongs into the probe and into the list above.
static_assert(sizeof(KernelTable) == sizeof(std::string_view) + sizeof(void*) +
                                         sizeof(std::span<const LinearOps>) +
                                         std::size(kAltered) * sizeof(void (*)()));

TEST(NumericId, OneBitOfAnyEntryChangesIt) {
  for (const KernelTable* table : testing::runnable_tables()) {
    original() = table;
    const std::string id = id_of(*table);
    for (const Altered& altered : kAltered) {
      KernelTable copy = *table;
      altered.alter(copy);
      EXPECT_NE(id_of(copy), id) << table->id << " " << altered.name;
    }
  }
}

TEST(NumericId, OneBitOfAttentionToSinkTokensChangesIt) {
  for (const KernelTable* table : testing::runnable_tables()) {
    original() = table;
    KernelTable copy = *table;
    copy.attention = [](ExecContext& exec, const AttentionArgs& args) {
      original()->attention(exec, args);
      if (args.sink_tokens > 0) flip(args.out[3]);
    };
    EXPECT_NE(id_of(copy), id_of(*table)) << table->id;
  }
}

}  // namespace
}  // namespace coxswain::kernels
