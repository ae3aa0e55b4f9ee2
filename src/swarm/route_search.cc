#include "swarm/route_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "swarm/route_costs.h"

namespace meadow::swarm {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr uint32_t kNobody = UINT32_MAX;
// Sums of the same terms in another order differ in the last bits.
constexpr double kSlack = 1e-9;

const ServerInfo* find(std::span<const ServerInfo> servers, const std::optional<PeerId>& id) {
  if (!id) return nullptr;
  for (const ServerInfo& s : servers)
    if (s.peer.id == *id) return &s;
  return nullptr;
}

}  // namespace

RouteSearch::RouteSearch(std::vector<const ServerInfo*> servers, std::span<const ServerInfo> all,
                         const RouteRequest& request)
    : request_(request),
      previous_(find(all, request.previous)),
      next_(find(all, request.next)),
      first_(request.blocks.first),
      last_(request.blocks.last) {
  double nearest = kNever;
  size_t states = 0;
  for (const ServerInfo* s : servers) {
    const int32_t lo = std::max(s->lease.blocks.first, first_);
    const int32_t hi = std::min(s->lease.blocks.last, last_);
    if (lo >= hi) continue;
    const double half = half_rtt(*s, request.costs);
    servers_.push_back(
        {s, lo, hi, seconds_per_block(*s, request), entry_seconds(*s, request), half, 0, states});
    states += static_cast<size_t>(hi - lo) + 1;
    nearest = std::min(nearest, half);
  }
  // Servers announce the nearest first: in a large swarm, where nothing is exact, that one is
  // enough.
  const size_t looked_at = !request.push ? 0 : states > request.exact_up_to ? 1 : kMaxLinks;
  for (Candidate& c : servers_) {
    c.leave = assumed_link(c.half, nearest, request);
    const auto& links = c.info->lease.links;
    for (size_t i = 0; i < std::min(looked_at, links.size()); i++)
      c.leave = std::min(c.leave, static_cast<double>(links[i].rtt_seconds) / 2);
  }
  remaining_.assign(states, kNever);
}

void RouteSearch::list_by_border() {
  std::vector<size_t> count(static_cast<size_t>(last_ - first_) + 1);
  for (const Candidate& c : servers_)
    for (int32_t b = c.lo; b < c.hi; b++) count[static_cast<size_t>(b - first_) + 1]++;
  for (size_t i = 1; i < count.size(); i++) count[i] += count[i - 1];
  holders_begin_ = count;
  holders_.resize(count.back());
  for (uint32_t s = 0; s < servers_.size(); s++)
    for (int32_t b = servers_[s].lo; b < servers_[s].hi; b++)
      holders_[count[static_cast<size_t>(b - first_)]++] = s;
}

// From the last border to the first: the least that can remain, ways between servers being as short
// as any that the left server has.
void RouteSearch::bound_what_remains() {
  enter_.assign(static_cast<size_t>(last_ - first_) + 1, kNever);
  enter_by_.assign(enter_.size(), kNobody);
  for (Candidate& c : servers_)
    if (c.hi == last_) remaining_[c.state + static_cast<size_t>(c.hi - c.lo)] = last_way(c);
  near_begin_.assign(enter_.size() + 1, 0);
  std::vector<double> whole;  // entry and all that remains, by holder
  for (int32_t b = last_ - 1; b >= first_; b--) {
    const size_t at = static_cast<size_t>(b - first_);
    whole.clear();
    for (size_t i = holders_begin_[at]; i < holders_begin_[at + 1]; i++) {
      const Candidate& c = servers_[holders_[i]];
      const size_t state = c.state + static_cast<size_t>(b - c.lo);
      // remaining_ of a border inside the span: by going on here, or by leaving.
      double after = remaining_[state + 1];
      if (b + 1 < last_) after = std::min(after, c.leave + enter_[at + 1]);
      remaining_[state] = c.block + after;
      whole.push_back(c.entry + remaining_[state]);
      if (whole.back() < enter_[at]) {
        enter_[at] = whole.back();
        enter_by_[at] = holders_[i];
      }
    }
    near_begin_[at] = near_.size();
    const double most = enter_[at] + request_.costs.assumed_rtt_seconds / 2;
    for (size_t i = 0; i < whole.size(); i++)
      if (whole[i] <= most) near_.push_back(holders_[holders_begin_[at] + i]);
  }
}

double RouteSearch::first_way(const Candidate& to) const {
  return previous_ != nullptr ? link_seconds(*previous_, *to.info, request_) : to.half;
}

double RouteSearch::last_way(const Candidate& from) const {
  return next_ != nullptr ? link_seconds(*from.info, *next_, request_) : from.half;
}

// What the chain costs that the backward pass would take.
double RouteSearch::bound_of_chain() const {
  double cost = 0;
  const Candidate* before = nullptr;
  for (int32_t b = first_; b < last_;) {
    const uint32_t who = enter_by_[static_cast<size_t>(b - first_)];
    if (who == kNobody) return kNever;
    const Candidate& c = servers_[who];
    cost += (before ? link_seconds(*before->info, *c.info, request_) : first_way(c)) + c.entry;
    for (bool here = true; here;) {
      b++;
      cost += c.block;
      const double on = b < c.hi ? remaining(who, b) : kNever;
      here = b < last_ && on <= c.leave + enter_[static_cast<size_t>(b - first_)];
    }
    before = &c;
  }
  return cost + last_way(*before);
}

bool RouteSearch::better(const Best& a, const Best& b) const {
  if (a.cost != b.cost) return a.cost < b.cost;
  if (a.hops != b.hops) return a.hops < b.hops;
  if (a.before < 0 || b.before < 0 || a.before == b.before) return false;
  const auto id = [&](int32_t node) -> const PeerId& {
    return servers_[nodes_[static_cast<size_t>(node)].server].info->peer.id;
  };
  return id(a.before) < id(b.before);
}

void RouteSearch::add_node(uint32_t server, int32_t border, const Best& best) {
  next_arrivals_.push_back(static_cast<int32_t>(nodes_.size()));
  nodes_.push_back({best.cost, best.hops, server, best.before, best.entered, border});
}

uint32_t RouteSearch::index_of(const PeerId& id) {
  const auto head_of = [](const PeerId& peer) {
    uint64_t head;  // ids are digests: any part of them is a hash
    std::memcpy(&head, peer.bytes.data(), sizeof head);
    return head;
  };
  if (table_.empty()) {
    table_.assign(std::bit_ceil(servers_.size() * 2 + 1), {0, kNobody});
    for (uint32_t s = 0; s < servers_.size(); s++) {
      const uint64_t head = head_of(servers_[s].info->peer.id);
      size_t at = head & (table_.size() - 1);
      while (table_[at].second != kNobody) at = (at + 1) & (table_.size() - 1);
      table_[at] = {head, s};
    }
  }
  const uint64_t head = head_of(id);
  for (size_t at = head & (table_.size() - 1); table_[at].second != kNobody;
       at = (at + 1) & (table_.size() - 1))
    if (table_[at].first == head && servers_[table_[at].second].info->peer.id == id)
      return table_[at].second;
  return kNobody;
}

// Announced links of a server to others of this search, in order of the others' numbers.
std::span<const RouteSearch::Way> RouteSearch::links_of(uint32_t server) {
  auto& [begin, end] = links_[server];
  if (begin == kNobody) {
    begin = end = static_cast<uint32_t>(ways_.size());
    if (request_.push)
      for (const Link& link : servers_[server].info->lease.links)
        if (const uint32_t to = index_of(link.peer); to != kNobody && to != server)
          ways_.push_back({to, link.rtt_seconds / 2});
    end = static_cast<uint32_t>(ways_.size());
    std::sort(ways_.begin() + begin, ways_.begin() + end,
              [](const Way& a, const Way& b) { return a.to < b.to; });
  }
  return std::span(ways_).subspan(begin, end - begin);
}

bool RouteSearch::linked(uint32_t from, uint32_t to) {
  const auto links = links_of(from);
  const auto it = std::lower_bound(links.begin(), links.end(), to,
                                   [](const Way& way, uint32_t t) { return way.to < t; });
  return it != links.end() && it->to == to;
}

// Hops over announced links, from every arrival at this border.
void RouteSearch::offer_links(int32_t border) {
  offers_.clear();
  for (const int32_t number : arrivals_) {
    const Node& node = nodes_[static_cast<size_t>(number)];
    for (const auto& [to, seconds] : links_of(node.server)) {
      const Candidate& c = servers_[to];
      if (border < c.lo || border >= c.hi) continue;
      const Best offer{node.cost + static_cast<double>(seconds) + c.entry, node.hops + 1, number,
                       true};
      if (offer.cost + remaining(to, border) > bound_) continue;
      if (offered_at_[to] == border && !better(offer, offered_[to])) continue;
      if (offered_at_[to] != border) offers_.push_back(to);
      offered_[to] = offer;
      offered_at_[to] = border;
    }
  }
}

void RouteSearch::sort_arrivals() {
  const auto order = [&](std::vector<int32_t>& list, auto cost) {
    list = arrivals_;
    std::sort(list.begin(), list.end(), [&](int32_t a, int32_t b) {
      const Node &x = nodes_[static_cast<size_t>(a)], &y = nodes_[static_cast<size_t>(b)];
      const double ca = cost(x), cb = cost(y);
      if (ca != cb) return ca < cb;
      if (x.hops != y.hops) return x.hops < y.hops;
      return servers_[x.server].info->peer.id < servers_[y.server].info->peer.id;
    });
  };
  order(by_cost_, [](const Node& n) { return n.cost; });
  order(by_client_, [&](const Node& n) { return n.cost + servers_[n.server].half; });
}

// The best hop to `to` over ways that nobody announced: the cheapest arrival by each of the two
// prices of such a way, links that are known passed over.
RouteSearch::Best RouteSearch::entry_from_arrivals(uint32_t to) {
  const Candidate& c = servers_[to];
  Best best{kNever, 0, -1, true};
  for (const auto* list : {&by_cost_, &by_client_})
    for (const int32_t number : *list) {
      const Node& node = nodes_[static_cast<size_t>(number)];
      if (node.server == to || linked(node.server, to)) continue;
      const double way = assumed_link(servers_[node.server].half, c.half, request_);
      const Best offer{node.cost + way + c.entry, node.hops + 1, number, true};
      if (best.before < 0 || better(offer, best)) best = offer;
      break;
    }
  return best;
}

// Whom to look at for the block behind a border: everybody who holds it; in a narrow search those
// that are there or linked, and the nearest others. Cheapest total that is worth a state in `most`.
std::span<const uint32_t> RouteSearch::worth_entering(int32_t border, double& most) {
  const size_t at = static_cast<size_t>(border - first_);
  const std::span<const uint32_t> all =
      std::span(holders_).subspan(holders_begin_[at], holders_begin_[at + 1] - holders_begin_[at]);
  most = bound_;
  if (margin_ == kNever || border == first_) return all;
  chosen_.clear();
  const auto choose = [&](uint32_t s) {
    if (chosen_at_[s] == border) return;
    chosen_at_[s] = border;
    chosen_.push_back(s);
  };
  for (const uint32_t s : offers_) {
    choose(s);
    most = std::min(most, offered_[s].cost + remaining(s, border) + margin_);
  }
  for (const int32_t number : arrivals_) {
    const Node& n = nodes_[static_cast<size_t>(number)];
    if (border >= servers_[n.server].hi) continue;
    choose(n.server);
    most = std::min(most, n.cost + remaining(n.server, border) + margin_);
  }
  // near_ was filled from the last border to the first
  for (size_t i = near_begin_[at]; i < (at == 0 ? near_.size() : near_begin_[at - 1]); i++)
    choose(near_[i]);
  return chosen_;
}

// All states of the next border, from those of this one.
void RouteSearch::enter_all(int32_t border) {
  double least = kNever;
  for (const int32_t number : arrivals_) {
    const Node& n = nodes_[static_cast<size_t>(number)];
    least = std::min(least, n.cost + servers_[n.server].leave);
    if (border < servers_[n.server].hi) stay_[n.server] = number;
  }
  double most = 0;
  for (const uint32_t s : worth_entering(border, most)) {
    const Candidate& c = servers_[s];
    const double rest = remaining(s, border);
    Best best{kNever, 0, -1, true};
    if (border == first_) {
      best.cost = first_way(c) + c.entry;
      best.hops = 1;
    } else if (least + c.entry + rest <= most) {
      best = entry_from_arrivals(s);
      if (offered_at_[s] == border && (best.before < 0 || better(offered_[s], best)))
        best = offered_[s];
    }
    if (const int32_t stay = std::exchange(stay_[s], -1); stay >= 0) {
      const Node& n = nodes_[static_cast<size_t>(stay)];
      const Best on{n.cost, n.hops, stay, false};
      if (best.cost == kNever || !better(best, on)) best = on;
    }
    if (best.cost + rest > most) continue;
    best.cost += c.block;
    add_node(s, border + 1, best);
  }
}

// Border by border; keeps at most `width` states of each, those that promise most. The last node of
// the best chain, -1 if there is none; its cost in cost_.
int32_t RouteSearch::search(size_t width, double margin) {
  nodes_.clear();
  arrivals_.clear();
  margin_ = margin;
  std::fill(offered_at_.begin(), offered_at_.end(), -1);
  std::fill(chosen_at_.begin(), chosen_at_.end(), -1);
  for (int32_t border = first_; border < last_; border++) {
    if (border > first_) {
      offer_links(border);
      sort_arrivals();
    }
    next_arrivals_.clear();
    enter_all(border);
    std::swap(arrivals_, next_arrivals_);
    if (arrivals_.size() > width) narrow(width);
  }
  int32_t best = -1;
  for (const int32_t number : arrivals_) {
    const Node& n = nodes_[static_cast<size_t>(number)];
    const double all = n.cost + last_way(servers_[n.server]);
    const auto key = [&](int32_t node, double c) {
      const Node& x = nodes_[static_cast<size_t>(node)];
      return std::tuple(c, x.hops, servers_[x.server].info->peer.id);
    };
    if (best >= 0 && key(number, all) >= key(best, cost_)) continue;
    best = number;
    cost_ = all;
  }
  return best;
}

void RouteSearch::narrow(size_t width) {
  const auto promise = [&](int32_t number) {
    const Node& n = nodes_[static_cast<size_t>(number)];
    const Candidate& c = servers_[n.server];
    const double after =
        n.border < last_ ? c.leave + enter_[static_cast<size_t>(n.border - first_)] : 0;
    return n.cost + std::min(after, remaining(n.server, n.border));
  };
  std::nth_element(arrivals_.begin(), arrivals_.begin() + static_cast<ptrdiff_t>(width),
                   arrivals_.end(), [&](int32_t a, int32_t b) { return promise(a) < promise(b); });
  arrivals_.resize(width);
}

std::optional<Route> RouteSearch::run() {
  list_by_border();
  for (size_t i = 0; i + 1 < holders_begin_.size(); i++)
    if (holders_begin_[i] == holders_begin_[i + 1]) return std::nullopt;
  bound_what_remains();
  bound_ = bound_of_chain() * (1 + kSlack) + kSlack;
  offered_.resize(servers_.size());
  offered_at_.assign(servers_.size(), -1);
  chosen_at_.resize(servers_.size());
  stay_.assign(servers_.size(), -1);
  links_.assign(servers_.size(), {kNobody, kNobody});
  // A narrow search first: what it finds bounds the exact one, or, in a large swarm, is good
  // enough.
  const double margin = request_.costs.assumed_rtt_seconds / 2;
  int32_t best = search(24, margin);
  if (best >= 0 && remaining_.size() > request_.exact_up_to) return route_to(best, cost_);
  if (best >= 0) bound_ = std::min(bound_, cost_ * (1 + kSlack) + kSlack);
  best = search(SIZE_MAX, kNever);
  if (best < 0) return std::nullopt;
  return route_to(best, cost_);
}

Route RouteSearch::route_to(int32_t node, double cost) const {
  Route route;
  route.seconds_per_step = cost;
  int32_t end = last_;
  for (int32_t at = node; at >= 0;) {
    const Node& n = nodes_[static_cast<size_t>(at)];
    if (n.entered) {
      route.chain.push_back({servers_[n.server].info->peer, {n.border - 1, end}});
      end = n.border - 1;
    }
    at = n.before;
  }
  std::reverse(route.chain.begin(), route.chain.end());
  return route;
}

}  // namespace meadow::swarm
