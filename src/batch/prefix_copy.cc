#include "batch/prefix_copy.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "batch/block_transfers.h"
#include "batch/engine_core.h"

namespace coxswain::batch {
namespace {

// What `f` returns on the engine thread. The promise is shared: it may be left before it is done with its last word.
template <typename F>
auto on_engine(Engine& engine, const F& f) -> decltype(f(std::declval<EngineCore&>())) {
  const auto promise = std::make_shared<std::promise<decltype(f(std::declval<EngineCore&>()))>>();
  engine.post([promise, &f](EngineCore& core) { promise->set_value(f(core)); });
  return promise->get_future().get();
}

// A prefix that is held, and closed in the end.
class Copy {
 public:
  struct Opened {
    HeldPrefix prefix;
    std::uint32_t piece_blocks = 0;
    std::shared_ptr<AttachmentSlots> slots = {};
    std::shared_ptr<StepRunner> runner = {};
  };

  Copy(Engine& engine, Opened opened) : engine_(engine), opened_(std::move(opened)) {}
  ~Copy() { close(0); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  const Opened& opened() const { return opened_; }

  void close(std::uint32_t publish) {
    const std::uint64_t id = std::exchange(opened_.prefix.id, 0);
    if (id == 0) return;
    on_engine(engine_, [&](EngineCore& core) {
      core.transfers().close(id, publish);
      return true;
    });
  }

  std::uint64_t next_attachment() {
    return on_engine(engine_, [](EngineCore& core) { return core.transfers().next_attachment(); });
  }

  // Waits until the piece has moved.
  Status move(BlockPiece piece) {
    const auto promise = std::make_shared<std::promise<Status>>();
    piece.hold = opened_.prefix.id;
    piece.n = std::min(opened_.piece_blocks, opened_.prefix.n_blocks - piece.first);
    piece.done = [promise](const Status& status) { promise->set_value(status); };
    engine_.post([piece](EngineCore& core) { core.transfers().move(piece); });
    return promise->get_future().get();
  }

 private:
  Engine& engine_;
  Opened opened_;
};

Copy::Opened opened(EngineCore& core, HeldPrefix prefix, std::uint32_t piece_blocks) {
  return {.prefix = std::move(prefix),
          .piece_blocks = piece_blocks,
          .slots = core.transfers().slots(),
          .runner = core.runner()};
}

// While it lives one more attachment may be there.
class Slot {
 public:
  explicit Slot(AttachmentSlots& slots) : slots_(slots) { slots_.take(); }
  ~Slot() { slots_.give(); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  AttachmentSlots& slots_;
};

// As hold_for_import(), where the pieces are those of this runner.
Result<Copy::Opened> open_for_import(EngineCore& core,
                                     const GenerationRequest& query,
                                     const PrefixPieces& pieces) {
  BlockTransfers& transfers = core.transfers();
  if (pieces.piece_blocks > transfers.piece_blocks_max()) {
    return Status(Code::kUnimplemented,
                  "pieces of " + std::to_string(pieces.piece_blocks) +
                      " KV blocks; the runner takes " +
                      std::to_string(transfers.piece_blocks_max()) + " as one attachment");
  }
  COXSWAIN_ASSIGN_OR_RETURN(
      HeldPrefix prefix,
      transfers.hold_for_import(
          core.prefix_identity(query), query.prompt, pieces.n_blocks, pieces.piece_blocks));
  if (prefix.first_blocks == pieces.first_blocks)
    return opened(core, std::move(prefix), pieces.piece_blocks);
  transfers.close(prefix.id);
  return Status(Code::kUnimplemented, "the windows of the KV groups begin at other blocks");
}

// The piece whose first block is `first`, out of the runner.
Result<Attachment> take_piece(Copy& copy, std::uint32_t first) {
  const Slot slot(*copy.opened().slots);
  const std::uint64_t attachment = copy.next_attachment();
  COXSWAIN_RETURN_IF_ERROR(copy.move({.first = first, .attachment = attachment}));
  return copy.opened().runner->take(attachment);
}

}  // namespace

Result<PrefixPieces> export_prefix(Engine& engine,
                                   const GenerationRequest& query,
                                   const TakePiece& take) {
  Copy copy(engine, on_engine(engine, [&](EngineCore& core) {
              BlockTransfers& transfers = core.transfers();
              return opened(core,
                            transfers.hold(core.prefix_identity(query), query.prompt),
                            transfers.piece_blocks_max());
            }));
  const Copy::Opened& from = copy.opened();
  if (from.prefix.id == 0) return PrefixPieces{};
  PrefixPieces out{.n_blocks = from.prefix.n_blocks,
                   .piece_blocks = from.piece_blocks,
                   .first_blocks = from.prefix.first_blocks};
  for (std::uint32_t i = 0; i < out.n_pieces(); ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(Attachment image, take_piece(copy, i * out.piece_blocks));
    COXSWAIN_RETURN_IF_ERROR(take(i, std::move(image.bytes)));
  }
  return out;
}

Status import_prefix(Engine& engine,
                     const GenerationRequest& query,
                     const PrefixPieces& pieces,
                     const BringPiece& bring) {
  if (pieces.n_blocks == 0) return {};
  COXSWAIN_ASSIGN_OR_RETURN(Copy::Opened to, on_engine(engine, [&](EngineCore& core) {
                              return open_for_import(core, query, pieces);
                            }));
  Copy copy(engine, std::move(to));
  const Copy::Opened& into = copy.opened();
  for (std::uint32_t i = into.prefix.n_cached / pieces.piece_blocks; i < pieces.n_pieces(); ++i) {
    if (i * pieces.piece_blocks >= pieces.n_blocks || into.prefix.n_cached == pieces.n_blocks)
      break;
    COXSWAIN_ASSIGN_OR_RETURN(std::string image, bring(i));
    const Slot slot(*into.slots);
    const std::uint64_t attachment = copy.next_attachment();
    COXSWAIN_RETURN_IF_ERROR(into.runner->attach(
        {.id = attachment, .kind = AttachmentKind::kBlocks, .bytes = std::move(image)}));
    Status status =
        copy.move({.comes_in = true, .first = i * pieces.piece_blocks, .attachment = attachment});
    if (status.ok()) continue;
    static_cast<void>(into.runner->detach(attachment));
    return status;
  }
  copy.close(pieces.n_blocks);
  return {};
}

}  // namespace coxswain::batch
