#include "router/request_log.h"

#include <chrono>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::router {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(RequestLog, DurationsHaveTheirUnit) {
  EXPECT_EQ(duration_text(nanoseconds(0)), "0ns");
  EXPECT_EQ(duration_text(nanoseconds(999)), "999ns");
  EXPECT_EQ(duration_text(nanoseconds(8'100)), "8.1us");
  EXPECT_EQ(duration_text(microseconds(37'512)), "37.512ms");
  EXPECT_EQ(duration_text(milliseconds(1'050)), "1.05s");
  EXPECT_EQ(duration_text(seconds(100)), "100s");
}

class RequestLogTest : public testing::Test {
 protected:
  RequestLogTest() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0); }
  ~RequestLogTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  std::string written() const {
    std::string out(1 << 14, '\0');
    const ssize_t n = read(ends_[0], out.data(), out.size());
    out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return out;
  }
  telemetry::LogOptions options(bool json) const {
    return {.json = json, .target = "router", .file_descriptor = ends_[1]};
  }

  int ends_[2] = {-1, -1};
  RequestRecord record_{"r1", "/generate", 5, 7, 42, 0, 0};
};

TEST_F(RequestLogTest, SuccessHasTheFieldsOfTheSpan) {
  telemetry::Logger log(options(false));
  log_success(log,
              record_,
              {milliseconds(20),
               microseconds(300),
               microseconds(40),
               milliseconds(19),
               nanoseconds(2'714'285)});
  EXPECT_THAT(written(),
              HasSubstr("INFO router: Success request_id=r1 path=/generate total_time=20ms "
                        "validation_time=300us queue_time=40us inference_time=19ms "
                        "time_per_token=2.714ms seed=42 prompt_tokens=5 generated_tokens=7\n"));
}

TEST_F(RequestLogTest, DraftsAreToldWhereThereWereSome) {
  telemetry::Logger log(options(false));
  record_.draft_tokens = 9;
  record_.draft_tokens_accepted = 6;
  log_success(log, record_, {});
  EXPECT_THAT(written(), HasSubstr("generated_tokens=7 draft_tokens=9 draft_tokens_accepted=6\n"));
}

TEST_F(RequestLogTest, JsonHasThemAsMembers) {
  telemetry::Logger log(options(true));
  record_.seed.reset();
  log_success(log, record_, {});
  EXPECT_THAT(written(),
              HasSubstr(R"("message":"Success","request_id":"r1","path":"/generate",)"
                        R"("total_time":"0ns",)"));
  log_success(log, record_, {});
  EXPECT_THAT(written(), HasSubstr(R"("seed":"None","prompt_tokens":5,"generated_tokens":7})"));
}

TEST_F(RequestLogTest, TheLevelSaysWhoseFaultItIs) {
  telemetry::Logger log(options(false));
  log_failure(log, record_, {Code::kDataLoss, ErrorKind::kGeneration, "boom"});
  EXPECT_THAT(written(),
              HasSubstr("ERROR router: Request failed during generation: boom request_id=r1 "
                        "path=/generate error_type=generation\n"));
  log_failure(log, record_, invalid_argument("`top_k` must be strictly positive", "top_k"));
  EXPECT_THAT(written(), HasSubstr("INFO router: Input validation error: `top_k`"));
  log_failure(log, record_, {Code::kCancelled, "x"});
  EXPECT_THAT(written(),
              HasSubstr("INFO router: the client is gone request_id=r1 path=/generate "
                        "error_type=cancelled\n"));
}

TEST_F(RequestLogTest, ManyRefusalsOfAKindAreOneLine) {
  telemetry::Logger log(options(false));
  for (int i = 0; i < 100; ++i) log_refusal(log, record_, {Code::kResourceExhausted, "full"});
  EXPECT_THAT(written(),
              AllOf(HasSubstr("WARN router: Model is overloaded request_id=r1 path=/generate "
                              "error_type=overloaded\n"),
                    testing::ContainsRegex("^[^\n]*\n$")));
  log_refusal(log, record_, invalid_argument("x"));
  EXPECT_THAT(written(), HasSubstr("error_type=validation"));
}

}  // namespace
}  // namespace coxswain::router
