#include "tokenizer/merge_list.h"

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "tokenizer/bulk_json.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kHalvesBytesMin = std::size_t{1}
                                        << 17;  // a thread would cost more than it saves

struct Merge {
  TokenId left = -1;
  TokenId right = -1;
  TokenId merged = -1;
};

// Looks the tokens of merges up in batches, so that the memory of the table is on its way before it
// is needed.
class MergeReader {
 public:
  using Take = base::FunctionRef<void(std::span<const Merge> merges)>;
  // REQUIRES: all three outlive this object.
  MergeReader(const TokenTable& names, std::string_view prefix, Take take)
      : names_(names), prefix_(prefix), take_(take) {}

  Status add(std::string_view left, std::string_view right) {
    Entry& entry = entries_[n_++];
    entry.left = put(left);
    entry.right = put(right);
    // What both make lies side by side already, unless a prefix goes.
    entry.merged = {entry.left.begin, entry.right.end};
    if (!prefix_.empty() && right.starts_with(prefix_)) {
      text_.append(left);
      entry.merged = put(right.substr(prefix_.size()));
      entry.merged.begin -= static_cast<std::uint32_t>(left.size());
    }
    start_look_up(entry.left);
    start_look_up(entry.right);
    if (!guess(entry.merged)) start_look_up(entry.merged);
    return n_ == entries_.size() ? flush() : Status();
  }
  // Hands on what still waits.
  Status flush() {
    const std::span<Entry> waiting = std::span(entries_).first(std::exchange(n_, 0));
    for (Entry& entry : waiting) {
      for (const Part* part : {&entry.left, &entry.right, &entry.merged}) {
        if (part->id < 0) names_.prefetch_string(part->hash);
      }
    }
    std::array<Merge, kMerges> merges;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      Entry& entry = waiting[i];
      for (Part* part : {&entry.left, &entry.right, &entry.merged}) {
        if (part->id < 0) part->id = names_.find_or(text_of(*part), part->hash, -1);
        if (part->id < 0)
          return invalid_argument("[" + std::to_string(n_done_ + i) + "]: the token \"" +
                                  std::string(text_of(*part)) + "\" is not in the vocabulary");
      }
      merges[i] = {entry.left.id, entry.right.id, entry.merged.id};
    }
    if (!waiting.empty()) last_ = waiting.back().merged.id;
    n_done_ += waiting.size();
    text_.clear();
    take_(std::span(merges).first(waiting.size()));
    return {};
  }

 private:
  static constexpr std::size_t kMerges = 32;
  struct Part {
    std::uint32_t begin = 0;  // in text_
    std::uint32_t end = 0;
    std::uint64_t hash = 0;
    TokenId id = -1;
  };
  struct Entry {
    Part left;
    Part right;
    Part merged;
  };
  Part put(std::string_view token) {
    const auto begin = static_cast<std::uint32_t>(text_.size());
    text_.append(token);
    return {begin, static_cast<std::uint32_t>(text_.size())};
  }
  std::string_view text_of(const Part& part) const {
    return std::string_view(text_).substr(part.begin, part.end - part.begin);
  }
  void start_look_up(Part& part) const {
    part.hash = hash_bytes(text_of(part));
    names_.prefetch(part.hash);
  }
  // Lists mostly make one token after the other, so the next one need not be looked for.
  bool guess(Part& part) {
    constexpr TokenId kAhead = 2;
    const std::string_view text = text_of(part);
    for (TokenId id = last_; id <= last_ + kAhead; ++id) {
      if (names_.string(id) != text || !names_.has(id)) continue;
      part.id = last_ = id;
      return true;
    }
    return false;
  }

  const TokenTable& names_;
  std::string_view prefix_;
  Take take_;
  std::array<Entry, kMerges> entries_;
  std::size_t n_ = 0;
  std::size_t n_done_ = 0;
  TokenId last_ = 0;  // made by the merge before, as far as that is known
  std::string text_;  // of the entries
};

Status read_part(std::string_view list,
                 ListPart part,
                 const TokenTable& names,
                 std::string_view prefix,
                 MergeReader::Take take) {
  MergeReader reader(names, prefix, take);
  const Status read = read_merge_array(
      list,
      [&](std::string_view left, std::string_view right) { return reader.add(left, right); },
      part);
  const Status flushed = reader.flush();  // its errors come first in the list
  return flushed.ok() ? read : flushed;
}

// Puts merges into a table, each one some steps after its memory was asked for.
class TableFiller {
 public:
  explicit TableFiller(MergeTable& table) : table_(table) {}  // REQUIRES: outlives this object

  void add(std::span<const Merge> merges) {
    for (const Merge& merge : merges) {
      table_.prefetch(merge.left, merge.right);
      if (n_added_ - n_put_ == kAhead) put_next();
      waiting_[n_added_++ % kAhead] = merge;
    }
  }
  // REQUIRES: called at the end.
  void finish() {
    while (n_put_ < n_added_) put_next();
  }

 private:
  static constexpr std::uint32_t kAhead = 32;

  void put_next() {
    const Merge& merge = waiting_[n_put_ % kAhead];
    table_.set(merge.left, merge.right, n_put_++, merge.merged);
  }

  MergeTable& table_;
  std::array<Merge, kAhead> waiting_;
  std::uint32_t n_added_ = 0;
  std::uint32_t n_put_ = 0;  // the rank of the next
};

// A vocabulary of n tokens has seldom more than three ways to make one.
std::size_t n_expected_max(const TokenTable& names) {
  return names.size() * 3;
}

MergeTable table_for(std::string_view list, const TokenTable& names) {
  MergeTable table;
  table.reserve(std::min(n_merges_max(list), n_expected_max(names)));
  return table;
}

// Empty if the list cannot be halved or is odd, no thread can be started, or a merge is wrong.
std::optional<MergeTable> read_halves(std::string_view list,
                                      const TokenTable& names,
                                      std::string_view prefix) {
  if (list.size() < kHalvesBytesMin || std::thread::hardware_concurrency() < 2) return std::nullopt;
  const auto halves = halve_merges(list);
  if (!halves) return std::nullopt;
  const std::size_t n_behind = n_merges_max(halves->tail);
  if (n_behind > n_expected_max(names)) return std::nullopt;  // merges that come again and again
  std::vector<Merge> behind;
  const auto read_tail = [&] {
    behind.reserve(n_behind);
    return read_part(
        halves->tail, ListPart::kTail, names, prefix, [&](std::span<const Merge> merges) {
          behind.insert(behind.end(), merges.begin(), merges.end());
        });
  };
  std::future<Status> tail;  // ends the thread where it ends itself
  try {
    tail = std::async(std::launch::async, read_tail);
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  MergeTable table = table_for(list, names);
  TableFiller filler(table);
  const Status head =
      read_part(halves->head, ListPart::kHead, names, prefix, [&](std::span<const Merge> merges) {
        filler.add(merges);
      });
  if (!tail.get().ok() || !head.ok()) return std::nullopt;
  filler.add(behind);
  filler.finish();
  return table;
}

}  // namespace

Result<MergeTable> read_merges(std::string_view list,
                               const TokenTable& names,
                               std::string_view prefix) {
  if (auto table = read_halves(list, names, prefix)) return *std::move(table);
  MergeTable table = table_for(list, names);
  TableFiller filler(table);
  COXSWAIN_RETURN_IF_ERROR(
      read_part(list, ListPart::kWhole, names, prefix, [&](std::span<const Merge> merges) {
        filler.add(merges);
      }));
  filler.finish();
  return table;
}

}  // namespace coxswain::tokenizer
