#include "model/rope_tables.h"

#include <algorithm>

#include "model/rope.h"

namespace coxswain::model {

RopeTables::RopeTables(const ArchSpec& arch) {
  for (const RopeSpec& spec : arch.ropes) {
    Rope& rope = ropes_.emplace_back();
    rope.spec = spec;
    rope.within.resize(spec.rotary_dim / 2);
    rope.beyond.resize(spec.rotary_dim / 2);
    rope_frequencies(spec, 0, rope.within);
    rope_frequencies(spec, kPositionsMax, rope.beyond);
  }
  tables_.resize(ropes_.size());
}

void RopeTables::place(const ArchSpec& arch, const Workspace& work) {
  const std::size_t table = work.sizes.n_rows * angle_width(arch);
  for (std::size_t r = 0; r < ropes_.size(); ++r) {
    Rope& rope = ropes_[r];
    rope.cos = work.cos.data() + r * table;
    rope.sin = work.sin.data() + r * table;
    tables_[r] = {rope.cos, rope.sin, rope.spec.rotary_dim, rope.spec.style};
  }
}

void RopeTables::fill(const StepContext& step, std::span<const SequenceRows> sequences) const {
  for (const Rope& rope : ropes_) fill_one(step, sequences, rope);
}

// Where frequencies depend on a sequence's length, those of each sequence are laid out (or worked out, where every
// length has its own) on the host.
void RopeTables::fill_one(const StepContext& step,
                          std::span<const SequenceRows> sequences,
                          const Rope& rope) const {
  const RopeSwitch changes = rope_switch(rope.spec);
  const std::size_t half = rope.spec.rotary_dim / 2;
  kernels::RopeAnglesArgs args;
  args.positions = step.work.positions.first(step.n_rows);
  args.frequencies = rope.within.data();
  args.factor = static_cast<float>(rope.spec.attention_factor);
  args.cos = rope.cos;
  args.sin = rope.sin;
  args.n = half;
  if (changes.length != 0) {
    step.exec.pool().run(sequences.size(), [&](std::size_t s, std::size_t) {
      const SequenceRows& rows = sequences[s];
      const bool longer = rows.rope_length > changes.length;
      const std::span<float> own = step.work.frequencies.subspan(s * half, half);
      if (longer && changes.exact) {
        rope_frequencies(rope.spec, rows.rope_length, own);
      } else {
        std::ranges::copy(longer ? rope.beyond : rope.within, own.begin());
      }
      std::ranges::fill(step.work.frequency_of.subspan(rows.first_row, rows.n_rows),
                        static_cast<std::uint32_t>(s));
    });
    args.frequencies = step.work.frequencies.data();
    args.set_of_row = step.work.frequency_of.data();
  }
  step.kernels.rope_angles(step.exec, args);
}

}  // namespace coxswain::model
