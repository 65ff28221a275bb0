#pragma once
// LOG_LEVEL as TGI takes it: a level, or directives `TARGET=LEVEL` separated by commas, where a level alone holds for
// all targets and a target alone means trace.
//
// Thread rule: pure function.

#include <string>
#include <string_view>

#include "telemetry/log.h"

namespace coxswain::serve {

struct LogLevel {
  telemetry::Level level = telemetry::Level::kInfo;
  // About a part that cannot be read and has no effect; empty if there is none.
  std::string warning;
};

// The level of the program whose log has the name `target`: that of the longest directive that `target` begins with,
// info if none does.
LogLevel log_level_of(std::string_view directives, std::string_view target);

// "info", as --logger-level takes it.
std::string_view name_of(telemetry::Level level);

}  // namespace coxswain::serve
