// The search behind find_route(): exact, and quick enough for ten thousand servers.
// Algorithm: shortest path over states (server, border), border by border, with a lower bound of
// what remains from a backward pass over the same states in which ways between servers cost the
// least that they can (A*, Hart, Nilsson and Raphael 1968); states that cannot beat the chain which
// that pass suggests are dropped. Thread rule: one thread; for one search. Borrows servers and
// request.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "swarm/routing.h"

namespace meadow::swarm {

class RouteSearch {
 public:
  // Servers that may be used; ids are distinct. `all` is where neighbours are looked up.
  RouteSearch(std::vector<const ServerInfo*> servers, std::span<const ServerInfo> all,
              const RouteRequest& request);

  // Nothing if some block has no server.
  std::optional<Route> run();

 private:
  // A server's part in the search.
  struct Candidate {
    const ServerInfo* info;
    int32_t lo, hi;  // borders: blocks it can do, clipped to the request
    double block;    // seconds for one
    double entry;    // seconds for entering it, without the way
    double half;     // of the client's round trip
    double leave;    // least way from it to another server
    size_t state;    // of (server, lo)
  };
  // A way to have done all blocks before a border, the last of them at `server`.
  struct Node {
    double cost;
    int32_t hops;
    uint32_t server;
    int32_t before;  // node that it came from; -1: none, the client
    bool entered;    // by a hop; else from the block before at the same server
    int32_t border;
  };
  struct Way {  // an announced link
    uint32_t to;
    float seconds;
  };
  struct Best {
    double cost;
    int32_t hops;
    int32_t before;
    bool entered;
  };

  void list_by_border();
  void bound_what_remains();
  double first_way(const Candidate& to) const;
  double last_way(const Candidate& from) const;
  double bound_of_chain() const;
  double remaining(uint32_t server, int32_t border) const {
    const Candidate& c = servers_[server];
    return remaining_[c.state + static_cast<size_t>(border - c.lo)];
  }
  bool better(const Best& a, const Best& b) const;
  int32_t search(size_t width, double margin);
  void narrow(size_t width);
  std::span<const uint32_t> worth_entering(int32_t border, double& most);
  void enter_all(int32_t border);
  void offer_links(int32_t border);
  void sort_arrivals();
  Best entry_from_arrivals(uint32_t to);
  std::span<const Way> links_of(uint32_t server);
  bool linked(uint32_t from, uint32_t to);
  uint32_t index_of(const PeerId& id);
  void add_node(uint32_t server, int32_t border, const Best& best);
  Route route_to(int32_t node, double cost) const;

  const RouteRequest& request_;
  const ServerInfo* previous_ = nullptr;
  const ServerInfo* next_ = nullptr;
  int32_t first_, last_;
  std::vector<Candidate> servers_;
  std::vector<uint32_t> holders_;      // by block, one after another
  std::vector<size_t> holders_begin_;  // of block first_ + i
  std::vector<double> remaining_;      // at least, by state
  std::vector<double> enter_;          // least from a border on, the entered server's part included
  std::vector<uint32_t> enter_by_;     // and who it would be
  std::vector<uint32_t> near_;      // holders whose total is near the least, from the last border
  std::vector<size_t> near_begin_;  // of border first_ + i
  double bound_ = 0;                // cost of a chain that exists
  double cost_ = 0;                 // of what search() found
  double margin_ = 0;               // how much worse than the best of a border a state may be

  std::vector<Node> nodes_;
  std::vector<int32_t> arrivals_, next_arrivals_;     // nodes at this border, at the next
  std::vector<int32_t> by_cost_, by_client_;          // arrivals, cheapest first
  std::vector<Best> offered_;                         // by server, over announced links
  std::vector<int32_t> offered_at_;                   // border of the offer
  std::vector<uint32_t> offers_;                      // who has one at this border
  std::vector<uint32_t> chosen_;                      // looked at by a narrow search
  std::vector<int32_t> chosen_at_;                    // border of that, by server
  std::vector<int32_t> stay_;                         // arrival at this border, by server; -1: none
  std::vector<Way> ways_;                             // announced links, resolved when asked for
  std::vector<std::pair<uint32_t, uint32_t>> links_;  // by server: its part of ways_
  std::vector<std::pair<uint64_t, uint32_t>> table_;  // open addressing: head of an id, server
};

}  // namespace meadow::swarm
