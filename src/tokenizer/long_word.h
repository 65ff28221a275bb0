#pragma once
// LongWord and RankQueue: merging a word of very many symbols in less than five bytes a symbol.
//
// LongWord keeps tokens in the cells of their first symbols. A token of several symbols has its id
// in its first cell and its number of symbols in its second and in its last one (for two symbols
// that is one cell), so both neighbours of a token are found without links.
//
// RankQueue hands out waiting merges, lowest rank first, leftmost first among equals. Where many places wait with
// one rank it forgets them and looks for them again from left to right; a rank that is looked for so costs one pass
// over the word and stands for at least kSharesMax-th of its pairs, so passes are few. Thread rule: one thread.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::tokenizer {

class LongWord {
 public:
  std::size_t size() const { return cells_.size(); }  // symbols
  void reserve(std::size_t n) {
    cells_.reserve(n);
    n_bytes_.reserve(n / kPacked + 1);
    is_joined_.reserve(n);
  }
  void clear() {
    cells_.clear();
    n_bytes_.clear();
    is_joined_.clear();
  }
  // A symbol of more than four bytes is kept like one that was joined of several.
  void push(TokenId id, std::uint32_t n_bytes) {
    const std::size_t left = size();
    constexpr std::uint32_t kBytesMax = 4;
    for (std::uint32_t done = 0; done < n_bytes; done += kBytesMax) {
      const std::size_t at = size();
      cells_.push_back(id);
      is_joined_.push_back(done > 0);
      if (at % kPacked == 0) n_bytes_.push_back(0);
      const std::uint32_t n = std::min(kBytesMax, n_bytes - done);
      n_bytes_.back() |= static_cast<std::uint8_t>((n - 1) << 2 * (at % kPacked));
    }
    if (size() > left + 1) cells_[left + 1] = cells_.back() = static_cast<TokenId>(size() - left);
  }

  bool is_start(std::size_t at) const { return !is_joined_[at]; }
  // For the first symbol of a token:
  TokenId id(std::size_t at) const { return cells_[at]; }
  std::size_t next(std::size_t at) const {
    return at + 1 < size() && is_joined_[at + 1] ? at + static_cast<std::size_t>(cells_[at + 1])
                                                 : at + 1;
  }
  std::size_t previous(std::size_t at) const {  // REQUIRES: at > 0
    return is_joined_[at - 1] ? at - static_cast<std::size_t>(cells_[at - 1]) : at - 1;
  }
  std::uint32_t n_bytes(std::size_t at) const {
    std::uint32_t sum = 0;
    const std::size_t end = next(at);
    for (std::size_t i = at; i < end; ++i)
      sum += 1 + (n_bytes_[i / kPacked] >> 2 * (i % kPacked) & 3U);
    return sum;
  }
  // Joins the tokens at `left` and `right`, its neighbour.
  void join(std::size_t left, std::size_t right, TokenId id) {
    const std::size_t end = next(right);
    is_joined_[right] = true;
    cells_[left] = id;
    cells_[left + 1] = static_cast<TokenId>(end - left);
    cells_[end - 1] = static_cast<TokenId>(end - left);
  }

 private:
  static constexpr std::size_t kPacked = 4;  // numbers in a byte

  std::vector<TokenId> cells_;
  std::vector<std::uint8_t> n_bytes_;  // [symbol / kPacked]: of each symbol, less one, in two bits
  std::vector<bool> is_joined_;        // [symbol]: to the one before
};

class RankQueue {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  explicit RankQueue(std::size_t n_symbols)
      : listed_max_(std::max<std::size_t>(kListedMin, n_symbols / kSharesMax)) {}

  void push(std::uint32_t rank, std::uint32_t at) {
    const auto [found, is_new] = bucket_of_rank_.try_emplace(rank, buckets_.size());
    if (is_new) buckets_.emplace_back();
    Bucket& bucket = buckets_[found->second];
    if (!bucket.is_waiting) {
      bucket.is_waiting = true;
      ranks_.emplace_back(rank, found->second);
      std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    }
    if (bucket.is_searched) {
      if (at < bucket.searched_to) push_late(bucket, at);
      return;
    }
    if (!bucket.listed.empty() && bucket.listed.back() > at) return push_late(bucket, at);
    bucket.listed.push_back(at);
    if (bucket.listed.size() - bucket.n_taken <= listed_max_) return;
    bucket.is_searched = true;
    bucket.searched_to = bucket.listed[bucket.n_taken];
    bucket.forget();
  }

  // The next (rank, place); kNone as the place at the end. The place need not have a merge of that
  // rank any more. find(rank, from): the first place from there on that has one, or kNone.
  template <typename Find>
  std::pair<std::uint32_t, std::uint32_t> pop(Find find) {
    while (!ranks_.empty()) {
      const auto [rank, index] = ranks_.front();
      Bucket& bucket = buckets_[index];
      std::uint32_t at = kNone;
      if (bucket.is_searched) {
        at = find(rank, bucket.searched_to);
        if (at == kNone) bucket.is_searched = false;
        bucket.searched_to = at;
      } else if (bucket.n_taken < bucket.listed.size()) {
        at = bucket.listed[bucket.n_taken];
      }
      if (!bucket.late.empty() && bucket.late.front() <= at) return {rank, pop_late(bucket)};
      if (at != kNone) {
        ++(bucket.is_searched ? bucket.searched_to : bucket.n_taken);
        return {rank, at};
      }
      bucket.forget();
      bucket.is_waiting = false;
      std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
      ranks_.pop_back();
    }
    return {0, kNone};
  }

 private:
  static constexpr std::size_t kListedMin = 4096;
  static constexpr std::size_t kSharesMax = 64;

  struct Bucket {
    std::vector<std::uint32_t> listed;  // sorted
    std::uint32_t n_taken = 0;          // of them
    std::vector<std::uint32_t> late;    // a heap
    std::uint32_t searched_to = 0;
    bool is_searched = false;  // places from searched_to on are not listed
    bool is_waiting = false;   // in ranks_
    void forget() {
      listed = {};
      n_taken = 0;
    }
  };
  static void push_late(Bucket& bucket, std::uint32_t at) {
    bucket.late.push_back(at);
    std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
  }
  static std::uint32_t pop_late(Bucket& bucket) {
    std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
    const std::uint32_t at = bucket.late.back();
    bucket.late.pop_back();
    return at;
  }

  std::size_t listed_max_;
  std::vector<std::pair<std::uint32_t, std::size_t>> ranks_;  // a heap
  std::unordered_map<std::uint32_t, std::size_t> bucket_of_rank_;
  std::vector<Bucket> buckets_;
};

}  // namespace coxswain::tokenizer
