// The part of the protobuf wire format that a SentencePiece model needs: varints, fixed 32 bits and
// length-delimited fields (protobuf.dev/programming-guides/encoding).

#include <cstring>
#include <optional>

#include "tokenizer/formats.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

Status damaged(const std::string& what) {
  return {Code::kDataLoss, "SentencePiece model: " + what};
}

bool is_utf8(std::string_view text) {
  return valid_utf8_prefix(text) == text.size();
}

struct Field {
  std::uint32_t number = 0;
  std::uint64_t varint = 0;  // wire types 0 and 5
  std::string_view bytes;    // wire type 2
};

// Reads one message field by field.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  // Empty if the bytes are damaged.
  std::optional<Field> next() {
    const auto tag = varint();
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > 0x1FFFFFFF) return std::nullopt;
    Field field;
    field.number = static_cast<std::uint32_t>(*tag >> 3);
    switch (*tag & 7) {
      case 0: {
        const auto value = varint();
        if (!value) return std::nullopt;
        field.varint = *value;
        return field;
      }
      case 1:
        return take(8) ? std::optional(field) : std::nullopt;
      case 2: {
        const auto length = varint();
        if (!length || *length > rest_.size()) return std::nullopt;
        field.bytes = rest_.substr(0, static_cast<std::size_t>(*length));
        rest_.remove_prefix(static_cast<std::size_t>(*length));
        return field;
      }
      case 5: {
        if (rest_.size() < 4) return std::nullopt;
        std::uint32_t value = 0;
        std::memcpy(&value, rest_.data(), 4);
        field.varint = value;
        rest_.remove_prefix(4);
        return field;
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  bool take(std::size_t n) {
    if (rest_.size() < n) return false;
    rest_.remove_prefix(n);
    return true;
  }

  std::string_view rest_;
};

// Calls visit(field) for each field of the message.
template <typename Visit>
Status read_message(std::string_view bytes, const std::string& name, Visit visit) {
  MessageReader reader(bytes);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return damaged(name + " is damaged");
    COXSWAIN_RETURN_IF_ERROR(visit(*field));
  }
  return {};
}

Status read_piece(std::string_view bytes, SentencePieceModel& model) {
  const std::string name = "piece " + std::to_string(model.pieces.size());
  if (model.pieces.size() > static_cast<std::size_t>(kTokenIdMax))
    return damaged(name + " is one too many: ids end at " + std::to_string(kTokenIdMax));
  SentencePiece piece;
  COXSWAIN_RETURN_IF_ERROR(read_message(bytes, name, [&](const Field& field) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) {
      const auto bits = static_cast<std::uint32_t>(field.varint);
      std::memcpy(&piece.score, &bits, sizeof(bits));
    }
    if (field.number == 3) {
      if (field.varint < 1 || field.varint > 6) return damaged(name + " has an unknown type");
      piece.kind = static_cast<PieceKind>(field.varint);
    }
    return Status();
  }));
  if (!is_utf8(piece.text)) return damaged(name + " is no UTF-8 text");
  if (piece.score != piece.score) return damaged(name + " has no number as its score");
  model.pieces.push_back(std::move(piece));
  return {};
}

Status read_trainer(std::string_view bytes, SentencePieceModel& model) {
  return read_message(bytes, "trainer_spec", [&](const Field& field) {
    if (field.number == 3) {
      if (field.varint < 1 || field.varint > 4) return damaged("unknown model type");
      model.type = static_cast<SentencePieceModel::Type>(field.varint);
    }
    if (field.number == 24) model.blank_is_suffix = field.varint != 0;
    if (field.number == 35) model.byte_fallback = field.varint != 0;
    if (field.number == 44) model.unk_surface = field.bytes;
    if (field.number == 46) model.bos_piece = field.bytes;
    if (field.number == 47) model.eos_piece = field.bytes;
    return Status();
  });
}

Status read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  return read_message(bytes, "normalizer_spec", [&](const Field& field) {
    if (field.number == 2) model.charsmap = field.bytes;
    if (field.number == 3) model.add_dummy_prefix = field.varint != 0;
    if (field.number == 4) model.remove_extra_blanks = field.varint != 0;
    if (field.number == 5) model.escape_blanks = field.varint != 0;
    return Status();
  });
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece_model(std::string_view bytes) {
  SentencePieceModel model;
  COXSWAIN_RETURN_IF_ERROR(read_message(bytes, "the file", [&](const Field& field) {
    if (field.number == 1) return read_piece(field.bytes, model);
    if (field.number == 2) return read_trainer(field.bytes, model);
    if (field.number == 3) return read_normalizer(field.bytes, model);
    return Status();
  }));
  if (model.pieces.empty()) return damaged("no pieces");
  if (!is_utf8(model.unk_surface) || !is_utf8(model.bos_piece) || !is_utf8(model.eos_piece))
    return damaged("trainer_spec has a text that is no UTF-8");
  return model;
}

}  // namespace coxswain::tokenizer
