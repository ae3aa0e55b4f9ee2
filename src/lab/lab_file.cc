#include "lab/lab_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <span>

namespace meadow::lab {
namespace {

// A finite number from the start of `text`, the rest is left there.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

struct Unit {
  std::string_view name;
  double factor;
};

template <size_t N>
std::optional<double> number_with_unit(std::string_view text, const Unit (&units)[N]) {
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  for (const Unit& unit : units)
    if (unit.name == text) return *number * unit.factor;
  // Nothing has no unit.
  if (text.empty() && *number == 0) return 0.0;
  return std::nullopt;
}

Result<uint64_t> parse_whole(std::string_view text, uint64_t least, uint64_t most) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    return fail(Code::kInvalidArgument, "\"{}\": expected a whole number from {} to {}", text,
                least, most);
  return value;
}

std::vector<std::string_view> words(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> out;
  while (true) {
    const size_t from = line.find_first_not_of(" \t\r");
    if (from == std::string_view::npos) return out;
    const size_t to = std::min(line.find_first_of(" \t\r", from), line.size());
    out.push_back(line.substr(from, to - from));
    line.remove_prefix(to);
  }
}

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

Result<void> check_name(std::string_view name) {
  if (good_name(name)) return {};
  return fail(Code::kInvalidArgument,
              "the name \"{}\": expected 1 to {} of a-z, 0-9 and -, not beginning with -", name,
              kMaxNameBytes);
}

struct Setting {
  std::string_view key, value;
};

Result<Setting> setting(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos)
    return fail(Code::kInvalidArgument, "\"{}\": expected key=value", word);
  return Setting{word.substr(0, equals), word.substr(equals + 1)};
}

Result<void> set_link(LinkShape& link, Setting s) {
  if (s.key == "rtt") {
    MEADOW_TRY(link.rtt, parse_duration(s.value));
  } else if (s.key == "jitter") {
    MEADOW_TRY(link.jitter, parse_duration(s.value));
  } else if (s.key == "loss") {
    MEADOW_TRY(link.loss, parse_probability(s.value));
  } else if (s.key == "rate") {
    MEADOW_TRY(link.rate, parse_rate(s.value));
  } else {
    return fail(Code::kInvalidArgument, "a link has no \"{}\": expected rtt, jitter, loss or rate",
                s.key);
  }
  return {};
}

Result<void> set_host(HostDescription& host, Setting s) {
  if (s.key == "region") {
    MEADOW_TRY_VOID(check_name(s.value));
    host.region = s.value;
  } else if (s.key == "rate") {
    MEADOW_TRY(host.up, parse_rate(s.value));
    host.down = host.up;
  } else if (s.key == "up") {
    MEADOW_TRY(host.up, parse_rate(s.value));
  } else if (s.key == "down") {
    MEADOW_TRY(host.down, parse_rate(s.value));
  } else {
    return fail(Code::kInvalidArgument, "a host has no \"{}\": expected region, rate, up or down",
                s.key);
  }
  return {};
}

class Parser {
 public:
  Result<void> line(std::string_view text) {
    const auto all = words(text);
    if (all.empty()) return {};
    const std::span<const std::string_view> rest = std::span(all).subspan(1);
    if (all[0] == "host") return host(rest);
    if (all[0] == "hosts") return hosts(rest);
    if (all[0] == "link") return link(rest);
    if (all[0] == "default") return settings(rest, file_.default_link, set_link);
    if (all[0] == "option") return option(rest);
    return fail(Code::kInvalidArgument,
                "\"{}\": expected host, hosts, link, default, option or a # comment", all[0]);
  }

  Result<LabFile> finish() {
    if (file_.hosts.empty()) return fail(Code::kInvalidArgument, "no host: a lab needs one");
    for (const LinkDescription& l : file_.links)
      for (const std::string& end : {l.a, l.b})
        if (!known(end))
          return fail(Code::kInvalidArgument, "a link names \"{}\", which is no host and no region",
                      end);
    return std::move(file_);
  }

 private:
  using Words = std::span<const std::string_view>;

  bool known(const std::string& name) const {
    return std::any_of(file_.hosts.begin(), file_.hosts.end(), [&](const HostDescription& h) {
      return h.name == name || h.region == name;
    });
  }

  template <class T>
  static Result<void> settings(Words rest, T& out, Result<void> (*set)(T&, Setting)) {
    for (std::string_view word : rest) {
      MEADOW_TRY(const Setting s, setting(word));
      MEADOW_TRY_VOID(set(out, s));
    }
    return {};
  }

  Result<void> add(HostDescription host) {
    MEADOW_TRY_VOID(check_name(host.name));
    if (file_.hosts.size() >= kMaxHosts)
      return fail(Code::kInvalidArgument, "more than {} hosts", kMaxHosts);
    // A name is unique among hosts; that a host is called like a region would make links ambiguous.
    for (const HostDescription& other : file_.hosts)
      if (other.name == host.name || other.region == host.name || other.name == host.region)
        return fail(Code::kInvalidArgument, "the name \"{}\" is taken",
                    other.name == host.region ? host.region : host.name);
    if (host.region == host.name)
      return fail(Code::kInvalidArgument, "the host \"{}\" is called like its region", host.name);
    file_.hosts.push_back(std::move(host));
    return {};
  }

  Result<void> host(Words rest) {
    if (rest.empty()) return fail(Code::kInvalidArgument, "expected: host NAME [key=value …]");
    HostDescription host{std::string(rest[0]), {}, 0, 0};
    MEADOW_TRY_VOID(settings(rest.subspan(1), host, set_host));
    return add(std::move(host));
  }

  Result<void> hosts(Words rest) {
    if (rest.size() < 2)
      return fail(Code::kInvalidArgument, "expected: hosts PREFIX COUNT [key=value …]");
    MEADOW_TRY(const uint64_t count, parse_whole(rest[1], 1, kMaxHosts));
    HostDescription host;
    MEADOW_TRY_VOID(settings(rest.subspan(2), host, set_host));
    for (uint64_t i = 1; i <= count; i++) {
      host.name = fmt::format("{}{}", rest[0], i);
      MEADOW_TRY_VOID(add(host));
    }
    return {};
  }

  Result<void> link(Words rest) {
    if (rest.size() < 2) return fail(Code::kInvalidArgument, "expected: link A B [key=value …]");
    if (file_.links.size() >= kMaxLinks)
      return fail(Code::kInvalidArgument, "more than {} links", kMaxLinks);
    for (std::string_view name : rest.first(2)) MEADOW_TRY_VOID(check_name(name));
    LinkDescription link{std::string(rest[0]), std::string(rest[1]), {}};
    MEADOW_TRY_VOID(settings(rest.subspan(2), link.shape, set_link));
    file_.links.push_back(std::move(link));
    return {};
  }

  Result<void> option(Words rest) {
    return settings(
        rest, file_, +[](LabFile& file, Setting s) -> Result<void> {
          if (s.key == "seed") {
            MEADOW_TRY(file.seed, parse_whole(s.value, 0, UINT64_MAX));
          } else if (s.key == "mtu") {
            MEADOW_TRY(const uint64_t mtu, parse_whole(s.value, 576, 65535));
            file.mtu = static_cast<int>(mtu);
          } else if (s.key == "queue") {
            MEADOW_TRY(file.queue_bytes, parse_whole(s.value, 65536, uint64_t{1} << 30));
          } else if (s.key == "congestion") {
            MEADOW_TRY_VOID(check_name(s.value));
            file.congestion = s.value;
          } else if (s.key == "offload" && (s.value == "on" || s.value == "off")) {
            file.offload = s.value == "on";
          } else {
            return fail(
                Code::kInvalidArgument,
                "\"{}={}\": expected seed=N, mtu=N, queue=BYTES, congestion=NAME or offload=on|off",
                s.key, s.value);
          }
          return {};
        });
  }

  LabFile file_;
};

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  static constexpr Unit kUnits[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  const auto value = number_with_unit(text, kUnits);
  if (!value || *value > seconds(kMaxRtt))
    return fail(Code::kInvalidArgument,
                "\"{}\": expected a time like 40ms, 250us or 1.5s, at most "
                "{} s",
                text, seconds(kMaxRtt));
  return from_seconds(*value);
}

Result<double> parse_rate(std::string_view text) {
  static constexpr Unit kUnits[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  if (text == "top") return 0.0;
  const auto value = number_with_unit(text, kUnits);
  if (!value || (*value != 0 && (*value < kMinRate || *value > kMaxRate)))
    return fail(Code::kInvalidArgument,
                "\"{}\": expected a rate like 100mbit, 1gbit or 56kbit, from 10kbit to 1000gbit, "
                "or top",
                text);
  return *value;
}

Result<double> parse_probability(std::string_view text) {
  static constexpr Unit kUnits[] = {{"", 1}, {"%", 0.01}};
  const auto value = number_with_unit(text, kUnits);
  if (!value || *value > 1)
    return fail(Code::kInvalidArgument, "\"{}\": expected a share like 0.5% or 0.005", text);
  return *value;
}

std::string rate_text(double bits_per_second) {
  if (bits_per_second <= 0) return "top";
  if (bits_per_second >= 1e9) return fmt::format("{:.3g} Gbit/s", bits_per_second / 1e9);
  if (bits_per_second >= 1e6) return fmt::format("{:.3g} Mbit/s", bits_per_second / 1e6);
  return fmt::format("{:.3g} kbit/s", bits_per_second / 1e3);
}

std::optional<size_t> LabFile::find(std::string_view name) const {
  for (size_t i = 0; i < hosts.size(); i++)
    if (hosts[i].name == name) return i;
  return std::nullopt;
}

LinkShape LabFile::link(size_t a, size_t b) const {
  // How closely a line's end fits a host: 2 by its name, 1 by its region.
  auto fit = [](const std::string& end, const HostDescription& host) {
    return end == host.name ? 2 : end == host.region ? 1 : 0;
  };
  int best = 0;
  LinkShape shape = default_link;
  for (const LinkDescription& l : links) {
    const int fits[2][2] = {{fit(l.a, hosts[a]), fit(l.b, hosts[b])},
                            {fit(l.a, hosts[b]), fit(l.b, hosts[a])}};
    for (const auto& [first, second] : fits) {
      if (first == 0 || second == 0 || first + second < best) continue;
      best = first + second;
      shape = l.shape;
    }
  }
  return shape;
}

Result<LabFile> parse_lab(std::string_view text) {
  if (text.size() > kMaxFileBytes)
    return fail(Code::kInvalidArgument, "{} bytes; a lab file has at most {}", text.size(),
                kMaxFileBytes);
  Parser parser;
  for (size_t number = 1; !text.empty(); number++) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (auto parsed = parser.line(text.substr(0, end)); !parsed)
      return fail(parsed.error().within(fmt::format("line {}", number)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.finish();
}

Result<LabFile> read_lab(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(Code::kNotFound, "cannot read the lab file {}", path);
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  auto file = parse_lab(text);
  if (!file) return fail(file.error().within(path));
  return file;
}

}  // namespace meadow::lab
