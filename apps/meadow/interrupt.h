// SIGINT and SIGTERM as values. Install before any thread starts.
// Thread rule: install() once from main; the rest from any thread.
#pragma once
#include "base/clock.h"

namespace meadow::apps {

class Interrupt {
 public:
  // Replaces the handlers of SIGINT and SIGTERM and ignores SIGPIPE.
  static void install();

  // Set by SIGINT and SIGTERM. reset() it to go on after a Ctrl-C.
  static CancelToken& token();
  // True once SIGTERM came: leave, do not only stop the answer.
  static bool terminated();

  // Blocks until a signal has come or `until` has; true if one has.
  static bool wait(TimePoint until);
  // Blocks until stdin can be read (true) or a signal has come (false).
  static bool wait_for_stdin();
};

}  // namespace meadow::apps
