#include "swarm/dht/dht_rendezvous.h"

#include <algorithm>
#include <condition_variable>
#include <libtorrent/alert_types.hpp>
#include <libtorrent/session.hpp>
#include <libtorrent/session_params.hpp>
#include <libtorrent/settings_pack.hpp>
#include <list>
#include <mutex>
#include <set>
#include <thread>

#include "base/bytes.h"
#include "swarm/address.h"

namespace meadow::swarm::dht {
namespace {

constexpr Duration kListenLimit = 5s;
// Nodes keep what is stored for about half an hour; the first ones may be stored with few nodes.
constexpr int kEagerAnnouncements = 3;
constexpr Duration kAnnouncePeriod = 300s;
constexpr Duration kLookAgain = 500ms;  // while a meeting has found nobody
constexpr Duration kUnreachableAfter = 10s;
constexpr size_t kMaxMeetings = 16;  // lookups under way
constexpr size_t kFewNodes = 8;
constexpr size_t kMaxFound = 64;  // addresses of one meeting
// The bootstrap nodes that libtorrent and BitTorrent run.
constexpr char kPublicNodes[] = "dht.libtorrent.org:25401,router.bittorrent.com:6881";

// Another hash than what bootstrap peers are asked for: a node that stores it learns nothing that
// it could use elsewhere.
lt::sha1_hash hash_of(const Digest& key) {
  Sha256 hash;
  hash.update("meadow dht 1:");
  hash.update(ByteView(key.bytes));
  const Digest digest = hash.finish();
  return lt::sha1_hash(reinterpret_cast<const char*>(digest.bytes.data()));
}

std::string text_of(const lt::tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", host, endpoint.port())
                                    : fmt::format("{}:{}", host, endpoint.port());
}

lt::settings_pack settings_of(const DhtOptions& options) {
  lt::settings_pack out;
  // Nodes named here are asked, but never become part of the table that lookups begin with; those
  // of the options, which may be the only ones, are added as ordinary nodes (call_nodes()).
  out.set_str(lt::settings_pack::dht_bootstrap_nodes, options.public_dht ? kPublicNodes : "");
  out.set_str(lt::settings_pack::listen_interfaces, options.listen);
  out.set_str(lt::settings_pack::user_agent, "meadow");
  out.set_int(lt::settings_pack::alert_mask,
              lt::alert_category::dht | lt::alert_category::dht_operation |
                  lt::alert_category::port_mapping | lt::alert_category::status |
                  lt::alert_category::error);
  out.set_bool(lt::settings_pack::enable_dht, true);
  out.set_bool(lt::settings_pack::enable_lsd, false);
  out.set_bool(lt::settings_pack::enable_incoming_tcp, false);
  out.set_bool(lt::settings_pack::enable_outgoing_tcp, false);
  out.set_bool(lt::settings_pack::enable_incoming_utp, false);
  out.set_bool(lt::settings_pack::enable_outgoing_utp, false);
  out.set_bool(lt::settings_pack::enable_upnp, options.map_tcp_port.has_value());
  out.set_bool(lt::settings_pack::enable_natpmp, options.map_tcp_port.has_value());
  for (const int restriction :
       {lt::settings_pack::dht_restrict_routing_ips, lt::settings_pack::dht_restrict_search_ips,
        lt::settings_pack::dht_ignore_dark_internet, lt::settings_pack::dht_enforce_node_id,
        lt::settings_pack::dht_prefer_verified_node_ids})
    out.set_bool(restriction, options.public_dht);
  return out;
}

}  // namespace

struct DhtRendezvous::Impl {
  struct Query {
    lt::sha1_hash hash;
    std::optional<uint16_t> announce_port;
  };
  struct Meeting {
    Query query;
    TimePoint until;
    std::function<void(std::vector<std::string>)> found;
    std::set<std::string> told;
  };

  Impl(const DhtOptions& options, const Clock& c)
      : clock(c), nodes(options.nodes), session(lt::session_params(settings_of(options), {})) {}

  void serve(const std::stop_token& stop);
  void handle(const lt::alert* alert);
  void deliver(const lt::dht_get_peers_reply_alert& reply);
  void forget_old(TimePoint now);  // locked
  void call_nodes();
  void look_again();
  void ask(const Query& query);

  const Clock& clock;
  const std::vector<std::string> nodes;  // to begin with
  lt::session session;
  mutable std::mutex mutex;
  std::condition_variable_any changed;
  bool alerts = false;   // there are some to read
  uint16_t port = 0;     // 0: not open yet
  std::string no_port;   // why it cannot open
  size_t known = 0;      // nodes in the routing table
  bool reached = false;  // it was more than none once
  std::optional<TimePoint> first_meeting;
  int announcements = 0;
  TimePoint announce_at = TimePoint::min();
  std::list<Meeting> meetings;
  PortMapping mapping;
  std::jthread thread;  // last: it uses all the rest
};

void DhtRendezvous::Impl::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex);
      const bool any = changed.wait_for(lock, stop, kLookAgain, [this] { return alerts; });
      alerts = false;
      if (!any) {
        lock.unlock();
        look_again();
      }
    }
    std::vector<lt::alert*> batch;
    session.pop_alerts(&batch);
    for (const lt::alert* alert : batch) handle(alert);
  }
}

// A node that just started knows nobody to ask: what was sent then found nothing.
void DhtRendezvous::Impl::look_again() {
  std::vector<Query> queries;
  {
    const std::lock_guard lock(mutex);
    forget_old(clock.now());
    for (const Meeting& meeting : meetings)
      if (meeting.told.empty()) queries.push_back(meeting.query);
  }
  if (queries.empty()) return;
  session.post_dht_stats();
  for (const Query& query : queries) ask(query);
}

void DhtRendezvous::Impl::ask(const Query& query) {
  session.dht_get_peers(query.hash);
  if (query.announce_port) session.dht_announce(query.hash, *query.announce_port);
}

void DhtRendezvous::Impl::handle(const lt::alert* alert) {
  if (const auto* reply = lt::alert_cast<lt::dht_get_peers_reply_alert>(alert)) {
    deliver(*reply);
    return;
  }
  const std::lock_guard lock(mutex);
  if (const auto* open = lt::alert_cast<lt::listen_succeeded_alert>(alert)) {
    if (open->socket_type == lt::socket_type_t::utp) port = static_cast<uint16_t>(open->port);
  } else if (const auto* failed = lt::alert_cast<lt::listen_failed_alert>(alert)) {
    no_port = failed->message();
  } else if (const auto* stats = lt::alert_cast<lt::dht_stats_alert>(alert)) {
    known = 0;
    for (const auto& bucket : stats->routing_table) known += static_cast<size_t>(bucket.num_nodes);
    reached = reached || known > 0;
  } else if (const auto* mapped = lt::alert_cast<lt::portmap_alert>(alert)) {
    mapping.external_port = static_cast<uint16_t>(mapped->external_port);
    mapping.error.clear();
  } else if (const auto* unmapped = lt::alert_cast<lt::portmap_error_alert>(alert)) {
    if (!mapping.external_port) mapping.error = unmapped->error.message();
  }
  changed.notify_all();
}

void DhtRendezvous::Impl::deliver(const lt::dht_get_peers_reply_alert& reply) {
  std::vector<std::pair<std::function<void(std::vector<std::string>)>, std::vector<std::string>>>
      calls;
  {
    const std::lock_guard lock(mutex);
    forget_old(clock.now());
    for (Meeting& meeting : meetings) {
      if (meeting.query.hash != reply.info_hash) continue;
      std::vector<std::string> news;
      for (const lt::tcp::endpoint& endpoint : reply.peers()) {
        if (meeting.told.size() >= kMaxFound) break;
        const std::string address = text_of(endpoint);
        if (parse_dialable(address) && meeting.told.insert(address).second) news.push_back(address);
      }
      if (!news.empty()) calls.emplace_back(meeting.found, std::move(news));
    }
  }
  for (auto& [found, addresses] : calls) found(std::move(addresses));
}

void DhtRendezvous::Impl::forget_old(TimePoint now) {
  std::erase_if(meetings, [&](const Meeting& m) { return m.until <= now; });
}

void DhtRendezvous::Impl::call_nodes() {
  for (const std::string& node : nodes)
    if (const auto address = parse_dialable(node))
      session.add_dht_node({address->host, address->port});
}

DhtRendezvous::DhtRendezvous(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DhtRendezvous::~DhtRendezvous() {
  impl_->session.set_alert_notify({});
  impl_->thread.request_stop();
  impl_->thread.join();
}

Result<std::unique_ptr<DhtRendezvous>> DhtRendezvous::start(const DhtOptions& options,
                                                            const Clock& clock) {
  MEADOW_TRY_VOID(parse_address(options.listen));
  for (const std::string& node : options.nodes) MEADOW_TRY_VOID(parse_dialable(node));
  std::unique_ptr<DhtRendezvous> out(new DhtRendezvous(std::make_unique<Impl>(options, clock)));
  Impl& impl = *out->impl_;
  impl.thread = std::jthread([&impl](const std::stop_token& stop) { impl.serve(stop); });
  impl.call_nodes();
  impl.session.set_alert_notify([&impl] {
    const std::lock_guard lock(impl.mutex);
    impl.alerts = true;
    impl.changed.notify_all();
  });
  {
    std::unique_lock lock(impl.mutex);
    impl.changed.wait_for(lock, kListenLimit,
                          [&] { return impl.port != 0 || !impl.no_port.empty(); });
    if (impl.port == 0)
      return fail(Code::kUnavailable, "DHT: cannot listen on {}: {}; give --dht another port",
                  options.listen, impl.no_port.empty() ? "no answer" : impl.no_port);
    impl.mapping.asked = options.map_tcp_port.has_value();
  }
  if (options.map_tcp_port)
    impl.session.add_port_mapping(lt::portmap_protocol::tcp, *options.map_tcp_port,
                                  *options.map_tcp_port);
  return out;
}

void DhtRendezvous::meet(const Digest& key, const std::string& address, Deadline deadline,
                         std::function<void(std::vector<std::string>)> found) {
  const auto own = parse_dialable(address);
  Impl::Query query{hash_of(key), std::nullopt};
  {
    const std::lock_guard lock(impl_->mutex);
    const TimePoint now = impl_->clock.now();
    impl_->forget_old(now);
    if (impl_->meetings.size() >= kMaxMeetings) impl_->meetings.pop_front();
    if (!impl_->first_meeting) impl_->first_meeting = now;
    // a router that maps ports says which one others reach
    if (own && now >= impl_->announce_at)
      query.announce_port = impl_->mapping.external_port.value_or(own->port);
    if (query.announce_port && impl_->reached && ++impl_->announcements > kEagerAnnouncements)
      impl_->announce_at = now + kAnnouncePeriod;
    impl_->meetings.push_back({query, deadline.at(), std::move(found), {}});
  }
  // also later: they may come up after this one, or all be lost for a while
  if (nodes() < kFewNodes) impl_->call_nodes();
  impl_->session.post_dht_stats();
  impl_->ask(query);
}

std::vector<Unreachable> DhtRendezvous::unreachable() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->reached || !impl_->first_meeting ||
      impl_->clock.now() < *impl_->first_meeting + kUnreachableAfter)
    return {};
  return {{"DHT", Error{Code::kUnavailable,
                        "none of its nodes answers; are the addresses after --dht-node right, and "
                        "does UDP pass?"}}};
}

bool DhtRendezvous::reached() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->reached;
}

uint16_t DhtRendezvous::port() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->port;
}

size_t DhtRendezvous::nodes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->known;
}

PortMapping DhtRendezvous::port_mapping() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->mapping;
}

}  // namespace meadow::swarm::dht
