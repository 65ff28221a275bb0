#include "tokenizer/piece_models.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "json/json.h"
#include "tokenizer/formats.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/rank_bpe.h"
#include "tokenizer/unigram.h"

namespace coxswain::tokenizer {
namespace {

bool takes_part(PieceKind kind) {
  return kind == PieceKind::kNormal || kind == PieceKind::kUserDefined ||
         kind == PieceKind::kUnused;
}

// Rank 0 for the highest score; equal scores are equal ranks.
std::vector<std::uint32_t> ranks_of(const std::vector<SentencePiece>& pieces) {
  std::vector<std::uint32_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return pieces[a].score > pieces[b].score;
  });
  std::vector<std::uint32_t> ranks(pieces.size(), kNoRank);
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && pieces[order[i]].score != pieces[order[i - 1]].score) ++rank;
    if (takes_part(pieces[order[i]].kind)) ranks[order[i]] = rank;
  }
  return ranks;
}

std::vector<bool> flags_of(const std::vector<SentencePiece>& pieces, PieceKind kind) {
  std::vector<bool> out(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) out[i] = pieces[i].kind == kind;
  return out;
}

std::unique_ptr<Model> make_bpe(const SentencePieceModel& model,
                                const TokenTable& names,
                                std::optional<TokenId> unk) {
  RankBpeOptions options;
  options.ranks = ranks_of(model.pieces);
  options.is_unused = flags_of(model.pieces, PieceKind::kUnused);
  options.is_user_defined = flags_of(model.pieces, PieceKind::kUserDefined);
  options.unk = unk;
  options.byte_fallback = model.byte_fallback;
  return std::make_unique<RankBpe>(names, std::move(options));
}

std::unique_ptr<Model> make_unigram(const SentencePieceModel& model,
                                    const TokenTable& names,
                                    std::optional<TokenId> unk) {
  UnigramOptions options;
  options.is_user_defined = flags_of(model.pieces, PieceKind::kUserDefined);
  options.is_excluded.resize(model.pieces.size());
  float min_score = std::numeric_limits<float>::max();
  float max_score = std::numeric_limits<float>::lowest();
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    options.scores.push_back(static_cast<double>(piece.score));
    options.is_excluded[i] =
        piece.kind != PieceKind::kNormal && piece.kind != PieceKind::kUserDefined;
    if (piece.kind != PieceKind::kNormal) continue;
    min_score = std::min(min_score, piece.score);
    max_score = std::max(max_score, piece.score);
  }
  options.min_score = static_cast<double>(min_score);
  options.max_score = static_cast<double>(max_score);
  options.unk = unk;
  options.byte_fallback = model.byte_fallback;
  options.fuse_unk = !model.byte_fallback;
  options.rounds_to_float = true;
  return std::make_unique<Unigram>(names, std::move(options));
}

std::unique_ptr<Normalizer> make_normalizer(const SentencePieceModel& model,
                                            PrecompiledCharsmap charsmap,
                                            const TokenTable& names) {
  SentencePieceNormalizerOptions options;
  std::vector<std::pair<std::string_view, std::int32_t>> user_defined;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (model.pieces[i].kind == PieceKind::kUserDefined && !names.string(id).empty())
      user_defined.emplace_back(names.string(id), id);
  }
  options.user_defined = ByteTrie(std::move(user_defined));
  options.charsmap = std::move(charsmap);
  options.add_dummy_prefix = model.add_dummy_prefix;
  options.prefixes_start_only = model.prefixes_start_only;
  options.remove_extra_blanks = model.remove_extra_blanks;
  options.escape_blanks = model.escape_blanks;
  options.blank_is_suffix = model.blank_is_suffix;
  return make_sentencepiece_normalizer(std::move(options));
}

}  // namespace

Result<TokenizerParts> parts_from_pieces(const SentencePieceModel& model, ControlPieces control) {
  TokenizerParts parts;
  std::optional<TokenId> unk;
  parts.names->reserve(model.pieces.size(), model.pieces.size() * 8);
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (!parts.names->add(piece.text, id))
      return Status(Code::kInvalidArgument,
                    "piece " + std::to_string(i) + ": \"" + piece.text + "\" is there twice");
    if (piece.kind == PieceKind::kUnknown) unk = id;
    // The library writes unknown pieces even where a model folder's tokenizer skips them as special.
    if (piece.kind == PieceKind::kControl ||
        (piece.kind == PieceKind::kUnknown && control == ControlPieces::kMatched)) {
      AddedToken token;
      token.content = piece.text;
      token.id = id;
      token.special = true;
      token.is_matched = control == ControlPieces::kMatched;
      parts.added.add(std::move(token));
    }
  }
  COXSWAIN_ASSIGN_OR_RETURN(PrecompiledCharsmap charsmap,
                            PrecompiledCharsmap::from_bytes(model.charsmap));
  parts.normalizer = make_normalizer(model, std::move(charsmap), *parts.names);
  switch (model.type) {
    case SentencePieceModel::Type::kBpe:
      parts.model = make_bpe(model, *parts.names, unk);
      break;
    case SentencePieceModel::Type::kUnigram:
      if (!unk) return Status(Code::kInvalidArgument, "a Unigram model without an unknown piece");
      parts.model = make_unigram(model, *parts.names, unk);
      break;
    case SentencePieceModel::Type::kWord:
    case SentencePieceModel::Type::kChar:
      return Status(Code::kUnimplemented,
                    "SentencePiece models of type word and char are not supported");
  }
  SentencePieceDecoderOptions decoder;
  decoder.unk_piece = unk ? std::string(parts.names->string(*unk)) : std::string();
  decoder.unk_surface = model.unk_surface;
  decoder.drops_first_blank = model.add_dummy_prefix || model.remove_extra_blanks;
  decoder.drops_first_blanks = model.remove_extra_blanks;
  parts.decoder.push_back(make_sentencepiece_decoder(std::move(decoder)));
  parts.bos = parts.names->find(model.bos_piece);
  parts.eos = parts.names->find(model.eos_piece);
  return parts;
}

Result<TokenizerParts> read_sentencepiece(std::string_view bytes,
                                          bool matches_control_pieces,
                                          const json::Value& config) {
  COXSWAIN_ASSIGN_OR_RETURN(SentencePieceModel model, parse_sentencepiece_model(bytes));
  if (config.is_object()) {
    const std::string where = "tokenizer_config";
    COXSWAIN_ASSIGN_OR_RETURN(const bool is_legacy, bool_field(config, "legacy", true, where));
    COXSWAIN_ASSIGN_OR_RETURN(const bool has_prefix,
                              bool_field(config, "add_prefix_space", true, where));
    model.prefixes_start_only = !is_legacy;
    model.add_dummy_prefix = model.add_dummy_prefix && has_prefix;
  }
  return parts_from_pieces(
      model, matches_control_pieces ? ControlPieces::kMatched : ControlPieces::kIgnored);
}

}  // namespace coxswain::tokenizer
