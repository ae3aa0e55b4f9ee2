// Lists of peers that a user allows or refuses, each by id or by the beginning of an id.
// Thread rule: values; any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace meadow::swarm {

class PeerFilter {
 public:
  // `allowed` empty: everybody. Refusing wins. Each text is 8 to 64 hexadecimal digits, the
  // beginning of a peer id; kInvalidArgument names one that is not.
  static Result<PeerFilter> from(const std::vector<std::string>& allowed,
                                 const std::vector<std::string>& refused);

  bool passes(const PeerId& id) const;
  bool passes_all() const { return allowed_.empty() && refused_.empty(); }

 private:
  struct Prefix {
    PeerId id;          // zeros behind the prefix
    size_t digits = 0;  // that count
    bool matches(const PeerId& other) const;
  };
  static Result<Prefix> parse(std::string_view text);

  std::vector<Prefix> allowed_, refused_;
};

}  // namespace meadow::swarm
