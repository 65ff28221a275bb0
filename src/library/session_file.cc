#include "library/session_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <xxhash.h>

#include <coxswain/kv_layout.h>

#include "base/numbers.h"
#include "base/raw_bytes.h"
#include "batch/block_transfers.h"

namespace coxswain::library {
namespace {

using base::append_raw;
using base::raw_at;

constexpr std::string_view kMagic = "CXSESSN\n";
constexpr std::size_t kHeadBytes = 16;
constexpr std::size_t kSectionBytes = 32;
// Texts are short; a longer one is no text of ours.
constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 20;

constexpr std::uint32_t tag_of(std::string_view name) {
  std::uint32_t out = 0;
  for (std::size_t i = 4; i-- > 0;) out = out << 8U | static_cast<unsigned char>(name[i]);
  return out;
}
constexpr std::uint32_t kHead = tag_of("HEAD");
constexpr std::uint32_t kSalt = tag_of("SALT");
constexpr std::uint32_t kIds = tag_of("IDS ");
constexpr std::uint32_t kBlocks = tag_of("BLKS");
constexpr std::uint32_t kPieces = tag_of("PIEC");
constexpr std::uint32_t kEnd = tag_of("END ");

std::string name_of_tag(std::uint32_t tag) {
  std::string out;
  for (unsigned i = 0; i < 4; ++i) {
    const auto c = static_cast<unsigned char>(tag >> (8U * i));
    out += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
  }
  return out;
}

std::uint64_t sum_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

// What a runner must be for the blocks to be its own, a line each.
std::string runner_text(const RunnerInfo& info) {
  return "model_id=" + info.model_id +
         "\nmodel_fingerprint=" + std::to_string(info.model_fingerprint) +
         "\nkernel_set_id=" + info.kernel_set_id + "\ndtype=" + info.dtype + "\n" +
         describe(kv_layout_of(info));
}

// Takes the line `name=number` off the front of `text`.
bool take_number(std::string_view& text, std::string_view name, std::uint32_t& out) {
  if (!text.starts_with(name) || text.substr(name.size(), 1) != "=") return false;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + name.size() + 1, end, out);
  if (error != std::errc() || at == end || *at != '\n') return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()) + 1);
  return true;
}

std::vector<std::uint32_t> blocks_of_piece(const batch::PrefixPieces& pieces,
                                           const KvLayout& layout,
                                           std::uint32_t index) {
  const std::uint32_t first = index * pieces.piece_blocks;
  const std::uint32_t end = std::min(pieces.n_blocks, first + pieces.piece_blocks);
  std::vector<std::uint32_t> out;
  for (std::size_t g = 0; g < pieces.first_blocks.size(); ++g) {
    const std::uint32_t behind = pieces.first_blocks[g];
    const std::uint32_t sinks =
        std::min(behind, base::ceil_div(layout.groups[g].sink_tokens, layout.block_tokens));
    out.push_back(end - std::min(end, std::max(first, behind)) +
                  base::sub_sat(std::min(end, sinks), first));
  }
  return out;
}

}  // namespace

Result<SessionFileWriter> SessionFileWriter::create(const std::string& path,
                                                    const RunnerInfo& info,
                                                    const SessionSnapshot& snapshot,
                                                    const base::FileCalls& calls) {
  COXSWAIN_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::create(path, calls));
  SessionFileWriter out(std::move(file));
  std::string head(kMagic);
  append_raw(head, kSessionFileVersion);
  append_raw(head, std::uint32_t{0});
  COXSWAIN_RETURN_IF_ERROR(out.file_.write(head));
  COXSWAIN_RETURN_IF_ERROR(out.add(kHead,
                                   "tokens=" + std::to_string(snapshot.ids.size()) +
                                       "\nrope_length=" + std::to_string(snapshot.rope_length) +
                                       "\n" + runner_text(info)));
  COXSWAIN_RETURN_IF_ERROR(out.add(kSalt, snapshot.cache_salt));
  const auto ids = std::as_bytes(std::span(snapshot.ids));
  COXSWAIN_RETURN_IF_ERROR(out.add(kIds, {reinterpret_cast<const char*>(ids.data()), ids.size()}));
  return out;
}

Status SessionFileWriter::add(std::uint32_t tag, std::string_view payload) {
  std::string section;
  append_raw(section, tag);
  append_raw(section, n_sections_++);
  append_raw(section, std::uint64_t{payload.size()});
  append_raw(section, sum_of(payload));
  append_raw(section, sum_of(section));
  COXSWAIN_RETURN_IF_ERROR(file_.write(section));
  return file_.write(payload);
}

Status SessionFileWriter::add_piece(std::string_view image) {
  return add(kBlocks, image);
}

Status SessionFileWriter::finish(const batch::PrefixPieces& pieces) {
  std::string payload;
  append_raw(payload, pieces.n_blocks);
  append_raw(payload, pieces.piece_blocks);
  for (const std::uint32_t first : pieces.first_blocks) append_raw(payload, first);
  COXSWAIN_RETURN_IF_ERROR(add(kPieces, payload));
  COXSWAIN_RETURN_IF_ERROR(add(kEnd, {}));
  return file_.commit();
}

Status SessionFile::bad(Code code, const std::string& what) const {
  return {code, "session file `" + path_ + "`: " + what};
}

Status SessionFile::open_stream() {
  in_.open(path_, std::ios::binary | std::ios::ate);
  if (!in_) return bad(Code::kNotFound, "cannot be opened");
  const auto end = in_.tellg();
  if (end < 0) return bad(Code::kInvalidArgument, "is no regular file");
  n_bytes_ = static_cast<std::uint64_t>(end);
  in_.seekg(0);
  std::string head(kHeadBytes, '\0');
  in_.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (!head.starts_with(kMagic)) return bad(Code::kInvalidArgument, "holds no session");
  if (!in_) return bad(Code::kDataLoss, "is cut off at " + std::to_string(n_bytes_) + " bytes");
  const auto version = raw_at<std::uint32_t>(head, kMagic.size());
  if (version != kSessionFileVersion || raw_at<std::uint32_t>(head, kMagic.size() + 4) != 0) {
    return bad(Code::kInvalidArgument,
               "version: found " + std::to_string(version) + ", expected " +
                   std::to_string(kSessionFileVersion));
  }
  return {};
}

Result<SessionFile::Section> SessionFile::next_section() {
  const std::string where = "section " + std::to_string(n_sections_);
  const auto at = static_cast<std::uint64_t>(in_.tellg());
  if (n_bytes_ - at < kSectionBytes)
    return bad(Code::kDataLoss, where + ": is cut off at " + std::to_string(n_bytes_) + " bytes");
  std::string head(kSectionBytes, '\0');
  in_.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (!in_) return bad(Code::kUnavailable, where + ": cannot be read");
  if (raw_at<std::uint64_t>(head, 24) != sum_of(std::string_view(head).substr(0, 24)))
    return bad(Code::kDataLoss, where + ": the checksum of its head is wrong");
  const Section out{.tag = raw_at<std::uint32_t>(head, 0),
                    .begin = at + kSectionBytes,
                    .n_bytes = raw_at<std::uint64_t>(head, 8),
                    .sum = raw_at<std::uint64_t>(head, 16)};
  if (raw_at<std::uint32_t>(head, 4) != n_sections_) {
    return bad(Code::kInvalidArgument,
               where + ": number: found " + std::to_string(raw_at<std::uint32_t>(head, 4)) +
                   ", expected " + std::to_string(n_sections_));
  }
  if (out.n_bytes > n_bytes_ - out.begin) {
    return bad(Code::kDataLoss,
               where + " (" + name_of_tag(out.tag) + "): length: found " +
                   std::to_string(n_bytes_ - out.begin) + " bytes, expected " +
                   std::to_string(out.n_bytes));
  }
  ++n_sections_;
  return out;
}

Result<std::string> SessionFile::payload(const Section& section) {
  std::string out(section.n_bytes, '\0');
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(section.begin));
  in_.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (!in_) return bad(Code::kUnavailable, name_of_tag(section.tag) + ": cannot be read");
  if (sum_of(out) != section.sum) {
    return bad(Code::kDataLoss,
               name_of_tag(section.tag) + ": checksum: found " + std::to_string(sum_of(out)) +
                   ", expected " + std::to_string(section.sum));
  }
  return out;
}

Result<std::string> SessionFile::expect(std::uint32_t tag, std::uint64_t bytes_max) {
  COXSWAIN_ASSIGN_OR_RETURN(const Section section, next_section());
  if (section.tag != tag) {
    return bad(Code::kInvalidArgument,
               "section " + std::to_string(n_sections_ - 1) + ": found " +
                   name_of_tag(section.tag) + ", expected " + name_of_tag(tag));
  }
  if (section.n_bytes > bytes_max) {
    return bad(Code::kInvalidArgument,
               name_of_tag(tag) + ": length: found " + std::to_string(section.n_bytes) +
                   " bytes, expected at most " + std::to_string(bytes_max));
  }
  return payload(section);
}

// Up to the ids; `layout` is what the file says of its runner.
Status SessionFile::read_snapshot(std::string& layout) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::string head, expect(kHead, kTextBytesMax));
  std::string_view text = head;
  std::uint32_t n_tokens = 0;
  if (!take_number(text, "tokens", n_tokens) ||
      !take_number(text, "rope_length", snapshot_.rope_length)) {
    return bad(Code::kInvalidArgument, "HEAD: expected `tokens` and `rope_length`, a number each");
  }
  layout = text;
  COXSWAIN_ASSIGN_OR_RETURN(snapshot_.cache_salt, expect(kSalt, kTextBytesMax));
  const std::uint64_t ids_bytes = std::uint64_t{n_tokens} * sizeof(TokenId);
  COXSWAIN_ASSIGN_OR_RETURN(const std::string ids, expect(kIds, ids_bytes));
  if (ids.size() != ids_bytes) {
    return bad(Code::kInvalidArgument,
               "IDS: length: found " + std::to_string(ids.size()) + " bytes, expected " +
                   std::to_string(ids_bytes) + " for tokens=" + std::to_string(n_tokens));
  }
  snapshot_.ids.resize(n_tokens);
  std::memcpy(snapshot_.ids.data(), ids.data(), ids.size());
  return {};
}

Result<SessionSnapshot> SessionFile::read_ids(const std::string& path) {
  SessionFile file(path);
  std::string layout;
  COXSWAIN_RETURN_IF_ERROR(file.open_stream());
  COXSWAIN_RETURN_IF_ERROR(file.read_snapshot(layout));
  return std::move(file.snapshot_);
}

Result<SessionFile> SessionFile::open(const std::string& path, const RunnerInfo& info) {
  SessionFile file(path);
  std::string layout;
  COXSWAIN_RETURN_IF_ERROR(file.open_stream());
  COXSWAIN_RETURN_IF_ERROR(file.read_snapshot(layout));
  if (const std::string what = difference(layout, runner_text(info)); !what.empty())
    return file.bad(Code::kFailedPrecondition, "of another model or runner: " + what);
  for (const TokenId id : file.snapshot_.ids) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < info.vocab_size) continue;
    return file.bad(Code::kInvalidArgument,
                    "IDS: token id: found " + std::to_string(id) + ", expected one >= 0 and < " +
                        std::to_string(info.vocab_size));
  }
  COXSWAIN_RETURN_IF_ERROR(file.read_pieces(info));
  return file;
}

Status SessionFile::read_pieces(const RunnerInfo& info) {
  COXSWAIN_ASSIGN_OR_RETURN(Section section, next_section());
  while (section.tag == kBlocks) {
    COXSWAIN_RETURN_IF_ERROR(payload(section).status());
    images_.push_back(section);
    COXSWAIN_ASSIGN_OR_RETURN(section, next_section());
  }
  if (section.tag != kPieces)
    return bad(Code::kInvalidArgument, "found " + name_of_tag(section.tag) + ", expected PIEC");
  const std::size_t n_numbers = 2 + info.kv_groups.size();
  COXSWAIN_ASSIGN_OR_RETURN(const std::string numbers, payload(section));
  const bool none = images_.empty() && numbers.size() == 2 * sizeof(std::uint32_t);
  if (!none && numbers.size() != n_numbers * sizeof(std::uint32_t))
    return bad(Code::kInvalidArgument, "PIEC: of another number of KV groups");
  pieces_.n_blocks = raw_at<std::uint32_t>(numbers, 0);
  pieces_.piece_blocks = raw_at<std::uint32_t>(numbers, 4);
  for (std::size_t at = 8; at < numbers.size(); at += 4)
    pieces_.first_blocks.push_back(raw_at<std::uint32_t>(numbers, at));
  COXSWAIN_RETURN_IF_ERROR(check_images(info));
  COXSWAIN_RETURN_IF_ERROR(expect(kEnd, 0).status());
  if (static_cast<std::uint64_t>(in_.tellg()) != n_bytes_)
    return bad(Code::kInvalidArgument, "goes on behind its end");
  return {};
}

// What the file says of its blocks against what there is of them.
Status SessionFile::check_images(const RunnerInfo& info) const {
  const std::uint64_t n_tokens = std::uint64_t{pieces_.n_blocks} * info.block_tokens;
  if (n_tokens > snapshot_.ids.size()) {
    return bad(Code::kInvalidArgument,
               "PIEC: blocks: found " + std::to_string(pieces_.n_blocks) + ", expected at most " +
                   std::to_string(snapshot_.ids.size() / info.block_tokens) +
                   " for tokens=" + std::to_string(snapshot_.ids.size()));
  }
  if ((pieces_.n_blocks > 0 && pieces_.piece_blocks == 0) ||
      pieces_.piece_blocks > batch::BlockTransfers::kPieceBlocksMax ||
      pieces_.n_pieces() != images_.size()) {
    return bad(Code::kInvalidArgument,
               "PIEC: found " + std::to_string(images_.size()) + " pieces, expected " +
                   std::to_string(pieces_.n_blocks) + " blocks in pieces of " +
                   std::to_string(pieces_.piece_blocks));
  }
  const KvLayout layout = kv_layout_of(info);
  for (std::uint32_t i = 0; i < images_.size(); ++i) {
    const std::uint64_t bytes =
        blocks_attachment_bytes(layout, blocks_of_piece(pieces_, layout, i));
    if (images_[i].n_bytes != bytes) {
      return bad(Code::kInvalidArgument,
                 "BLKS " + std::to_string(i) + ": length: found " +
                     std::to_string(images_[i].n_bytes) + " bytes, expected " +
                     std::to_string(bytes));
    }
  }
  return {};
}

Result<std::string> SessionFile::piece(std::uint32_t index) {
  return payload(images_[index]);
}

}  // namespace coxswain::library
