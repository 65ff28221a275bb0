#include "serve/doctor.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/port_lease.h"

namespace coxswain::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Level = Finding::Level;

class Doctor : public ::testing::Test {
 protected:
  Doctor() { std::filesystem::create_directories(folder_ / "sys/kernel/mm/transparent_hugepage"); }
  ~Doctor() override { std::filesystem::remove_all(folder_); }
  Doctor(const Doctor&) = delete;
  Doctor& operator=(const Doctor&) = delete;

  std::vector<Finding> find(std::initializer_list<std::string> arguments,
                            const std::filesystem::path& root = "/") const {
    std::vector<const char*> argv{"doctor"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    const auto parsed =
        options::parse(options::Binary::kLauncher, static_cast<int>(argv.size()), argv.data(), {});
    EXPECT_EQ(parsed.exit_code, std::nullopt) << parsed.output;
    return examine(parsed.values,
                   {.program_folder = folder_.string(), .root = root, .measures_bandwidth = false});
  }
  static Finding named(const std::vector<Finding>& findings, std::string_view name) {
    const auto found = std::ranges::find(findings, name, &Finding::name);
    EXPECT_NE(found, findings.end()) << name;
    return found == findings.end() ? Finding{} : *found;
  }
  Finding one(std::string_view name, std::initializer_list<std::string> arguments) const {
    return named(find(arguments), name);
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("doctor-") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Doctor, FindsWhatTheMachineHas) {
  const auto findings = find({"--port=0", "--hostname=127.0.0.1"});
  EXPECT_FALSE(any_fails(findings)) << text_of(findings);
  EXPECT_THAT(named(findings, "cores").text, HasSubstr(" cores to use; "));
  EXPECT_THAT(named(findings, "memory").text, HasSubstr(" GiB to take"));
  EXPECT_THAT(named(findings, "--port").text, StartsWith("127.0.0.1 "));
  EXPECT_THAT(text_of(findings), HasSubstr("\nok    sockets         a private folder below "));
}

TEST_F(Doctor, ReadsTheKernelsFiles) {
  const std::filesystem::path pages = folder_ / "sys/kernel/mm/transparent_hugepage/enabled";
  EXPECT_EQ(named(find({"--port=0"}, folder_), "huge pages").level, Level::kWarn);
  std::ofstream(pages) << "always madvise [never]\n";
  const Finding never = named(find({"--port=0"}, folder_), "huge pages");
  EXPECT_EQ(never.level, Level::kWarn);
  EXPECT_THAT(never.cure, HasSubstr("echo madvise"));
  std::ofstream(pages) << "always [madvise] never\n";
  EXPECT_EQ(named(find({"--port=0"}, folder_), "huge pages").level, Level::kOk);
  // Without /proc nobody knows of memory.
  const Finding memory = named(find({"--port=0"}, folder_), "memory");
  EXPECT_EQ(memory.level, Level::kFail);
  EXPECT_EQ(memory.cure, "Set --memory-bytes-max.");
}

TEST_F(Doctor, AskedForTooMuch) {
  EXPECT_EQ(one("memory", {"--memory-bytes-max=1000TB"}).level, Level::kFail);
  EXPECT_EQ(one("cores", {"--threads=4000"}).level, Level::kWarn);
  EXPECT_EQ(one("open files", {"--connections-max=1000000"}).level, Level::kWarn);
  const Finding options = one("options", {"--max-input-tokens=9", "--max-total-tokens=8"});
  EXPECT_THAT(options.text, HasSubstr("`max_input_tokens`(9)"));
}

TEST_F(Doctor, FilesThatAStartWouldRefuse) {
  for (const char* option : {"--api-keys-path", "--tokenizer-config-path"}) {
    const Finding files = one("files", {"--port=0", option + std::string("=/none.json")});
    EXPECT_EQ(files.level, Level::kFail);
    EXPECT_THAT(files.text, HasSubstr("/none.json"));
  }
  const std::string keys = (folder_ / "keys.json").string();
  std::ofstream(keys) << R"([{"name":"a","key":"k","rate":1}])";
  const Finding wrong = one("files", {"--port=0", "--api-keys-path=" + keys});
  EXPECT_EQ(wrong.level, Level::kFail);
  EXPECT_THAT(wrong.text, HasSubstr("`[0].rate` is no member of a key"));
}

TEST_F(Doctor, APortThatIsTaken) {
  const auto taken = PortLease::take("127.0.0.1", 0, "--port");
  ASSERT_TRUE(taken.ok());
  const Finding port =
      one("--port", {"--hostname=127.0.0.1", "--port=" + std::to_string(taken->port())});
  EXPECT_EQ(port.level, Level::kFail);
  EXPECT_FALSE(port.cure.empty());
}

TEST_F(Doctor, APortThatAnybodyMayUse) {
  EXPECT_EQ(one("--port", {"--port=0"}).level, Level::kWarn);
  EXPECT_EQ(one("--port", {"--port=0", "--api-key=k"}).level, Level::kOk);
  EXPECT_EQ(one("--port", {"--port=0", "--api-keys-path=/keys.json"}).level, Level::kOk);
  EXPECT_EQ(one("--port", {"--port=0", "--hostname=localhost"}).level, Level::kOk);
}

TEST_F(Doctor, FoldersThatAreNotThereYetAreMade) {
  EXPECT_EQ(one("--kv-spill-path", {"--kv-spill-path=" + (folder_ / "a/b").string()}).level,
            Level::kOk);
  EXPECT_EQ(one("--kv-spill-path",
                {"--kv-spill-path=" + folder_.string(), "--kv-spill-bytes-max=1000000TB"})
                .level,
            Level::kWarn);
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(
      one("--weights-cache-dir", {"--weights-cache-dir=" + (folder_ / "file/a").string()}).level,
      Level::kFail);
}

TEST_F(Doctor, AModelThatIsNotThere) {
  const Finding absent = one("model", {"--model-id=" + (folder_ / "none").string()});
  EXPECT_EQ(absent.level, Level::kFail);
  EXPECT_THAT(absent.text, HasSubstr("none"));
  const auto hub = find({"--model-id=org/none", "--huggingface-hub-cache=" + folder_.string()});
  EXPECT_EQ(named(hub, "model").level, Level::kWarn);
  EXPECT_EQ(named(hub, "model").cure, "coxswain pull org/none brings it.");
  EXPECT_EQ(named(hub, "hub cache").level, Level::kOk);
}

TEST_F(Doctor, AsksTheServerForThePlan) {
  const std::filesystem::path model = folder_ / "model";
  std::filesystem::create_directories(model);
  std::ofstream(model / "config.json") << "{}";
  std::ofstream(model / "tokenizer.json") << "{}";
  std::ofstream(model / "model.safetensors") << "12345678";
  const std::string program = (folder_ / "text-generation-server").string();
  const auto answer = [&](const std::string& script) {
    std::ofstream(program) << "#!/bin/sh\n" + script;
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return find({"--model-id=" + model.string(), "--replicas=2", "--memory-bytes-max=2000"});
  };
  const auto good = answer("echo \"memory   $*\"\n");
  EXPECT_EQ(named(good, "model").text, model.string() + ": 1 safetensors files, 0.00 GiB");
  EXPECT_EQ(named(good, "memory plan").level, Level::kOk);
  EXPECT_THAT(named(good, "memory plan").text, StartsWith("serve " + model.string() + " --plan "));
  EXPECT_THAT(named(good, "memory plan").text, HasSubstr(" --memory-bytes-max=1000"));
  const Finding bad = named(answer("echo noise; echo 'Error: ShardCannotStart(\"too large\")' >&2\n"
                                   "echo 'Take less.' >&2; exit 1\n"),
                            "memory plan");
  EXPECT_EQ(bad.level, Level::kFail);
  EXPECT_EQ(bad.text, "too large");
  EXPECT_EQ(bad.cure, "Take less.");
}

}  // namespace
}  // namespace coxswain::serve
