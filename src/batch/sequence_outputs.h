#pragma once
// append_outputs: the rows of several events behind each other, for those who gather them.
//
// Thread rule: a pure function.

#include <utility>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::batch {

inline void append_outputs(SequenceOutputs&& from, SequenceOutputs& to) {
  for (std::vector<float> SequenceOutputs::*rows : {&SequenceOutputs::context_logits,
                                                    &SequenceOutputs::generation_logits,
                                                    &SequenceOutputs::context_hidden,
                                                    &SequenceOutputs::generation_hidden}) {
    std::vector<float>& all = to.*rows;
    std::vector<float> next = std::move(from.*rows);
    if (all.empty()) {
      all = std::move(next);
    } else {
      all.insert(all.end(), next.begin(), next.end());
    }
  }
}

}  // namespace coxswain::batch
