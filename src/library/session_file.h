#pragma once
// SessionFile: a session on disk: its token ids, and the keys and values of those of its blocks that were cached.
//
// Little-endian. A head of 16 bytes: "CXSESSN\n", u32 version, u32 0. Then sections, in this order:
//
//   HEAD  text, a `name=value` a line: tokens, rope_length, model_id, model_fingerprint, kernel_set_id, dtype; then the
//         layout of the blocks (kv_layout.h)
//   SALT  the cache salt
//   IDS   int32 [tokens]
//   BLKS  any number: an attachment of kind kBlocks each
//   PIEC  u32: blocks, blocks of a piece, and for each KV group the first block behind those that
//         have left the window; before these are blocks of sink tokens
//   END   nothing: the file is whole
//
// A section is 32 bytes and its payload: u32 tag, u32 number of the section from 0, u64 bytes of the payload, u64 xxh3
// of the payload, u64 xxh3 of these 24 bytes.
//
// Nothing of a file is believed: lengths are compared with the file's before anything is read, and all checksums
// and numbers before a block is used. Errors name the file: kNotFound; kInvalidArgument: no session, another version,
// or a number that cannot be; kDataLoss: cut off, or a checksum; kFailedPrecondition: written by a runner whose blocks
// this one cannot use, with the first field that differs.
//
// Thread rule: one thread.

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "base/atomic_file.h"
#include "batch/prefix_copy.h"

namespace coxswain::library {

inline constexpr std::uint32_t kSessionFileVersion = 1;

// What a session is: with these the engine finds its blocks.
struct SessionSnapshot {
  std::vector<TokenId> ids = {};
  std::string cache_salt = {};
  std::uint32_t rope_length = 0;

  friend bool operator==(const SessionSnapshot&, const SessionSnapshot&) = default;
};

class SessionFileWriter {
 public:
  static Result<SessionFileWriter> create(const std::string& path,
                                          const RunnerInfo& info,
                                          const SessionSnapshot& snapshot,
                                          const base::FileCalls& calls = base::FileCalls::system());

  Status add_piece(std::string_view image);
  Status finish(const batch::PrefixPieces& pieces);

 private:
  explicit SessionFileWriter(base::AtomicFile file) : file_(std::move(file)) {}
  Status add(std::uint32_t tag, std::string_view payload);

  base::AtomicFile file_;
  std::uint32_t n_sections_ = 0;
};

class SessionFile {
 public:
  // The whole file, checked for a runner.
  static Result<SessionFile> open(const std::string& path, const RunnerInfo& info);
  // The ids of a file whose blocks are of no use: what stands behind the ids is not looked at.
  static Result<SessionSnapshot> read_ids(const std::string& path);

  const SessionSnapshot& snapshot() const { return snapshot_; }
  const batch::PrefixPieces& pieces() const { return pieces_; }
  // The image of a piece. Errors: kDataLoss: the file has changed since.
  Result<std::string> piece(std::uint32_t index);

 private:
  struct Section {
    std::uint32_t tag = 0;
    std::uint64_t begin = 0;
    std::uint64_t n_bytes = 0;
    std::uint64_t sum = 0;
  };
  explicit SessionFile(std::string path) : path_(std::move(path)) {}
  Status open_stream();
  Result<Section> next_section();
  Result<std::string> payload(const Section& section);
  // The next section, which must have this tag; at most so many bytes.
  Result<std::string> expect(std::uint32_t tag, std::uint64_t bytes_max);
  Status read_snapshot(std::string& layout);
  Status read_pieces(const RunnerInfo& info);
  Status check_images(const RunnerInfo& info) const;
  Status bad(Code code, const std::string& what) const;

  std::string path_;
  std::ifstream in_;
  std::uint64_t n_bytes_ = 0;
  std::uint32_t n_sections_ = 0;  // read so far
  SessionSnapshot snapshot_;
  batch::PrefixPieces pieces_;
  std::vector<Section> images_;
};

}  // namespace coxswain::library
