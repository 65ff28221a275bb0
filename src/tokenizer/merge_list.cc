#include "tokenizer/merge_list.h"

#include <algorithm>
#include <array>
#include <future>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tokenizer/bulk_json.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kMergesMax = std::size_t{1} << 24;
constexpr std::size_t kTwoThreadsMin = std::size_t{1}
                                       << 13;  // below a thread costs more than it saves

// A merge in MergeText::text: both tokens side by side, which is the token that they make.
struct WrittenMerge {
  std::uint32_t begin = 0;
  std::uint32_t middle = 0;
  std::uint32_t end = 0;
};

struct MergeText {
  std::string text;
  std::vector<WrittenMerge> merges;  // in the order of the list

  std::string_view part(std::uint32_t begin, std::uint32_t end) const {
    return std::string_view(text).substr(begin, end - begin);
  }
};

struct Merge {
  TokenId left = -1;
  TokenId right = -1;
  TokenId merged = -1;
};

// Looks merges up from number `first` on, in batches, so that the memory of the table is on its way
// before it is needed.
class MergeLookUp {
 public:
  MergeLookUp(const MergeText& written, const TokenTable& names)
      : written_(written), names_(names) {}

  Status run(std::size_t first, std::span<Merge> out) {
    for (std::size_t at = 0; at < out.size(); at += kBatch)
      COXSWAIN_RETURN_IF_ERROR(
          run_batch(first + at, out.subspan(at, std::min(kBatch, out.size() - at))));
    return {};
  }

 private:
  static constexpr std::size_t kBatch = 32;
  struct Name {
    std::string_view text;
    std::uint64_t hash = 0;
    TokenId id = -1;
  };

  Status run_batch(std::size_t first, std::span<Merge> out) {
    std::array<std::array<Name, 3>, kBatch> batch;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const WrittenMerge& merge = written_.merges[first + i];
      auto& [left, right, merged] = batch[i];
      start(left, merge.begin, merge.middle);
      start(right, merge.middle, merge.end);
      merged = {written_.part(merge.begin, merge.end), 0, -1};
      if (!guess(merged)) start(merged, merge.begin, merge.end);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (const Name& name : batch[i]) {
        if (name.id < 0) names_.prefetch_string(name.hash);
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (Name& name : batch[i]) {
        if (name.id < 0) name.id = names_.find_or(name.text, name.hash, -1);
        if (name.id < 0)
          return invalid_argument("[" + std::to_string(first + i) + "]: the token \"" +
                                  std::string(name.text) + "\" is not in the vocabulary");
      }
      out[i] = {batch[i][0].id, batch[i][1].id, batch[i][2].id};
    }
    if (!out.empty()) last_ = out.back().merged;
    return {};
  }

  void start(Name& name, std::uint32_t begin, std::uint32_t end) const {
    name.text = written_.part(begin, end);
    name.hash = hash_bytes(name.text);
    names_.prefetch(name.hash);
  }
  // Lists mostly make one token after the other, so the next one need not be looked for.
  bool guess(Name& name) {
    constexpr TokenId kAhead = 2;
    for (TokenId id = last_; id <= last_ + kAhead; ++id) {
      if (names_.string(id) != name.text || !names_.has(id)) continue;
      name.id = last_ = id;
      return true;
    }
    return false;
  }

  const MergeText& written_;
  const TokenTable& names_;
  TokenId last_ = 0;  // made by the merge before, as far as that is known
};

// The later half on a thread of its own where that pays.
Status look_up_all(const MergeText& written, const TokenTable& names, std::span<Merge> out) {
  const bool is_long = out.size() >= kTwoThreadsMin && std::thread::hardware_concurrency() > 1;
  const std::size_t n_head = is_long ? out.size() / 2 : out.size();
  const auto look_up_tail = [&] {
    return MergeLookUp(written, names).run(n_head, out.subspan(n_head));
  };
  std::future<Status> tail;
  try {
    tail = std::async(is_long ? std::launch::async : std::launch::deferred, look_up_tail);
  } catch (const std::system_error&) {  // no thread to be had
    tail = std::async(std::launch::deferred, look_up_tail);
  }
  const Status head = MergeLookUp(written, names).run(0, out.first(n_head));
  const Status behind = tail.get();
  return head.ok() ? behind : head;
}

// Errors are those of the first bad entry, so what stands before a bad one is kept.
Status read_text(std::string_view list, MergeText& out) {
  out.text.reserve(list.size() / 2);
  return read_merge_array(list, [&](std::string_view left, std::string_view right) {
    if (out.merges.size() == kMergesMax)
      return invalid_argument(": more than " + std::to_string(kMergesMax) + " merges");
    WrittenMerge merge;
    merge.begin = static_cast<std::uint32_t>(out.text.size());
    out.text.append(left);
    merge.middle = static_cast<std::uint32_t>(out.text.size());
    out.text.append(right);
    merge.end = static_cast<std::uint32_t>(out.text.size());
    out.merges.push_back(merge);
    return Status();
  });
}

}  // namespace

bool add_merge(const TokenTable& names,
               std::string_view left,
               std::string_view right,
               std::uint32_t rank,
               MergeTable& table) {
  const std::string merged = std::string(left).append(right);
  const Merge merge{names.find_or(left, -1), names.find_or(right, -1), names.find_or(merged, -1)};
  if (merge.left < 0 || merge.right < 0 || merge.merged < 0) return false;
  table.set(merge.left, merge.right, rank, merge.merged);
  return true;
}

Result<MergeTable> read_merges(std::string_view list, const TokenTable& names) {
  MergeText written;
  const Status read = read_text(list, written);
  std::vector<Merge> merges(written.merges.size());
  COXSWAIN_RETURN_IF_ERROR(look_up_all(written, names, merges));
  COXSWAIN_RETURN_IF_ERROR(read);
  MergeTable table;
  // A vocabulary of n tokens has seldom more than three ways to make one; a list may repeat itself.
  table.reserve(std::min(merges.size(), names.size() * 3));
  constexpr std::size_t kAhead = 32;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    if (rank + kAhead < merges.size())
      table.prefetch(merges[rank + kAhead].left, merges[rank + kAhead].right);
    table.set(merges[rank].left,
              merges[rank].right,
              static_cast<std::uint32_t>(rank),
              merges[rank].merged);
  }
  return table;
}

}  // namespace coxswain::tokenizer
