#pragma once
// MergeQueue: waiting merges, lowest rank first, leftmost first among equals.
//
// A long text has few different ranks and offers each rank's places mostly from left to right. So
// there is a heap of ranks, and for each rank a list of places that stays sorted as it grows; the
// rare place that comes out of order goes into a small heap of its own. A run of one character
// takes linear time. Thread rule: one thread.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::tokenizer {

class MergeQueue {
 public:
  struct Merge {
    std::uint32_t rank = 0;
    std::uint32_t position = 0;  // index of the left symbol
    TokenId id = 0;              // of the merged token
  };

  bool empty() const { return ranks_.empty(); }

  void push(const Merge& merge) {
    const auto [found, is_new] = bucket_of_rank_.try_emplace(merge.rank, buckets_.size());
    if (is_new) buckets_.emplace_back();
    Bucket& bucket = buckets_[found->second];
    if (bucket.empty()) {
      ranks_.push_back({merge.rank, found->second});
      std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    }
    bucket.push({merge.position, merge.id});
  }

  // REQUIRES: not empty.
  Merge pop() {
    const RankPlace top = ranks_.front();
    Bucket& bucket = buckets_[top.bucket];
    const Place place = bucket.pop();
    if (bucket.empty()) {
      bucket.clear();
      std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
      ranks_.pop_back();
    }
    return {top.rank, place.position, place.id};
  }

 private:
  struct Place {
    std::uint32_t position = 0;
    TokenId id = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct RankPlace {
    std::uint32_t rank = 0;
    std::size_t bucket = 0;
    friend auto operator<=>(const RankPlace&, const RankPlace&) = default;
  };
  class Bucket {
   public:
    bool empty() const { return next_ == sorted_.size() && late_.empty(); }
    void push(Place place) {
      if (next_ == sorted_.size() || sorted_.back() <= place) {
        sorted_.push_back(place);
        return;
      }
      late_.push_back(place);
      std::push_heap(late_.begin(), late_.end(), std::greater<>());
    }
    Place pop() {
      if (late_.empty() || (next_ < sorted_.size() && sorted_[next_] <= late_.front()))
        return sorted_[next_++];
      std::pop_heap(late_.begin(), late_.end(), std::greater<>());
      const Place out = late_.back();
      late_.pop_back();
      return out;
    }
    void clear() {
      sorted_.clear();
      next_ = 0;
    }

   private:
    std::vector<Place> sorted_;
    std::size_t next_ = 0;
    std::vector<Place> late_;  // a heap
  };

  std::vector<RankPlace> ranks_;  // a heap of the ranks that have places
  std::unordered_map<std::uint32_t, std::size_t> bucket_of_rank_;
  std::vector<Bucket> buckets_;
};

}  // namespace coxswain::tokenizer
